package tensor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/internal/wire"
)

// DeviceType is the kind of a memory space, numbered as DLPack's DLDeviceType.
type DeviceType int32

// The device types that carve itself names; others are carried as they are.
const (
	Host   DeviceType = 1 // DLPack's kDLCPU; also the zero DeviceID's meaning
	CUDA   DeviceType = 2
	OpenCL DeviceType = 4
	ExtDev DeviceType = 12 // devices of plug-ins and examples
)

// DeviceID names one memory space: DLPack's type and index. The zero DeviceID is the host.
type DeviceID struct {
	Type  DeviceType
	Index int32
}

// IsHost reports whether the memory space is the host's.
func (d DeviceID) IsHost() bool { return d.Type == 0 || d.Type == Host }

// Canonical returns d as a key: the zero value for every way of saying the host.
func (d DeviceID) Canonical() DeviceID {
	if d.IsHost() {
		return DeviceID{}
	}
	return d
}

// String returns "host", "cuda:0", "opencl:0" or "device12:0".
func (d DeviceID) String() string {
	switch d.Type {
	case 0, Host:
		return "host"
	case CUDA:
		return fmt.Sprintf("cuda:%d", d.Index)
	case OpenCL:
		return fmt.Sprintf("opencl:%d", d.Index)
	case ExtDev: // has no name
	}
	return fmt.Sprintf("device%d:%d", int32(d.Type), d.Index)
}

// Alignment is the default alignment in bytes of storage that carve allocates, DLPack's.
const Alignment = 256

// Tensor is a view of storage on one device. It does not own the storage. On the host the storage is Data; on other
// devices it is the opaque Handle, which has no arithmetic: element 0 is Offset bytes behind it.
//
// Elements of a String tensor are in Strings (row-major), and Data is nil.
//
// A Tensor is safe for concurrent reads. Writers of the storage synchronise among themselves.
type Tensor struct {
	DType   DType
	Shape   []int    // logical dims; empty for a scalar
	Strides []int    // in elements; nil means compact row-major
	Device  DeviceID // where the storage lies
	Data    []byte   // host storage
	Handle  uintptr  // storage on other devices
	Offset  int      // bytes from the start of the storage to element 0
	Strings []string // elements of a String tensor
}

// Errors of this package, for errors.Is.
var (
	ErrShape       = errors.New("shape and storage disagree")
	ErrDType       = errors.New("wrong dtype")
	ErrTooLarge    = errors.New("too large")
	ErrNotHost     = errors.New("storage is not on the host")
	ErrNotCompact  = errors.New("tensor is not compact row-major")
	ErrUnsupported = errors.New("not supported")
	ErrSyntax      = wire.ErrSyntax
	ErrTruncated   = wire.ErrTruncated
)

// maxElements is the most that a shape may have: so many of the largest, of 16 bytes, are less than 2^63 bytes.
const maxElements = math.MaxInt64 / 16

// NumElements returns the product of dims, or an error wrapping ErrTooLarge where it overflows or a dim is negative.
func NumElements(dims []int) (int, error) {
	n, zero := 1, false
	for _, d := range dims {
		switch {
		case d < 0:
			return 0, fmt.Errorf("%w: dim %d of shape %v is negative", ErrTooLarge, d, slices.Clone(dims)) // a clone: callers' dims need no heap
		case d == 0:
			zero = true
		case n > maxElements/d:
			return 0, fmt.Errorf("%w: shape %v has more than %d elements", ErrTooLarge, slices.Clone(dims), maxElements)
		default:
			n *= d
		}
	}
	if zero {
		return 0, nil
	}
	return n, nil
}

// New returns a compact host tensor of zeros in memory managed by Go, aligned to
// Alignment. The shape is copied. Where the shape cannot be allocated, or is more than the memory that is left, it returns
// an error wrapping ErrTooLarge.
func New(dt DType, shape ...int) (*Tensor, error) {
	if !dt.Valid() {
		return nil, fmt.Errorf("%w: %v", ErrDType, dt)
	}
	n, err := NumElements(shape)
	if err != nil {
		return nil, err
	}
	t := &Tensor{DType: dt, Shape: append([]int{}, shape...)}
	if dt == String {
		if !offheap.Fits(int64(n) * 16) { // a string header each
			return nil, fmt.Errorf("%w: shape %v of %v needs %d bytes, %d are left", ErrTooLarge, shape, dt, int64(n)*16, offheap.Available())
		}
		t.Strings = make([]string, n)
		return t, nil
	}
	b := dt.Bytes(n)
	if b < 0 {
		return nil, fmt.Errorf("%w: shape %v of %v", ErrTooLarge, shape, dt)
	}
	if !offheap.Fits(int64(b)) {
		return nil, fmt.Errorf("%w: shape %v of %v needs %d bytes, %d are left", ErrTooLarge, shape, dt, b, offheap.Available())
	}
	t.Data = alignedBytes(b)
	return t, nil
}

