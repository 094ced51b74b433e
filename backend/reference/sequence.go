package reference

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

var sequenceKernels = []kernel{
	{"SequenceConstruct", 11, sequenceConstruct},
	{"SequenceEmpty", 11, sequenceEmpty},
	{"SequenceInsert", 11, sequenceInsert},
	{"SequenceErase", 11, sequenceErase},
	{"SequenceAt", 11, sequenceAt},
	{"SequenceLength", 11, func(c *Call) {
		c.putInts(0, tensor.Int64, []int{}, []int64{int64(len(c.sequence().Items))})
	}},
	{"SplitToSequence", 11, splitToSequence},
	{"ConcatFromSequence", 11, concatFromSequence},
	{"Optional", 15, optional},
	{"OptionalHasElement", 15, optionalHasElement},
	{"OptionalGetElement", 15, optionalGetElement},
}

// Sequences and optionals are immutable and may share their items; tensors that enter them are copied, since the
// storage of a planned tensor is used again.

// sequence returns input 0, a sequence or an optional one.
func (c *Call) sequence() *tensor.Sequence {
	v := c.value(0)
	if o, ok := v.(*tensor.Optional); ok && o != nil {
		v = o.Item
	}
	s, ok := v.(*tensor.Sequence)
	if !ok || s == nil {
		c.fail(c.portName(0), tensor.ErrDType, "a sequence is expected, found %T", v)
	}
	return s
}

// owned returns input i as a value that shares no storage with a tensor operand.
func (c *Call) owned(i int) tensor.Value {
	if _, ok := c.value(i).(*tensor.Tensor); ok {
		t, err := c.input(i).Clone()
		c.check(c.portName(i), err)
		return t
	}
	if !c.has(i) {
		c.input(i)
	}
	return c.value(i)
}

func sequenceConstruct(c *Call) {
	s := &tensor.Sequence{}
	for i := range c.Inputs {
		v := c.owned(i)
		if t, ok := v.(*tensor.Tensor); ok {
			if i > 0 && t.DType != s.DType {
				c.fail(c.portName(i), tensor.ErrDType, "%v and %v differ", t.DType, s.DType)
			}
			s.DType = t.DType
		}
		s.Items = append(s.Items, v)
	}
	c.set(0, s)
}

func sequenceEmpty(c *Call) { c.set(0, &tensor.Sequence{DType: c.dtypeAttr("dtype", tensor.Float32)}) }

// place returns a position in a sequence, counted from the end where it is negative, that is at most last.
func (c *Call) place(i int, def int64, n, last int) int {
	p := c.oneInt(i, def)
	if p < -int64(n) || p > int64(last) {
		c.outOfRange(i, p, -int64(n), int64(last))
	}
	if p < 0 {
		p += int64(n)
	}
	return int(p)
}

func sequenceInsert(c *Call) {
	s, v := c.sequence(), c.owned(1)
	if t, ok := v.(*tensor.Tensor); ok && s.DType != tensor.Invalid && t.DType != s.DType {
		c.fail(c.portName(1), tensor.ErrDType, "%v into a sequence of %v", t, s.DType)
	}
	n := len(s.Items)
	at := c.place(2, int64(n), n, n)
	c.set(0, &tensor.Sequence{DType: s.DType, Items: slices.Insert(slices.Clone(s.Items), at, v)})
}

func sequenceErase(c *Call) {
	s := c.sequence()
	n := len(s.Items)
	c.require(n > 0, c.portName(0), "the sequence is empty")
	at := c.place(1, int64(n-1), n, n-1)
	c.set(0, &tensor.Sequence{DType: s.DType, Items: slices.Delete(slices.Clone(s.Items), at, at+1)})
}

// pass stores a value as output 0: a tensor copied, anything else shared.
func (c *Call) pass(v tensor.Value) {
	if t, ok := v.(*tensor.Tensor); ok && t != nil {
		c.Inputs = []tensor.Value{t}
		c.copyWhole(t.Shape)
		return
	}
	c.set(0, v)
}

func sequenceAt(c *Call) {
	s := c.sequence()
	n := len(s.Items)
	c.require(n > 0, c.portName(0), "the sequence is empty")
	c.pass(s.Items[c.place(1, 0, n, n-1)])
}

