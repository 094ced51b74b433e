package vec

import "math"

// genericUnary is the portable version of the element-wise kernels.
func genericUnary(op Op, dst, src *float32, n, rows, ldd, lds int, p *Params) {
	for r := range rows {
		d, s := view(advance(dst, r*ldd), n), view(advance(src, r*lds), n)
		switch op {
		case Relu:
			for i, x := range s {
				d[i] = max(x, 0)
			}
		case Clip:
			for i, x := range s {
				d[i] = clip(x, p.A, p.B)
			}
		case Square:
			for i, x := range s {
				d[i] = x * x
			}
		default:
			f := function(op)
			for i, x := range s {
				d[i] = f(x, *p)
			}
		}
	}
}

// clip bounds x, keeping NaN; hi wins.
func clip(x, lo, hi float32) float32 {
	if x < lo {
		x = lo
	}
	if x > hi {
		x = hi
	}
	return x
}

// function returns an element-wise function, evaluated in float64 where that is what the math package offers.
//
//nolint:funlen // a table
func function(op Op) func(x float32, p Params) float32 {
	switch op {
	case Exp:
		return func(x float32, _ Params) float32 { return float32(math.Exp(float64(x))) }
	case Log:
		return func(x float32, _ Params) float32 { return float32(math.Log(float64(x))) }
	case Tanh:
		return func(x float32, _ Params) float32 { return tanh(x) }
	case Sigmoid:
		return func(x float32, _ Params) float32 { return sigmoid(x) }
	case Erf:
		return func(x float32, _ Params) float32 { return float32(math.Erf(float64(x))) }
	case Sqrt:
		return func(x float32, _ Params) float32 { return float32(math.Sqrt(float64(x))) }
	case Rsqrt:
		return func(x float32, _ Params) float32 { return float32(1 / math.Sqrt(float64(x))) }
	case Reciprocal:
		return func(x float32, _ Params) float32 { return 1 / x }
	case Abs:
		return func(x float32, _ Params) float32 { return float32(math.Abs(float64(x))) }
	case Neg:
		return func(x float32, _ Params) float32 { return -x }
	case Square:
		return func(x float32, _ Params) float32 { return x * x }
	case Cube:
		return func(x float32, _ Params) float32 { return float32(x*x) * x }
	case Relu:
		return func(x float32, _ Params) float32 { return max(x, 0) }
	case LeakyRelu:
		return func(x float32, p Params) float32 {
			if x < 0 {
				return p.A * x
			}
			return x
		}
	case Clip:
		return func(x float32, p Params) float32 { return clip(x, p.A, p.B) }
	case Elu:
		return func(x float32, p Params) float32 {
			if x > 0 {
				return p.C * x
			}
			return p.A * float32(math.Expm1(float64(p.B*x)))
		}
	case HardSigmoid:
		return func(x float32, p Params) float32 { return clip(p.A*x+p.B, 0, 1) }
	case HardSwish:
		return func(x float32, _ Params) float32 { return x * clip(x*(1.0/6)+0.5, 0, 1) }
	case Silu:
		return func(x float32, _ Params) float32 { return float32(float64(x) / (1 + math.Exp(-float64(x)))) }
	case Swish:
		return func(x float32, p Params) float32 { return float32(float64(x) / (1 + math.Exp(-float64(p.A*x)))) }
	case GeluErf:
		return func(x float32, _ Params) float32 {
			return float32(float64(x) / 2 * (1 + math.Erf(float64(x)/math.Sqrt2)))
		}
	case GeluTanh:
		return func(x float32, _ Params) float32 {
			v := float64(x)
			return float32(v / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
		}
	case Softplus:
		return func(x float32, _ Params) float32 {
			v := float64(x)
			return float32(math.Max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))))
		}
	case Mish:
		return func(x float32, _ Params) float32 {
			v := float64(x)
			return float32(v * math.Tanh(math.Max(v, 0)+math.Log1p(math.Exp(-math.Abs(v)))))
		}
	case Floor:
		return func(x float32, _ Params) float32 { return float32(math.Floor(float64(x))) }
	case Ceil:
		return func(x float32, _ Params) float32 { return float32(math.Ceil(float64(x))) }
	case Sin:
		return func(x float32, _ Params) float32 { return float32(math.Sin(float64(x))) }
	case Cos:
		return func(x float32, _ Params) float32 { return float32(math.Cos(float64(x))) }
	case Tan:
		return func(x float32, _ Params) float32 { return float32(math.Tan(float64(x))) }
	case Asin:
		return func(x float32, _ Params) float32 { return float32(math.Asin(float64(x))) }
	case Acos:
		return func(x float32, _ Params) float32 { return float32(math.Acos(float64(x))) }
	case Atan:
		return func(x float32, _ Params) float32 { return float32(math.Atan(float64(x))) }
	case Sinh:
		return func(x float32, _ Params) float32 { return float32(math.Sinh(float64(x))) }
	case Cosh:
		return func(x float32, _ Params) float32 { return float32(math.Cosh(float64(x))) }
	case Softsign:
		return func(x float32, _ Params) float32 { return x / (1 + float32(math.Abs(float64(x)))) }
	case Sign:
		return func(x float32, _ Params) float32 {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return -1
			}
			return x
		}
	case Threshold:
		return func(x float32, p Params) float32 {
			if x <= p.A {
				return 0
			}
			return x
		}
	case Shrink:
		return func(x float32, p Params) float32 {
			switch {
			case x < -p.A:
				return x + p.B
			case x > p.A:
				return x - p.B
			}
			return 0
		}
	case FakeQuantize:
		return func(x float32, p Params) float32 {
			if x != x {
				return p.A * p.B
			}
			return p.A * clip(float32(math.RoundToEven(float64(x/p.A))), p.B, p.C)
		}
	default: // Round: ApplyRows lets no other value pass.
		return func(x float32, _ Params) float32 { return float32(math.RoundToEven(float64(x))) }
	}
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

func tanh(x float32) float32 { return float32(math.Tanh(float64(x))) }
