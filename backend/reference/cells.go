package reference

import "github.com/carve-dev/carve/graph/tensor"

// cells are the elements of a tensor as opaque units: operators that move elements copy cells without knowing what they
// mean. Elements of packed types have a byte each.
type cells struct {
	size int // bytes of a cell, 0 for strings
	b    []byte
	s    []string
}

// cellsOf returns the cells of a compact tensor, shared with it unless its type is packed.
func (c *Call) cellsOf(t *tensor.Tensor) cells {
	switch {
	case t.DType == tensor.String:
		return cells{s: t.Strings[:t.Len()]}
	case t.DType.IsPacked():
		b, bits := t.Bytes(), t.DType.Bits()
		out := make([]byte, c.reserve("", t.Shape, 1))
		per := 8 / bits
		for i := range out {
			out[i] = b[i/per] >> (i % per * bits) & (1<<bits - 1)
		}
		return cells{size: 1, b: out}
	}
	return cells{size: t.DType.Size(), b: t.Bytes()}
}

// cells returns the cells of input i.
func (c *Call) cells(i int) cells { return c.cellsOf(c.input(i)) }

// move stores output i, whose cells, zero at first, fill writes.
func (c *Call) move(i int, dt tensor.DType, shape []int, fill func(dst cells)) {
	t := c.result(i, dt, shape)
	if !dt.IsPacked() {
		fill(c.cellsOf(t))
		return
	}
	dst := cells{size: 1, b: make([]byte, c.reserve("", shape, 1))}
	fill(dst)
	b, bits := t.Bytes(), dt.Bits()
	per := 8 / bits
	for i, x := range dst.b {
		b[i/per] |= x & (1<<bits - 1) << (i % per * bits)
	}
}

// len returns the number of cells.
func (d cells) len() int {
	if d.size == 0 {
		return len(d.s)
	}
	return len(d.b) / d.size
}

// copy copies n cells of src from index from on to index to on.
func (d cells) copy(to int, src cells, from, n int) {
	if d.size == 0 {
		copy(d.s[to:to+n], src.s[from:from+n])
		return
	}
	copy(d.b[to*d.size:(to+n)*d.size], src.b[from*d.size:(from+n)*d.size])
}

// copySteps copies n cells with a step on each side.
func (d cells) copySteps(to, toStep int, src cells, from, fromStep, n int) {
	if toStep == 1 && fromStep == 1 {
		d.copy(to, src, from, n)
		return
	}
	switch d.size {
	case 0:
		for range n {
			d.s[to] = src.s[from]
			to, from = to+toStep, from+fromStep
		}
	case 4:
		for range n {
			*(*[4]byte)(d.b[to*4:]) = *(*[4]byte)(src.b[from*4:])
			to, from = to+toStep, from+fromStep
		}
	case 8:
		for range n {
			*(*[8]byte)(d.b[to*8:]) = *(*[8]byte)(src.b[from*8:])
			to, from = to+toStep, from+fromStep
		}
	case 1:
		for range n {
			d.b[to] = src.b[from]
			to, from = to+toStep, from+fromStep
		}
	default:
		for range n {
			copy(d.b[to*d.size:(to+1)*d.size], src.b[from*d.size:])
			to, from = to+toStep, from+fromStep
		}
	}
}

// view addresses a box of cells: element idx lies at base plus the sum of idx[a]*strides[a].
type view struct {
	cells
	base    int
	strides []int
}

// compactView returns the view of all cells in row-major order.
func compactView(d cells, shape []int) view { return view{d, 0, tensor.CompactStrides(shape)} }

// copyBox copies a box of that shape.
func (c *Call) copyBox(shape []int, dst, src view) {
	c.walk(shape, []int{dst.base, src.base}, [][]int{dst.strides, src.strides}, func(off, step []int, n int) {
		dst.copySteps(off[0], step[0], src.cells, off[1], step[1], n)
	})
}

// copyWhole stores input 0 as output 0 with another shape of as many elements.
func (c *Call) copyWhole(shape []int) {
	t := c.input(0)
	c.require(t.Len() == product(shape), c.portName(0), "%v does not become %v", t, shape)
	out := c.result(0, t.DType, shape)
	if t.DType == tensor.String {
		copy(out.Strings, t.Strings[:t.Len()])
		return
	}
	copy(out.Bytes(), t.Bytes())
}

// column copies n cells with a step on each side, some at a time, and accounts for them.
func (c *Call) column(dst cells, to, toStep int, src cells, from, fromStep, n int) {
	const part = pollEvery / 4
	for ; n > 0; n -= part {
		count := min(n, part)
		dst.copySteps(to, toStep, src, from, fromStep, count)
		to, from = to+count*toStep, from+count*fromStep
		c.spend(2 * count)
	}
}
