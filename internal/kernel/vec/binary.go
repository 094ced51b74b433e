package vec

import (
	"math"
	"unsafe"
)

// BinaryOp is an element-wise function of two operands.
type BinaryOp uint8

// The functions of two operands.
const (
	Add   BinaryOp = iota // a + b
	Sub                   // a - b
	Mul                   // a · b
	Div                   // a / b
	Max                   // the greater; NaN if either is
	Min                   // the lesser; NaN if either is
	PRelu                 // a < 0 ? a · b : a
	numBinaryOps
)

// Form says which operands of a BinaryOp are vectors.
type Form uint8

// The forms of operands, a before b.
const (
	VV Form = iota // both have an element per column
	VS             // b has one element per row
	SV             // a has one element per row
)

// Binary writes a op b for slices of the same length.
func (v Kernels) Binary(op BinaryOp, dst, a, b []float32) {
	n := len(a)
	v.BinaryRows(op, VV, dst, n, a, n, b, n, 1, n)
}

// BinaryScalar writes a op s for each element of a.
func (v Kernels) BinaryScalar(op BinaryOp, dst, a []float32, s float32) {
	x := [1]float32{s}
	v.BinaryRows(op, VS, dst, len(a), a, len(a), x[:], 1, 1, len(a))
}

// ScalarBinary writes s op b for each element of b.
func (v Kernels) ScalarBinary(op BinaryOp, dst []float32, s float32, b []float32) {
	x := [1]float32{s}
	v.BinaryRows(op, SV, dst, len(b), x[:], 1, b, len(b), 1, len(b))
}

// BinaryRows writes dst[r, c] = a op b for [rows, cols] matrices with row strides ldd, lda and ldb. A stride of 0 repeats a
// row (or, in the form VS or SV, a scalar); the scalar of row r is at r times its stride.
func (v Kernels) BinaryRows(op BinaryOp, form Form, dst []float32, ldd int, a []float32, lda int, b []float32, ldb, rows, cols int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	if op >= numBinaryOps || form > SV {
		panic("vec: no such binary function or form")
	}
	acols, bcols := cols, cols
	switch form {
	case VS:
		bcols = 1
	case SV:
		acols = 1
	case VV:
	}
	d, x, y := at(dst, extent(rows, cols, ldd)), at(a, extent(rows, acols, lda)), at(b, extent(rows, bcols, ldb))
	if d != y && v.passes(d, x, ldd, rows, cols) {
		v.binaryPast(op, form, d, x, lda, acols, y, ldb, bcols, rows, cols)
		return
	}
	if rows*cols <= blockElements {
		binary(v.set, op, form, d, x, y, cols, rows, ldd, lda, ldb)
		return
	}
	blocks(rows, cols, func(r, c, rows, cols int) {
		binary(v.set, op, form, advance(d, r*ldd+c), advance(x, r*lda+min(c, acols-1)), advance(y, r*ldb+min(c, bcols-1)), cols, rows, ldd, lda, ldb)
	})
}

// binaryPast is BinaryRows past the caches.
func (v Kernels) binaryPast(op BinaryOp, form Form, dst, a *float32, lda, acols int, b *float32, ldb, bcols, rows, cols int) {
	var s stage
	s.begin(v.set, dst)
	for r, c := 0, 0; r < rows; {
		n, width := s.piece(rows, cols, r, c)
		binary(v.set, op, form, s.next(), advance(a, r*lda+min(c, acols-1)), advance(b, r*ldb+min(c, bcols-1)), width, n, width, lda, ldb)
		s.wrote(n * width)
		r, c = behind(r, c, n, width, cols)
		s.a, s.b = upcoming(a, r, min(c, acols-1), lda, rows, acols), upcoming(b, r, min(c, bcols-1), ldb, rows, bcols)
	}
	s.end()
}

// genericBinary is the portable version of the binary kernels.
func genericBinary(op BinaryOp, form Form, dst, a, b *float32, n, rows, ldd, lda, ldb int) {
	var sa, sb int // step from element to element
	if form != SV {
		sa = 1
	}
	if form != VS {
		sb = 1
	}
	for r := range rows {
		d := view(advance(dst, r*ldd), n)
		x, y := view(advance(a, r*lda), sa*(n-1)+1), view(advance(b, r*ldb), sb*(n-1)+1)
		switch op {
		case Add:
			for i := range d {
				d[i] = x[i*sa] + y[i*sb]
			}
		case Sub:
			for i := range d {
				d[i] = x[i*sa] - y[i*sb]
			}
		case Mul:
			for i := range d {
				d[i] = x[i*sa] * y[i*sb]
			}
		case Div:
			for i := range d {
				d[i] = x[i*sa] / y[i*sb]
			}
		case Max:
			for i := range d {
				d[i] = max(x[i*sa], y[i*sb])
			}
		case Min:
			for i := range d {
				d[i] = min(x[i*sa], y[i*sb])
			}
		case PRelu:
			for i := range d {
				if d[i] = x[i*sa]; d[i] < 0 {
					d[i] *= y[i*sb]
				}
			}
		}
	}
}

