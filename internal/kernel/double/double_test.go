package double_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// everyTarget runs body once per target of this machine.
func everyTarget(body func(k double.Kernels, target isa.Target)) {
	for _, t := range isa.Targets() {
		body(double.For(t), t)
	}
}

// guarded returns n numbers next to a forbidden page, and a check that nothing around them was written, which frees them.
func guarded(n int, side guard.Side) ([]float64, func()) {
	GinkgoHelper()
	b, err := guard.New(2*n, side)
	Expect(err).NotTo(HaveOccurred())
	check := func() {
		GinkgoHelper()
		Expect(b.Check()).To(Succeed())
		Expect(b.Free()).To(Succeed())
	}
	if n == 0 {
		return nil, check
	}
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(b.Data))), n), check
}

// odd are numbers at the ends of the range, and none.
var odd = []float64{0, math.Copysign(0, -1), 1, -1, 5e-324, -5e-324, 1e-310, 2.3e-308, math.MaxFloat64, -math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(),
	709.7, 709.8, 710.5, -708.5, -745.1, -745.2, -746.5, 0.34657, 0.34658, 19.9, 20.1, -22, 1e-8, -1e-17}

// number returns a random number, one of the odd ones now and then.
func number(rng *rand.Rand) float64 {
	if rng.IntN(8) == 0 {
		return odd[rng.IntN(len(odd))]
	}
	return rng.NormFloat64() * math.Exp(rng.NormFloat64()*3)
}

// apart returns how many units in the last place of want lie between two numbers; 0 where both are NaN.
func apart(got, want float64) float64 {
	if got == want || math.IsNaN(got) && math.IsNaN(want) {
		return 0
	}
	unit := math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want)
	return math.Abs(got-want) / unit
}

var binaryFuncs = []func(a, b float64) float64{
	func(a, b float64) float64 { return a + b }, func(a, b float64) float64 { return a - b }, func(a, b float64) float64 { return a * b },
	func(a, b float64) float64 { return a / b }, func(a, b float64) float64 { return max(a, b) }, func(a, b float64) float64 { return min(a, b) },
	func(a, b float64) float64 {
		if a < 0 {
			return a * b
		}
		return a
	},
}

var _ = Describe("Binary", func() {
	It("computes every length and form, without touching what lies outside", func() {
		rng := rand.New(rand.NewPCG(1, 2))
		everyTarget(func(k double.Kernels, target isa.Target) {
			for op, f := range binaryFuncs {
				for form := range 3 {
					for n := range 40 {
						side := guard.Side(rng.IntN(2))
						length := func(one bool) int {
							if one {
								return 1
							}
							return n
						}
						a, checkA := guarded(length(form == int(double.SV)), side)
						b, checkB := guarded(length(form == int(double.VS)), side)
						d, checkD := guarded(n, side)
						for i := range a {
							a[i] = number(rng)
						}
						for i := range b {
							b[i] = number(rng)
						}
						k.Binary(double.BinaryOp(op), double.Form(form), d, a, b)
						for i := range d {
							want := f(a[min(i, len(a)-1)], b[min(i, len(b)-1)])
							Expect(apart(d[i], want)).To(BeZero(), "%v op %d form %d: %v, not %v", target, op, form, d[i], want)
						}
						checkA()
						checkB()
						checkD()
					}
				}
			}
		})
	})

	It("divides what is long", func() {
		everyTarget(func(k double.Kernels, _ isa.Target) {
			const n = 40001
			x, y := make([]float64, n), []float64{3}
			for i := range x {
				x[i] = float64(i)
			}
			d := make([]float64, n)
			k.Binary(double.Sub, double.SV, d, y, x)
			k.MulAdd(d, x, 2)
			Expect(d[n-1]).To(Equal(3.0 + n - 1))
			Expect(k.Reduce(double.Sum, d)).To(Equal(3.0*n + n*(n-1)/2))
			Expect(k.Reduce(double.Greatest, d)).To(Equal(3.0 + n - 1))
			Expect(k.Reduce(double.Least, d)).To(Equal(3.0))
			k.Apply(double.Neg, d, d)
			Expect(d[20000]).To(Equal(-20003.0))
		})
	})
})

