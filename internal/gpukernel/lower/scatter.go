package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// scatterMost is the most pairs of an element and an update that are looked at: an element looks for its updates.
const scatterMost = 1 << 26

// scatterRule is how updates that belong to an element are combined with it.
type scatterRule struct {
	op      gpukernel.ReduceOp
	float   string
	integer string
	instead string // of updates that belong to others; "" for the element itself, which then changes nothing
}

var scatterRules = map[string]scatterRule{
	"add": {gpukernel.ReduceSum, "$0 + $1", "$0 + $1", "0"}, "mul": {gpukernel.ReduceProd, "$0 * $1", "$0 * $1", "1"},
	"max": {gpukernel.ReduceMax, "max_f32($0, $1)", "($0 > $1 ? $0 : $1)", ""}, "min": {gpukernel.ReduceMin, "min_f32($0, $1)", "($0 < $1 ? $0 : $1)", ""},
}

// combined folds, along an axis, the updates u for which match holds into x, which all broadcast with each other.
func (l *lowering) combined(mode string, x, u, match gpukernel.Value, axis int) (gpukernel.Value, error) {
	r, ok := scatterRules[mode]
	t := l.p.Type(x)
	if !ok || t == gpukernel.Bool {
		return 0, refuse("reduction %q of type %s", mode, t)
	}
	chosen, instead := "($1 ? $0 : $2)", x
	if r.instead != "" {
		instead = l.p.Constant(t, r.instead)
	}
	each := l.p.Reduce(r.op, l.p.Scalar(t, chosen, u, match, instead), axis)
	text := r.integer
	if isFloat(t) {
		text = r.float
	}
	return l.p.Scalar(t, text, x, each), nil
}

// scatterElements lets each element look along the axis for updates whose index is its own: the last one counts, or all combined.
func (l *lowering) scatterElements(n *graph.Node) error {
	var in [3]gpukernel.Value
	for i := range in {
		var err error
		if in[i], err = l.operand(n, i); err != nil {
			return err
		}
	}
	x, indices, u := in[0], in[1], in[2]
	dims, shape := l.p.Shape(x), slices.Clone(l.p.Shape(indices))
	axis, err := graph.NormAxis(n.Int("axis", 0), len(dims))
	if err != nil || len(shape) != len(dims) || !slices.Equal(shape, l.p.Shape(u)) || l.p.Type(u) != l.p.Type(x) {
		return refuse("indices %v and updates %v of %v", shape, l.p.Shape(u), dims)
	}
	count := shape[axis]
	if elements(dims) > scatterMost/count {
		return refuse("%d updates for each of %v", count, dims)
	}
	after := make([]int, len(dims))
	for i := range dims {
		if i != axis {
			after[i] = dims[i] - shape[i]
		}
		if after[i] < 0 {
			return refuse("indices %v of %v", shape, dims)
		}
	}
	t := l.p.Type(x)
	at := l.p.Scalar(gpukernel.I32, fmt.Sprintf("(i32)($0 < 0 ? $0 + %[1]d : $0 < %[1]d ? $0 : -1)", dims[axis]), indices)
	if slices.Max(after) > 0 {
		none := make([]int, len(dims))
		at = l.p.Pad(at, l.p.Constant(gpukernel.I32, "-1"), none, after)
		u = l.p.Pad(u, l.p.Constant(t, "0"), none, after)
	}
	wide := func(v gpukernel.Value, place int) gpukernel.Value { // with a dim of 1 beside the axis
		return l.p.Reshape(v, slices.Insert(slices.Clone(l.p.Shape(v)), place, 1)...)
	}
	both := slices.Insert(slices.Clone(dims), axis+1, count)
	match := l.p.Scalar(gpukernel.Bool, "($0 == $1)", wide(at, axis), l.along(both, axis))
	if mode := n.Str("reduction", "none"); mode != "none" {
		y, err := l.combined(mode, wide(x, axis+1), wide(u, axis), match, axis+1)
		if err != nil {
			return err
		}
		return l.result(n, 0, y)
	}
	last := l.p.Reduce(gpukernel.ReduceMax, l.p.Scalar(gpukernel.I32, "($0 ? $1 : -1)", match, l.along(both, axis+1)), axis+1)
	last = l.p.Reshape(last, dims...)
	along := same(len(dims))
	along[axis] = gpukernel.Along{Index: l.p.Scalar(gpukernel.I32, "($0 < 0 ? 0 : $0)", last), Within: true}
	return l.result(n, 0, l.p.Scalar(t, "($2 < 0 ? $0 : $1)", x, l.p.Pick(u, dims, along...), last))
}

