package mxnet

import (
	"math"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// algebraOperators are products of matrices and what belongs to them.
func algebraOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(dot), "dot", "_np_dot", "_npi_dot")
	named(table, single(batchDot), "batch_dot", "_npx_batch_dot")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(2, 2)
		return o.call("MatMul", nil, o.input(0), o.input(1))
	}), "_npi_matmul", "_np_matmul")
	named(table, single(tensordot), "_npi_tensordot_int_axes")
	named(table, single(gemm), "_linalg_gemm", "_linalg_gemm2", "linalg_gemm", "linalg_gemm2")
	named(table, single(syrk), "_linalg_syrk", "linalg_syrk")
	named(table, own(single(potrf)), "_linalg_potrf", "linalg_potrf", "_npi_cholesky")
	named(table, single(func(o *op) *graph.Value {
		o.inputs(1, 1)
		return o.shapeScalar(o.call("Det", nil, o.input(0)), o.rank(o.input(0)) == 2)
	}), "_linalg_det", "linalg_det", "_npi_det")
	named(table, single(sumLogDiag), "_linalg_sumlogdiag", "linalg_sumlogdiag")
	named(table, single(khatriRao), "khatri_rao")
	named(table, single(diagonal), "diag", "_np_diag")
	named(table, single(divSqrtDim), "_contrib_div_sqrt_dim")
	named(table, single(func(o *op) *graph.Value { return o.attentionScores(3, 0, 1) }), "_contrib_interleaved_matmul_selfatt_qk", "_sg_mkldnn_selfatt_qk")
	named(table, single(fusedScores), "_sg_onednn_selfatt_qk")
	named(table, single(fusedValues), "_sg_onednn_selfatt_valatt")
	named(table, single(func(o *op) *graph.Value { return o.attentionValues(3, 2) }), "_contrib_interleaved_matmul_selfatt_valatt", "_sg_mkldnn_selfatt_valatt")
	named(table, single(encoderScores), "_contrib_interleaved_matmul_encdec_qk")
	named(table, single(func(o *op) *graph.Value { return o.attentionValues(2, 1) }), "_contrib_interleaved_matmul_encdec_valatt")
	return table
}

// turned swaps the last two axes.
func (o *op) turned(x *graph.Value) *graph.Value {
	rank := o.rank(x)
	o.require(rank >= 2, "rank %d", rank)
	return o.swapped(x, rank-2, rank-1)
}

// swapped exchanges two axes.
func (o *op) swapped(x *graph.Value, a, b int) *graph.Value {
	perm := axesFrom(0, o.rank(x))
	perm[a], perm[b] = b, a
	return o.transpose(x, perm...)
}

// axesFrom returns the numbers from the first to the last but one.
func axesFrom(first, end int) []int {
	var axes []int
	for i := first; i < end; i++ {
		axes = append(axes, i)
	}
	return axes
}

// dot sums over the last axis of the first operand and the first of the second; a transposed operand's axes are reversed. NumPy's
// sums over the last but one of the second.
func dot(o *op) *graph.Value {
	o.inputs(2, 2)
	o.ignore("forward_stype")
	a, b := o.input(0), o.input(1)
	ta, tb := o.flag("transpose_a", false), o.flag("transpose_b", false)
	if ta {
		a = o.call("Transpose", nil, a)
	}
	if tb {
		b = o.call("Transpose", nil, b)
	}
	ra, rb := o.rank(a), o.rank(b)
	o.require(ra >= 1 && rb >= 1 || o.numpyName(), "ranks %d and %d", ra, rb)
	if ra == 0 || rb == 0 {
		return o.call("Mul", nil, a, b)
	}
	if rb <= 2 {
		return o.legacyScalar(o.call("MatMul", nil, a, b), ra == 1 && rb == 1)
	}
	if o.numpyName() {
		b = o.moved(b, rb-2, 0)
	}
	return o.contracted(a, b, 1)
}

// contracted sums over the last n axes of a and the first n of b.
func (o *op) contracted(a, b *graph.Value, n int) *graph.Value {
	da, db := o.dims(a), o.dims(b)
	o.require(n >= 0 && n <= len(da) && n <= len(db), "%d axes of ranks %d and %d", n, len(da), len(db))
	inner := fixed(1)
	for _, d := range db[:n] {
		inner = o.mul(inner, d)
	}
	out := append(append([]extent{}, da[:len(da)-n]...), db[n:]...)
	for i := range out {
		out[i].of = nil // places differ from those in the product
	}
	y := o.call("MatMul", nil, o.reshape(a, rest, inner), o.reshape(b, inner, rest))
	return o.reshape(y, out...)
}

func tensordot(o *op) *graph.Value {
	o.inputs(2, 2)
	n := o.integer("axes", 2)
	return o.contracted(o.input(0), o.input(1), n)
}

