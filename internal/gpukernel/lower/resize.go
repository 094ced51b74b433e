package lower

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
)

const (
	// resizeMost is the most elements of an axis that is resized: where they come from is a table in the kernel's text.
	resizeMost = 4096
	// tapsMost is the most elements that an element of the result is made of.
	tapsMost = 64
)

// tap is an element of an axis and its weight.
type tap struct {
	at     int
	weight float64
}

// resized is how an axis is resized.
type resized struct {
	in, out    int
	scale      float64
	length     float64 // of the result before it is rounded down
	start, end float64 // the region of tf_crop_and_resize
}

// sampling is the attributes of a Resize.
type sampling struct {
	mode, coordinates, rounding string
	cubic                       float64
	antialias, exclude          bool
}

// resize makes each element a weighted sum of a few of the operand's; which these are is computed here, in float64, as tables.
func (l *lowering) resize(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	t, shape := l.p.Type(x), l.p.Shape(x)
	s := sampling{n.Str("mode", "nearest"), n.Str("coordinate_transformation_mode", "half_pixel"), n.Str("nearest_mode", "round_prefer_floor"),
		float64(n.Float("cubic_coeff_a", -0.75)), n.Int("antialias", 0) != 0, n.Int("exclude_outside", 0) != 0}
	if n.Op.Name == "Upsample" || n.Op.Since < 11 {
		s.coordinates, s.rounding = "asymmetric", "simple"
	}
	if s.mode != "nearest" && !isFloat(t) {
		return refuse("interpolation of type %s", t)
	}
	axes, err := resizedAxes(n, shape, s.coordinates)
	if err != nil {
		return err
	}
	most := 1
	for axis, r := range axes {
		if r.out == r.in && r.scale == 1 && s.coordinates != "tf_crop_and_resize" {
			continue
		}
		if r.out > resizeMost {
			return refuse("an axis of %d elements", r.out)
		}
		table, outside, err := s.taps(r)
		if err != nil {
			return err
		}
		if most *= len(table); most > tapsMost {
			return refuse("a sum of %d elements", most)
		}
		if x = l.resample(x, axis, r.out, table); outside != nil {
			fill := l.p.Float(t, n.Float("extrapolation_value", 0))
			beyond := l.p.Reshape(l.p.Table(gpukernel.I32, outside...), append([]int{r.out}, slices.Repeat([]int{1}, len(shape)-axis-1)...)...)
			x = l.p.Scalar(t, "($2 ? $1 : $0)", x, fill, beyond)
		}
	}
	return l.result(n, 0, x)
}

// resample combines elements along an axis: table[k] holds tap k of each element of the result.
func (l *lowering) resample(x gpukernel.Value, axis, out int, table [][]tap) gpukernel.Value {
	t, shape := l.p.Type(x), slices.Clone(l.p.Shape(x))
	shape[axis] = out
	dims := append([]int{out}, slices.Repeat([]int{1}, len(shape)-axis-1)...)
	var sum gpukernel.Value
	for k, list := range table {
		at, weights, plain := make([]int, out), make([]float32, out), true
		for i, p := range list {
			at[i], weights[i] = p.at, float32(p.weight)
			plain = plain && p.weight == 1
		}
		along := same(len(shape))
		along[axis] = gpukernel.Along{Index: l.p.Reshape(l.p.Table(gpukernel.I32, at...), dims...), Within: true}
		y := l.p.Pick(x, shape, along...)
		if !plain {
			y = l.p.Scalar(t, "($1 == 0.0f ? 0.0f : $0 * $1)", y, l.p.Reshape(l.p.FloatTable(weights...), dims...))
		}
		if k == 0 {
			sum = y
		} else {
			sum = l.p.Scalar(t, "$0 + $1", sum, y)
		}
	}
	return sum
}

// constants returns the content of a float operand that is a constant; nil where it is left out or empty.
func constants(n *graph.Node, i int) ([]float64, error) {
	v := n.Input(i)
	if v == nil || v.Type.Shape.Equal(graph.ShapeOf(0)) {
		return nil, nil
	}
	if !v.IsConst() {
		return nil, refuse("%q is not constant", v.Name)
	}
	list := make([]float64, v.Const.Len())
	return list, tensor.Decode(list, v.Const)
}

