package reference

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

var resizeKernels = []kernel{
	{"Upsample", 7, resize},
	{"Resize", 10, resize},
}

// resizing is what Resize does along one axis.
type resizing struct {
	in, out    int
	scale      float64
	length     float64 // of the result, before it is rounded down
	start, end float64 // region of tf_crop_and_resize
}

// taps are the elements of an axis that an element of the result is made of, with their weights.
type taps struct {
	at      []int
	weights []float64
	outside bool // beyond the input under tf_crop_and_resize
}

// resizeAxes reads scales or sizes, which come as an attribute or inputs by version, and the region.
func (c *Call) resizeAxes(x *tensor.Tensor) []resizing {
	rank := len(x.Shape)
	rs := make([]resizing, rank)
	for a, d := range x.Shape {
		rs[a] = resizing{in: d, out: d, scale: 1, length: float64(d), end: 1}
	}
	var scales []float64
	var sizes []int
	switch {
	case c.Node.Is("Upsample") && c.version < 9:
		for _, f := range c.Node.Floats("scales") {
			scales = append(scales, float64(f))
		}
	case c.version < 11:
		scales = c.floats(1)
	default:
		if t := c.optional(2); t != nil && t.Len() > 0 {
			scales = c.floats(2)
		} else {
			sizes = c.dims(c.portName(3), c.ints(3))
		}
	}
	var axes []int
	if v, ok := c.Node.Ints("axes"); ok {
		for _, a := range v {
			axes = append(axes, c.axis(a, rank))
		}
	} else {
		for a := range rank {
			axes = append(axes, a)
		}
	}
	c.require(len(scales)+len(sizes) == len(axes), "scales", "%d scales or sizes for %d axes", len(scales)+len(sizes), len(axes))
	if t := c.optional(1); c.version >= 11 && t != nil && t.Len() == 2*len(axes) {
		roi := c.floats(1)
		for i, a := range axes {
			rs[a].start, rs[a].end = roi[i], roi[len(axes)+i]
		}
	}
	for i, a := range axes {
		r := &rs[a]
		if scales != nil {
			f := math.Floor(float64(float32(r.in) * float32(scales[i]))) // as shape inference has it
			if !(scales[i] > 0 && f < 1<<40) {
				c.fail("scales", ErrAttribute, "%v", scales[i])
			}
			r.scale, r.out, r.length = scales[i], int(f), scales[i]*float64(r.in)
		} else {
			r.out, r.length = sizes[i], float64(sizes[i])
			r.scale = float64(r.out) / float64(max(r.in, 1))
		}
	}
	c.keepAspect(rs, axes, sizes != nil)
	return rs
}

func (c *Call) keepAspect(rs []resizing, axes []int, sized bool) {
	policy := c.Node.Str("keep_aspect_ratio_policy", "stretch")
	if policy == "stretch" || !sized || len(axes) == 0 {
		return
	}
	s := rs[axes[0]].scale
	for _, a := range axes {
		if policy == "not_larger" {
			s = math.Min(s, rs[a].scale)
		} else {
			s = math.Max(s, rs[a].scale)
		}
	}
	for _, a := range axes {
		rs[a].scale, rs[a].length = s, s*float64(rs[a].in)
		rs[a].out = int(math.Floor(s*float64(rs[a].in) + 0.5))
	}
}

// origin returns the coordinate in the input of element i of the result. That of a nearest neighbour is computed in float32, of which
// scales are, as other runtimes do: it can lie between two neighbours only there.
func (c *Call) origin(r resizing, mode, coordinates string, i int) float64 {
	if mode == "nearest" {
		return float64(originIn[float32](c, r, coordinates, i))
	}
	return originIn[float64](c, r, coordinates, i)
}

func originIn[F float32 | float64](c *Call, r resizing, mode string, i int) F {
	y, in, out, scale, start, end := F(i), F(r.in), F(r.length), F(r.scale), F(r.start), F(r.end)
	switch mode {
	case "asymmetric":
		return y / scale
	case "align_corners":
		if out == 1 {
			return 0
		}
		return y * (in - 1) / (out - 1)
	case "tf_crop_and_resize":
		first, within := start*(in-1), (end-start)*(in-1)/2
		if out != 1 {
			within = y * (end - start) * (in - 1) / (out - 1)
		}
		return first + within
	case "pytorch_half_pixel":
		if r.out == 1 {
			return 0
		}
	case "half_pixel_symmetric":
		offset := in / 2 * (1 - F(r.out)/out)
		return offset + (y+0.5)/scale - 0.5
	case "tf_half_pixel_for_nn":
		return (y + 0.5) / scale
	case "half_pixel":
	default:
		c.fail("coordinate_transformation_mode", ErrAttribute, "%q", mode)
	}
	return (y+0.5)/scale - 0.5
}

// nearest rounds a coordinate by nearest_mode. "simple" is what versions before 11 did: up where the axis shrinks, else
// down.
func (c *Call) nearest(x, scale float64, mode string) float64 {
	switch mode {
	case "simple":
		if scale < 1 {
			return math.Ceil(x)
		}
		return math.Floor(x)
	case "round_prefer_floor":
		return math.Ceil(x - 0.5)
	case "round_prefer_ceil":
		return math.Floor(x + 0.5)
	case "floor":
		return math.Floor(x)
	case "ceil":
		return math.Ceil(x)
	}
	c.fail("nearest_mode", ErrAttribute, "%q", mode)
	return 0
}

