package vec_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
)

// pastCase is a function of rows whose results go past the caches: of src, rows lds apart, another operand of as many rows, and one row.
type pastCase struct {
	name string
	run  func(k vec.Kernels, dst []float32, ldd int, src []float32, lds int, row []float32, rows, cols int)
}

// pastCases are functions of each kind, in each form.
var pastCases = []pastCase{
	{"sum of rows", func(k vec.Kernels, d []float32, ldd int, s []float32, lds int, _ []float32, rows, cols int) {
		k.BinaryRows(vec.Add, vec.VV, d, ldd, s, lds, s, lds, rows, cols)
	}},
	{"product with one row", func(k vec.Kernels, d []float32, ldd int, s []float32, lds int, row []float32, rows, cols int) {
		k.BinaryRows(vec.Mul, vec.VV, d, ldd, row, 0, s, lds, rows, cols)
	}},
	{"difference from scalars", func(k vec.Kernels, d []float32, ldd int, s []float32, lds int, _ []float32, rows, cols int) {
		k.BinaryRows(vec.Sub, vec.VS, d, ldd, s, lds, s, lds, rows, cols)
	}},
	{"difference of scalars", func(k vec.Kernels, d []float32, ldd int, s []float32, lds int, _ []float32, rows, cols int) {
		k.BinaryRows(vec.Sub, vec.SV, d, ldd, s, lds, s, lds, rows, cols)
	}},
	{"scale of columns", func(k vec.Kernels, d []float32, ldd int, s []float32, lds int, row []float32, rows, cols int) {
		k.MulAddColumns(d, ldd, s, lds, row, row, rows, cols, -1, 3)
	}},
	{"scale of rows", func(k vec.Kernels, d []float32, ldd int, s []float32, lds int, _ []float32, rows, cols int) {
		k.MulAddRows(d, ldd, s, lds, s, s, rows, cols, -1, 3)
	}},
	{"function", func(k vec.Kernels, d []float32, ldd int, s []float32, lds int, _ []float32, rows, cols int) {
		k.ApplyRows(vec.Tanh, d, ldd, s, lds, rows, cols, vec.Params{})
	}},
	{"layer norm", func(k vec.Kernels, d []float32, ldd int, s []float32, lds int, row []float32, rows, cols int) {
		k.LayerNorm(d, ldd, s, lds, row, row, rows, cols, 1e-5)
	}},
	{"RMS norm", func(k vec.Kernels, d []float32, ldd int, s []float32, lds int, _ []float32, rows, cols int) {
		k.RMSNorm(d, ldd, s, lds, nil, nil, rows, cols, 1e-5)
	}},
}

var _ = Describe("Past", func() {
	It("changes no bit and touches nothing else, of contiguous results and others", func() {
		rng := rand.New(rand.NewPCG(41, 42))
		value := func(int, int) float32 { return rng.Float32()*8 - 4 }
		onTargets(func(t isa.Target, k vec.Kernels) {
			for i, shape := range [][2]int{{1, 4096}, {1, 5000 + rng.IntN(3000)}, {90 + rng.IntN(90), 49}, {6000, 1}, {1500, 1 + rng.IntN(15)}, {60 + rng.IntN(20), 96},
				{5, 1000 + rng.IntN(40)}, {7, 1024}, {4, 2032}, {4, 2033}, {4 + rng.IntN(3), 2049 + rng.IntN(2000)}, {3, 40_001}, {64, 64}, {63, 64}} {
				rows, cols, side := shape[0], shape[1], guard.Side(i%2)
				for _, c := range pastCases {
					src := newMatrix(rows, cols, cols+rng.IntN(2)*rng.IntN(9), side, value)
					row := newMatrix(1, cols, cols, side, value)
					dst := newMatrix(rows, cols, cols+i%3/2, side, nil)
					want := make([]float32, len(dst.Data))
					c.run(k, want, dst.ld, src.Data, src.ld, row.Data, rows, cols)
					c.run(k.Past(), dst.Data, dst.ld, src.Data, src.ld, row.Data, rows, cols)
					what := fmt.Sprint(t, c.name, shape, dst.ld)
					dst.verify(what, func(r, c int) (float64, float64) { return float64(want[r*dst.ld+c]), 0 }, src, row)
				}
			}
		})
	})

	It("works in place, and from every place in a cache line on", func() {
		rng := rand.New(rand.NewPCG(43, 44))
		onTargets(func(t isa.Target, k vec.Kernels) {
			for from := range 17 {
				n := 4096 + rng.IntN(100)
				memory, other := make([]float32, 5000), make([]float32, n)
				for i := range other {
					other[i] = rng.Float32()
				}
				x := memory[from:][:n:n]
				copy(x, other)
				k.Past().Binary(vec.Add, x, x, other)
				for i, v := range x {
					Expect(v).To(Equal(2*other[i]), "%v in place, %d of %d from %d on", t, i, n, from)
				}
				k.Past().Binary(vec.Mul, x, other, other)
				for i, v := range x {
					Expect(v).To(Equal(other[i]*other[i]), "%v, %d of %d from %d on", t, i, n, from)
				}
				Expect(append(memory[:from:from], memory[from+n:]...)).To(HaveEach(float32(0)), "around")
			}
		})
	})

	It("allocates nothing", func() {
		d, s, p := make([]float32, 1<<16), make([]float32, 1<<16), host.Past()
		Expect(testing.AllocsPerRun(5, func() {
			p.Binary(vec.Add, d, s, s)
			p.LayerNorm(d, 256, s, 256, nil, nil, 256, 256, 1e-5)
			p.MulAddRows(d, 256, s, 256, s, s, 256, 256, -1, 1)
			p.Apply(vec.Exp, d, s, vec.Params{})
		})).To(BeZero())
	})
})

var _ = Describe("Moments", func() {
	It("are those that LayerNorm takes", func() {
		rng := rand.New(rand.NewPCG(45, 46))
		onTargets(func(t isa.Target, k vec.Kernels) {
			for i, cols := range append(lengths, 1+rng.IntN(2000), 40_000) {
				rows, side := 1+i%5, guard.Side(i%2)
				src := newMatrix(rows, cols, cols+i%3, side, func(int, int) float32 { return rng.Float32()*4 - 1 })
				dst := newMatrix(rows, 2, 2, side, nil)
				k.Moments(dst.Data, src.Data, src.ld, rows, cols, 1e-5)
				dst.verify(fmt.Sprint(t, rows, cols), func(r, c int) (float64, float64) {
					var mean, square float64
					for _, x := range src.Data[r*src.ld:][:cols] {
						mean += float64(x) / float64(cols)
					}
					for _, x := range src.Data[r*src.ld:][:cols] {
						square += (float64(x) - mean) * (float64(x) - mean) / float64(cols)
					}
					if c == 0 {
						return mean, 2e-6
					}
					k := 1 / math.Sqrt(square+1e-5)
					return k, 4e-6 * k
				}, src)
			}
		})
	})
})
