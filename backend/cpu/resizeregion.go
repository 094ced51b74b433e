package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Resize of a region that a run may name (coordinate_transformation_mode tf_crop_and_resize), as exports of TensorFlow's crop_and_resize have
// it in a loop over boxes: of row-major float32 over any axes, linear or to nearest neighbours. Where elements lie along each axis is computed
// first.

// regionResizing is how such a Resize makes elements.
type regionResizing struct {
	nearest  bool
	rounding conv.Rounding
	beyond   float32   // of elements outside the source
	scales   []float32 // nil: the quotients of the sizes
}

// mostRegionAxes bounds how many rows an element of a row is made of, 2 for each other axis.
const mostRegionAxes = 6

func regionResizingOf(n *graph.Node) (*regionResizing, *property.Reason) {
	r := &regionResizing{nearest: n.Str("mode", "nearest") == "nearest", beyond: n.Float("extrapolation_value", 0)}
	rounding, ok := nearestModes[n.Str("nearest_mode", "round_prefer_floor")]
	r.rounding = rounding
	rank := len(n.Inputs[0].Type.Shape)
	_, named := n.Ints("axes")
	switch {
	case !n.Is("Resize") || n.Op.Since < 11 || n.Str("coordinate_transformation_mode", "") != "tf_crop_and_resize" || !ok:
		return nil, property.Because(property.Attribute, "coordinates or rounding of %v", n)
	case !r.nearest && n.Str("mode", "") != "linear" || n.Int("antialias", 0) != 0 || named || n.Str("keep_aspect_ratio_policy", "stretch") != "stretch":
		return nil, property.Because(property.Attribute, "mode, antialias, axes or aspect ratio of %v", n)
	case !operators.IsFloat32(n.Inputs[0], n.Input(1)) || rank < 1 || rank > mostRegionAxes:
		return nil, property.Because(property.DTypeReason, "%v is %v", n.Inputs[0], n.Inputs[0].Type)
	}
	if s := n.Input(2); n.Input(3) == nil {
		if s == nil || !s.IsConst() || s.Const.DType != tensor.Float32 || s.Const.Len() != rank {
			return nil, property.Because(property.Attribute, "scales %v are not constant", s)
		}
		var err error
		if r.scales, err = paddedFloats(s.Const, rank); err != nil {
			return nil, property.Because(property.Attribute, "%v", err)
		}
	}
	return r, nil
}

// regionOrigin returns the position in a source of in elements of element i of length; start and end are those of the region, in parts of the source.
func regionOrigin[F float32 | float64](i, in int, length, start, end F) F {
	last := F(in - 1)
	first, within := start*last, (end-start)*last/2
	if length != 1 {
		within = F(i) * (end - start) * last / (length - 1)
	}
	return first + within
}

// locate returns the neighbours of element i of an axis, and the weight of the second; first is -1 where it lies outside of the source.
func (r *regionResizing) locate(i, in int, length float64, start, end float32) (first, second int32, weight float32) {
	at := 0.0
	if r.nearest {
		at = float64(regionOrigin(i, in, float32(length), start, end))
	} else {
		at = regionOrigin(i, in, length, float64(start), float64(end))
	}
	last := float64(in - 1)
	switch {
	case !(at >= 0 && at <= last):
		return -1, -1, 0
	case r.nearest:
		first = int32(min(max(r.rounding.Round(at), 0), last))
		return first, first, 0
	}
	low := math.Floor(at)
	return int32(low), int32(min(low+1, last)), float32(at - low)
}

func planResizeRegion(p *planner, n *graph.Node, r *regionResizing) error {
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	if product(dy) == 0 {
		return nil
	}
	if product(dx) == 0 {
		return property.Because(property.ShapeReason, "%v is made of nothing", dy)
	}
	count, rank := 0, len(dx)
	lengths := make([]float64, rank)
	for a, d := range dy {
		count += d
		lengths[a] = float64(d)
		if r.scales != nil {
			lengths[a] = float64(r.scales[a]) * float64(dx[a])
		}
	}
	at, weights, reads := p.Temp(8*count), p.Temp(4*count), []place.Memory{}
	regional := n.Input(1) != nil && product(p.Dims[n.Input(1).ID]) == 2*rank
	var region place.Memory
	if regional {
		region = p.In(n.Input(1))
		reads = append(reads, region)
	}
	p.emit(step{chunks: 1, grain: 1, body: func(st *state, _, _, _ int) {
		table, w, k := of[int32](st, at), st.F32(weights), 0
		for a, d := range dy {
			start, end := float32(0), float32(1)
			if regional {
				box := st.F32(region)
				start, end = box[a], box[rank+a]
			}
			for i := range d {
				table[2*k], table[2*k+1], w[k] = r.locate(i, dx[a], lengths[a], start, end)
				k++
			}
		}
	}}, reads, []place.Memory{at, weights})
	wide := dy[rank-1]
	p.emit(step{chunks: product(dy) / wide, grain: grainFor(float64(wide) * 4), body: func(st *state, _, lo, hi int) {
		rows := regionRows{dx: dx, dy: dy, at: of[int32](st, at), weights: st.F32(weights)}
		x, y := st.F32(src), st.F32(dst)
		for i := lo; i < hi; i++ {
			rows.write(y[i*wide:][:wide], x, i, r.beyond)
		}
	}}, []place.Memory{src, at, weights}, []place.Memory{dst})
	return nil
}

// regionRows makes rows of a result. The tables hold the axes' elements one behind the other.
type regionRows struct {
	dx, dy  []int
	at      []int32 // two of each element
	weights []float32

	from   [1 << (mostRegionAxes - 1)]int // where the rows of the source begin that a row is made of
	factor [1 << (mostRegionAxes - 1)]float32
}

// write writes row i of the result.
func (r *regionRows) write(out, x []float32, i int, beyond float32) {
	rank := len(r.dx)
	r.from[0], r.factor[0] = 0, 1
	count, table, inside := 1, len(r.weights)-len(out), true
	first, last := table, r.dx[rank-1]
	for a, stride := rank-2, last; a >= 0; a-- {
		table -= r.dy[a]
		k := table + i%r.dy[a]
		one, two, w := r.at[2*k], r.at[2*k+1], r.weights[k]
		inside = inside && one >= 0
		for j := range count {
			from, factor := r.from[j], r.factor[j]
			r.from[j], r.factor[j] = from+int(one)*stride, factor*(1-w)
			if w != 0 {
				r.from[count+j], r.factor[count+j] = from+int(two)*stride, factor*w
			}
		}
		if w != 0 {
			count *= 2
		}
		i /= r.dy[a]
		stride *= r.dx[a]
	}
	for j := range out {
		out[j] = beyond
	}
	if !inside {
		return
	}
	at, weights := r.at[2*first:], r.weights[first:]
	for k := range count {
		row, factor := x[r.from[k]:][:last], r.factor[k]
		for j := range out {
			one, w := at[2*j], weights[j]
			if one < 0 {
				continue
			}
			v := row[one]
			if w != 0 {
				v = v*(1-w) + row[at[2*j+1]]*w
			}
			if v *= factor; k > 0 {
				v += out[j]
			}
			out[j] = v
		}
	}
}