// alignedBytes returns n zero bytes at a boundary of Alignment.
func alignedBytes(n int) []byte {
	if n == 0 {
		return []byte{}
	}
	const small = 32 << 10 // what is larger begins at a page
	if n > small {
		if buf := make([]byte, n); uintptr(unsafe.Pointer(&buf[0]))%Alignment == 0 {
			return buf
		}
	}
	buf := make([]byte, n+Alignment-1)
	off := int(-uintptr(unsafe.Pointer(&buf[0])) & (Alignment - 1))
	return buf[off : off+n : off+n]
}

// Len returns the number of elements. The shape must have been validated (see Check).
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Rank returns the number of dims.
func (t *Tensor) Rank() int { return len(t.Shape) }

// NumBytes returns the bytes of a compact tensor of this dtype and shape.
func (t *Tensor) NumBytes() int { return t.DType.Bytes(t.Len()) }

// IsCompact reports whether the elements lie in row-major order without gaps.
func (t *Tensor) IsCompact() bool {
	if t.Strides == nil {
		return true
	}
	want := 1
	for i := len(t.Shape) - 1; i >= 0; i-- {
		if t.Shape[i] == 0 {
			return true
		}
		if t.Shape[i] != 1 && t.Strides[i] != want {
			return false
		}
		want *= t.Shape[i]
	}
	return true
}

// Check reports whether the tensor is well formed: a valid dtype, dims that multiply without overflow, strides of the
// same rank, and host storage long enough for every element. The error wraps ErrDType, ErrTooLarge or ErrShape, the last
// for a nil tensor too.
func (t *Tensor) Check() error {
	if t == nil {
		return fmt.Errorf("%w: tensor is nil", ErrShape)
	}
	if !t.DType.Valid() {
		return fmt.Errorf("%w: %v", ErrDType, t.DType)
	}
	n, err := NumElements(t.Shape)
	if err != nil {
		return err
	}
	if t.Strides != nil && len(t.Strides) != len(t.Shape) {
		return fmt.Errorf("%w: %d strides for rank %d", ErrShape, len(t.Strides), len(t.Shape))
	}
	if t.DType == String {
		if len(t.Strings) < n {
			return fmt.Errorf("%w: %v needs %d strings, storage has %d", ErrShape, t.Shape, n, len(t.Strings))
		}
		return nil
	}
	if !t.Device.IsHost() || n == 0 {
		return nil
	}
	last := n - 1
	if t.Strides != nil {
		last = 0
		for i, s := range t.Strides {
			if s < 0 || (t.Shape[i] > 1 && s > maxElements/t.Shape[i]) {
				return fmt.Errorf("%w: stride %d of %v, which has to be from 0 to %d", ErrShape, s, t.Shape, maxElements/max(t.Shape[i], 1))
			}
			if last += s * (t.Shape[i] - 1); last > maxElements {
				return fmt.Errorf("%w: strides %v of %v reach beyond %d elements", ErrTooLarge, t.Strides, t.Shape, maxElements)
			}
		}
		if t.DType.IsPacked() && !t.IsCompact() {
			return fmt.Errorf("%w: packed dtype %v with strides", ErrUnsupported, t.DType)
		}
	}
	need := t.DType.Bytes(last + 1)
	if need < 0 || t.Offset < 0 || t.Offset > len(t.Data) || need > len(t.Data)-t.Offset {
		return fmt.Errorf("%w: %v %v needs %d bytes, storage has %d from offset %d", ErrShape, t.DType, t.Shape, need, max(len(t.Data)-t.Offset, 0), t.Offset)
	}
	return nil
}

// Bytes returns the host storage of a compact tensor, from element 0, cut to its size. It is nil for other tensors.
func (t *Tensor) Bytes() []byte {
	if !t.Device.IsHost() || !t.IsCompact() || t.DType == String {
		return nil
	}
	n := t.NumBytes()
	if n == 0 {
		return []byte{}
	}
	return t.Data[t.Offset : t.Offset+n]
}

// Element is a Go type that stores elements of a tensor as they are. Bool tensors are read as bool or uint8, the
// 16-bit floats as uint16.
type Element interface {
	~float32 | ~float64 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~bool | ~complex64 | ~complex128
}

