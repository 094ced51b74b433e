package quant_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/testshare"
)

// integerRow are n integers of a kind, in runs that have a scale and a zero point each.
type integerRow struct {
	quant.Numbers
	of          quant.Integers
	size, run   int
	least, most float64
	bytes       []byte
	floats      []float32
}

func newIntegerRow(r *rand.Rand, n int, front bool) *integerRow {
	c := &integerRow{of: quant.Integers{Words: r.IntN(2) == 0, Signed: r.IntN(2) == 0}, size: 1, most: 255, run: []int{1, 16, 32, 1 + r.IntN(60), max(n, 1)}[r.IntN(5)]}
	if c.of.Words {
		c.size, c.most = 2, 65535
	}
	if c.of.Signed {
		c.least = -(c.most + 1) / 2
		c.most += c.least
	}
	count := (n + c.run - 1) / c.run
	c.bytes, c.floats = fillBytes(guarded[byte](c.size*n, front), r), guarded[float32](n, front)
	c.Scales, c.Zeros = guarded[float32](count, front), guarded[int32](count, front)
	for i := range c.Scales {
		c.Scales[i] = []float32{0.5, 0.01, 3}[r.IntN(3)]
		c.Zeros[i] = int32(c.least + math.Floor(r.Float64()*(c.most-c.least+1)))
	}
	for i := range c.floats {
		c.floats[i] = []float32{float32(r.NormFloat64() * 300), float32(r.IntN(100)-50) / 4, float32(math.NaN()), float32(math.Inf(1)),
			float32(math.Inf(-1)), 1e30, float32(math.Copysign(0, -1))}[r.IntN(7)]
	}
	return c
}

// integer returns element i.
func (c *integerRow) integer(i int) int32 {
	switch b := c.bytes[i*c.size:]; {
	case c.of.Words && c.of.Signed:
		return int32(int16(binary.LittleEndian.Uint16(b)))
	case c.of.Words:
		return int32(binary.LittleEndian.Uint16(b))
	case c.of.Signed:
		return int32(int8(b[0]))
	default:
		return int32(b[0])
	}
}

var _ = Describe("elements and runs with a scale each", func() {
	It("are quantised half to even, bounded, NaN as the least", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for i := range testshare.Of(8) {
				for _, n := range append(sizes, 40000)[:len(sizes)+1-min(i, 1)] { // a long one once
					c := newIntegerRow(r, n, front)
					for i := range c.Scales {
						if r.IntN(9) == 0 {
							c.Scales[i] = float32(math.Inf(1))
						}
					}
					if c.run == 1 {
						k.QuantizeColumns(c.bytes, c.floats, c.Numbers, c.of)
					} else {
						k.QuantizeRuns(c.bytes, c.floats, c.Numbers, c.run, c.of)
					}
					got, want := make([]int32, n), make([]int32, n)
					for i, x := range c.floats {
						q := float64(x / c.Scales[i/c.run])
						if q != q {
							q = math.Inf(-1)
						}
						got[i], want[i] = c.integer(i), int32(min(max(math.RoundToEven(q)+float64(c.Zeros[i/c.run]), c.least), c.most))
					}
					Expect(slices.Equal(got, want)).To(BeTrue(), "%d %+v in runs of %d", n, c.of, c.run)
				}
			}
		})
	})

	It("are dequantised", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for i := range testshare.Of(8) {
				for _, n := range append(sizes, 40000)[:len(sizes)+1-min(i, 1)] { // a long one once
					c := newIntegerRow(r, n, front)
					if c.run == 1 {
						k.DequantizeColumns(c.floats, c.bytes, c.Numbers, c.of)
					} else {
						k.DequantizeRuns(c.floats, c.bytes, c.Numbers, c.run, c.of)
					}
					want := make([]float32, n)
					for i := range want {
						want[i] = float32(c.integer(i)-c.Zeros[i/c.run]) * c.Scales[i/c.run]
					}
					Expect(slices.Equal(c.floats, want)).To(BeTrue(), "%d %+v in runs of %d", n, c.of, c.run)
				}
			}
		})
	})
})

var _ = It("channels add up over pixels, and bytes repeat", func() {
	everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
		for _, n := range append(sizes, 64, 100, 200) {
			rows, ld := []int{0, 1, 7, 2100}[r.IntN(4)], n+r.IntN(3)
			src := fillBytes(guarded[byte](max((rows-1)*ld+n, n), front), r)
			for _, signed := range []bool{false, true} {
				got, want := guarded[int32](n, front), make([]int32, n)
				k.ChannelSums(got, src, ld, rows, signed)
				for i := range rows * n {
					b := src[i/n*ld+i%n]
					if want[i%n] += int32(b); signed {
						want[i%n] += int32(int8(b)) - int32(b)
					}
				}
				Expect(slices.Equal(got, want)).To(BeTrue(), "%d columns of %d rows", n, rows)
			}
			twice, want := guarded[byte](2*n, front), make([]byte, 2*n)
			k.Twice(twice, src[:n])
			for i := range want {
				want[i] = src[i/2]
			}
			Expect(slices.Equal(twice, want)).To(BeTrue(), "%d bytes", n)
		}
	})
})
