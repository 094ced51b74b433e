package cpu

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Resize of row-major float32 in what the kernels of images have not: cubic, with antialiasing, without what lies outside, over any axes. It is done
// axis after axis, those that shrink most first: an element of the result is a sum of neighbours along the axis, whose weights are computed when
// shapes are known.

// resampling is how such a Resize maps positions.
type resampling struct {
	cubic, antialias, exclude bool
	coefficient               float64
	coordinates               string
	scales                    []float32 // nil: the quotients of the sizes
}

var resampled = []string{"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric"}

func resamplingOf(n *graph.Node) (*resampling, *property.Reason) {
	mode := n.Str("mode", "nearest")
	r := &resampling{cubic: mode == "cubic", antialias: n.Int("antialias", 0) != 0, exclude: n.Int("exclude_outside", 0) != 0,
		coefficient: float64(n.Float("cubic_coeff_a", -0.75)), coordinates: n.Str("coordinate_transformation_mode", "half_pixel")}
	_, named := n.Ints("axes")
	switch {
	case !n.Is("Resize") || n.Op.Since < 11 || !r.cubic && mode != "linear" || named || !operators.IsFloat32(n.Inputs[0]):
		return nil, property.Because(property.Attribute, "mode %q or axes of %v", mode, n)
	case !slices.Contains(resampled, r.coordinates) || n.Str("keep_aspect_ratio_policy", "stretch") != "stretch":
		return nil, property.Because(property.Attribute, "coordinates or aspect ratio of %v", n)
	}
	if s := n.Input(2); n.Input(3) == nil && s != nil {
		if !s.IsConst() || s.Const.Len() != len(n.Inputs[0].Type.Shape) {
			return nil, property.Because(property.Attribute, "scales %v are not constant", s)
		}
		var err error
		if r.scales, err = paddedFloats(s.Const, s.Const.Len()); err != nil {
			return nil, property.Because(property.Attribute, "%v", err)
		}
	}
	return r, nil
}

// mostResampled is the most elements along an axis that is resized: the table has some 50 bytes for each.
const mostResampled = 1 << 20

// neighbours are those of each element of the result along an axis: the first, and their weights.
type neighbours struct {
	first   []int
	weights [][]float32
}

// along returns the neighbours along an axis; nil where each element is its own.
func (r *resampling) along(axis, in, out int) (*neighbours, *property.Reason) {
	scale, length := float64(out)/float64(max(in, 1)), float64(out)
	if r.scales != nil {
		scale, length = float64(r.scales[axis]), float64(r.scales[axis])*float64(in)
	}
	if in == out && scale == 1 {
		return nil, nil
	}
	if in < 1 || out > mostResampled || !(scale > 1.0/mostResampled) {
		return nil, property.Because(property.ShapeReason, "%d elements become %d", in, out)
	}
	list := &neighbours{}
	for i := range out {
		first, weights := r.around(r.origin(float64(i), float64(in), float64(out), scale, length), scale, in)
		list.first, list.weights = append(list.first, first), append(list.weights, weights)
	}
	return list, nil
}

// origin returns the position in the source of an element.
func (r *resampling) origin(i, in, out, scale, length float64) float64 {
	switch {
	case r.coordinates == "asymmetric":
		return i / scale
	case r.coordinates == "align_corners" && length == 1, r.coordinates == "pytorch_half_pixel" && out == 1:
		return 0
	case r.coordinates == "align_corners":
		return i * (in - 1) / (length - 1)
	case r.coordinates == "half_pixel_symmetric":
		return in/2*(1-out/length) + (i+0.5)/scale - 0.5
	}
	return (i+0.5)/scale - 0.5
}

// around returns the weights about a position. Those of elements outside are the outermost's, or nobody's.
func (r *resampling) around(at, scale float64, in int) (first int, weights []float32) {
	shrink, radius := 1.0, 1.0
	if r.antialias {
		shrink = math.Min(scale, 1)
	}
	if r.cubic {
		radius = 2
	}
	radius /= shrink
	inside := func(k float64) int { return int(math.Min(math.Max(k, 0), float64(in-1))) }
	from := math.Floor(at-radius) + 1
	first = inside(from)
	var sums []float64
	total := 0.0
	for k := from; k < at+radius; k++ {
		w := r.weight(math.Abs(k-at) * shrink)
		if r.exclude && (k < 0 || k > float64(in-1)) {
			continue
		}
		for len(sums) <= inside(k)-first {
			sums = append(sums, 0)
		}
		sums[inside(k)-first] += w
		total += w
	}
	for _, w := range sums {
		if total != 0 {
			w /= total
		}
		weights = append(weights, float32(w))
	}
	return first, weights
}

