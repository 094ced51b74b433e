package quant_test

import (
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/testshare"
)

// rounding returns a rounding of so many columns, whose vectors are as long, and what it is made of.
func rounding(columns int, r *rand.Rand, front bool) (sums quant.Sums, to quant.Levels, lo, hi int) {
	sums = quant.Sums{Cols: columns, Factors: guarded[float32](columns, front), Bias: guarded[float32](columns, front)}
	for i := range sums.Factors {
		sums.Factors[i] = []float32{0.5, 0.25, r.Float32() / 1000, r.Float32(), 1e6}[r.IntN(5)] // halves, and what no integer holds
		sums.Bias[i] = []float32{0, r.Float32()*400 - 200, 0.5, -1e30, 1e30}[r.IntN(5)]
	}
	if r.IntN(3) == 0 { // as most networks have them
		for i := range sums.Factors {
			sums.Factors[i], sums.Bias[i] = min(sums.Factors[i], 0.5), 0
		}
	}
	to.Signed = r.IntN(2) == 0
	to.Zero = value(byte(r.Uint32()), to.Signed)
	if lo, hi = -1000, 1000; r.IntN(2) == 0 {
		lo, hi = r.IntN(300)-150, r.IntN(300)
	}
	return sums, to, lo, hi
}

var _ = Describe("sums that are rounded where they are made", func() {
	It("are those of products", func() {
		plain := quant.For(isa.Target{})
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range testshare.Of(50) {
				quads, n, cols := 1+r.IntN([]int{12, 140}[r.IntN(2)]), 1+r.IntN([]int{20, 150}[r.IntN(2)]), 1+r.IntN(150)
				if !k.Rounds(quant.Height, 2*quads, 1) {
					continue
				}
				p := &quant.Product{Segments: []int{r.IntN(40), r.IntN(40)}[:1+r.IntN(2)], Quads: quads, Signed: r.IntN(2) == 0, LDC: quant.Panel * quant.Panels(cols)}
				rows := make([]int, n)
				for i := range rows {
					rows[i] = r.IntN(60)
				}
				a := fillBytes(guarded[byte](slices.Max(rows)+slices.Max(p.Segments)+4*quads, front), r)
				b := fillBytes(guarded[byte](quant.Panels(cols)*len(p.Segments)*quant.PanelBytes(quads), front), r)
				var zeros []int32
				channels := 4*quads - r.IntN(4)
				if k.RoundsWords(len(p.Segments)*quads) && r.IntN(2) == 0 {
					zeros = start(p.LDC, r, front)
					for j := range zeros {
						zeros[j] = int32(value(byte(r.Uint32()), p.Signed))
					}
					for i := range b {
						if i/(4*quant.Panel)%quads*4+i%4 >= channels {
							b[i] = 0
						}
					}
				}
				if zeros != nil || r.IntN(2) == 0 {
					p.Words = slices.Clip(append(guarded[int16](len(b), front)[:0], k.Words(b, len(p.Segments)*quads, quant.Panels(cols), p.Signed, zeros, channels)...))
				}
				from, at := start(p.LDC, r, front), r.IntN(5)
				s, to, lo, hi := rounding(at+p.LDC, r, front)
				ldd := cols + r.IntN(3)
				got, want := guarded[byte]((n-1)*ldd+cols, front), make([]byte, n*ldd)
				k.MultiplyRounded(p, got, ldd, a, rows, b, from, quant.NewRounding(s.Factors, s.Bias, to, lo, hi), at, cols, guarded[int32](quant.TileSums, front))
				c := make([]int32, n*p.LDC)
				plain.Multiply(p, c, a, rows, b, from, quant.Panels(cols))
				for i := range len(rows) * len(p.Segments) * min(channels, channels*len(zeros)) {
					row, segment, ch := i/channels/len(p.Segments), i/channels%len(p.Segments), i%channels
					plain.Subtract(c[row*p.LDC:][:p.LDC], zeros, int32(value(a[rows[row]+p.Segments[segment]+ch], !p.Signed)))
				}
				s.Rows, s.Cols, s.Sums, s.LD, s.Factors, s.Bias = n, cols, c, p.LDC, s.Factors[at:], s.Bias[at:]
				plain.Requantize(want, ldd, s, to, lo, hi)
				for i := range n {
					Expect(got[i*ldd:][:cols]).To(Equal(want[i*ldd:][:cols]), "row %d of %d, %d columns", i, n, cols)
				}
			}
		})
	})

	It("are those of depthwise convolutions", func() {
		plain := quant.For(isa.Target{})
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			if !k.Weighs() {
				return
			}
			for range testshare.Of(60) {
				taps, n, channels := 1+r.IntN(12), 1+r.IntN(6), 16+r.IntN(200)
				step, ldd := r.IntN(300), channels+r.IntN(3)
				w, s := make([]int16, channels*taps), start(channels, r, front)
				for i := range w {
					w[i] = int16(r.IntN(256) - 128)
				}
				sums, to, lo, hi := rounding(channels, r, front)
				f, ok := quant.NewFilters(channels, taps, w, s, quant.NewRounding(sums.Factors, sums.Bias, to, lo, hi))
				Expect(ok).To(BeTrue())
				offsets, far := make([]int, f.Taps()), 0
				Expect(len(offsets)).To(BeNumerically("~", taps, 1))
				for i := range offsets[:taps] {
					offsets[i] = r.IntN(400)
					far = max(far, offsets[i])
				}
				a := fillBytes(guarded[byte](far+(n-1)*step+channels, front), r)
				got, want := guarded[byte]((n-1)*ldd+channels, front), make([]byte, n*ldd)
				k.Weigh(f, got, ldd, a, step, offsets, n)
				sums.Rows, sums.LD, sums.Sums = n, channels, make([]int32, n*channels)
				for i := range sums.Sums {
					ch := i % channels
					sums.Sums[i] = s[ch]
					for t := range taps {
						sums.Sums[i] += int32(a[i/channels*step+offsets[t]+ch]) * int32(w[ch*taps+t])
					}
				}
				plain.Requantize(want, ldd, sums, to, lo, hi)
				for i := range n {
					Expect(got[i*ldd:][:channels]).To(Equal(want[i*ldd:][:channels]), "window %d of %d, %d channels, %d taps", i, n, channels, taps)
				}
			}
		})
	})

	It("are those of depthwise convolutions, of lines", func() {
		plain, made := quant.For(isa.Target{}), 0
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range testshare.Of(60) {
				f := quant.LineShape{Channels: 16 + r.IntN(60), Height: 1 + r.IntN(7), Width: 1 + r.IntN(7), Stride: 1 + r.IntN(3), Dilation: 1 + r.IntN(3), SignedPixels: r.IntN(2) == 0}
				n, w, s := 1+r.IntN(11), make([]int16, f.Channels*f.Height*f.Width), start(f.Channels, r, front)
				for i := range w {
					w[i] = int16(r.IntN(511) - 255)
				}
				sums, to, lo, hi := rounding(f.Channels, r, front)
				lf := quant.NewLineFilters(f, w, s, quant.NewRounding(sums.Factors, sums.Bias, to, lo, hi))
				positions, ldd := lf.Positions(n), f.Channels+r.IntN(3)
				rows := make([][]byte, f.Height)
				for y := range rows {
					rows[y] = fillBytes(guarded[byte](f.Channels*lf.Pixels(positions), front), r)
				}
				sums.Rows, sums.LD, sums.Sums = n, f.Channels, make([]int32, n*f.Channels)
				for i := range sums.Sums {
					at, ch := i/f.Channels, i%f.Channels
					sums.Sums[i] = s[ch]
					for t := range f.Height * f.Width {
						x := rows[t/f.Width][(at*f.Stride+t%f.Width*f.Dilation)*f.Channels+ch]
						sums.Sums[i] += int32(value(x, f.SignedPixels)) * int32(w[ch*f.Height*f.Width+t])
					}
				}
				want := make([]byte, n*ldd)
				plain.Requantize(want, ldd, sums, to, lo, hi)
				line := quant.LineWords * positions
				block := (f.Height + r.IntN(2)) * line
				near, other, lines := guarded[int16]((lf.Blocks()-1)*block+f.Height*line, front), make([]int16, lf.Blocks()*block), r.Perm(f.Height)
				for y := range lines {
					lines[y] *= line
					k.PairLine(lf, near[lines[y]:], block, rows[y], positions)
					plain.PairLine(lf, other[lines[y]:], block, rows[y], positions)
				}
				for b := range lf.Blocks() {
					Expect(near[b*block:][:f.Height*line]).To(Equal(other[b*block:][:f.Height*line]))
				}
				got := guarded[byte]((n-1)*ldd+f.Channels, front)
				if k.WeighsLines() {
					made++
					k.WeighLines(lf, got, ldd, near, lines, block, n)
				}
				if k.WeighsLines() {
					for i := range n {
						Expect(got[i*ldd:][:f.Channels]).To(Equal(want[i*ldd:][:f.Channels]), "window %d of %d, %+v", i, n, f)
					}
				}
			}
		})
		if isa.Host().Set == isa.AVX512 || isa.Host().Set == isa.AVX2 {
			Expect(made).To(BeNumerically(">", 50))
		}
	})

	It("are not of weights that no signed byte holds, or of few channels", func() {
		r := quant.NewRounding(make([]float32, 16), make([]float32, 16), quant.Levels{}, 0, 255)
		_, ok := quant.NewFilters(16, 1, append(make([]int16, 15), 128), make([]int32, 16), r)
		Expect(ok).To(BeFalse())
		_, ok = quant.NewFilters(15, 1, make([]int16, 15), make([]int32, 16), r)
		Expect(ok).To(BeFalse())
	})

	It("are not made where an operand is too short", func() {
		everywhere(func(k quant.Kernels, _ *rand.Rand, _ bool) {
			r := quant.NewRounding(make([]float32, 16), make([]float32, 16), quant.Levels{}, 0, 255)
			dst, a, b, s, one := make([]byte, 16), make([]byte, 32), make([]byte, 128), make([]int32, 16), []int{0}
			var calls []func()
			if k.Weighs() {
				f, _ := quant.NewFilters(16, 1, make([]int16, 16), make([]int32, 16), r)
				k.Weigh(f, dst, 0, a, 16, []int{0, 0}, 2)
				calls = append(calls,
					func() { k.Weigh(f, dst, 0, a[:31], 16, []int{0, 0}, 2) },
					func() { k.Weigh(f, dst, 0, a, 16, []int{0}, 2) },
					func() { k.Weigh(f, dst, 0, a, 16, []int{0, -1}, 2) },
					func() { k.Weigh(f, dst, 1, a, 16, []int{0, 0}, 2) })
			}
			if k.WeighsLines() {
				f := quant.NewLineFilters(quant.LineShape{Channels: 16, Height: 2, Width: 3, Stride: 1, Dilation: 1}, make([]int16, 96), make([]int32, 16), r)
				line := 5 * quant.LineWords
				near, lines, row := make([]int16, 2*line), []int{0, line}, make([]byte, 16*6)
				Expect(f.Positions(3)).To(Equal(5))
				Expect(f.Pixels(5)).To(Equal(6))
				k.PairLine(f, near, 0, row, 5)
				k.WeighLines(f, dst, 0, near, lines, 0, 3)
				calls = append(calls,
					func() { k.PairLine(f, near, 0, row[:95:95], 5) },
					func() { k.PairLine(f, near[:line-1:line-1], 0, row, 5) },
					func() { k.WeighLines(f, dst[:15], 0, near, lines, 0, 3) },
					func() { k.WeighLines(f, dst, 1, near, lines, 0, 3) },
					func() { k.WeighLines(f, dst, 0, near[:2*line-1], lines, 0, 3) },
					func() { k.WeighLines(f, dst, 0, near, []int{0, -1}, 0, 3) },
					func() { k.WeighLines(f, dst, 0, near, lines[:1:1], 0, 3) })
			}
			if p := (&quant.Product{Segments: []int{0}, Quads: 2}); k.Rounds(quant.Height, 2, 1) {
				k.MultiplyRounded(p, dst, 0, a, one, b, s, r, 0, 16, nil)
				calls = append(calls,
					func() { k.MultiplyRounded(p, dst[:15], 0, a, one, b, s, r, 0, 16, nil) },
					func() { k.MultiplyRounded(p, dst, 0, a[:7:7], one, b, s, r, 0, 16, nil) },
					func() { k.MultiplyRounded(p, dst, 0, a, one, b[:127], s, r, 0, 16, nil) },
					func() { k.MultiplyRounded(p, dst, 0, a, one, b, s[:15], r, 0, 16, nil) },
					func() { k.MultiplyRounded(p, dst, 0, a, one, b, s, r, 1, 16, nil) })
			}
			for _, bad := range calls {
				Expect(bad).To(Panic())
			}
		})
	})
})

