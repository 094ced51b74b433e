package reference

import (
	"cmp"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

var selectKernels = []kernel{
	{"TopK", 1, topK},
	{"NonZero", 9, nonZero},
	{"Compress", 9, compress},
	{"OneHot", 9, oneHot},
	{"NonMaxSuppression", 10, nonMaxSuppression},
	{"Unique", 11, unique},
}

// ordering returns a comparison of elements of input i by their numbers. NaN counts as larger than every number.
func (c *Call) ordering(i int) func(a, b int) int {
	t := c.input(i)
	switch {
	case t.DType == tensor.String:
		v := c.strings(i)
		return func(a, b int) int { return cmp.Compare(v[a], v[b]) }
	case t.DType.IsComplex(): // by real part, then by imaginary part
		v := c.complexes(i)
		return func(a, b int) int {
			if r := cmp.Compare(real(v[a]), real(v[b])); r != 0 {
				return r
			}
			return cmp.Compare(imag(v[a]), imag(v[b]))
		}
	case t.DType.IsFloat():
		v := c.floats(i)
		return func(a, b int) int {
			x, y := v[a], v[b]
			switch {
			case x < y || x == x && y != y:
				return -1
			case x > y || x != x && y == y:
				return 1
			}
			return 0
		}
	case t.DType == tensor.Uint64:
		v := c.ints(i)
		return func(a, b int) int { return cmp.Compare(uint64(v[a]), uint64(v[b])) }
	}
	v := c.ints(i)
	return func(a, b int) int { return cmp.Compare(v[a], v[b]) }
}

// topK takes the k first elements along an axis in the order of their values, equal ones by their index.
func topK(c *Call) {
	x := c.input(0)
	axis := c.axisAttr(-1, len(x.Shape))
	outer, n, inner := split3(x.Shape, axis)
	k64 := c.Node.Int("k", -1)
	if c.version >= 10 {
		if k64 = c.oneInt(1, -1); k64 < 0 || k64 > int64(n) {
			c.outOfRange(1, k64, 0, int64(n))
		}
	}
	if k64 < 0 || k64 > int64(n) {
		c.fail("k", ErrAttribute, "%d of %d", k64, n)
	}
	k := int(k64)
	compare := c.ordering(0)
	sign := 1
	if c.Node.Int("largest", 1) != 0 {
		sign = -1
	}
	shape := slices.Clone(x.Shape)
	shape[axis] = k
	from := make([]int, c.reserve("output Values", shape, 8))
	idx := make([]int, n)
	for o := range outer {
		for in := range inner {
			for i := range idx {
				idx[i] = (o*n+i)*inner + in
			}
			slices.SortFunc(idx, func(a, b int) int {
				if r := compare(a, b); r != 0 {
					return r * sign
				}
				return a - b
			})
			for i, e := range idx[:k] {
				from[(o*k+i)*inner+in] = e
			}
			c.spend(n * 8)
		}
	}
	src := c.cells(0)
	at := make([]int64, len(from))
	c.move(0, x.DType, shape, func(dst cells) {
		for i, e := range from {
			dst.copy(i, src, e, 1)
			at[i] = int64(e / inner % n)
		}
	})
	c.putInts(1, tensor.Int64, shape, at)
}

func nonZero(c *Call) {
	x := c.input(0)
	var hits []int
	switch {
	case x.DType == tensor.String:
		for i, v := range c.strings(0) {
			if v != "" {
				hits = append(hits, i)
			}
		}
	case x.DType.IsComplex():
		for i, v := range c.complexes(0) {
			if v != 0 {
				hits = append(hits, i)
			}
		}
	case x.DType.IsFloat():
		for i, v := range c.floats(0) {
			if v != 0 {
				hits = append(hits, i)
			}
		}
	default:
		for i, v := range c.ints(0) {
			if v != 0 {
				hits = append(hits, i)
			}
		}
	}
	rank := len(x.Shape)
	out := make([]int64, c.reserve("output Y", []int{rank, len(hits)}, 8))
	for k, i := range hits {
		for a := rank - 1; a >= 0; a-- {
			out[a*len(hits)+k] = int64(i % x.Shape[a])
			i /= x.Shape[a]
		}
	}
	c.putInts(0, tensor.Int64, []int{rank, len(hits)}, out)
}

func compress(c *Call) {
	x, keep := c.input(0), c.bools(1)
	dims, axis := []int{x.Len()}, 0
	if c.Node.Attrs.Lookup("axis") != nil {
		dims, axis = x.Shape, c.axisAttr(0, len(x.Shape))
	}
	n := dims[axis]
	c.require(len(keep) <= n || !slices.Contains(keep[n:], true), c.portName(1), "%d conditions for %d elements", len(keep), n)
	var at []int
	for i, k := range keep {
		if k {
			at = append(at, i)
		}
	}
	shape := slices.Clone(dims)
	shape[axis] = len(at)
	c.take(dims, axis, at, shape)
}

func oneHot(c *Call) {
	indices, values := c.input(0), c.input(2)
	d := c.one(1, 0)
	if !(d >= 0 && d < 1<<40) {
		c.fail(c.portName(1), ErrAttribute, "depth %v", d)
	}
	c.require(values.Len() == 2, c.portName(2), "[off, on] is expected, found %v", values)
	depth, rank := int(d), len(indices.Shape)
	axis := c.axisAttr(-1, rank+1)
	shape := slices.Insert(slices.Clone(indices.Shape), axis, depth)
	outer, inner := product(indices.Shape[:axis]), product(indices.Shape[axis:])
	at, src := c.ints(0), c.cells(2)
	c.move(0, values.DType, shape, func(dst cells) {
		for i := range product(shape) {
			dst.copy(i, src, 0, 1)
			c.spend(1)
		}
		for o := range outer {
			for in := range inner {
				v := at[o*inner+in]
				if v < 0 {
					v += int64(depth)
				}
				if v >= 0 && v < int64(depth) {
					dst.copy((o*depth+int(v))*inner+in, src, 1, 1)
				}
			}
		}
	})
}

// box is a rectangle with ordered corners and its area.
type box struct{ y0, x0, y1, x1, area float64 }

func boxOf(b []float64, center bool) box {
	var r box
	if center {
		x, y, w, h := b[0], b[1], b[2], b[3]
		r = box{y0: y - h/2, x0: x - w/2, y1: y + h/2, x1: x + w/2}
	} else {
		r = box{y0: math.Min(b[0], b[2]), x0: math.Min(b[1], b[3]), y1: math.Max(b[0], b[2]), x1: math.Max(b[1], b[3])}
	}
	r.area = (r.y1 - r.y0) * (r.x1 - r.x0)
	return r
}

// overlap returns intersection over union.
func (a *box) overlap(b *box) float64 {
	h := math.Min(a.y1, b.y1) - math.Max(a.y0, b.y0)
	w := math.Min(a.x1, b.x1) - math.Max(a.x0, b.x0)
	if !(h > 0 && w > 0) {
		return 0
	}
	union := a.area + b.area - h*w
	if union <= 0 {
		return 0
	}
	return h * w / union
}

// nonMaxSuppression goes through the boxes of a class by falling score and keeps those that no kept box covers.
func nonMaxSuppression(c *Call) {
	bt, st := c.input(0), c.input(1)
	c.require(len(bt.Shape) == 3 && bt.Shape[2] == 4, c.portName(0), "[N, boxes, 4] is expected, found %v", bt)
	c.require(len(st.Shape) == 3 && st.Shape[0] == bt.Shape[0] && st.Shape[2] == bt.Shape[1], c.portName(1), "%v for %v", st, bt)
	boxes, scores := c.floats(0), c.floats(1)
	limit, iou := c.oneInt(2, 0), c.one(3, 0)
	threshold := math.Inf(-1)
	if c.has(4) {
		threshold = c.one(4, 0)
	}
	center := c.Node.Int("center_point_box", 0) != 0
	n, classes := bt.Shape[1], st.Shape[1]
	out := []int64{}
	all := make([]box, n)
	order, kept := make([]int, 0, n), make([]int, 0, n)
	for b := range bt.Shape[0] {
		for i := range all {
			all[i] = boxOf(boxes[(b*n+i)*4:], center)
		}
		var grid *boxGrid
		if iou >= 0 {
			grid = newBoxGrid(all)
		}
		for cl := range classes {
			s := scores[(b*classes+cl)*n:][:n]
			order = order[:0]
			for i, v := range s {
				if v > threshold {
					order = append(order, i)
				}
			}
			slices.SortFunc(order, func(i, j int) int {
				if r := cmp.Compare(s[j], s[i]); r != 0 {
					return r
				}
				return i - j
			})
			kept = kept[:0]
			if grid != nil {
				grid.reset()
			}
			for _, i := range order {
				if int64(len(kept)) >= limit {
					break
				}
				covered, looked := false, 0
				if grid != nil {
					covered, looked = grid.covered(all, i, iou)
				} else {
					covered, looked = coveredByAny(all, kept, i, iou)
				}
				c.spend(4 * (looked + 1))
				if !covered {
					if grid != nil {
						grid.keep(all, i)
					}
					kept = append(kept, i)
					out = append(out, int64(b), int64(cl), int64(i))
				}
			}
		}
	}
	c.putInts(0, tensor.Int64, []int{len(out) / 3, 3}, out)
}

// coveredByAny reports whether a kept box overlaps box i by more than iou, and how many it looked at.
func coveredByAny(all []box, kept []int, i int, iou float64) (bool, int) {
	for at, k := range kept {
		if all[i].overlap(&all[k]) > iou {
			return true, at + 1
		}
	}
	return false, len(kept)
}

// unique finds the different elements, or the different slices along an axis.
func unique(c *Call) {
	x := c.input(0)
	outer, n, inner := 1, x.Len(), 1
	axis, shape := 0, []int{0}
	if c.Node.Attrs.Lookup("axis") != nil {
		axis = c.axisAttr(0, len(x.Shape))
		outer, n, inner = split3(x.Shape, axis)
		shape = slices.Clone(x.Shape)
	}
	element := c.ordering(0)
	compare := func(a, b int) int {
		for o := range outer {
			for in := range inner {
				if r := element((o*n+a)*inner+in, (o*n+b)*inner+in); r != 0 {
					return r
				}
			}
		}
		return 0
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		c.spend(4)
		return compare(a, b)
	})
	group := make([]int, n) // of every slice, by rising value
	var first []int         // of every group
	var counts []int64
	for k, i := range order {
		if k == 0 || compare(order[k-1], i) != 0 {
			first, counts = append(first, i), append(counts, 0)
		}
		group[i] = len(first) - 1
		counts[group[i]]++
	}
	rank := make([]int, len(first)) // groups in the order of the result
	for g := range rank {
		rank[g] = g
	}
	if c.Node.Int("sorted", 1) == 0 {
		slices.SortFunc(rank, func(a, b int) int { return first[a] - first[b] })
	}
	place := make([]int, len(rank))
	indices, sizes, inverse := make([]int64, len(rank)), make([]int64, len(rank)), make([]int64, n)
	for p, g := range rank {
		place[g] = p
		indices[p], sizes[p] = int64(first[g]), counts[g]
	}
	for i, g := range group {
		inverse[i] = int64(place[g])
	}
	shape[axis] = len(rank)
	src := c.cells(0)
	c.move(0, x.DType, shape, func(dst cells) {
		for o := range outer {
			for p, i := range indices {
				dst.copy((o*len(rank)+p)*inner, src, (o*n+int(i))*inner, inner)
			}
		}
	})
	c.putInts(1, tensor.Int64, []int{len(rank)}, indices)
	c.putInts(2, tensor.Int64, []int{n}, inverse)
	c.putInts(3, tensor.Int64, []int{len(rank)}, sizes)
}