// weight returns that of an element at a distance.
func (r *resampling) weight(d float64) float64 {
	a := r.coefficient
	switch {
	case !r.cubic:
		return math.Max(0, 1-d)
	case d <= 1:
		return ((a+2)*d-(a+3))*d*d + 1
	case d < 2:
		return ((a*d-5*a)*d+8*a)*d - 4*a
	}
	return 0
}

func planResample(p *planner, n *graph.Node) error {
	r, why := resamplingOf(n)
	if why != nil {
		return why
	}
	d, to := slices.Clone(p.Dims[n.Inputs[0].ID]), p.Dims[n.Outputs[0].ID]
	lists := make([]*neighbours, len(d))
	var axes []int
	for a := range d {
		if lists[a], why = r.along(a, d[a], to[a]); why != nil {
			return why
		}
		if lists[a] != nil {
			axes = append(axes, a)
		}
	}
	slices.SortStableFunc(axes, func(a, b int) int { return to[a]*d[b] - to[b]*d[a] })
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	if len(axes) == 0 {
		p.copyStep(dst, src, dst.Size)
	}
	for i, a := range axes {
		outer, in, inner := product(d[:a]), d[a], product(d[a+1:])
		d[a] = to[a]
		made := dst
		if i < len(axes)-1 {
			made = p.Temp(4 * product(d))
		}
		p.resampleAxis(lists[a], outer, in, inner, src, made)
		src = made
	}
	return nil
}

// resampleAxis emits sums along the middle axis of [outer, in, inner].
func (p *planner) resampleAxis(l *neighbours, outer, in, inner int, src, dst place.Memory) {
	out, taps := len(l.first), 0
	for _, w := range l.weights {
		taps += len(w)
	}
	if out == 0 {
		return
	}
	if inner == 1 {
		p.emit(step{chunks: outer, grain: grainFor(float64(taps)), body: func(st *state, _, lo, hi int) {
			x, y := st.F32(src), st.F32(dst)
			for ; lo+4 <= hi; lo += 4 {
				l.rows(y[lo*out:][:4*out], x[lo*in:][:4*in])
			}
			for o := lo; o < hi; o++ {
				l.row(y[o*out:][:out], x[o*in:][:in])
			}
		}}, []place.Memory{src}, []place.Memory{dst})
		return
	}
	set := p.target.Set
	p.emit(step{chunks: outer * out, grain: grainFor(float64(taps) / float64(out) * float64(inner) / 8), body: func(st *state, _, lo, hi int) {
		x, y := st.F32(src), st.F32(dst)
		for i := lo; i < hi; i++ {
			element.Products(set, y[i*inner:][:inner], l.weights[i%out], x[(i/out*in+l.first[i%out])*inner:], inner)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

// rows writes the sums along four rows, which wait for each other less than those of one.
func (l *neighbours) rows(out, rows []float32) {
	n, in := len(out)/4, len(rows)/4
	for i, first := range l.first {
		weights := l.weights[i]
		a, b, c, d := rows[first:][:len(weights)], rows[in+first:][:len(weights)], rows[2*in+first:][:len(weights)], rows[3*in+first:][:len(weights)]
		var s, t, u, v float32
		for k, w := range weights {
			s += w * a[k]
			t += w * b[k]
			u += w * c[k]
			v += w * d[k]
		}
		out[i], out[n+i], out[2*n+i], out[3*n+i] = s, t, u, v
	}
}

// row writes the sums along a row.
func (l *neighbours) row(out, row []float32) {
	for i, first := range l.first {
		sum := float32(0)
		weights := l.weights[i]
		for k, v := range row[first:][:len(weights)] {
			sum += weights[k] * v
		}
		out[i] = sum
	}
}
