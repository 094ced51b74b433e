package graph

import (
	"bytes"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// cancelQuantize brings quantised models to few changes of representation, with exactly the same results:
//
//   - QuantizeLinear of what DequantizeLinear made with the same parameters is the integers themselves.
//   - Operators that move elements, or choose among them, and stand between two such nodes work on the integers.
//   - A Concat between such nodes works on the integers too where its operands have scales of their own: each is quantised again.
//   - A view between DequantizeLinear and a product, or between a product and QuantizeLinear, changes places with it, so that
//     the product stands beside what says how its operand or result is quantised.
//   - A Relu in front of a QuantizeLinear whose zero point is the least integer does nothing that saturation does not.
//
// Scales have to be constants for that: dividing by zero is no identity.
func (s *simplifier) cancelQuantize() error {
	return s.each(func(n *Node) error {
		switch {
		case n.Is("QuantizeLinear"):
			return s.cancelAtQuantize(n)
		case isMove(n):
			s.sinkDequantize(n)
		}
		return nil
	})
}

func (s *simplifier) cancelAtQuantize(n *Node) error {
	q, ok := quantizationOf(n)
	if !ok {
		return nil
	}
	x := n.Inputs[0]
	p := x.Producer
	if p == nil || p.graph != s.g || x.Format != n.Outputs[0].Format {
		return nil
	}
	switch {
	case p.Is("DequantizeLinear"):
		if d, ok := quantizationOf(p); ok && d.equal(q) {
			s.forward(n, p.Inputs[0])
		}
	case p.Is("Relu") && x.HasOneUse() && q.one() && q.zeroAt(0) == least(q.dtype):
		n.SetOperand(0, p.Inputs[0])
		s.absorbBefore(n, []*Node{p})
		s.g.Remove(p)
		s.changes++
	case (isMove(p) || isChoice(p)) && x.HasOneUse() && onlyFirst(p) && q.one():
		if done, err := s.computeOnIntegers(p, n, q); done || err != nil {
			return err
		}
		if p.Is("Concat") {
			return s.quantizeOperands(p, n)
		}
		if isMove(p) {
			s.hoistQuantize(p, n, q)
		}
	}
	return nil
}

// quantization are the parameters of a QuantizeLinear or DequantizeLinear between float32 and integers of up to 16 bits.
type quantization struct {
	dtype       tensor.DType
	scale, zero *tensor.Tensor // zero may be nil
	axis, block int64          // where there are several scales
}

// quantizationOf reads the parameters; ok is false where they are not constant, or not usable numbers.
func quantizationOf(n *Node) (q quantization, ok bool) {
	x, y, scale, zero := n.Input(0), n.Output(0), n.Input(1), n.Input(2)
	if n.Is("QuantizeLinear") {
		x, y = y, x
	}
	if x == nil || y == nil || scale == nil || scale.Const == nil || zero != nil && zero.Const == nil || !x.Type.IsTensor() ||
		x.Type.Shape == nil || y.Type.DType != tensor.Float32 || scale.Const.DType != tensor.Float32 {
		return q, false
	}
	if p := n.Int("precision", 0); p != 0 && tensor.DType(p) != tensor.Float32 {
		return q, false
	}
	q = quantization{dtype: x.Type.DType, scale: scale.Const, axis: n.Int("axis", 1), block: n.Int("block_size", 0)}
	if zero != nil {
		q.zero = zero.Const
	}
	if q.axis < 0 {
		q.axis += int64(len(x.Type.Shape))
	}
	if !q.dtype.IsInt() || q.dtype.Bits() > 16 {
		return q, false
	}
	const margin = 1 << 20 // between the scale and numbers that float32 rounds coarsely, or has not
	for i := range q.scale.Len() {
		v := q.scale.Float64At(i)
		if !(v >= math.SmallestNonzeroFloat32*margin && v <= math.MaxFloat32/margin) {
			return q, false
		}
	}
	return q, q.scale.Len() > 0 && (q.zero == nil || q.zero.Len() == q.scale.Len())
}

// one reports whether the whole tensor has one scale.
func (q *quantization) one() bool { return q.scale.Len() == 1 }

func (q *quantization) zeroAt(i int) int64 {
	if q.zero == nil {
		return 0
	}
	return q.zero.Int64At(i)
}

// equal reports whether two quantisations of one tensor are the same.
func (q *quantization) equal(o quantization) bool {
	if q.dtype != o.dtype || q.scale.Len() != o.scale.Len() || q.scale != o.scale && !bytes.Equal(q.scale.Bytes(), o.scale.Bytes()) {
		return false
	}
	if !q.one() && (q.axis != o.axis || q.block != o.block) {
		return false
	}
	for i := range q.scale.Len() {
		if q.zeroAt(i) != o.zeroAt(i) {
			return false
		}
	}
	return true
}

// least is the smallest number of an integer type.
func least(dt tensor.DType) int64 {
	if dt.IsUnsigned() {
		return 0
	}
	return -1 << (dt.Bits() - 1)
}

// isMove reports whether a node does nothing but put all elements of its first operand elsewhere.
func isMove(n *Node) bool {
	return n.Is("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")
}

// isChoice reports whether each element of a node's result is one of its data operands'.
func isChoice(n *Node) bool {
	return n.Is("MaxPool", "Slice", "Expand", "Concat", "DepthToSpace", "SpaceToDepth", "Gather", "Tile")
}

// computeOnIntegers lets p read the integers that were dequantised for it, where n quantizes its result in the same way. It
// reports whether it did.
func (s *simplifier) computeOnIntegers(p, n *Node, q quantization) (bool, error) {
	src := slices.Clone(p.Inputs)
	for k, v := range src {
		if k > 0 && !p.Is("Concat") {
			break
		}
		if v == nil || v.Producer == nil || !v.Producer.Is("DequantizeLinear") {
			return false, nil
		}
		d, ok := quantizationOf(v.Producer)
		if src[k] = v.Producer.Inputs[0]; !ok || !d.equal(q) || src[k].Format != v.Format {
			return false, nil
		}
	}
	if !s.reread(p, n.Outputs[0].Type, src) {
		return false, nil
	}
	s.forward(n, p.Outputs[0])
	return true, s.refresh(p)
}

// quantizeOperands lets n, which quantizes the result of a Concat, quantize its operands instead, where all of these were dequantised.
func (s *simplifier) quantizeOperands(p, n *Node) error {
	y := n.Outputs[0]
	src := slices.Clone(p.Inputs)
	for _, v := range src {
		if v == nil || v.Producer == nil || !v.Producer.Is("DequantizeLinear") || v.Format != y.Format {
			return nil
		}
		if d, ok := quantizationOf(v.Producer); !ok || !d.one() {
			return nil
		}
	}
	types := make([]Type, len(src))
	for k, v := range src {
		types[k] = v.Type
		types[k].DType = y.Type.DType
	}
	if !p.Schema.admits(types, []Type{y.Type}) {
		return nil
	}
	for k, v := range src {
		in := slices.Clone(n.Inputs)
		in[0] = v
		q := s.g.AddNode(NodeSpec{Op: n.Op, Attrs: slices.Clone(n.Attrs), Inputs: in, Outputs: []string{""}, Origins: []string{}})
		src[k] = q.Outputs[0]
		src[k].Type, src[k].Format = types[k], v.Format
	}
	s.reread(p, y.Type, src)
	s.forward(n, p.Outputs[0])
	return s.refresh(p)
}

// isProductOp reports whether an operator multiplies matrices or convolves.
func isProductOp(n *Node) bool { return n.Is("Conv", "ConvTranspose", "MatMul", "Gemm") }

// sinkDequantize exchanges a view with the DequantizeLinear before it where products read the view.
func (s *simplifier) sinkDequantize(n *Node) {
	x, y := n.Input(0), n.Output(0)
	if x == nil || x.Producer == nil || !x.Producer.Is("DequantizeLinear") || !x.HasOneUse() || y.IsOutput() || len(y.uses) == 0 || !onlyFirst(n) {
		return
	}
	d := x.Producer
	q, ok := quantizationOf(d)
	if !ok || !q.one() || y.Format != x.Format || d.Inputs[0].Format != x.Format {
		return
	}
	if feedsProducts(y) {
		s.exchange(d, n)
	}
}

// feedsProducts reports whether products, and moves whose results nobody else reads, are all that reads v.
func feedsProducts(v *Value) bool {
	for range maxMoves {
		if len(v.uses) == 1 && v.uses[0].Slot == 0 && isMove(v.uses[0].Node) && onlyFirst(v.uses[0].Node) {
			v = v.uses[0].Node.Outputs[0]
			if v.IsOutput() {
				return false
			}
			continue
		}
		for _, u := range v.uses {
			if !isProductOp(u.Node) || u.Slot != 0 {
				return false
			}
		}
		return len(v.uses) > 0
	}
	return false
}

// maxMoves bounds how many moves in a row a quantisation is taken through.
const maxMoves = 8

// hoistQuantize exchanges a view with the QuantizeLinear behind it where a product, with what is added to it and its
// activation, makes what is viewed, or a DequantizeLinear that cancels it; other moves may stand between.
func (s *simplifier) hoistQuantize(view, n *Node, q quantization) {
	y := n.Outputs[0]
	x := view.Input(0)
	if x == nil || x.Format != y.Format {
		return
	}
	v := x
	for range maxMoves {
		if v == nil || v.Producer == nil || !v.HasOneUse() {
			return
		}
		p := v.Producer
		if isMove(p) && onlyFirst(p) {
			v = p.Input(0)
			continue
		}
		d, ok := quantization{}, false
		if p.Is("DequantizeLinear") {
			d, ok = quantizationOf(p)
		}
		if isProductOp(p) || p.Is("Add", "Relu", "Clip") || ok && d.equal(q) {
			s.exchange(view, n)
		}
		return
	}
}

// exchange lets second, which alone reads first, come before it, where both are there for the types that they then have. One
// is a view, the other changes the element type alone, so that the types of the results are known.
func (s *simplifier) exchange(first, second *Node) {
	x, a, b := first.Inputs[0], first.Outputs[0], second.Outputs[0]
	between := a.Type // of what is first now: the shape of the view, the element type of the other
	if isMove(second) {
		between.DType, between.Shape = x.Type.DType, b.Type.Shape
	} else {
		between.DType, between.Shape = b.Type.DType, x.Type.Shape
	}
	if !wouldTake(second, x.Type, between) || !wouldTake(first, between, b.Type) {
		return
	}
	s.g.ReplaceUses(b, a)
	second.SetOperand(0, x)
	first.SetOperand(0, b)
	a.Type, b.Type = b.Type, between
	a.Name, b.Name = b.Name, a.Name
	s.stale(first)
	s.stale(second)
	s.touch(a)
	s.changes++
}
