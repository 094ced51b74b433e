package double

import (
	"math"
	"unsafe"
)

// view is the n elements at x.
func view(x *float64, n int) []float64 { return unsafe.Slice(x, n) }

// genericBinary is the portable version of the binary kernels.
func genericBinary(op BinaryOp, form Form, dst, a, b *float64, n int) {
	sa, sb := 1, 1 // steps from element to element
	switch form {
	case VS:
		sb = 0
	case SV:
		sa = 0
	case VV:
	}
	d, x, y := view(dst, n), view(a, sa*(n-1)+1), view(b, sb*(n-1)+1)
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
			v := x[i*sa]
			if v < 0 {
				v *= y[i*sb]
			}
			d[i] = v
		}
	}
}

// genericUnary is the portable version of the kernels of one operand.
func genericUnary(op Op, dst, src *float64, n int) {
	d, s := view(dst, n), view(src, n)
	var fn func(float64) float64
	switch op {
	case Exp:
		fn = exp
	case Sigmoid:
		fn = func(x float64) float64 { return 1 / (1 + exp(-x)) }
	case Tanh:
		fn = math.Tanh
	case Sqrt:
		fn = math.Sqrt
	case Abs:
		fn = math.Abs
	case Log:
		fn = math.Log
	case Sin:
		fn = math.Sin
	case Cos:
		fn = math.Cos
	case Neg:
		fn = func(x float64) float64 { return -x }
	case Round:
		fn = math.RoundToEven
	case Floor:
		fn = math.Floor
	case Ceil:
		fn = math.Ceil
	}
	for i, x := range s {
		d[i] = fn(x)
	}
}

// exp is math.Exp, which on some processors is infinite from e^709.44 on already.
func exp(x float64) float64 {
	if x > 709 {
		return math.Exp(x-1) * math.E
	}
	return math.Exp(x)
}

// genericMulAdd is the portable version of the multiply-add kernels.
func genericMulAdd(dst, src, by *float64, n, rows, apart int) {
	s := view(src, n)
	for r, k := range view(by, rows) {
		d := view(advance(dst, r*apart/8), n)
		for i, x := range s {
			d[i] += x * k
		}
	}
}

// genericReduce is the portable version of the reductions, in four interleaved chains.
func genericReduce(op ReduceOp, src *float64, n int) float64 {
	s := view(src, n)
	var sum [4]float64
	switch op {
	case Sum:
		for i, x := range s {
			sum[i&3] += x
		}
	case SumSquares:
		for i, x := range s {
			sum[i&3] += x * x
		}
	case SumAbs:
		for i, x := range s {
			sum[i&3] += math.Abs(x)
		}
	case Greatest:
		out := s[0]
		for _, x := range s {
			out = max(out, x)
		}
		return out
	case Least:
		out := s[0]
		for _, x := range s {
			out = min(out, x)
		}
		return out
	}
	return (sum[0] + sum[1]) + (sum[2] + sum[3])
}
