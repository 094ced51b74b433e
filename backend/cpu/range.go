package cpu

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Range: numbers at equal distances, which positions of tokens and masks are made of.

// counts are the functions of an element type: numbers from a first one on, and how many there are before a limit, not ok where that is not
// known.
type counts struct {
	fill   func(y, start, delta []byte, lo, hi int)
	length func(start, limit, delta []byte) (n uint64, ok bool)
}

func countsOf[T int32 | int64 | float32 | float64, W int64 | float64](length func(start, limit, delta W) (uint64, bool)) counts {
	one := func(b []byte) W { return W(place.Elements[T](b)[0]) }
	return counts{
		fill: func(y, start, delta []byte, lo, hi int) {
			s, d, out := one(start), one(delta), place.Elements[T](y)[lo:hi]
			for i := range out {
				out[i] = T(s + W(lo+i)*d)
			}
		},
		length: func(start, limit, delta []byte) (uint64, bool) { return length(one(start), one(limit), one(delta)) },
	}
}

func integersBefore(start, limit, delta int64) (uint64, bool) {
	if delta == 0 {
		return 0, false
	}
	return graph.RangeLen(start, limit, delta), true
}

func floatsBefore(start, limit, delta float64) (uint64, bool) {
	n := math.Ceil((limit - start) / delta)
	return uint64(min(max(n, 0), 1<<40)), n == n
}

var progressions = map[tensor.DType]counts{
	tensor.Int32: countsOf[int32](integersBefore), tensor.Int64: countsOf[int64](integersBefore),
	tensor.Float32: countsOf[float32](floatsBefore), tensor.Float64: countsOf[float64](floatsBefore),
}

func rangeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if _, ok := progressions[n.Outputs[0].Type.DType]; !ok {
		return nil, property.Because(property.DTypeReason, "%v is %v", n.Outputs[0], n.Outputs[0].Type.DType)
	}
	return operators.RowMajor(n), nil
}

func planRange(p *planner, n *graph.Node) error {
	start, delta, y := p.In(n.Inputs[0]), p.In(n.Inputs[2]), p.Out(n.Outputs[0])
	fill := progressions[n.Outputs[0].Type.DType].fill
	p.emit(step{chunks: product(p.Dims[n.Outputs[0].ID]), grain: grainFor(0.5), body: func(st *state, _, lo, hi int) {
		fill(st.Bytes(y), st.Bytes(start), st.Bytes(delta), lo, hi)
	}}, []place.Memory{start, delta}, []place.Memory{y})
	return nil
}

// rangeRun is Range between numbers that the run finds.
func rangeRun(c *choice) error {
	dt := c.x[0].DType
	k := progressions[dt]
	for i, x := range c.x {
		if x.Len() != 1 {
			return property.Because(property.ShapeReason, "operand %d of %v is %v, not one element", i, c.in.n, x)
		}
	}
	start, delta := c.x[0].Bytes(), c.x[2].Bytes()
	n, ok := k.length(start, c.x[1].Bytes(), delta)
	if !ok {
		return property.Because(property.Unsupported, "%v by steps of %v", c.in.n, c.x[2].Float64At(0))
	}
	if n > math.MaxInt32 {
		return fmt.Errorf("%v: %w: %d elements", c.in.n, tensor.ErrTooLarge, n)
	}
	y, err := c.result(0, dt, []int{int(n)})
	if err == nil && y != nil {
		k.fill(y, start, delta, 0, int(n))
	}
	return err
}

func init() { table.Register("Range", operator{Signatures: rangeSignatures, Plan: planRange}) }
