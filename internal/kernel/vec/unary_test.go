package vec_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
)

// unaryCase is a function with its exact value and how far the kernel may be from it, in units in the last place, or (with
// ulps = 0) by 1e-6 absolute or relative.
type unaryCase struct {
	op   vec.Op
	p    vec.Params
	ulps float64
	f    func(x float64) float64
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func bound(x, lo, hi float64) float64 {
	if x < lo {
		return lo
	}
	if x > hi {
		return hi
	}
	return x
}

func shrink(x, lambda, bias float64) float64 {
	switch {
	case x < -lambda:
		return x + bias
	case x > lambda:
		return x - bias
	}
	return 0
}

var unaryCases = []unaryCase{
	{vec.Exp, vec.Params{}, 2, math.Exp},
	{vec.Log, vec.Params{}, 4, math.Log},
	{vec.Tanh, vec.Params{}, 0, math.Tanh},
	{vec.Sigmoid, vec.Params{}, 4, logistic},
	{vec.Erf, vec.Params{}, 0, math.Erf},
	{vec.Sqrt, vec.Params{}, 0.5, math.Sqrt},
	{vec.Rsqrt, vec.Params{}, 1.5, func(x float64) float64 { return 1 / math.Sqrt(x) }},
	{vec.Reciprocal, vec.Params{}, 0.5, func(x float64) float64 { return 1 / x }},
	{vec.Abs, vec.Params{}, 0, math.Abs},
	{vec.Neg, vec.Params{}, 0, func(x float64) float64 { return -x }},
	{vec.Square, vec.Params{}, 0.5, func(x float64) float64 { return x * x }},
	{vec.Cube, vec.Params{}, 1.5, func(x float64) float64 { return x * x * x }},
	{vec.Relu, vec.Params{}, 0.5, func(x float64) float64 { return math.Max(x, 0) }},
	{vec.LeakyRelu, vec.Params{A: 0.125}, 0.5, func(x float64) float64 {
		if x < 0 {
			return 0.125 * x
		}
		return x
	}},
	{vec.Clip, vec.Params{A: -1.5, B: 2}, 0.5, func(x float64) float64 { return bound(x, -1.5, 2) }},
	{vec.Elu, vec.EluParams(0.75), 4, func(x float64) float64 {
		if x > 0 {
			return x
		}
		return 0.75 * math.Expm1(x)
	}},
	{vec.Elu, vec.SeluParams(1.5, 1.25), 4, func(x float64) float64 {
		if x > 0 {
			return 1.25 * x
		}
		return 1.25 * 1.5 * math.Expm1(x)
	}},
	{vec.Elu, vec.CeluParams(2), 4, func(x float64) float64 {
		if x > 0 {
			return x
		}
		return 2 * math.Expm1(x/2)
	}},
	{vec.HardSigmoid, vec.Params{A: 0.25, B: 0.5}, 1.5, func(x float64) float64 { return bound(0.25*x+0.5, 0, 1) }},
	{vec.HardSwish, vec.Params{}, 0, func(x float64) float64 { return x * bound(x/6+0.5, 0, 1) }},
	{vec.Silu, vec.Params{}, 4, func(x float64) float64 { return x / (1 + math.Exp(-x)) }},
	{vec.Swish, vec.Params{A: 2}, 4, func(x float64) float64 { return x / (1 + math.Exp(-2*x)) }},
	{vec.Swish, vec.Params{A: 1.75}, 0, func(x float64) float64 { return x / (1 + math.Exp(-1.75*x)) }},
	{vec.GeluErf, vec.Params{}, 0, func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }},
	{vec.GeluTanh, vec.Params{}, 0, func(x float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}},
	{vec.Softplus, vec.Params{}, 4, softplus},
	{vec.Mish, vec.Params{}, 4, func(x float64) float64 { return x * math.Tanh(softplus(x)) }},
	{vec.Floor, vec.Params{}, 0.5, math.Floor},
	{vec.Ceil, vec.Params{}, 0.5, math.Ceil},
	{vec.Round, vec.Params{}, 0.5, math.RoundToEven},
	{vec.Sin, vec.Params{}, 2, math.Sin},
	{vec.Cos, vec.Params{}, 2, math.Cos},
	{vec.Tan, vec.Params{}, 4, math.Tan},
	{vec.Asin, vec.Params{}, 3, math.Asin},
	{vec.Acos, vec.Params{}, 3, math.Acos},
	{vec.Atan, vec.Params{}, 3, math.Atan},
	{vec.Sinh, vec.Params{}, 3, math.Sinh},
	{vec.Cosh, vec.Params{}, 3, math.Cosh},
	{vec.Softsign, vec.Params{}, 1.5, func(x float64) float64 {
		if math.Abs(x) > math.MaxFloat32 {
			return math.NaN()
		}
		return x / (1 + math.Abs(x))
	}},
	{vec.Sign, vec.Params{}, 0.5, func(x float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return x
	}},
	{vec.Threshold, vec.Params{A: 0.5}, 0.5, func(x float64) float64 {
		if x <= 0.5 {
			return 0
		}
		return x
	}},
	{vec.Threshold, vec.Params{A: -1.5}, 0.5, func(x float64) float64 {
		if x <= -1.5 {
			return 0
		}
		return x
	}},
	{vec.Shrink, vec.Params{A: 0.5, B: 0.25}, 0.5, func(x float64) float64 { return shrink(x, 0.5, 0.25) }},
	{vec.Shrink, vec.Params{A: -0.5, B: -1}, 0.5, func(x float64) float64 { return shrink(x, -0.5, -1) }},
	{vec.FakeQuantize, vec.Params{A: 0.3, B: -100, C: 155}, 0.5, func(x float64) float64 {
		const scale = float32(0.3)
		if x != x {
			return float64(scale) * -100
		}
		return float64(scale) * bound(math.RoundToEven(float64(float32(x)/scale)), -100, 155)
	}},
}

