package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// liftLines makes convolutions over one axis, and what stands between them, operators on images of one row, [N, C, 1, W] of [N, C, W] and of [N, C, W, 1]. Backends
// keep images in layouts of their own from convolution to convolution, and lines not, and their kernels go along rows. It does so where two convolutions or more of
// lines come one behind the other, or beside each other, and with each of images of one column.
func (s *simplifier) liftLines() error {
	var lifts []*lift
	of := map[*Node]*lift{}
	err := s.each(func(n *Node) error {
		if l := s.liftOf(n); l != nil {
			lifts, of[n] = append(lifts, l), l
		}
		return nil
	})
	if err != nil || len(lifts) == 0 {
		return err
	}
	for _, l := range lifts {
		for _, slot := range l.lines {
			if v := l.n.Inputs[slot]; v.Producer != nil {
				if before := of[v.Producer]; before != nil && before.results {
					l.join(before)
				}
			}
		}
	}
	convolutions := map[*lift]int{}
	for _, l := range lifts {
		if isConvolution(l.n) {
			convolutions[l.root()]++
		}
	}
	lines := lines{s: s, lifted: map[*Value]bool{}, images: map[*Value]*Value{}, lowered: map[*Value]*Value{}}
	for _, l := range lifts {
		if convolutions[l.root()] > 4-l.rank { // views of columns cost nothing
			lines.lift(l, func(u Use) bool {
				m := of[u.Node]
				return m != nil && m.root() == l.root() && slices.Contains(m.lines, u.Slot)
			})
		}
	}
	return nil
}

// A lift is how a node on lines becomes one on images.
type lift struct {
	n       *Node
	rank    int            // of lines: 3, or 4 where they are images of one column
	lines   []int          // operands that are lines; those that are constants become images, too
	other   map[int]*Value // other operands that change
	attrs   Attrs
	results bool  // whether the results are lines
	group   *lift // another of the nodes that are lifted together, nil of one that stands for them
}

func (l *lift) root() *lift {
	for l.group != nil {
		l = l.group
	}
	return l
}

func (l *lift) join(o *lift) {
	if a, b := l.root(), o.root(); a != b {
		a.group = b
	}
}

// fewestLifted is the fewest channels of a convolution without groups that is lifted: those that read fewer read lines as they are.
const fewestLifted = 5

// liftOf returns how n becomes an operator on images of one row, nil where it stays.
func (s *simplifier) liftOf(n *Node) *lift {
	if n.Op.Domain != "" || len(n.Inputs) == 0 || len(n.Regions) > 0 || len(n.Outputs) == 0 || n.Outputs[0] == nil {
		return nil
	}
	l := &lift{n: n, lines: []int{0}, attrs: n.Attrs, results: true}
	if v := n.Inputs[0]; broadcasting[n.Op.Name] {
		l.rank = len(n.Outputs[0].Type.Shape)
	} else if v != nil {
		l.rank = len(v.Type.Shape)
	}
	if l.rank != 3 && l.rank != 4 {
		return nil
	}
	ok := false
	switch {
	case isConvolution(n):
		ok = l.convolution()
	case n.Is("MaxPool", "AveragePool", "LpPool"): // indices are no lines
		ok = true
		l.rows()
	case n.Is("BatchNormalization"):
		ok = n.Op.Since >= 9 && n.Int("training_mode", 0) == 0
	case n.Is("GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization", "GroupNormalization"), elementWise[n.Op.Name] && !n.Is("Cast"):
		ok = true
	case broadcasting[n.Op.Name] && n.Op.Since >= byShapes:
		ok = l.broadcast()
	case n.Is("Concat", "Split"):
		ok = l.axis("axis", 0)
		if n.Is("Concat") {
			l.lines = make([]int, len(n.Inputs))
			for i := range l.lines {
				l.lines[i] = i
			}
		}
	case n.Is("Softmax", "LogSoftmax") && n.Op.Since >= alongAxis:
		ok = l.axis("axis", -1)
	case n.Is("Slice"):
		ok = l.slice()
	case n.Is("Pad"):
		ok = l.pad()
	case n.Is("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1", "ReduceSumSquare"):
		ok = l.reduce()
	}
	if !ok || !s.areLines(l) {
		return nil
	}
	return l
}

