package reference

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

var moveKernels = []kernel{
	{"Transpose", 1, transpose},
	{"Concat", 4, concat},
	{"Split", 2, split},
	{"Slice", 1, slice},
	{"Pad", 2, pad},
	{"Tile", 6, tile},
	{"DepthToSpace", 1, depthToSpace},
	{"SpaceToDepth", 1, spaceToDepth},
	{"CenterCropPad", 18, centerCropPad},
	{"Trilu", 14, trilu},
	{"ReverseSequence", 10, reverseSequence},
}

func transpose(c *Call) {
	x := c.input(0)
	rank := len(x.Shape)
	perm, ok := c.Node.Ints("perm")
	if !ok {
		for a := range rank {
			perm = append(perm, int64(rank-1-a))
		}
	}
	if len(perm) != rank {
		c.fail("perm", ErrAttribute, "%v for %v", perm, x)
	}
	strides := tensor.CompactStrides(x.Shape)
	shape, from, seen := make([]int, rank), make([]int, rank), make([]bool, rank)
	for a, p := range perm {
		k := c.axis(p, rank)
		if seen[k] {
			c.fail("perm", ErrAttribute, "%v repeats", perm)
		}
		seen[k] = true
		shape[a], from[a] = x.Shape[k], strides[k]
	}
	src := view{c.cells(0), 0, from}
	c.move(0, x.DType, shape, func(dst cells) { c.copyBox(shape, compactView(dst, shape), src) })
}

// concat joins all inputs along an axis.
func concat(c *Call) {
	first := c.input(0)
	parts := make([]*tensor.Tensor, len(c.Inputs))
	for i := range parts {
		parts[i] = c.input(i)
	}
	c.join(0, first.DType, parts, c.axisAttr(1, len(first.Shape)))
}

// join stores the concatenation of tensors along an axis as output i.
func (c *Call) join(i int, dt tensor.DType, parts []*tensor.Tensor, axis int) {
	shape := append([]int{}, parts[0].Shape...)
	shape[axis] = 0
	for k, t := range parts {
		if t.DType != dt {
			c.fail(c.portName(k), tensor.ErrDType, "%v and %v differ", t.DType, dt)
		}
		fits := len(t.Shape) == len(shape)
		for a := 0; fits && a < len(shape); a++ {
			fits = a == axis || t.Shape[a] == shape[a]
		}
		if !fits {
			c.fail(c.portName(k), tensor.ErrShape, "%v does not continue %v", t, parts[0])
		}
		shape[axis] += t.Shape[axis]
	}
	outer, total, inner := split3(shape, axis)
	c.move(i, dt, shape, func(dst cells) {
		at := 0
		for _, t := range parts {
			src, n := c.cellsOf(t), t.Shape[axis]*inner
			for o := range outer {
				dst.copy(o*total*inner+at, src, o*n, n)
				c.spend(n/8 + 1)
			}
			at += n
		}
	})
}

// splitSizes returns the lengths of the parts that an axis of length n is split into.
func (c *Call) splitSizes(n int) []int {
	if v, ok := c.list(1, "split"); ok {
		sizes := c.dims("split", v)
		total := 0
		for _, s := range sizes {
			c.require(s <= n, "split", "%v of %d", v, n)
			total += s
		}
		c.require(total == n && len(sizes) == len(c.Node.Outputs), "split", "%v for %d in %d parts", v, n, len(c.Node.Outputs))
		return sizes
	}
	k := len(c.Node.Outputs)
	if v := c.Node.Int("num_outputs", int64(k)); v != int64(k) {
		c.fail("num_outputs", ErrAttribute, "%d for %d outputs", v, k)
	}
	if c.version < 18 {
		c.require(k > 0 && n%k == 0, "split", "%d in %d parts", n, k)
	}
	sizes, chunk := make([]int, k), (n+k-1)/max(k, 1)
	for i := range sizes {
		sizes[i] = min(chunk, n)
		n -= sizes[i]
	}
	return sizes
}

func split(c *Call) {
	x := c.input(0)
	axis := c.axisAttr(0, len(x.Shape))
	src, at := c.cells(0), 0
	for i, n := range c.splitSizes(x.Shape[axis]) {
		if c.wants(i) {
			shape := slices.Clone(x.Shape)
			shape[axis] = n
			c.takeRange(i, x, src, axis, at, shape)
		}
		at += n
	}
}

