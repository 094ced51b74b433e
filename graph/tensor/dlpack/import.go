package dlpack

import (
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
)

// Imported is a tensor in another library's memory, until Close. It is safe for concurrent use, but for Close.
type Imported struct {
	t         *tensor.Tensor
	device    tensor.DeviceID
	readOnly  bool
	copied    bool
	alignment int

	mu      sync.Mutex
	deleter uintptr
	self    uintptr // what the deleter is called with
}

// Import takes a managed tensor over from C code. Its deleter is called by Close, or before Import returns where that gives
// an error. The error is an *Error that names the field, and wraps ErrVersion, tensor.ErrShape, tensor.ErrDType,
// tensor.ErrTooLarge or tensor.ErrUnsupported.
//
// The tensor lies where the producer has it, with its strides; device memory is an opaque handle. What a tensor.Tensor
// cannot say, strides below 0 and elements of less than a byte with strides or with a byte each, is copied to Go's memory,
// where it is the host's. What the fields claim to be memory is believed: it cannot be checked.
func Import(m *Versioned) (*Imported, error) {
	if m == nil {
		return nil, bad("tensor", tensor.ErrShape, "NULL")
	}
	in, err := newImported(m.Deleter, uintptr(unsafe.Pointer(m)))
	if err != nil {
		return nil, err
	}
	if m.Major != Major { // nothing of it but the deleter is where it was
		in.Close()
		return nil, bad("version", ErrVersion, "%d.%d, expected %d", m.Major, m.Minor, Major)
	}
	in.readOnly, in.copied = m.Flags&ReadOnly != 0, m.Flags&Copied != 0
	return in.of(&m.Tensor, m.Flags)
}

// ImportLegacy is Import for the struct without a version.
func ImportLegacy(m *Managed) (*Imported, error) {
	if m == nil {
		return nil, bad("tensor", tensor.ErrShape, "NULL")
	}
	in, err := newImported(m.Deleter, uintptr(unsafe.Pointer(m)))
	if err != nil {
		return nil, err
	}
	return in.of(&m.Tensor, 0)
}

func newImported(deleter, self uintptr) (*Imported, error) {
	if !dl.Supported {
		return nil, &Error{Field: "deleter", Err: dl.ErrUnsupported}
	}
	return &Imported{deleter: deleter, self: self}, nil
}

// of makes the tensor; where it cannot, the managed tensor is given back.
func (in *Imported) of(t *Tensor, flags uint64) (*Imported, error) {
	err := in.take(t, flags)
	if err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

func (in *Imported) take(t *Tensor, flags uint64) error {
	v, err := t.look(flags)
	if err != nil {
		return err
	}
	in.device, in.alignment = t.Device, alignment(t.Data+uintptr(t.ByteOffset))
	if !v.inPlace() && v.n > 0 {
		if !v.device.IsHost() {
			return bad("strides", tensor.ErrUnsupported, "%v of %v%v on %v", v.strides, v.dtype, v.shape, t.Device)
		}
		in.t, err = v.gather(t.Data + uintptr(t.ByteOffset))
		if err != nil {
			return &Error{Field: "shape", Err: err}
		}
		in.copied, in.readOnly, in.alignment = true, false, tensor.Alignment
		return nil
	}
	in.t = &tensor.Tensor{DType: v.dtype, Shape: v.shape, Strides: v.strides, Device: v.device}
	switch {
	case !v.device.IsHost():
		in.t.Handle, in.t.Offset = t.Data, int(t.ByteOffset)
	case v.n == 0:
		in.t.Data, in.t.Strides = []byte{}, nil
	default:
		in.t.Offset = int(t.ByteOffset)
		in.t.Data = unsafe.Slice((*byte)(pointer(t.Data)), in.t.Offset+v.bytes())
	}
	return nil
}

// Tensor returns the tensor, in the producer's memory. After Close it has no storage.
func (in *Imported) Tensor() *tensor.Tensor { return in.t }

// Device returns the memory space as the producer names it: pinned memory of the host has a type of its own there, while the
// Tensor is on the host.
func (in *Imported) Device() tensor.DeviceID { return in.device }

// ReadOnly reports whether nobody may write the storage. The older struct does not say so.
func (in *Imported) ReadOnly() bool { return in.readOnly }

// Copied reports whether the storage is a copy, made by the producer or by Import.
func (in *Imported) Copied() bool { return in.copied }

// Alignment returns the largest power of two, up to 4096, that divides the address of element 0, in bytes. DLPack asks for
// 256, which producers do not keep.
func (in *Imported) Alignment() int { return in.alignment }

// Close calls the producer's deleter, which it does once, however often it is called. Nobody may use the storage then: the
// Tensor has none any more, copies of it still point there. It returns nil.
func (in *Imported) Close() error {
	in.mu.Lock()
	deleter := in.deleter
	in.deleter = 0
	if in.t != nil {
		in.t.Data, in.t.Handle = nil, 0
	}
	in.mu.Unlock()
	call(deleter, in.self)
	return nil
}
