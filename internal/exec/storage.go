package exec

import (
	"strings"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

// unclearedBytes is the size from which storage begins at a page, and is worth not to be cleared.
const unclearedBytes = 64 << 10

// newResult is tensor.New for a result that will be written as a whole: where it is large its elements are whatever the memory
// held. Clearing it costs as much as a kernel that does little else than write.
func newResult(dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	count, err := tensor.NumElements(shape)
	if err == nil && dt != tensor.String && dt.Bytes(count) >= unclearedBytes {
		if data, err := storage(dt.Bytes(count)); err == nil {
			return &tensor.Tensor{DType: dt, Shape: append([]int{}, shape...), Data: data}, nil
		}
	}
	return tensor.New(dt, shape...) // which names what is wrong
}

// storage returns n bytes of any content, aligned to tensor.Alignment.
func storage(n int) ([]byte, error) {
	if n >= unclearedBytes && offheap.Fits(int64(n)) {
		if data := uncleared(n); uintptr(unsafe.Pointer(&data[0]))%tensor.Alignment == 0 {
			return data, nil
		}
	}
	t, err := tensor.New(tensor.Uint8, n)
	if err != nil {
		return nil, err
	}
	return t.Data, nil
}

// uncleared returns n > 0 bytes of Go's heap. Nothing but a Builder has memory of it that is not cleared.
func uncleared(n int) []byte {
	var b strings.Builder
	b.Grow(n)
	_ = b.WriteByte(0) // an empty string need not have the memory
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}
