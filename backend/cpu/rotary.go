package cpu

import (
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// RotaryEmbedding of float32: pairs of elements of each head are turned by the angles of its position, whose cosines and sines are operands.

func rotarySignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, v := range n.Inputs[:3] {
		if !operators.IsFloat32(v) {
			return nil, operators.NotFloat32(v)
		}
	}
	if v := n.Input(3); v != nil && v.Type.DType != tensor.Int64 {
		return nil, property.Because(property.DTypeReason, "%v is %v", v, v.Type.DType)
	}
	return operators.RowMajor(n), nil
}

// rotary is how heads [batch, heads, length, width], or [batch, length, heads, width], are turned.
type rotary struct {
	set                        isa.Set
	heads, length, width, half int
	split, interleaved         bool // split: heads stand in front of positions
}

func newRotary(set isa.Set, n *graph.Node, d []int) (r rotary, rows int, ok bool) {
	r = rotary{set: set, interleaved: n.Int("interleaved", 0) != 0, split: len(d) == 4}
	switch {
	case r.split:
		r.heads, r.length, r.width = d[1], d[2], d[3]
	case len(d) == 3:
		r.heads, r.length = int(n.Int("num_heads", 0)), d[1]
		if r.heads < 1 || d[2]%r.heads != 0 {
			return r, 0, false
		}
		r.width = d[2] / r.heads
	default:
		return r, 0, false
	}
	turned := int(n.Int("rotary_embedding_dim", 0))
	if turned == 0 {
		turned = r.width
	}
	r.half = turned / 2
	return r, d[0] * r.heads * r.length, turned >= 0 && turned <= r.width && turned%2 == 0
}

// run returns the number of the position, of all of the batch, of a row of width elements, and of how many rows from there on: they are the ones behind it, or
// the same one.
func (r *rotary) run(row int) (position, rows, step int) {
	if r.split {
		at := row % r.length
		return row/(r.heads*r.length)*r.length + at, r.length - at, 1
	}
	return row / r.heads, r.heads - row%r.heads, 0
}

func (r *rotary) turn(to, from, cos, sin []float32) {
	if 2*r.half < r.width {
		copy(to[2*r.half:], from[2*r.half:])
	}
	cos, sin = cos[:r.half], sin[:r.half]
	if r.interleaved {
		element.RotatePairs(r.set, to, from, cos, sin)
		return
	}
	element.Rotate(r.set, to, to[r.half:], from, from[r.half:], cos, sin)
}

func planRotary(p *planner, n *graph.Node) error {
	x, angles := n.Inputs[0], p.Dims[n.Inputs[1].ID]
	r, rows, ok := newRotary(p.target.Set, n, p.Dims[x.ID])
	if !ok {
		return property.Because(property.ShapeReason, "heads of %v", p.Dims[x.ID])
	}
	positions, ids := []int{p.Dims[x.ID][0], r.length}, place.Nowhere
	if v := n.Input(3); v != nil {
		ids = p.In(v)
		ok = len(angles) == 2 && angles[1] == r.half && sameDims(p.Dims[v.ID], positions)
	} else {
		ok = sameDims(angles, append(positions, r.half))
	}
	if !ok || !sameDims(p.Dims[n.Inputs[2].ID], angles) {
		return property.Because(property.ShapeReason, "angles %v of positions %v, %d each", angles, positions, r.half)
	}
	src, cos, sin, dst := p.In(x), p.In(n.Inputs[1]), p.In(n.Inputs[2]), p.Out(n.Outputs[0])
	p.emit(step{chunks: rows, grain: grainFor(float64(r.width)*0.7 + 4), body: func(st *state, _, lo, hi int) {
		from, to, c, s := st.F32(src), st.F32(dst), st.F32(cos), st.F32(sin)
		list := of[int64](st, ids)
		for position, left, step := 0, 0, 0; lo < hi; lo, position, left = lo+1, position+step, left-1 {
			if left == 0 {
				position, left, step = r.run(lo)
			}
			row, at := lo, position
			if ids.Slot >= 0 {
				id := list[at]
				if id < -int64(angles[0]) || id >= int64(angles[0]) {
					panic(backend.OutOfRange(n, 3, id, -int64(angles[0]), int64(angles[0])-1))
				}
				if at = int(id); id < 0 {
					at += angles[0]
				}
			}
			r.turn(to[row*r.width:][:r.width], from[row*r.width:][:r.width], c[at*r.half:], s[at*r.half:])
		}
	}}, []place.Memory{src, cos, sin, ids}, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("RotaryEmbedding", operator{Signatures: rotarySignatures, Plan: planRotary})
}
