package quant_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/testshare"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go", "gen_tile.go", "gen_pairs.go", "gen_fours.go", "gen_signs.go", "gen_round.go", "gen_rows.go", "gen_widen.go", "gen_taps.go", "gen_columns.go", "gen_sums.go", "gen_weigh.go", "gen_lines.go", "gen_winograd.go", "gen_add.go", "gen_neon_tile.go", "gen_neon_matrix.go", "gen_neon_wide.go", "gen_neon_rows.go")
	if errors.Is(err, exec.ErrNotFound) {
		Skip("no go command")
	}
	Expect(err).NotTo(HaveOccurred())
})

// buffers are those of the running spec.
var buffers guard.Set

// guarded returns n elements whose end (or, if front, whose start) touches a page that faults when it is read or written. What
// lies on the other side is checked when the spec ends.
func guarded[T any](n int, front bool) []T {
	GinkgoHelper()
	var z T
	size := int(unsafe.Sizeof(z))
	side, words := guard.End, (n*size+3)/4
	if front {
		side = guard.Start
	}
	b, err := buffers.New(words, side, DeferCleanup)
	Expect(err).NotTo(HaveOccurred())
	all := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b.Data))), words*4/size)
	if front {
		return all[:n:n]
	}
	return all[len(all)-n:]
}

// everywhere calls body for every instruction set of this machine, with memory guarded in front and behind.
func everywhere(body func(k quant.Kernels, r *rand.Rand, front bool)) {
	targets := isa.Targets()
	for _, less := range []cpuid.Features{cpuid.AMXInt8, cpuid.AVX512VNNI, cpuid.AVX512VBMI, cpuid.I8MM, cpuid.I8MM | cpuid.ASIMDDP} { // as on processors without
		if host := isa.Host(); host.Features.Has(less) {
			host.Features &^= less
			targets = append(targets, host)
		}
	}
	for _, t := range targets {
		for _, front := range []bool{false, true} {
			body(quant.For(t), rand.New(rand.NewPCG(1, 2)), front)
		}
	}
}

func fillBytes(x []byte, r *rand.Rand) []byte {
	for i := range x {
		x[i] = []byte{0, 127, 128, 255, byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}[r.IntN(8)]
	}
	return x
}

// value returns the integer that a byte is.
func value(b byte, signed bool) int {
	if signed {
		return int(int8(b))
	}
	return int(b)
}

func valuesOf(b []byte, signed bool) []int {
	x := make([]int, len(b))
	for i := range b {
		x[i] = value(b[i], signed)
	}
	return x
}

var sizes = []int{0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, 1000}

// start returns what sums of so many columns begin with.
func start(n int, r *rand.Rand, front bool) []int32 {
	s := guarded[int32](n, front)
	for i := range s {
		s[i] = int32(r.IntN(2000) - 1000)
	}
	return s
}

