package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Pad with elements of the operand: its edge, its mirror image, or its other end. Row-major, for every element type.

// repeatedIndex returns the index on an axis of n elements that stands at place k beyond or within it.
func repeatedIndex(mode string, k, n int) int {
	modulo := func(k, n int) int {
		if k %= n; k < 0 {
			k += n
		}
		return k
	}
	switch {
	case k >= 0 && k < n:
		return k
	case mode == "edge":
		return min(max(k, 0), n-1)
	case mode == "wrap":
		return modulo(k, n)
	case n == 1:
		return 0
	}
	if k = modulo(k, 2*(n-1)); k >= n { // reflect
		k = 2*(n-1) - k
	}
	return k
}

// stretch is a run of elements that lie one behind the other in a row of the operand and of the result.
type stretch struct{ dst, src, length int }

// stretches describes a row of the result.
func stretches(index []int) []stretch {
	var runs []stretch
	for i, k := range index {
		if last := len(runs) - 1; last >= 0 && runs[last].src+runs[last].length == k {
			runs[last].length++
			continue
		}
		runs = append(runs, stretch{i, k, 1})
	}
	return runs
}

func planPadRepeated(p *planner, n *graph.Node, before []int) error {
	x, y := n.Inputs[0], n.Outputs[0]
	dx, dy, size, mode := p.Dims[x.ID], p.Dims[y.ID], x.Type.DType.Size(), n.Str("mode", "")
	if product(dx) == 0 {
		return property.Because(property.ShapeReason, "nothing to repeat in %v", dx)
	}
	index := make([][]int, len(dx)) // per axis, for every index of the result that of the operand
	for a := range dx {
		index[a] = make([]int, dy[a])
		for i := range index[a] {
			index[a][i] = repeatedIndex(mode, i-before[a], dx[a])
		}
	}
	src, dst := p.In(x), p.Out(y)
	last := len(dx) - 1
	row, runs, strides := dy[last]*size, stretches(index[last]), tensor.CompactStrides(dx)
	p.emit(step{chunks: product(dy[:last]), grain: grainFor(float64(row)*0.1 + float64(len(runs))*5), body: func(st *state, _, lo, hi int) {
		d, s := st.Bytes(dst), st.Bytes(src)
		for i := lo; i < hi; i++ {
			from, left := 0, i
			for a := last - 1; a >= 0; a-- {
				from += index[a][left%dy[a]] * strides[a]
				left /= dy[a]
			}
			for _, r := range runs {
				at := (from + r.src) * size
				copy(d[i*row+r.dst*size:], s[at:at+r.length*size])
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}
