package cpu_test

import (
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Products and convolutions that are large enough for tiles of AMX, with and without them.

// both checks a result by every way of the host's best instruction set, with tiles and without.
func (m *model) both(y *graph.Value) {
	GinkgoHelper()
	m.g.SetOutputs(y)
	host := isa.Host()
	for _, w := range []way{{target: host, threads: 2}, {target: host, guarded: true, threads: 1}, {target: host.WithoutTiles(), threads: 2}} {
		Expect(m.run(w)).To(Succeed(), "%v", w)
	}
}

// tiledWindow returns dims of an image, of weights of 1 or 3 by 3 taps or a few more, and attributes.
func tiledWindow(m *model) (dx, dw []int, attrs []any) {
	taps := pick(m, 1, 3, 3, 5)
	c, oc := pick(m, 3, 16, 24, 40, 64, 100), m.between(30, 140)
	groups := 1
	if m.chance(4) {
		groups, c, oc = 2, 32, 48
	}
	step, d := int64(m.between(1, 2)), int64(m.between(1, 1+taps/3))
	least := max(7, (taps-1)*int(d)+1)
	dx, dw = []int{m.between(1, 2), groups * c, m.between(least, 20), m.between(least, 40)}, []int{groups * oc, c, taps, taps}
	p := int64(m.between(0, taps/2))
	return dx, dw, []any{group(groups), graph.IntsAttr("strides", step, step), graph.IntsAttr("dilations", d, d), pads(p, p, p, p)}
}

var _ = Describe("tiles of 8-bit integers", func() {
	It("multiply as the reference does", seeds(12, func(m *model) {
		rows, k, n := m.between(8, 300), m.between(60, 400), m.between(60, 300)
		ta, tb := byteType(m), byteType(m)
		m.both(m.op("MatMulInteger", m.feed(bytesOf(m, ta, rows, k)), m.given(bytesOf(m, tb, k, n)), zeroOf(m, ta, rows), zeroOf(m, tb, n)))
	}))

	It("multiply to integers as the reference does", seeds(12, func(m *model) {
		m.judge = m.stepOff
		rows, k, n := m.between(8, 500), m.between(128, 400), m.between(60, 300)
		ta, tb, ty := byteType(m), byteType(m), byteType(m)
		zero, err := tensor.New(tb)
		Expect(err).NotTo(HaveOccurred())
		m.both(m.op("QLinearMatMul", m.feed(bytesOf(m, ta, rows, k)), one(m, float32(0.02)), m.data(bytesOf(m, ta)), m.data(bytesOf(m, tb, k, n)),
			scaleOf(m, 0.05, n), m.data(zero), one(m, float32(0.3*math.Sqrt(float64(k)))), m.data(bytesOf(m, ty))))
	}))

	It("convolve as the reference does", seeds(8, func(m *model) {
		dx, dw, attrs := tiledWindow(m)
		tx, tw := byteType(m), byteType(m)
		in := []any{m.feed(bytesOf(m, tx, dx...)), m.data(bytesOf(m, tw, dw...)), m.given(bytesOf(m, tx)), constantZero(m, tw, dw[0])}
		m.both(m.op("ConvInteger", append(in, attrs...)...))
	}))

	It("convolve to integers as the reference does", seeds(12, func(m *model) {
		m.judge = m.stepOff
		dx, dw, attrs := tiledWindow(m)
		tx, tw, ty := byteType(m), byteType(m), byteType(m)
		zero, err := tensor.New(tw)
		Expect(err).NotTo(HaveOccurred())
		fan := dw[1] * dw[2] * dw[3]
		in := []any{m.feed(bytesOf(m, tx, dx...)), one(m, float32(0.02)), m.data(bytesOf(m, tx)), m.data(bytesOf(m, tw, dw...)), scaleOf(m, 0.05, dw[0]), m.data(zero),
			one(m, float32(0.3*math.Sqrt(float64(fan)))), m.data(bytesOf(m, ty))}
		m.both(m.op("QLinearConv", append(in, attrs...)...))
	}))
})
