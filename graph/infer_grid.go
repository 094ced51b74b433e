package graph

import "github.com/carve-dev/carve/graph/tensor"

// gridOf returns the elements and the shape of a small integer value of any rank that is made from known contents by
// moving them: exporters reorder the pads of a Pad as a matrix.
func gridOf(v *Value, depth int) (dims []Dim, shape []int, ok bool) {
	if v == nil || depth == 0 || !followed(v.Type.DType) {
		return nil, nil, false
	}
	shape, ok = v.Type.Shape.Static()
	if !ok {
		return nil, nil, false
	}
	n, err := tensor.NumElements(shape)
	if err != nil || n > maxDimsContent {
		return nil, nil, false
	}
	if v.Dims != nil {
		return v.Dims, shape, len(v.Dims) == n
	}
	if t := constOf(v); t != nil {
		vals := make([]int64, t.Len())
		if t.Len() != n || tensor.DecodeInts(vals, t) != nil {
			return nil, nil, false
		}
		for _, x := range vals {
			dims = append(dims, Dim{c: x})
		}
		return dims, shape, true
	}
	p := v.Producer
	if p == nil || p.Op.Domain != "" {
		return nil, nil, false
	}
	switch p.Op.Name {
	case "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Cast":
		dims, _, ok = gridOf(p.Input(0), depth-1)
		return dims, shape, ok && len(dims) == n
	case "Transpose":
		return transposeGrid(p, depth)
	case "Slice":
		return sliceGrid(p, depth)
	}
	return nil, nil, false
}

// moveGrid returns the elements of src at the places that at gives for each index into shape.
func moveGrid(src []Dim, srcShape, shape []int, at func(index []int) (srcIndex []int)) []Dim {
	n, _ := tensor.NumElements(shape)
	strides := tensor.CompactStrides(srcShape)
	out := make([]Dim, n)
	index := make([]int, len(shape))
	for i := range out {
		p := 0
		for k, x := range at(index) {
			p += x * strides[k]
		}
		out[i] = src[p]
		for k := len(index) - 1; k >= 0; k-- {
			if index[k]++; index[k] < shape[k] {
				break
			}
			index[k] = 0
		}
	}
	return out
}

func transposeGrid(n *Node, depth int) ([]Dim, []int, bool) {
	src, srcShape, ok := gridOf(n.Input(0), depth-1)
	if !ok {
		return nil, nil, false
	}
	rank := len(srcShape)
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = rank - 1 - i
	}
	if list, has := n.Ints("perm"); has {
		var err error
		if perm, err = NormAxes(list, rank); err != nil || len(perm) != rank {
			return nil, nil, false
		}
	}
	shape := make([]int, rank)
	for i, a := range perm {
		shape[i] = srcShape[a]
	}
	from := make([]int, rank)
	return moveGrid(src, srcShape, shape, func(index []int) []int {
		for i, a := range perm {
			from[a] = index[i]
		}
		return from
	}), shape, true
}

// sliceGrid follows a Slice of one axis with inputs.
func sliceGrid(n *Node, depth int) ([]Dim, []int, bool) {
	src, srcShape, ok := gridOf(n.Input(0), depth-1)
	var arg [4]int64 // starts, ends, axes, steps
	arg[3] = 1
	for i := range arg {
		v := n.Input(1 + i)
		if v == nil {
			ok = ok && i >= 2
			continue
		}
		if len(v.Dims) != 1 {
			return nil, nil, false
		}
		x, isConst := v.Dims[0].Const()
		arg[i], ok = x, ok && isConst
	}
	axis, err := NormAxis(arg[2], len(srcShape))
	if !ok || err != nil || arg[3] == 0 {
		return nil, nil, false
	}
	first, count := SliceRange(int64(srcShape[axis]), arg[0], arg[1], arg[3])
	shape := append([]int{}, srcShape...)
	shape[axis] = int(count)
	from := make([]int, len(shape))
	return moveGrid(src, srcShape, shape, func(index []int) []int {
		copy(from, index)
		from[axis] = int(first) + index[axis]*int(arg[3])
		return from
	}), shape, true
}
