package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// mergeViews merges a transposition with the one before it, or takes what that was made from where it undoes it, and a Reshape with the
// Reshape, Flatten, Squeeze or Unsqueeze before it, where nothing else reads what lies between, or takes what that was made from where it has
// its dims again; also where a transposition stands between the two that the second only divides dims of. Transpositions of tokens that
// are an image before or behind, [N, H·W, C] and [N, C, H, W], become those of the image.
func (s *simplifier) mergeViews() error {
	return s.each(func(n *Node) error {
		x := n.Input(0)
		if x == nil || x.Producer == nil || !onlyFirst(n) || x.Format != n.Outputs[0].Format {
			return nil
		}
		switch p := x.Producer; {
		case !x.HasOneUse() && n.Is("Transpose") && p.Is("Transpose") && p.graph == s.g && undoes(permutation(p), permutation(n)) && p.Inputs[0].Format == x.Format:
			s.forward(n, p.Inputs[0])
		case n.Is("Reshape") && s.restores(p, n):
			s.forward(n, p.Inputs[0])
		case !x.HasOneUse():
		case n.Is("Transpose") && p.Is("Transpose"):
			s.mergeTransposes(p, n)
		case n.Is("Transpose") && p.Is("Reshape"):
			s.mergeAfter(p, n)
		case n.Is("Reshape") && p.Is("Reshape", "Flatten", "Squeeze", "Unsqueeze") && onlyFirst(p):
			s.mergeReshapes(p, n)
		case n.Is("Reshape") && p.Is("Transpose"):
			s.divideBefore(p, n)
		}
		return nil
	})
}

// restores reports whether second gives a value the dims that it had before first.
func (s *simplifier) restores(first, second *Node) bool {
	if first.graph != s.g || !first.Is("Reshape", "Flatten", "Squeeze", "Unsqueeze") || !onlyFirst(first) {
		return false
	}
	src, y := first.Inputs[0], second.Outputs[0]
	return src.Type.Shape.Known() && src.Type.Shape.Equal(y.Type.Shape) && src.Format == y.Format && s.cannotFail(first)
}

// permutation returns what a Transpose node does to the dims of its operand, nil where that is not known or malformed.
func permutation(n *Node) []int64 {
	x := n.Input(0)
	perm, ok := n.Ints("perm")
	if !ok {
		if x == nil || x.Type.Shape == nil {
			return nil
		}
		for i := len(x.Type.Shape) - 1; i >= 0; i-- {
			perm = append(perm, int64(i))
		}
	}
	for i := range perm {
		if !slices.Contains(perm, int64(i)) {
			return nil
		}
	}
	return perm
}

func (s *simplifier) mergeTransposes(first, second *Node) {
	p, q := permutation(first), permutation(second)
	src := first.Input(0)
	if p == nil || len(p) != len(q) || src == nil || src.Format != first.Output(0).Format {
		return
	}
	perm := make([]int64, len(p))
	for i, k := range q {
		perm[i] = p[k]
	}
	second.Attrs = second.Attrs.With(IntsAttr("perm", perm...))
	s.bypass(first, second, src)
}

// mergeReshapes merges where the second shape does not speak of the first result: it has no 0, which copies a dim where allowzero is not
// set, and no symbol that may be 0 in a run but where the first operand has the same dim.
func (s *simplifier) mergeReshapes(first, second *Node) {
	src, shape := first.Input(0), second.Input(1)
	if src == nil || shape == nil || shape.Dims == nil || src.Format != first.Output(0).Format || !s.cannotFail(first) {
		return
	}
	copies := second.Int("allowzero", 0) == 0
	for i, d := range shape.Dims {
		n, ok := d.Const()
		if copies && (ok && n == 0 || !ok && (i >= len(src.Type.Shape) || !d.Equal(src.Type.Shape[i]))) {
			return
		}
	}
	s.bypass(first, second, src)
}

// cannotFail reports whether a node that only gives its operand other dims does so in every run that gets as far. Where a
// run binds the symbols of both sides they have been compared before the node runs. Regions may not run at all; there the
// numbers of elements have to be equal as expressions.
func (s *simplifier) cannotFail(n *Node) bool {
	in, out := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	if s.g.owner == nil && in.Backed() && out.Backed() {
		return true
	}
	a, ok := numElements(in)
	b, ok2 := numElements(out)
	return ok && ok2 && a.Equal(b)
}

// bypass lets second read what first does, and merges first into it.
func (s *simplifier) bypass(first, second *Node, src *Value) {
	second.SetOperand(0, src)
	s.absorbBefore(second, []*Node{first})
	s.g.Remove(first)
	s.stale(second)
	s.changes++
}