// tolerance returns how far a result may be from want.
func (u unaryCase) tolerance(want float64) float64 {
	if u.ulps == 0 {
		return max(1e-6, 1e-6*math.Abs(want))
	}
	least := 0x1p-149
	if u.op == vec.Exp {
		least = 0x1p-126 // 0 in place of subnormal numbers
	}
	if u.op == vec.Sigmoid || u.op == vec.Silu || u.op == vec.Swish || u.op == vec.Mish {
		least = 1e-36
	}
	return u.ulps*ulp(want) + least
}

// samples are values over the whole range of float32 and densely where functions bend.
func samples() []float32 {
	xs := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, inf, -inf, nan, math.MaxFloat32, -math.MaxFloat32,
		0x1p-126, -0x1p-126, 0x1p-149, -0x1p-149, 0x1p-130, 88.72284, 88.72283, -87.33655, -87.5, -103.9, -104.5, 8388609, -8388609, 0.75, 0.74999994, 1.4999999}
	rng := rand.New(rand.NewPCG(1, 2))
	for x := -110.0; x <= 110; x += 0.0137 {
		xs = append(xs, float32(x))
	}
	for x := -10.0; x <= 10; x += 0.00091 {
		xs = append(xs, float32(x))
	}
	for range 20000 {
		xs = append(xs, math.Float32frombits(rng.Uint32()))
	}
	for x := -1.0; x <= 1; x += 0.00013 {
		xs = append(xs, float32(x))
	}
	for e := -30; e <= 10; e++ {
		for range 50 {
			xs = append(xs, float32(math.Ldexp(1+rng.Float64(), e)), float32(-math.Ldexp(1+rng.Float64(), e)))
		}
	}
	return xs
}

