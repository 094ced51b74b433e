package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Models that say how they are quantised with DequantizeLinear in front of float operators and QuantizeLinear behind them. What
// stands between becomes one node on 8-bit integers:
//
//	DequantizeLinear(x) → Conv|MatMul|Gemm with weights that are such integers → [bias] → [activation] → [QuantizeLinear]
//
// Scales and zero points of x and the result are one constant each, weights have one scale or one for each output, and nothing in
// between is read by others.

// levelsBetween returns how a QuantizeLinear or DequantizeLinear changes between float32 and 8 bits, where that is one constant way.
func levelsBetween(n *graph.Node) (l quant.Levels, ok bool) {
	q, f := n.Inputs[0], n.Outputs[0]
	if n.Is("QuantizeLinear") {
		q, f = f, q
	}
	if !isByte(q) || !operators.IsFloat32(f, n.Input(1)) || !q.Type.Backed() {
		return l, false
	}
	if p := n.Int("precision", 0); p != 0 && p != int64(tensor.Float32) {
		return l, false
	}
	scale, zero, ok := fuse.Quantum(n)
	return quant.Levels{Scale: scale, Zero: int(zero), Signed: q.Type.DType == tensor.Int8}, ok && fuse.Usable(scale)
}

// quantizedLinks is a chain that was read.
type quantizedLinks struct {
	head, add, act *graph.Node // add and act may be nil
	dx, dw, q      *graph.Node // that dequantise operand and weights, and quantise the result; q may be nil
	x, y           quant.Levels
	weights        *fuse.Integers // nil in the body of a fused node
	bias           *graph.Value   // may be nil
	out            *graph.Value
}

func (l *quantizedLinks) nodes() []*graph.Node {
	list := []*graph.Node{l.dx, l.dw, l.head}
	for _, n := range []*graph.Node{l.add, l.act, l.q} {
		if n != nil {
			list = append(list, n)
		}
	}
	return list
}

// outputsOf returns the dim of the weights of a Conv, MatMul or Gemm that counts outputs.
func outputsOf(head *graph.Node) int {
	if head.Is("Conv") || head.Is("Gemm") && head.Int("transB", 0) != 0 {
		return 0
	}
	return 1
}

// integerWeights returns the name of a head's kernel on integers, and the format of its weights; ok is false where there is none.
func integerWeights(head *graph.Node) (name string, f graph.Format, ok bool) {
	x, w := head.Inputs[0], head.Inputs[1]
	rank := len(x.Type.Shape)
	switch {
	case head.Is("Conv"):
		oc, ok1 := operators.ConstDim(w, 0)
		ic, ok2 := operators.ConstDim(w, 1)
		groups := int(head.Int("group", 1))
		if !ok1 || !ok2 || rank < 3 || rank > 4 || len(w.Type.Shape) != rank || groups < 1 || oc%groups != 0 || reachesFar(head, w) {
			return "", f, false
		}
		name, f = convWeights(rank, groups, oc, ic)
		return name, f, true
	case head.Is("MatMul"):
		return "packed", quadsKN, rank > 0 && len(w.Type.Shape) == 2
	case head.Is("Gemm"):
		if head.Int("transB", 0) != 0 {
			f = quadsNK
		} else {
			f = quadsKN
		}
		plain := head.Int("transA", 0) == 0 && head.Float("alpha", 1) == 1 && head.Float("beta", 1) == 1
		return "packed", f, plain && rowBehind(head)
	}
	return "", f, false
}

// followQuantized reads the chain around a head, nil where there is none. own asks that operand and weights are dequantised for
// the head alone, from integers. In the body of a fused node, where that is known, quants is nil.
func followQuantized(quants *fuse.Quants, head *graph.Node, own bool) *quantizedLinks {
	if !head.Is("Conv", "MatMul", "Gemm") || !operators.IsFloat32(head.Inputs...) || !head.Outputs[0].Type.Backed() {
		return nil
	}
	x, w := head.Inputs[0], head.Inputs[1]
	l := &quantizedLinks{head: head, dx: x.Producer, out: head.Outputs[0], bias: head.Input(2)}
	if l.dx == nil || !l.dx.Is("DequantizeLinear") || own && !x.HasOneUse() || l.bias != nil && !fuse.IsConst(l.bias) {
		return nil
	}
	var ok bool
	if l.x, ok = levelsBetween(l.dx); !ok {
		return nil
	}
	if _, _, ok = integerWeights(head); !ok {
		return nil
	}
	if l.dw = w.Producer; quants != nil {
		if l.weights = quants.Weights(w, outputsOf(head)); l.weights == nil {
			return nil
		}
		if own && (l.dw == nil || l.weights.Q != nil || !w.HasOneUse()) {
			return nil
		}
	} else if l.dw == nil || !l.dw.Is("DequantizeLinear") {
		return nil
	}
	l.followTail()
	return l
}