// splitToSequence splits along an axis into parts of given lengths, of one length, or into single indices.
func splitToSequence(c *Call) {
	x := c.input(0)
	axis := c.axisAttr(0, len(x.Shape))
	n := x.Shape[axis]
	var sizes []int
	keep := true
	switch t := c.optional(1); {
	case t == nil:
		keep = c.Node.Int("keepdims", 1) != 0
		for range n {
			sizes = append(sizes, 1)
		}
	case len(t.Shape) == 0:
		by := c.oneInt(1, 1)
		if by < 1 {
			c.outOfRange(1, by, 1, math.MaxInt64)
		}
		for rest := n; rest > 0; rest -= int(min(by, int64(rest))) {
			sizes = append(sizes, int(min(by, int64(rest))))
		}
	default:
		total := 0
		for _, s := range c.dims(c.portName(1), c.ints(1)) {
			c.require(s <= n, c.portName(1), "%d of %d", s, n)
			sizes, total = append(sizes, s), total+s
		}
		c.require(total == n, c.portName(1), "parts of %v for %d", sizes, n)
	}
	out := &tensor.Sequence{DType: x.DType}
	if outer, _, inner := split3(x.Shape, axis); outer == 1 && x.DType.Size() > 0 {
		out.Items = c.cutRows(x, axis, inner*x.DType.Size(), sizes, keep)
		c.set(0, out)
		return
	}
	src, at := c.cells(0), 0
	for _, s := range sizes {
		shape := slices.Clone(x.Shape)
		shape[axis] = s
		part := c.gatherPart(x, src, axis, at, shape)
		if !keep {
			part.Shape = slices.Delete(shape, axis, axis+1)
		}
		out.Items = append(out.Items, part)
		at += s
	}
	c.set(0, out)
}

// cutRows returns parts of x along an axis in front of which all dims are 1, whose indices take so many bytes each: they lie in one copy of x.
func (c *Call) cutRows(x *tensor.Tensor, axis, bytes int, sizes []int, keep bool) []tensor.Value {
	c.reserve(c.portName(0), x.Shape, x.DType.Size())
	all, err := x.Clone()
	c.check(c.portName(0), err)
	items, parts := make([]tensor.Value, len(sizes)), make([]tensor.Tensor, len(sizes))
	data := all.Bytes()
	for i, s := range sizes {
		t := &parts[i]
		t.DType, t.Shape, t.Data = x.DType, slices.Clone(x.Shape), data[:s*bytes:s*bytes]
		t.Shape[axis] = s
		if !keep {
			t.Shape = slices.Delete(t.Shape, axis, axis+1)
		}
		items[i], data = t, data[s*bytes:]
	}
	c.spend(all.Len() / 8)
	return items
}

// gatherPart returns a fresh tensor with the part of x of that shape from index lo of the axis on.
func (c *Call) gatherPart(x *tensor.Tensor, src cells, axis, lo int, shape []int) *tensor.Tensor {
	inner := Call{Ctx: c.Ctx, Node: c.Node, MaxBytes: c.MaxBytes, results: make([]tensor.Value, len(c.Node.Outputs))}
	if len(inner.results) == 0 || !c.wants(0) {
		c.fail("", tensor.ErrShape, "the node has no output")
	}
	inner.takeRange(0, x, src, axis, lo, shape)
	return inner.results[0].(*tensor.Tensor)
}

func concatFromSequence(c *Call) {
	s := c.sequence()
	c.require(len(s.Items) > 0, c.portName(0), "the sequence is empty")
	fresh := c.Node.Int("new_axis", 0) != 0
	parts := make([]*tensor.Tensor, len(s.Items))
	axis := 0
	for i, v := range s.Items {
		c.Inputs = []tensor.Value{v}
		t := c.input(0)
		if i == 0 {
			rank := len(t.Shape)
			if fresh {
				rank++
			}
			axis = c.axisAttr(0, rank)
		}
		if fresh {
			c.require(axis <= len(t.Shape), "axis", "%d for %v", axis, t)
			view, err := t.View(slices.Insert(slices.Clone(t.Shape), axis, 1)...)
			c.check("", err)
			t = view
		}
		parts[i] = t
	}
	c.join(0, parts[0].DType, parts, axis)
}

// optional wraps its input, or nothing where there is none.
func optional(c *Call) {
	if !c.has(0) {
		c.set(0, &tensor.Optional{})
		return
	}
	c.set(0, &tensor.Optional{Item: c.owned(0)})
}

func optionalHasElement(c *Call) {
	v := c.value(0)
	has := v != nil
	if o, ok := v.(*tensor.Optional); ok {
		has = o != nil && o.Item != nil
	}
	c.putBools(0, []int{}, []bool{has})
}

func optionalGetElement(c *Call) {
	v := c.value(0)
	if o, ok := v.(*tensor.Optional); ok && o != nil {
		v = o.Item
	}
	if v == nil {
		c.fail(c.portName(0), tensor.ErrShape, "the optional is empty")
	}
	c.pass(v)
}