// areLines reports whether the operands and results that are to be lifted are lines of float32 whose dims are known in a run.
func (s *simplifier) areLines(l *lift) bool {
	isLine := func(v *Value) bool {
		return v != nil && len(v.Type.Shape) == l.rank && (l.rank == 3 || v.Type.Shape[3].Is(1)) && v.Type.DType == tensor.Float32 && v.Format == l.n.Outputs[0].Format && s.canView(v.Type.Shape)
	}
	for _, slot := range l.lines {
		if slot >= len(l.n.Inputs) || !isLine(l.n.Inputs[slot]) {
			return false
		}
	}
	return !l.results || !slices.ContainsFunc(l.n.Outputs, func(v *Value) bool { return v != nil && !isLine(v) })
}

// canView reports whether a Reshape may give a value those dims in every run: before version 14 its 0 copies a dim.
func (s *simplifier) canView(dims Shape) bool {
	mayCopy := func(d Dim) bool {
		n, ok := d.Const()
		return !ok || n == 0
	}
	return s.computable(dims) && (versionFor(s.g, Op{}) >= 14 || !slices.ContainsFunc(dims, mayCopy))
}

// rows gives the attributes of windows what they are along rows.
func (l *lift) rows() {
	for _, a := range []struct {
		name string
		of   int64
	}{{"kernel_shape", 1}, {"strides", 1}, {"dilations", 1}, {"output_padding", 0}} {
		if v, ok := l.n.Ints(a.name); ok {
			l.attrs = l.attrs.With(IntsAttr(a.name, l.spatial(v, a.of)...))
		}
	}
	if v, ok := l.n.Ints("pads"); ok {
		half := len(v) / 2
		l.attrs = l.attrs.With(IntsAttr("pads", append(l.spatial(v[:half], 0), l.spatial(v[half:], 0)...)...))
	}
}

// spatial returns numbers of the spatial axes of lines as those of images, one being that of the axis that is added.
func (l *lift) spatial(v []int64, one int64) []int64 {
	if l.rank == 3 {
		return append([]int64{one}, v...)
	}
	return exchangeLast(v)
}

// exchangeLast returns a list with its last two elements exchanged.
func exchangeLast[T any, L ~[]T](list L) L {
	out := slices.Clone(list)
	if n := len(out); n > 1 {
		out[n-2], out[n-1] = out[n-1], out[n-2]
	}
	return out
}

func (l *lift) convolution() bool {
	w, x := l.n.Input(1), l.n.Inputs[0]
	if w == nil || w.Const == nil || w.Const.Rank() != l.rank || !w.Const.IsCompact() || w.Const.DType != tensor.Float32 {
		return false
	}
	if _, ok := l.n.Ints("output_shape"); ok || l.rank == 4 && (w.Const.Shape[3] != 1 || x.Type.Shape[2].Is(1)) {
		return false
	}
	if l.rank == 3 && l.n.Is("Conv") && l.n.Int("group", 1) == 1 && w.Const.Shape[1] < fewestLifted {
		return false
	}
	l.rows()
	return l.view(1)
}

// view lets a constant operand of more than one dim be one of images.
func (l *lift) view(slot int) bool {
	v := l.n.Inputs[slot]
	dims := v.Const.Shape
	switch {
	case l.rank == 3:
		dims = slices.Insert(slices.Clone(dims), len(dims)-1, 1)
	case dims[len(dims)-1] != 1:
		return false
	default:
		dims = exchangeLast(dims)
	}
	c, err := v.Const.View(dims...)
	if err != nil {
		return false
	}
	l.with(slot, v.Name, c)
	return true
}

// with gives an operand another content. Values are added where the node is lifted.
func (l *lift) with(slot int, name string, c *tensor.Tensor) {
	if l.other == nil {
		l.other = map[int]*Value{}
	}
	l.other[slot] = &Value{Name: name, Const: c}
}

// broadcast takes the operands of as many dims for lines. Those of fewer are broadcast along rows as they are, or are constants that get a row.
func (l *lift) broadcast() bool {
	l.lines = nil
	varies := false
	for i, v := range l.n.Inputs {
		switch {
		case v == nil || v.Type.Shape == nil:
			return false
		case v.Const != nil && v.Const.Rank() > 1:
			if v.Const.Rank() > l.rank || !v.Const.IsCompact() || !l.view(i) {
				return false
			}
		case len(v.Type.Shape) == l.rank:
			l.lines, varies = append(l.lines, i), true
		case len(v.Type.Shape) > 1:
			return false
		}
	}
	return varies
}

