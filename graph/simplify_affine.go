package graph

import "github.com/carve-dev/carve/graph/tensor"

// foldAffine folds what a BatchNormalization, or a Mul or an Add with constants, does to each channel before a convolution that pads nothing into
// its weights and bias; and has factors multiply each other before they multiply what has more elements, as GRN of ConvNeXt V2 has them:
//
//	x·s·w ⇒ x·(s·w)    x + x·s ⇒ x·(s+1)    x + (x·s + b) ⇒ x·(s+1) + b
func (s *simplifier) foldAffine() error {
	return s.each(func(n *Node) error {
		switch {
		case !onlyFirst(n):
		case n.Is("Conv"):
			s.absorbOperand(n)
		case n.Is("Mul"):
			return s.gatherFactors(n)
		case n.Is("Add"):
			return s.gatherTerms(n)
		}
		return nil
	})
}

// absorbOperand folds what is done to the channels of a convolution's operand.
func (s *simplifier) absorbOperand(conv *Node) {
	x := conv.Input(0)
	if x == nil || x.Producer == nil || x.Producer.graph != s.g || !x.HasOneUse() || !padsNothing(conv) {
		return
	}
	n := x.Producer
	l, ok := linearOf(conv)
	group := int(conv.Int("group", 1))
	if !ok || l.weight.Const == nil || !l.weight.HasOneUse() || l.weight.Const.DType != tensor.Float32 || int64(l.weight.Const.NumBytes()) > s.o.MaxFold || group < 1 || l.channels%group != 0 {
		return
	}
	bias, ok := l.biasOf(conv)
	per := l.weight.Const.Shape[1] // channels of the operand that belong to a group
	src, a, ok2 := affineOf(n, per*group)
	if !ok || !ok2 || src == nil || src.Format != x.Format || !src.Type.Equal(x.Type) || !finite(a.scale) || !finite(a.shift) {
		return
	}
	old := tensor.Elements[float32](l.weight.Const)
	w := make([]float32, len(old))
	taps := l.run / per
	for o := range l.channels {
		first := o / (l.channels / group) * per
		for c := range per {
			scale, sum := 1.0, 0.0
			if a.scale != nil {
				scale = a.scale[first+c]
			}
			at := o*l.run + c*taps
			for i, v := range old[at : at+taps] {
				sum += float64(v)
				w[at+i] = float32(float64(v) * scale)
			}
			if a.shift != nil {
				bias[o] += sum * a.shift[first+c]
			}
		}
	}
	conv.SetOperand(0, src)
	if a.scale != nil {
		conv.SetOperand(1, s.g.AddConst(l.weight.Name, tensor.From(w, l.weight.Const.Shape...)))
	}
	if a.shift != nil {
		s.setBias(conv, l, bias)
	}
	s.absorbBefore(conv, []*Node{n})
	s.g.Remove(n)
	s.stale(conv)
	s.changes++
}

// padsNothing reports whether every result of a convolution is computed of elements of its operand alone.
func padsNothing(conv *Node) bool {
	if auto := conv.Str("auto_pad", "NOTSET"); auto != "NOTSET" && auto != "VALID" {
		return false
	}
	pads, _ := conv.Ints("pads")
	for _, p := range pads {
		if p != 0 {
			return false
		}
	}
	return true
}

// affineOf returns what a node does to each of so many channels of src.
func affineOf(n *Node, channels int) (src *Value, a affine, ok bool) {
	if n.Is("BatchNormalization") {
		a, ok = normalisation(n)
		return n.Input(0), a, ok && len(a.scale) == channels
	}
	if !n.Is("Mul", "Div", "Add", "Sub") || n.Op.Since < byShapes || n.Inputs[0] == nil || n.Inputs[1] == nil {
		return nil, a, false
	}
	src, c := n.Inputs[0], n.Inputs[1]
	if src.Const != nil && n.Is("Mul", "Add") {
		src, c = c, src
	}
	if c.Const == nil {
		return nil, a, false
	}
	v := perChannel(c, channels, len(n.Outputs[0].Type.Shape))
	for i, x := range v {
		switch {
		case n.Is("Div"):
			v[i] = 1 / x
		case n.Is("Sub"):
			v[i] = -x
		}
	}
	if n.Is("Mul", "Div") {
		return src, affine{scale: v}, v != nil
	}
	return src, affine{shift: v}, v != nil
}

