package cpu

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Range: numbers at equal distances, which positions of tokens and masks are made of.

// counts are the functions of an element type: numbers from a first one on, and how many there are before a limit, not ok where that is not
// known.
type counts struct {
	fill   func(set isa.Set, y, start, delta []byte, lo, hi int)
	length func(start, limit, delta []byte) (n uint64, ok bool)
}

func countsOf[T int32 | int64 | float32 | float64, W int64 | float64](length func(start, limit, delta W) (uint64, bool), fill func(set isa.Set, out []T, start, delta W, first int)) counts {
	one := func(b []byte) W { return W(place.Elements[T](b)[0]) }
	return counts{
		fill: func(set isa.Set, y, start, delta []byte, lo, hi int) {
			fill(set, place.Elements[T](y)[lo:hi], one(start), one(delta), lo)
		},
		length: func(start, limit, delta []byte) (uint64, bool) { return length(one(start), one(limit), one(delta)) },
	}
}

// countIntegers writes numbers from number first of a progression on: some of them one by one, and the others as sums of those before and a multiple of the
// distance, which wrap around as they do.
func countIntegers[T int32 | int64](set isa.Set, out []T, start, delta int64, first int) {
	const oneByOne, most = 64, 2048
	x := T(start + int64(first)*delta)
	for i := range out[:min(oneByOne, len(out))] {
		out[i] = x
		x += T(delta)
	}
	for done := oneByOne; done < len(out); {
		n := min(done, most, len(out)-done)
		element.Binary(set, element.Add, out[done:done+n], out[done-min(done, most):], []T{T(delta) * T(min(done, most))})
		done += n
	}
}

// countFloats writes numbers from number first of a progression on, each rounded once. Four count for themselves: each waits for its last.
func countFloats[T float32 | float64](_ isa.Set, out []T, start, delta float64, first int) {
	a, b, c, d := float64(first), float64(first+1), float64(first+2), float64(first+3)
	for ; len(out) >= 4; out = out[4:] {
		out[0], out[1], out[2], out[3] = T(start+a*delta), T(start+b*delta), T(start+c*delta), T(start+d*delta)
		a, b, c, d = a+4, b+4, c+4, d+4
	}
	for i := range out {
		out[i] = T(start + (a+float64(i))*delta)
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
	tensor.Int32: countsOf(integersBefore, countIntegers[int32]), tensor.Int64: countsOf(integersBefore, countIntegers[int64]),
	tensor.Float32: countsOf(floatsBefore, countFloats[float32]), tensor.Float64: countsOf(floatsBefore, countFloats[float64]),
}

func rangeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if _, ok := progressions[n.Outputs[0].Type.DType]; !ok {
		return nil, property.Because(property.DTypeReason, "%v is %v", n.Outputs[0], n.Outputs[0].Type.DType)
	}
	return operators.RowMajor(n), nil
}

func planRange(p *planner, n *graph.Node) error {
	start, delta, y := p.In(n.Inputs[0]), p.In(n.Inputs[2]), p.Out(n.Outputs[0])
	fill, set := progressions[n.Outputs[0].Type.DType].fill, p.target.Set
	p.emit(step{chunks: product(p.Dims[n.Outputs[0].ID]), grain: grainFor(0.5), body: func(st *state, _, lo, hi int) {
		fill(set, st.Bytes(y), st.Bytes(start), st.Bytes(delta), lo, hi)
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
		k.fill(c.in.e.target.Set, y, start, delta, 0, int(n))
	}
	return err
}

func init() { table.Register("Range", operator{Signatures: rangeSignatures, Plan: planRange}) }
