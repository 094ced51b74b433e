package reference

import (
	"github.com/carve-dev/carve/graph/tensor"
)

var shapeKernels = []kernel{
	{"Identity", 1, identity},
	{"Dropout", 1, dropout},
	{"Shape", 1, shapeOp},
	{"Size", 1, sizeOp},
	{"Reshape", 5, reshape},
	{"Flatten", 1, flatten},
	{"Squeeze", 1, squeeze},
	{"Unsqueeze", 1, unsqueeze},
	{"Expand", 8, expand},
}

// identity copies tensors; sequences and optionals, which are immutable, are passed on.
func identity(c *Call) {
	if _, ok := c.value(0).(*tensor.Tensor); ok || c.value(0) == nil {
		c.copyWhole(c.input(0).Shape)
		return
	}
	c.set(0, c.value(0))
}

func shapeOp(c *Call) {
	dims := c.input(0).Shape
	clip := func(v int64) int {
		if v < 0 {
			v += int64(len(dims))
		}
		return int(min(max(v, 0), int64(len(dims))))
	}
	lo, hi := clip(c.Node.Int("start", 0)), clip(c.Node.Int("end", int64(len(dims))))
	out := []int64{}
	for i := lo; i < hi; i++ {
		out = append(out, int64(dims[i]))
	}
	c.putInts(0, tensor.Int64, []int{len(out)}, out)
}

func sizeOp(c *Call) {
	c.putInts(0, tensor.Int64, []int{}, []int64{int64(c.input(0).Len())})
}

// reshape takes 0 for the operand's dim, unless allowzero is set, and -1 for what is left over.
func reshape(c *Call) {
	x := c.input(0)
	want, ok := c.list(1, "shape")
	c.require(ok, "shape", "the shape is missing")
	shape := make([]int, len(want))
	free := -1
	for i, d := range want {
		switch {
		case d == -1 && free < 0:
			free = i
			continue
		case d < 0:
			c.fail("shape", tensor.ErrShape, "dim %d at %d of %v", d, i, want)
		case d == 0 && c.Node.Int("allowzero", 0) == 0:
			c.require(i < len(x.Shape), "shape", "0 at %d for %v", i, x)
			d = int64(x.Shape[i])
		}
		shape[i] = int(d)
	}
	if free >= 0 {
		rest := append([]int{}, shape...)
		rest[free] = 1
		known, err := tensor.NumElements(rest)
		c.check("shape", err)
		c.require(known > 0 && x.Len()%known == 0, "shape", "no dim at %d of %v gives %v its %d elements", free, want, x, x.Len())
		shape[free] = x.Len() / known
	}
	n, err := tensor.NumElements(shape)
	c.check("shape", err)
	c.require(n == x.Len(), "shape", "%v are %d elements, %v has %d", want, n, x, x.Len())
	c.copyWhole(shape)
}

func flatten(c *Call) {
	x := c.input(0)
	axis := c.Node.Int("axis", 1)
	if axis < 0 {
		axis += int64(len(x.Shape))
	}
	if axis < 0 || axis > int64(len(x.Shape)) {
		c.fail("axis", ErrAttribute, "%d for %v", axis, x)
	}
	c.copyWhole([]int{product(x.Shape[:axis]), product(x.Shape[axis:])})
}

func squeeze(c *Call) {
	x := c.input(0)
	axes, ok := c.list(1, "axes")
	gone := make([]bool, len(x.Shape))
	for a, d := range x.Shape {
		gone[a] = !ok && d == 1
	}
	for _, a := range axes {
		k := c.axis(a, len(x.Shape))
		c.require(x.Shape[k] == 1, "axes", "dim %d of %v is not 1", k, x)
		gone[k] = true
	}
	shape := []int{}
	for a, d := range x.Shape {
		if !gone[a] {
			shape = append(shape, d)
		}
	}
	c.copyWhole(shape)
}

func unsqueeze(c *Call) {
	x := c.input(0)
	axes, ok := c.list(1, "axes")
	c.require(ok, "axes", "the axes are missing")
	c.require(len(axes) <= 1<<10, "axes", "%d axes", len(axes))
	fresh := make([]bool, len(x.Shape)+len(axes))
	for _, a := range axes {
		k := c.axis(a, len(fresh))
		if fresh[k] {
			c.fail("axes", ErrAttribute, "%v repeats", axes)
		}
		fresh[k] = true
	}
	shape, next := make([]int, len(fresh)), 0
	for a := range shape {
		shape[a] = 1
		if !fresh[a] {
			shape[a] = x.Shape[next]
			next++
		}
	}
	c.copyWhole(shape)
}

func expand(c *Call) {
	x := c.input(0)
	shape := c.broadcast(x.Shape, c.dims(c.portName(1), c.ints(1)))
	src := view{c.cells(0), 0, c.broadcastStrides(c.portName(0), x.Shape, shape)}
	c.move(0, x.DType, shape, func(dst cells) { c.copyBox(shape, compactView(dst, shape), src) })
}
