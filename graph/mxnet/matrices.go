package mxnet

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// matrixOperators make triangles and places in matrices, and products and equations of tensors as if they were matrices.
func matrixOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(triangleOfOnes), "_npi_tri")
	named(table, operator{do: triangleIndices}, "_npi_tril_indices")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		x := o.input(0)
		rows := o.unsqueeze(o.positions(o.dim(x, 0)), 0)
		return o.call("Tile", nil, rows, o.ints(int64(o.rank(x)), 1))
	}), "_npi_diag_indices_from")
	named(table, single(rollAxis), "_npi_rollaxis")
	named(table, single(kronecker), "_npi_kron")
	named(table, single(cross), "_npi_cross")
	named(table, own(single(tensorInverse)), "_npi_tensorinv")
	named(table, own(single(tensorSolve)), "_npi_tensorsolve")
	named(table, single(fourier), "_contrib_fft", "_contrib_ifft")
	named(table, single(countSketch), "_contrib_count_sketch")
	return table
}

func triangleOfOnes(o *op) *graph.Value {
	o.inputs(0, 0)
	o.ignore("ctx")
	rows, k := o.required("N"), o.integer("k", 0)
	columns := o.integer("M", rows)
	o.require(rows >= 0 && columns >= 0 && int64(rows)*int64(columns) <= maxRange, "%d by %d elements", rows, columns)
	v := make([]float64, 0, rows*columns)
	for i := range rows {
		for j := range columns {
			one := 0.0
			if j <= i+k {
				one = 1
			}
			v = append(v, one)
		}
	}
	return o.values(o.dtype("dtype", tensor.Float32), v, rows, columns)
}

// triangleIndices are the rows and the columns of a lower triangle's elements.
func triangleIndices(o *op) []*graph.Value {
	o.inputs(0, 0)
	n, k := o.required("n"), o.integer("k", 0)
	m := o.integer("m", n)
	o.require(n >= 0 && m >= 0 && int64(n)*int64(m) <= maxRange, "%d by %d elements", n, m)
	var rows, columns []int64
	for i := range n {
		for j := range max(0, min(m, i+k+1)) {
			rows, columns = append(rows, int64(i)), append(columns, int64(j))
		}
	}
	return []*graph.Value{o.ints(rows...), o.ints(columns...)}
}

// rollAxis moves an axis to where another begins.
func rollAxis(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	rank := o.rank(x)
	axis, start := o.axisOf(o.required("axis"), rank), o.integer("start", 0)
	if start < 0 {
		start += rank
	}
	o.require(start >= 0 && start <= rank, "start is %d", start)
	if axis < start {
		start--
	}
	return o.moved(x, axis, start)
}

// kronecker multiplies each element of the first operand by all of the second.
func kronecker(o *op) *graph.Value {
	o.inputs(2, 2)
	a, b := o.unified(o.input(0), o.input(1))
	rank := max(o.rank(a), o.rank(b))
	var first, second, out []extent
	level := func(x *graph.Value, i int) extent {
		if i -= rank - o.rank(x); i < 0 {
			return fixed(1)
		}
		e := o.dim(x, i)
		e.of = nil
		return e
	}
	for i := range rank {
		p, q := level(a, i), level(b, i)
		first, second, out = append(first, p, fixed(1)), append(second, fixed(1), q), append(out, o.mul(p, q))
	}
	if rank == 0 {
		return o.call("Mul", nil, a, b)
	}
	return o.reshape(o.call("Mul", nil, o.reshape(a, first...), o.reshape(b, second...)), out...)
}

// cross is the product of vectors of two or three numbers that is normal to both; of two vectors of two numbers, its third number.
func cross(o *op) *graph.Value {
	o.inputs(2, 2)
	a, b := o.unified(o.input(0), o.input(1))
	o.require(o.rank(a) >= 1 && o.rank(b) >= 1, "ranks %d and %d", o.rank(a), o.rank(b))
	a = o.moved(a, o.axisOf(o.integer("axisa", -1), o.rank(a)), o.rank(a)-1)
	b = o.moved(b, o.axisOf(o.integer("axisb", -1), o.rank(b)), o.rank(b)-1)
	to := o.integer("axisc", -1)
	na, nb := o.static(a, o.rank(a)-1), o.static(b, o.rank(b)-1)
	o.require((na == 2 || na == 3) && (nb == 2 || nb == 3), "vectors of %d and %d numbers", na, nb)
	number := func(x *graph.Value, n, i int) *graph.Value {
		if i >= n {
			return o.like(x, 0)
		}
		return o.squeeze(o.slice(x, o.rank(x)-1, i, i+1), o.rank(x)-1)
	}
	part := func(i, j int) *graph.Value {
		return o.minus(o.call("Mul", nil, number(a, na, i), number(b, nb, j)), o.call("Mul", nil, number(a, na, j), number(b, nb, i)))
	}
	if na == 2 && nb == 2 {
		return part(0, 1)
	}
	size := o.call("Shape", nil, part(0, 1))
	var parts []*graph.Value
	for _, p := range [][2]int{{1, 2}, {2, 0}, {0, 1}} {
		y := o.call("Expand", nil, part(p[0], p[1]), size)
		parts = append(parts, o.unsqueeze(y, o.rank(y)))
	}
	rank := o.rank(parts[0])
	return o.moved(o.concat(rank-1, parts...), rank-1, o.axisOf(to, rank))
}

