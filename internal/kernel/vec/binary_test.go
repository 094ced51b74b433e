package vec_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
)

var binaryOps = []struct {
	op vec.BinaryOp
	f  func(a, b float32) float32
}{
	{vec.Add, func(a, b float32) float32 { return a + b }},
	{vec.Sub, func(a, b float32) float32 { return a - b }},
	{vec.Mul, func(a, b float32) float32 { return a * b }},
	{vec.Div, func(a, b float32) float32 { return a / b }},
	{vec.Max, func(a, b float32) float32 { return max(a, b) }},
	{vec.Min, func(a, b float32) float32 { return min(a, b) }},
	{vec.PRelu, func(a, b float32) float32 {
		if a < 0 {
			return a * b
		}
		return a
	}},
}

var _ = Describe("JoinRows", func() {
	It("joins rows where a list says, in order", func() {
		rng := rand.New(rand.NewPCG(1, 3))
		special := []float32{0, nan, inf, -inf, 1, -2.5}
		fill := func(x []float32) []float32 {
			for i := range x {
				if x[i] = rng.Float32()*8 - 4; rng.IntN(8) == 0 {
					x[i] = special[rng.IntN(len(special))]
				}
			}
			return x
		}
		onTargets(func(t isa.Target, k vec.Kernels) {
			for _, o := range binaryOps {
				if o.op == vec.Sub || o.op == vec.Div || o.op == vec.PRelu {
					continue
				}
				for _, n := range []int{1, 2, 7, 8, 15, 16, 17, 33, 70, 40_001} {
					places, rows := 5, 1+rng.IntN(12)
					if n == 1 {
						rows = 40_000
					}
					got, src, at := fill(make([]float32, places*n)), fill(make([]float32, rows*n)), make([]int, rows)
					want := slices.Clone(got)
					for r := range at {
						at[r] = rng.IntN(places) * n
						for i := range n {
							want[at[r]+i] = o.f(want[at[r]+i], src[r*n+i])
						}
					}
					k.JoinRows(o.op, got, src, at, n)
					for i, x := range want {
						if got[i] != x && (got[i] == got[i] || x == x) {
							Fail(fmt.Sprint(t, o.op, n, i, got[i], x))
						}
					}
				}
			}
			Expect(func() { k.JoinRows(vec.Add, make([]float32, 8), make([]float32, 8), []int{0, 5}, 4) }).To(Panic())
			Expect(func() { k.JoinRows(vec.Add, make([]float32, 8), make([]float32, 7), []int{0, 4}, 4) }).To(Panic())
		})
	})
})