var _ = Describe("rows of sums", func() {
	It("are those of products with a number each", func() {
		r := rand.New(rand.NewPCG(1, 2))
		everyTarget(func(k double.Kernels, target isa.Target) {
			for range 60 {
				n, rows := r.IntN(40), r.IntN(7)
				if r.IntN(10) == 0 {
					n = 16000 + r.IntN(800)
				}
				ld := n + r.IntN(4)
				x, by, dst := make([]float64, n), make([]float64, rows), make([]float64, max(0, (rows-1)*ld+n))
				for _, row := range [][]float64{x, by, dst} {
					for i := range row {
						row[i] = float64(r.IntN(100)) // sums are exact
					}
				}
				want := slices.Clone(dst)
				for i, f := range by {
					for c, v := range x {
						want[i*ld+c] += v * f
					}
				}
				k.MulAddRows(dst, ld, x, by)
				Expect(slices.Equal(dst, want)).To(BeTrue(), "%d rows of %d, %d apart, with %v", rows, n, ld, target)
			}
		})
	})
})

// exactExp returns e^x, correctly rounded, by the series of numbers of 260 bits.
func exactExp(x float64) float64 {
	if !(math.Abs(x) < 760) {
		return math.Exp(x)
	}
	n := math.Round(x / math.Ln2)
	ln2, _, _ := big.ParseFloat("0.693147180559945309417232121458176568075500134360255254120680009493393621969694716", 10, 260, big.ToNearestEven)
	r := new(big.Float).SetPrec(260).SetFloat64(n)
	r.Sub(new(big.Float).SetPrec(260).SetFloat64(x), r.Mul(r, ln2))
	sum, term := big.NewFloat(1).SetPrec(260), big.NewFloat(1).SetPrec(260)
	for k := 1; k < 40; k++ {
		term.Mul(term, r)
		term.Quo(term, big.NewFloat(float64(k)).SetPrec(260))
		sum.Add(sum, term)
	}
	y, _ := sum.SetMantExp(sum, int(n)).Float64()
	return y
}

// exactSine returns sin (x + quarters·π/2), correctly rounded, by the series of numbers of 260 bits.
func exactSine(x float64, quarters int) float64 {
	if !(math.Abs(x) < 1e9) || x == 0 && quarters == 0 {
		return [2]func(float64) float64{math.Sin, math.Cos}[quarters](x)
	}
	number := func(f float64) *big.Float { return new(big.Float).SetPrec(260).SetFloat64(f) }
	half, _, _ := big.ParseFloat("1.57079632679489661923132169163975144209858469968755291048747229615390820314310449931401741267105853399107404326", 10, 260, big.ToNearestEven)
	n := math.Round(x / (math.Pi / 2))
	r := number(x)
	r.Sub(r, new(big.Float).SetPrec(260).Mul(number(n), half))
	quadrant := (int(n)%4 + 4 + quarters) % 4
	term, k := number(1), 0.0
	if quadrant%2 == 0 {
		term, k = new(big.Float).Copy(r), 1
	}
	sum := new(big.Float).Copy(term)
	for range 30 {
		term.Mul(term, r)
		term.Mul(term, r)
		term.Quo(term, number(-(k+1)*(k+2)))
		sum.Add(sum, term)
		k += 2
	}
	y, _ := sum.Float64()
	if quadrant >= 2 {
		y = -y
	}
	return y
}

