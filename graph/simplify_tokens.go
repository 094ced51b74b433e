package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// convolveTokens makes products of tokens, [N, H·W, K] with constant weights [K, C], convolutions with a single tap of the image that the
// tokens become or were, where fewer channels are transposed so: of a feed-forward part with a convolution between its products, as
// SegFormer's and PVT's, operand and result are transposed in place of what is several times as wide. Element-wise operators behind views of
// what a convolution computes come before the views, to be computed with it.
func (s *simplifier) convolveTokens() error {
	return s.each(func(n *Node) error {
		switch {
		case n.Op.Domain != "" || len(n.Inputs) == 0 || n.Inputs[0] == nil || !onlyFirst(n):
		case n.Is("Transpose"):
			s.convolveBefore(n)
		case n.Is("MatMul"):
			s.convolveBehind(n)
		case elementWise[n.Op.Name] && !n.Is("Cast"):
			s.activateBefore(n)
		}
		return nil
	})
}

// activateBefore takes an element-wise operator before the views and transpositions behind a convolution, where nothing else reads these.
func (s *simplifier) activateBefore(n *Node) {
	var views []*Node
	v := n.Inputs[0]
	for v.Producer != nil && isMove(v.Producer) && v.HasOneUse() && v.Producer.Inputs[0].Format == v.Format {
		views = append(views, v.Producer)
		v = v.Producer.Inputs[0]
	}
	if !isConvolution(v.Producer) || !v.HasOneUse() || v.Format != n.Outputs[0].Format {
		return
	}
	for _, view := range views {
		s.exchange(view, n)
	}
}

// layer is a product of tokens with constant weights [rows, across], and the bias where there is one.
type layer struct {
	product, add *Node // add is nil where there is no bias
	x            *Value
	weight, bias *Value
	rows, across int
}

// layerOf describes the layer whose last node is n; ok is false where that is another node, or something else reads the product.
func layerOf(n *Node) (l layer, ok bool) {
	y := n.Output(0)
	if y == nil || len(y.Type.Shape) < 3 {
		return l, false
	}
	across, ok := y.Type.Shape[len(y.Type.Shape)-1].Const()
	if !ok {
		return l, false
	}
	l.product, l.across = n, int(across)
	if n.Is("Add") {
		product, bias := biasOf(n, l.across)
		if bias == nil || product.Producer == nil || !product.HasOneUse() {
			return l, false
		}
		l.product, l.add, l.bias = product.Producer, n, bias
	}
	if !l.product.Is("MatMul") || len(l.product.Inputs) != 2 || l.product.Inputs[0] == nil || l.product.Inputs[1] == nil {
		return l, false
	}
	l.x, l.weight = l.product.Inputs[0], l.product.Inputs[1]
	if c := l.weight.Const; c == nil || c.DType != tensor.Float32 || c.Len() == 0 || c.Rank() != 2 || !c.IsCompact() || !l.weight.HasOneUse() {
		return l, false
	}
	l.rows = l.weight.Const.Shape[0]
	return l, l.x.Format == y.Format && len(l.x.Type.Shape) == len(y.Type.Shape)
}

// convolveBefore makes a product whose result becomes an image for convolutions a convolution itself, where its operand has fewer channels:
//
//	MatMul → Add → Reshape → Transpose → Conv  ⇒  Reshape → Transpose → Conv of one tap → Conv
func (s *simplifier) convolveBefore(transpose *Node) {
	v, image := transpose.Inputs[0], transpose.Outputs[0]
	rank := len(image.Type.Shape)
	if rank < 4 || len(v.Type.Shape) != rank || !v.HasOneUse() || v.Format != image.Format || !slices.Equal(permutation(transpose), channelsSecond(rank)) || !readByConvolutions(image) {
		return
	}
	view, tokens := s.tokensOf(v)
	if tokens.Producer == nil || !tokens.HasOneUse() || !onlyFirst(tokens.Producer) {
		return
	}
	l, ok := layerOf(tokens.Producer)
	if !ok || l.rows >= l.across || !v.Type.Shape[rank-1].Is(int64(l.across)) {
		return
	}
	dims := slices.Concat(v.Type.Shape[:rank-1], Shape{D(l.rows)})
	if !s.canConvolve(&l, view, dims) {
		return
	}
	y := l.product.Outputs[0]
	s.replace(image, y)
	if view != nil {
		s.viewAs(view, l.x, dims)
		v.Type.Shape = dims
	} else {
		transpose.SetOperand(0, l.x)
	}
	y.Type, image.Type.Shape = image.Type, withChannels(image.Type.Shape, l.rows)
	s.convolve(&l, image)
	s.stale(transpose)
}

