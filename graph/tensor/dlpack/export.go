package dlpack

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
)

// ExportOptions are the settings of an export.
type ExportOptions struct {
	ReadOnly bool   // nobody may write the storage
	Release  func() // called once when the consumer is done, on any thread: it must not block
}

// exported is a tensor that C code holds. It lies in Go's heap, whose objects do not move, and is kept by the table.
type exported struct {
	versioned Versioned
	managed   Managed
	words     []int64        // shape, then strides
	t         *tensor.Tensor // keeps the storage
	release   func()
}

// exports are the tensors that consumers hold, by the address that they have, and the deleter that they all share: a process
// has few C functions that call Go.
var exports struct {
	sync.Mutex
	held    map[uintptr]*exported
	deleter uintptr
}

// Export returns a managed tensor that shares t's storage, for C code to take: the address is handed to it as it is. The
// storage lives until the consumer calls the deleter, and is not freed, closed or written otherwise before; where nobody
// takes the tensor, Delete calls the deleter. Strides are always written. On the host the address is that of element 0, and
// the offset 0, since some consumers do not read it.
//
// The error wraps tensor.ErrDType for strings, and what t.Check returns.
func Export(t *tensor.Tensor, o *ExportOptions) (*Versioned, error) {
	e, d, err := newExported(t, o)
	if err != nil {
		return nil, err
	}
	e.versioned = Versioned{Major: Major, Minor: Minor, Tensor: d}
	if o != nil && o.ReadOnly {
		e.versioned.Flags |= ReadOnly
	}
	e.versioned.Deleter = e.keep(uintptr(unsafe.Pointer(&e.versioned)))
	return &e.versioned, nil
}

// ExportLegacy is Export for the struct without a version. It cannot say that the storage is read-only: then the error wraps
// tensor.ErrUnsupported.
func ExportLegacy(t *tensor.Tensor, o *ExportOptions) (*Managed, error) {
	if o != nil && o.ReadOnly {
		return nil, bad("flags", tensor.ErrUnsupported, "read-only in the struct without a version")
	}
	e, d, err := newExported(t, o)
	if err != nil {
		return nil, err
	}
	e.managed = Managed{Tensor: d}
	e.managed.Deleter = e.keep(uintptr(unsafe.Pointer(&e.managed)))
	return &e.managed, nil
}

func newExported(t *tensor.Tensor, o *ExportOptions) (*exported, Tensor, error) {
	if !dl.Supported {
		return nil, Tensor{}, &Error{Field: "deleter", Err: dl.ErrUnsupported}
	}
	if err := t.Check(); err != nil {
		return nil, Tensor{}, &Error{Field: "tensor", Err: err}
	}
	dt, ok := dataTypes[t.DType]
	if !ok {
		return nil, Tensor{}, bad("dtype", tensor.ErrDType, "%v", t.DType)
	}
	c := *t
	e := &exported{t: &c}
	if o != nil {
		e.release = o.Release
	}
	strides := t.Strides
	if strides == nil {
		strides = tensor.CompactStrides(t.Shape)
	}
	for _, x := range slices.Concat(t.Shape, strides) {
		e.words = append(e.words, int64(x))
	}
	d := Tensor{Device: t.Device, NDim: int32(len(t.Shape)), DType: dt}
	if rank := len(t.Shape); rank > 0 {
		d.Shape, d.Strides = uintptr(unsafe.Pointer(&e.words[0])), uintptr(unsafe.Pointer(&e.words[rank]))
	}
	if !t.Device.IsHost() {
		d.Data, d.ByteOffset = t.Handle, uint64(t.Offset)
		return e, d, nil
	}
	d.Device.Type = tensor.Host
	if t.Len() > 0 {
		d.Data = uintptr(unsafe.Pointer(&t.Data[t.Offset]))
	}
	return e, d, nil
}

// keep notes that a consumer has the tensor at an address, and returns the deleter.
func (e *exported) keep(at uintptr) uintptr {
	exports.Lock()
	defer exports.Unlock()
	if exports.held == nil {
		exports.held = map[uintptr]*exported{}
		exports.deleter = dl.Callback(func(at uintptr) uintptr {
			remove(at)
			return 0
		})
	}
	exports.held[at] = e
	return exports.deleter
}

// remove is the deleter. What is not in the table was given back before.
func remove(at uintptr) {
	exports.Lock()
	e := exports.held[at]
	delete(exports.held, at)
	exports.Unlock()
	if e != nil && e.release != nil {
		e.release()
	}
}

// Exports returns how many exported tensors consumers have not given back.
func Exports() int {
	exports.Lock()
	defer exports.Unlock()
	return len(exports.held)
}

// Delete calls the deleter, for a managed tensor that nobody takes.
func (m *Versioned) Delete() { call(m.Deleter, uintptr(unsafe.Pointer(m))) }

// Delete calls the deleter, for a managed tensor that nobody takes.
func (m *Managed) Delete() { call(m.Deleter, uintptr(unsafe.Pointer(m))) }

func call(deleter, self uintptr) {
	if deleter != 0 {
		dl.Call(deleter, self)
	}
}