// resizedAxes returns how each axis of a shape is resized.
func resizedAxes(n *graph.Node, shape []int, coordinates string) ([]resized, error) {
	axes := make([]resized, len(shape))
	for i, d := range shape {
		axes[i] = resized{d, d, 1, float64(d), 0, 1}
	}
	_, out, err := TypeOf(n.Outputs[0])
	if err != nil {
		return nil, err
	}
	var scales []float64
	switch {
	case n.Op.Name == "Upsample" && n.Op.Since < 9:
		for _, f := range n.Floats("scales") {
			scales = append(scales, float64(f))
		}
		if n.Op.Since < 7 && len(shape) == 4 {
			scales = []float64{1, 1, float64(n.Float("height_scale", 1)), float64(n.Float("width_scale", 1))}
		}
	case n.Op.Name == "Upsample" || n.Op.Since < 11:
		scales, err = constants(n, 1)
	default:
		scales, err = constants(n, 2)
	}
	if err != nil {
		return nil, err
	}
	which := from(0, len(shape))
	if list, ok := n.Ints("axes"); ok {
		if which, err = graph.NormAxes(list, len(shape)); err != nil {
			return nil, refuse("%v", err)
		}
	}
	if scales != nil && len(scales) != len(which) {
		return nil, refuse("%d scales of %d axes", len(scales), len(which))
	}
	for i, a := range which {
		r := &axes[a]
		r.out = out[a]
		if scales != nil {
			r.scale, r.length = scales[i], scales[i]*float64(r.in)
		} else {
			r.scale, r.length = float64(r.out)/float64(r.in), float64(r.out)
		}
	}
	if err := keepAspect(n, axes, which, scales == nil); err != nil {
		return nil, err
	}
	if coordinates == "tf_crop_and_resize" {
		region, err := constants(n, 1)
		if err != nil || len(region) != 2*len(which) {
			return nil, refuse("a region that is not known")
		}
		for i, a := range which {
			axes[a].start, axes[a].end = region[i], region[len(which)+i]
		}
	}
	for _, r := range axes {
		if !(r.scale > 0) {
			return nil, refuse("a scale of %v", r.scale)
		}
	}
	return axes, nil
}

// keepAspect makes the scales of axes one, where sizes are bounds only.
func keepAspect(n *graph.Node, axes []resized, which []int, sized bool) error {
	policy := n.Str("keep_aspect_ratio_policy", "stretch")
	if policy == "stretch" || !sized || len(which) == 0 {
		return nil
	}
	sizes, ok, err := integers(n, 3)
	if err != nil {
		return err
	}
	if !ok || len(sizes) != len(which) {
		return refuse("sizes are not known")
	}
	scale := math.NaN()
	for i, a := range which {
		s := float64(sizes[i]) / float64(axes[a].in)
		if math.IsNaN(scale) || policy == "not_larger" && s < scale || policy != "not_larger" && s > scale {
			scale = s
		}
	}
	for _, a := range which {
		axes[a].scale, axes[a].length = scale, scale*float64(axes[a].in)
	}
	return nil
}

// origin returns the coordinate in the operand of element i of the result; that of a nearest neighbour is computed in float32, as by the
// reference kernel.
func (s *sampling) origin(r resized, i int) (float64, error) {
	if s.mode == "nearest" {
		o, err := originIn[float32](s, r, i)
		return float64(o), err
	}
	return originIn[float64](s, r, i)
}

