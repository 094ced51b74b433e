package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// An operator of float32 on rows between casts from half precision and back: some rows at a time are widened in the core's caches, computed and
// rounded, so that the values in between never reach memory.

// halfRowsName is the name of the pattern.
const halfRowsName = "half-rows"

// halfRows returns the property of such operators.
func halfRows() property.SubgraphProperty {
	return property.Found(halfRowsName, 3, func(cast *graph.Node) []*graph.Node {
		if n, back := halfRowsAt(cast); n != nil {
			return []*graph.Node{cast, n, back}
		}
		return nil
	})
}

// halfRowsAt returns the operator behind a cast from half precision, and the cast of its result back; nil where there is none on rows.
func halfRowsAt(cast *graph.Node) (n, back *graph.Node) {
	if !cast.Is("Cast") || !isHalf(cast.Inputs[0].Type.DType) || !cast.Inputs[0].Type.Backed() {
		return nil, nil
	}
	n = fuse.Next(cast.Outputs[0])
	if n == nil || n.Op.Domain != "" || n.Inputs[0] != cast.Outputs[0] || !operators.IsFloat32(n.Inputs[0], n.Outputs[0]) {
		return nil, nil
	}
	for _, v := range n.Outputs[1:] {
		if isWanted(v) {
			return nil, nil
		}
	}
	if back = fuse.Next(n.Outputs[0]); back == nil || !back.Is("Cast") || back.Outputs[0].Type.DType != cast.Inputs[0].Type.DType {
		return nil, nil
	}
	if _, unary := activationOf(n); !unary && halfRowKernels[n.Op.Name] == nil {
		return nil, nil
	}
	op, ok := table.Lookup(n)
	if !ok {
		return nil, nil
	}
	if _, why := op.Signatures(n); why != nil {
		return nil, nil
	}
	return n, back
}

// rowKernel is an operator of float32 on rows.
type rowKernel struct {
	rows, in, out int     // rows, and elements of each, of the operand and of the result
	nanos         float64 // of a row
	reads         []place.Memory
	apply         func(st *state, dst, src []float32, first, rows int) // rows from the first on
}

// halfRowKernels has operators on rows by their names: operands is what stands for those of the node.
var halfRowKernels = map[string]func(p *planner, n *graph.Node, operands []*graph.Value) (rowKernel, error){
	"GlobalAveragePool": globalPoolRows, "GlobalMaxPool": globalPoolRows,
	"LayerNormalization": layerNormRows, "RMSNormalization": layerNormRows, "RotaryEmbedding": rotaryRows,
}

func globalPoolRows(p *planner, n *graph.Node, operands []*graph.Value) (rowKernel, error) {
	d, kernels := p.Dims[operands[0].ID], p.kernels
	count := product(d[2:])
	k := rowKernel{rows: d[0] * d[1], in: count, out: 1, nanos: float64(count) * 0.1}
	k.apply = func(_ *state, dst, src []float32, _, rows int) {
		kernels.ReduceRows(vec.ReduceMax, dst, src, count, rows, count)
	}
	if n.Is("GlobalAveragePool") {
		k.apply = func(_ *state, dst, src []float32, _, rows int) { kernels.Mean(dst, src, count, rows, count) }
	}
	return k, nil
}

func halfRowsSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if cast, _ := halfRowsParts(n); cast == nil {
		return nil, property.Because(property.Veto, "body of %v has no rows", n)
	}
	return operators.RowMajor(n), nil
}

// halfRowsParts returns the first cast in the body of a fused node and the operator, nil where they are others.
func halfRowsParts(fused *graph.Node) (cast, n *graph.Node) {
	for m := range fused.Regions[0].Graph.Nodes() {
		if n, _ := halfRowsAt(m); n != nil {
			return m, n
		}
	}
	return nil, nil
}