// gatherFactors has the factors of a product of three multiply each other first, where that is less than to multiply x by each.
func (s *simplifier) gatherFactors(n *Node) error {
	y := n.Outputs[0]
	for i, m := range n.Inputs {
		c := n.Inputs[1-i]
		x, factor := s.product(m)
		if x == nil || c == nil || !x.Type.Equal(y.Type) || !narrow(c, y) {
			continue
		}
		both := s.g.AddNode(NodeSpec{Op: m.Producer.Op, Inputs: []*Value{factor, c}, Outputs: []string{""}, Origins: []string{}})
		if err := InferNode(both); err != nil {
			return err
		}
		if !narrow(both.Outputs[0], y) {
			s.g.Remove(both)
			continue
		}
		first := m.Producer
		n.SetInputs(x, both.Outputs[0])
		s.absorbBefore(n, []*Node{first})
		s.g.Remove(first)
		s.stale(n)
		s.changes++
		return nil
	}
	return nil
}

// gatherTerms makes a sum of x and a multiple of x one product, with what else is added to that behind it.
func (s *simplifier) gatherTerms(n *Node) error {
	for i, m := range n.Inputs {
		x := n.Inputs[1-i]
		if x == nil || m == nil || x == m || !x.Type.Equal(n.Outputs[0].Type) {
			continue
		}
		sum := m // what n adds to x
		if p := m.Producer; p != nil && p.Is("Add") && m.HasOneUse() && p.graph == s.g && p.Op.Since >= byShapes {
			for k, b := range p.Inputs {
				if b != nil && b.Const != nil && narrow(b, m) {
					m = p.Inputs[1-k]
				}
			}
		}
		of, factor := s.product(m)
		if of != x || !m.Type.Equal(x.Type) {
			continue
		}
		one, err := tensor.New(x.Type.DType)
		if err != nil || tensor.Encode(one, []float64{1}) != nil {
			return err
		}
		more := s.g.AddNode(NodeSpec{Op: n.Op, Inputs: []*Value{factor, s.g.AddConst("", one)}, Outputs: []string{""}, Origins: []string{}})
		if err := InferNode(more); err != nil {
			return err
		}
		m.Producer.SetInputs(x, more.Outputs[0])
		s.stale(m.Producer)
		s.forward(n, sum)
		return nil
	}
	return nil
}

// product returns what a product that is read once multiplies, and by what that has fewer elements; nil where v is none.
func (s *simplifier) product(v *Value) (x, factor *Value) {
	if v == nil || v.Producer == nil || !v.Producer.Is("Mul") || v.Producer.graph != s.g || !v.HasOneUse() || v.Producer.Op.Since < byShapes ||
		v.Type.DType != tensor.Float32 && v.Type.DType != tensor.Float64 {
		return nil, nil
	}
	for i, f := range v.Producer.Inputs {
		if x = v.Producer.Inputs[1-i]; x != nil && f != nil && x.Format == v.Format && f.Format == v.Format && x.Type.Equal(v.Type) && narrow(f, v) {
			return x, f
		}
	}
	return nil, nil
}

// narrow reports whether v is broadcast along an axis of out that is not 1.
func narrow(v, out *Value) bool {
	a, b := v.Type.Shape, out.Type.Shape
	if a == nil || b == nil || len(a) > len(b) || v.Type.DType != out.Type.DType {
		return false
	}
	for i, d := range b {
		if k := i - (len(b) - len(a)); !d.Is(1) && (k < 0 || a[k].Is(1)) {
			return true
		}
	}
	return false
}
