package vec_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
)

// lengths are row lengths with every kind of tail.
var lengths = []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 197, 768}

var _ = Describe("Softmax", func() {
	It("computes rows without scale, in place too, whose least elements give nothing", func() {
		rng := rand.New(rand.NewPCG(21, 22))
		onTargets(func(t isa.Target, k vec.Kernels) {
			for i, cols := range append(lengths, 1+rng.IntN(900), 40_000) {
				for _, logarithm := range []bool{false, true} {
					rows, side := 1+i%3, guard.Side(i%2)
					wide := []float32{2, 60, 400}[i/2%3]
					src := newMatrix(rows, cols, cols+i%3, side, func(int, int) float32 {
						if rng.IntN(5) == 0 {
							return -inf
						}
						return (rng.Float32() - 0.5) * wide
					})
					lse := make([]float64, rows)
					for r := range rows {
						src.Data[r*src.ld+rng.IntN(cols)] = wide / 2
						sum := 0.0
						for c := range cols {
							sum += math.Exp(float64(src.at(r, c) - wide/2))
						}
						lse[r] = float64(wide/2) + math.Log(sum)
					}
					dst := newMatrix(rows, cols, cols+i%4, side, nil)
					f := k.Softmax
					if logarithm {
						f = k.LogSoftmax
					}
					f(dst.Data, dst.ld, src.Data, src.ld, nil, 0, rows, cols, 1)
					x := append([]float32(nil), src.Data...)
					f(x, src.ld, x, src.ld, nil, 0, rows, cols, 1)
					what := fmt.Sprint(t, cols, logarithm, wide)
					for r := range rows {
						Expect(x[r*src.ld:][:cols]).To(Equal(dst.Data[r*dst.ld:][:cols]), "in place, "+what)
					}
					dst.verify(what, func(r, c int) (float64, float64) {
						v := float64(src.at(r, c)) - lse[r]
						switch {
						case logarithm:
							return v, 3e-6 + 1e-6*math.Abs(v)
						case src.at(r, c) == -inf:
							return 0, 0
						}
						return math.Exp(v), (2e-6+0x1p-23*math.Abs(v))*math.Exp(v) + 0x1p-126 // the distance from the greatest element is rounded
					}, src)
				}
			}
		})
	})

	It("gives nothing that is subnormal, of what a mask makes 100 less", func() {
		onTargets(func(t isa.Target, k vec.Kernels) {
			if t.Set != isa.AVX2 && t.Set != isa.AVX512 {
				return // processors of arm64 compute with subnormal numbers as fast
			}
			for cols := 2; cols < 70; cols++ {
				x := make([]float32, 3*cols)
				for i := range x {
					x[i] = []float32{0, -100, -87.4, -89, -104}[i%5*min(i%cols, 1)]
				}
				k.Softmax(x, cols, x, cols, nil, 0, 3, cols, 1)
				for i, v := range x {
					Expect(v == 0 || v >= 0x1p-126/float32(cols)).To(BeTrue(), "%v, %d of %d: %g", t, i, cols, v)
				}
			}
		})
	})

	It("computes rows with scale and mask, to probabilities or their logarithms", func() {
		rng := rand.New(rand.NewPCG(1, 2))
		onTargets(func(t isa.Target, k vec.Kernels) {
			for i, cols := range append(lengths, 40_000) {
				for _, logarithm := range []bool{false, true} {
					for _, masked := range []int{0, 1, 2} { // none, one row for all, a row each
						rows, side := 1+i%3, guard.Side(i%2)
						src := newMatrix(rows, cols, cols+i%3, side, func(int, int) float32 { return rng.Float32()*40 - 20 })
						dst := newMatrix(rows, cols, cols+i%4, side, nil)
						others := []*matrix{src}
						var mask []float32
						ldm := 0
						if masked > 0 {
							m := newMatrix(1+(masked-1)*(rows-1), cols, cols, side, func(_, c int) float32 {
								if c > 0 && rng.IntN(3) == 0 {
									return -inf
								}
								return rng.Float32()
							})
							others = append(others, m)
							mask, ldm = m.Data, (masked-1)*cols
						}
						const scale = 0.125
						f := k.Softmax
						if logarithm {
							f = k.LogSoftmax
						}
						f(dst.Data, dst.ld, src.Data, src.ld, mask, ldm, rows, cols, scale)
						y := func(r, c int) float64 {
							v := float64(src.at(r, c)) * scale
							if mask != nil {
								v += float64(mask[r*ldm+c])
							}
							return v
						}
						lse := make([]float64, rows)
						for r := range rows {
							top, sum := math.Inf(-1), 0.0
							for c := range cols {
								top = math.Max(top, y(r, c))
							}
							for c := range cols {
								sum += math.Exp(y(r, c) - top)
							}
							lse[r] = top + math.Log(sum)
						}
						what := fmt.Sprint(t, cols, logarithm, masked)
						dst.verify(what, func(r, c int) (float64, float64) {
							v := y(r, c) - lse[r]
							if logarithm {
								return v, 3e-6
							}
							return math.Exp(v), 2e-6*math.Exp(v) + 1e-40
						}, others...)
					}
				}
			}
		})
	})

	It("works in place and gives NaN where there is nothing to weigh", func() {
		onTargets(func(_ isa.Target, k vec.Kernels) {
			x := []float32{1, 1, 1, 1}
			k.Softmax(x, 4, x, 4, nil, 0, 1, 4, 1)
			Expect(x).To(Equal([]float32{0.25, 0.25, 0.25, 0.25}))
			for _, bad := range [][]float32{{-inf, -inf}, {1, nan}, {nan, 1}, {inf, 1}} {
				y := make([]float32, 2)
				k.Softmax(y, 2, bad, 2, nil, 0, 1, 2, 1)
				Expect(math.IsNaN(float64(y[0])) || math.IsNaN(float64(y[1]))).To(BeTrue(), "%v %v", bad, y)
			}
			y := make([]float32, 2)
			k.Softmax(y, 2, []float32{-inf, 3}, 2, nil, 0, 1, 2, 1)
			Expect(y).To(Equal([]float32{0, 1}))
			k.Softmax(nil, 0, nil, 0, nil, 0, 0, 5, 1)
		})
	})
})