var _ = Describe("products", func() {
	It("are exact sums, of rows that lie anywhere", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range testshare.Of(120) {
				signed, quads, n, panels := r.IntN(2) == 0, r.IntN(12), 1+r.IntN(20), 1+r.IntN(9)
				if r.IntN(20) == 0 { // more than is put together at a time
					quads, n, panels = 100+r.IntN(200), 1+r.IntN(8), 1+r.IntN(3)
				}
				segments, far := make([]int, r.IntN(4)), 0
				for i := range segments {
					segments[i] = r.IntN(40)
					far = max(far, segments[i])
				}
				rows := make([]int, n)
				last := 0
				for i := range rows {
					rows[i] = r.IntN(60)
					last = max(last, rows[i])
				}
				a := fillBytes(guarded[byte](last+far+4*quads, front), r)
				size := len(segments) * quant.PanelBytes(quads)
				b := fillBytes(guarded[byte](panels*size, front), r)
				ld := quant.Panel * (panels + r.IntN(2))
				c, from := guarded[int32]((n-1)*ld+panels*quant.Panel, front), start(panels*quant.Panel, r, front)
				p := &quant.Product{Segments: segments, Quads: quads, Signed: signed, LDC: ld}
				if r.IntN(2) == 0 {
					p.Columns = guarded[int32](panels*quant.Panel, front)
					k.ColumnSums(p.Columns, b, len(segments)*quads, panels, signed)
				}
				k.Multiply(p, c, a, rows, b, from, panels)
				x, y := valuesOf(a, !signed), valuesOf(b, signed)
				for i, row := range rows {
					for j := range panels * quant.Panel {
						want, at := int(from[j]), j/quant.Panel*size
						for _, s := range segments {
							for t, v := range x[row+s:][:4*quads] {
								want += v * y[at+t/4*4*quant.Panel+4*(j%quant.Panel)+t%4]
							}
							at += quant.PanelBytes(quads)
						}
						if int(c[i*ld+j]) != want {
							Expect(int(c[i*ld+j])).To(Equal(want), "row %d of %d, column %d, %d quads, segments %v", i, n, j, quads, segments)
						}
					}
				}
			}
		})
	})

	It("are exact sums, whatever the middle of the elements is and how far they lie from it", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for i := range testshare.Of(40) {
				signed, quads, n, panels := r.IntN(2) == 0, 8+r.IntN(40), 1+r.IntN(60), 3+r.IntN(12)
				switch i % 8 {
				case 6: // more quads than are put together at a time
					quads, n, panels = 380+r.IntN(420), 1+r.IntN(9), 1+r.IntN(3)
				case 7: // more panels
					quads, n, panels = 3+r.IntN(9), 1+r.IntN(9), 32+r.IntN(9)
				}
				segments, split := []int{0}, 1+r.IntN(3)
				for s := 1; s < split; s++ {
					segments = append(segments, r.IntN(99))
				}
				quads = (quads + split - 1) / split
				a := guarded[byte](98+(n-1)*7+4*quads, front)
				middle, spread := []float64{0, 30, 128, 255}[r.IntN(4)], []float64{5, 30, 45, 200}[r.IntN(4)]
				for i := range a {
					a[i] = byte(min(max(middle+spread*r.NormFloat64(), 0), 255))
					if !signed {
						a[i] ^= 0x80
					}
				}
				rows := make([]int, n)
				for i := range rows {
					rows[i] = 7 * i
				}
				size := split * quant.PanelBytes(quads)
				b := fillBytes(guarded[byte](panels*size, front), r)
				ld := quant.Panel * (panels + r.IntN(2))
				c, from := guarded[int32]((n-1)*ld+panels*quant.Panel, front), start(panels*quant.Panel, r, front)
				p := &quant.Product{Segments: segments, Quads: quads, Signed: signed, LDC: ld}
				if r.IntN(2) == 0 {
					p.Columns = guarded[int32](panels*quant.Panel, front)
					k.ColumnSums(p.Columns, b, len(segments)*quads, panels, signed)
				}
				k.Multiply(p, c, a, rows, b, from, panels)
				x, y := valuesOf(a, !signed), valuesOf(b, signed)
				for i, row := range rows {
					for j := range panels * quant.Panel {
						want, at := int(from[j]), j/quant.Panel*size
						for _, s := range segments {
							for t, v := range x[row+s:][:4*quads] {
								want += v * y[at+t/4*4*quant.Panel+4*(j%quant.Panel)+t%4]
							}
							at += quant.PanelBytes(quads)
						}
						if int(c[i*ld+j]) != want {
							Expect(int(c[i*ld+j])).To(Equal(want), "row %d of %d, column %d of %d, %d quads, segments %v, elements about %v by %v", i, n, j, panels*quant.Panel, quads, segments, middle, spread)
						}
					}
				}
			}
		})
	})

	It("do not saturate", func() {
		everywhere(func(k quant.Kernels, _ *rand.Rand, front bool) {
			const quads, height = 300, 7
			for _, signed := range []bool{false, true} {
				x, y := byte(255), byte(128) // the unsigned and the signed integer
				a, b, c := guarded[byte](4*quads, front), guarded[byte](quant.PanelBytes(quads), front), guarded[int32](height*quant.Panel, front)
				if !signed {
					x, y = y, x
				}
				for i := range a {
					a[i] = x
				}
				for i := range b {
					b[i] = y
				}
				p := &quant.Product{Segments: []int{0}, Quads: quads, LDC: quant.Panel, Signed: signed}
				k.Multiply(p, c, a, make([]int, height), b, make([]int32, quant.Panel), 1)
				Expect(c).To(HaveEach(int32(255 * -128 * 4 * quads)))
				for _, fit := range []byte{128, 64} { // pairs that just fit, then fours, and some that do not
					if !signed {
						fit /= 2
					}
					for i := range a {
						if a[i] = fit; i%256 == 0 {
							a[i]++
						}
					}
					for i := range b {
						b[i] = map[bool]byte{true: 128, false: 255}[signed]
					}
					k.Multiply(p, c, a, make([]int, height), b, make([]int32, quant.Panel), 1)
					sum := 0
					for _, v := range valuesOf(a, !signed) {
						sum += v * value(b[0], signed)
					}
					Expect(c).To(HaveEach(int32(sum)))
				}
			}
		})
	})

	It("do not saturate where magnitudes are multiplied, which are 128 at most", func() {
		everywhere(func(k quant.Kernels, _ *rand.Rand, front bool) {
			for _, size := range [][3]int{{31, 1, 6}, {40, 5, 4}, {130, 9, 5}, {401, 2, 3}} { // quads, rows and panels
				quads, height, panels := size[0], size[1], size[2]
				a, b := guarded[byte](4*quads, front), guarded[byte](panels*quant.PanelBytes(quads), front)
				columns, c := guarded[int32](panels*quant.Panel, front), guarded[int32](height*panels*quant.Panel, front)
				for _, signed := range []bool{false, true} {
					for i := range 16 { // elements of every second place, and of the others
						ends := []byte{0, 127, 128, 255}
						for j := range a {
							a[j] = ends[i/4]
							if j%2 != 0 {
								a[j] = ends[i%4]
							}
						}
						for _, y := range ends {
							for j := range b {
								b[j] = y
							}
							k.ColumnSums(columns, b, quads, panels, signed)
							p := &quant.Product{Segments: []int{0}, Quads: quads, LDC: panels * quant.Panel, Signed: signed, Columns: columns}
							k.Multiply(p, c, a, make([]int, height), b, make([]int32, panels*quant.Panel), panels)
							sum := 0
							for _, v := range valuesOf(a, !signed) {
								sum += v * value(y, signed)
							}
							for _, x := range c {
								if x != int32(sum) {
									Expect(x).To(Equal(int32(sum)), "%d rows of %d and %d by %d", height, a[0], a[1], y)
								}
							}
						}
					}
				}
			}
		})
	})

	It("are exact in long rows that gather in other places in each part", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			const quads, height, panels = 900, 14, 6
			a, b := guarded[byte](height*4*quads, front), guarded[byte](panels*quant.PanelBytes(quads), front)
			columns, c := guarded[int32](panels*quant.Panel, front), guarded[int32](height*panels*quant.Panel, front)
			for i := range b {
				b[i] = byte(r.IntN(256))
			}
			k.ColumnSums(columns, b, quads, panels, true)
			for _, middles := range [][3]int{{2, 128, 128}, {128, 2, 2}, {128, 64, 200}, {2, 2, 128}} {
				var rows []int
				for i := range height {
					row := a[i*4*quads:][:4*quads]
					for j := range row {
						row[j] = byte(middles[min(j/1536, 2)] + r.IntN(3))
					}
					rows = append(rows, i*4*quads)
				}
				p := &quant.Product{Segments: []int{0}, Quads: quads, LDC: panels * quant.Panel, Signed: true, Columns: columns}
				k.Multiply(p, c, a, rows, b, make([]int32, panels*quant.Panel), panels)
				for i, x := range c {
					row, col, want := i/(panels*quant.Panel), i%(panels*quant.Panel), 0
					for j, v := range a[row*4*quads:][:4*quads] {
						want += int(v) * int(int8(b[col/quant.Panel*quant.PanelBytes(quads)+j/4*4*quant.Panel+4*(col%quant.Panel)+j%4]))
					}
					if int(x) != want {
						Expect(int(x)).To(Equal(want), "row %d, column %d, around %v", row, col, middles)
					}
				}
			}
		})
	})

	It("do not begin where an operand is too short", func() {
		p := &quant.Product{Segments: []int{0, 8}, Quads: 2, LDC: quant.Panel}
		a, b, c, s := make([]byte, 16), make([]byte, 256), make([]int32, 16), make([]int32, 16)
		k := quant.For(isa.Host())
		k.Multiply(p, c, a, []int{0}, b, s, 1)
		for _, bad := range []func(){
			func() { k.Multiply(p, c, a[:15], []int{0}, b, s, 1) },
			func() { k.Multiply(p, c, a, []int{1}, b, s, 1) },
			func() { k.Multiply(p, c, a, []int{-1}, b, s, 1) },
			func() { k.Multiply(p, c, a, []int{0}, b[:255], s, 1) },
			func() { k.Multiply(p, c[:15], a, []int{0}, b, s, 1) },
			func() { k.Multiply(p, c, a, []int{0}, b, s[:15], 1) },
			func() { k.Multiply(&quant.Product{Segments: []int{-1, 0}, Quads: 2, LDC: 16}, c, a, []int{0}, b, s, 1) },
		} {
			Expect(bad).To(Panic())
		}
	})

	It("are depthwise convolutions, of windows that lie anywhere", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range testshare.Of(60) {
				taps, n := 1+r.IntN(10), 1+r.IntN(5)
				t := quant.Taps{LDC: quant.Panel * (1 + r.IntN(2)), Offsets: make([]int, (taps+1)/2*2), Signed: r.IntN(2) == 0}
				far, last := 0, 0
				for i := range t.Offsets {
					t.Offsets[i] = r.IntN(99)
					far = max(far, t.Offsets[i])
				}
				windows := make([]int, n)
				for i := range windows {
					windows[i] = r.IntN(99)
					last = max(last, windows[i])
				}
				a, c, w := fillBytes(guarded[byte](last+far+quant.Panel, front), r), guarded[int32]((n-1)*t.LDC+quant.Panel, front), guarded[int16](16*len(t.Offsets), front)
				weights, from := make([]int16, 16*taps), start(quant.Panel, r, front)
				for i := range weights {
					weights[i] = int16(r.IntN(511) - 255)
				}
				quant.TapWeights(w, taps, func(tap, channel int) int16 { return weights[16*tap+channel] })
				k.Convolve(&t, c, a, windows, w, from)
				for i, o := range windows {
					for ch := range quant.Panel {
						want := int(from[ch])
						for tap := range taps {
							want += value(a[o+t.Offsets[tap]+ch], t.Signed) * int(weights[16*tap+ch])
						}
						Expect(int(c[i*t.LDC+ch])).To(Equal(want))
					}
				}
			}
		})
	})

	It("read panels as they are packed, whose columns are summed", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range testshare.Of(60) {
				rows, n, signed := 1+r.IntN(18), 1+r.IntN(70), r.IntN(2) == 0
				if r.IntN(20) == 0 {
					rows = 5000
				}
				ld := n + r.IntN(3)
				src := fillBytes(guarded[byte]((rows-1)*ld+n, front), r)
				quads := quant.Quads(rows)
				dst, sums := guarded[byte](quant.Panels(n)*quant.PanelBytes(quads), front), guarded[int32](quant.Panels(n)*quant.Panel, front)
				k.Pack(dst, src, rows, n, ld)
				want := make([]int32, len(sums))
				for i, got := range dst {
					col := i/quant.PanelBytes(quads)*quant.Panel + i/4%quant.Panel
					row := i%quant.PanelBytes(quads)/(4*quant.Panel)*4 + i%4
					b := byte(0)
					if row < rows && col < n {
						b = src[row*ld+col]
					}
					if want[col] += int32(value(b, signed)); got != b {
						Expect(got).To(Equal(b), "k %d, column %d of [%d, %d]", row, col, rows, n)
					}
				}
				k.ColumnSums(sums, dst, quads, quant.Panels(n), signed)
				Expect(sums).To(Equal(want))
			}
		})
	})
})

