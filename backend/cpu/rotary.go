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

// turn turns rows by angles that lie so many elements apart.
func (r *rotary) turn(to, from, cos, sin []float32, rows, angles int) {
	if 2*r.half < r.width {
		for at := 0; at < rows*r.width; at += r.width {
			copy(to[at+2*r.half:at+r.width], from[at+2*r.half:])
		}
	}
	turns := element.Turns{Rows: rows, By: r.width, Pairs: r.half, Angles: angles}
	if r.interleaved {
		turns.RotatePairs(r.set, to, from, cos, sin)
		return
	}
	turns.Rotate(r.set, to, to[r.half:], from, from[r.half:], cos, sin)
}

// rotaryRows is a RotaryEmbedding whose operands these are, or stand for.
func rotaryRows(p *planner, n *graph.Node, operands []*graph.Value) (k rowKernel, err error) {
	x, angles := operands[0], p.Dims[operands[1].ID]
	r, rows, ok := newRotary(p.target.Set, n, p.Dims[x.ID])
	if !ok {
		return k, property.Because(property.ShapeReason, "heads of %v", p.Dims[x.ID])
	}
	positions, ids := []int{p.Dims[x.ID][0], r.length}, place.Nowhere
	if len(operands) > 3 && operands[3] != nil {
		v := operands[3]
		ids = p.In(v)
		ok = len(angles) == 2 && angles[1] == r.half && sameDims(p.Dims[v.ID], positions)
	} else {
		ok = sameDims(angles, append(positions, r.half))
	}
	if !ok || !sameDims(p.Dims[operands[2].ID], angles) {
		return k, property.Because(property.ShapeReason, "angles %v of positions %v, %d each", angles, positions, r.half)
	}
	cos, sin := p.In(operands[1]), p.In(operands[2])
	k = rowKernel{rows: rows, in: r.width, out: r.width, nanos: float64(r.width)*0.7 + 4, reads: []place.Memory{cos, sin, ids}}
	k.apply = func(st *state, to, from []float32, first, rows int) {
		c, s, list := st.F32(cos), st.F32(sin), of[int64](st, ids)
		for row := 0; row < rows; {
			position, together, step := r.run(first + row)
			together = min(together, rows-row)
			if list != nil {
				id, count := list[position], int64(angles[0])
				for i := int64(1); i < int64(together) && step > 0; i++ { // whose angles follow those in front of them
					if next := id + i; list[position+int(i)] != next || next == 0 || next >= count {
						together = int(i)
					}
				}
				if id < -count || id >= count {
					panic(backend.OutOfRange(n, 3, id, -count, count-1))
				}
				if position = int(id); id < 0 {
					position += angles[0]
				}
			}
			r.turn(to[row*r.width:], from[row*r.width:], c[position*r.half:], s[position*r.half:], together, step*r.half)
			row += together
		}
	}
	return k, nil
}

func planRotary(p *planner, n *graph.Node) error {
	k, err := rotaryRows(p, n, n.Inputs)
	if err != nil {
		return err
	}
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	p.emit(step{chunks: k.rows, grain: grainFor(k.nanos), body: func(st *state, _, lo, hi int) {
		k.apply(st, st.F32(dst)[lo*k.out:hi*k.out], st.F32(src)[lo*k.in:hi*k.in], lo, hi-lo)
	}}, append(k.reads, src), []place.Memory{dst})
	return nil
}

func init() {
	table.Register("RotaryEmbedding", operator{Signatures: rotarySignatures, Plan: planRotary})
}
