package mxnet

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// linearOperators solve equations, and take matrices apart.
func linearOperators() map[string]operator {
	table := map[string]operator{}
	named(table, own(unary(func(o *op, x *graph.Value) *graph.Value { return o.inverse(x) })), "_linalg_inverse", "linalg_inverse", "_npi_inv")
	named(table, own(single(func(o *op) *graph.Value {
		o.inputs(2, 2)
		a, b := o.input(0), o.input(1)
		if o.rank(b) == 1 {
			return o.squeeze(o.solved(a, o.unsqueeze(b, 1)), o.rank(a)-1)
		}
		return o.solved(a, b)
	})), "_npi_solve")
	named(table, own(single(trsm)), "_linalg_trsm", "linalg_trsm")
	named(table, own(single(func(o *op) *graph.Value { // of the triangle L, the inverse of L·Lᵀ
		o.inputs(1, 1)
		l := o.side(o.input(0), o.flag("lower", true))
		if !o.flag("lower", true) {
			l = o.turned(l)
		}
		inv := o.inverse(l)
		return o.call("MatMul", nil, o.turned(inv), inv)
	})), "_linalg_potri", "linalg_potri")
	named(table, single(trmm), "_linalg_trmm", "linalg_trmm")
	named(table, operator{do: func(o *op) []*graph.Value {
		o.inputs(1, 1)
		x := o.floating(o.input(0))
		det := o.shapeScalar(o.call("Det", nil, x), o.rank(x) == 2)
		return []*graph.Value{o.call("Sign", nil, det), o.call("Log", nil, o.call("Abs", nil, det))}
	}}, "_linalg_slogdet", "linalg_slogdet", "_npi_slogdet")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		x := o.input(0)
		return o.diagonalOf(x, o.rank(x)-2, o.rank(x)-1, o.integer("offset", 0))
	}), "_linalg_extractdiag", "linalg_extractdiag")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		return o.onDiagonal(o.input(0), o.integer("offset", 0))
	}), "_linalg_makediag", "linalg_makediag")
	named(table, single(extractTriangle), "_linalg_extracttrian", "linalg_extracttrian")
	named(table, single(makeTriangle), "_linalg_maketrian", "linalg_maketrian")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		x, a, b := o.input(0), o.integer("axis1", 0), o.integer("axis2", 1)
		return o.diagonalOf(x, o.axisOf(a, o.rank(x)), o.axisOf(b, o.rank(x)), o.integer("offset", 0))
	}), "_np_diagonal")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		x, a, b := o.input(0), o.integer("axis1", 0), o.integer("axis2", 1)
		d := o.diagonalOf(x, o.axisOf(a, o.rank(x)), o.axisOf(b, o.rank(x)), o.integer("offset", 0))
		return o.reduce("ReduceSum", d, false, o.rank(d)-1)
	}), "_np_trace")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		return o.onDiagonal(o.reshape(o.input(0), rest), o.integer("k", 0))
	}), "_np_diagflat")
	return table
}

// solved returns y with a·y = b, for each matrix of the last two axes.
func (o *op) solved(a, b *graph.Value) *graph.Value {
	o.require(o.rank(a) >= 2 && o.rank(b) == o.rank(a), "ranks %d and %d", o.rank(a), o.rank(b))
	return o.calls(Domain, "Solve", 1, nil, o.floating(a), o.floating(b))[0]
}

func (o *op) inverse(a *graph.Value) *graph.Value {
	a = o.floating(a)
	rank := o.rank(a)
	o.require(rank >= 2, "rank %d", rank)
	n := o.static(a, rank-1)
	o.require(n > 0 && n <= 1<<12, "a matrix of %d rows", n)
	unit := o.values(o.typeOf(a), eyeOf(n, n, 0), n, n)
	return o.solved(a, o.call("Expand", nil, unit, o.call("Shape", nil, a)))
}

// side keeps one triangle of matrices.
func (o *op) side(a *graph.Value, lower bool) *graph.Value {
	return o.call("Trilu", attrs(flagAttr("upper", !lower)), a)
}

// triangular reads the operands of products and equations with a triangle, which may be transposed.
func (o *op) triangular() (a, b *graph.Value, right bool, alpha float64) {
	o.inputs(2, 2)
	a = o.side(o.input(0), o.flag("lower", true))
	if o.flag("transpose", false) {
		a = o.turned(a)
	}
	return a, o.input(1), o.flag("rightside", false), o.number("alpha", 1)
}

// trsm solves a·y = alpha·b, or y·a = alpha·b.
func trsm(o *op) *graph.Value {
	a, b, right, alpha := o.triangular()
	if alpha != 1 {
		b = o.times(b, alpha)
	}
	if right {
		return o.turned(o.solved(o.turned(a), o.turned(b)))
	}
	return o.solved(a, b)
}

// trmm is alpha·a·b, or alpha·b·a.
func trmm(o *op) *graph.Value {
	a, b, right, alpha := o.triangular()
	if right {
		a, b = b, a
	}
	y := o.call("MatMul", nil, a, b)
	if alpha != 1 {
		y = o.times(y, alpha)
	}
	return y
}