var _ = Describe("Apply", func() {
	for _, c := range []struct {
		op   double.Op
		name string
		ulps float64
		f    func(x float64) float64
	}{
		{double.Exp, "Exp", 2, exactExp}, {double.Sigmoid, "Sigmoid", 3, func(x float64) float64 { return 1 / (1 + exactExp(-x)) }},
		{double.Tanh, "Tanh", 5, math.Tanh}, {double.Sqrt, "Sqrt", 0, math.Sqrt}, {double.Abs, "Abs", 0, math.Abs}, {double.Log, "Log", 5, math.Log},
		{double.Sin, "Sin", 2, func(x float64) float64 { return exactSine(x, 0) }}, {double.Cos, "Cos", 2, func(x float64) float64 { return exactSine(x, 1) }},
		{double.Neg, "Neg", 0, func(x float64) float64 { return -x }},
		{double.Round, "Round", 0, math.RoundToEven}, {double.Floor, "Floor", 0, math.Floor}, {double.Ceil, "Ceil", 0, math.Ceil},
	} {
		It("computes "+c.name+" of every length, without touching what lies outside", func() {
			rng := rand.New(rand.NewPCG(3, 4))
			everyTarget(func(k double.Kernels, target isa.Target) {
				for round := range 120 {
					n := round % 40
					x, checkX := guarded(n, guard.Side(rng.IntN(2)))
					d, checkD := guarded(n, guard.Side(rng.IntN(2)))
					for i := range x {
						switch x[i] = number(rng); {
						case c.op == double.Log && rng.IntN(2) == 0:
							x[i] = math.Exp(rng.NormFloat64() * []float64{1e-3, 1, 200}[rng.IntN(3)])
						case c.op == double.Sin || c.op == double.Cos:
							if rng.IntN(2) == 0 { // near a multiple of π/2, or between two
								x[i] = math.Round(rng.NormFloat64()*math.Exp2(float64(rng.IntN(23)))) * math.Pi / 4
							}
							if math.Abs(x[i]) > 1<<24 { // as package math has it
								x[i] = math.Copysign(math.Inf(1), x[i])
							}
						}
					}
					k.Apply(c.op, d, x)
					for i := range d {
						want := c.f(x[i])
						if c.op == double.Sigmoid && want < 1e-300 {
							Expect(d[i]).To(BeNumerically("~", want, 1e-300))
							continue
						}
						if target.Set == isa.Portable && (c.op == double.Sin || c.op == double.Cos) { // package math loses digits next to multiples of π
							want = d[i] + max(0, math.Abs(want-d[i])-0x1p-51)
						}
						Expect(apart(d[i], want)).To(BeNumerically("<=", c.ulps), "%v: of %v it is %v, not %v", target, x[i], d[i], want)
					}
					checkX()
					checkD()
				}
			})
		})
	}
})

