package dlpack

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
)

// Bounds of what is believed: more dims, or elements, than any tensor has are a fault of the producer.
const (
	maxDims  = 64
	maxWords = 1 << 46
)

// view is what the fields of a Tensor say, checked.
type view struct {
	device  tensor.DeviceID // the zero DeviceID for what the host reads
	dtype   tensor.DType
	shape   []int
	strides []int // of dims of at least two elements, also negative ones; nil where compact
	n       int   // elements
	last    int   // largest distance of an element from element 0, in elements
	first   int   // smallest one: at most 0
	padded  bool  // a byte for each element that is smaller
}

// pointer returns an address of C's as a pointer.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// words returns n int64 at an address.
func words(p uintptr, n int32) []int64 { return slices.Clone(unsafe.Slice((*int64)(pointer(p)), n)) }

// look checks the fields of t. Shape and strides are read, the elements are not.
func (t *Tensor) look(flags uint64) (view, error) {
	v := view{device: t.Device}
	switch {
	case t.Device.Type <= 0:
		return v, bad("device.device_type", tensor.ErrUnsupported, "%d", t.Device.Type)
	case t.Device.Index < 0:
		return v, bad("device.device_id", tensor.ErrUnsupported, "%d", t.Device.Index)
	case t.Device.IsHost() || t.Device.Type == cudaHost || t.Device.Type == rocmHost:
		v.device = tensor.DeviceID{}
	}
	var ok bool
	if v.dtype, ok = dtypes[t.DType]; !ok {
		return v, bad("dtype", tensor.ErrDType, "code %d of %d bits, %d lanes", t.DType.Code, t.DType.Bits, t.DType.Lanes)
	}
	v.padded = flags&Padded != 0 && v.dtype.IsPacked()
	if t.NDim < 0 || t.NDim > maxDims {
		return v, bad("ndim", tensor.ErrShape, "%d, expected 0 to %d", t.NDim, maxDims)
	}
	if t.NDim > 0 && t.Shape == 0 {
		return v, bad("shape", tensor.ErrShape, "NULL for %d dims", t.NDim)
	}
	if err := v.dims(t); err != nil {
		return v, err
	}
	if t.Strides != 0 && t.NDim > 0 {
		if err := v.spread(words(t.Strides, t.NDim)); err != nil {
			return v, err
		}
	}
	if v.n > 0 && t.Data == 0 {
		return v, bad("data", tensor.ErrShape, "NULL for %v%v", v.dtype, v.shape)
	}
	if t.ByteOffset > maxWords {
		return v, bad("byte_offset", tensor.ErrTooLarge, "%d", t.ByteOffset)
	}
	if end := uint64(t.Data) + t.ByteOffset + uint64(v.bytes()); v.n > 0 && (end < uint64(t.Data) || end != uint64(uintptr(end))) {
		return v, bad("data", tensor.ErrTooLarge, "%v%v reaches beyond all memory", v.dtype, v.shape)
	}
	if uint64(-v.first)*uint64(max(v.dtype.Size(), 1)) > uint64(t.Data)+t.ByteOffset {
		return v, bad("strides", tensor.ErrTooLarge, "%v of %v reach below all memory", v.strides, v.shape)
	}
	return v, nil
}

// dims reads the shape.
func (v *view) dims(t *Tensor) error {
	v.shape = make([]int, t.NDim)
	var list []int64
	if t.NDim > 0 {
		list = words(t.Shape, t.NDim)
	}
	v.n = 1
	for i, d := range list {
		if d < 0 {
			return bad(fmt.Sprintf("shape[%d]", i), tensor.ErrShape, "%d", d)
		}
		if d > maxWords {
			return bad(fmt.Sprintf("shape[%d]", i), tensor.ErrTooLarge, "%d", d)
		}
		v.shape[i] = int(d)
	}
	var err error
	if v.n, err = tensor.NumElements(v.shape); err != nil || v.n > maxWords {
		return bad("shape", tensor.ErrTooLarge, "%d", list)
	}
	v.last = max(v.n-1, 0)
	return nil
}

// spread takes strides, which reach no further than maxWords.
func (v *view) spread(list []int64) error {
	compact := tensor.CompactStrides(v.shape)
	v.strides = make([]int, len(list))
	if v.n == 0 {
		v.strides = nil
		return nil
	}
	first, last := 0, 0
	for i, s := range list {
		steps := int64(v.shape[i] - 1)
		if steps == 0 { // it is never taken
			v.strides[i] = compact[i]
			continue
		}
		if s < -maxWords/steps || s > maxWords/steps {
			return bad(fmt.Sprintf("strides[%d]", i), tensor.ErrTooLarge, "%d for %d elements", s, steps+1)
		}
		v.strides[i] = int(s)
		if s < 0 {
			first += int(s * steps)
		} else {
			last += int(s * steps)
		}
		if last-first > maxWords {
			return bad(fmt.Sprintf("strides[%d]", i), tensor.ErrTooLarge, "%d for %v", list, v.shape)
		}
	}
	v.first, v.last = first, last
	if slices.Equal(v.strides, compact) {
		v.strides = nil
	}
	return nil
}

// bytes is how far the elements reach from the beginning of element 0 on.
func (v *view) bytes() int {
	if v.n == 0 {
		return 0
	}
	if v.padded {
		return v.last + 1
	}
	return v.dtype.Bytes(v.last + 1)
}

// inPlace reports whether a tensor.Tensor can say how the elements lie.
func (v *view) inPlace() bool {
	return v.first >= 0 && !v.padded && (v.strides == nil || !v.dtype.IsPacked())
}

// gather copies the elements, of which element 0 lies at an address of the host's, to Go's memory.
func (v *view) gather(at uintptr) (*tensor.Tensor, error) {
	out, err := tensor.New(v.dtype, v.shape...)
	if err != nil {
		return nil, err
	}
	strides := v.strides
	if strides == nil {
		strides = tensor.CompactStrides(v.shape)
	}
	width := v.dtype.Bits()
	step := width
	if v.padded {
		step = 8
	}
	index, o := make([]int, len(v.shape)), 0
	for i := range v.n {
		bit := o * step
		from := (*byte)(unsafe.Add(pointer(at), bit>>3))
		if width >= 8 {
			copy(out.Data[i*width/8:(i+1)*width/8], unsafe.Slice(from, width/8))
		} else {
			element := *from >> (bit & 7) & (1<<width - 1)
			out.Data[i*width/8] |= element << (i * width & 7)
		}
		for k := len(index) - 1; k >= 0; k-- {
			if index[k]++; index[k] < v.shape[k] {
				o += strides[k]
				break
			}
			o -= (v.shape[k] - 1) * strides[k]
			index[k] = 0
		}
	}
	return out, nil
}

// alignment returns the largest power of two, up to a page, that divides an address.
func alignment(p uintptr) int { return 1 << min(bits.TrailingZeros64(uint64(p)), 12) }