// divideBefore exchanges a transposition with the Reshape behind it, which divides its dims or adds dims of 1, where a view
// before the transposition can then be merged with the Reshape, or tokens become an image of channels. Exporters merge batch and heads
// before they transpose keys, and divide them afterwards.
func (s *simplifier) divideBefore(transpose, n *Node) {
	x, mid, out := transpose.Input(0), transpose.Outputs[0], n.Outputs[0]
	if x == nil || x.Format != mid.Format || x.Type.Shape == nil || !s.cannotFail(n) || !s.computable(out.Type.Shape) {
		return
	}
	perm, parts := permutation(transpose), division(mid.Type.Shape, out.Type.Shape)
	if perm == nil || parts == nil {
		return
	}
	if ofImage(perm, mid.Type.Shape, out.Type.Shape) {
		parts = []int{0, 1, 2, len(out.Type.Shape)} // a batch of 1 stays in front
	} else if x.Producer == nil || !x.HasOneUse() || !x.Producer.Is("Reshape", "Flatten", "Squeeze", "Unsqueeze") {
		return
	}
	attrs, ok := s.viewAttrs(n, out.Type.Shape)
	if !ok {
		return
	}
	order, between := make([]int64, len(out.Type.Shape)), Shape{}
	for axis := range perm {
		i := slices.Index(perm, int64(axis))
		for k := parts[i]; k < parts[i+1]; k++ {
			order[k] = int64(len(between))
			between = append(between, out.Type.Shape[k])
		}
	}
	dims := out.Type.Shape
	s.g.ReplaceUses(out, mid)
	n.SetInputs(x, s.g.addKnown("", between, TensorType(tensor.Int64, Shape{D(len(between))})))
	n.Attrs = attrs
	transpose.SetOperand(0, out)
	transpose.Attrs = transpose.Attrs.With(IntsAttr("perm", order...))
	s.exchanged(n, transpose, between, dims)
}

// ofImage reports whether a permutation exchanges the last two of three dims, of which image divides the last one alone: tokens,
// [N, H·W, C], become an image of channels, [N, C, H, W], or the other way round.
func ofImage(perm []int64, tokens, image Shape) bool {
	return slices.Equal(perm, []int64{0, 2, 1}) && len(tokens) == 3 && len(image) > 3 && tokens[:2].Equal(image[:2])
}

// mergeAfter exchanges a Reshape that makes tokens of an image, [N, C, H·W] of [N, C, H, W], with the transposition behind it: the image is
// transposed then, which whoever keeps its channels in another layout does at once.
func (s *simplifier) mergeAfter(n, transpose *Node) {
	x, mid, out := n.Input(0), n.Outputs[0], transpose.Outputs[0]
	if x == nil || x.Format != mid.Format || !s.cannotFail(n) || !s.computable(out.Type.Shape) {
		return
	}
	if !ofImage(permutation(transpose), mid.Type.Shape, x.Type.Shape) || division(mid.Type.Shape, x.Type.Shape) == nil {
		return
	}
	attrs, ok := s.viewAttrs(n, out.Type.Shape)
	if !ok {
		return
	}
	order, between := []int64{0}, Shape{x.Type.Shape[0]}
	for i, d := range x.Type.Shape[2:] {
		order, between = append(order, int64(i+2)), append(between, d)
	}
	order, between = append(order, 1), append(between, x.Type.Shape[1])
	tokens := out.Type.Shape
	s.g.ReplaceUses(out, mid)
	transpose.SetOperand(0, x)
	transpose.Attrs = transpose.Attrs.With(IntsAttr("perm", order...))
	n.SetInputs(out, s.g.addKnown("", tokens, TensorType(tensor.Int64, Shape{D(len(tokens))})))
	n.Attrs = attrs
	s.exchanged(transpose, n, between, tokens)
}

// viewAttrs returns the attributes with which a Reshape gives its operand those dims in every run; ok is false where the model's operator
// set has none that do.
func (s *simplifier) viewAttrs(n *Node, dims Shape) (attrs Attrs, ok bool) {
	if !slices.ContainsFunc(dims, func(d Dim) bool { _, ok := d.Const(); return !ok }) {
		return n.Attrs, true
	}
	if versionFor(s.g, Op{}) < 14 {
		return nil, false // a symbol that is 0 in a run would copy a dim
	}
	return n.Attrs.With(IntAttr("allowzero", 1)), true
}

// view returns v with those dims, by a Reshape.
func (s *simplifier) view(v *Value, dims Shape) *Value {
	var attrs []Attr
	if versionFor(s.g, Op{}) >= 14 {
		attrs = []Attr{IntAttr("allowzero", 1)}
	}
	shape := s.g.addKnown("", dims, TensorType(tensor.Int64, Shape{D(len(dims))}))
	n := s.g.AddNode(NodeSpec{Op: Op{Name: "Reshape"}, Attrs: attrs, Inputs: []*Value{v, shape}, Outputs: []string{""}, Origins: []string{}})
	n.Outputs[0].Type, n.Outputs[0].Format = Type{Kind: KindTensor, DType: v.Type.DType, Shape: dims}, v.Format
	s.stale(n)
	return n.Outputs[0]
}

// exchanged gives the results of two nodes that were exchanged their dims, and the second one's the name that others know.
func (s *simplifier) exchanged(first, second *Node, between, dims Shape) {
	x, y := first.Outputs[0], second.Outputs[0]
	x.Type.Shape, y.Type.Shape = between, dims
	x.Name, y.Name = y.Name, x.Name
	s.stale(first)
	s.stale(second)
	s.touch(y)
	s.changes++
}

// division returns where in the dims of divided the parts of each dim of whole begin, and the end of the last; nil where divided has
// no such parts, or dims of 0. Dims of 1 that it adds belong to the dim behind them.
func division(whole, divided Shape) []int {
	starts, k := make([]int, 1, len(whole)+1), 0
	for i, d := range whole {
		product := D(1)
		for k < len(divided) && (!product.Equal(d) || i == len(whole)-1 && divided[k].Is(1)) {
			if divided[k].Is(0) {
				return nil
			}
			product = product.Mul(divided[k])
			k++
		}
		if !product.Equal(d) {
			return nil
		}
		starts = append(starts, k)
	}
	if k < len(divided) {
		return nil
	}
	return starts
}
