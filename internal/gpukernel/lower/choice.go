package lower

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// along returns an axis's numbers, from 0, as a value that broadcasts over dims of a shape.
func (l *lowering) along(shape []int, axis int) gpukernel.Value {
	dims := make([]int, len(shape)-axis)
	for i := range dims {
		dims[i] = 1
	}
	dims[0] = shape[axis]
	return l.p.Reshape(l.p.Iota(shape[axis]), dims...)
}

// same says that an element comes from where it is, along all axes of a rank.
func same(rank int) []gpukernel.Along {
	list := make([]gpukernel.Along, rank)
	for i := range list {
		list[i] = gpukernel.Along{Axis: i, Index: gpukernel.NoValue}
	}
	return list
}

// best returns the index of the largest element along an axis, or the smallest: the first of several, or the last. NaN is best.
func (l *lowering) best(x gpukernel.Value, axis int, largest, last bool) gpukernel.Value {
	shape := l.p.Shape(x)
	op, equal := gpukernel.ReduceMax, "$0 == $1"
	if !largest {
		op = gpukernel.ReduceMin
	}
	if isFloat(l.p.Type(x)) {
		equal = "($0 == $1 || isnan_f32($0))"
	}
	most := l.p.Reduce(op, x, axis)
	if last {
		return l.p.Reduce(gpukernel.ReduceMax, l.p.Scalar(gpukernel.I32, "("+equal+" ? $2 : -1)", x, most, l.along(shape, axis)), axis)
	}
	return l.p.Reduce(gpukernel.ReduceMin, l.p.Scalar(gpukernel.I32, "("+equal+" ? $2 : 2147483647)", x, most, l.along(shape, axis)), axis)
}

func (l *lowering) argExtreme(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	if len(l.p.Shape(x)) == 0 {
		return refuse("a scalar")
	}
	axis, err := graph.NormAxis(n.Int("axis", 0), len(l.p.Shape(x)))
	if err != nil {
		return refuse("%v", err)
	}
	i := l.best(x, axis, n.Op.Name == "ArgMax", n.Int("select_last_index", 0) != 0)
	return l.result(n, 0, l.p.Cast(i, gpukernel.I64))
}