var _ = Describe("Apply", func() {
	It("has a case for each function", func() {
		seen := map[vec.Op]bool{}
		for _, u := range unaryCases {
			seen[u.op] = true
		}
		for _, op := range vec.Ops() {
			Expect(seen).To(HaveKey(op), "%v", op)
		}
	})

	for _, u := range unaryCases {
		It(fmt.Sprintf("computes %v(%v)", u.op, u.p), func() {
			xs := samples()
			onTargets(func(t isa.Target, k vec.Kernels) {
				got := make([]float32, len(xs))
				k.Apply(u.op, got, xs, u.p)
				worst, where := 0.0, float32(0)
				for i, x := range xs {
					want := u.f(float64(x))
					if math.IsInf(float64(x), -1) && (u.op == vec.Silu || u.op == vec.Swish || u.op == vec.Mish || u.op == vec.GeluErf || u.op == vec.GeluTanh) {
						want = math.NaN()
					}
					if u.op == vec.GeluTanh && math.Abs(float64(x)) > 1e12 && math.Abs(float64(x)) < math.MaxFloat64 {
						want = math.Max(float64(x), 0) // x³ leaves the range of float32
					}
					if !same(got[i], want, u.tolerance(want)) {
						Fail(fmt.Sprintf("%v %v(%v) = %v, not %v: %.2f ulp", t, u.op, x, got[i], want, (float64(got[i])-want)/ulp(want)))
					}
					if d := math.Abs(float64(got[i])-want) / ulp(want); d > worst && math.Abs(want) >= 0x1p-126 && math.Abs(want) <= math.MaxFloat32 {
						worst, where = d, x
					}
				}
				AddReportEntry(fmt.Sprintf("%v: worst %.2f ulp at %v", t, worst, where), ReportEntryVisibilityFailureOrVerbose)
			})
		})
	}

	It("computes sines, cosines and tangents as far as kernels reach, near quarters of a turn too, and beyond", func() {
		rng := rand.New(rand.NewPCG(5, 6))
		var xs []float32
		for range 4000 {
			quarter := float32(float64(rng.IntN(63000)) * math.Pi / 2)
			xs = append(xs, quarter, -quarter, math.Nextafter32(quarter, inf), math.Nextafter32(quarter, 0), (2*rng.Float32()-1)*1e5, (2*rng.Float32()-1)*10, rng.Float32()*1e-3)
		}
		onTargets(func(t isa.Target, k vec.Kernels) {
			for _, far := range [][]float32{nil, {1.1e5}, {-inf}, {nan}} {
				xs := xs
				if far != nil {
					xs = append(slices.Clone(xs[:100]), far...)
				}
				for op, f := range map[vec.Op]func(float64) float64{vec.Sin: math.Sin, vec.Cos: math.Cos, vec.Tan: math.Tan} {
					got := make([]float32, len(xs))
					k.Apply(op, got, xs, vec.Params{})
					for i, x := range xs {
						if want := f(float64(x)); !same(got[i], want, map[bool]float64{false: 2, true: 4}[op == vec.Tan]*ulp(want)+0x1p-149) {
							Fail(fmt.Sprintf("%v %v(%v) = %v, not %v: %.2f ulp", t, op, x, got[i], want, (float64(got[i])-want)/ulp(want)))
						}
					}
				}
			}
		})
	})

	It("gives no exponentials that are subnormal, which would make whatever reads them slow", func() {
		onTargets(func(t isa.Target, k vec.Kernels) {
			if t.Set != isa.AVX2 && t.Set != isa.AVX512 {
				return // processors of arm64 compute with subnormal numbers as fast
			}
			for x := float32(-104); x < -87; x += 0x1p-8 {
				got := []float32{x}
				k.Apply(vec.Exp, got, got, vec.Params{})
				Expect(got[0] == 0 || got[0] >= 0x1p-126).To(BeTrue(), "%v: e^%v is %g", t, x, got[0])
			}
		})
	})

	It("works on every length and stride, in place or not, and touches nothing else", func() {
		rng := rand.New(rand.NewPCG(3, 4))
		onTargets(func(t isa.Target, k vec.Kernels) {
			for _, u := range unaryCases {
				for cols := 1; cols <= 35; cols++ {
					rows := 1 + cols%3
					side := guard.Side(cols % 2)
					src := newMatrix(rows, cols, cols+cols%4, side, func(int, int) float32 { return rng.Float32()*4 + 0.1 })
					dst := newMatrix(rows, cols, cols+cols%5, side, nil)
					k.ApplyRows(u.op, dst.Data, dst.ld, src.Data, src.ld, rows, cols, u.p)
					want := func(r, c int) (float64, float64) {
						v := u.f(float64(src.at(r, c)))
						return v, u.tolerance(v)
					}
					Expect(dst.compare(want)).To(Succeed(), "%v %v %d", t, u.op, cols)
					first := append([]float32(nil), src.Data...)
					k.ApplyRows(u.op, src.Data, src.ld, src.Data, src.ld, rows, cols, u.p)
					for r := range rows {
						for c := range cols {
							Expect(math.Float32bits(src.at(r, c))).To(Equal(math.Float32bits(dst.at(r, c))))
						}
					}
					copy(src.Data, first)
					dst.verify(u.op.String(), want, src)
				}
			}
		})
	})

	It("divides long work without a seam", func() {
		onTargets(func(_ isa.Target, k vec.Kernels) {
			for _, shape := range [][2]int{{1, 100_003}, {3, 40_001}, {70_000, 1}, {700, 101}} {
				x := make([]float32, shape[0]*shape[1])
				for i := range x {
					x[i] = float32(i)
				}
				y := make([]float32, len(x))
				k.ApplyRows(vec.Neg, y, shape[1], x, shape[1], shape[0], shape[1], vec.Params{})
				for i := range y {
					if y[i] != -float32(i) {
						Fail(fmt.Sprintf("%v: element %d is %v", shape, i, y[i]))
					}
				}
			}
		})
	})

	It("allocates nothing", func() {
		x := make([]float32, 100)
		onTargets(func(_ isa.Target, k vec.Kernels) {
			Expect(testing.AllocsPerRun(5, func() {
				k.Apply(vec.GeluErf, x, x, vec.Params{})
				k.BinaryScalar(vec.Add, x, x, 1)
				k.ReduceColumns(vec.ReduceMax, x[:1], x, 1, 100, 1)
			})).To(BeZero())
		})
	})

	It("panics on short slices and unknown functions, and does nothing for no elements", func() {
		Expect(func() { host.Apply(vec.Exp, make([]float32, 2), make([]float32, 3), vec.Params{}) }).To(Panic())
		Expect(func() { host.Apply(vec.Op(200), make([]float32, 3), make([]float32, 3), vec.Params{}) }).To(Panic())
		Expect(vec.Op(200).String()).To(Equal("op(200)"))
		host.Apply(vec.Exp, nil, nil, vec.Params{})
	})
})

