package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var scatterKernels = []kernel{
	{"Scatter", 9, scatterElements},
	{"ScatterElements", 11, scatterElements},
	{"ScatterND", 11, scatterND},
	{"TensorScatter", 24, tensorScatter},
}

func scatterElements(c *Call) {
	x, indices, u := c.input(0), c.ints(1), c.input(2)
	axis := c.axisAttr(0, len(x.Shape))
	shape := c.input(1).Shape
	c.withinBut(1, shape, x.Shape, axis)
	c.require(sameShape(u.Shape, shape), c.portName(2), "%v and %v differ", u, shape)
	strides := tensor.CompactStrides(x.Shape)
	to, idx := make([]int, len(indices)), make([]int, len(shape))
	for o, v := range indices {
		for a, k := range idx {
			if a == axis {
				k = c.index(1, v, x.Shape[a])
			}
			to[o] += k * strides[a]
		}
		advanceAll(idx, shape)
		c.spend(4)
	}
	c.scatter(x, u, to, 1)
}

func scatterND(c *Call) {
	x, it, u := c.input(0), c.input(1), c.input(2)
	q := len(it.Shape)
	c.require(q > 0 && it.Shape[q-1] <= len(x.Shape), c.portName(1), "%v for %v", it, x)
	k := it.Shape[q-1]
	want := append(append([]int{}, it.Shape[:q-1]...), x.Shape[k:]...)
	c.require(sameShape(u.Shape, want), c.portName(2), "%v is expected, found %v", want, u)
	indices := c.ints(1)
	to := make([]int, product(it.Shape[:q-1]))
	for o := range to {
		for a, d := range x.Shape[:k] {
			to[o] = to[o]*d + c.index(1, indices[o*k+a], d)
		}
	}
	c.scatter(x, u, to, product(x.Shape[k:]))
}

// scatter stores x as output 0 after writing, or reducing, slice o of updates to slice to[o]; slices have inner elements.
func (c *Call) scatter(x, updates *tensor.Tensor, to []int, inner int) {
	if updates.DType != x.DType {
		c.fail(c.portName(2), tensor.ErrDType, "%v and %v differ", updates, x)
	}
	mode := c.Node.Str("reduction", "none")
	if mode == "none" {
		src, base := c.cellsOf(updates), c.cellsOf(x)
		c.move(0, x.DType, x.Shape, func(dst cells) {
			dst.copy(0, base, 0, x.Len())
			for o, t := range to {
				dst.copy(t*inner, src, o*inner, inner)
				c.spend(inner/8 + 2)
			}
		})
		return
	}
	if x.DType.IsFloat() {
		v, u := c.floats(0), c.floats(2)
		f, ok := map[string]func(a, b float64) float64{"add": addFloat, "max": maxFloat, "min": minFloat,
			"mul": func(a, b float64) float64 { return a * b }}[mode]
		if !ok {
			c.fail("reduction", ErrAttribute, "%q", mode)
		}
		scatterReduce(c, v, u, to, inner, f)
		c.putFloats(0, x.DType, x.Shape, v)
		return
	}
	c.wantType(0, x, x.DType.IsInt() || x.DType == tensor.Bool)
	flip := int64(0)
	if x.DType == tensor.Uint64 {
		flip = -1 << 63
	}
	f, ok := map[string]func(a, b int64) int64{
		"add": func(a, b int64) int64 { return a + b },
		"mul": func(a, b int64) int64 { return a * b },
		"max": func(a, b int64) int64 { return max(a^flip, b^flip) ^ flip },
		"min": func(a, b int64) int64 { return min(a^flip, b^flip) ^ flip },
	}[mode]
	if !ok {
		c.fail("reduction", ErrAttribute, "%q", mode)
	}
	v, u := c.ints(0), c.ints(2)
	scatterReduce(c, v, u, to, inner, f)
	c.putInts(0, x.DType, x.Shape, v)
}

func scatterReduce[T any](c *Call, v, u []T, to []int, inner int, f func(a, b T) T) {
	for o, t := range to {
		for i := range inner {
			v[t*inner+i] = f(v[t*inner+i], u[o*inner+i])
		}
		c.spend(inner + 1)
	}
}

// tensorScatter writes updates into a cache along its sequence axis, from an index per batch on.
func tensorScatter(c *Call) {
	x, u := c.input(0), c.input(1)
	axis := c.axisAttr(-2, len(x.Shape))
	if axis == 0 {
		c.fail("axis", ErrAttribute, "the batch axis")
	}
	c.withinBut(1, u.Shape, x.Shape, -1)
	for a := range x.Shape {
		c.require(a == axis || u.Shape[a] == x.Shape[a], c.portName(1), "%v for %v", u, x)
	}
	if u.DType != x.DType {
		c.fail(c.portName(1), tensor.ErrDType, "%v and %v differ", u, x)
	}
	start := make([]int64, x.Shape[0])
	if c.has(2) {
		start = c.ints(2)
		c.require(len(start) == x.Shape[0], c.portName(2), "%d indices for %v", len(start), x)
	}
	circular := c.Node.Str("mode", "linear") == "circular"
	outer, n, inner := split3(x.Shape, axis)
	m := u.Shape[axis]
	base, src := c.cells(0), c.cells(1)
	c.move(0, x.DType, x.Shape, func(dst cells) {
		dst.copy(0, base, 0, x.Len())
		for o := range outer {
			at := start[o/max(outer/max(x.Shape[0], 1), 1)]
			if at < 0 || !circular && at > int64(n-m) {
				most := int64(n - m)
				if circular {
					most = math.MaxInt64
				}
				c.outOfRange(2, at, 0, most)
			}
			for k := range m {
				to := int((at%int64(n) + int64(k)) % int64(n))
				dst.copy((o*n+to)*inner, src, (o*m+k)*inner, inner)
				c.spend(inner/8 + 2)
			}
		}
	})
}
