package cpu

import (
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Operators that move strings: Gather, ArrayFeatureExtractor, Where and Concat.

// textSignatures takes operators of strings as they are.
func textSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	return operators.RowMajor(n), nil
}

// copyTexts copies strings that lie a step apart to places that do, from the first on.
func copyTexts(to []string, every int, from []string, first, step int) {
	if step == 1 && every == 1 {
		copy(to, from[first:first+len(to)])
		return
	}
	for i := 0; i < len(to); i += every {
		to[i] = from[first]
		first += step
	}
}

// planGatherTexts emits what takes strings along an axis by their places there. Those of ArrayFeatureExtractor are of the last axis, and
// do not count from the end.
func planGatherTexts(p *planner, n *graph.Node) error {
	x, index, y := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	from, at, d := p.textsOf(x), p.In(index), p.Dims[x.ID]
	axis, ends := len(d)-1, n.Is("Gather")
	if ends {
		axis = axisOf(n, 0, len(d))
	}
	length, count, inner := d[axis], product(p.Dims[index.ID]), product(d[axis+1:])
	p.emit(step{chunks: product(d[:axis]) * count, grain: grainFor(10 + 3*float64(inner)), body: func(st *state, _, lo, hi int) {
		list, out, read := from.list(st), st.texts[y.ID], st.indices(n, at)
		for i, k := lo, lo%max(count, 1); i < hi; i++ {
			place := read.place(k, length, ends)
			copyTexts(out[i*inner:][:inner], 1, list, from.first+(i/count*length+place)*inner*from.step, from.step)
			if k++; k == count {
				k = 0
			}
		}
	}}, []place.Memory{p.In(x), at}, nil)
	return nil
}

// place is at where indices may count from the end, and else an error for those that do.
func (x *indices) place(i, length int, ends bool) int {
	if !ends && x.wide[i] < 0 {
		panic(backend.OutOfRange(x.n, 1, x.wide[i], 0, int64(length)-1))
	}
	return x.at(i, length)
}

// planWhereTexts emits a choice for each string of the result.
func planWhereTexts(p *planner, n *graph.Node) error {
	c, x, y, r := n.Inputs[0], n.Inputs[1], n.Inputs[2], n.Outputs[0]
	cond, yes, no := p.In(c), p.textsOf(x), p.textsOf(y)
	b := newBroadcast(p.laidTexts(r), p.laid(c), p.laidTexts(x), p.laidTexts(y))
	if b.total == 0 {
		return nil
	}
	p.emit(step{chunks: b.rows, grain: grainFor(3*float64(b.inner) + 10), body: func(st *state, _, lo, hi int) {
		test, s, t, out := of[uint8](st, cond), yes.list(st), no.list(st), st.texts[r.ID]
		for row := lo; row < hi; row++ {
			k, i, j := b.offset(0, row), yes.first+b.offset(1, row), no.first+b.offset(2, row)
			to := out[b.result(row):][:b.inner]
			for e := range to {
				if test[k] != 0 {
					to[e] = s[i]
				} else {
					to[e] = t[j]
				}
				k, i, j = k+b.step[0], i+b.step[1], j+b.step[2]
			}
		}
	}}, []place.Memory{cond, p.In(x), p.In(y)}, nil)
	return nil
}

// planConcatTexts emits copies of the operands, row by row.
func planConcatTexts(p *planner, n *graph.Node) error {
	y := n.Outputs[0]
	d, axis, at := p.Dims[y.ID], place.ConcatAxis(n), 0
	whole := product(d[axis:])
	for _, v := range n.Inputs {
		from, inner, first := p.textsOf(v), product(p.Dims[v.ID][axis:]), at
		at += inner
		if inner == 0 {
			continue
		}
		p.emit(step{chunks: product(d[:axis]), grain: grainFor(10 + 3*float64(inner)), body: func(st *state, _, lo, hi int) {
			list, out := from.list(st), st.texts[y.ID]
			if inner == 1 { // a column
				copyTexts(out[lo*whole+first:(hi-1)*whole+first+1], whole, list, from.first+lo*from.step, from.step)
				return
			}
			for i := lo; i < hi; i++ {
				copyTexts(out[i*whole+first:][:inner], 1, list, from.first+i*inner*from.step, from.step)
			}
		}}, []place.Memory{p.In(v)}, nil)
	}
	return nil
}
