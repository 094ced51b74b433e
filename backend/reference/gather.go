package reference

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

var gatherKernels = []kernel{
	{"Gather", 1, gather},
	{"GatherElements", 11, gatherElements},
	{"GatherND", 11, gatherND},
}

// index returns an index of an axis of n elements, counted from the end where it is negative.
func (c *Call) index(i int, v int64, n int) int {
	if v < -int64(n) || v >= int64(n) {
		c.outOfRange(i, v, -int64(n), int64(n)-1)
	}
	if v < 0 {
		v += int64(n)
	}
	return int(v)
}

func gather(c *Call) {
	x, indices := c.input(0), c.ints(1)
	axis := c.axisAttr(0, len(x.Shape))
	shape := slices.Concat(x.Shape[:axis], c.input(1).Shape, x.Shape[axis+1:])
	at := make([]int, len(indices))
	for k, v := range indices {
		at[k] = c.index(1, v, x.Shape[axis])
	}
	c.take(x.Shape, axis, at, shape)
}

// take sets output 0, of that shape, to the slices of input 0, read as dims, at indices of an axis.
func (c *Call) take(dims []int, axis int, at, shape []int) {
	outer, n, inner := split3(dims, axis)
	src := c.cells(0)
	c.move(0, c.input(0).DType, shape, func(dst cells) {
		if inner == 1 && len(at) < outer {
			for k, i := range at {
				c.column(dst, k, len(at), src, i, n, outer)
			}
			return
		}
		for o := range outer {
			for k, i := range at {
				dst.copy((o*len(at)+k)*inner, src, (o*n+i)*inner, inner)
				c.spend(inner/8 + 2)
			}
		}
	})
}

func gatherElements(c *Call) {
	x, indices := c.input(0), c.ints(1)
	axis := c.axisAttr(0, len(x.Shape))
	shape := c.input(1).Shape
	c.withinBut(1, shape, x.Shape, axis)
	src, strides := c.cells(0), tensor.CompactStrides(x.Shape)
	c.move(0, x.DType, shape, func(dst cells) {
		idx := make([]int, len(shape))
		for o, v := range indices {
			from := 0
			for a, k := range idx {
				if a == axis {
					k = c.index(1, v, x.Shape[a])
				}
				from += k * strides[a]
			}
			dst.copy(o, src, from, 1)
			advanceAll(idx, shape)
			c.spend(4)
		}
	})
}

// withinBut requires a shape to fit into another one on every axis but one.
func (c *Call) withinBut(i int, shape, in []int, axis int) {
	ok := len(shape) == len(in)
	for a := 0; ok && a < len(in); a++ {
		ok = a == axis || shape[a] <= in[a]
	}
	c.require(ok, c.portName(i), "%v does not fit %v", shape, in)
}

// gatherND gathers slices, whose indices are the rows of input 1, with batch_dims leading dims in common.
func gatherND(c *Call) {
	x, it := c.input(0), c.input(1)
	b := int(min(max(c.Node.Int("batch_dims", 0), -1), 1<<20))
	q := len(it.Shape)
	c.require(q > 0 && b >= 0 && b < q && b <= len(x.Shape) && sameShape(it.Shape[:b], x.Shape[:b]), c.portName(1),
		"%v for %v with %d batch dims", it, x, b)
	k := it.Shape[q-1]
	c.require(b+k <= len(x.Shape), c.portName(1), "rows of %d for %v", k, x)
	indices := c.ints(1)
	inner := product(x.Shape[b+k:])
	shape := slices.Concat(it.Shape[:q-1], x.Shape[b+k:])
	perBatch := product(it.Shape[b : q-1])
	dims := x.Shape[b : b+k]
	src := c.cells(0)
	c.move(0, x.DType, shape, func(dst cells) {
		for o := range product(it.Shape[:q-1]) {
			from := o / perBatch
			for a, d := range dims {
				from = from*d + c.index(1, indices[o*k+a], d)
			}
			dst.copy(o*inner, src, from*inner, inner)
			c.spend(inner/8 + 4)
		}
	})
}