// settleHalfRows lets the result overwrite the operand where rows stay where they are.
func settleHalfRows(p *planner, fused *graph.Node) {
	cast, _ := halfRowsParts(fused)
	if x, y := fuse.Outer(fused, cast.Inputs[0]), fused.Outputs[0]; p.Bytes(x) == p.Bytes(y) {
		p.inPlace(y, x)
	}
}

func planHalfRows(p *planner, fused *graph.Node) error {
	cast, n := halfRowsParts(fused)
	operands, y := fuse.Outers(fused, n.Inputs), fused.Outputs[0]
	operands[0] = fuse.Outer(fused, cast.Inputs[0])
	h := halfRow{target: p.target, half: halves[y.Type.DType], src: p.In(operands[0]), dst: p.Out(y)}
	if a, ok := activationOf(n); ok {
		h.elements(p, a, product(p.Dims[y.ID]))
		return nil
	}
	k, err := halfRowKernels[n.Op.Name](p, n, operands)
	if err != nil {
		return err
	}
	h.rows(p, k)
	return nil
}

// halfRow is where rows of half precision lie, and of what type they are.
type halfRow struct {
	target   isa.Target
	half     reorder.Element
	src, dst place.Memory
}

// elements emits a function of so many elements.
func (h halfRow) elements(p *planner, a activation, count int) {
	kernels := p.kernels
	byFloats(p, h.src, 2, h.dst, 2, count, func(d []byte, between []float32, s []byte) {
		reorder.FromHalf(h.target, between, place.Elements[uint16](s), h.half)
		kernels.Apply(a.op, between, between, a.params)
		reorder.ToHalf(h.target, place.Elements[uint16](d), between, h.half)
	})
}

// halfElements is how many elements of rows are widened at a time where rows are no longer, and mostHalf the bytes of all workers' rows.
const (
	halfElements = 4096
	mostHalf     = 4 << 20
)

// rows emits a kernel of rows, some at a time. Where one for each worker takes much memory, and more than all of them, they are widened and rounded in
// steps of their own.
func (h halfRow) rows(p *planner, k rowKernel) {
	at, each := max(1, halfElements/max(k.in, k.out, 1)), k.in+k.out
	if all := 4 * each * p.e.threads; all > mostHalf && p.e.threads > k.rows {
		src, dst := p.Temp(4*k.rows*k.in), p.Temp(4*k.rows*k.out)
		elements(p, h.src, src, k.rows*k.in, castNanos, func(d []float32, s []uint16) { reorder.FromHalf(h.target, d, s, h.half) })
		p.emit(step{chunks: k.rows, grain: grainFor(k.nanos), body: func(st *state, _, lo, hi int) {
			k.apply(st, st.F32(dst)[lo*k.out:hi*k.out], st.F32(src)[lo*k.in:hi*k.in], lo, hi-lo)
		}}, append(k.reads, src), []place.Memory{dst})
		elements(p, dst, h.dst, k.rows*k.out, castNanos, func(d []uint16, s []float32) { reorder.ToHalf(h.target, d, s, h.half) })
		return
	}
	at = min(at, k.rows)
	room, dst, src := p.scratch(4*at*each), h.dst, h.src
	p.emit(step{chunks: k.rows, grain: grainFor(k.nanos + float64(each)*castNanos), body: func(st *state, worker, lo, hi int) {
		d, s, free := of[uint16](st, dst), of[uint16](st, src), room.floats(st, worker)
		for ; lo < hi; lo += at {
			rows := min(hi-lo, at)
			wide, made := free[:rows*k.in], free[at*k.in:][:rows*k.out]
			reorder.FromHalf(h.target, wide, s[lo*k.in:][:len(wide)], h.half)
			k.apply(st, made, wide, lo, rows)
			reorder.ToHalf(h.target, d[lo*k.out:][:len(made)], made, h.half)
		}
	}}, append(k.reads, src), []place.Memory{dst, room.at})
}

func init() {
	table.Register(operators.Pattern(halfRowsName), operator{Signatures: halfRowsSignatures, Settle: settleHalfRows, Plan: planHalfRows})
}