// hardmax is one where the first of the largest elements is; before version 13 over all dims from the axis on.
func (l *lowering) hardmax(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	def := int64(-1)
	if n.Op.Since < 13 {
		def = 1
	}
	shape := l.p.Shape(x)
	if len(shape) == 0 {
		return refuse("a scalar")
	}
	axis, err := graph.NormAxis(n.Int("axis", def), len(shape))
	if err != nil {
		return refuse("%v", err)
	}
	if n.Op.Since < 13 {
		rows := 1
		for _, d := range shape[:axis] {
			rows *= d
		}
		x = l.p.Reshape(x, rows, elements(shape)/rows)
		axis = 1
	}
	i := l.best(x, axis, true, false)
	return l.result(n, 0, l.p.Scalar(l.p.Type(x), "($0 == $1 ? 1 : 0)", l.along(l.p.Shape(x), axis), i))
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// oneHot compares indices with the numbers of a new axis.
func (l *lowering) oneHot(n *graph.Node) error {
	indices, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	values, err := l.operand(n, 2)
	if err != nil {
		return err
	}
	t, shape, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	in := l.p.Shape(indices)
	axis, err := graph.NormAxis(n.Int("axis", -1), len(shape))
	if err != nil || len(shape) != len(in)+1 || elements(l.p.Shape(values)) != 2 {
		return refuse("indices %v of %v", in, shape)
	}
	indices = l.p.Reshape(l.p.Cast(indices, gpukernel.I64), slices.Insert(slices.Clone(in), axis, 1)...)
	values = l.p.Reshape(values, 2)
	off, on := l.p.Reshape(l.p.Slice(values, []int{1}, []int{0}, []int{1})), l.p.Reshape(l.p.Slice(values, []int{1}, []int{1}, []int{1}))
	depth := l.p.Constant(gpukernel.I32, literalInt(shape[axis]))
	return l.result(n, 0, l.p.Scalar(t, "(($0 < 0 ? $0 + $2 : $0) == $1 ? $4 : $3)", indices, l.along(shape, axis), depth, off, on))
}

// trilu keeps a triangle of matrices.
func (l *lowering) trilu(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	shape := l.p.Shape(x)
	rank := len(shape)
	if rank < 2 {
		return refuse("rank %d", rank)
	}
	by := l.p.Constant(gpukernel.I32, "0")
	if list, known, err := integers(n, 1); err == nil && known && len(list) == 1 {
		by = l.p.Constant(gpukernel.I32, literalInt(int(max(min(list[0], int64(shape[rank-1])+1), -int64(shape[rank-2])-1))))
	} else if n.Input(1) != nil {
		k, err := l.operand(n, 1)
		if err != nil {
			return err
		}
		if elements(l.p.Shape(k)) != 1 {
			return refuse("%d diagonals", elements(l.p.Shape(k)))
		}
		by = l.p.Scalar(gpukernel.I32, fmt.Sprintf("(i32)($0 < -%[1]d ? -%[1]d : $0 > %[2]d ? %[2]d : $0)", shape[rank-2]+1, shape[rank-1]+1), l.p.Reshape(k))
	}
	keep := "($2 <= $1 + $3 ? $0 : 0)"
	if n.Int("upper", 1) != 0 {
		keep = "($2 >= $1 + $3 ? $0 : 0)"
	}
	return l.result(n, 0, l.p.Scalar(l.p.Type(x), keep, x, l.along(shape, rank-2), l.along(shape, rank-1), by))
}

// eyeLike is a matrix with ones on a diagonal; of its operand only the shape counts.
func (l *lowering) eyeLike(n *graph.Node) error {
	t, shape, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	if len(shape) != 2 {
		return refuse("rank %d", len(shape))
	}
	k := max(min(n.Int("k", 0), int64(shape[1])), -int64(shape[0]))
	by := l.p.Constant(gpukernel.I32, literalInt(int(k)))
	return l.result(n, 0, l.p.Scalar(t, "($1 == $0 + $2 ? 1 : 0)", l.along(shape, 0), l.along(shape, 1), by))
}

func (l *lowering) gatherElements(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	indices, err := l.operand(n, 1)
	if err != nil {
		return err
	}
	in, shape := l.p.Shape(x), l.p.Shape(indices)
	axis, err := graph.NormAxis(n.Int("axis", 0), len(in))
	if err != nil || len(shape) != len(in) {
		return refuse("indices %v of %v", shape, in)
	}
	along := same(len(in))
	along[axis] = gpukernel.Along{Index: indices}
	return l.result(n, 0, l.p.Pick(x, shape, along...))
}

// gatherND takes slices at the places that rows of indices name.
func (l *lowering) gatherND(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	indices, err := l.operand(n, 1)
	if err != nil {
		return err
	}
	in, rows := l.p.Shape(x), l.p.Shape(indices)
	batch := int(max(min(n.Int("batch_dims", 0), 64), 0))
	if len(rows) == 0 || batch >= len(rows) || batch+rows[len(rows)-1] > len(in) {
		return refuse("indices %v of %v", rows, in)
	}
	outer, width := rows[:len(rows)-1], rows[len(rows)-1]
	rest := in[batch+width:]
	shape := slices.Concat(outer, rest)
	along := make([]gpukernel.Along, len(in))
	for i := range in {
		switch {
		case i < batch:
			along[i] = gpukernel.Along{Axis: i, Index: gpukernel.NoValue}
		case i >= batch+width:
			along[i] = gpukernel.Along{Axis: len(outer) + i - batch - width, Index: gpukernel.NoValue}
		default:
			starts, steps := make([]int, len(rows)), slices.Repeat([]int{1}, len(rows))
			starts[len(rows)-1] = i - batch
			one := l.p.Slice(indices, append(slices.Clone(outer), 1), starts, steps)
			along[i] = gpukernel.Along{Index: l.p.Reshape(one, append(slices.Clone(outer), slices.Repeat([]int{1}, len(rest))...)...)}
		}
	}
	return l.result(n, 0, l.p.Pick(x, shape, along...))
}

// reverseSequence turns the first elements of the time axis around, as many as a batch's length says.
func (l *lowering) reverseSequence(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	lens, err := l.operand(n, 1)
	if err != nil {
		return err
	}
	shape := l.p.Shape(x)
	batch, time := n.Int("batch_axis", 1), n.Int("time_axis", 0)
	if len(shape) < 2 || batch+time != 1 || batch*time != 0 || elements(l.p.Shape(lens)) != shape[batch] {
		return refuse("lengths %v of %v", l.p.Shape(lens), shape)
	}
	dims := slices.Repeat([]int{1}, len(shape))
	dims[batch] = shape[batch]
	lens = l.p.Reshape(l.p.Cast(lens, gpukernel.I32), dims...)
	along := same(len(shape))
	along[time] = gpukernel.Along{Index: l.p.Scalar(gpukernel.I32, "($0 < $1 ? $1 - 1 - $0 : $0)", l.along(shape, int(time)), lens)}
	return l.result(n, 0, l.p.Pick(x, shape, along...))
}

// depthSpace moves between channels and the pixels of blocks.
func (l *lowering) depthSpace(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	s := l.p.Shape(x)
	b := int(max(min(n.Int("blocksize", 0), 1<<15), 0))
	if len(s) != 4 || b < 1 {
		return refuse("blocks of %d in %v", b, s)
	}
	crd := n.Str("mode", "DCR") == "CRD"
	if n.Op.Name == "SpaceToDepth" {
		if s[2]%b != 0 || s[3]%b != 0 {
			return refuse("blocks of %d in %v", b, s)
		}
		perm := []int{0, 3, 5, 1, 2, 4}
		if crd {
			perm = []int{0, 1, 3, 5, 2, 4}
		}
		return l.result(n, 0, l.p.Transpose(l.p.Reshape(x, s[0], s[1], s[2]/b, b, s[3]/b, b), perm...))
	}
	if s[1]%(b*b) != 0 {
		return refuse("blocks of %d in %v", b, s)
	}
	if crd {
		return l.result(n, 0, l.p.Transpose(l.p.Reshape(x, s[0], s[1]/(b*b), b, b, s[2], s[3]), 0, 1, 4, 2, 5, 3))
	}
	return l.result(n, 0, l.p.Transpose(l.p.Reshape(x, s[0], b, b, s[1]/(b*b), s[2], s[3]), 0, 3, 4, 1, 5, 2))
}

// cumulativeMost is the longest axis of a CumSum or CumProd: each element adds up all those before it.
const cumulativeMost = 256

// cumulative combines, for each element, those before it.
func (l *lowering) cumulative(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	list, _, err := integers(n, 1)
	if err != nil {
		return err
	}
	shape := l.p.Shape(x)
	if len(list) != 1 || len(shape) == 0 {
		return refuse("axes %v of rank %d", list, len(shape))
	}
	axis, err := graph.NormAxis(list[0], len(shape))
	if err != nil || shape[axis] > cumulativeMost {
		return refuse("axis %d of %v", list[0], shape)
	}
	op, with := gpukernel.ReduceSum, "0"
	if n.Op.Name == "CumProd" {
		op, with = gpukernel.ReduceProd, "1"
	}
	compare := "<="
	switch exclusive, reverse := n.Int("exclusive", 0) != 0, n.Int("reverse", 0) != 0; {
	case exclusive && reverse:
		compare = ">"
	case exclusive:
		compare = "<"
	case reverse:
		compare = ">="
	}
	wide := slices.Insert(slices.Clone(shape), axis, shape[axis])
	each := l.p.Expand(l.p.Reshape(x, slices.Insert(slices.Clone(shape), axis, 1)...), wide...)
	chosen := l.p.Scalar(l.p.Type(x), "($2 "+compare+" $1 ? $0 : "+with+")", each, l.along(wide, axis), l.along(wide, axis+1))
	return l.result(n, 0, l.p.Reduce(op, chosen, axis+1))
}
