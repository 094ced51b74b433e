package cpu_test

import (
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// roundedLSTM adds a DynamicQuantizeLSTM of random sizes, and returns those of its results that are there.
func roundedLSTM(m *model) []*graph.Value {
	GinkgoHelper()
	m.g.Opsets[microsoft.Domain] = 1
	seq, batch, in, hidden := m.between(1, 6), m.between(1, 3), m.between(1, 40), m.between(1, 40)
	if m.long {
		seq, hidden = m.between(12, 30), m.between(60, 100)
	}
	if m.chance(12) {
		seq = 0
	}
	dirs, direction := 1, pick(m, "forward", "reverse", "bidirectional")
	if direction == "bidirectional" {
		dirs = 2
	}
	dt := byteType(m)
	list := make([]*graph.Value, 12)
	list[0] = operand(m, seq, batch, in)
	for i, k := range []int{in, hidden} {
		w := bytesOf(m, dt, dirs, k, 4*hidden)
		shape := pick(m, []int{dirs}, []int{dirs, 4 * hidden})
		scales := m.floats(shape...)
		for j, s := 0, tensor.Of[float32](scales); j < len(s); j++ {
			s[j] = float32((0.5 + m.r.Float64()) / 128 / math.Sqrt(float64(k)))
		}
		zeros := bytesOf(m, dt, shape...)
		if m.chance(2) {
			clear(zeros.Bytes())
		}
		list[1+i], list[8+2*i], list[9+2*i] = m.data(w), m.data(scales), m.data(zeros)
	}
	if m.chance(2) {
		list[3] = m.constant(dirs, 8*hidden)
	}
	if m.chance(3) {
		counts := make([]int32, batch)
		for i := range counts {
			counts[i] = int32(m.between(0, seq))
		}
		list[4] = m.feed(tensor.From(counts))
	}
	for _, i := range []int{5, 6} {
		if m.chance(2) {
			list[i] = operand(m, dirs, batch, hidden)
		}
	}
	out := m.add(graph.NodeSpec{Op: graph.Op{Domain: microsoft.Domain, Name: "DynamicQuantizeLSTM"}, Name: "r", Inputs: list, Outputs: []string{"y", "h", "c"},
		Attrs: []graph.Attr{graph.IntAttr("hidden_size", int64(hidden)), graph.StringAttr("direction", direction)}})
	Expect(m.err).NotTo(HaveOccurred())
	return out
}

// flips allows what follows where a state lies between two integers, and is rounded to the other one: small differences, few of them.
func (m *model) flips(got map[string]tensor.Value) string {
	for _, v := range m.g.Outputs {
		g, want := got[v.Name].(*tensor.Tensor), m.known[v]
		sum := 0.0
		for i := range want.Len() {
			d := math.Abs(g.Float64At(i) - want.Float64At(i))
			if !(d < 0.02) {
				return fmt.Sprintf("output %s[%d] is %g, expected %g", v.Name, i, g.Float64At(i), want.Float64At(i))
			}
			sum += d
		}
		if sum > 5e-4*float64(want.Len()) {
			return fmt.Sprintf("output %s is %g off in the mean", v.Name, sum/float64(want.Len()))
		}
	}
	return ""
}

var _ = Describe("LSTM of 8 bits", func() {
	It("rounds what the reference kernels round", seeds(60, func(m *model) {
		m.judge = m.flips
		out := roundedLSTM(m)
		if m.chance(2) {
			out = append(out, m.op("Neg", out[0]))
		}
		m.sample(out...)
	}))
	It("does so over sequences of several blocks", seeds(10, func(m *model) {
		m.judge, m.long = m.flips, true
		m.sample(roundedLSTM(m)...)
	}))
})
