package pairwise_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os/exec"
	"testing"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairwise"
	"github.com/carve-dev/carve/internal/testshare"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go", "gen_neon.go")
	if errors.Is(err, exec.ErrNotFound) {
		Skip("no go command")
	}
	Expect(err).NotTo(HaveOccurred())
})

// buffers are those of the running spec.
var buffers guard.Set

// singles returns n floats with a page behind them, or in front, that faults.
func singles(r *rand.Rand, n int) []float32 {
	GinkgoHelper()
	b, err := buffers.New(n, []guard.Side{guard.End, guard.Start}[r.IntN(2)], DeferCleanup)
	Expect(err).NotTo(HaveOccurred())
	return b.Data[:n:n]
}

// guarded returns n such numbers of float64, random where fill is set.
func guarded(r *rand.Rand, n int, fill bool) []float64 {
	GinkgoHelper()
	s := singles(r, 2*n)
	x := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(s))), n)
	for i := range x {
		if fill {
			x[i] = r.NormFloat64()
		}
	}
	return x
}

var _ = It("products and distances are those of the definition, for every instruction set, and the same bits for a row whatever stands beside it", func() {
	r := rand.New(rand.NewPCG(1, 2))
	for _, t := range isa.Targets() {
		kernels := pairwise.For(t)
		for range testshare.Of(200) {
			rows, n, length := r.IntN(20), r.IntN(40), 1+r.IntN(30)
			first := r.IntN(length)
			count := r.IntN(length - first + 1)
			distances := r.IntN(2) == 0
			if distances {
				first, count = 0, length
			}
			vectors := guarded(r, n*length, true)
			p := pairwise.Pack(vectors, n, length)
			width := pairwise.Width(n)
			ldd, ldx := width+r.IntN(5), count+r.IntN(5)
			extent := func(width, ld int) int {
				if rows == 0 {
					return 0
				}
				return (rows-1)*ld + width
			}
			x, y := guarded(r, extent(count, ldx), true), guarded(r, extent(width, ldd), false)
			one := make([]float64, width)
			if distances {
				kernels.Distances(y, ldd, x, ldx, rows, p)
			} else {
				kernels.Products(y, ldd, x, ldx, rows, p, first, count)
			}
			for i := range rows {
				row := x[i*ldx:][:count]
				if distances {
					kernels.Distances(one, width, row, count, 1, p)
				} else {
					kernels.Products(one, width, row, count, 1, p, first, count)
				}
				Expect(y[i*ldd:][:width]).To(Equal(one))
				for v := range n {
					want, size := 0.0, 0.0
					for j, a := range row {
						b := vectors[v*length+first+j]
						term := a * b
						if distances {
							term = (a - b) * (a - b)
						}
						want += term
						size += math.Abs(term)
					}
					Expect(one[v]).To(BeNumerically("~", want, 1e-14*size), "%v %d %d", t.Set, i, v)
				}
			}
		}
		Expect(func() {
			kernels.Products(make([]float64, 8), 8, make([]float64, 3), 3, 1, pairwise.Pack(make([]float64, 4), 1, 4), 2, 3)
		}).To(Panic())
	}
})

var _ = It("products of rows of float32 with one vector are those of the definition, and the same bits for a row whatever stands beside it", func() {
	r := rand.New(rand.NewPCG(7, 8))
	for _, t := range isa.Targets() {
		for range testshare.Of(200) {
			rows, k := 1+r.IntN(9), r.IntN(40)
			ldx, bias := k+r.IntN(3), r.NormFloat64()
			x, w, y, one := singles(r, (rows-1)*ldx+k), guarded(r, k, true), guarded(r, rows, false), make([]float64, 1)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			pairwise.For(t).Dots(y, x, ldx, w, bias)
			for i := range rows {
				row := x[i*ldx:][:k]
				pairwise.For(t).Dots(one, row, k, w, bias)
				Expect(y[i]).To(Equal(one[0]))
				want, size := bias, math.Abs(bias)
				for j, v := range row {
					want += float64(v) * w[j]
					size += math.Abs(float64(v) * w[j])
				}
				Expect(y[i]).To(BeNumerically("~", want, 1e-14*size), "%v", t.Set)
			}
		}
		Expect(func() { pairwise.For(t).Dots(make([]float64, 2), make([]float32, 5), 3, make([]float64, 3), 0) }).To(Panic())
	}
})

var _ = It("e^x is so within two units in the last place, and at the ends of the line", func() {
	r := rand.New(rand.NewPCG(3, 4))
	ends := []float64{0, math.Copysign(0, -1), 709, 710, -708.4, -745.1, -745.2, -800, 1e300, -1e300, math.Inf(1), math.Inf(-1), math.NaN(), 1e-300, 5e-324}
	for _, t := range isa.Targets() {
		for trial := range 200 {
			n := r.IntN(40)
			x, scale := guarded(r, n, true), []float64{1, -0.5, 3.7}[r.IntN(3)]
			was := make([]float64, n)
			for i := range x {
				if x[i] *= []float64{1, 10, 300}[r.IntN(3)]; trial%3 == 0 {
					x[i] = ends[r.IntN(len(ends))]
				}
				was[i] = x[i]
			}
			pairwise.For(t).Exp(x, scale)
			for i, got := range x {
				y := was[i] * scale
				want := math.Exp(y)
				if math.IsNaN(want) {
					Expect(math.IsNaN(got)).To(BeTrue())
					continue
				}
				Expect(got == want || math.Abs(got-want) <= 2*(math.Nextafter(want, math.Inf(1))-want)).To(BeTrue(), "%v: e^%v is %v, and not %v", t.Set, y, want, got)
			}
		}
	}
})