var _ = Describe("SoftmaxColumns", func() {
	It("computes columns of any number of rows, in place too, and NaN where there is nothing to weigh", func() {
		rng := rand.New(rand.NewPCG(51, 52))
		onTargets(func(t isa.Target, k vec.Kernels) {
			for i, cols := range append(lengths, 1+rng.IntN(900)) {
				rows, side := []int{1, 2, 3, 16, 21, 1 + rng.IntN(90)}[i%6], guard.Side(i%2)
				wide := []float32{2, 60, 400}[i/2%3]
				src := newMatrix(rows, cols, cols+i%3, side, func(int, int) float32 {
					if rng.IntN(5) == 0 {
						return -inf
					}
					return (rng.Float32() - 0.5) * wide
				})
				lost := rng.IntN(cols)
				top, sum := make([]float64, cols), make([]float64, cols)
				for c := range cols {
					if c != lost {
						src.Data[rng.IntN(rows)*src.ld+c] = wide / 2
					}
				}
				for r := range rows {
					src.Data[r*src.ld+lost] = []float32{-inf, nan, inf}[i%3]
				}
				for c := range cols {
					top[c] = float64(src.at(0, c))
					for r := range rows {
						top[c] = math.Max(top[c], float64(src.at(r, c)))
					}
					for r := range rows {
						sum[c] += math.Exp(float64(src.at(r, c)) - top[c])
					}
				}
				dst := newMatrix(rows, cols, cols+i%4, side, nil)
				work := newMatrix(1, rows*vec.ColumnsWork, rows*vec.ColumnsWork, guard.End, nil)
				k.SoftmaxColumns(dst.Data, dst.ld, src.Data, src.ld, work.Data, rows, cols)
				x := append([]float32(nil), src.Data...)
				k.SoftmaxColumns(x, src.ld, x, src.ld, work.Data, rows, cols)
				what := fmt.Sprint(t, rows, cols, wide)
				for r := range rows {
					for c := range cols {
						Expect(math.Float32bits(x[r*src.ld+c])).To(Equal(math.Float32bits(dst.at(r, c))), "in place, "+what)
					}
				}
				Expect(work.Check()).To(Succeed(), what)
				Expect(work.Free()).To(Succeed())
				dst.verify(what, func(r, c int) (float64, float64) {
					v := float64(src.at(r, c)) - top[c]
					if c != lost && math.IsInf(v, -1) {
						return 0, 0
					}
					return math.Exp(v) / sum[c], ((2e-6+0x1p-23*math.Abs(v))*math.Exp(v) + 0x1p-126) / sum[c]
				}, src)
			}
		})
	})
})

