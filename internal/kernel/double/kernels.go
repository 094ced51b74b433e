package double

import (
	"math"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Kernels are the functions of this package for one target. The zero value is those in portable Go. Safe for concurrent use.
type Kernels struct{ set isa.Set }

// For returns the kernels of a target.
func For(t isa.Target) Kernels { return Kernels{t.Set} }

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
)

// Form says which operands of a BinaryOp are vectors.
type Form uint8

// The forms of operands, a before b.
const (
	VV Form = iota // both
	VS             // b is one number
	SV             // a is one number
)

// Op is an element-wise function of one operand.
type Op uint8

// The functions of one operand.
const (
	Exp     Op = iota // e^x
	Sigmoid           // 1 / (1 + e^-x)
	Tanh              // tanh x
	Sqrt              // √x, correctly rounded
	Abs               // |x|
	Log               // ln x
	Sin               // sin x
	Cos               // cos x
	Neg               // -x
	Round             // the nearest whole number, of two the even one
	Floor             // the greatest whole number that is not above x
	Ceil              // the least whole number that is not below x
)

// ReduceOp is a way to make one number of many.
type ReduceOp uint8

// The reductions.
const (
	Sum        ReduceOp = iota // Σ x
	SumSquares                 // Σ x²
	SumAbs                     // Σ |x|
	Greatest                   // the greatest; NaN if one is; -Inf of none
	Least                      // the least; NaN if one is; +Inf of none
)

// blockElements bounds the elements that one call of assembly works on.
const blockElements = 1 << 14

// at returns the first of n > 0 elements, having checked that they are there.
func at(x []float64, n int) *float64 {
	_ = x[:n:n]
	return unsafe.SliceData(x)
}

// advance moves a pointer by n elements.
func advance(x *float64, n int) *float64 { return (*float64)(unsafe.Add(unsafe.Pointer(x), 8*n)) }

// Binary writes a op b for each element of dst. In the form VS b is b[0], in SV a is a[0].
func (v Kernels) Binary(op BinaryOp, form Form, dst, a, b []float64) {
	n := len(dst)
	if n == 0 {
		return
	}
	if op > PRelu || form > SV {
		panic("double: no such binary function or form")
	}
	na, nb := n, n
	switch form {
	case VS:
		nb = 1
	case SV:
		na = 1
	case VV:
	}
	d, x, y := at(dst, n), at(a, na), at(b, nb)
	for i := 0; i < n; i += blockElements {
		binary(v.set, op, form, advance(d, i), advance(x, min(i, na-1)), advance(y, min(i, nb-1)), min(blockElements, n-i))
	}
}

// Scale writes x·by for each element of x.
func (v Kernels) Scale(dst, x []float64, by float64) {
	b := [1]float64{by}
	v.Binary(Mul, VS, dst[:len(x)], x, b[:])
}

// Apply writes op of each element of src.
func (v Kernels) Apply(op Op, dst, src []float64) {
	n := len(src)
	if n == 0 {
		return
	}
	if op > Ceil {
		panic("double: no such function")
	}
	if r := &ranges[op]; r.fn != nil {
		v.within(op, r, dst[:n], src)
		return
	}
	d, s := at(dst, n), at(src, n)
	for i := 0; i < n; i += blockElements {
		unary(v.set, op, advance(d, i), advance(s, i), min(blockElements, n-i))
	}
}

// within is a range of numbers that kernels of a function are right in, and what computes it elsewhere.
type within struct {
	least, most float64
	fn          func(float64) float64
}

// ranges are those of the functions that have such. Sine and cosine lose digits where multiples of π/2 have more than 77.
var ranges = [Ceil + 1]within{
	Log: {0x1p-1022, math.MaxFloat64, math.Log}, Sin: {-1 << 24, 1 << 24, math.Sin}, Cos: {-1 << 24, 1 << 24, math.Cos},
}

// within is Apply of a function that has a range: beyond it the kernel computes something else, in whose place the right results are put.
func (v Kernels) within(op Op, r *within, dst, src []float64) {
	var part [256]float64
	for ; len(src) > 0; dst, src = dst[len(part):], src[len(part):] {
		x := src[:min(len(part), len(src))]
		d := dst[:len(x)]
		if v.Reduce(Least, x) >= r.least && v.Reduce(Greatest, x) <= r.most {
			unary(v.set, op, at(d, len(x)), at(x, len(x)), len(x))
		} else {
			t := part[:len(x)]
			unary(v.set, op, at(t, len(x)), at(x, len(x)), len(x))
			for i, y := range t {
				if z := x[i]; !(z >= r.least && z <= r.most) {
					y = r.fn(z)
				}
				d[i] = y
			}
		}
		if len(x) < len(part) {
			return
		}
	}
}

// MulAdd adds x·by to each element of dst.
func (v Kernels) MulAdd(dst, x []float64, by float64) {
	b := [1]float64{by}
	v.MulAddRows(dst, len(x), x, b[:])
}

// MulAddRows adds x·by[r] to row r of dst, whose rows lie ldd apart.
func (v Kernels) MulAddRows(dst []float64, ldd int, x, by []float64) {
	n, rows := len(x), len(by)
	if n == 0 || rows == 0 {
		return
	}
	d, s, b := at(dst, (rows-1)*ldd+n), at(x, n), at(by, rows)
	together := max(1, blockElements/n)
	for r := 0; r < rows; r += together {
		for i := 0; i < n; i += blockElements {
			mulAdd(v.set, advance(d, r*ldd+i), advance(s, i), advance(b, r), min(blockElements, n-i), min(together, rows-r), 8*ldd)
		}
	}
}

