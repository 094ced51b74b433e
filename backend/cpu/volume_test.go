package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
)

// box draws a window over three axes and the dims of a map that it fits in.
func box(m *model) (in, k [3]int, attrs []any) {
	var s, d, begin, end []int64
	for i := range 3 {
		k[i] = m.between(1, 3)
		dilate := 1
		if k[i] > 1 && m.chance(4) {
			dilate = 2
		}
		in[i] = m.between((k[i]-1)*dilate+1, 7)
		s, d = append(s, int64(m.between(1, 2))), append(d, int64(dilate))
		begin, end = append(begin, int64(m.between(0, k[i]-1))), append(end, int64(m.between(0, k[i]-1)))
	}
	attrs = []any{strides(s...), dilations(d...)}
	switch m.r.IntN(3) {
	case 0:
		attrs = append(attrs, pads(append(begin, end...)...))
	case 1:
		attrs = append(attrs, graph.StringAttr("auto_pad", pick(m, "SAME_UPPER", "SAME_LOWER", "VALID")))
	}
	return in, k, attrs
}

// mostlyConstant adds weights that are computed now and then.
func mostlyConstant(m *model, shape ...int) *graph.Value {
	if m.chance(3) {
		return operand(m, shape...)
	}
	return m.constant(shape...)
}

var _ = Describe("operators over three axes", func() {
	It("convolve as the reference kernels do", seeds(40, func(m *model) {
		c, oc, g := channels(m)
		in, k, attrs := box(m)
		x := operand(m, m.between(1, 3), c, in[0], in[1], in[2])
		args := []any{x, mostlyConstant(m, oc, c/g, k[0], k[1], k[2])}
		if m.chance(2) {
			args = append(args, mostlyConstant(m, oc))
		}
		y := m.op("Conv", append(append(args, group(g)), attrs...)...)
		if m.chance(2) {
			y = m.op("Add", y, operand(m, m.known[y].Shape...))
		}
		m.sample(activate(m, y))
	}))

	It("convolve transposed as the reference kernels do", seeds(24, func(m *model) {
		g := pick(m, 1, 1, 2)
		c, oc := g*m.between(1, 20), g*m.between(1, 20)
		var in, k [3]int
		var s, out, begin, end []int64
		for i := range 3 {
			in[i], k[i] = m.between(1, 5), m.between(1, 4)
			stride := m.between(1, k[i]) // every result has a source
			s, out = append(s, int64(stride)), append(out, int64(m.r.IntN(stride)))
			begin, end = append(begin, 0), append(end, out[i])
			if in[i] > 1 && k[i] > 1 && m.chance(2) {
				begin[i] = 1
			}
		}
		y := m.op("ConvTranspose", operand(m, m.between(1, 2), c, in[0], in[1], in[2]), mostlyConstant(m, c, oc/g, k[0], k[1], k[2]), mostlyConstant(m, oc),
			group(g), strides(s...), graph.IntsAttr("output_padding", out...), pads(append(begin, end...)...))
		m.sample(activate(m, y))
	}))

	It("convolve what has no elements as the reference kernels do", seeds(24, func(m *model) {
		in := []int{m.between(1, 2), 4, m.between(1, 3), m.between(1, 3), m.between(1, 3)}
		in[m.between(2, 4)] = 0
		w := m.constant(4, pick(m, 4, 20), 3, 3, 2)
		if m.chance(2) {
			m.sample(m.op("ConvTranspose", operand(m, in...), w, strides(3, 3, 2), graph.IntsAttr("output_padding", 2, 2, 1), graph.IntsAttr("output_shape", 2, 3, 4)))
			return
		}
		m.sample(m.op("Conv", operand(m, in...), m.constant(4, 4, 3, 3, 2), m.constant(4), pads(2, 2, 2, 2, 2, 2)))
	}))

	It("pool as the reference kernels do", seeds(60, func(m *model) {
		in, k, attrs := box(m)
		attrs = append(attrs, kernel(int64(k[0]), int64(k[1]), int64(k[2])), graph.IntAttr("ceil_mode", int64(m.r.IntN(2))))
		op := "MaxPool"
		if m.chance(2) {
			op, attrs[1] = "AveragePool", graph.IntAttr("count_include_pad", int64(m.r.IntN(2)))
		}
		m.sample(m.op(op, append([]any{operand(m, m.between(1, 3), m.between(1, 33), in[0], in[1], in[2])}, attrs...)...))
	}))

	It("pass blocked volumes on to each other", seeds(24, func(m *model) {
		c := m.between(5, 40)
		x := operand(m, m.between(1, 2), m.between(1, 8), m.between(1, 5), m.between(1, 6), m.between(1, 6))
		same := graph.StringAttr("auto_pad", "SAME_UPPER")
		y := m.op("Conv", x, m.constant(c, m.known[x].Shape[1], 3, 3, 3), same)
		y = m.op("BatchNormalization", y, m.constant(c), m.constant(c), m.constant(c), away(m, m.constant(c)))
		y = m.op(pick(m, "Relu", "Sigmoid", "Tanh"), y)
		z := m.op("Add", m.op("Conv", y, m.constant(c, c, 1, 1, 1)), y)
		z = m.op("Mul", z, m.op("Sigmoid", z))
		if m.chance(2) {
			z = m.op("MaxPool", z, kernel(2, 1, 1), same)
		}
		m.sample(m.op(pick(m, "GlobalAveragePool", "GlobalMaxPool"), z), z)
	}))
})