// takeRange stores the part of x of that shape, from index lo of the axis on, as output i.
func (c *Call) takeRange(i int, x *tensor.Tensor, src cells, axis, lo int, shape []int) {
	outer, n, inner := split3(shape, axis)
	c.move(i, x.DType, shape, func(dst cells) {
		for o := range outer {
			dst.copy(o*n*inner, src, (o*x.Shape[axis]+lo)*inner, n*inner)
			c.spend(n*inner/8 + 1)
		}
	})
}

func slice(c *Call) {
	x := c.input(0)
	rank := len(x.Shape)
	starts, _ := c.list(1, "starts")
	ends, _ := c.list(2, "ends")
	axes, ok := c.list(3, "axes")
	if !ok {
		for a := range starts {
			axes = append(axes, int64(a))
		}
	}
	steps, ok := c.list(4, "steps")
	if !ok {
		for range starts {
			steps = append(steps, 1)
		}
	}
	c.require(len(ends) == len(starts) && len(axes) == len(starts) && len(steps) == len(starts), "starts",
		"%d starts, %d ends, %d axes, %d steps", len(starts), len(ends), len(axes), len(steps))
	shape, strides := slices.Clone(x.Shape), tensor.CompactStrides(x.Shape)
	base := 0
	seen := make([]bool, rank)
	for i := range starts {
		a := c.axis(axes[i], rank)
		if seen[a] {
			c.fail("axes", ErrAttribute, "%v repeats", axes)
		}
		seen[a] = true
		if steps[i] == 0 {
			c.fail("steps", ErrAttribute, "step 0")
		}
		lo, n, step := sliceRange(starts[i], ends[i], steps[i], int64(x.Shape[a]))
		base += lo * strides[a]
		shape[a] = n
		strides[a] *= step
	}
	src := view{c.cells(0), base, strides}
	c.move(0, x.DType, shape, func(dst cells) { c.copyBox(shape, compactView(dst, shape), src) })
}

// sliceRange clamps a range of an axis of length d and returns its first index, its length and its step.
func sliceRange(start, end, step, d int64) (lo, n, by int) {
	clamp := func(v, low, high int64) int64 {
		if v < 0 && v+d > v {
			v += d
		}
		return min(max(v, low), high)
	}
	if step > 0 {
		start, end = clamp(start, 0, d), clamp(end, 0, d)
		if end <= start {
			return 0, 0, 1
		}
		count := (end - start - 1) / step
		return int(start), int(count) + 1, stepOf(step, count)
	}
	start, end = clamp(start, 0, d-1), clamp(end, -1, d-1)
	if start <= end {
		return 0, 0, 1
	}
	count := uint64(start-end-1) / -uint64(step)
	return int(start), int(count) + 1, stepOf(step, int64(count))
}

// stepOf returns the step, or 1 where there is no second element and the step may be anything.
func stepOf(step, count int64) int {
	if count == 0 {
		return 1
	}
	return int(step)
}

// pad adds elements at both ends of axes, or removes them where the number is negative.
func pad(c *Call) {
	x := c.input(0)
	rank := len(x.Shape)
	pads, ok := c.list(1, "pads")
	if !ok {
		pads, ok = c.list(-1, "paddings")
	}
	c.require(ok, "pads", "the pads are missing")
	var axes []int
	if t := c.optional(3); t != nil {
		for _, a := range c.ints(3) {
			axes = append(axes, c.axis(a, rank))
		}
	} else {
		for a := range rank {
			axes = append(axes, a)
		}
	}
	c.require(len(pads) == 2*len(axes), "pads", "%d pads for %d axes", len(pads), len(axes))
	p := c.smallInts("pads", pads)
	begin, shape := make([]int, rank), slices.Clone(x.Shape)
	for i, a := range axes {
		begin[a] = p[i]
		shape[a] = x.Shape[a] + p[i] + p[i+len(axes)]
		c.require(shape[a] >= 0, "pads", "dim %d becomes %d", a, shape[a])
	}
	maps := make([][]int, rank) // per axis: the operand's index for every index of the result, -1 for the constant
	mode := c.Node.Str("mode", "constant")
	c.count("output", shape, 1)
	for a := range maps {
		maps[a] = c.padMap(mode, begin[a], x.Shape[a], shape[a])
	}
	fill := c.padValue(x)
	src := c.cells(0)
	c.move(0, x.DType, shape, func(dst cells) { c.mapCells(dst, shape, src, tensor.CompactStrides(x.Shape), maps, fill) })
}