var _ = Describe("rows", func() {
	It("are summed, and flipped", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for _, n := range sizes {
				for _, signed := range []bool{false, true} {
					src, dst := fillBytes(guarded[byte](n, front), r), guarded[byte](n, front)
					k.Flip(dst, src)
					sum := 0
					for i, b := range src {
						Expect(value(dst[i], true)).To(Equal(value(b, false) - 128))
						sum += value(b, signed)
					}
					Expect(int(k.Sum(src, signed))).To(Equal(sum))
					k.Flip(dst, dst)
					Expect(dst).To(Equal(src))
				}
			}
		})
	})

	It("have parts that are summed", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range testshare.Of(100) {
				n, count, signed := 1+r.IntN(80), 1+r.IntN(9), r.IntN(2) == 0
				width := n + r.IntN(5)
				src, got := fillBytes(guarded[byte]((count-1)*width+n, front), r), guarded[int32](count, front)
				k.Sums(got, src, width, n, signed)
				for i := range got {
					want := 0
					for _, b := range src[i*width:][:n] {
						want += value(b, signed)
					}
					Expect(int(got[i])).To(Equal(want), "%d of %d elements", n, width)
				}
			}
		})
	})

	It("are looked up in a table", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for _, n := range sizes {
				src, dst, table := fillBytes(guarded[byte](n, front), r), guarded[byte](n, front), (*[256]byte)(guarded[byte](256, front))
				for i := range table {
					table[i] = byte(r.Uint32())
				}
				k.Look(dst, src, table)
				for i, b := range src {
					Expect(dst[i]).To(Equal(table[b]), "byte %d of %d", i, n)
				}
				want := slices.Clone(dst)
				k.Look(src, src, table)
				Expect(src).To(Equal(want))
			}
		})
	})

	It("are quantised half to even, bounded, NaN as the least", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for _, n := range sizes {
				for _, signed := range []bool{false, true} {
					src, dst := guarded[float32](n, front), guarded[byte](n, front)
					l := quant.Levels{Scale: []float32{0.5, 0.1, 3, float32(math.Inf(1))}[r.IntN(4)], Zero: value(byte(r.Uint32()), signed), Signed: signed}
					for i := range src {
						src[i] = []float32{float32(r.NormFloat64() * 30), float32(r.IntN(100)-50) / 4, float32(math.NaN()), float32(math.Inf(1)),
							float32(math.Inf(-1)), 1e30, float32(math.Copysign(0, -1))}[r.IntN(7)]
					}
					k.Quantize(dst, src, l)
					least := -128
					if !signed {
						least = 0
					}
					for i, x := range src {
						q := float64(x / l.Scale)
						if q != q {
							q = math.Inf(-1)
						}
						want := min(max(math.RoundToEven(q)+float64(l.Zero), float64(least)), float64(least+255))
						Expect(value(dst[i], signed)).To(Equal(int(want)), "%g, %+v", x, l)
					}
				}
			}
		})
	})

	It("are dequantised", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for _, n := range sizes {
				for _, signed := range []bool{false, true} {
					src, dst := fillBytes(guarded[byte](n, front), r), guarded[float32](n, front)
					l := quant.Levels{Scale: float32(r.Float64()), Zero: value(byte(r.Uint32()), signed), Signed: signed}
					k.Dequantize(dst, src, l)
					for i, b := range src {
						Expect(dst[i]).To(Equal(float32(value(b, signed)-l.Zero) * l.Scale))
					}
				}
			}
		})
	})

	It("have a range that includes 0", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for _, n := range sizes {
				src := guarded[float32](n, front)
				offset := []float32{0, 5, -5}[r.IntN(3)]
				var want quant.Range
				for i := range src {
					src[i] = float32(r.NormFloat64()) + offset
					want.Lo, want.Hi = min(want.Lo, src[i]), max(want.Hi, src[i])
				}
				Expect(k.Range(src)).To(Equal(want), "%d", n)
				if n > 0 {
					src[r.IntN(n)] = float32(math.NaN())
					Expect(k.Range(src).NaN).To(BeTrue(), "%d", n)
				}
			}
		})
	})
})