// onDiagonal makes matrices with the elements along the last axis on a diagonal.
func (o *op) onDiagonal(x *graph.Value, k int) *graph.Value {
	rank := o.rank(x)
	o.require(rank >= 1, "rank %d", rank)
	n := o.static(x, rank-1)
	o.require(n > 0 && n <= 1<<12 && k > -1<<12 && k < 1<<12, "a matrix of %d rows", n)
	on := o.cast(o.values(tensor.Float32, eyeOf(n, n, 0), n, n), tensor.Bool)
	y := o.call("Where", nil, on, o.unsqueeze(x, rank-1), o.like(x, 0))
	if k == 0 {
		return y
	}
	pads := make([]int64, 2*(rank+1))
	pads[rank-1], pads[rank] = int64(max(-k, 0)), int64(max(k, 0))
	pads[2*rank], pads[2*rank+1] = int64(max(k, 0)), int64(max(-k, 0))
	return o.call("Pad", nil, y, o.ints(pads...), o.like(x, 0))
}

// inTriangle lists the places of the triangle of n by n elements that is bounded by a diagonal: at and below it row by row, or at and
// above it column by column. A diagonal off the main one says by itself which.
func (o *op) inTriangle(n int) (places []int64) {
	offset, lower := o.integer("offset", 0), o.flag("lower", true)
	if offset != 0 {
		lower = offset < 0
	}
	for a := range n {
		for b := range n {
			switch {
			case lower && b <= a+offset:
				places = append(places, int64(a*n+b))
			case !lower && a >= b+offset:
				places = append(places, int64(b*n+a))
			}
		}
	}
	o.require(len(places) > 0, "the triangle from diagonal %d is empty", offset)
	return places
}

// extractTriangle takes the elements of a triangle as a vector.
func extractTriangle(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	rank := o.rank(x)
	o.require(rank >= 2, "rank %d", rank)
	n := o.static(x, rank-1)
	o.require(n > 0 && n <= 1<<12 && o.static(x, rank-2) == n, "a matrix of %d rows", n)
	return o.call("Gather", attrs(graph.IntAttr("axis", int64(rank-2))), o.reshape(x, append(o.dims(x)[:rank-2], fixed(n*n))...), o.ints(o.inTriangle(n)...))
}

// makeTriangle puts the elements of a vector into a triangle; the others are 0.
func makeTriangle(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	rank := o.rank(x)
	o.require(rank >= 1, "rank %d", rank)
	count := o.static(x, rank-1)
	off := o.integer("offset", 0)
	n := int((math.Sqrt(float64(8*count+1))-1)/2) + max(off, -off)
	o.require(count > 0 && n <= 1<<12, "%d elements", count)
	places := o.inTriangle(n)
	o.require(len(places) == count, "%d elements make no triangle", count)
	from := make([]int64, n*n)
	for i := range from {
		from[i] = int64(count) // the 0 behind the elements
	}
	for i, p := range places {
		from[p] = int64(i)
	}
	pads := make([]int64, 2*rank)
	pads[2*rank-1] = 1
	padded := o.call("Pad", nil, x, o.ints(pads...), o.like(x, 0))
	y := o.call("Gather", attrs(graph.IntAttr("axis", int64(rank-1))), padded, o.ints(from...))
	return o.reshape(y, append(o.dims(x)[:rank-1], fixed(n), fixed(n))...)
}

func inferSolve(c *graph.Inference) error {
	c.SetType(0, c.Type(1))
	return nil
}

// evalSolve solves a·y = b by elimination with the largest pivots of the columns, for each matrix of the last two axes.
func evalSolve(c *call) error {
	a, err := c.floats(0)
	if err != nil {
		return err
	}
	b, err := c.floats(1)
	if err != nil {
		return err
	}
	sa, sb := c.in[0].Shape, c.in[1].Shape
	rank := len(sa)
	if rank < 2 || len(sb) != rank || sa[rank-1] != sa[rank-2] || sb[rank-2] != sa[rank-1] {
		return fmt.Errorf("%w: matrices %v and right sides %v", tensor.ErrShape, sa, sb)
	}
	n, k := sa[rank-1], sb[rank-1]
	if n == 0 || k == 0 || len(a)/(n*n) != len(b)/(n*k) {
		if len(b) > 0 {
			return fmt.Errorf("%w: matrices %v and right sides %v", tensor.ErrShape, sa, sb)
		}
		return c.put(c.in[1].DType, b, sb...)
	}
	for i := range len(b) / (n * k) {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := eliminate(a[i*n*n:][:n*n], b[i*n*k:][:n*k], n, k); err != nil {
			return err
		}
	}
	return c.put(c.in[1].DType, b, sb...)
}

// eliminate solves one system in place: b becomes the solution.
func eliminate(a, b []float64, n, k int) error {
	for col := range n {
		best := col
		for r := col + 1; r < n; r++ {
			if math.Abs(a[r*n+col]) > math.Abs(a[best*n+col]) {
				best = r
			}
		}
		if !(math.Abs(a[best*n+col]) > 0) {
			return errSingular
		}
		swapRows(a, col, best, n)
		swapRows(b, col, best, k)
		for r := range n {
			f := a[r*n+col] / a[col*n+col]
			if r == col || f == 0 {
				continue
			}
			for j := col; j < n; j++ {
				a[r*n+j] -= f * a[col*n+j]
			}
			for j := range k {
				b[r*k+j] -= f * b[col*k+j]
			}
		}
	}
	for r := range n {
		for j := range k {
			b[r*k+j] /= a[r*n+r]
		}
	}
	return nil
}

func swapRows(m []float64, i, j, n int) {
	if i == j {
		return
	}
	for k := range n {
		m[i*n+k], m[j*n+k] = m[j*n+k], m[i*n+k]
	}
}