// padValue returns the constant of Pad as one cell.
func (c *Call) padValue(x *tensor.Tensor) cells {
	v := c.optional(2)
	if v == nil {
		v, _ = tensor.New(x.DType, 1)
		if x.DType != tensor.String {
			_ = tensor.Encode(v, []float64{c.float("value", 0)})
		}
	}
	if v.Len() != 1 || v.DType != x.DType {
		c.fail(c.portName(2), tensor.ErrShape, "one %v is expected, found %v", x.DType, v)
	}
	return c.cellsOf(v)
}

// padMap returns, for every index of a padded axis, the index of the axis before.
func (c *Call) padMap(mode string, begin, n, out int) []int {
	m := make([]int, out)
	for i := range m {
		k := i - begin
		switch {
		case k >= 0 && k < n:
		case mode == "constant" || n == 0:
			c.require(mode == "constant" || n > 0, "pads", "nothing to repeat in an empty dim")
			k = -1
		case mode == "edge":
			k = min(max(k, 0), n-1)
		case mode == "reflect":
			if n == 1 {
				k = 0
			} else if k = mod2(k, 2*(n-1)); k >= n {
				k = 2*(n-1) - k
			}
		case mode == "wrap":
			k = mod2(k, n)
		default:
			c.fail("mode", ErrAttribute, "%q", mode)
		}
		m[i] = k
	}
	return m
}

// mod2 returns k modulo n, never negative.
func mod2(k, n int) int {
	if k %= n; k < 0 {
		k += n
	}
	return k
}

// mapCells writes every element of dst from the element of src whose index on each axis the maps give, or from fill
// where one of them is -1.
func (c *Call) mapCells(dst cells, shape []int, src cells, strides []int, maps [][]int, fill cells) {
	if product(shape) == 0 {
		return
	}
	rank := len(shape)
	if rank == 0 {
		dst.copy(0, src, 0, 1)
		return
	}
	last := rank - 1
	row := maps[last]
	idx := make([]int, last)
	for o := 0; o < product(shape); o += shape[last] {
		base, inside := 0, true
		for a, i := range idx {
			k := maps[a][i]
			inside = inside && k >= 0
			base += k * strides[a]
		}
		for i, k := range row {
			if inside && k >= 0 {
				dst.copy(o+i, src, base+k, 1)
			} else {
				dst.copy(o+i, fill, 0, 1)
			}
		}
		c.spend(len(row) * 2)
		advanceAll(idx, shape[:last])
	}
}

func tile(c *Call) {
	x := c.input(0)
	repeats := c.dims(c.portName(1), c.ints(1))
	c.require(len(repeats) == len(x.Shape), c.portName(1), "%v for %v", repeats, x)
	strides := tensor.CompactStrides(x.Shape)
	shape := make([]int, len(repeats))
	var dims, from []int
	for a, r := range repeats {
		n, err := tensor.NumElements([]int{r, x.Shape[a]})
		c.check(c.portName(1), err)
		shape[a] = n
		dims, from = append(dims, r, x.Shape[a]), append(from, 0, strides[a])
	}
	src := view{c.cells(0), 0, from}
	c.move(0, x.DType, shape, func(dst cells) { c.copyBox(dims, compactView(dst, dims), src) })
}

// permuteBlocks stores input 0, seen as dims, with its dims permuted and then seen as shape.
func (c *Call) permuteBlocks(dims, perm, shape []int) {
	strides := tensor.CompactStrides(dims)
	out, from := make([]int, len(dims)), make([]int, len(dims))
	for i, p := range perm {
		out[i], from[i] = dims[p], strides[p]
	}
	src := view{c.cells(0), 0, from}
	c.move(0, c.input(0).DType, shape, func(dst cells) { c.copyBox(out, compactView(dst, out), src) })
}

func depthToSpace(c *Call) {
	n, ch, h, w := c.image4()
	b := c.positive("blocksize", 0)
	c.require(b <= 1<<15 && ch%(b*b) == 0, "blocksize", "%d for %v", b, c.input(0))
	shape := []int{n, ch / (b * b), h * b, w * b}
	if c.Node.Str("mode", "DCR") == "CRD" {
		c.permuteBlocks([]int{n, ch / (b * b), b, b, h, w}, []int{0, 1, 4, 2, 5, 3}, shape)
		return
	}
	c.permuteBlocks([]int{n, b, b, ch / (b * b), h, w}, []int{0, 3, 4, 1, 5, 2}, shape)
}

