package pairs_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go")
	if errors.Is(err, exec.ErrNotFound) {
		Skip("no go command")
	}
	Expect(err).NotTo(HaveOccurred())
})

// buffers are those of the running spec.
var buffers guard.Set

// guarded returns n floats with a page behind them, or in front, that faults.
func guarded(r *rand.Rand, n int) []float32 {
	GinkgoHelper()
	b, err := buffers.New(n, []guard.Side{guard.End, guard.Start}[r.IntN(2)], DeferCleanup)
	Expect(err).NotTo(HaveOccurred())
	return b.Data[:n:n]
}

// words returns n words likewise.
func words(r *rand.Rand, n int) []uint32 {
	return pairs.OfFloats(guarded(r, n))
}

// special are bits of numbers at the borders of rounding, without those below the least normal one.
var special = []uint32{0, 0x80000000, 0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0xbf808000, 0x7f7fffff, 0xff7fffff, 0x7f7f7fff, 0x7f800000, 0xff800000,
	0x7fc00000, 0x7f800001, 0xff812345, 0xffffffff, 0x00800000}

func numbers(r *rand.Rand, n int) []float32 {
	x := guarded(r, n)
	for i := range x {
		if x[i] = float32(r.NormFloat64()); r.IntN(8) == 0 {
			x[i] = math.Float32frombits(special[r.IntN(len(special))])
		}
	}
	return x
}

// nearest is the bfloat16 next to x, by the definition: of the two around it, the one at less distance, or else the even one.
func nearest(x float32) uint16 {
	b := math.Float32bits(x)
	below := uint16(b >> 16)
	value := func(h uint16) float64 { return float64(math.Float32frombits(uint32(h) << 16)) }
	switch {
	case x != x:
		return below | 0x40
	case math.IsInf(float64(x), 0):
		return below
	}
	low, high := math.Abs(float64(x)-value(below)), math.Abs(value(below+1)-float64(x))
	if math.IsInf(value(below+1), 0) { // as if the exponent went on
		high = math.Abs(math.Copysign(0x1p128, float64(x)) - float64(x))
	}
	if high < low || high == low && below&1 == 1 {
		return below + 1
	}
	return below
}

// nearestHalf is the float16 next to x as package reorder's portable casts have it.
func nearestHalf(x float32) uint16 {
	var h [1]uint16
	reorder.ToHalf(isa.Target{}, h[:], []float32{x}, reorder.Float16)
	return h[0]
}

var types = []struct {
	pairs.Type
	nearest func(float32) uint16
}{{pairs.BFloat16, nearest}, {pairs.Float16, nearestHalf}}

var _ = It("rounds rows and pairs of rows, for every instruction set, without touching what lies outside", func() {
	r := rand.New(rand.NewPCG(1, 2))
	for _, t := range isa.Targets() {
		for _, y := range types {
			for range 100 {
				n := 1 + r.IntN(400)
				src, dst := numbers(r, n), words(r, pairs.Words(n))
				y.Along(t, dst, src)
				want := make([]uint16, 2*len(dst))
				for i, x := range src {
					want[i] = y.nearest(x)
				}
				Expect(pairs.Halves(dst)).To(Equal(want), "%v %v %d", t, y, n)

				k, width := 1+r.IntN(40), 1+r.IntN(pairs.Lanes)
				if r.IntN(3) == 0 {
					width = pairs.Lanes
				}
				lds := width + r.IntN(3)
				src, dst = numbers(r, (k-1)*lds+width), words(r, pairs.Words(k)*pairs.Lanes)
				y.Across(t, dst, src, k, width, lds)
				want = make([]uint16, 2*len(dst))
				for i := range k {
					for j := range width {
						at := 2*(i/2*pairs.Lanes+j) + i%2
						if y.Type == pairs.Float16 {
							at = i*pairs.Lanes + j
						}
						x := src[i*lds+j]
						if want[at] = y.nearest(x); x == x && y.nearest(y.At(dst, i, j)) != want[at] {
							Fail(fmt.Sprintf("%v At(%d, %d) of %v is %v", y, i, j, x, y.At(dst, i, j)))
						}
					}
				}
				Expect(pairs.Halves(dst)).To(Equal(want), "%v %v %d rows of %d", t, y, k, width)
			}
		}
	}
})

var _ = It("rounds the rows of a matrix, of any distance", func() {
	r := rand.New(rand.NewPCG(3, 4))
	for _, t := range isa.Targets() {
		for _, y := range types {
			for _, cols := range []int{1, 2, 31, 32, 33, 64, 129} {
				for _, gap := range []int{0, 1, 7} {
					const rows = 5
					src, dst := numbers(r, (rows-1)*(cols+gap)+cols), words(r, rows*pairs.Words(cols))
					y.Matrix(t, dst, src, rows, cols, cols+gap)
					for i := range rows {
						for j, x := range src[i*(cols+gap):][:cols] {
							Expect(pairs.Halves(dst)[2*i*pairs.Words(cols)+j]).To(Equal(y.nearest(x)), "%v %v %d, %d", t, y, i, j)
						}
					}
				}
			}
		}
	}
})

var _ = It("numbers of a word are those that were rounded", func() {
	r := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		x, y := float32(r.NormFloat64()), float32(r.NormFloat64())
		var word [1]uint32
		pairs.BFloat16.Along(isa.Target{}, word[:], []float32{x, y})
		Expect(pairs.Low(word[0])).To(BeNumerically("~", x, math.Abs(float64(x))/256))
		Expect(pairs.High(word[0])).To(BeNumerically("~", y, math.Abs(float64(y))/256))
	}
})

var _ = Describe("Beside", func() {
	It("rounds blocks of 16 numbers to words beside each other", func() {
		r := rand.New(rand.NewPCG(1, 9))
		for _, t := range isa.Targets() {
			for range 100 {
				n, blocks := 1+r.IntN(40), 1+r.IntN(5)
				lds := 16 * (1 + r.IntN(2))
				block := n*lds + 16*r.IntN(2)
				ldd := blocks*8 + 8*r.IntN(2)
				src, dst := numbers(r, (blocks-1)*block+(n-1)*lds+16), words(r, (n-1)*ldd+blocks*8)
				for i := range dst {
					dst[i] = 0x12345678
				}
				pairs.Beside(t, dst, src, n, blocks, block, lds, ldd)
				for i, w := range dst {
					row, at := i/ldd, i%ldd
					if at >= blocks*8 {
						Expect(w).To(BeEquivalentTo(0x12345678))
						continue
					}
					from := at/8*block + row*lds + at%8*2
					Expect(w).To(Equal(uint32(nearest(src[from]))|uint32(nearest(src[from+1]))<<16), "word %d of row %d", at, row)
				}
			}
		}
	})
})