// JoinRows writes a op b, op being one of Add, Mul, Max and Min, in place of rows a of n elements that begin at elements at of dst, one after the other; rows b are those of src. A row
// that at names twice is joined twice, in that order.
func (v Kernels) JoinRows(op BinaryOp, dst, src []float32, at []int, n int) {
	if n <= 0 || len(at) == 0 {
		return
	}
	for _, i := range at {
		_ = dst[i : i+n]
	}
	_ = src[:len(at)*n]
	if n > blockElements {
		for r, i := range at {
			row := dst[i : i+n]
			v.Binary(op, row, row, src[r*n:][:n])
		}
		return
	}
	d, s := unsafe.SliceData(dst), unsafe.SliceData(src)
	for r, some := 0, blockElements/n; r < len(at); r += some {
		joinRows(v.set, op, d, advance(s, r*n), &at[r], n, min(some, len(at)-r))
	}
}

// genericJoinRows is the portable version of the kernels that join rows.
func genericJoinRows(op BinaryOp, dst, src *float32, at *int, n, rows int) {
	for r, i := range unsafe.Slice(at, rows) {
		row := advance(dst, i)
		genericBinary(op, VV, row, row, advance(src, r*n), n, 1, n, n, n)
	}
}

// Unbounded are the bounds of MulAdd… that change nothing.
func Unbounded() (lo, hi float32) { return float32(math.Inf(-1)), float32(math.Inf(1)) }

// MulAddColumns writes dst[r, c] = x[r, c]·scale[c] + shift[c], bounded by lo and hi (NaN stays), for a [rows, cols] matrix:
// a batch normalisation of channels-last data, for example.
func (v Kernels) MulAddColumns(dst []float32, ldd int, x []float32, ldx int, scale, shift []float32, rows, cols int, lo, hi float32) {
	if rows <= 0 || cols <= 0 {
		return
	}
	d, s := at(dst, extent(rows, cols, ldd)), at(x, extent(rows, cols, ldx))
	k, b := at(scale, cols), at(shift, cols)
	if v.passes(d, s, ldd, rows, cols) {
		v.mulAddPast(false, d, s, ldx, k, b, rows, cols, lo, hi)
		return
	}
	blocks(rows, cols, func(r, c, rows, cols int) {
		mulAdd(v.set, false, advance(d, r*ldd+c), advance(s, r*ldx+c), advance(k, c), advance(b, c), cols, rows, ldd, ldx, lo, hi)
	})
}

// MulAddRows writes dst[r, c] = x[r, c]·scale[r] + shift[r], bounded by lo and hi (NaN stays), for a [rows, cols] matrix: a
// batch normalisation of one image of channels-first data, for example.
func (v Kernels) MulAddRows(dst []float32, ldd int, x []float32, ldx int, scale, shift []float32, rows, cols int, lo, hi float32) {
	if rows <= 0 || cols <= 0 {
		return
	}
	d, s := at(dst, extent(rows, cols, ldd)), at(x, extent(rows, cols, ldx))
	k, b := at(scale, rows), at(shift, rows)
	if v.passes(d, s, ldd, rows, cols) {
		v.mulAddPast(true, d, s, ldx, k, b, rows, cols, lo, hi)
		return
	}
	blocks(rows, cols, func(r, c, rows, cols int) {
		mulAdd(v.set, true, advance(d, r*ldd+c), advance(s, r*ldx+c), advance(k, r), advance(b, r), cols, rows, ldd, ldx, lo, hi)
	})
}

// mulAddPast is MulAddRows, or MulAddColumns, past the caches.
func (v Kernels) mulAddPast(perRow bool, dst, x *float32, ldx int, scale, shift *float32, rows, cols int, lo, hi float32) {
	var s stage
	s.begin(v.set, dst)
	for r, c := 0, 0; r < rows; {
		n, width := s.piece(rows, cols, r, c)
		of := c
		if perRow {
			of = r
		}
		mulAdd(v.set, perRow, s.next(), advance(x, r*ldx+c), advance(scale, of), advance(shift, of), width, n, width, ldx, lo, hi)
		s.wrote(n * width)
		r, c = behind(r, c, n, width, cols)
		s.a = upcoming(x, r, c, ldx, rows, cols)
		s.b = s.a
	}
	s.end()
}

// genericMulAdd is the portable version of the multiply-add kernels.
func genericMulAdd(perRow bool, dst, x, scale, shift *float32, n, rows, ldd, ldx int, lo, hi float32) {
	for r := range rows {
		d, s := view(advance(dst, r*ldd), n), view(advance(x, r*ldx), n)
		if perRow {
			k, b := *advance(scale, r), *advance(shift, r)
			for i, v := range s {
				d[i] = clip(v*k+b, lo, hi)
			}
			continue
		}
		k, b := view(scale, n), view(shift, n)
		for i, v := range s {
			d[i] = clip(v*k[i]+b[i], lo, hi)
		}
	}
}