func spaceToDepth(c *Call) {
	n, ch, h, w := c.image4()
	b := c.positive("blocksize", 0)
	c.require(h%b == 0 && w%b == 0, "blocksize", "%d for %v", b, c.input(0))
	shape := []int{n, ch * b * b, h / b, w / b}
	if c.Node.Str("mode", "DCR") == "CRD" {
		c.permuteBlocks([]int{n, ch, h / b, b, w / b, b}, []int{0, 1, 3, 5, 2, 4}, shape)
		return
	}
	c.permuteBlocks([]int{n, ch, h / b, b, w / b, b}, []int{0, 3, 5, 1, 2, 4}, shape)
}

func centerCropPad(c *Call) {
	x := c.input(0)
	want := c.dims(c.portName(1), c.ints(1))
	axes, ok := c.Node.Ints("axes")
	if !ok {
		for a := range x.Shape {
			axes = append(axes, int64(a))
		}
	}
	c.require(len(axes) == len(want), c.portName(1), "%v for %d axes", want, len(axes))
	shape := slices.Clone(x.Shape)
	for i, a := range axes {
		shape[c.axis(a, len(x.Shape))] = want[i]
	}
	box := make([]int, len(shape))
	from, to := compactView(c.cells(0), x.Shape), compactView(cells{}, shape)
	for a := range shape {
		box[a] = min(shape[a], x.Shape[a])
		from.base += (x.Shape[a] - box[a]) / 2 * from.strides[a]
		to.base += (shape[a] - box[a]) / 2 * to.strides[a]
	}
	c.move(0, x.DType, shape, func(dst cells) {
		to.cells = dst
		c.copyBox(box, to, from)
	})
}

func trilu(c *Call) {
	x := c.input(0)
	rank := len(x.Shape)
	c.require(rank >= 2, c.portName(0), "matrices are expected, found %v", x)
	upper, k := c.Node.Int("upper", 1) != 0, c.oneInt(1, 0)
	rows, cols := x.Shape[rank-2], x.Shape[rank-1]
	src := c.cells(0)
	k = min(max(k, -int64(rows)-1), int64(cols)+1)
	c.move(0, x.DType, x.Shape, func(dst cells) {
		for r := range product(x.Shape[:rank-1]) {
			edge := min(max(r%rows+int(k), 0), cols) // first column of the upper part
			if upper {
				dst.copy(r*cols+edge, src, r*cols+edge, cols-edge)
			} else {
				edge = min(max(r%rows+int(k)+1, 0), cols)
				dst.copy(r*cols, src, r*cols, edge)
			}
			c.spend(cols/8 + 1)
		}
	})
}

// reverseSequence reverses the first lens[b] elements of the time axis in every batch.
func reverseSequence(c *Call) {
	x, lens := c.input(0), c.ints(1)
	c.require(len(x.Shape) >= 2, c.portName(0), "rank 2 is expected, found %v", x)
	batch, time := c.Node.Int("batch_axis", 1), c.Node.Int("time_axis", 0)
	if batch+time != 1 || batch*time != 0 {
		c.fail("time_axis", ErrAttribute, "time_axis %d and batch_axis %d", time, batch)
	}
	n, t, inner := x.Shape[batch], x.Shape[time], product(x.Shape[2:])
	c.require(len(lens) == n, c.portName(1), "%v for %v", c.input(1), x)
	src := c.cells(0)
	at := func(b, k int) int { return (k*n + b) * inner }
	if batch == 0 {
		at = func(b, k int) int { return (b*t + k) * inner }
	}
	c.move(0, x.DType, x.Shape, func(dst cells) {
		for b := range n {
			if lens[b] < 0 || lens[b] > int64(t) {
				c.outOfRange(1, lens[b], 0, int64(t))
			}
			l := int(lens[b])
			for k := range t {
				from := k
				if k < l {
					from = l - 1 - k
				}
				dst.copy(at(b, k), src, at(b, from), inner)
				c.spend(inner/8 + 1)
			}
		}
	})
}