var _ = Describe("LayerNorm and RMSNorm", func() {
	It("normalise rows", func() {
		rng := rand.New(rand.NewPCG(3, 4))
		onTargets(func(t isa.Target, k vec.Kernels) {
			for i, cols := range append(lengths, 40_000) {
				for _, rms := range []bool{false, true} {
					for _, affine := range []int{0, 1, 2} {
						rows, side := 1+i%5, guard.Side(i%2)
						shift := float32(10)
						src := newMatrix(rows, cols, cols+i%3, side, func(int, int) float32 { return rng.Float32()*4 + shift })
						dst := newMatrix(rows, cols, cols+i%4, side, nil)
						gamma := newMatrix(1, cols, cols, side, func(int, int) float32 { return rng.Float32() + 0.5 })
						beta := newMatrix(1, cols, cols, side, func(int, int) float32 { return rng.Float32() - 0.5 })
						var g, b []float32
						if affine > 0 {
							g = gamma.Data
						}
						if affine > 1 {
							b = beta.Data
						}
						const eps = 1e-5
						f := k.LayerNorm
						if rms {
							f = k.RMSNorm
						}
						f(dst.Data, dst.ld, src.Data, src.ld, g, b, rows, cols, eps)
						for r := range rows { // which depends on its row alone
							one := make([]float32, cols)
							f(one, cols, src.Data[r*src.ld:], src.ld, g, b, 1, cols, eps)
							Expect(one).To(Equal(dst.Data[r*dst.ld:][:cols]), fmt.Sprint(t, cols, rms, affine, r))
						}
						mean, k := make([]float64, rows), make([]float64, rows)
						for r := range rows {
							for c := range cols {
								if !rms {
									mean[r] += float64(src.at(r, c)) / float64(cols)
								}
							}
							for c := range cols {
								d := float64(src.at(r, c)) - mean[r]
								k[r] += d * d / float64(cols)
							}
							k[r] = 1 / math.Sqrt(k[r]+eps)
						}
						dst.verify(fmt.Sprint(t, cols, rms, affine), func(r, c int) (float64, float64) {
							v := (float64(src.at(r, c)) - mean[r]) * k[r]
							tol := 2e-6*math.Abs(v) + 2e-6*(1+10*min(k[r], 1))
							if g != nil {
								v *= float64(g[c])
							}
							if b != nil {
								v += float64(b[c])
							}
							return v, tol
						}, src, gamma, beta)
					}
				}
			}
		})
	})

	It("keep their digits where the mean is large against the deviation", func() {
		onTargets(func(_ isa.Target, k vec.Kernels) {
			n := 768
			x, y := make([]float32, n), make([]float32, n)
			for i := range x {
				x[i] = 1000 + float32(i%2)
			}
			k.LayerNorm(y, n, x, n, nil, nil, 1, n, 0)
			for i, v := range y {
				if math.Abs(float64(v)-float64(i%2*2-1)) > 1e-5 {
					Fail(fmt.Sprint(i, v))
				}
			}
		})
	})

	It("refuse beta without gamma", func() {
		x := make([]float32, 2)
		Expect(func() { host.LayerNorm(x, 2, x, 2, nil, x, 1, 2, 0) }).To(Panic())
	})
})

