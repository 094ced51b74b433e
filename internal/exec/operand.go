package exec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// Operand is an input or output of a run as the caller has it: a tensor, and what a tensor does not say.
type Operand struct {
	*tensor.Tensor
	// Layout is that of the storage. Strides are for row-major alone.
	Layout graph.Layout
	// Ready, where it is not nil, happens when the storage may be read, or written if it is an output's. It stays the
	// caller's to close.
	Ready device.Event
	// Release gives back the storage of an output that Session.Run has left on a device.
	Release func()
}

// format is where and how the storage lies.
func (o *Operand) format() graph.Format {
	return graph.Format{Device: o.Device.Canonical(), Layout: o.Layout}
}

// plain reports whether the storage is as all of the host reads it: there already, compact, row-major, aligned for its dtype.
func (o *Operand) plain() bool {
	return o.Ready == nil && o.Device.IsHost() && o.Layout.IsRowMajor() &&
		(o.DType == tensor.String || o.IsCompact() && !Misaligned(o.Tensor))
}

// fault is what is wrong with an operand, for a PortError.
type fault struct{ problem, expected, found string }

// checkOperand compares an operand with its port. It is nil where they fit.
func (m *Machine) checkOperand(v *graph.Value, o *Operand) *fault {
	if x := checkTensor(v, o); x != nil || o.Device.IsHost() && o.Layout.IsRowMajor() {
		return x
	}
	if m.env.Transfer.Devices[o.Device.Canonical()] == nil {
		return &fault{"on a device that no backend of the program has", "", o.Device.String()}
	}
	return m.checkStorage(o)
}

// checkTensor is checkOperand but for storage that is not the host's, or not row-major.
func checkTensor(v *graph.Value, o *Operand) *fault {
	t := o.Tensor
	if t == nil {
		return &fault{"missing", v.Type.String(), "nothing"}
	}
	if t.DType != v.Type.DType && v.Type.DType != tensor.Invalid {
		return &fault{"wrong dtype", v.Type.DType.Name(), t.DType.Name()}
	}
	if o.Layout.IsRowMajor() {
		if err := t.Check(); err != nil {
			return &fault{err.Error(), v.Type.String(), t.String()}
		}
	}
	if !fitsShape(v.Type.Shape, t.Shape) {
		return &fault{"wrong shape", v.Type.Shape.String(), fmt.Sprint(t.Shape)}
	}
	return nil
}

// fitsShape reports whether a shape may be the port's.
func fitsShape(want graph.Shape, got []int) bool {
	if !want.Known() {
		return true
	}
	if len(want) != len(got) {
		return false
	}
	for k, d := range want {
		if c, isConst := d.Const(); isConst && int(c) != got[k] {
			return false
		}
	}
	return true
}

// checkStorage looks at what tensor.Check leaves out: storage on devices, and in other layouts than row-major.
func (m *Machine) checkStorage(o *Operand) *fault {
	t := o.Tensor
	bad := func(err error) *fault { return &fault{err.Error(), "", t.String() + " in " + o.format().String()} }
	if !t.DType.Valid() || t.DType == tensor.String {
		return &fault{"neither on a device nor in a layout of its own can be", "", t.DType.Name()}
	}
	if _, err := tensor.NumElements(t.Shape); err != nil {
		return bad(err)
	}
	if t.Strides != nil && (len(t.Strides) != len(t.Shape) || !o.Layout.IsRowMajor() || t.DType.IsPacked()) && !t.IsCompact() {
		return &fault{"strides that do not go with the layout, rank or dtype", "", fmt.Sprint(t.Strides)}
	}
	size, err := m.env.Transfer.Registry.Size(o.format(), t.DType, t.Shape)
	if err != nil {
		return bad(err)
	}
	if t.Strides != nil {
		if size, err = extent(t); err != nil {
			return bad(err)
		}
	}
	if t.Offset < 0 || t.Device.IsHost() && size > int64(len(t.Data)-t.Offset) {
		return bad(fmt.Errorf("%w: %d bytes are needed, storage has %d from offset %d", tensor.ErrShape, size, max(len(t.Data)-t.Offset, 0), t.Offset))
	}
	return nil
}

