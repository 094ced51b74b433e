package cpu_test

import (
	"errors"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// recurrent adds a recurrent operator with that many gates and, as results, those whose bit in outputs is set. States are
// how many initial states it takes.
func recurrent(m *model, op string, gates, states, results int, attrs ...graph.Attr) []*graph.Value {
	GinkgoHelper()
	seq, batch, in, hidden := m.between(1, 6), m.between(1, 3), m.between(1, 10), m.between(1, 20)
	if m.long {
		seq, hidden = m.between(12, 30), m.between(100, 200)
	}
	dirs, direction := 1, pick(m, "forward", "reverse", "bidirectional")
	if direction == "bidirectional" {
		dirs = 2
	}
	if m.chance(12) {
		seq = 0
	}
	values := []*graph.Value{operand(m, seq, batch, in), m.constant(dirs, gates*hidden, in), m.scaled(1/math.Sqrt(float64(hidden)), dirs, gates*hidden, hidden), nil, nil}
	if m.chance(2) {
		values[3] = m.constant(dirs, 2*gates*hidden)
	}
	if m.lengths {
		lens := make([]int32, batch)
		for b := range lens {
			lens[b] = int32(m.between(0, seq))
		}
		given := func(list []int32) *graph.Value {
			return m.feedAs(graph.TensorType(tensor.Int32, graph.Shape{graph.D(batch)}), tensor.From(list))
		}
		switch m.r.IntN(3) {
		case 0:
			values[4] = m.data(tensor.From(lens))
		case 1:
			values[4] = given(lens)
		default: // made by the group itself, in memory that others take when it is read no more
			for b := range lens {
				lens[b] = -lens[b]
			}
			values[4] = m.op("Neg", given(lens))
		}
	}
	for i := range states {
		if m.chance(2) {
			for len(values) <= 5+i {
				values = append(values, nil)
			}
			values[5+i] = operand(m, dirs, batch, hidden)
		}
	}
	for i, a := range attrs { // one name for each direction
		if a.Name == "activations" && dirs == 1 {
			attrs[i] = graph.StringsAttr(a.Name, a.Strs[0])
		}
	}
	spec := graph.NodeSpec{Op: graph.Op{Name: op}, Name: "r", Inputs: values,
		Attrs: append(attrs, graph.IntAttr("hidden_size", int64(hidden)), graph.StringAttr("direction", direction))}
	mask := m.between(1, 1<<results-1)
	for i := range results {
		name := ""
		if mask>>i&1 != 0 {
			name = string(rune('p' + i))
		}
		spec.Outputs = append(spec.Outputs, name)
	}
	out := m.add(spec)
	if out == nil {
		Fail(m.err.Error())
	}
	var present []*graph.Value
	for _, v := range out {
		if v != nil {
			present = append(present, v)
		}
	}
	return present
}

var _ = Describe("LSTM", func() {
	It("agrees with the reference kernels", seeds(50, func(m *model) {
		out := recurrent(m, "LSTM", 4, 2, 3)
		if m.chance(2) {
			out = append(out, m.op("Neg", out[0]))
		}
		m.sample(out...)
	}))

	It("agrees with the reference kernels over sequences of several blocks", seeds(8, func(m *model) {
		m.long = true
		m.sample(recurrent(m, "LSTM", 4, 2, 3)...)
	}))

	It("agrees with the reference kernels where rows have steps of their own number", seeds(60, func(m *model) {
		m.long, m.lengths = m.chance(6), true
		out := recurrent(m, "LSTM", 4, 2, 3)
		if m.chance(2) {
			out = append(out, m.op("Neg", out[0]))
		}
		m.sample(out...)
	}))

	DescribeTable("refuses rows of more steps than there are, or of fewer than none, as the other operators over sequences do",
		func(ctx SpecContext, op string, gates int) {
			m := newModel(1)
			x, lens := m.input(3, 2, 4), m.feed(tensor.From([]int32{1, 2}))
			if gates == 0 {
				lens = m.feed(tensor.From([]int64{1, 2}))
				m.g.SetOutputs(m.op(op, x, lens))
			} else {
				m.g.SetOutputs(m.op(op, x, m.constant(1, gates*5, 4), m.constant(1, gates*5, 5), nil, lens, graph.IntAttr("hidden_size", 5)))
			}
			p, err := carve.Compile(ctx, carve.FromGraph(m.g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(p.Close)
			_, err = p.Run(ctx, m.feeds)
			Expect(err).NotTo(HaveOccurred())
			for _, bad := range []int32{4, -1, math.MaxInt32, math.MinInt32} {
				if gates == 0 {
					m.feeds[lens.Name] = tensor.From([]int64{1, int64(bad)})
				} else {
					m.feeds[lens.Name] = tensor.From([]int32{1, bad})
				}
				_, err = p.Run(ctx, m.feeds)
				var out *backend.RangeError
				Expect(errors.As(err, &out)).To(BeTrue(), "%v", err)
				Expect([]int64{out.Value, out.Min, out.Max}).To(Equal([]int64{int64(bad), 0, 3}))
			}
		},
		Entry("LSTM", "LSTM", 4), Entry("GRU", "GRU", 3), Entry("RNN", "RNN", 1), Entry("ReverseSequence", "ReverseSequence", 0))

	It("runs in every way and for every length", func() {
		m := newModel(1)
		x := m.feedAs(graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("S"), graph.Sym("N"), graph.D(7)}), m.floats(9, 3, 7))
		out := m.ops("LSTM", 3, x, m.constant(2, 4*21, 7), m.constant(2, 4*21, 21), m.constant(2, 8*21), graph.IntAttr("hidden_size", 21), graph.StringAttr("direction", "bidirectional"))
		m.check(out...)
	})
})

var _ = Describe("LSTM over a long sequence", func() {
	It("computes gates by blocks", seeds(6, func(m *model) {
		seq, batch, hidden := m.between(13, 40), m.between(1, 3), m.between(250, 300) // 12 rows of gates at a time
		x := m.op("Neg", m.input(seq, batch, 8))
		direction := pick(m, "forward", "reverse", "bidirectional")
		dirs := 1
		if direction == "bidirectional" {
			dirs = 2
		}
		small := func(shape ...int) *graph.Value {
			t := m.floats(shape...)
			for i, s := 0, tensor.Of[float32](t); i < len(s); i++ {
				s[i] /= 16
			}
			return m.data(t)
		}
		out := m.ops("LSTM", 3, x, small(dirs, 4*hidden, 8), small(dirs, 4*hidden, hidden), small(dirs, 8*hidden), graph.IntAttr("hidden_size", int64(hidden)),
			graph.StringAttr("direction", direction))
		m.sample(out...)
	}))
})
