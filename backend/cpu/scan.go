package cpu

import (
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// CumSum, CumProd and Trilu. The axis, or the diagonal, is a constant or read when a node runs.

// constInt returns the integer that a constant of one element holds, 0 for no value.
func constInt(v *graph.Value) (int64, bool) {
	if v == nil {
		return 0, true
	}
	if !v.IsConst() || v.Const.Len() != 1 || v.Const.DType != tensor.Int64 && v.Const.DType != tensor.Int32 {
		return 0, false
	}
	return v.Const.Int64At(0), true
}

// singleInteger returns why an operand, which may be missing, is no single integer.
func singleInteger(v *graph.Value) *property.Reason {
	if v != nil && v.Type.DType != tensor.Int64 && v.Type.DType != tensor.Int32 {
		return property.Because(property.DTypeReason, "%v is %v", v, v.Type)
	}
	return operators.NotSingle(v)
}

// integerAt returns the place of a single integer, and what reads it there; of a missing one it is 0.
func (p *planner) integerAt(v *graph.Value) (at place.Memory, read func(st *state) int64) {
	if at = p.In(v); v != nil && v.Type.DType == tensor.Int32 {
		return at, func(st *state) int64 { return int64(of[int32](st, at)[0]) }
	}
	return at, func(st *state) int64 {
		if x := of[int64](st, at); len(x) > 0 {
			return x[0]
		}
		return 0
	}
}

func cumulativeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	switch x.Type.DType {
	case tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64, tensor.Uint32, tensor.Uint64:
	default:
		return nil, operators.NotFloat32(x)
	}
	if len(x.Type.Shape) == 0 {
		return nil, property.Because(property.ShapeReason, "a scalar has no axis")
	}
	if why := singleInteger(n.Input(1)); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

func planCumulative(p *planner, n *graph.Node) error {
	k, set := p.doubles(), p.target.Set
	by, whole := double.Add, element.Add
	if n.Is("CumProd") {
		by, whole = double.Mul, element.Mul
	}
	switch n.Inputs[0].Type.DType {
	case tensor.Float32:
		r := runningOf[float32, float64](n, nil)
		r.rows = func(o, s []float32, first, by, count, beside int) { totalRows(set, &r, o, s, first, by, count, beside) }
		return cumulative(p, n, r)
	case tensor.Float64:
		return cumulative(p, n, runningOf[float64, float64](n, func(dst, a, b []float64) { k.Binary(by, double.VV, dst, a, b) }))
	case tensor.Int32, tensor.Uint32: // sums and products wrap around, and have the same bits
		return cumulative(p, n, runningOf[int32, int32](n, func(dst, a, b []int32) { element.Binary(set, whole, dst, a, b) }))
	}
	return cumulative(p, n, runningOf[int64, int64](n, func(dst, a, b []int64) { element.Binary(set, whole, dst, a, b) }))
}

// runningOf returns how a node adds up or multiplies lines. join makes a row of the results before it, of type T too, and of a row.
func runningOf[T, A float32 | float64 | int32 | int64](n *graph.Node, join func(dst, a, b []T)) running[T, A] {
	r := running[T, A]{exclusive: n.Int("exclusive", 0) != 0, multiplies: n.Is("CumProd")}
	if join != nil {
		r.rows = func(o, s []T, first, by, count, beside int) {
			row := func(x []T, i int) []T { return x[first+i*by:][:beside] }
			var start T
			if r.multiplies {
				start = 1
			}
			for i := range row(o, 0) {
				to := start
				switch {
				case r.exclusive:
				case r.multiplies:
					to = row(s, 0)[i]
				default:
					to = start + row(s, 0)[i] // -0 becomes 0
				}
				row(o, 0)[i] = to
			}
			for i := 1; i < count; i++ {
				if r.exclusive {
					join(row(o, i), row(o, i-1), row(s, i-1))
				} else {
					join(row(o, i), row(o, i-1), row(s, i))
				}
			}
		}
	}
	return r
}

// totalRows adds up or multiplies lines of float32 beside each other in float64.
func totalRows(set isa.Set, r *running[float32, float64], o, s []float32, first, by, count, beside int) {
	var memory [besideLines]float64
	totals := memory[:beside]
	if r.multiplies {
		for i := range totals {
			totals[i] = 1
		}
	}
	cast.Totals(set, r.multiplies, r.exclusive, o, s, first, by, count, totals)
}

// cumulative adds up, or multiplies, elements T in A.
func cumulative[T, A float32 | float64 | int32 | int64](p *planner, n *graph.Node, run running[T, A]) error {
	d := p.Dims[n.Inputs[0].ID]
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	total := product(d)
	if total == 0 {
		return nil
	}
	reverse := n.Int("reverse", 0) != 0
	at, read := p.integerAt(n.Input(1))
	chunks := min(ceilDiv(total, elementsPerChunk), total/slices.Max(d)) // of lines along whichever axis
	p.emit(step{chunks: chunks, grain: grainFor(float64(total/chunks) * 1.5), body: func(st *state, _, lo, hi int) {
		axis := int(read(st))
		if axis < -len(d) || axis >= len(d) {
			panic(backend.BadIndex(n, 1, int64(axis), len(d)))
		}
		if axis < 0 {
			axis += len(d)
		}
		count, inner := d[axis], product(d[axis+1:])
		o, s, lines := of[T](st, dst), of[T](st, src), total/count
		for i, end := lines*lo/chunks, lines*hi/chunks; i < end; {
			first, by := i/inner*count*inner+i%inner, inner
			beside := min(inner-i%inner, end-i, besideLines)
			if reverse {
				first, by = first+(count-1)*inner, -inner
			}
			if beside > fewLines {
				run.rows(o, s, first, by, count, beside)
			} else {
				run.along(o, s, first, by, count, beside)
			}
			i += beside
		}
	}}, []place.Memory{src, at}, []place.Memory{dst})
	return nil
}

// besideLines is how many lines are added up at a time that lie beside each other, and fewLines how many of them are too few for kernels of rows.
const (
	besideLines = 512
	fewLines    = 8
)

// running is how lines are added up, or multiplied. rows is along for more than fewLines lines.
type running[T, A float32 | float64 | int32 | int64] struct {
	exclusive, multiplies bool
	rows                  func(o, s []T, first, by, count, beside int)
}

// along writes the sums or products of so many lines, fewLines at most, beside each other, of count elements that are by apart, the first of them at first. Two lines are gone
// along at a time: each sum waits for the one before.
func (r *running[T, A]) along(o, s []T, first, by, count, beside int) {
	two, one := addTwo[T, A], addOne[T, A]
	switch {
	case r.exclusive && r.multiplies:
		two, one = multipliedTwoBefore[T, A], multipliedOneBefore[T, A]
	case r.exclusive:
		two, one = addedTwoBefore[T, A], addedOneBefore[T, A]
	case r.multiplies:
		two, one = multiplyTwo[T, A], multiplyOne[T, A]
	}
	for ; beside > 1; first, beside = first+2, beside-2 {
		two(o, s, first, by, count)
	}
	if beside == 1 {
		one(o, s, first, by, count)
	}
}

// Sums and products along one line and along two beside each other, of all elements up to each one or, in those named before, of those in front of it.

func addOne[T, A float32 | float64 | int32 | int64](o, s []T, at, by, count int) {
	var sum A
	for range count {
		sum += A(s[at])
		o[at] = T(sum)
		at += by
	}
}

func addTwo[T, A float32 | float64 | int32 | int64](o, s []T, at, by, count int) {
	var a, b A
	for range count {
		x, y := s[at:at+2:at+2], o[at:at+2:at+2]
		a += A(x[0])
		b += A(x[1])
		y[0], y[1] = T(a), T(b)
		at += by
	}
}

func addedOneBefore[T, A float32 | float64 | int32 | int64](o, s []T, at, by, count int) {
	var sum A
	for range count {
		x := s[at]
		o[at] = T(sum)
		sum += A(x)
		at += by
	}
}

func addedTwoBefore[T, A float32 | float64 | int32 | int64](o, s []T, at, by, count int) {
	var a, b A
	for range count {
		x, y := s[at:at+2:at+2], o[at:at+2:at+2]
		y[0], y[1] = T(a), T(b)
		a += A(x[0])
		b += A(x[1])
		at += by
	}
}

func multiplyOne[T, A float32 | float64 | int32 | int64](o, s []T, at, by, count int) {
	product := A(1)
	for range count {
		product *= A(s[at])
		o[at] = T(product)
		at += by
	}
}

func multiplyTwo[T, A float32 | float64 | int32 | int64](o, s []T, at, by, count int) {
	a, b := A(1), A(1)
	for range count {
		x, y := s[at:at+2:at+2], o[at:at+2:at+2]
		a *= A(x[0])
		b *= A(x[1])
		y[0], y[1] = T(a), T(b)
		at += by
	}
}

func multipliedOneBefore[T, A float32 | float64 | int32 | int64](o, s []T, at, by, count int) {
	product := A(1)
	for range count {
		x := s[at]
		o[at] = T(product)
		product *= A(x)
		at += by
	}
}

func multipliedTwoBefore[T, A float32 | float64 | int32 | int64](o, s []T, at, by, count int) {
	a, b := A(1), A(1)
	for range count {
		x, y := s[at:at+2:at+2], o[at:at+2:at+2]
		y[0], y[1] = T(a), T(b)
		a *= A(x[0])
		b *= A(x[1])
		at += by
	}
}

func triluSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := singleInteger(n.Input(1)); why != nil {
		return nil, why
	}
	if len(n.Inputs[0].Type.Shape) < 2 {
		return nil, property.Because(property.ShapeReason, "%v is %v", n.Inputs[0], n.Inputs[0].Type)
	}
	return operators.RowMajor(n), nil
}

