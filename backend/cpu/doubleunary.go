package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Functions of one operand of float64: some by kernels, the others element by element, as package math has them.

// doubleFunc is a function of the elements of a slice, and its time per element in nanoseconds.
type doubleFunc struct {
	nanos float64
	apply func(k double.Kernels, d, s []float64)
}

// vectorised is a function that there is a kernel for.
func vectorised(op double.Op) func(*graph.Node) doubleFunc {
	return func(*graph.Node) doubleFunc {
		return doubleFunc{0.8, func(k double.Kernels, d, s []float64) { k.Apply(op, d, s) }}
	}
}

// plainly is a function of package math, or made of such.
func plainly(fn func(float64) float64) func(*graph.Node) doubleFunc {
	return func(*graph.Node) doubleFunc {
		return doubleFunc{10, func(_ double.Kernels, d, s []float64) {
			for i, x := range s {
				d[i] = fn(x)
			}
		}}
	}
}

// with is a function that depends on the attribute alpha, which is a where it is absent, and on one more.
func with(a float32, other string, b float32, fn func(a, b, x float64) float64) func(*graph.Node) doubleFunc {
	return func(n *graph.Node) doubleFunc {
		x, y := float64(n.Float("alpha", a)), float64(n.Float(other, b))
		return plainly(func(v float64) float64 { return fn(x, y, v) })(n)
	}
}

// bounded keeps NaN.
func bounded(x, lo, hi float64) float64 { return min(max(x, lo), hi) }

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// nearDoubles is how many numbers stay in the nearest cache while several kernels go through them.
const nearDoubles = 1024

// doubleScratch is how many numbers a function keeps on its stack.
const doubleScratch = 128

// swishDouble writes x · sigmoid(by·x) in pieces.
func swishDouble(k double.Kernels, d, s []float64, by float64) {
	var scratch [doubleScratch]float64
	for i := 0; i < len(s); i += doubleScratch {
		x := s[i:min(i+doubleScratch, len(s))]
		t := scratch[:len(x)]
		k.Scale(t, x, by)
		k.Apply(double.Sigmoid, t, t)
		k.Binary(double.Mul, double.VV, d[i:i+len(x)], x, t)
	}
}

// geluDouble writes the approximation of Gelu by tanh in pieces.
func geluDouble(k double.Kernels, d, s []float64) {
	var scratch [doubleScratch]float64
	for i := 0; i < len(s); i += doubleScratch {
		x := s[i:min(i+doubleScratch, len(s))]
		t, out := scratch[:len(x)], d[i:i+len(x)]
		for j, v := range x {
			t[j] = math.Sqrt(2/math.Pi) * (v + 0.044715*v*v*v)
		}
		k.Apply(double.Tanh, t, t)
		for j, v := range x {
			out[j] = 0.5 * v * (1 + t[j])
		}
	}
}

// shrinkDouble brings numbers beyond a bound nearer to 0 and makes the others 0, without a branch, which data would mislead.
func shrinkDouble(d, s []float64, beyond, bias float64) {
	for i, x := range s[:len(d)] {
		var above, below uint64
		if x > beyond {
			above = 1
		}
		if x < -beyond {
			below = 1
		}
		above &^= below // of a bound below 0, numbers between lie on both sides
		d[i] = math.Float64frombits(math.Float64bits(x-bias)&-above | math.Float64bits(x+bias)&-below)
	}
}