// extent returns how many bytes lie between the beginning of the first and the end of the last element of a row-major tensor.
func extent(t *tensor.Tensor) (int64, error) {
	n, err := tensor.NumElements(t.Shape)
	if err != nil || n == 0 {
		return 0, err
	}
	if t.Strides == nil {
		return int64(t.DType.Bytes(n)), nil
	}
	last := 0
	for i, s := range t.Strides {
		if s < 0 || t.Shape[i] > 1 && s > math.MaxInt64/64/t.Shape[i] {
			return 0, fmt.Errorf("%w: stride %d", tensor.ErrShape, s)
		}
		if last += s * (t.Shape[i] - 1); last > math.MaxInt64/64 {
			return 0, fmt.Errorf("%w: strides %v of %v", tensor.ErrTooLarge, t.Strides, t.Shape)
		}
	}
	return int64(t.DType.Bytes(last + 1)), nil
}

// bytes returns what an operand's storage takes from its element 0 on.
func (m *Machine) bytes(o *Operand) int64 {
	if t := o.Tensor; o.Layout.IsRowMajor() {
		n, _ := extent(t) // it was checked
		return n
	}
	n, _ := m.env.Transfer.Registry.Size(o.format(), o.DType, o.Shape)
	return n
}

// disjoint reports whether no two elements of a row-major tensor share memory: dims, from the one with the shortest stride
// on, step over everything inside of them. What is disjoint in another way is not recognised.
func disjoint(t *tensor.Tensor) bool {
	if t.Strides == nil {
		return true
	}
	order := make([]int, 0, 8)
	for i, n := range t.Shape {
		if n == 0 {
			return true
		}
		if n > 1 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(t.Strides[a], t.Strides[b]) })
	reach := 0 // the last element of the dims so far
	for _, i := range order {
		if t.Strides[i] <= reach {
			return false
		}
		reach += t.Strides[i] * (t.Shape[i] - 1)
	}
	return true
}

// Misaligned reports whether a host tensor lies at an address that is unfit for its dtype.
func Misaligned(t *tensor.Tensor) bool { return !alignedTo(t, 1) }

// alignedTo reports whether element 0 lies at a multiple of n bytes and is fit for its dtype: in the address space of the
// host, elsewhere from the beginning of its block.
func alignedTo(t *tensor.Tensor, n int64) bool {
	if size := int64(t.DType.Size()); size > 1 {
		n = max(n, min(size, 8))
	}
	if n <= 1 {
		return true
	}
	if !t.Device.IsHost() {
		return int64(t.Offset)%n == 0
	}
	if t.Offset >= len(t.Data) { // nothing is read
		return true
	}
	return int64(uintptr(unsafe.Pointer(&t.Data[t.Offset]))%uintptr(n)) == 0
}

// overlap reports whether the storage of two operands has a byte in common. Handles of a device have no arithmetic: blocks of
// two handles are two.
func (m *Machine) overlap(a, b *Operand) bool {
	if a.Device.Canonical() != b.Device.Canonical() || a.DType == tensor.String || b.DType == tensor.String {
		return false
	}
	na, nb := m.bytes(a), m.bytes(b)
	if na == 0 || nb == 0 {
		return false
	}
	from, other := int64(a.Offset), int64(b.Offset)
	if a.Device.IsHost() {
		p, q := unsafe.Pointer(&a.Data[a.Offset]), unsafe.Pointer(&b.Data[b.Offset])
		return uintptr(p) < uintptr(q)+uintptr(nb) && uintptr(q) < uintptr(p)+uintptr(na)
	}
	return a.Handle == b.Handle && from < other+nb && other < from+na
}