// planTrilu copies the part of each row on one side of a diagonal and zeroes the rest.
func planTrilu(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	d, size := p.Dims[x.ID], x.Type.DType.Size()
	rows, cols := d[len(d)-2], d[len(d)-1]
	upper := n.Int("upper", 1) != 0
	src, dst := p.In(x), p.Out(n.Outputs[0])
	at, read := p.integerAt(n.Input(1))
	wide := cols * size
	together := wide <= 512 // short rows are copied as a whole
	p.emit(step{chunks: product(d[:len(d)-1]), grain: grainFor(float64(wide)*0.05 + 10), body: func(st *state, _, lo, hi int) {
		o, s, k := st.Bytes(dst), st.Bytes(src), int(min(max(read(st), int64(-rows)), int64(cols)))
		if together {
			copy(o[lo*wide:hi*wide], s[lo*wide:])
		}
		for i, r := lo, lo%rows; i < hi; i, r = i+1, r+1 {
			if r == rows {
				r = 0
			}
			from, to := 0, min(max(r+k+1, 0), cols) // below the diagonal
			if upper {
				from, to = min(max(r+k, 0), cols), cols
			}
			row := o[i*wide : (i+1)*wide]
			clear(row[:from*size])
			if !together {
				copy(row[from*size:to*size], s[i*wide+from*size:])
			}
			clear(row[to*size:])
		}
	}}, []place.Memory{src, at}, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("CumSum", operator{Signatures: cumulativeSignatures, Plan: planCumulative})
	table.Register("CumProd", operator{Signatures: cumulativeSignatures, Plan: planCumulative})
	table.Register("Trilu", operator{Signatures: triluSignatures, Plan: planTrilu})
}