// followTail reads what follows the head.
func (l *quantizedLinks) followTail() {
	if n := fuse.Next(l.out); l.head.Is("MatMul") && n != nil && n.Is("Add") {
		if b := fuse.Other(n, l.out); b != nil && fuse.IsConst(b) && alongAxis(b, l.out, len(l.out.Type.Shape)-1) {
			l.add, l.bias, l.out = n, b, n.Outputs[0]
		}
	}
	if n := fuse.Next(l.out); n != nil && n.Input(0) == l.out && isActivation(n) {
		l.act, l.out = n, n.Outputs[0]
	}
	if n := fuse.Next(l.out); n != nil && n.Is("QuantizeLinear") && n.Inputs[0] == l.out {
		if y, ok := levelsBetween(n); ok {
			l.q, l.y, l.out = n, y, n.Outputs[0]
		}
	}
}

// ReadsIntegers implements backend.IntegerReader: weights of chains on integers stay integers.
func (b cpu) ReadsIntegers(n *graph.Node, k int) bool {
	return k == 1 && (followNibbles(n, false) != nil || followQuantized(b.quants, n, false) != nil)
}

// quantizedOperands gives each head operands of its own before chains are fused: a DequantizeLinear that others read too is doubled,
// and weights that were folded to floats, or have a zero point, become signed integers about zero.
type quantizedOperands struct{ quants *fuse.Quants }

// Name implements property.SubgraphProperty.
func (*quantizedOperands) Name() string { return "quantized-operands" }

// NewSelector implements property.SubgraphProperty.
func (o *quantizedOperands) NewSelector(*graph.Graph) property.Selector {
	return &operandSelector{quants: o.quants}
}

type operandSelector struct {
	fuse.HeadSelector // with what makes operand 0, which is fused with the head

	quants *fuse.Quants
}

// Select implements property.Selector: a head whose operands are not its own.
func (s *operandSelector) Select(seed *graph.Node) bool {
	s.With = nil
	if followNibbles(seed, false) != nil {
		return followNibbles(seed, true) == nil
	}
	if seed.Is("QuantizeLinear") {
		return followFunction(seed, false) != nil && followFunction(seed, true) == nil
	}
	if followElements(seed, false) != nil {
		return followElements(seed, true) == nil
	}
	if followMean(seed, false) != nil {
		return followMean(seed, true) == nil
	}
	l := followQuantized(s.quants, seed, false)
	if l == nil || followQuantized(s.quants, seed, true) != nil {
		return false
	}
	if l.dx.Outputs[0].HasOneUse() {
		s.With = l.dx
	}
	return true
}

// Adjust implements property.Adjuster.
func (o *quantizedOperands) Adjust(nodes []*graph.Node) error {
	for _, head := range nodes {
		if followNibbles(head, false) != nil {
			fuse.OwnDequantize(head, 1)
		} else if l := followQuantized(o.quants, head, false); l != nil {
			fuse.OwnDequantize(head, 0)
			fuse.OwnWeights(head, l.weights, outputsOf(head))
		} else if f := followFunction(head, false); f != nil {
			f.ownLeaf()
		} else if e := followElements(head, false); e != nil {
			for k := range e.operands {
				fuse.OwnDequantize(head, k)
			}
		} else if followMean(head, false) != nil {
			fuse.OwnDequantize(head, 0)
		}
	}
	return nil
}

// quantizedProductName is the name of the property of chains, and of the fused nodes' pattern.
const quantizedProductName = "quantized-product"

func quantizedProduct(quants *fuse.Quants) property.SubgraphProperty {
	return property.Found(quantizedProductName, 2, func(seed *graph.Node) []*graph.Node {
		if l := followQuantized(quants, seed, true); l != nil {
			return l.nodes()
		}
		return nil
	})
}

// fusedQuantized reads the body of a fused node.
func fusedQuantized(n *graph.Node) (*quantizedLinks, *property.Reason) {
	return formOf(n, "product of integers", func(m *graph.Node) *quantizedLinks { return followQuantized(nil, m, true) })
}

func quantizedSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	l, why := fusedQuantized(n)
	if why != nil {
		return nil, why
	}
	name, f, _ := integerWeights(l.head)
	s := graph.UniformSignature(name, n, rowMaj)
	for i, v := range n.Regions[0].Graph.Inputs {
		if v == l.dw.Inputs[0] {
			s.Inputs[i] = graph.Fixed(f)
		}
	}
	if l.head.Is("Conv") {
		for i, v := range n.Regions[0].Graph.Inputs {
			if v == l.dx.Inputs[0] {
				return eitherFormat(s, n, i), nil
			}
		}
	}
	return []graph.Signature{s}, nil
}

// scales returns the scales of the weights: one, or one for each output.
func (l *quantizedLinks) scales() []float32 { return fuse.Floats(fuse.Behind(l.dw.Inputs[1]).Const) }

// rounded returns what makes integers of the sums of n columns or channels.
func (l *quantizedLinks) rounded(n int, bias []float32) *roundedSums {
	r := newRoundedSums(n, nil, l.y)
	if l.act != nil {
		r.act, _ = activationOf(l.act)
	}
	step := float64(l.y.Scale)
	if r.act.clip {
		r.lo, r.hi = r.act.rounded(l.y)
		r.act = activation{}
	} else if r.act.some {
		step = 1
	}
	repeatLast(r.factors, l.scales())
	repeatLast(r.bias, bias)
	for i, s := range r.factors {
		r.factors[i], r.bias[i] = float32(float64(l.x.Scale)*float64(s)/step), float32(float64(r.bias[i])/step)
	}
	return r
}

// rounded returns the limits of a clip as integers of these levels: rounding keeps the order, and so they may be rounded instead.
func (a activation) rounded(to quant.Levels) (lo, hi int) {
	bound := func(x float32) int {
		return int(min(max(math.RoundToEven(float64(x/to.Scale))+float64(to.Zero), math.MinInt16), math.MaxInt16))
	}
	return bound(a.lo), bound(a.hi)
}

// scaled returns what makes floats of the sums of n columns or channels.
func (l *quantizedLinks) scaled(n int, bias []float32) *scaledSums {
	width := paddedColumns(n)
	f := &scaledSums{fixed: [2][]float32{make([]float32, width), make([]float32, width)},
		factors: place.Nowhere, bias: place.Nowhere}
	repeatLast(f.fixed[0], l.scales())
	for i := range f.fixed[0] {
		f.fixed[0][i] *= l.x.Scale
	}
	repeatLast(f.fixed[1], bias)
	return f
}

func planQuantized(p *planner, n *graph.Node) error {
	l, why := fusedQuantized(n)
	if why != nil {
		return why
	}
	y := n.Outputs[0]
	dst := p.Out(y)
	x := p.integerOperand(fuse.Outer(n, l.dx.Inputs[0]), fuse.Outer(n, l.dx.Input(2)))
	w := p.integerOperand(fuse.Outer(n, l.dw.Inputs[0]), nil)
	var bias []float32
	if l.bias != nil {
		bias = fuse.Floats(fuse.Behind(l.bias).Const)
	}
	var act activation
	if l.act != nil {
		act, _ = activationOf(l.act)
	}
	columns := p.Dims[w.v.ID][outputsOf(l.head)]
	if l.head.Is("Conv") {
		if l.q != nil {
			return p.roundedConv(l.head, x, w, y, l.rounded(columns, bias), dst)
		}
		c, err := p.integerConv(l.head, x, w, y)
		if err != nil {
			return err
		}
		p.emitConvSums(c, l.scaled(columns, bias).convFinish(p, c, dst, act), nil, []place.Memory{dst})
		return nil
	}
	da, db := matrixDims(p.Dims[x.v.ID], p.Dims[w.v.ID])
	s, err := p.sums(x, w, da, db, l.head.Is("Gemm") && l.head.Int("transB", 0) != 0)
	if err != nil {
		return err
	}
	if l.q != nil {
		p.emitRoundedSums(s, l.rounded(columns, bias), dst)
	} else {
		p.emitSums(s, l.scaled(columns, bias).finish(p, dst, s.n, act), nil, []place.Memory{dst})
	}
	return nil
}

func init() {
	table.Register(operators.Pattern(quantizedProductName), operator{Signatures: quantizedSignatures, Plan: planQuantized})
}