func resize(c *Call) {
	x := c.input(0)
	rs := c.resizeAxes(x)
	shape := make([]int, len(rs))
	for a, r := range rs {
		shape[a] = r.out
	}
	c.count("output Y", shape, 8)
	mode := c.Node.Str("mode", "nearest")
	coordinates := c.Node.Str("coordinate_transformation_mode", "half_pixel")
	rounding := c.Node.Str("nearest_mode", "round_prefer_floor")
	if c.version < 11 {
		coordinates, rounding = "asymmetric", "simple"
	}
	all := make([][]taps, len(rs))
	for a, r := range rs {
		c.require(r.in > 0 || r.out == 0, c.portName(0), "nothing to resize in %v", x)
		all[a] = make([]taps, r.out)
		for i := range all[a] {
			o := c.origin(r, mode, coordinates, i)
			t := taps{outside: coordinates == "tf_crop_and_resize" && (o < 0 || o > float64(r.in-1))}
			if r.out == r.in && r.scale == 1 && coordinates != "tf_crop_and_resize" {
				t.at, t.weights = []int{i}, []float64{1}
			} else {
				c.fillTaps(&t, r, mode, rounding, o)
			}
			all[a][i] = t
		}
	}
	if mode == "nearest" {
		c.resizeNearest(x, shape, all)
		return
	}
	c.wantType(0, x, x.DType.IsFloat() || x.DType.IsInt())
	v, dims := c.floats(0), slices.Clone(x.Shape)
	for a := range rs {
		v = c.resample(v, dims, a, all[a])
		dims[a] = shape[a]
	}
	if coordinates == "tf_crop_and_resize" {
		fill := c.float("extrapolation_value", 0)
		idx := make([]int, len(shape))
		for i := range v {
			for a, k := range idx {
				if all[a][k].outside {
					v[i] = fill
				}
			}
			advanceAll(idx, shape)
		}
	}
	if x.DType.IsInt() {
		lo, hi := intRange(x.DType)
		whole := func(x float64) float64 { return math.Trunc(x + math.Copysign(1e-9, x)) } // what rounding of weights left short of a number is that number
		if c.Node.Int("antialias", 0) != 0 {
			whole = math.RoundToEven // as ONNX's reference implementation and ONNX Runtime
		}
		for i := range v {
			v[i] = math.Min(math.Max(whole(v[i]), float64(lo)), float64(hi))
		}
	}
	c.putFloats(0, x.DType, shape, v)
}

// fillTaps computes the weights of the elements around coordinate o.
func (c *Call) fillTaps(t *taps, r resizing, mode, rounding string, o float64) {
	clampIndex := func(f float64) int { return int(math.Min(math.Max(f, 0), float64(r.in-1))) }
	if mode == "nearest" {
		t.at, t.weights = []int{clampIndex(c.nearest(o, r.scale, rounding))}, []float64{1}
		return
	}
	shrink := 1.0
	if c.Node.Int("antialias", 0) != 0 {
		shrink = math.Min(r.scale, 1)
	}
	a := c.float("cubic_coeff_a", -0.75)
	var weight func(d float64) float64
	radius := 1.0
	switch mode {
	case "linear", "bilinear":
		weight = func(d float64) float64 { return math.Max(0, 1-d) }
	case "cubic":
		radius = 2
		weight = func(d float64) float64 { return cubicWeight(d, a) }
	default:
		c.fail("mode", ErrAttribute, "%q", mode)
	}
	radius /= shrink
	if radius > 1<<24 || math.IsNaN(o) || math.Abs(o) > 1<<50 {
		c.fail("scales", tensor.ErrTooLarge, "a window of %v elements at %v", radius, o)
	}
	exclude := c.Node.Int("exclude_outside", 0) != 0
	sum := 0.0
	for k := math.Floor(o-radius) + 1; k < o+radius; k++ {
		w := weight(math.Abs(k-o) * shrink)
		if w == 0 || exclude && (k < 0 || k > float64(r.in-1)) {
			continue
		}
		t.at, t.weights = append(t.at, clampIndex(k)), append(t.weights, w)
		sum += w
		c.spend(4)
	}
	if sum != 0 {
		for i := range t.weights {
			t.weights[i] /= sum
		}
	}
}

// resample applies taps along an axis.
func (c *Call) resample(v []float64, dims []int, axis int, all []taps) []float64 {
	identity := len(all) == dims[axis]
	for i, t := range all {
		identity = identity && len(t.at) == 1 && t.at[0] == i
	}
	if identity {
		return v
	}
	outer, n, inner := split3(dims, axis)
	out := c.floatBuffer(outer, len(all), inner)
	for o := range outer {
		for i, t := range all {
			dst := out[(o*len(all)+i)*inner:][:inner]
			for k, at := range t.at {
				w := t.weights[k]
				for j, s := range v[(o*n+at)*inner:][:inner] {
					dst[j] += w * s
				}
				c.spend(inner + 1)
			}
		}
	}
	return out
}

// resizeNearest moves elements of any type.
func (c *Call) resizeNearest(x *tensor.Tensor, shape []int, all [][]taps) {
	maps := make([][]int, len(all))
	for a, list := range all {
		maps[a] = make([]int, len(list))
		for i, t := range list {
			maps[a][i] = t.at[0]
			if t.outside {
				maps[a][i] = -1
			}
		}
	}
	fill, err := tensor.New(x.DType, 1)
	c.check("", err)
	if x.DType != tensor.String && !x.DType.IsComplex() {
		c.check("extrapolation_value", tensor.Encode(fill, []float64{c.float("extrapolation_value", 0)}))
	}
	src := c.cells(0)
	c.move(0, x.DType, shape, func(dst cells) {
		c.mapCells(dst, shape, src, tensor.CompactStrides(x.Shape), maps, c.cellsOf(fill))
	})
}