var _ = It("powers are products of as many factors, and tangents those of math", func() {
	r := rand.New(rand.NewPCG(7, 8))
	for _, t := range isa.Targets() {
		for range testshare.Of(50) {
			n, degree := r.IntN(2000), 1+r.IntN(8)
			x, shift := guarded(r, n, true), r.NormFloat64()*float64(r.IntN(2))
			was := append([]float64(nil), x...)
			pairwise.For(t).Powers(x, shift, degree)
			for i, got := range x {
				want := math.Pow(was[i]+shift, float64(degree))
				Expect(math.Abs(got-want) <= 1e-14*math.Abs(want)).To(BeTrue(), "%v: (%v + %v)^%d is %v, and not %v", t.Set, was[i], shift, degree, want, got)
			}
			copy(x, was)
			pairwise.For(t).Tangents(x, shift)
			for i, got := range x {
				want := math.Tanh(was[i] + shift)
				Expect(math.Abs(got-want) <= 5e-15*math.Abs(want)).To(BeTrue(), "%v: the tangent of %v + %v is %v, and not %v", t.Set, was[i], shift, want, got)
			}
			if n > 0 {
				y, want, size := guarded(r, n, true), 0.0, 0.0
				for i := range x {
					want += was[i] * y[i]
					size += math.Abs(was[i] * y[i])
				}
				copy(x, was)
				Expect(pairwise.For(t).Dot(x, y)).To(BeNumerically("~", want, 1e-13*size))
			}
		}
	}
})

var _ = It("numbers are converted and standardized as in Go", func() {
	r := rand.New(rand.NewPCG(5, 6))
	for _, t := range isa.Targets() {
		kernels := pairwise.For(t)
		for range testshare.Of(100) {
			n := r.IntN(50)
			x, offset, scale := guarded(r, n, true), guarded(r, n, true), guarded(r, n, true)
			for i := range x {
				if r.IntN(9) == 0 {
					x[i] = []float64{math.NaN(), math.Inf(1), 1e300, 1e-42, math.Copysign(0, -1)}[r.IntN(5)]
				}
			}
			s, wide := singles(r, n), guarded(r, n, false)
			kernels.Narrow(s, x)
			kernels.Widen(wide, s)
			y := singles(r, n)
			kernels.Standardize(y, s, offset, scale)
			for i, v := range x {
				Expect(math.Float32bits(s[i])).To(Equal(math.Float32bits(float32(v))))
				Expect(math.Float64bits(wide[i])).To(Equal(math.Float64bits(float64(s[i]))))
				Expect(math.Float32bits(y[i])).To(Equal(math.Float32bits(float32((wide[i] - offset[i]) * scale[i]))))
			}
		}
	}
})

var _ = It("rows with a bias, and the first of the greatest", func() {
	r := rand.New(rand.NewPCG(13, 14))
	special := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64}
	for _, t := range isa.Targets() {
		for n := 1; n <= 19; n++ {
			for range testshare.Of(12) {
				rows, width := 1+r.IntN(20), pairwise.Width(n)
				x, bias, dst := guarded(r, rows*width, true), guarded(r, n, true), guarded(r, rows*n, false)
				if r.IntN(2) == 0 {
					clear(bias)
					for i := range x {
						x[i] = special[r.IntN(len(special))]
					}
				}
				best := make([]int64, rows)
				if r.IntN(4) == 0 {
					best = nil
				}
				pairwise.For(t).Scores(dst, best, x, bias, rows)
				for i := range rows {
					row, first := dst[i*n:][:n], 0
					for c := range row {
						want := x[i*width+c] + bias[c]
						Expect(row[c] == want || want != want && row[c] != row[c]).To(BeTrue(), "%v: %v, and not %v", t, row[c], want)
						if row[c] > row[first] {
							first = c
						}
					}
					if best != nil {
						Expect(best[i]).To(BeEquivalentTo(first), "%v: %v", t, row)
					}
				}
			}
		}
	}
})

func BenchmarkDistances(b *testing.B) {
	const n, length, rows = 300, 20, 64
	p, kernels := pairwise.Pack(make([]float64, n*length), n, length), pairwise.For(isa.Host())
	x, y := make([]float64, rows*length), make([]float64, rows*pairwise.Width(n))
	for b.Loop() {
		kernels.Distances(y, pairwise.Width(n), x, length, rows, p)
	}
	b.ReportMetric(float64(n*length*rows)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "terms/ns")
}

func BenchmarkExp(b *testing.B) {
	x, kernels := make([]float64, 4096), pairwise.For(isa.Host())
	for b.Loop() {
		kernels.Exp(x, 0.5)
	}
	b.ReportMetric(float64(len(x))*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "numbers/ns")
}

var _ = It("finds the first place of the largest number, NaN being none but in front", func() {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		row := make([]float64, 1+rng.IntN(90))
		for i := range row {
			if row[i] = float64(rng.IntN(40)); rng.IntN(20) == 0 {
				row[i] = math.NaN()
			}
		}
		want := 0
		for i, x := range row {
			if x > row[want] {
				want = i
			}
		}
		Expect(pairwise.Largest(row)).To(Equal(want), "%v", row)
	}
})
