package quant_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/quant"
)

// column is a row of n integers of a kind, and what each is scaled by.
type column struct {
	of          quant.Integers
	size        int
	least, most float64
	bytes       []byte
	scales      []float32
	zeros       []int32
	floats      []float32
	alike       bool
}

func newColumn(r *rand.Rand, n int, front bool) *column {
	c := &column{of: quant.Integers{Words: r.IntN(2) == 0, Signed: r.IntN(2) == 0}, size: 1, most: 255, alike: r.IntN(2) == 0}
	if c.of.Words {
		c.size, c.most = 2, 65535
	}
	if c.of.Signed {
		c.least = -(c.most + 1) / 2
		c.most += c.least
	}
	count := n
	if c.alike {
		count = quant.Group
	}
	c.bytes, c.floats = fillBytes(guarded[byte](c.size*n, front), r), guarded[float32](n, front)
	c.scales, c.zeros = guarded[float32](count, front), guarded[int32](count, front)
	for i := range c.scales {
		if c.scales[i], c.zeros[i] = c.scales[0], c.zeros[0]; i == 0 || !c.alike {
			c.scales[i] = []float32{0.5, 0.01, 3, float32(math.Inf(1))}[r.IntN(4)]
			c.zeros[i] = int32(c.least + math.Floor(r.Float64()*(c.most-c.least+1)))
		}
	}
	for i := range c.floats {
		c.floats[i] = []float32{float32(r.NormFloat64() * 300), float32(r.IntN(100)-50) / 4, float32(math.NaN()), float32(math.Inf(1)),
			float32(math.Inf(-1)), 1e30, float32(math.Copysign(0, -1))}[r.IntN(7)]
	}
	return c
}

// integer returns element i.
func (c *column) integer(i int) int32 {
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

func (c *column) parameters(i int) (scale float32, zero int32) {
	if c.alike {
		i = 0
	}
	return c.scales[i], c.zeros[i]
}

var _ = Describe("elements with a scale each", func() {
	It("are quantised half to even, bounded, NaN as nothing", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range 8 {
				for _, n := range sizes {
					c := newColumn(r, n, front)
					k.QuantizeColumns(c.bytes, c.floats, c.scales, c.zeros, c.of)
					for i, x := range c.floats {
						scale, zero := c.parameters(i)
						q := float64(x / scale)
						if q != q {
							q = 0
						}
						want := min(max(math.RoundToEven(q)+float64(zero), c.least), c.most)
						Expect(c.integer(i)).To(Equal(int32(want)), "%g of %+v", x, c.of)
					}
				}
			}
		})
	})

	It("are dequantised", func() {
		everywhere(func(k quant.Kernels, r *rand.Rand, front bool) {
			for range 8 {
				for _, n := range sizes {
					c := newColumn(r, n, front)
					for i, s := range c.scales {
						c.scales[i] = min(s, 3)
					}
					k.DequantizeColumns(c.floats, c.bytes, c.scales, c.zeros, c.of)
					for i, got := range c.floats {
						scale, zero := c.parameters(i)
						Expect(got).To(Equal(float32(c.integer(i)-zero)*scale), "%+v", c.of)
					}
				}
			}
		})
	})
})
