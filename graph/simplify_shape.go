package graph

import "github.com/carve-dev/carve/graph/tensor"

// foldShapes replaces nodes of shape arithmetic by dims values, or by constants where the dims are numbers: all results
// are integer scalars or vectors whose elements are known as expressions of symbols that the graph's inputs bind. Such
// values are evaluated when shapes are known; no backend sees them.
func (s *simplifier) foldShapes() error {
	return s.each(func(n *Node) error {
		if len(n.Regions) > 0 || len(n.Outputs) == 0 || n.Op.Domain == CarveDomain || isRandomNode(n) {
			return nil
		}
		for _, v := range n.Outputs {
			if v != nil && !s.isShape(v) {
				return nil
			}
		}
		kind := FoldedConstant
		for _, v := range n.Inputs {
			if v != nil && v.Const == nil {
				kind = FoldedShape
			}
		}
		for _, v := range n.Outputs {
			if v != nil && (len(v.uses) > 0 || v.output > 0) {
				s.replace(v, s.g.addKnown(v.Name, v.Dims, v.Type))
			}
		}
		s.vanish(n, kind)
		s.g.Remove(n)
		return nil
	})
}

// isShape reports whether the content of v is known, and a run can evaluate it.
func (s *simplifier) isShape(v *Value) bool {
	if v.Dims == nil || !v.Type.IsTensor() || v.Type.Shape == nil || len(v.Type.Shape) > 1 ||
		v.Type.DType != tensor.Int64 && v.Type.DType != tensor.Int32 {
		return false
	}
	if len(v.Type.Shape) == 0 && len(v.Dims) != 1 || len(v.Type.Shape) == 1 && !v.Type.Shape[0].Is(int64(len(v.Dims))) {
		return false
	}
	for _, d := range v.Dims {
		if n, ok := d.Const(); ok && v.Type.DType == tensor.Int32 && n != int64(int32(n)) {
			return false
		}
	}
	return s.computable(v.Dims)
}

// computable reports whether a run can evaluate dims: the inputs bind their symbols.
func (s *simplifier) computable(dims []Dim) bool {
	var names map[string]bool
	for _, d := range dims {
		if _, ok := d.Const(); ok {
			continue
		}
		if names == nil {
			names = map[string]bool{}
		}
		d.Symbols(names)
	}
	for name := range names {
		if !s.bound[name] || name[0] == '?' {
			return false
		}
	}
	return true
}

// addKnown adds a constant where all dims are numbers, otherwise a dims value.
func (g *Graph) addKnown(name string, dims []Dim, t Type) *Value {
	numbers := make([]int64, len(dims))
	for i, d := range dims {
		n, ok := d.Const()
		if !ok {
			v := g.AddDims(name, dims, len(t.Shape) == 0)
			v.Type.DType = t.DType
			return v
		}
		numbers[i] = n
	}
	shape := []int{len(dims)}
	if len(t.Shape) == 0 {
		shape = []int{}
	}
	if t.DType == tensor.Int64 {
		return g.AddConst(name, tensor.From(numbers, shape...))
	}
	small := make([]int32, len(numbers))
	for i, n := range numbers {
		small[i] = int32(n)
	}
	return g.AddConst(name, tensor.From(small, shape...))
}