var _ = Describe("rows", func() {
	It("are reduced as sums in order are", func() {
		rng := rand.New(rand.NewPCG(5, 6))
		everyTarget(func(k double.Kernels, target isa.Target) {
			for round := range 200 {
				n := 1 + round%67
				x, check := guarded(n, guard.Side(rng.IntN(2)))
				sum, squares, size := 0.0, 0.0, 0.0
				for i := range x {
					x[i] = rng.NormFloat64()
					sum, squares, size = sum+x[i], squares+x[i]*x[i], size+math.Abs(x[i])
				}
				Expect(k.Reduce(double.Sum, x)).To(BeNumerically("~", sum, size*1e-15), "%v", target)
				Expect(k.Reduce(double.SumSquares, x)).To(BeNumerically("~", squares, squares*1e-14), "%v", target)
				Expect(k.Reduce(double.SumAbs, x)).To(BeNumerically("~", size, size*1e-15), "%v", target)
				Expect(k.Reduce(double.Greatest, x)).To(Equal(slices.Max(x)), "%v", target)
				Expect(k.Reduce(double.Least, x)).To(Equal(slices.Min(x)), "%v", target)
				x[rng.IntN(n)] = math.NaN()
				for op := double.Sum; op <= double.Least; op++ {
					Expect(math.IsNaN(k.Reduce(op, x))).To(BeTrue(), "%v reduction %d of %d", target, op, n)
				}
				check()
			}
			Expect(k.Reduce(double.Sum, nil)).To(BeZero())
			Expect(k.LogSumExp([]float64{math.Inf(-1)})).To(Equal(math.Inf(-1)))
			Expect(k.LogSumExp([]float64{1, math.Inf(1)})).To(Equal(math.Inf(1)))
			Expect(k.Reduce(double.Greatest, []float64{math.Inf(-1)})).To(Equal(math.Inf(-1)))
		})
	})

	It("have logarithms of sums of powers, together as one by one", func() {
		rng := rand.New(rand.NewPCG(9, 10))
		everyTarget(func(k double.Kernels, target isa.Target) {
			for n := range 20 {
				for _, rows := range []int{0, 1, 7, 300} {
					x, got := make([]float64, rows*n), make([]float64, rows)
					for i := range x {
						x[i] = []float64{rng.NormFloat64() * 30, rng.NormFloat64(), math.Inf(-1), math.Inf(1), math.NaN()}[min(rng.IntN(100), 98)%[]int{2, 2, 5}[rng.IntN(3)]]
					}
					k.LogSumExps(got, x, n)
					for i, y := range got {
						want := k.LogSumExp(x[i*n : (i+1)*n])
						Expect(y == want || math.Abs(y-want) <= 1e-14*(1+math.Abs(want)) || y != y && want != want).To(BeTrue(), "%v row %v: %v, not %v", target, x[i*n:(i+1)*n], y, want)
					}
				}
			}
		})
	})

	It("have softmaxes, together as one by one", func() {
		rng := rand.New(rand.NewPCG(11, 12))
		everyTarget(func(k double.Kernels, target isa.Target) {
			for n := range 20 {
				for _, rows := range []int{0, 1, 7, 700} {
					x, got, want := make([]float64, rows*n), make([]float64, rows*n), make([]float64, n)
					for i := range x {
						if x[i] = rng.NormFloat64() * 30; rng.IntN(50) == 0 {
							x[i] = []float64{math.Inf(-1), math.Inf(1), math.NaN()}[rng.IntN(3)]
						}
					}
					logarithm := rng.IntN(2) == 0
					k.Softmaxes(got, x, n, logarithm)
					for i := 0; i < len(x); i += n {
						k.Softmax(want, x[i:i+n], logarithm)
						for j, y := range want {
							Expect(y == got[i+j] || math.Abs(y-got[i+j]) <= 1e-14*(1+math.Abs(y)) || y != y && got[i+j] != got[i+j]).To(BeTrue(), "%v row %v", target, x[i:i+n])
						}
					}
				}
			}
		})
	})

	It("are normalised", func() {
		rng := rand.New(rand.NewPCG(7, 8))
		everyTarget(func(k double.Kernels, target isa.Target) {
			for n := 1; n < 150; n += 7 {
				x, d := make([]float64, n), make([]float64, n)
				total, mean, squares := 0.0, 0.0, 0.0
				for i := range x {
					x[i] = rng.NormFloat64() * 3
					total, mean, squares = total+math.Exp(x[i]), mean+x[i]/float64(n), squares+x[i]*x[i]/float64(n)
				}
				near := func(what string, want func(i int) float64) {
					for i := range d {
						Expect(d[i]).To(BeNumerically("~", want(i), 1e-13*(1+math.Abs(want(i)))), "%v %s %d of %d", target, what, i, n)
					}
				}
				k.Softmax(d, x, false)
				near("softmax", func(i int) float64 { return math.Exp(x[i]) / total })
				k.Softmax(d, x, true)
				near("logarithm", func(i int) float64 { return x[i] - math.Log(total) })
				Expect(k.LogSumExp(x)).To(BeNumerically("~", math.Log(total), 1e-13), "%v", target)
				variance := 0.0
				for _, v := range x {
					variance += (v - mean) * (v - mean) / float64(n)
				}
				k.Norm(false, d, x, nil, nil, 1e-3)
				near("norm", func(i int) float64 { return (x[i] - mean) / math.Sqrt(variance+1e-3) })
				k.Norm(true, d, x, x, x, 1e-3)
				near("rms", func(i int) float64 { return x[i]/math.Sqrt(squares+1e-3)*x[i] + x[i] })
			}
		})
	})

	It("allocate nothing", func() {
		k, x := double.For(isa.Host()), make([]float64, 100)
		Expect(testing.AllocsPerRun(20, func() {
			k.Softmax(x, x, true)
			k.Norm(false, x, x, nil, nil, 1)
			k.MulAdd(x, x, 0.5)
		})).To(BeZero())
	})
})

var _ = Describe("generated files", func() {
	It("are up to date", func() {
		err := asm.Verify(context.Background(), "gen.go", "gen_math.go", "gen_neon.go")
		if errors.Is(err, exec.ErrNotFound) {
			Skip("no go command")
		}
		Expect(err).NotTo(HaveOccurred())
	})
})

func BenchmarkElements(b *testing.B) {
	for _, t := range isa.Targets() {
		k := double.For(t)
		x, y := make([]float64, 1024), make([]float64, 1024)
		for i := range x {
			x[i] = float64(i%17) - 8
		}
		for _, c := range []struct {
			name string
			run  func()
		}{
			{"add", func() { k.Binary(double.Add, double.VV, y, x, x) }}, {"exp", func() { k.Apply(double.Exp, y, x) }},
			{"tanh", func() { k.Apply(double.Tanh, y, x) }}, {"softmax", func() { k.Softmax(y, x, false) }},
			{"norm", func() { k.Norm(false, y, x, nil, nil, 1e-5) }},
		} {
			b.Run(fmt.Sprintf("%v/%s", t, c.name), func(b *testing.B) {
				for b.Loop() {
					c.run()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x)), "ns/element")
			})
		}
	}
}
