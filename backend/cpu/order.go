package cpu

import (
	"cmp"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// ArgMax, ArgMin and TopK of float32. The first of equals wins. ONNX leaves NaN open: here, as in package reference, TopK
// counts it as larger than every number, and ArgMax and ArgMin pass it over unless it comes first.

func argSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; !operators.IsFloat32(x) {
		return nil, operators.NotFloat32(x)
	}
	if len(n.Inputs[0].Type.Shape) == 0 {
		return nil, property.Because(property.ShapeReason, "a scalar")
	}
	return operators.RowMajor(n), nil
}

func planArg(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	d := p.Dims[x.ID]
	axis := axisOf(n, 0, len(d))
	count, inner := d[axis], product(d[axis+1:])
	if count == 0 {
		return property.Because(property.ShapeReason, "no element along axis %d of %v", axis, d)
	}
	sign := float32(1)
	if n.Is("ArgMin") {
		sign = -1
	}
	last := n.Int("select_last_index", 0) != 0
	src, dst := p.In(x), p.Out(n.Outputs[0])
	p.emit(step{chunks: product(d[:axis]) * inner, grain: grainFor(float64(count) * 2), body: func(st *state, _, lo, hi int) {
		o, s := of[int64](st, dst), st.F32(src)
		for i := lo; i < hi; i++ {
			base, best := i/inner*count*inner+i%inner, 0
			for k := 1; k < count; k++ {
				a, b := s[base+k*inner]*sign, s[base+best*inner]*sign
				if a > b || last && a == b {
					best = k
				}
			}
			o[i] = int64(best)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

// topKOf returns how many elements TopK takes, and its axis.
func topKOf(n *graph.Node) (k, axis int, ok bool) {
	rank := len(n.Inputs[0].Type.Shape)
	axis = axisOf(n, -1, rank)
	if n.Op.Since < 10 {
		return int(n.Int("k", 0)), axis, rank > 0
	}
	v, ok := constInt(n.Input(1))
	return int(v), axis, ok && rank > 0
}

func topKSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if !operators.IsFloat32(x) {
		return nil, operators.NotFloat32(x)
	}
	if _, _, ok := topKOf(n); !ok {
		return nil, property.Because(property.Unsupported, "number of elements %v is not known at compile time", n.Input(1))
	}
	return operators.RowMajor(n), nil
}

// less orders floats with NaN last.
func less(a, b float32) bool { return a < b || b != b && a == a }

func planTopK(p *planner, n *graph.Node) error {
	d := p.Dims[n.Inputs[0].ID]
	k, axis, _ := topKOf(n)
	count, inner := d[axis], product(d[axis+1:])
	if k < 0 || k > count {
		return property.Because(property.ShapeReason, "%d of %d elements", k, count)
	}
	largest := n.Int("largest", 1) != 0
	src, values, indices := p.In(n.Inputs[0]), p.Out(n.Output(0)), p.Out(n.Output(1))
	rows := product(d[:axis]) * inner
	order := p.Temp(rows * count * 4)
	p.emit(step{chunks: rows, grain: grainFor(float64(count) * 20), body: func(st *state, _, lo, hi int) {
		s, o, at := st.F32(src), st.F32(values), of[int64](st, indices)
		for i := lo; i < hi; i++ {
			base := i/inner*count*inner + i%inner
			list := of[int32](st, order)[i*count : (i+1)*count]
			for j := range list {
				list[j] = int32(j)
			}
			slices.SortFunc(list, func(a, b int32) int {
				x, y := s[base+int(a)*inner], s[base+int(b)*inner]
				if !largest {
					x, y = y, x
				}
				switch {
				case less(y, x):
					return -1
				case less(x, y):
					return 1
				}
				return cmp.Compare(a, b)
			})
			out := i/inner*k*inner + i%inner
			for j, e := range list[:k] {
				if o != nil {
					o[out+j*inner] = s[base+int(e)*inner]
				}
				if at != nil {
					at[out+j*inner] = int64(e)
				}
			}
		}
	}}, []place.Memory{src}, []place.Memory{values, indices, order})
	return nil
}

func init() {
	table.Register("ArgMax", operator{Signatures: argSignatures, Plan: planArg})
	table.Register("ArgMin", operator{Signatures: argSignatures, Plan: planArg})
	table.Register("TopK", operator{Signatures: topKSignatures, Plan: planTopK})
}
