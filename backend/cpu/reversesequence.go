package cpu

import (
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// ReverseSequence of whole bytes: the first time steps of each row of a batch in reverse, as many as its length says.

func reverseSequenceSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; x.Type.DType.Size() == 0 {
		return nil, property.Because(property.DTypeReason, "%v is %v", x, x.Type.DType)
	}
	batch, time := n.Int("batch_axis", 1), n.Int("time_axis", 0)
	if batch+time != 1 || batch*time != 0 {
		return nil, property.Because(property.Attribute, "time_axis %d and batch_axis %d", time, batch)
	}
	return operators.RowMajor(n), nil
}

func planReverseSequence(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	d, lengths, batch := p.Dims[x.ID], p.Dims[n.Inputs[1].ID], int(n.Int("batch_axis", 1))
	if len(d) < 2 || len(lengths) != 1 || lengths[0] != d[batch] {
		return property.Because(property.ShapeReason, "%v lengths for %v", lengths, d)
	}
	time, bytes := 1-batch, product(d[2:])*x.Type.DType.Size()
	src, lens, dst := p.In(x), p.In(n.Inputs[1]), p.Out(n.Outputs[0])
	if reverse := reversals[bytes]; reverse != nil {
		reverse(p, n, batch, src, lens, dst)
		return nil
	}
	p.emit(step{chunks: d[0] * d[1], grain: grainFor(float64(bytes)*0.05 + 4), body: func(st *state, _, lo, hi int) {
		from, to, list := st.Bytes(src), st.Bytes(dst), of[int64](st, lens)
		for r := lo; r < hi; r++ {
			at := [2]int{r / d[1], r % d[1]}
			l := list[at[batch]]
			if uint64(l) > uint64(d[time]) {
				panic(backend.OutOfRange(n, 1, l, 0, int64(d[time])))
			}
			if at[time] < int(l) {
				at[time] = int(l) - 1 - at[time]
			}
			copy(to[r*bytes:(r+1)*bytes], from[(at[0]*d[1]+at[1])*bytes:])
		}
	}}, []place.Memory{src, lens}, []place.Memory{dst})
	return nil
}

// reversals are those of single elements at each time, by their bytes.
var reversals = map[int]func(p *planner, n *graph.Node, batch int, src, lens, dst place.Memory){
	1: reverseElements[uint8], 2: reverseElements[uint16], 4: reverseElements[uint32], 8: reverseElements[uint64],
}

// reverseElements emits a ReverseSequence of single elements at each time.
func reverseElements[T element.Bits](p *planner, n *graph.Node, batch int, src, lens, dst place.Memory) {
	if batch == 0 {
		reverseRows[T](p, n, src, lens, dst)
	} else {
		reverseColumns[T](p, n, src, lens, dst)
	}
}

// reverseColumns emits columns of elements, of which the first ones are reversed.
func reverseColumns[T element.Bits](p *planner, n *graph.Node, src, lens, dst place.Memory) {
	d := p.Dims[n.Inputs[0].ID]
	times, wide := d[0], d[1]
	p.emit(step{chunks: times, grain: grainFor(float64(wide)*1.5 + 4), body: func(st *state, _, lo, hi int) {
		from, list := of[T](st, src), of[int64](st, lens)[:wide]
		for _, l := range list {
			if uint64(l) > uint64(times) {
				panic(backend.OutOfRange(n, 1, l, 0, int64(times)))
			}
		}
		for t := lo; t < hi; t++ {
			to := of[T](st, dst)[t*wide:][:wide]
			for b, l := range list {
				other := int(l) - 1 - t
				at := other&^(other>>63) | t&(other>>63) // without a branch, which lengths would mislead
				to[b] = from[at*wide+b]
			}
		}
	}}, []place.Memory{src, lens}, []place.Memory{dst})
}

// reverseRows emits rows of elements, of which the first ones are reversed.
func reverseRows[T element.Bits](p *planner, n *graph.Node, src, lens, dst place.Memory) {
	d := p.Dims[n.Inputs[0].ID]
	p.emit(step{chunks: d[0], grain: grainFor(float64(d[1])*0.7 + 10), body: func(st *state, _, lo, hi int) {
		for r := lo; r < hi; r++ {
			from, to, l := of[T](st, src)[r*d[1]:][:d[1]], of[T](st, dst)[r*d[1]:][:d[1]], of[int64](st, lens)[r]
			if uint64(l) > uint64(d[1]) {
				panic(backend.OutOfRange(n, 1, l, 0, int64(d[1])))
			}
			turned := to[:l]
			for i, x := range from[:l] {
				turned[len(turned)-1-i] = x
			}
			copy(to[l:], from[l:])
		}
	}}, []place.Memory{src, lens}, []place.Memory{dst})
}

func init() {
	table.Register("ReverseSequence", operator{Signatures: reverseSequenceSignatures, Plan: planReverseSequence})
}
