package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Softmax", func() {
	It("over the last axis agrees with the reference kernels", seeds(24, func(m *model) {
		x := operand(m, append(m.shape(m.between(0, 3), 1, 4), m.between(1, 40))...)
		m.sample(m.op(pick(m, "Softmax", "LogSoftmax"), x))
	}))

	It("along an axis that others follow allocates nothing once it is planned", func(ctx SpecContext) {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
			m := newModel(1)
			x := m.feed(as(m.floats(8, 128), dt, false))
			Expect(m.allocations(ctx, m.op("Softmax", x, axis(0)), m.op("LogSoftmax", x, axis(0)))).To(BeZero(), "%v", dt)
		}
	})

	It("over all axes from one on, before operator set 13", seeds(16, func(m *model) {
		m.version(11)
		shape := m.shape(m.between(1, 4), 1, 6)
		args := []any{operand(m, shape...)}
		if m.chance(2) || len(shape) == 1 {
			args = append(args, axis(m.between(-len(shape), len(shape)-1)))
		}
		m.sample(m.op(pick(m, "Softmax", "LogSoftmax"), args...))
	}))
})

var _ = Describe("normalisation of rows", func() {
	It("agrees with the reference kernels", seeds(24, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 12)
		a := m.r.IntN(len(shape))
		args := []any{operand(m, shape...), m.constant(shape[a:]...)}
		op := pick(m, "LayerNormalization", "RMSNormalization")
		if op == "LayerNormalization" && m.chance(2) {
			args = append(args, operand(m, shape[a:]...))
		}
		m.sample(m.op(op, append(args, axis(a-pick(m, 0, len(shape))), graph.FloatAttr("epsilon", 0.01))...))
	}))

	It("gives the means and the inverses of deviations that the reference kernels give", seeds(24, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 12)
		if m.chance(3) {
			shape[len(shape)-1] = m.between(60, 300)
		}
		a := m.r.IntN(len(shape))
		x := operand(m, shape...)
		if m.chance(2) {
			x = m.op("Neg", x) // the result may lie in its place
		}
		out := m.ops("LayerNormalization", 3, x, m.constant(shape[a:]...), axis(a), graph.FloatAttr("epsilon", 0.01))
		m.sample(pick(m, out, out[1:], out[:2], []*graph.Value{out[0], out[2]})...)
	}))
})

var _ = Describe("reductions", func() {
	It("of short rows of integers agree with the reference kernels", seeds(60, func(m *model) {
		x := m.op("Cast", m.op("Mul", m.input(m.between(1, 40), m.between(1, 24)), m.scalar(5)), to(pick(m, tensor.Int32, tensor.Int64)))
		m.sample(m.op(pick(m, "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"), x, m.ints(1)))
	}))

	It("of integers allocate nothing once they are planned", func(ctx SpecContext) {
		for _, dt := range []tensor.DType{tensor.Int32, tensor.Int64} {
			for _, op := range []string{"ReduceL1", "ReduceSumSquare"} {
				m := newModel(1)
				x := small(m, dt, 8, 128)
				Expect(m.allocations(ctx, m.op(op, x), m.op(op, x, m.ints(1)), m.op(op, x, m.ints(0)))).To(BeZero(), "%s of %v", op, dt)
			}
		}
	})

	It("agree with the reference kernels", seeds(60, func(m *model) {
		shape := m.shape(m.between(0, 4), 1, 20)
		rank := len(shape)
		if m.chance(12) && rank > 0 {
			shape[m.r.IntN(rank)] = 0
		}
		op := pick(m, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
		args := []any{operand(m, shape...)}
		if rank > 0 && !m.chance(5) {
			first := m.r.IntN(rank)
			var axes []int64
			for a := first; a <= m.between(first, rank-1); a++ {
				axes = append(axes, int64(a-pick(m, 0, rank)))
			}
			args = append(args, m.ints(axes...))
		}
		m.sample(m.op(op, append(args, graph.IntAttr("keepdims", int64(m.r.IntN(2))))...))
	}))

	It("by attributes agree with the reference kernels", seeds(10, func(m *model) {
		m.version(11)
		m.sample(m.op(pick(m, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"), operand(m, 3, 4, 5), graph.IntsAttr("axes", pick(m, []int64{1, 2}, []int64{0}, []int64{-2}, []int64{0, 1, 2})...)))
	}))

	It("of long rows to products agree with the reference kernels", seeds(20, func(m *model) {
		t := m.floats(m.between(1, 3), m.between(1000, 3000))
		for i, x := range tensor.Of[float32](t) {
			tensor.Of[float32](t)[i] = 1 + x/100
		}
		x := m.feed(t)
		pick(m, m.check, m.checkDouble)(m.op("ReduceProd", x), m.op("ReduceProd", x, m.ints(1)))
	}))

	It("by axes that the run tells agree with the reference kernels", seeds(80, func(m *model) {
		shape := m.shape(m.between(2, 4), 1, 20)
		if m.chance(12) {
			shape[m.r.IntN(len(shape))] = 0
		}
		var axes []int64
		for _, a := range m.r.Perm(len(shape))[:m.between(1, len(shape)-1)] {
			axes = append(axes, int64(a-pick(m, 0, len(shape))))
		}
		op := pick(m, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum")
		var x *graph.Value
		switch op {
		case "ReduceL2", "ReduceLogSumExp":
			x = small(m, pick(m, tensor.Float32, tensor.Float64), shape...)
		case "ReduceLogSum":
			x = m.op("Exp", m.input(shape...))
		default:
			x = small(m, pick(m, tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32), shape...)
		}
		m.sample(m.op(op, x, m.feed(tensor.From(axes, len(axes))), graph.IntAttr("keepdims", int64(m.r.IntN(2)))))
	}))

	It("of integers to numbers that are computed as floats agree with the reference kernels", seeds(80, func(m *model) {
		m.version(18)
		shape := m.shape(m.between(1, 3), 1, pick(m, 5, 20, 150))
		if m.chance(4) {
			shape = []int{m.between(1, 4), m.between(500, 1100)}
		}
		dt := pick(m, tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64)
		x := small(m, dt, shape...)
		op := pick(m, "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum")
		if op == "ReduceLogSum" {
			x = m.op("Abs", x)
		}
		along := m.r.Perm(len(shape))[:m.between(1, len(shape))]
		var axes []int64
		for _, a := range along {
			axes = append(axes, int64(a))
		}
		m.sample(m.op(op, x, m.ints(axes...), graph.IntAttr("keepdims", int64(m.r.IntN(2)))))
	}))

	It("of maps in the blocked layout agree with the reference kernels", seeds(12, func(m *model) {
		c := m.between(1, 33)
		x := m.op("Conv", m.input(m.between(1, 2), 5, 3, 4), m.constant(c, 5, 1, 1))
		m.sample(m.op("ReduceMean", x, m.ints(2, 3), graph.IntAttr("keepdims", int64(m.r.IntN(2)))))
	}))
})