// convolveBehind makes a product of what was an image that a convolution made a convolution itself, where its result has fewer channels:
//
//	Conv → Transpose → Reshape → MatMul → Add  ⇒  Conv → Conv of one tap → Transpose → Reshape
func (s *simplifier) convolveBehind(product *Node) {
	last := product
	if y := product.Outputs[0]; y.HasOneUse() && y.uses[0].Node.graph == s.g && y.uses[0].Node.Is("Add") {
		if l, ok := layerOf(y.uses[0].Node); ok && l.product == product {
			last = l.add
		}
	}
	l, ok := layerOf(last)
	if !ok || l.across >= l.rows || !l.x.HasOneUse() {
		return
	}
	view, v := s.tokensOf(l.x)
	transpose, rank := v.Producer, len(v.Type.Shape)
	if transpose == nil || !transpose.Is("Transpose") || rank < 4 || !v.HasOneUse() || !slices.Equal(permutation(transpose), channelsLast(rank)) {
		return
	}
	image, x, y, made := transpose.Inputs[0], l.x, last.Outputs[0], l.product.Outputs[0]
	if image.Format != v.Format || len(image.Type.Shape) != rank || !image.Type.Shape[1].Is(int64(l.rows)) || !madeByConvolution(image) || !s.canConvolve(&l, view, y.Type.Shape) {
		return
	}
	s.replace(y, x)
	v.Type.Shape = slices.Concat(v.Type.Shape[:rank-1], Shape{D(l.across)})
	if view != nil {
		s.viewAs(view, v, y.Type.Shape)
		x.Type = y.Type
	}
	transpose.SetOperand(0, made)
	made.Type, made.Type.Shape = image.Type, withChannels(image.Type.Shape, l.across)
	s.convolve(&l, image)
	s.stale(transpose)
}

// canConvolve reports whether a layer may become a convolution, and the view, nil where there is none, give its operand other dims.
func (s *simplifier) canConvolve(l *layer, view *Node, dims Shape) bool {
	t := l.weight.Type
	if int64(l.weight.Const.NumBytes()) > s.o.MaxFold || !s.has(Op{Name: "Conv"}, t, t, t) {
		return false
	}
	if view == nil {
		return true
	}
	_, ok := s.viewAttrs(view, dims)
	return ok && s.computable(dims)
}

// viewAs lets a Reshape give x those dims.
func (s *simplifier) viewAs(view *Node, x *Value, dims Shape) {
	view.Attrs, _ = s.viewAttrs(view, dims)
	view.SetInputs(x, s.g.addKnown("", dims, TensorType(tensor.Int64, Shape{D(len(dims))})))
	s.stale(view)
}

// convolve makes the product of a layer a convolution of an image with its weights and bias. The cost is that of transposing the weights.
func (s *simplifier) convolve(l *layer, image *Value) {
	shape := slices.Repeat([]int{1}, len(image.Type.Shape))
	shape[0], shape[1] = l.across, l.rows
	w, src := make([]float32, l.across*l.rows), tensor.Elements[float32](l.weight.Const)
	inPieces(l.across, l.rows, func(lo, hi int) {
		for k := range l.rows {
			for c, x := range src[k*l.across:][lo:hi] {
				w[(lo+c)*l.rows+k] = x
			}
		}
	})
	operands := []*Value{image, s.g.AddConst(l.weight.Name, tensor.From(w, shape...))}
	if l.bias != nil {
		operands = append(operands, s.channelConst(l.bias.Name, tensor.Float32, columnsOf(l.bias, l.across)))
	}
	l.product.Rewrite(Op{Name: "Conv"}, nil, operands...)
	if l.add != nil {
		s.absorb(l.product, l.add)
		s.g.Remove(l.add)
	}
	s.stale(l.product)
	s.touch(l.product.Outputs[0])
	s.changes++
}

// withChannels returns the dims of an image with another number of channels.
func withChannels(s Shape, channels int) Shape {
	return slices.Concat(s[:1], Shape{D(channels)}, s[2:])
}

// tokensOf returns the view that makes v, and its operand; nil and v where no view does that cannot fail.
func (s *simplifier) tokensOf(v *Value) (view *Node, tokens *Value) {
	if p := v.Producer; p != nil && p.Is("Reshape") && p.Inputs[0].Format == v.Format && s.cannotFail(p) {
		return p, p.Inputs[0]
	}
	return nil, v
}

// channelsSecond is the permutation that brings the last dim to the second place.
func channelsSecond(rank int) []int64 {
	perm := []int64{0, int64(rank - 1)}
	for i := 1; i < rank-1; i++ {
		perm = append(perm, int64(i))
	}
	return perm
}

// channelsLast is the permutation that undoes that.
func channelsLast(rank int) []int64 {
	perm := []int64{0}
	for i := 2; i < rank; i++ {
		perm = append(perm, int64(i))
	}
	return append(perm, 1)
}

func isConvolution(n *Node) bool { return n != nil && n.Is("Conv", "ConvTranspose") }

// readByConvolutions reports whether only convolutions read v, as their images.
func readByConvolutions(v *Value) bool {
	return v.output == 0 && len(v.uses) > 0 && !slices.ContainsFunc(v.uses, func(u Use) bool { return u.Slot > 0 || !isConvolution(u.Node) })
}

// madeByConvolution reports whether v, which one node reads, is what a convolution computes, or an element-wise operator of that.
func madeByConvolution(v *Value) bool {
	p := v.Producer
	if p != nil && p.Op.Domain == "" && elementWise[p.Op.Name] {
		p = p.Inputs[0].Producer
	}
	return isConvolution(p) && v.HasOneUse()
}
