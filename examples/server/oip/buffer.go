package oip

import (
	"math/bits"
	"sync"

	"github.com/carve-dev/carve/graph/tensor"
)

// buffers keeps memory of inputs between requests, by the power of two of its size.
var buffers [31]sync.Pool

// smallest is the power of two below which buffers are not told apart.
const smallest = 9

// NewTensor returns a tensor of a request's shape, whose elements are whatever was there before, in memory that Recycle gives back.
// Strings are set by the caller. The product of the shape must have been looked at (see Shape).
func NewTensor(dt tensor.DType, shape []int, n int) (*tensor.Tensor, error) {
	size := dt.Bytes(n)
	class := max(bits.Len(uint(max(size-1, 0))), smallest)
	if dt == tensor.String {
		return &tensor.Tensor{DType: dt, Shape: shape}, nil
	}
	if class < len(buffers) {
		if t, ok := buffers[class].Get().(*tensor.Tensor); ok {
			*t = tensor.Tensor{DType: dt, Shape: shape, Data: t.Data[:size]}
			return t, nil
		}
		size = 1 << class
	}
	t, err := tensor.New(tensor.Uint8, size)
	if err != nil {
		return nil, &Error{Code: Unavailable, Message: err.Error(), Err: err}
	}
	return &tensor.Tensor{DType: dt, Shape: shape, Data: t.Data[:dt.Bytes(n)]}, nil
}

// Recycle gives the memory of a request's tensors back. Nothing may use them any more.
func (r *Request) Recycle() {
	for i := range r.Inputs {
		Recycle(r.Inputs[i].Tensor)
		r.Inputs[i].Tensor = nil
	}
}

// Recycle gives the memory of a tensor of NewTensor back, nil for none.
func Recycle(t *tensor.Tensor) {
	if t == nil || t.DType == tensor.String {
		return
	}
	if class := bits.Len(uint(max(cap(t.Data)-1, 0))); class < len(buffers) && cap(t.Data) == 1<<class {
		buffers[class].Put(t)
	}
}
