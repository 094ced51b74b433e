package shortrow_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/shortrow"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go")
	if errors.Is(err, exec.ErrNotFound) {
		Skip("no go command to run the generator with")
	}
	Expect(err).NotTo(HaveOccurred())
})

// buffers are those of the running spec.
var buffers guard.Set

// guarded returns room for numbers with a page behind them, or in front, that faults.
func guarded(r *rand.Rand, n int) []float32 {
	GinkgoHelper()
	b, err := buffers.New(n, []guard.Side{guard.End, guard.Start}[r.IntN(2)], DeferCleanup)
	Expect(err).NotTo(HaveOccurred())
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b.Data))), n)
}

// eachCase hands out rows of up to so many numbers, some of special numbers, and room for results, which is the rows themselves at times.
func eachCase(most int, fn func(r *rand.Rand, k shortrow.Kernels, n int, to, from, was []float32)) {
	r := rand.New(rand.NewPCG(3, 4))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 2.5, inf, -inf, nan, math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32}
	for _, t := range isa.Targets() {
		for n := 1; n <= most; n++ {
			for range 12 {
				rows, specials := r.IntN(6), r.IntN(3) == 0
				from := guarded(r, n*rows)
				for i := range from {
					if from[i] = float32(r.NormFloat64()); specials {
						from[i] = special[r.IntN(len(special))]
					}
				}
				to, was := from, append([]float32(nil), from...)
				if r.IntN(2) == 0 {
					to = guarded(r, n*rows)
				}
				fn(r, shortrow.For(t), n, to, from, was)
			}
		}
	}
}

var _ = It("the first of the greatest is marked", func() {
	eachCase(shortrow.Longest, func(_ *rand.Rand, k shortrow.Kernels, n int, to, from, was []float32) {
		k.Mark(to, from, n)
		for at := 0; at < len(was); at += n {
			best := 0
			for i, x := range was[at:][:n] {
				if x > was[at+best] {
					best = i
				}
			}
			want := make([]float32, n)
			want[best] = 1
			Expect(to[at:][:n]).To(Equal(want), "%v", was[at:][:n])
		}
	})
})

var _ = It("rows are divided by their norms", func() {
	norms := map[shortrow.Norm]func(row []float32) float64{
		shortrow.L1: func(row []float32) (s float64) {
			for _, x := range row {
				s += math.Abs(float64(x))
			}
			return s
		},
		shortrow.L2: func(row []float32) (s float64) {
			for _, x := range row {
				s += float64(x) * float64(x)
			}
			return math.Sqrt(s)
		},
		shortrow.Max: func(row []float32) float64 {
			s := -math.MaxFloat32
			for _, x := range row {
				if float64(x) > s {
					s = float64(x)
				}
			}
			return s
		},
	}
	eachCase(45, func(r *rand.Rand, k shortrow.Kernels, n int, to, from, was []float32) {
		norm := shortrow.Norm(r.IntN(len(norms)))
		k.Divide(norm, to, from, n)
		wide := make([]float64, len(was), len(was)+1)
		for i, x := range was {
			wide[i] = float64(x)
		}
		ofWide := make([]float32, len(was))
		k.DivideWide(norm, ofWide, wide, n)
		for i, y := range ofWide {
			Expect(math.Float32bits(y) == math.Float32bits(to[i]) || y != y && to[i] != to[i]).To(BeTrue(), "norm %d of float64, number %d of %v: %v, and not %v", norm, i, was, y, to[i])
		}
		for at := 0; at < len(was); at += n {
			s := norms[norm](was[at:][:n])
			if s == 0 {
				s = 1
			}
			for i, x := range was[at:][:n] {
				want, got := float32(float64(x)/s), to[at+i]
				Expect(got == want || got != got && want != want || math.Nextafter32(got, want) == want).To(BeTrue(), "norm %d of %v: %v, and not %v", norm, was[at:][:n], got, want)
			}
		}
	})
})

var _ = It("rows are normalised", func() {
	eachCase(shortrow.Longest, func(r *rand.Rand, k shortrow.Kernels, n int, to, from, was []float32) {
		scale, bias, epsilon := guarded(r, len(was)/n), guarded(r, len(was)/n), float32(1e-5)
		for i := range scale {
			scale[i], bias[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
		}
		k.Normalise(to, from, n, scale, bias, epsilon)
		for row := range scale {
			mean, variance, size := 0.0, 0.0, 0.0
			for _, x := range was[row*n:][:n] {
				mean += float64(x) / float64(n)
				size = max(size, math.Abs(float64(x)))
			}
			for _, x := range was[row*n:][:n] {
				variance += (float64(x) - mean) * (float64(x) - mean) / float64(n)
			}
			for i, x := range was[row*n:][:n] {
				by := float64(scale[row]) / math.Sqrt(variance+float64(epsilon))
				want, got := (float64(x)-mean)*by+float64(bias[row]), float64(to[row*n+i])
				if size > 1e18 { // squares are none of float32
					continue
				}
				Expect(math.Abs(got-want) <= 1e-5*(1+size)*(1+math.Abs(by)) || math.IsNaN(got) && math.IsNaN(want)).To(BeTrue(), "%v: %v, and not %v", was[row*n:][:n], got, want)
			}
		}
	})
})

var _ = It("rows of other lengths are refused", func() {
	for _, n := range []int{-1, 0, 17} {
		Expect(func() { shortrow.Kernels{}.Mark(make([]float32, 34), make([]float32, 34), n) }).To(Panic())
	}
	Expect(func() { shortrow.Kernels{}.Mark(make([]float32, 3), make([]float32, 4), 2) }).To(Panic())
})

var _ = It("takes columns of any rows, piece by piece", func() {
	r := rand.New(rand.NewPCG(5, 6))
	for _, t := range isa.Targets() {
		for range 200 {
			columns, rows := 1+r.IntN(100), 1+r.IntN(9)
			list := make([]int, 1+r.IntN(60))
			for i := range list {
				list[i] = r.IntN(columns)
			}
			if r.IntN(2) == 0 {
				slices.Sort(list)
			}
			from, to := guarded(r, columns*rows), guarded(r, len(list)*rows)
			for i := range from {
				from[i] = math.Float32frombits(r.Uint32()) // signalling NaN too
			}
			pieces := shortrow.Pieces(list)
			for i := range pieces {
				shortrow.For(t).Take(to, len(list), from, columns, rows, &pieces[i])
			}
			for i := range to {
				Expect(math.Float32bits(to[i])).To(Equal(math.Float32bits(from[i/len(list)*columns+list[i%len(list)]])), "%v, %d columns: %v", t, columns, list)
			}
		}
	}
})