var _ = Describe("reductions", func() {
	ops := []struct {
		op   vec.ReduceOp
		zero float64
		f    func(acc, x float64) float64
	}{
		{vec.ReduceSum, 0, func(a, x float64) float64 { return a + x }},
		{vec.ReduceMax, math.Inf(-1), func(a, x float64) float64 { return max(a, x) }},
		{vec.ReduceMin, math.Inf(1), func(a, x float64) float64 { return min(a, x) }},
		{vec.ReduceSumSquares, 0, func(a, x float64) float64 { return a + x*x }},
		{vec.ReduceSumAbs, 0, func(a, x float64) float64 { return a + math.Abs(x) }},
	}

	It("reduce rows and columns of every shape", func() {
		rng := rand.New(rand.NewPCG(5, 6))
		onTargets(func(t isa.Target, k vec.Kernels) {
			for _, o := range ops {
				for i, cols := range append(lengths, 256, 301, 777, 2100, 2049, 9000, 70_000) {
					rows := []int{1, 2, 5, 64, 65, 130}[i%6]
					if cols > 5000 {
						rows = 2
					}
					for _, bad := range []bool{false, true} {
						src := newMatrix(rows, cols, cols+i%3, guard.Side(i%2), func(int, int) float32 {
							if bad && rng.IntN(rows*cols) < 3 {
								return []float32{nan, inf, -inf}[rng.IntN(3)]
							}
							return rng.Float32()*2 - 1
						})
						byRow, byCol := newMatrix(rows, 1, 1, guard.End, nil), newMatrix(1, cols, cols, guard.End, nil)
						k.ReduceRows(o.op, byRow.Data, src.Data, src.ld, rows, cols)
						k.ReduceColumns(o.op, byCol.Data, src.Data, src.ld, rows, cols)
						byRow.verify(fmt.Sprint(t, o.op, cols, " rows"), func(r, _ int) (float64, float64) {
							acc := o.zero
							for c := range cols {
								acc = o.f(acc, float64(src.at(r, c)))
							}
							return acc, 1e-6*math.Sqrt(float64(cols))*4 + 1e-6*math.Abs(acc)
						})
						byCol.verify(fmt.Sprint(t, o.op, cols, " columns"), func(_, c int) (float64, float64) {
							acc := o.zero
							for r := range rows {
								acc = o.f(acc, float64(src.at(r, c)))
							}
							return acc, 3e-5
						}, src)
					}
				}
			}
		})
	})

	It("give the neutral element for nothing", func() {
		d := []float32{5, 5}
		host.ReduceRows(vec.ReduceMax, d, nil, 0, 2, 0)
		Expect(d).To(Equal([]float32{-inf, -inf}))
		host.ReduceColumns(vec.ReduceMin, d, nil, 2, 0, 2)
		Expect(d).To(Equal([]float32{inf, inf}))
		host.ReduceRows(vec.ReduceSum, d, nil, 0, 2, 0)
		Expect(d).To(Equal([]float32{0, 0}))
		host.Mean(d, []float32{1, 2, 3, 5, 7, 9}, 3, 2, 3)
		Expect(d).To(Equal([]float32{2, 7}))
		Expect(func() { host.ReduceRows(vec.ReduceOp(77), d, d, 1, 1, 1) }).To(Panic())
	})
})

var _ = Describe("recurrent gates", func() {
	It("compute LSTM and GRU cells of every length", func() {
		rng := rand.New(rand.NewPCG(7, 8))
		onTargets(func(t isa.Target, k vec.Kernels) {
			for _, n := range append(lengths, 33_000) {
				fresh := func() *matrix {
					return newMatrix(1, n, n, guard.End, func(int, int) float32 { return rng.Float32()*8 - 4 })
				}
				i, o, f, g, prev := fresh(), fresh(), fresh(), fresh(), fresh()
				cell, hidden := newMatrix(1, n, n, guard.End, nil), newMatrix(1, n, n, guard.End, nil)
				k.LSTM(cell.Data, hidden.Data, i.Data, o.Data, f.Data, g.Data, prev.Data)
				state := func(c int) float64 {
					return logistic(float64(f.at(0, c)))*float64(prev.at(0, c)) + logistic(float64(i.at(0, c)))*math.Tanh(float64(g.at(0, c)))
				}
				Expect(cell.compare(func(_, c int) (float64, float64) { return state(c), 3e-6 })).To(Succeed())
				Expect(hidden.compare(func(_, c int) (float64, float64) {
					return logistic(float64(o.at(0, c))) * math.Tanh(state(c)), 3e-6
				})).To(Succeed())

				for _, y := range []*matrix{nil, f} {
					d := newMatrix(1, n, n, guard.End, nil)
					var add []float32
					if y != nil {
						add = y.Data
					}
					k.GRUReset(d.Data, i.Data, o.Data, add)
					d.verify(fmt.Sprint(t, n, " reset"), func(_, c int) (float64, float64) {
						v := logistic(float64(i.at(0, c))) * float64(o.at(0, c))
						if y != nil {
							v += float64(y.at(0, c))
						}
						return v, 2e-6
					})
				}
				d := newMatrix(1, n, n, guard.End, nil)
				k.GRU(d.Data, i.Data, g.Data, prev.Data)
				d.verify(fmt.Sprint(t, n, " gru"), func(_, c int) (float64, float64) {
					u := logistic(float64(i.at(0, c)))
					return (1-u)*math.Tanh(float64(g.at(0, c))) + u*float64(prev.at(0, c)), 3e-6
				}, i, o, f, g, prev, cell, hidden)
			}
		})
		host.LSTM(nil, nil, nil, nil, nil, nil, nil)
		host.GRU(nil, nil, nil, nil)
		host.GRUReset(nil, nil, nil, nil)
	})
})
