package graph

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// IndexBox reports whether indices of ScatterND or GatherND, [d0, …, dk-1, k], are those of a box: element i of axis a is at start[a] + i·step[a] of it.
// Starts may be negative as they are in the indices, steps are at least 1, and both within 32 bits. The cost is that of reading the indices.
func IndexBox(indices *tensor.Tensor) (start, step []int, ok bool) {
	k := indices.Rank() - 1
	if k < 1 || indices.Shape[k] != k || indices.Len() == 0 || indices.DType != tensor.Int64 || !indices.IsCompact() {
		return nil, nil, false
	}
	at := tensor.Elements[int64](indices)
	start, step = make([]int, k), slices.Repeat([]int{1}, k)
	for a, stride := k-1, k; a >= 0; a-- {
		if start[a] = int(at[a]); indices.Shape[a] > 1 {
			step[a] = int(at[stride+a]) - start[a]
		}
		if step[a] < 1 || step[a] > math.MaxInt32 || start[a] > math.MaxInt32 || start[a] < math.MinInt32 {
			return nil, nil, false
		}
		stride *= indices.Shape[a]
	}
	pos := make([]int, k)
	for ; len(at) > 0; at = at[k:] {
		for a, i := range pos {
			if at[a] != int64(start[a]+i*step[a]) {
				return nil, nil, false
			}
		}
		for a := k - 1; a >= 0; a-- {
			if pos[a]++; pos[a] < indices.Shape[a] {
				break
			}
			pos[a] = 0
		}
	}
	return start, step, true
}
