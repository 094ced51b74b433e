package cpu

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Element-wise operators between DequantizeLinear and QuantizeLinear: two operands of one shape, or one of an image and the other with a number
// for each of its channels (qchannels.go), and an activation. The floats in between live in scratch memory of a worker, some hundred at a
// time, and are those of the definition, bit for bit where the activation's are.

// elementLinks is such an operator with what surrounds it.
type elementLinks struct {
	head, act  *graph.Node // act may be nil
	operands   []*graph.Node
	q          *graph.Node
	x          []quant.Levels // of the operands
	y          quant.Levels
	perChannel int // the operand with a number for each channel, -1 where there is none
}

func (l *elementLinks) nodes() []*graph.Node {
	list := slices.Clone(l.operands)
	if list = append(list, l.head); l.act != nil {
		list = append(list, l.act)
	}
	return append(list, l.q)
}

// followElements reads what surrounds a node, nil where that is not quantised. own asks that operands are dequantised for the node
// alone.
func followElements(head *graph.Node, own bool) *elementLinks {
	if !isFloatBinary(head) || head.Inputs[0] == head.Inputs[1] {
		return nil
	}
	l := &elementLinks{head: head, perChannel: -1}
	for i, v := range head.Inputs {
		if v == nil || v.Producer == nil || !v.Producer.Is("DequantizeLinear") || own && !v.HasOneUse() {
			return nil
		}
		if whole := head.Outputs[0].Type.Shape; !v.Type.Shape.Equal(whole) {
			if l.perChannel >= 0 || !ofChannels(v.Type.Shape, whole) {
				return nil
			}
			l.perChannel = i
		}
		x, ok := levelsBetween(v.Producer)
		if !ok {
			return nil
		}
		l.operands, l.x = append(l.operands, v.Producer), append(l.x, x)
	}
	v := head.Outputs[0]
	if n := fuse.Next(v); n != nil && n.Input(0) == v && isActivation(n) {
		l.act, v = n, n.Outputs[0]
	}
	n := fuse.Next(v)
	if n == nil || !n.Is("QuantizeLinear") || n.Inputs[0] != v {
		return nil
	}
	var ok bool
	l.q = n
	l.y, ok = levelsBetween(n)
	if !ok {
		return nil
	}
	return l
}

// quantizedElementsName is the name of the property of such operators, and of the fused nodes' pattern.
const quantizedElementsName = "quantized-elements"

func quantizedElements() property.SubgraphProperty {
	return property.Found(quantizedElementsName, 2, func(seed *graph.Node) []*graph.Node {
		if l := followElements(seed, true); l != nil {
			return l.nodes()
		}
		return nil
	})
}

// fusedElements reads the body of a fused node.
func fusedElements(n *graph.Node) (*elementLinks, *property.Reason) {
	return formOf(n, "operator on quantised elements", func(m *graph.Node) *elementLinks { return followElements(m, true) })
}

func quantizedElementsSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	l, why := fusedElements(n)
	if why != nil {
		return nil, why
	}
	return followBytes(n, func(i int) bool {
		k := slices.IndexFunc(l.operands, func(d *graph.Node) bool { return d.Inputs[0] == n.Regions[0].Graph.Inputs[i] })
		return k >= 0 && k != l.perChannel
	}), nil
}

// nearElements is how many elements are floats at a time: with two operands, 8 KiB.
const nearElements = 1024

func planQuantizedElements(p *planner, n *graph.Node) error {
	l, why := fusedElements(n)
	if why != nil {
		return why
	}
	y := n.Outputs[0]
	dst, count := p.Out(y), product(p.Dims[y.ID])
	src := make([]place.Memory, len(l.operands))
	for i, d := range l.operands {
		src[i] = p.In(fuse.Outer(n, d.Inputs[0]))
	}
	op, act := floatBinary[l.head.Op.Name], activation{}
	if l.act != nil {
		act, _ = activationOf(l.act)
	}
	if l.perChannel >= 0 {
		p.emitChannels(n, l, op, act, src, dst)
		return nil
	}
	if x, err := p.adder(l, op, act); err != nil {
		return err
	} else if x != nil {
		p.emitAdded(x, src, dst, count)
		return nil
	}
	work, integers, floats := p.scratch(8*nearElements), p.integers, p.kernels
	nanos := 0.4
	if act.some {
		nanos += unaryNanos(act.op)
	}
	p.emit(step{chunks: ceilDiv(count, nearElements), grain: grainFor(nearElements * nanos), body: func(st *state, worker, lo, hi int) {
		near, d := place.Elements[float32](work.bytes(st, worker)), st.Bytes(dst)
		for i := lo; i < hi; i++ {
			from, to := i*nearElements, min((i+1)*nearElements, count)
			a, b := near[:to-from], near[nearElements:][:to-from]
			integers.Dequantize(a, st.Bytes(src[0])[from:to], l.x[0])
			integers.Dequantize(b, st.Bytes(src[1])[from:to], l.x[1])
			floats.Binary(op, a, a, b)
			if act.some {
				floats.Apply(act.op, a, a, act.params)
			}
			integers.Quantize(d[from:to], a, l.y)
		}
	}}, src, []place.Memory{dst, work.at})
	return nil
}

// adder returns what adds the operands as they are, nil where nothing does.
func (p *planner) adder(l *elementLinks, op vec.BinaryOp, act activation) (*quant.Adder, error) {
	if op != vec.Add || act.some && !act.clip {
		return nil, nil
	}
	return keep(p.e, p.Node, func() (*quant.Adder, error) {
		lo, hi := math.MinInt8, math.MaxUint8
		if act.some {
			lo, hi = act.rounded(l.y)
		}
		return p.integers.NewAdder(l.x[0], l.x[1], l.y, lo, hi), nil
	})
}

// emitAdded emits the sums of operands as they are.
func (p *planner) emitAdded(x *quant.Adder, src []place.Memory, dst place.Memory, count int) {
	const elements = 8 * nearElements
	kernels := p.integers
	p.emit(step{chunks: ceilDiv(count, elements), grain: grainFor(elements * 0.15), body: func(st *state, _, lo, hi int) {
		from, to := lo*elements, min(hi*elements, count)
		kernels.Add(x, st.Bytes(dst)[from:to], st.Bytes(src[0])[from:to], st.Bytes(src[1])[from:to])
	}}, src, []place.Memory{dst})
}

func init() {
	table.Register(operators.Pattern(quantizedElementsName), operator{Signatures: quantizedElementsSignatures, Plan: planQuantizedElements})
}