func batchDot(o *op) *graph.Value {
	o.inputs(2, 2)
	o.ignore("forward_stype")
	a, b := o.input(0), o.input(1)
	if o.flag("transpose_a", false) {
		a = o.turned(a)
	}
	if o.flag("transpose_b", false) {
		b = o.turned(b)
	}
	return o.call("MatMul", nil, a, b)
}

// gemm is alpha·a·b, and for gemm beta·c besides.
func gemm(o *op) *graph.Value {
	withC := o.kind == "_linalg_gemm" || o.kind == "linalg_gemm"
	rank := o.rank(o.input(0))
	o.require(rank >= 2, "rank %d", rank)
	axis := o.axisOf(o.integer("axis", -2), rank)
	rows := func(x *graph.Value) *graph.Value { return o.moved(x, axis, rank-2) } // to where the rows of matrices stand
	a, b := rows(o.input(0)), rows(o.input(1))
	if o.flag("transpose_a", false) {
		a = o.turned(a)
	}
	if o.flag("transpose_b", false) {
		b = o.turned(b)
	}
	y := o.call("MatMul", nil, a, b)
	if alpha := o.number("alpha", 1); alpha != 1 {
		y = o.times(y, alpha)
	}
	if !withC {
		o.inputs(2, 2)
		return o.moved(y, rank-2, axis)
	}
	o.inputs(3, 3)
	return o.moved(o.call("Add", nil, y, o.times(rows(o.input(2)), o.number("beta", 1))), rank-2, axis)
}

// moved takes an axis from one place to another; the others keep their order.
func (o *op) moved(x *graph.Value, from, to int) *graph.Value {
	perm := make([]int, 0, o.rank(x))
	for i := range o.rank(x) {
		if i != from {
			perm = append(perm, i)
		}
	}
	return o.transpose(x, slices.Insert(perm, to, from)...)
}

func syrk(o *op) *graph.Value {
	o.inputs(1, 1)
	a := o.input(0)
	b := o.turned(a)
	if o.flag("transpose", false) {
		a, b = b, a
	}
	y := o.call("MatMul", nil, a, b)
	if alpha := o.number("alpha", 1); alpha != 1 {
		y = o.times(y, alpha)
	}
	return y
}

// potrf is the lower triangle L with L·Lᵀ = a.
func potrf(o *op) *graph.Value {
	o.inputs(1, 1)
	o.require(o.flag("lower", true), "an upper triangle is not supported")
	return o.calls(Domain, "Cholesky", 1, nil, o.input(0))[0]
}

func sumLogDiag(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	rank := o.rank(x)
	d := o.diagonalOf(x, rank-2, rank-1, 0)
	return o.legacyScalar(o.reduce("ReduceSum", o.call("Log", nil, d), false, rank-2), rank == 2)
}

// khatriRao multiplies each column of one matrix with that of the next, by all pairs of rows.
func khatriRao(o *op) *graph.Value {
	o.ignore("num_args")
	o.inputs(1, maxParts)
	y := o.input(0)
	for _, x := range o.in[1:] {
		o.require(o.rank(x) == 2 && o.rank(y) == 2, "ranks %d and %d", o.rank(y), o.rank(x))
		columns := o.dim(x, 1)
		y = o.reshape(o.call("Mul", nil, o.unsqueeze(y, 1), o.unsqueeze(x, 0)), rest, columns)
	}
	return y
}

// diagonal takes a diagonal of a tensor, or makes a matrix of a vector.
func diagonal(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	k := o.integer("k", 0)
	a, b := o.integer("axis1", 0), o.integer("axis2", 1)
	rank := o.rank(x)
	if rank != 1 {
		return o.diagonalOf(x, o.axisOf(a, rank), o.axisOf(b, rank), k)
	}
	return o.onDiagonal(x, k)
}

// diagonalOf takes the elements whose place along axis b is k more than along axis a; they stand along the last axis.
func (o *op) diagonalOf(x *graph.Value, a, b, k int) *graph.Value {
	rank := o.rank(x)
	o.require(rank >= 2 && a != b && a >= 0, "axes %d and %d of %d", a, b, rank)
	var perm []int
	var dims []extent
	for i := range rank {
		if i != a && i != b {
			perm = append(perm, i)
			e := o.dim(x, i)
			e.of = nil
			dims = append(dims, e)
		}
	}
	h, w := o.static(x, a), o.static(x, b)
	n := min(h, w-k)
	if k < 0 {
		n = min(h+k, w)
	}
	o.require(n > 0 && n <= maxRange, "diagonal %d of %d by %d elements", k, h, w)
	places := make([]int64, n)
	for i := range places {
		places[i] = int64((i+max(-k, 0))*w + i + max(k, 0))
	}
	flat := o.reshape(o.transpose(x, append(perm, a, b)...), append(dims, fixed(h*w))...)
	return o.call("Gather", attrs(graph.IntAttr("axis", int64(len(dims)))), flat, o.ints(places...))
}