// product multiplies dims, which are numbers.
func (o *op) product(x *graph.Value, from, to int) int {
	n := 1
	for i := from; i < to; i++ {
		d := o.static(x, i)
		o.require(d >= 0 && (d == 0 || n <= maxRange/d), "too many elements")
		n *= d
	}
	return n
}

// tensorInverse is the inverse of a tensor as a matrix whose rows are its first axes.
func tensorInverse(o *op) *graph.Value {
	o.inputs(1, 1)
	x, ind := o.input(0), o.integer("ind", 2)
	o.require(ind > 0 && ind <= o.rank(x), "ind is %d", ind)
	n := o.product(x, 0, ind)
	o.require(n == o.product(x, ind, o.rank(x)), "%v is no square matrix from axis %d on", x.Type, ind)
	d := o.dims(x)
	return o.reshape(o.inverse(o.reshape(x, fixed(n), fixed(n))), append(append([]extent{}, d[ind:]...), d[:ind]...)...)
}

// tensorSolve solves a·y = b, where the axes of a behind those of b, and those that a_axes names, are y's.
func tensorSolve(o *op) *graph.Value {
	o.inputs(2, 2)
	a, b := o.input(0), o.input(1)
	axes, _ := o.list("a_axes")
	for i := range axes {
		axes[i] = o.axisOf(axes[i], o.rank(a))
	}
	var perm []int
	for i := range o.rank(a) {
		if !slices.Contains(axes, i) {
			perm = append(perm, i)
		}
	}
	a = o.transpose(a, append(perm, axes...)...)
	o.require(o.rank(a) > o.rank(b) || o.rank(a) == o.rank(b) && o.rank(b) == 0, "ranks %d and %d", o.rank(a), o.rank(b))
	n := o.product(b, 0, o.rank(b))
	y := o.solved(o.reshape(a, fixed(n), fixed(n)), o.reshape(b, fixed(n), fixed(1)))
	return o.reshape(y, o.dims(a)[o.rank(b):]...)
}

// fourier is Fourier's transform along the last axis, or its inverse, without a factor. Complex numbers are pairs beside each other.
func fourier(o *op) *graph.Value {
	o.inputs(1, 1)
	o.ignore("compute_size")
	x := o.floating(o.input(0))
	rank := o.rank(x)
	o.require(rank >= 1, "rank %d", rank)
	d := o.dims(x)
	last := o.scalar(tensor.Int64, float64(rank-1))
	if o.kind == "_contrib_fft" {
		y := o.call("DFT", nil, o.unsqueeze(x, rank), nil, last)
		return o.reshape(y, append(d[:rank-1], o.mul(d[rank-1], fixed(2)))...)
	}
	n := o.div(d[rank-1], fixed(2))
	y := o.call("DFT", attrs(graph.IntAttr("inverse", 1)), o.reshape(x, append(d[:rank-1:rank-1], n, fixed(2))...), nil, last)
	y = o.squeeze(o.slice(y, rank, 0, 1), rank)
	return o.call("Mul", nil, y, o.cast(o.one(n), o.typeOf(y)))
}

// countSketch adds every element, with a sign, to the place that a table says (Charikar et al., 10.1007/3-540-45465-9_59).
func countSketch(o *op) *graph.Value {
	o.inputs(3, 3)
	o.ignore("processing_batch_size")
	x, places, signs := o.input(0), o.reshape(o.index(o.input(1)), rest), o.reshape(o.input(2), rest)
	n := o.required("out_dim")
	o.require(n > 0 && n <= math.MaxInt32, "out_dim is %d", n)
	hot := o.call("OneHot", nil, places, o.ints(int64(n)), o.values(o.typeOf(x), []float64{0, 1}, 2))
	return o.call("MatMul", nil, o.call("Mul", nil, x, signs), hot)
}
