package graph

import "github.com/carve-dev/carve/graph/tensor"

// absorbColumns folds an affine map of the columns of a matrix, done by n of rank 2, into the product with constant weights that the
// matrix comes from, with or without a bias, and with views between that keep its rows whole: linear layers whose rows are normalised
// as those of one matrix. It reports whether there is such a product.
func (s *simplifier) absorbColumns(n *Node, a affine) bool {
	x, columns := n.Inputs[0], len(a.scale)
	v := x
	for isRowView(v, columns) {
		v = v.Producer.Inputs[0]
	}
	var bias *Node
	product, shift := v, a.shift
	if m, b := biasedProduct(v, columns); b != nil {
		bias, product, shift = v.Producer, m, columnsOf(b, columns)
		for i := range shift {
			shift[i] = shift[i]*a.scale[i] + a.shift[i]
		}
	}
	l, ok := columnsProduct(product, columns)
	if !ok || int64(l.weight.Const.NumBytes()) > s.o.MaxFold || !finite(a.scale) || !finite(shift) || x.Format != n.Outputs[0].Format {
		return false
	}
	w := l.scaled(l.weight.Const, a.scale)
	b, err := tensor.New(l.weight.Type.DType, columns)
	if w == nil || err != nil || tensor.Encode(b, shift) != nil || !s.has(Op{Name: "Add"}, x.Type, x.Type, TensorType(b.DType, Shape{D(columns)})) {
		return false
	}
	product.Producer.SetOperand(1, s.g.AddConst(l.weight.Name, w))
	c := s.g.AddConst(n.Inputs[2].Name, b)
	if bias != nil {
		bias.SetInputs(product, c)
		s.absorb(bias, n)
		s.replace(n.Outputs[0], x)
		s.g.Remove(n)
		return true
	}
	s.rewrite(n, Op{Name: "Add"}, nil, x, c)
	s.stale(n)
	s.changes++
	for isRowView(n.Inputs[0], columns) {
		s.exchange(n.Inputs[0].Producer, n)
	}
	return true
}

// isRowView reports whether a node that only gives its operand other dims, and leaves the last of so many elements, makes v, which
// alone is read from it, once.
func isRowView(v *Value, columns int) bool {
	p := v.Producer
	if p == nil || !p.Is("Reshape", "Flatten", "Squeeze", "Unsqueeze") || !v.HasOneUse() || !onlyFirst(p) {
		return false
	}
	x := p.Input(0)
	return x != nil && x.Format == v.Format && endsIn(x.Type.Shape, columns) && endsIn(v.Type.Shape, columns)
}

func endsIn(s Shape, n int) bool { return len(s) > 0 && s[len(s)-1].Equal(D(n)) }

// columnsProduct describes the constant weights, [K, columns], of the MatMul that makes v, which is read once.
func columnsProduct(v *Value, columns int) (l linear, ok bool) {
	if v.Producer == nil || !v.Producer.Is("MatMul") || !v.HasOneUse() || len(v.Producer.Inputs) != 2 || v.Producer.Inputs[1] == nil {
		return l, false
	}
	w := v.Producer.Inputs[1]
	if w.Const == nil || len(w.Const.Shape) != 2 || w.Const.Shape[1] != columns || w.Const.Len() == 0 || !floating(w.Const.DType) {
		return l, false
	}
	return linear{weight: w, channels: columns, run: 1, rows: true, channelOf: func(i int) int { return i % columns }}, true
}

// biasedProduct returns the operands of the Add that makes v, which is read once: a product and a constant for each of its columns.
func biasedProduct(v *Value, columns int) (product, bias *Value) {
	if p := v.Producer; p != nil && p.Is("Add") && v.HasOneUse() {
		return biasOf(p, columns)
	}
	return nil, nil
}

// biasOf returns the operands of an Add: what has the type of its result, and a constant for each of its columns; nil for another Add.
func biasOf(n *Node, columns int) (x, bias *Value) {
	for i, b := range n.Inputs {
		if x := n.Inputs[1-i]; x != nil && b != nil && x.Type.Equal(n.Outputs[0].Type) && columnsOf(b, columns) != nil {
			return x, b
		}
	}
	return nil, nil
}

// columnsOf returns a constant with one number for each column, and no other dims than 1; nil for any other value.
func columnsOf(v *Value, columns int) []float64 {
	out := vector(v, columns)
	if out == nil || len(v.Const.Shape) == 0 || v.Const.Shape[len(v.Const.Shape)-1] != columns {
		return nil
	}
	return out
}

// lowerBatchNorm makes a normalisation of the columns of a matrix a Mul and an Add with constants.
func (s *simplifier) lowerBatchNorm(n *Node, a affine) error {
	x, t := n.Inputs[0], n.Outputs[0].Type
	if t.DType != tensor.Float32 && t.DType != tensor.Float64 || !finite(a.scale) || !finite(a.shift) {
		return nil // halves would be rounded twice
	}
	vec := TensorType(t.DType, Shape{D(len(a.scale))})
	if !x.Type.Equal(t) || !s.has(Op{Name: "Mul"}, t, t, vec) || !s.has(Op{Name: "Add"}, t, t, vec) {
		return nil
	}
	consts := make([]*Value, 2)
	for i, v := range [][]float64{a.scale, a.shift} {
		c, err := tensor.New(t.DType, len(v))
		if err != nil || tensor.Encode(c, v) != nil {
			return nil
		}
		consts[i] = s.g.AddConst(n.Inputs[1+i].Name, c)
	}
	m := s.g.AddNode(NodeSpec{Op: Op{Name: "Mul"}, Inputs: []*Value{x, consts[0]}, Outputs: []string{""}, Origins: []string{}})
	s.rewrite(n, Op{Name: "Add"}, nil, m.Outputs[0], consts[1])
	s.stale(n)
	s.changes++
	return InferNode(m)
}