var _ = Describe("Pow", func() {
	It("agrees with math.Pow", func() {
		all := samples()
		above := slices.DeleteFunc(slices.Clone(all), func(x float32) bool { return !(x > 0) }) // of which roots are taken
		for _, y := range []float32{2, 3, 1, -1, 0, 0.25, -0.25, 0.5, -0.5, 0.75, -0.75, 2.5, -3, 4, 7, 8, -2, -8, 9, 0.1, inf, nan} {
			for _, xs := range [][]float32{all, above} {
				onTargets(func(t isa.Target, k vec.Kernels) {
					got := make([]float32, len(xs))
					k.Pow(got, xs, y)
					for i, x := range xs {
						want := math.Pow(float64(x), float64(y))
						if !same(got[i], want, 2*ulp(want)+0x1p-149) {
							Fail(fmt.Sprintf("%v %v^%v = %v, not %v", t, x, y, got[i], want))
						}
					}
				})
			}
		}
		host.Pow(nil, nil, 2)
	})

	It("takes logarithms of positive normal numbers as math.Log does", func() {
		r := rand.New(rand.NewPCG(5, 6))
		for range 100_000 {
			x := math.Exp(math.Max(-700, math.Min(700, r.NormFloat64()*[]float64{1e-3, 1, 200}[r.IntN(3)])))
			want := math.Log(x)
			if got := vec.Logarithm(x); !(math.Abs(got-want) <= 1e-15*math.Abs(want)) {
				Fail(fmt.Sprintf("ln %v = %v, not %v", x, got, want))
			}
		}
		for _, x := range []float64{0, -1, math.Inf(1), math.Inf(-1), math.NaN(), 5e-324} {
			Expect(math.IsNaN(vec.Logarithm(x))).To(BeTrue())
		}
	})

	It("agrees with math.Pow to an ulp, whatever the exponents, one by one and in rows", func() {
		r := rand.New(rand.NewPCG(3, 4))
		for _, t := range isa.Targets() {
			for range 400 {
				n := r.IntN(700)
				x, y := make([]float32, n), make([]float32, n+1)
				for i := range y {
					y[i] = float32(r.NormFloat64() * math.Exp(3*r.NormFloat64()))
					if r.IntN(20) == 0 {
						y[i] = []float32{0, 1, -1, 2.5, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1<<24 - 1, 1 << 24, 1 << 25, -1 << 31}[r.IntN(11)]
					} else if r.IntN(3) == 0 {
						y[i] = float32(r.IntN(61) - 30)
					}
				}
				for i := range x {
					if x[i] = math.Float32frombits(r.Uint32()); r.IntN(2) == 0 {
						x[i] = float32(math.Exp(r.NormFloat64())) // near 1, where few bits are lost
					}
					switch r.IntN(8) {
					case 0:
						x[i] = -x[i]
					case 1:
						x[i] = -1
					}
				}
				by := r.IntN(2)
				if n > 0 && r.IntN(4) == 0 {
					x = x[:1] // for all
				}
				got := make([]float32, n)
				vec.For(t).Powers(got, x, y, by)
				for i := range got {
					x, y := x[min(i, len(x)-1)], y[i*by]
					want := math.Pow(float64(x), float64(y))
					if !same(got[i], want, ulp(want)) {
						Fail(fmt.Sprintf("%v: %v^%v = %v, not %v", t.Set, x, y, got[i], want))
					}
					if one := vec.Power(x, y); !same(one, want, ulp(want)) {
						Fail(fmt.Sprintf("%v^%v = %v, not %v", x, y, one, want))
					}
				}
			}
		}
	})
})