// Reduce makes one number of a row.
func (v Kernels) Reduce(op ReduceOp, x []float64) float64 {
	out := 0.0
	switch op {
	case Greatest:
		out = math.Inf(-1)
	case Least:
		out = math.Inf(1)
	case Sum, SumSquares, SumAbs:
	}
	for i := 0; i < len(x); i += blockElements {
		part := reduce(v.set, op, at(x[i:], 1), min(blockElements, len(x)-i))
		switch op {
		case Greatest:
			out = max(out, part)
		case Least:
			out = min(out, part)
		default:
			out += part
		}
	}
	return out
}

// Softmax writes e^x / Σ e^x of a row, or the logarithm of that. The greatest element is taken off first. A row with NaN or +Inf, or
// of -Inf alone, gives NaN.
func (v Kernels) Softmax(dst, src []float64, logarithm bool) {
	dst = dst[:len(src)]
	most := [1]float64{v.Reduce(Greatest, src)}
	v.Binary(Sub, VS, dst, src, most[:])
	if !logarithm {
		v.Apply(Exp, dst, dst)
		v.Scale(dst, dst, 1/v.Reduce(Sum, dst))
		return
	}
	off := [1]float64{math.Log(v.sumExp(dst, 0))}
	v.Binary(Sub, VS, dst, dst, off[:])
}

// Softmaxes writes Softmax of each of the rows of src, which have n elements. Short ones are worked on together, but for the logarithm.
func (v Kernels) Softmaxes(dst, src []float64, n int, logarithm bool) {
	const together, short = 1024, 16 // elements
	if len(src) == 0 {
		return
	}
	if n > short || logarithm {
		for i := 0; i < len(src); i += n {
			v.Softmax(dst[i:i+n], src[i:i+n], logarithm)
		}
		return
	}
	dst = dst[:len(src)]
	for i := 0; i < len(src); i += together / n * n {
		x := src[i:min(i+together/n*n, len(src))]
		e := dst[i:][:len(x)]
		for at := 0; at < len(x); at += n {
			row := x[at : at+n]
			most := row[0]
			for _, y := range row[1:] {
				most = max(most, y)
			}
			for k, y := range row {
				e[at+k] = y - most
			}
		}
		v.Apply(Exp, e, e)
		for at := 0; at < len(e); at += n {
			row, sum := e[at:at+n], 0.0
			for _, y := range row {
				sum += y
			}
			by := 1 / sum
			for k := range row {
				row[k] *= by
			}
		}
	}
}

// sumExp returns Σ e^(x - off).
func (v Kernels) sumExp(x []float64, off float64) (sum float64) {
	var part [64]float64
	by := [1]float64{off}
	for i := 0; i < len(x); i += len(part) {
		e := part[:min(len(part), len(x)-i)]
		v.Binary(Sub, VS, e, x[i:], by[:])
		v.Apply(Exp, e, e)
		sum += v.Reduce(Sum, e)
	}
	return sum
}

// LogSumExp returns ln Σ e^x of a row, the greatest element being taken off first: an infinite one, or NaN, is the result.
func (v Kernels) LogSumExp(x []float64) float64 {
	most := v.Reduce(Greatest, x)
	if math.IsInf(most, 0) || most != most {
		return most
	}
	return most + math.Log(v.sumExp(x, most))
}

// LogSumExps writes LogSumExp of each of the rows of x, which have n elements. Short ones are worked on together.
func (v Kernels) LogSumExps(dst, x []float64, n int) {
	const together, short = 256, 16 // elements
	if n == 0 || n > short {
		for i := range dst {
			dst[i] = v.LogSumExp(x[i*n : (i+1)*n])
		}
		return
	}
	var parts, sums [together]float64
	for len(dst) > 0 {
		rows := min(together/n, len(dst))
		e, sum := parts[:rows*n], sums[:rows]
		for r := range rows {
			row, part := x[r*n:(r+1)*n], e[r*n:(r+1)*n]
			most := row[0]
			for _, y := range row[1:] {
				most = max(most, y)
			}
			dst[r] = most
			if most-most != 0 { // infinite, or NaN, as the result is
				clear(part)
				continue
			}
			for i, y := range row {
				part[i] = y - most
			}
		}
		v.Apply(Exp, e, e)
		for r := range sum {
			sum[r] = 0
			for _, y := range e[r*n : (r+1)*n] {
				sum[r] += y
			}
		}
		v.Apply(Log, sum, sum)
		for r, y := range sum {
			dst[r] += y
		}
		dst, x = dst[rows:], x[rows*n:]
	}
}

// Norm writes (x - mean) / √(variance + eps) of a row, or x / √(mean of x² + eps) where rms is set, times gamma, plus beta, of
// which both may be nil.
func (v Kernels) Norm(rms bool, dst, src, gamma, beta []float64, eps float64) {
	n := float64(len(src))
	dst = dst[:len(src)]
	if rms {
		v.Scale(dst, src, 1/math.Sqrt(v.Reduce(SumSquares, src)/n+eps))
	} else {
		mean := [1]float64{v.Reduce(Sum, src) / n}
		v.Binary(Sub, VS, dst, src, mean[:])
		v.Scale(dst, dst, 1/math.Sqrt(v.Reduce(SumSquares, dst)/n+eps))
	}
	if gamma != nil {
		v.Binary(Mul, VV, dst, dst, gamma)
	}
	if beta != nil {
		v.Binary(Add, VV, dst, dst, beta)
	}
}
