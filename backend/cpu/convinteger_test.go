package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/property"
)

// integerWindow returns dims of a line, an image or a volume and of weights, and the attributes of a convolution: dense, in groups of many and of few
// outputs, or with a filter for each channel.
func integerWindow(m *model) (dx, dw []int, attrs []any) {
	groups, c, oc := 1, length(m), length(m)
	switch m.r.IntN(4) {
	case 0:
		groups, c, oc = length(m), 1, 1
	case 1:
		groups, c, oc = m.between(2, 3), m.between(1, 9), pick(m, 16, 32)
	case 2:
		groups, c, oc = pick(m, 2, 3, 4, 6, 8, 12, 32), m.between(1, 5), pick(m, 1, 2, 3, 4, 5, 7, 8, 15, 17, 20, 33)
	}
	dx, dw = []int{m.between(1, 2), groups * c}, []int{groups * oc, c}
	var strides, dilations, pads []int64
	axes, most := pick(m, 1, 2, 1, 2, 3), 20
	if axes == 3 {
		most = 6
	}
	for range axes {
		k, d := m.between(1, 3), m.between(1, 2)
		dx, dw = append(dx, m.between((k-1)*d+1, most)), append(dw, k)
		strides, dilations, pads = append(strides, int64(m.between(1, 3))), append(dilations, int64(d)), append(pads, int64(m.between(0, k)))
	}
	for range dw[2:] {
		pads = append(pads, int64(m.between(0, 2)))
	}
	return dx, dw, []any{group(groups), graph.IntsAttr("strides", strides...), graph.IntsAttr("dilations", dilations...), graph.IntsAttr("pads", pads...)}
}

// constantZero returns a constant zero point, or nil: of all weights, or one for each of n outputs.
func constantZero(m *model, dt tensor.DType, n int) *graph.Value {
	switch m.r.IntN(3) {
	case 0:
		return nil
	case 1:
		return m.data(bytesOf(m, dt))
	}
	return m.data(bytesOf(m, dt, n))
}

var _ = Describe("convolutions of 8-bit integers", func() {
	It("are the reference's, element for element", seeds(150, func(m *model) {
		dx, dw, attrs := integerWindow(m)
		tx, tw := byteType(m), byteType(m)
		zero := m.given(bytesOf(m, tx))
		if m.chance(3) {
			zero = nil
		}
		in := []any{m.feed(bytesOf(m, tx, dx...)), m.data(bytesOf(m, tw, dw...)), zero, constantZero(m, tw, dw[0])}
		m.sample(m.op("ConvInteger", append(in, attrs...)...))
	}))

	It("of 3 x 3 taps and whole groups of channels are the reference's", seeds(25, func(m *model) {
		tx, tw := byteType(m), byteType(m)
		dw, zero := []int{length(m), 16 * m.between(1, 3), 3, 3}, m.data(tensor.From([]uint8{0}))
		if m.chance(2) {
			zero = m.data(bytesOf(m, tx))
		} else {
			tx = tensor.Uint8
		}
		in := []any{m.feed(bytesOf(m, tx, m.between(1, 2), dw[1], m.between(4, 24), m.between(4, 24))), m.data(bytesOf(m, tw, dw...)), zero, constantZero(m, tw, dw[0])}
		m.sample(m.op("ConvInteger", append(in, pads(m.int64s(4, 0, 2)...))...))
	}))

	It("of many chunks are the reference's", seeds(3, func(m *model) {
		dw := pick(m, []int{70, 9, 3, 3}, []int{9, 1, 3, 3})
		in := []any{m.feed(bytesOf(m, tensor.Uint8, 2, 9, 23, 31)), m.data(bytesOf(m, tensor.Int8, dw...)), m.data(bytesOf(m, tensor.Uint8))}
		m.sample(m.op("ConvInteger", append(in, group(9/dw[1]), pads(1, 1, 1, 1))...))
	}))

	It("are left to others where padding would fill the memory", func() {
		far := int64(1 << 20)
		for _, attrs := range [][]any{{dilations(far, far), pads(far, far, 0, 0)}, {pads(far, far, 0, 0), strides(far, far)}} {
			m := newModel(1)
			in := []any{m.feed(bytesOf(m, tensor.Uint8, 1, 1, 3, 3)), m.data(bytesOf(m, tensor.Int8, 1, 1, 2, 2))}
			y := m.op("ConvInteger", append(in, attrs...)...)
			Expect(supports(y).Reason.Code).To(Equal(property.Attribute))
			m.g.SetOutputs(y)
			Expect(m.run(way{target: isa.Host(), threads: 1})).To(Succeed())
		}
	})

	It("by weights and zero points that a run tells are the reference's", seeds(120, func(m *model) {
		dx, dw, attrs := integerWindow(m)
		tx, tw := byteType(m), byteType(m)
		w, zero := m.feed(bytesOf(m, tw, dw...)), constantZero(m, tw, dw[0])
		if m.chance(2) {
			zero = m.feed(bytesOf(m, tw, pick(m, []int{}, []int{dw[0]})...))
			if m.chance(2) {
				w = m.data(bytesOf(m, tw, dw...))
			}
		}
		in := []any{m.feed(bytesOf(m, tx, dx...)), w, m.given(bytesOf(m, tx)), zero}
		m.sample(m.op("ConvInteger", append(in, attrs...)...))
	}))
})