// Of returns the elements of a compact host tensor as a slice of T that shares its storage. T must have the size of the
// dtype's elements, and the storage must be aligned for it (files may hold unaligned tensors: see Clone); otherwise Of
// returns nil. It costs no allocation.
func Of[T Element](t *Tensor) []T {
	b := t.Bytes()
	var z T
	if b == nil || int(unsafe.Sizeof(z)) != t.DType.Size() {
		return nil
	}
	if len(b) == 0 {
		return []T{}
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%unsafe.Alignof(z) != 0 {
		return nil
	}
	return unsafe.Slice((*T)(p), len(b)/int(unsafe.Sizeof(z)))
}

// From returns a compact host tensor that shares the storage of data. The shape is copied; without a shape the tensor
// is a vector. It panics where shape and data disagree, which is a programmer's error.
func From[T Element](data []T, shape ...int) *Tensor {
	if shape == nil {
		shape = []int{len(data)}
	}
	n, err := NumElements(shape)
	if err != nil || n != len(data) {
		panic(fmt.Sprintf("tensor: %d elements for shape %v", len(data), shape))
	}
	t := &Tensor{DType: DTypeOf[T](), Shape: append([]int{}, shape...), Data: []byte{}}
	if n > 0 {
		var z T
		t.Data = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), n*int(unsafe.Sizeof(z)))
	}
	return t
}

// Scalar returns a tensor of rank 0 that holds v.
func Scalar[T Element](v T) *Tensor { return From([]T{v}, []int{}...) }

// FromStrings returns a String tensor that shares data.
func FromStrings(data []string, shape ...int) *Tensor {
	if shape == nil {
		shape = []int{len(data)}
	}
	return &Tensor{DType: String, Shape: append([]int{}, shape...), Strings: data}
}

// DTypeOf returns the dtype whose elements are stored as T.
func DTypeOf[T Element]() DType {
	var z T
	switch any(z).(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case bool:
		return Bool
	case complex64:
		return Complex64
	case complex128:
		return Complex128
	}
	return Invalid
}

// View returns a tensor of another shape over the same storage. The tensor must be compact and the number of elements
// the same; otherwise the error wraps ErrNotCompact or ErrShape.
func (t *Tensor) View(shape ...int) (*Tensor, error) {
	if !t.IsCompact() {
		return nil, ErrNotCompact
	}
	n, err := NumElements(shape)
	if err != nil {
		return nil, err
	}
	if n != t.Len() {
		return nil, fmt.Errorf("%w: %v has %d elements, viewed as %v with %d", ErrShape, t.Shape, t.Len(), shape, n)
	}
	v := *t
	v.Shape, v.Strides = append([]int{}, shape...), nil
	return &v, nil
}

// Clone returns a compact host copy in memory managed by Go. Host tensors with strides are gathered; tensors on other
// devices give ErrNotHost.
func (t *Tensor) Clone() (*Tensor, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if !t.Device.IsHost() {
		return nil, ErrNotHost
	}
	c, err := New(t.DType, t.Shape...)
	if err != nil {
		return nil, err
	}
	if t.IsCompact() {
		copy(c.Strings, t.Strings)
		copy(c.Data, t.Bytes())
		return c, nil
	}
	outer, run := t.runs()
	size, idx := t.DType.Size(), make([]int, outer)
	for i, n := 0, t.Len(); i < n; i += run {
		src := 0
		for a, k := range idx {
			src += k * t.Strides[a]
		}
		if t.DType == String {
			copy(c.Strings[i:i+run], t.Strings[src:])
		} else {
			copy(c.Data[i*size:(i+run)*size], t.Data[t.Offset+src*size:])
		}
		for a := outer - 1; a >= 0; a-- {
			if idx[a]++; idx[a] < t.Shape[a] {
				break
			}
			idx[a] = 0
		}
	}
	return c, nil
}

// runs returns how many elements lie next to each other along the innermost axes, and how many axes are outside of these.
func (t *Tensor) runs() (outer, run int) {
	outer, run = len(t.Shape), 1
	for outer > 0 && (t.Shape[outer-1] == 1 || t.Strides[outer-1] == run) {
		outer--
		run *= t.Shape[outer]
	}
	return outer, run
}

// Slice returns the view of t that keeps [lo, hi) of an axis and everything of the others. It copies nothing.
func (t *Tensor) Slice(axis, lo, hi int) (*Tensor, error) {
	if axis < 0 || axis >= len(t.Shape) || lo < 0 || hi < lo || hi > t.Shape[axis] {
		return nil, fmt.Errorf("%w: [%d:%d) of axis %d of %v", ErrShape, lo, hi, axis, t.Shape)
	}
	if t.DType == String || t.DType.IsPacked() {
		return nil, fmt.Errorf("%w: slice of %v", ErrUnsupported, t.DType)
	}
	v := *t
	v.Shape = append([]int{}, t.Shape...)
	v.Strides = t.Strides
	if v.Strides == nil {
		v.Strides = CompactStrides(t.Shape)
	}
	v.Shape[axis] = hi - lo
	v.Offset += lo * v.Strides[axis] * t.DType.Size()
	if v.IsCompact() {
		v.Strides = nil
	}
	return &v, nil
}

// CompactStrides returns the strides, in elements, of a compact row-major tensor.
func CompactStrides(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// String returns dtype and shape, such as "f32[1,3,224,224]".
func (t *Tensor) String() string {
	s := t.DType.String() + "["
	for i, d := range t.Shape {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprint(d)
	}
	return s + "]"
}