func divSqrtDim(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	return o.call("Div", nil, x, o.root(o.dim(x, o.rank(x)-1), o.typeOf(x)))
}

// root returns the square root of an extent.
func (o *op) root(e extent, dt tensor.DType) *graph.Value {
	if e.v == nil {
		return o.scalar(dt, math.Sqrt(float64(e.n)))
	}
	return o.call("Sqrt", nil, o.cast(e.v, dt))
}

// heads splits x [S, B, heads·parts·D] into what heads see: [S, B, heads, parts, D], and returns D.
func (o *op) heads(x *graph.Value, parts int) (y *graph.Value, heads int, depth extent) {
	o.fusedOnFloats()
	heads = o.required("heads")
	o.require(heads > 0 && heads <= maxParts && o.rank(x) == 3, "%d heads of %v", heads, x.Type)
	d := o.dims(x)
	depth = o.div(d[2], fixed(heads*parts))
	y = o.reshape(x, d[0], d[1], fixed(heads), fixed(parts), depth)
	return y, heads, depth
}

// part takes one of the parts of all heads as matrices [B·heads, S, D].
func (o *op) part(y *graph.Value, which int) *graph.Value {
	d := o.dims(y)
	p := o.squeeze(o.slice(y, 3, which, which+1), 3)
	return o.reshape(o.transpose(p, 1, 2, 0, 3), rest, d[0], d[4])
}

// attentionScores multiplies queries and keys of all heads: [B·heads, S, S].
func (o *op) attentionScores(parts, q, k int) *graph.Value {
	o.inputs(1, 1)
	y, _, depth := o.heads(o.input(0), parts)
	query := o.call("Div", nil, o.part(y, q), o.root(depth, o.typeOf(y)))
	return o.call("MatMul", nil, query, o.turned(o.part(y, k)))
}

// attentionValues applies weights [B·heads, S, S'] to values: [S, B, heads·D].
func (o *op) attentionValues(parts, v int) *graph.Value {
	o.inputs(2, 2)
	y, heads, depth := o.heads(o.input(0), parts)
	batch := o.dim(o.input(0), 1)
	out := o.call("MatMul", nil, o.input(1), o.part(y, v))
	rows := o.dim(out, 1)
	batch.of, rows.of, depth.of = nil, nil, nil
	out = o.transpose(o.reshape(out, batch, fixed(heads), rows, depth), 2, 0, 1, 3)
	return o.reshape(out, rows, batch, o.mul(fixed(heads), depth))
}

// fusedOnFloats reads what attention has beside its heads where MXNet fused it for oneDNN.
func (o *op) fusedOnFloats() {
	if strings.HasPrefix(o.kind, "_sg_") {
		o.require(!o.flag("quantized", false), "attention on integers is not supported")
		o.ignore("enable_float_output", "min_calib_range", "max_calib_range")
	}
}

// fusedParts splits x [B, S, 3·heads·D] into queries, keys and values of all heads: [3, B, heads, S, D].
func (o *op) fusedParts(x *graph.Value) (parts *graph.Value) {
	o.fusedOnFloats()
	heads := o.required("heads")
	o.require(heads > 0 && heads <= maxParts && o.rank(x) == 3, "%d heads of %v", heads, x.Type)
	d := o.dims(x)
	y := o.reshape(x, d[0], d[1], fixed(3), fixed(heads), o.div(d[2], fixed(3*heads)))
	return o.transpose(y, 2, 0, 3, 1, 4)
}

// fusedScores multiplies queries and keys of all heads: [B, heads, S, S].
func fusedScores(o *op) *graph.Value {
	o.inputs(1, 1)
	parts := o.fusedParts(o.input(0))
	at := func(i int) *graph.Value { return o.squeeze(o.slice(parts, 0, i, i+1), 0) }
	return o.call("MatMul", nil, at(0), o.turned(at(1)))
}

// fusedValues applies weights [B, heads, S, S] to values: [B, S, heads·D].
func fusedValues(o *op) *graph.Value {
	o.inputs(2, 2)
	x := o.input(1)
	y := o.call("MatMul", nil, o.input(0), o.squeeze(o.slice(o.fusedParts(x), 0, 2, 3), 0))
	d := o.dims(x)
	return o.reshape(o.transpose(y, 0, 2, 1, 3), d[0], d[1], o.div(d[2], fixed(3)))
}

// encoderScores multiplies queries [S, B, heads·D] with the keys among keys and values [S', B, heads·2·D].
func encoderScores(o *op) *graph.Value {
	o.inputs(2, 2)
	q, _, depth := o.heads(o.input(0), 1)
	kv, _, _ := o.heads(o.input(1), 2)
	query := o.call("Div", nil, o.part(q, 0), o.root(depth, o.typeOf(q)))
	return o.call("MatMul", nil, query, o.turned(o.part(kv, 0)))
}