// doubleUnaries are the functions by the name of their operator, beside those of floatFunctions.
var doubleUnaries = map[string]func(n *graph.Node) doubleFunc{
	"Exp": vectorised(double.Exp), "Sigmoid": vectorised(double.Sigmoid), "Tanh": vectorised(double.Tanh), "Sqrt": vectorised(double.Sqrt),
	"Abs": vectorised(double.Abs), "Neg": vectorised(double.Neg), "Log": vectorised(double.Log), "Sin": vectorised(double.Sin), "Cos": vectorised(double.Cos),
	"Reciprocal": func(*graph.Node) doubleFunc {
		return doubleFunc{0.5, func(k double.Kernels, d, s []float64) {
			one := [1]float64{1}
			k.Binary(double.Div, double.SV, d, one[:], s)
		}}
	},
	"Relu": func(*graph.Node) doubleFunc {
		return doubleFunc{0.2, func(k double.Kernels, d, s []float64) {
			var zero [1]float64
			k.Binary(double.Max, double.VS, d, s, zero[:])
		}}
	},
	"Gelu": func(n *graph.Node) doubleFunc {
		if n.Str("approximate", "none") == "tanh" {
			return doubleFunc{1.5, geluDouble}
		}
		return plainly(func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) })(n)
	},
	"Shrink": func(n *graph.Node) doubleFunc {
		beyond, bias := float64(n.Float("lambd", 0.5)), float64(n.Float("bias", 0))
		return doubleFunc{2, func(_ double.Kernels, d, s []float64) { shrinkDouble(d, s, beyond, bias) }}
	},
	"Swish": func(n *graph.Node) doubleFunc {
		a := float64(n.Float("alpha", 1))
		return doubleFunc{1.5, func(k double.Kernels, d, s []float64) { swishDouble(k, d, s, a) }}
	},
	"Erf": plainly(math.Erf), "Floor": vectorised(double.Floor), "Ceil": vectorised(double.Ceil), "Round": vectorised(double.Round),
	"Asin": plainly(math.Asin), "Acos": plainly(math.Acos), "Atan": plainly(math.Atan),
	"Softsign":  plainly(func(x float64) float64 { return x / (1 + math.Abs(x)) }),
	"Sign":      func(*graph.Node) doubleFunc { return doubleFunc{0.5, signDouble} },
	"Softplus":  plainly(softplus),
	"Mish":      plainly(func(x float64) float64 { return x * math.Tanh(softplus(x)) }),
	"HardSwish": plainly(func(x float64) float64 { return x * bounded(x/6+0.5, 0, 1) }),
	"HardSigmoid": with(0.2, "beta", 0.5, func(a, b, x float64) float64 {
		return bounded(a*x+b, 0, 1)
	}),
	"LeakyRelu": with(0.01, "", 0, func(a, _, x float64) float64 {
		if x < 0 {
			return a * x
		}
		return x
	}),
	"ThresholdedRelu": with(1, "", 0, func(a, _, x float64) float64 {
		if x > a || x != x {
			return x
		}
		return 0
	}),
	"Elu": with(1, "", 0, func(a, _, x float64) float64 {
		if x < 0 {
			return a * math.Expm1(x)
		}
		return x
	}),
	"Celu": with(1, "", 0, func(a, _, x float64) float64 { return max(0, x) + min(0, a*math.Expm1(x/a)) }),
	"Selu": with(1.67326319217681884765625, "gamma", 1.05070102214813232421875, func(a, g, x float64) float64 {
		if x > 0 {
			return g * x
		}
		return g * a * math.Expm1(x)
	}),
}

func planDoubleUnary(p *planner, n *graph.Node) error {
	fn, kernels := doubleUnaries[n.Op.Name](n), p.doubles()
	elements(p, p.In(n.Inputs[0]), p.Out(n.Outputs[0]), product(p.Dims[n.Outputs[0].ID]), fn.nanos, func(d, s []float64) { fn.apply(kernels, d, s) })
	return nil
}

// doubleClipSignatures: bounds are attributes, or operands of one element each.
func doubleClipSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, v := range n.Inputs[1:] {
		if v != nil && len(v.Type.Shape) != 0 {
			return nil, property.Because(property.ShapeReason, "the bound %v is %v", v, v.Type)
		}
	}
	return operators.RowMajor(n), nil
}

func planDoubleClip(p *planner, n *graph.Node) error {
	src, dst, kernels := p.In(n.Inputs[0]), p.Out(n.Outputs[0]), p.doubles()
	lo, hi := math.Inf(-1), math.Inf(1)
	low, high := place.Nowhere, place.Nowhere
	if n.Op.Since < 11 {
		lo, hi = float64(n.Float("min", -math.MaxFloat32)), float64(n.Float("max", math.MaxFloat32))
	} else {
		low, high = p.In(n.Input(1)), p.In(n.Input(2))
	}
	count := product(p.Dims[n.Outputs[0].ID])
	p.emit(step{chunks: ceilDiv(count, elementsPerChunk), grain: grainFor(elementsPerChunk * 0.3), body: func(st *state, _, from, to int) {
		d, s := f64(st, dst), f64(st, src)
		bound := func(m place.Memory, x float64) [1]float64 {
			if v := f64(st, m); len(v) > 0 {
				x = v[0]
			}
			return [1]float64{x}
		}
		a, b := bound(low, lo), bound(high, hi)
		for at, to := from*elementsPerChunk, min(to*elementsPerChunk, count); at < to; at += nearDoubles {
			out := d[at:min(at+nearDoubles, to)]
			kernels.Binary(double.Max, double.VS, out, s[at:], a[:])
			kernels.Binary(double.Min, double.VS, out, out, b[:])
		}
	}}, []place.Memory{src, low, high}, []place.Memory{dst})
	return nil
}

// signDouble writes signs: numbers so large, where they are not 0 or NaN, that they lie beyond -1 and 1, which are their bounds.
func signDouble(k double.Kernels, d, s []float64) {
	one, minus := [1]float64{1}, [1]float64{-1}
	for len(s) > 0 {
		out := d[:min(len(s), nearDoubles)]
		k.Scale(out, s[:len(out)], 0x1p1023)
		k.Scale(out, out, 0x1p1023) // of the least numbers, once is not enough
		k.Binary(double.Min, double.VS, out, out, one[:])
		k.Binary(double.Max, double.VS, out, out, minus[:])
		d, s = d[len(out):], s[len(out):]
	}
}

func init() {
	for name, fn := range floatFunctions {
		doubleUnaries[name] = plainly(fn)
	}
	for name := range doubleUnaries {
		registerDoubles(operator{Settle: overFirst, Plan: planDoubleUnary}, 0, name)
	}
	registerDoubles(operator{Signatures: doubleClipSignatures, Settle: overFirst, Plan: planDoubleClip}, 0, "Clip")
}