// scatterND does so for slices of the operand.
func (l *lowering) scatterND(n *graph.Node) error {
	var in [3]gpukernel.Value
	for i := range in {
		var err error
		if in[i], err = l.operand(n, i); err != nil {
			return err
		}
	}
	x, indices, u := in[0], in[1], in[2]
	dims, rows := l.p.Shape(x), l.p.Shape(indices)
	if len(rows) == 0 || rows[len(rows)-1] > len(dims) || l.p.Type(u) != l.p.Type(x) {
		return refuse("indices %v of %v", rows, dims)
	}
	width := rows[len(rows)-1]
	updates := elements(rows) / width
	slots, size := elements(dims[:width]), elements(dims[width:])
	if elements(l.p.Shape(u)) != updates*size {
		return refuse("updates %v for indices %v of %v", l.p.Shape(u), rows, dims)
	}
	t, mode := l.p.Type(x), n.Str("reduction", "none")
	pairs := slots
	if mode != "none" {
		pairs *= size
	}
	if pairs > scatterMost/updates {
		return refuse("%d updates for each of %v", updates, dims)
	}
	at := l.slotsOf(l.p.Reshape(indices, updates, width), dims[:width])
	u = l.p.Reshape(u, updates, size)
	if mode != "none" {
		both := []int{slots, updates, size}
		match := l.p.Scalar(gpukernel.Bool, "($0 == $1)", l.p.Reshape(at, updates, 1), l.along(both, 0))
		y, err := l.combined(mode, l.p.Reshape(x, slots, 1, size), u, match, 1)
		if err != nil {
			return err
		}
		return l.result(n, 0, y)
	}
	both := []int{slots, updates}
	last := l.p.Reduce(gpukernel.ReduceMax, l.p.Scalar(gpukernel.I32, "($0 == $1 ? $2 : -1)", at, l.along(both, 0), l.along(both, 1)), 1)
	along := []gpukernel.Along{{Index: l.p.Scalar(gpukernel.I32, "($0 < 0 ? 0 : $0)", last), Within: true}, {Axis: 1, Index: gpukernel.NoValue}}
	picked := l.p.Pick(u, []int{slots, size}, along...)
	return l.result(n, 0, l.p.Scalar(t, "($2 < 0 ? $0 : $1)", l.p.Reshape(x, slots, size), picked, last))
}

// slotsOf returns the row-major number of what each row of indices names in dims; -1 for what is out of range.
func (l *lowering) slotsOf(indices gpukernel.Value, dims []int) gpukernel.Value {
	rows := l.p.Shape(indices)[0]
	var parts []gpukernel.Value
	var tests, terms []string
	stride := elements(dims)
	for i, d := range dims {
		stride /= d
		one := l.p.Reshape(l.p.Slice(indices, []int{rows, 1}, []int{0, i}, []int{1, 1}), rows)
		parts = append(parts, l.p.Scalar(gpukernel.I32, fmt.Sprintf("(i32)($0 < 0 ? ($0 < -%[1]d ? -1 : $0 + %[1]d) : $0 < %[1]d ? $0 : -1)", d), one))
		tests = append(tests, fmt.Sprintf("$%d < 0", i))
		terms = append(terms, fmt.Sprintf("$%d * %d", i, stride))
	}
	return l.p.Scalar(gpukernel.I32, "("+strings.Join(tests, " || ")+" ? -1 : "+strings.Join(terms, " + ")+")", parts...)
}

// tensorScatter puts updates into a cache along an axis, from an index of each batch on.
func (l *lowering) tensorScatter(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	u, err := l.operand(n, 1)
	if err != nil {
		return err
	}
	dims, its := l.p.Shape(x), l.p.Shape(u)
	axis, err := graph.NormAxis(n.Int("axis", -2), len(dims))
	if err != nil || axis == 0 || len(its) != len(dims) || its[axis] > dims[axis] || l.p.Type(u) != l.p.Type(x) {
		return refuse("updates %v of %v", its, dims)
	}
	for i, d := range its {
		if i != axis && d != dims[i] {
			return refuse("updates %v of %v", its, dims)
		}
	}
	start := l.p.Constant(gpukernel.I64, "0")
	if n.Input(2) != nil {
		if start, err = l.operand(n, 2); err != nil {
			return err
		}
		if isFloat(l.p.Type(start)) || elements(l.p.Shape(start)) != dims[0] {
			return refuse("indices %v of %v", l.p.Shape(start), dims)
		}
		start = l.p.Reshape(start, append([]int{dims[0]}, slices.Repeat([]int{1}, len(dims)-1)...)...)
	}
	text := "(i32)($0 - $1)"
	if n.Str("mode", "linear") == "circular" {
		text = fmt.Sprintf("(i32)(($0 + %[1]d - $1 %% %[1]d) %% %[1]d)", dims[axis])
	}
	from := l.p.Scalar(gpukernel.I32, text, l.along(dims, axis), start)
	inside := fmt.Sprintf("($0 >= 0 && $0 < %d)", its[axis])
	along := same(len(dims))
	along[axis] = gpukernel.Along{Index: l.p.Scalar(gpukernel.I32, "("+inside+" ? $0 : 0)", from), Within: true}
	hit := l.p.Scalar(gpukernel.Bool, inside, from)
	return l.result(n, 0, l.p.Scalar(l.p.Type(x), "($2 ? $1 : $0)", x, l.p.Pick(u, dims, along...), hit))
}