var _ = Describe("BinaryRows", func() {
	It("computes every function, form, length and stride", func() {
		rng := rand.New(rand.NewPCG(1, 2))
		special := []float32{0, nan, inf, -inf, 1, -2.5}
		value := func(int, int) float32 {
			if rng.IntN(8) == 0 {
				return special[rng.IntN(len(special))]
			}
			return rng.Float32()*8 - 4
		}
		onTargets(func(t isa.Target, k vec.Kernels) {
			for _, o := range binaryOps {
				for _, form := range []vec.Form{vec.VV, vec.VS, vec.SV} {
					for _, cols := range []int{1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 50, 64, 70} {
						rows, side := 1+cols%4, guard.Side(cols%2)
						acols, bcols := cols, cols
						if form == vec.SV {
							acols = 1
						}
						if form == vec.VS {
							bcols = 1
						}
						a := newMatrix(rows, acols, acols+2, side, value)
						b := newMatrix(rows, bcols, bcols+1, side, value)
						d := newMatrix(rows, cols, cols+3, side, nil)
						k.BinaryRows(o.op, form, d.Data, d.ld, a.Data, a.ld, b.Data, b.ld, rows, cols)
						d.verify(fmt.Sprint(t, o.op, form, cols), func(r, c int) (float64, float64) {
							return float64(o.f(a.at(r, min(c, acols-1)), b.at(r, min(c, bcols-1)))), 0
						}, a, b)
					}
				}
			}
		})
	})

	It("repeats a row or scalar with stride 0, and divides long work without a seam", func() {
		onTargets(func(_ isa.Target, k vec.Kernels) {
			for _, shape := range [][2]int{{5, 7}, {3, 40_001}, {700, 101}} {
				rows, cols := shape[0], shape[1]
				a, row := make([]float32, rows*cols), make([]float32, cols)
				for i := range a {
					a[i] = float32(i)
				}
				for i := range row {
					row[i] = float32(-i)
				}
				d := make([]float32, rows*cols)
				k.BinaryRows(vec.Add, vec.VV, d, cols, a, cols, row, 0, rows, cols)
				for i := range d {
					if d[i] != a[i]-float32(i%cols) {
						Fail(fmt.Sprint(shape, i, d[i]))
					}
				}
				k.BinaryRows(vec.Sub, vec.SV, d, cols, []float32{3}, 0, a, cols, rows, cols)
				for i := range d {
					if d[i] != 3-a[i] {
						Fail(fmt.Sprint(shape, i, d[i]))
					}
				}
			}
		})
	})

	It("works in place, and has short forms for one row", func() {
		onTargets(func(_ isa.Target, k vec.Kernels) {
			x := []float32{1, 2, 3}
			k.Binary(vec.Mul, x, x, x)
			Expect(x).To(Equal([]float32{1, 4, 9}))
			k.BinaryScalar(vec.Sub, x, x, 1)
			Expect(x).To(Equal([]float32{0, 3, 8}))
			k.ScalarBinary(vec.Sub, x, 10, x)
			Expect(x).To(Equal([]float32{10, 7, 2}))
			k.Binary(vec.Add, nil, nil, nil)
		})
	})

	It("panics on short slices and unknown functions", func() {
		three, two := make([]float32, 3), make([]float32, 2)
		Expect(func() { host.Binary(vec.Add, two, three, three) }).To(Panic())
		Expect(func() { host.Binary(vec.Add, three, three, two) }).To(Panic())
		Expect(func() { host.Binary(vec.BinaryOp(99), three, three, three) }).To(Panic())
	})
})

var _ = Describe("MulAdd", func() {
	It("scales and shifts by columns and by rows, bounded", func() {
		rng := rand.New(rand.NewPCG(3, 4))
		value := func(int, int) float32 { return rng.Float32()*8 - 4 }
		onTargets(func(t isa.Target, v vec.Kernels) {
			for _, cols := range []int{1, 5, 8, 15, 16, 17, 40, 33_000} {
				for _, perRow := range []bool{false, true} {
					rows := 1 + cols%3
					lo, hi := vec.Unbounded()
					if cols%2 == 0 {
						lo, hi = -1, 2
					}
					n := cols
					if perRow {
						n = rows
					}
					x := newMatrix(rows, cols, cols+1, guard.End, value)
					k, b := newMatrix(1, n, n, guard.End, value), newMatrix(1, n, n, guard.End, value)
					x.Data[0] = nan
					d := newMatrix(rows, cols, cols+2, guard.End, nil)
					index := func(r, c int) int { return c }
					if perRow {
						index = func(r, c int) int { return r }
						v.MulAddRows(d.Data, d.ld, x.Data, x.ld, k.Data, b.Data, rows, cols, lo, hi)
					} else {
						v.MulAddColumns(d.Data, d.ld, x.Data, x.ld, k.Data, b.Data, rows, cols, lo, hi)
					}
					d.verify(fmt.Sprint(t, cols, perRow), func(r, c int) (float64, float64) {
						i := index(r, c)
						v := float64(x.at(r, c))*float64(k.Data[i]) + float64(b.Data[i])
						if math.IsNaN(v) {
							return v, 0
						}
						return bound(v, float64(lo), float64(hi)), 4e-6
					}, x, k, b)
				}
			}
		})
	})
})
