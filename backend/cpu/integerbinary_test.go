package cpu_test

import (
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// wholeNumbers adds an input of integers of a type, of all magnitudes, 0 and the extremes among them.
func wholeNumbers(m *model, dt tensor.DType, shape ...int) *graph.Value {
	GinkgoHelper()
	t, err := tensor.New(dt, shape...)
	Expect(err).NotTo(HaveOccurred())
	size := dt.Size()
	for at := 0; at < len(t.Bytes()); at += size {
		b := t.Bytes()[at : at+size]
		switch m.r.IntN(4) {
		case 0: // 0 or 1
			b[0] = byte(m.r.IntN(2))
		case 1: // the largest or the smallest
			b[size-1] = pick(m, byte(0x7f), 0x80)
		default:
			for i := range m.between(1, size) {
				b[i] = byte(m.r.Uint32())
			}
		}
	}
	return m.feed(t)
}

var _ = Describe("operators on two integers", func() {
	It("agree with the reference kernels", seeds(150, func(m *model) {
		dt := pick(m, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64)
		op := pick(m, "Mod", "Add", "Sub", "Mul", "Div", "Max", "Min", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
		var attrs []any
		if op == "Mod" {
			attrs = []any{graph.IntAttr("fmod", int64(m.r.IntN(2)))}
		}
		if m.chance(6) {
			dt, op, attrs = pick(m, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64), "BitShift", []any{graph.StringAttr("direction", pick(m, "LEFT", "RIGHT"))}
		}
		shape := []int{m.between(1, 3), m.between(1, pick(m, 20, 300))}
		a, b := wholeNumbers(m, dt, shape...), wholeNumbers(m, dt, broadcastTo(m, shape)...)
		if op != "BitShift" && m.chance(2) {
			a, b = b, a
		}
		m.sample(m.op(op, append([]any{a, b}, attrs...)...))
	}))

	It("have PRelu as the reference kernels do", seeds(60, func(m *model) {
		dt := pick(m, tensor.Int32, tensor.Int64, tensor.Uint32, tensor.Uint64)
		shape := []int{m.between(1, 3), m.between(1, pick(m, 20, 700))}
		m.sample(m.op("PRelu", wholeNumbers(m, dt, shape...), wholeNumbers(m, dt, broadcastTo(m, shape)...)))
	}))

	It("need no memory of Go's heap", func(ctx SpecContext) {
		m := newModel(1)
		x := m.feed(tensor.From(make([]int64, 2*700), 2, 700))
		column := m.feed(tensor.From([]int64{3, 5}, 2, 1))
		less := m.op("Less", x, column)
		f := m.input(2, 300)
		Expect(m.allocations(ctx, m.op("Sub", column, x), m.op("Div", x, column), less, m.op("Where", less, x, column), m.op("PRelu", x, column), m.op("ReduceMax", x, m.ints(1)),
			m.op("Mod", f, m.input(2, 1), graph.IntAttr("fmod", 1)), m.op("Equal", f, m.input(2, 1)))).To(BeZero())
	})

	It("of floats is Mod alone", seeds(10, func(m *model) {
		a, b := m.input(4, 9), away(m, m.input(9))
		m.sample(m.op("Mod", a, b, graph.IntAttr("fmod", 1)), m.op("Mod", m.op("Mul", a, m.scalar(7)), b, graph.IntAttr("fmod", 1)))
		var x, y [300]float32 // whose quotients are large and small, of all kinds of numbers
		for i := range x {
			x[i], y[i] = math.Float32frombits(m.r.Uint32()), math.Float32frombits(m.r.Uint32())
			switch m.r.IntN(4) {
			case 0:
				y[i] = x[i] / float32(1+m.r.IntN(1<<20))
			case 1:
				x[i] = y[i] * float32(m.r.IntN(1<<24))
			}
		}
		c, d := m.data(tensor.From(x[:], 2, 150)), m.data(tensor.From(y[:], 2, 150))
		m.check(m.op("Mod", c, d, graph.IntAttr("fmod", 1)), m.op("Mod", c, m.data(tensor.From(y[:2], 2, 1)), graph.IntAttr("fmod", 1)))
	}))
})