// imageAxis returns the axis of images that an axis of lines becomes.
func (l *lift) imageAxis(axis int64) (int64, bool) {
	if axis < 0 {
		axis += int64(l.rank)
	}
	switch axis {
	case 2:
		return 3, true
	case 3:
		return 2, l.rank == 4
	}
	return axis, axis == 0 || axis == 1
}

func (l *lift) axis(name string, absent int64) bool {
	axis, ok := l.imageAxis(l.n.Int(name, absent))
	l.attrs = l.attrs.With(IntAttr(name, axis))
	return ok
}

// numbersOf returns the elements of an operand that is a constant vector of int64, nil otherwise.
func numbersOf(v *Value) []int64 {
	if v == nil || v.Const == nil || v.Const.DType != tensor.Int64 || v.Const.Rank() != 1 || !v.Const.IsCompact() {
		return nil
	}
	return tensor.Elements[int64](v.Const)
}

// axes lets an operand name axes of images.
func (l *lift) axes(slot int) bool {
	v := l.n.Input(slot)
	axes := slices.Clone(numbersOf(v))
	for i := range axes {
		var ok bool
		if axes[i], ok = l.imageAxis(axes[i]); !ok {
			return false
		}
	}
	if len(axes) > 0 {
		l.with(slot, v.Name, tensor.From(axes, len(axes)))
	}
	return len(axes) > 0
}

func (l *lift) slice() bool { return l.n.Op.Since >= 10 && l.axes(3) }

func (l *lift) pad() bool {
	p := numbersOf(l.n.Input(1))
	if l.n.Op.Since < 11 || len(p) != 2*l.rank || l.n.Input(3) != nil {
		return false
	}
	list := slices.Concat(p[:2], l.spatial(p[2:l.rank], 0), p[l.rank:l.rank+2], l.spatial(p[l.rank+2:], 0))
	l.with(1, l.n.Inputs[1].Name, tensor.From(list, len(list)))
	return true
}

// reduce takes reductions along lines: of images they are along rows, too, which are one.
func (l *lift) reduce() bool {
	axes, err := ReduceAxes(l.n, numbersOf(l.n.Input(1)), l.rank)
	if err != nil || len(axes) == 0 || axes[0] != 2 {
		return false
	}
	if l.results = l.n.Int("keepdims", 1) != 0; !l.results && len(axes) < l.rank-2 {
		return false
	}
	if _, ok := l.n.Ints("axes"); ok {
		l.attrs = l.attrs.With(IntsAttr("axes", 2, 3))
	} else {
		l.with(1, l.n.Inputs[1].Name, tensor.From([]int64{2, 3}, 2))
	}
	return true
}

// lines are values while some of them become images.
type lines struct {
	s       *simplifier
	lifted  map[*Value]bool   // those that are images now
	images  map[*Value]*Value // images of lines that stay, and of constants
	lowered map[*Value]*Value // by the lines that others read: the images that they are made of
}

// lift makes a node one on images; inside tells which of the readers of its results will be lifted, too.
func (c *lines) lift(l *lift, inside func(Use) bool) {
	n := l.n
	for _, slot := range l.lines {
		if v := c.image(n.Inputs[slot]); v != n.Inputs[slot] {
			n.SetOperand(slot, v)
		}
	}
	for slot, v := range l.other {
		n.SetOperand(slot, c.s.g.AddConst(v.Name, v.Const))
	}
	n.Attrs = l.attrs
	c.s.stale(n)
	c.s.changes++
	if !l.results {
		return
	}
	for _, y := range n.Outputs {
		if y == nil {
			continue
		}
		line := y.Type
		y.Type.Shape = ofRows(line.Shape)
		c.lifted[y] = true
		if y.output == 0 && !slices.ContainsFunc(y.uses, func(u Use) bool { return !inside(u) }) {
			continue
		}
		back := c.s.view(y, line.Shape)
		c.s.replace(y, back)
		back.Producer.SetOperand(0, y)
		c.lowered[back] = y
	}
}

// image returns v, which is a line or has become an image, as an image.
func (c *lines) image(v *Value) *Value {
	if y := c.lowered[v]; y != nil {
		return y
	}
	if c.lifted[v] {
		return v
	}
	if c.images[v] == nil {
		c.images[v] = c.s.view(v, ofRows(v.Type.Shape))
	}
	return c.images[v]
}

// ofRows returns the dims of a line as those of an image of one row.
func ofRows(s Shape) Shape {
	if len(s) == 4 {
		return exchangeLast(s)
	}
	return slices.Insert(slices.Clone(s), 2, D(1))
}