var _ = Describe("sums", func() {
	vectors := func(n int, r *rand.Rand, front bool) (sums []int32, factors, bias []float32) {
		sums, factors, bias = guarded[int32](n, front), guarded[float32](n, front), guarded[float32](n, front)
		for i := range sums {
			sums[i], factors[i], bias[i] = int32(r.IntN(1<<20)-1<<19), float32(r.Float64())/1000, float32(r.NormFloat64())
		}
		return sums, factors, bias
	}

	// rows returns rows of sums, and what they become, as floats.
	rows := func(n int, r *rand.Rand, front bool) (quant.Sums, func(row, col int) float32) {
		s := quant.Sums{Rows: 1 + r.IntN(4), Cols: n, LD: n + r.IntN(3)}
		_, s.Factors, s.Bias = vectors(n, r, front)
		s.Sums, _, _ = vectors(max((s.Rows-1)*s.LD+n, 0), r, front)
		before := slices.Clone(s.Sums)
		return s, func(row, col int) float32 {
			scaled := float32(before[row*s.LD+col]) * s.Factors[col]
			return float32(scaled) + s.Bias[col]
		}
	}

	It("become integers of 8 bits", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for _, n := range sizes {
				for _, signed := range []bool{false, true} {
					s, want := rows(n, r, front)
					ldd := n + r.IntN(3)
					dst := guarded[byte](max((s.Rows-1)*ldd+n, 0), front)
					l := quant.Levels{Zero: value(byte(r.Uint32()), signed), Signed: signed}
					lo, hi, most := l.Zero, 300, 255 // limits of a Relu
					if signed {
						most = 127
					}
					k.Requantize(dst, ldd, s, l, lo, hi)
					for i := range s.Rows * n {
						q := min(max(math.RoundToEven(float64(want(i/n, i%n)))+float64(l.Zero), float64(lo)), float64(most))
						Expect(value(dst[i/n*ldd+i%n], signed)).To(Equal(int(q)))
					}
				}
			}
		})
	})

	It("become floats, where they lie too", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for _, n := range sizes {
				s, want := rows(n, r, front)
				ldd := n + r.IntN(3)
				dst := guarded[float32](max((s.Rows-1)*ldd+n, 0), front)
				if r.IntN(2) == 0 {
					dst, ldd = unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(s.Sums))), len(s.Sums)), s.LD
				}
				k.Scale(dst, ldd, s)
				for i := range s.Rows * n {
					Expect(dst[i/n*ldd+i%n]).To(Equal(want(i/n, i%n)))
				}
			}
		})
	})

	It("panic where something is too short", func() {
		k, s := quant.For(isa.Host()), quant.Sums{Rows: 2, Cols: 3, LD: 3, Sums: make([]int32, 6), Factors: make([]float32, 3), Bias: make([]float32, 3)}
		k.Scale(make([]float32, 6), 3, s)
		short := s
		short.Sums = s.Sums[:5]
		Expect(func() { k.Scale(make([]float32, 6), 3, short) }).To(Panic())
		Expect(func() { k.Scale(make([]float32, 5), 3, s) }).To(Panic())
		Expect(func() { k.Requantize(make([]byte, 5), 3, s, quant.Levels{}, 0, 255) }).To(Panic())
	})

	It("are corrected by multiples", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for _, n := range sizes {
				sums, _, _ := vectors(n, r, front)
				add := start(n, r, front)
				want, times := make([]int32, n), int32(r.IntN(2000)-1000)
				for i := range sums {
					want[i] = sums[i] - times*add[i]
				}
				k.Subtract(sums, add, times)
				Expect(sums).To(Equal(want))
			}
		})
	})
})

var _ = It("matrices of bytes are transposed", func() {
	everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
		for range testshare.Of(80) {
			rows, cols := 1+r.IntN(50), 1+r.IntN(50)
			lds, ldd := cols+r.IntN(3), rows+r.IntN(3)
			src, dst := fillBytes(guarded[byte]((rows-1)*lds+cols, front), r), guarded[byte]((cols-1)*ldd+rows, front)
			k.Transpose(dst, src, rows, cols, lds, ldd)
			for i := range rows {
				for j := range cols {
					Expect(dst[j*ldd+i]).To(Equal(src[i*lds+j]), "%d, %d of %d x %d", i, j, rows, cols)
				}
			}
		}
	})
})

var _ = It("the larger of two bytes is found", func() {
	everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
		for _, n := range sizes {
			for _, signed := range []bool{false, true} {
				a, b, dst := fillBytes(guarded[byte](n, front), r), fillBytes(guarded[byte](n, front), r), guarded[byte](n, front)
				k.Larger(dst, a, b, signed)
				for i := range dst {
					Expect(value(dst[i], signed)).To(Equal(max(value(a[i], signed), value(b[i], signed))))
				}
			}
		}
	})
})