func originIn[F float32 | float64](s *sampling, r resized, i int) (F, error) {
	y, in, length, scale, start, end := F(i), F(r.in), F(r.length), F(r.scale), F(r.start), F(r.end)
	switch s.coordinates {
	case "asymmetric":
		return y / scale, nil
	case "align_corners":
		if length == 1 {
			return 0, nil
		}
		return y * (in - 1) / (length - 1), nil
	case "tf_crop_and_resize":
		first, within := start*(in-1), (end-start)*(in-1)/2
		if length != 1 {
			within = y * (end - start) * (in - 1) / (length - 1)
		}
		return first + within, nil
	case "tf_half_pixel_for_nn":
		return (y + 0.5) / scale, nil
	case "half_pixel_symmetric":
		offset := in / 2 * (1 - F(r.out)/length)
		return offset + (y+0.5)/scale - 0.5, nil
	case "pytorch_half_pixel":
		if r.out == 1 {
			return 0, nil
		}
	case "half_pixel":
	default:
		return 0, refuse("coordinates %q", s.coordinates)
	}
	return (y+0.5)/scale - 0.5, nil
}

// taps returns a table by tap and element of the result, and by element whether it lies outside of the region's operand; nil
// where none can.
func (s *sampling) taps(r resized) (table [][]tap, outside []int, err error) {
	lists, most := make([][]tap, r.out), 1
	for i := range lists {
		o, err := s.origin(r, i)
		if err != nil {
			return nil, nil, err
		}
		if math.IsNaN(o) || math.Abs(o) > 1<<30 {
			return nil, nil, refuse("a coordinate %v", o)
		}
		if s.coordinates == "tf_crop_and_resize" {
			outside = append(outside, map[bool]int{true: 1, false: 0}[o < 0 || o > float64(r.in-1)])
		}
		if lists[i], err = s.around(r, o); err != nil {
			return nil, nil, err
		}
		most = max(most, len(lists[i]))
	}
	table = make([][]tap, most)
	for k := range table {
		table[k] = make([]tap, r.out)
		for i, list := range lists {
			if k < len(list) {
				table[k][i] = list[k]
			}
		}
	}
	return table, outside, nil
}

// around returns the elements around a coordinate.
func (s *sampling) around(r resized, o float64) ([]tap, error) {
	clamp := func(f float64) int { return int(min(max(f, 0), float64(r.in-1))) }
	if s.mode == "nearest" {
		at, err := s.nearest(o, r.scale)
		return []tap{{clamp(at), 1}}, err
	}
	shrink, radius := 1.0, 1.0
	if s.antialias {
		shrink = min(r.scale, 1)
	}
	weight := func(d float64) float64 { return max(0, 1-d) }
	switch s.mode {
	case "linear", "bilinear":
	case "cubic":
		radius = 2
		weight = func(d float64) float64 { return keys(d, s.cubic) }
	default:
		return nil, refuse("mode %q", s.mode)
	}
	if radius /= shrink; radius > tapsMost/2 {
		return nil, refuse("a window of %g elements", 2*radius)
	}
	var list []tap
	sum := 0.0
	for k := math.Floor(o-radius) + 1; k < o+radius; k++ {
		w := weight(math.Abs(k-o) * shrink)
		if w == 0 || s.exclude && (k < 0 || k > float64(r.in-1)) {
			continue
		}
		list = append(list, tap{clamp(k), w})
		sum += w
	}
	for i := range list {
		if sum != 0 {
			list[i].weight /= sum
		}
	}
	return list, nil
}

// nearest rounds a coordinate.
func (s *sampling) nearest(x, scale float64) (float64, error) {
	switch s.rounding {
	case "simple": // of versions before 11
		if scale < 1 {
			return math.Ceil(x), nil
		}
		return math.Floor(x), nil
	case "round_prefer_floor":
		return math.Ceil(x - 0.5), nil
	case "round_prefer_ceil":
		return math.Floor(x + 0.5), nil
	case "floor":
		return math.Floor(x), nil
	case "ceil":
		return math.Ceil(x), nil
	}
	return 0, refuse("nearest_mode %q", s.rounding)
}

// keys is the cubic convolution kernel, doi:10.1109/TASSP.1981.1163711.
func keys(d, a float64) float64 {
	switch {
	case d < 1:
		return ((a+2)*d-(a+3))*d*d + 1
	case d < 2:
		return ((a*d-5*a)*d+8*a)*d - 4*a
	}
	return 0
}