var _ = Describe("integers of 8 bits", func() {
	It("are added as the floats that they stand for", func() {
		plain, made := quant.For(isa.Target{}), 0
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range testshare.Of(30) {
				levels := func(signed bool) quant.Levels {
					return quant.Levels{Scale: []float32{r.Float32(), 0.5, 0.25, 0.1}[r.IntN(4)], Zero: value(byte(r.Uint32()), signed), Signed: signed}
				}
				signed, n := r.IntN(2) == 0, r.IntN(200)
				a, b, to := levels(signed), levels(signed), levels(r.IntN(2) == 0)
				lo, hi := r.IntN(200)-150, 50+r.IntN(300)
				x := k.NewAdder(a, b, to, lo, hi)
				if x == nil {
					continue
				}
				made++
				p, q := fillBytes(guarded[byte](n, front), r), fillBytes(guarded[byte](n, front), r)
				f, g, want := make([]float32, n), make([]float32, n), make([]byte, n)
				plain.Dequantize(f, p, a)
				plain.Dequantize(g, q, b)
				for i := range f {
					f[i] += g[i]
				}
				plain.Quantize(want, f, to)
				for i, c := range want {
					least := map[bool]int{true: -128}[to.Signed]
					want[i] = byte(min(max(value(c, to.Signed), min(lo, least+255), least), max(min(hi, least+255), least)))
				}
				got := [][]byte{guarded[byte](n, front), p, q}[r.IntN(3)]
				k.Add(x, got, p, q)
				Expect(got).To(Equal(want), "%+v, %+v, %+v, from %d to %d", a, b, to, lo, hi)
			}
		})
		if isa.Host().Set == isa.AVX512 {
			Expect(made).To(BeNumerically(">", 100))
		}
	})

	It("are left to others where the kernel would have other results", func() {
		k, l := quant.For(isa.Host()), quant.Levels{Scale: 1e-38}
		Expect(k.NewAdder(l, l, quant.Levels{Scale: 1e-45}, 0, 255)).To(BeNil())
		Expect(k.NewAdder(l, quant.Levels{Scale: 1, Signed: true}, l, 0, 255)).To(BeNil())
	})
})
