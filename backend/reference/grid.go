package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var gridKernels = []kernel{
	{"GridSample", 16, gridSample},
	{"AffineGrid", 20, affineGrid},
}

// sampler reads an image at fractional coordinates.
type sampler struct {
	dims, strides []int
	mode          string // nearest, linear or cubic
	padding       string // zeros, border or reflection
	align         bool
	taps          [][]tap // per axis
}

type tap struct {
	at     int
	weight float64
}

// inside brings an index into the image by the padding mode; ok is false where the image is zero.
func (s *sampler) inside(i, n int) (at int, ok bool) {
	if i >= 0 && i < n {
		return i, true
	}
	switch s.padding {
	case "border":
		return min(max(i, 0), n-1), true
	case "reflection":
		return int(s.reflect(float64(i), n)), true
	}
	return 0, false
}

// reflect folds a coordinate at the image's edges: its corner points when corners are aligned, else half a pixel beyond.
func (s *sampler) reflect(x float64, n int) float64 {
	lo, hi := -0.5, float64(n)-0.5
	if s.align {
		lo, hi = 0, float64(n-1)
	}
	span := hi - lo
	if span <= 0 {
		return 0
	}
	x = math.Mod(math.Abs(x-lo), 2*span)
	if x > span {
		x = 2*span - x
	}
	return math.Min(math.Max(x+lo, 0), float64(n-1))
}

// fill computes the taps of an axis for a normalised coordinate.
func (s *sampler) fill(axis int, g float64) {
	n := s.dims[axis]
	x := ((g+1)*float64(n) - 1) / 2
	if s.align {
		x = (g + 1) / 2 * float64(n-1)
	}
	list := s.taps[axis][:0]
	add := func(i int, w float64) {
		if at, ok := s.inside(i, n); ok {
			list = append(list, tap{at, w})
		}
	}
	switch {
	case x != x || math.Abs(x) > 1<<40: // beyond every padding
		if s.padding != "zeros" {
			add(0, 1)
		}
		s.taps[axis] = list
		return
	case s.mode == "nearest":
		add(int(math.RoundToEven(x)), 1)
	case s.mode == "linear":
		f := math.Floor(x)
		add(int(f), 1-(x-f))
		add(int(f)+1, x-f)
	default:
		f := math.Floor(x)
		for k := -1; k <= 2; k++ {
			add(int(f)+k, cubicWeight(math.Abs(x-f-float64(k)), -0.75))
		}
	}
	s.taps[axis] = list
}

// cubicWeight is the cubic convolution kernel at distance d. Source: R. Keys, doi:10.1109/TASSP.1981.1163711.
func cubicWeight(d, a float64) float64 {
	switch {
	case d <= 1:
		return ((a+2)*d-(a+3))*d*d + 1
	case d < 2:
		return ((a*d-5*a)*d+8*a)*d - 4*a
	}
	return 0
}

// sum returns the weighted sum of a plane from an axis on.
func (s *sampler) sum(plane []float64, axis, base int) float64 {
	if axis == len(s.dims) {
		return plane[base]
	}
	total := 0.0
	for _, t := range s.taps[axis] {
		total += t.weight * s.sum(plane, axis+1, base+t.at*s.strides[axis])
	}
	return total
}

// gridSample reads x [N, C, D1, ...] at the points of a grid [N, O1, ..., rank], whose coordinates run from -1 to 1, the
// last axis first.
func gridSample(c *Call) {
	x, g := c.input(0), c.input(1)
	rank := len(x.Shape) - 2
	c.require(rank >= 1, c.portName(0), "[N, C, D1, ...] is expected, found %v", x)
	c.require(len(g.Shape) == rank+2 && g.Shape[rank+1] == rank && g.Shape[0] == x.Shape[0], c.portName(1), "%v for %v", g, x)
	s := &sampler{dims: x.Shape[2:], strides: tensor.CompactStrides(x.Shape[2:]), mode: c.Node.Str("mode", "linear"),
		padding: c.Node.Str("padding_mode", "zeros"), align: c.Node.Int("align_corners", 0) != 0, taps: make([][]tap, rank)}
	switch s.mode {
	case "bilinear":
		s.mode = "linear"
	case "bicubic":
		s.mode = "cubic"
	case "nearest", "linear", "cubic":
	default:
		c.fail("mode", ErrAttribute, "%q", s.mode)
	}
	for _, d := range s.dims {
		c.require(d > 0, c.portName(0), "nothing to sample in %v", x)
	}
	points := g.Shape[1 : rank+1]
	shape := append([]int{x.Shape[0], x.Shape[1]}, points...)
	out := c.floatBuffer(shape...)
	v, grid := c.floats(0), c.floats(1)
	size, plane := product(points), product(s.dims)
	for n := range x.Shape[0] {
		for p := range size {
			at := grid[(n*size+p)*rank:][:rank]
			for a := range rank {
				s.fill(a, at[rank-1-a])
			}
			for ch := range x.Shape[1] {
				k := n*x.Shape[1] + ch
				out[k*size+p] = s.sum(v[k*plane:][:plane], 0, 0)
			}
			c.spend(x.Shape[1] * 16)
		}
	}
	c.putFloats(0, x.DType, shape, out)
}

// affineGrid computes a grid for gridSample: theta [N, rank, rank+1] applied to every point of an image of the size
// [N, C, D1, ...].
func affineGrid(c *Call) {
	theta := c.input(0)
	size := c.dims(c.portName(1), c.ints(1))
	rank := len(size) - 2
	c.require(rank == 2 || rank == 3, c.portName(1), "%v", size)
	c.require(sameShape(theta.Shape, []int{size[0], rank, rank + 1}), c.portName(0), "%v for %v", theta, size)
	align := c.Node.Int("align_corners", 0) != 0
	dims := size[2:]
	shape := append(append([]int{size[0]}, dims...), rank)
	out := c.floatBuffer(shape...)
	t := c.floats(0)
	at, point := make([]int, rank), make([]float64, rank+1)
	point[rank] = 1
	o := 0
	for n := range size[0] {
		clear(at)
		for range product(dims) {
			for a, i := range at {
				d := float64(dims[a])
				p := (2*float64(i)+1)/d - 1
				if align {
					p = -1
					if d > 1 {
						p = 2*float64(i)/(d-1) - 1
					}
				}
				point[rank-1-a] = p
			}
			for r := range rank {
				for k, p := range point {
					out[o] += t[(n*rank+r)*(rank+1)+k] * p
				}
				o++
			}
			c.spend(rank * rank)
			advanceAll(at, dims)
		}
	}
	c.putFloats(0, theta.DType, shape, out)
}
