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
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("operators of any number of operands", func() {
	It("agree with the reference kernels", seeds(40, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 5)
		var in []any
		for range m.between(1, 4) {
			if m.chance(2) {
				in = append(in, operand(m, shape...))
			} else {
				in = append(in, operand(m, broadcastTo(m, shape)...))
			}
		}
		m.sample(m.op(pick(m, "Sum", "Mean", "Max", "Min"), in...))
	}))

	It("agree with the reference kernels in the blocked layout", seeds(10, func(m *model) {
		x := m.op("Conv", m.input(2, 5, 3, 4), m.constant(7, 5, 1, 1))
		y := m.op(pick(m, "Sum", "Mean", "Max"), x, m.op("Neg", x), m.op("Exp", x))
		m.sample(m.op("Conv", y, m.constant(3, 7, 1, 1)))
	}))
})

var _ = Describe("functions", func() {
	for _, op := range []string{"Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Softsign", "Sign", "ThresholdedRelu"} {
		It("agree with the reference kernels: "+op, func() {
			m := newModel(3)
			x := m.op("Mul", m.op("Tanh", m.input(3, 50)), m.scalar(0.9))
			if op == "Acosh" {
				x = m.op("Add", x, m.scalar(2))
			}
			m.check(m.op(op, x))
		})
	}

	It("of numbers of all kinds agree with the reference kernels", func() {
		m := newModel(5)
		values := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 1.5, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.MaxFloat32, -math.MaxFloat32, 0x1p-149, -0x1p-130,
			0x1p-12, 0.99999994, -0.99999994, 1.0000001, 89, 89.5, -89.4}
		for range 300 {
			values = append(values, math.Float32frombits(m.r.Uint32()), float32(m.r.NormFloat64()), float32(m.r.NormFloat64()*1e-3))
		}
		x := m.data(tensor.From(values, len(values)))
		for _, op := range []string{"Tan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"} {
			m.check(m.op(op, x))
		}
		m.check(m.op("Shrink", x), m.op("PRelu", x, m.scalar(-0.5)), m.op("PRelu", x, x))
	})

	It("of integers agree with the reference kernels", func() {
		m := newModel(1)
		for _, dt := range []tensor.DType{tensor.Int64, tensor.Int32} {
			x := small(m, dt, 3, 7)
			m.check(m.op("Abs", x), m.op("Neg", x), m.op("Sign", x))
		}
	})

	It("of the bits of integers agree with the reference kernels", seeds(20, func(m *model) {
		dt := pick(m, tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64)
		m.check(m.op("BitwiseNot", small(m, dt, m.shape(m.between(0, 3), 0, 9)...)))
	}))

	It("of Shrink agree with the reference kernels", seeds(10, func(m *model) {
		lambda, bias := pick(m, 0, 0.5, 1.5, -0.5), pick(m, 0, 0.5, -1)
		bound, by := graph.FloatAttr("lambd", float32(lambda)), graph.FloatAttr("bias", float32(bias))
		m.check(m.op("Shrink", m.input(m.shape(m.between(0, 3), 1, 9)...), bound, by))
		dt := pick(m, tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64)
		m = newModel(m.seed)
		m.check(m.op("Shrink", small(m, dt, m.between(1, 3), m.between(1, 900)), bound, by))
		m = newModel(m.seed)
		m.checkDouble(m.op("Shrink", m.input(m.shape(m.between(0, 3), 1, 9)...), bound, by))
	}))

	It("of Shrink of integers of any size are those of the reference kernels", seeds(60, func(m *model) {
		dt := pick(m, tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64)
		t, err := tensor.New(dt, m.between(1, 2000))
		Expect(err).NotTo(HaveOccurred())
		x, shift := make([]int64, t.Len()), m.between(0, 60)
		for i := range x {
			x[i] = int64(m.r.Uint64()) >> shift
		}
		Expect(tensor.EncodeInts(t, x)).To(Succeed())
		lambda, bias := pick(m, 0, 0.5, 1.5, -0.5, 100, 1e30, float32(math.NaN())), pick(m, 0, 0.5, -1, 300, 1e20, float32(math.Inf(1)))
		m.exact(m.op("Shrink", m.feed(t), graph.FloatAttr("lambd", lambda), graph.FloatAttr("bias", bias)))
	}))

	It("test for NaN and infinities", func() {
		m := newModel(1)
		x := m.op("Div", m.input(6), m.data(tensor.From([]float32{0, 1, 0, 1, 0, 1}, 6)))
		y := m.op("Concat", x, m.op("Sub", x, x), axis(0))
		m.check(m.op("IsNaN", y), m.op("IsInf", y), m.op("IsInf", y, graph.IntAttr("detect_negative", 0)), m.op("IsInf", y, graph.IntAttr("detect_positive", 0)))
	})
})

var _ = It("drop-outs with masks keep everything", seeds(6, func(m *model) {
	x := m.op("Neg", m.input(m.shape(m.between(0, 3), 0, 9)...))
	out := m.ops("Dropout", 2, x)
	m.check(out[0], out[1], m.op("Neg", out[0]), m.op("Not", out[1]))
	rows := m.ops("Dropout", 2, m.input(2, 20))
	m.check(m.op("Concat", rows[0], m.op("Neg", rows[0]), axis(1)), m.op("Concat", rows[1], m.op("Not", rows[1]), axis(1)))
}))

var _ = Describe("PRelu", func() {
	It("agrees with the reference kernels", seeds(20, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 7)
		m.sample(m.op("PRelu", operand(m, shape...), operand(m, broadcastTo(m, shape)...)))
	}))

	It("of images between convolutions, and of parts of them, agrees with the reference kernels", seeds(30, func(m *model) {
		sides := []int{m.between(1, 40), m.between(1, 40)}
		images := !m.chance(3)
		if !images {
			sides = append([]int{m.between(1, 3)}, sides...)
		}
		ones, threes := make([]int, len(sides)), make([]int, len(sides))
		border := make([]int64, 2*len(sides))
		for i := range sides {
			ones[i], threes[i], border[2*i], border[2*i+1] = 1, 3, 1, 1
		}
		c := pick(m, 16, 32, m.between(1, 50))
		weights := func(oc, ic int, taps []int) *graph.Value { return m.constant(append([]int{oc, ic}, taps...)...) }
		x := m.op("Conv", m.input(append([]int{m.between(1, 3), 5}, sides...)...), weights(c, 5, threes), pads(border...))
		y := m.op("Sigmoid", x)
		for range m.between(1, 3) {
			if images && m.chance(2) { // y is written into images of more channels, and x may be read there
				y = m.op("Concat", y, x, axis(1))
			}
			y = m.op("PRelu", y, channelConstant(m, y))
		}
		beside := m.op("PRelu", x, channelConstant(m, x))
		m.sample(y, m.op("Conv", y, weights(7, m.known[y].Shape[1], ones)), m.op("Conv", beside, weights(3, c, ones)))
	}))
})

var _ = Describe("softmax and reductions of any axes", func() {
	It("agree with the reference kernels", seeds(24, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 9)
		m.sample(m.op(pick(m, "Softmax", "LogSoftmax"), operand(m, shape...), axis(m.between(-len(shape), len(shape)-1))))
	}))

	It("before others that fill vectors, and several parts of them, agree with the reference kernels", seeds(24, func(m *model) {
		shape := []int{m.between(1, 3), m.between(1, 40), m.between(1, 3), m.between(1, 700)}
		m.sample(m.op(pick(m, "Softmax", "LogSoftmax"), operand(m, shape...), axis(m.between(1, 2))))
	}))

	It("before few others, of many matrices, agree with the reference kernels", seeds(24, func(m *model) {
		shape := []int{m.between(0, 300), pick(m, m.between(1, 8), m.between(30, 90)), m.between(2, 20)}
		x := operand(m, shape...)
		if m.chance(2) {
			x = m.op("Neg", x) // the result may lie in its place
		}
		m.sample(m.op(pick(m, "Softmax", "LogSoftmax"), x, axis(1)))
	}))

	It("before others are not a number where they are not along rows", func() {
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		const wide = 20
		x := make([]float32, 3*wide)
		for i := range x {
			x[i] = float32(i%7) - 90
		}
		for r := range 3 {
			x[r*wide+1] = -inf // all of a column
		}
		x[wide+3], x[2*wide+4] = nan, -inf
		for _, op := range []string{"LogSoftmax", "Softmax"} {
			if op == "Softmax" { // the logarithm's are -Inf beside +Inf for the reference, as along rows they are not here
				x[wide+2] = inf
			}
			m := newModel(1)
			m.check(m.op(op, m.feed(tensor.From(x, 1, 3, wide)), axis(1)))
		}
	})

	It("that lie apart agree with the reference kernels", seeds(50, func(m *model) {
		shape := m.shape(m.between(1, 5), 1, 6)
		if m.chance(3) { // many rows of few elements
			shape = []int{m.between(20, 600), m.between(1, 9)}
		}
		var axes []int64
		for a := range shape {
			if m.chance(2) {
				axes = append(axes, int64(a))
			}
		}
		op := pick(m, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum")
		x := operand(m, shape...)
		if op == "ReduceLogSum" {
			x = away(m, x)
		}
		m.sample(m.op(op, x, m.ints(axes...), graph.IntAttr("keepdims", int64(m.r.IntN(2)))))
	}))

	It("of images of any rank agree with the reference kernels", seeds(10, func(m *model) {
		x := operand(m, append([]int{m.between(1, 2), m.between(1, 9)}, m.shape(pick(m, 1, 3), 1, 5)...)...)
		m.sample(m.op(pick(m, "GlobalAveragePool", "GlobalMaxPool"), x))
	}))
})

var _ = Describe("blocks", func() {
	It("move between depth and space as in the reference kernels", seeds(16, func(m *model) {
		b := m.between(1, 3)
		n, c, h, w := m.between(1, 2), m.between(1, 4), m.between(1, 4), pick(m, 1, 3, 8, 21)
		size := graph.IntAttr("blocksize", int64(b))
		m.sample(m.op("SpaceToDepth", operand(m, n, c, h*b, w*b), size),
			m.op("DepthToSpace", operand(m, n, c*b*b, h, w), size, graph.StringAttr("mode", pick(m, "DCR", "CRD"))))
	}))
})

var _ = Describe("numbers made from few", func() {
	It("at equal distances agree with the reference kernels, also where the run says how many", seeds(40, func(m *model) {
		dt := pick(m, tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32)
		scalar := func(x float64) *tensor.Tensor {
			t, err := tensor.Convert(tensor.Scalar(x), dt, nil)
			Expect(err).NotTo(HaveOccurred())
			return t
		}
		number := func(x float64) *graph.Value { return m.feed(scalar(x)) }
		delta := pick(m, -3.0, -1, 1, 2)
		if dt.IsFloat() {
			delta /= 4
		}
		found := m.op("Range", number(float64(m.between(-9, 9))), number(float64(m.between(-9, 9))), number(delta))
		n := m.op("Cast", m.op("Gather", m.op("Shape", m.input(m.between(1, 70), 2)), m.data(tensor.Scalar(int64(0)))), to(dt))
		m.sample(found, m.op("Range", number(1), n, number(1)), m.op("Range", n, m.data(scalar(-3)), m.data(scalar(-2))))
	}))

	It("with one of two values at places agree with the reference kernels", seeds(40, func(m *model) {
		shape := m.shape(m.between(0, 3), 1, 6)
		depth := m.between(0, 6)
		if m.chance(3) {
			shape, depth = []int{m.between(1, 3), m.between(1, 900)}, m.between(0, 60)
		}
		x := small(m, pick(m, tensor.Int64, tensor.Int32), shape...)
		values := small(m, pick(m, tensor.Float32, tensor.Int64, tensor.Float16, tensor.Uint8), 2)
		m.sample(m.op("OneHot", x, m.data(pick(m, tensor.Scalar(int64(depth)), tensor.From([]float32{float32(depth)}, 1))), values, axis(m.between(-len(shape)-1, len(shape)))))
	}))
})

var _ = Describe("order", func() {
	It("of elements agrees with the reference kernels", seeds(40, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 7)
		a := m.between(-len(shape), len(shape)-1)
		d := shape[(a+len(shape))%len(shape)]
		x := small(m, tensor.Float32, shape...) // with many ties
		if m.chance(2) {
			x = operand(m, shape...)
		}
		if m.chance(2) {
			m.sample(m.op(pick(m, "ArgMax", "ArgMin"), x, axis(a), graph.IntAttr("keepdims", int64(m.r.IntN(2))), graph.IntAttr("select_last_index", int64(m.r.IntN(2)))))
			return
		}
		m.sample(m.ops("TopK", 2, x, m.ints(int64(m.between(0, d))), axis(a), graph.IntAttr("largest", int64(m.r.IntN(2))))...)
	}))

	It("of half precision, along any axis, agrees with the reference kernels", seeds(60, func(m *model) {
		shape := m.shape(m.between(1, 3), 1, pick(m, 9, 40, 150))
		t := m.floats(shape...)
		for i, x := range tensor.Of[float32](t) {
			tensor.Of[float32](t)[i] = float32(math.Round(float64(x)*pick(m, 1.0, 8, 1000))) / 4
			if m.chance(40) {
				tensor.Of[float32](t)[i] = pick(m, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 6e-8)
			}
		}
		a := m.between(-len(shape), len(shape)-1)
		k := m.between(0, min(shape[(a+len(shape))%len(shape)], pick(m, 1, 8, 40, 150)))
		x := m.op("Cast", m.feed(t), to(pick(m, tensor.Float16, tensor.BFloat16)))
		m.exact(m.ops("TopK", 2, x, m.ints(int64(k)), axis(a), graph.IntAttr("largest", int64(m.r.IntN(2))))...)
	}))

	It("of many integers of 64 bits, some of which differ in their lowest bits alone, agrees with the reference kernels", seeds(40, func(m *model) {
		x := make([]int64, m.between(33, 700))
		spread := pick(m, 0, 20, 33, 50)
		for i := range x {
			if x[i] = int64(m.r.IntN(40)-20) + int64(m.r.IntN(3)-1)<<spread; m.chance(9) {
				x[i] = pick(m, math.MaxInt64, math.MinInt64, int64(m.r.Uint64()))
			}
		}
		v := m.feed(tensor.From(x, len(x)))
		m.sample(m.ops("TopK", 2, v, m.ints(int64(m.between(0, len(x)))), graph.IntAttr("largest", int64(m.r.IntN(2))))...)
	}))

	It("puts NaN where the reference kernels do", func() {
		m := newModel(1)
		zero := m.op("Mul", m.input(2), m.scalar(0))
		x := m.op("Concat", m.input(3), m.op("Div", zero, zero), m.input(2), axis(0))
		out := m.ops("TopK", 2, x, m.ints(5))
		m.check(append(out, m.op("ArgMax", x), m.op("ArgMin", x), m.op("ArgMax", x, graph.IntAttr("select_last_index", 1)))...)
	})
})

var _ = Describe("scans", func() {
	It("agree with the reference kernels", seeds(30, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 7)
		if m.chance(3) { // more lines beside each other than are taken at a time
			shape = append(shape[:min(len(shape), 2)], m.between(60, 600))
		}
		a := m.between(-len(shape), len(shape)-1)
		along := m.given(pick(m, tensor.Scalar(int64(a)), tensor.Scalar(int32(a)), tensor.From([]int64{int64(a)}, 1)))
		x := operand(m, shape...)
		if m.chance(2) {
			x = small(m, pick(m, tensor.Int64, tensor.Int32), shape...)
		}
		op := "CumSum"
		if m.chance(3) {
			op = "CumProd"
		}
		m.sample(m.op(op, x, along, graph.IntAttr("exclusive", int64(m.r.IntN(2))), graph.IntAttr("reverse", int64(m.r.IntN(2)))))
	}))

	It("along an axis that there is not name it", func(ctx SpecContext) {
		for _, a := range []int64{2, -3} {
			m := newModel(1)
			x, along := m.input(3, 4), m.feed(tensor.Scalar(int64(0)))
			y := m.op("CumSum", x, along)
			m.g.SetOutputs(y)
			p, err := carve.Compile(ctx, carve.FromGraph(m.g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Strict: true})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(p.Close)
			m.feeds[along.Name] = tensor.Scalar(a)
			_, err = p.Run(ctx, m.feeds)
			var out *backend.RangeError
			Expect(errors.As(err, &out)).To(BeTrue(), "%v", err)
			Expect(*out).To(HaveField("Value", a))
			Expect(*out).To(HaveField("Port", ContainSubstring("axis")))
		}
	})

	It("keep triangles as the reference kernels do", seeds(30, func(m *model) {
		x := anyType(m, m.shape(m.between(2, 4), 1, 7)...)
		args := []any{x}
		if m.chance(2) {
			args = append(args, m.given(tensor.Scalar(int64(m.between(-9, 9)))))
		}
		m.sample(m.op("Trilu", append(args, graph.IntAttr("upper", int64(m.r.IntN(2))))...))
	}))
})

var _ = Describe("ReverseSequence", func() {
	It("agrees with the reference kernels", seeds(40, func(m *model) {
		d := m.shape(m.between(2, 4), 1, 7)
		batch := m.r.IntN(2)
		lens := make([]int64, d[batch])
		for i := range lens {
			lens[i] = int64(m.between(0, d[1-batch]))
		}
		list := m.feedAs(graph.TensorType(tensor.Int64, graph.Shape{graph.D(len(lens))}), tensor.From(lens))
		m.sample(m.op("ReverseSequence", anyType(m, d...), list, graph.IntAttr("batch_axis", int64(batch)), graph.IntAttr("time_axis", int64(1-batch))))
	}))
})

var _ = Describe("RotaryEmbedding", func() {
	It("agrees with the reference kernels", seeds(60, func(m *model) {
		batch, heads, length, half := m.between(1, 3), m.between(1, 4), m.between(1, 9), m.between(1, 12)
		width := 2*half + m.r.IntN(3)*m.r.IntN(2)
		attrs := []any{graph.IntAttr("interleaved", int64(m.r.IntN(2)))}
		if width > 2*half || m.chance(3) {
			attrs = append(attrs, graph.IntAttr("rotary_embedding_dim", int64(2*half)))
		}
		x := []int{batch, heads, length, width}
		if m.chance(2) {
			x = []int{batch, length, heads * width}
			attrs = append(attrs, graph.IntAttr("num_heads", int64(heads)))
		}
		args := []any{m.input(x...)}
		if m.chance(2) {
			args = append(args, m.input(batch, length, half), m.input(batch, length, half))
		} else {
			rows := m.between(1, 20)
			ids := make([]int64, batch*length)
			for i := range ids {
				ids[i] = int64(m.between(-rows, rows-1))
				if i > 0 && !m.chance(4) && ids[i-1] < int64(rows-1) { // as positions that follow each other
					ids[i] = ids[i-1] + 1
				}
			}
			args = append(args, operand(m, rows, half), operand(m, rows, half),
				m.feedAs(graph.TensorType(tensor.Int64, graph.Shape{graph.D(batch), graph.D(length)}), tensor.From(ids, batch, length)))
		}
		m.sample(m.op("RotaryEmbedding", append(args, attrs...)...))
	}))

	DescribeTable("is not computed of angles or positions of another shape", func(angles, ids []int) {
		m := newModel(1)
		args := []*graph.Value{m.input(2, 4, 3, 8), m.input(3, 2, 4), m.input(angles...)}
		if ids != nil {
			args = []*graph.Value{args[0], m.input(9, 4), m.input(angles...), m.feedAs(graph.TensorType(tensor.Int64, graph.ShapeOf(ids...)), tensor.From(make([]int64, 6), ids...))}
		}
		n := m.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "RotaryEmbedding"}, Name: "turn", Inputs: args, Outputs: []string{"y"}})
		Expect(graph.InferNode(n)).To(Succeed())
		m.g.SetOutputs(n.Outputs...)
		Expect(m.run(way{target: isa.Host(), threads: 1})).To(MatchError(ContainSubstring("shape and storage disagree")))
	},
		Entry("as many of each kind, in the order of another batch", []int{3, 2, 4}, nil),
		Entry("sines of another shape", []int{4, 9}, []int{2, 3}),
		Entry("positions of the other axis first", []int{9, 4}, []int{3, 2}),
	)
})

// places adds an input of indices below and, from the end, above limits.
func places(m *model, limit func(i int) int, shape ...int) *graph.Value {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]int64, n)
	for i := range v {
		l := limit(i)
		v[i] = int64(m.between(-l, l-1))
	}
	return m.feed(tensor.From(v, shape...))
}

// scattered are types of updates that are added, multiplied and compared.
var scattered = []tensor.DType{tensor.Float32, tensor.Int64, tensor.Float64, tensor.Int32, tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint32}

var _ = Describe("gathering and scattering", func() {
	It("of elements agree with the reference kernels", seeds(30, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 6)
		a := m.r.IntN(len(shape))
		part := make([]int, len(shape))
		for i, d := range shape {
			part[i] = m.between(1, d)
		}
		idx := places(m, func(int) int { return shape[a] }, part...)
		if m.chance(3) {
			idx = m.op("Cast", idx, to(tensor.Int32))
		}
		dt, reduction := pick(m, scattered...), graph.StringAttr("reduction", pick(m, "none", "add", "mul", "max", "min"))
		if m.chance(3) {
			dt, reduction = pick(m, tensor.Float16, tensor.Uint8), graph.StringAttr("reduction", "none")
		}
		x := small(m, dt, shape...)
		m.sample(m.op("GatherElements", x, idx, axis(a-pick(m, 0, len(shape)))), m.op("ScatterElements", x, idx, small(m, dt, part...), axis(a), reduction))
	}))

	It("of elements with one index for many agree with the reference kernels", seeds(30, func(m *model) {
		shape := m.shape(m.between(2, 4), 1, 6)
		a := m.r.IntN(len(shape))
		if m.chance(3) { // as long as kernels take
			shape[len(shape)-1] = m.between(1, 70)
		}
		part, rows := make([]int, len(shape)), make([]int, len(shape))
		for i, d := range shape {
			part[i], rows[i] = pick(m, d, m.between(1, d)), 1
			if i <= a {
				rows[i] = part[i]
			}
		}
		whole := make([]int64, len(part))
		for i, d := range part {
			whole[i] = int64(d)
		}
		idx := m.op("Expand", places(m, func(int) int { return shape[a] }, rows...), m.op("Constant", graph.TensorAttr("value", tensor.From(whole, len(whole)))))
		dt := pick(m, scattered...)
		reduction := graph.StringAttr("reduction", pick(m, "none", "add", "mul", "max", "min"))
		m.sample(m.op("ScatterElements", small(m, dt, shape...), idx, small(m, dt, part...), axis(a), reduction))
	}))

	It("of slices agree with the reference kernels", seeds(30, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 5)
		if m.chance(3) {
			shape[len(shape)-1] = m.between(1, 70)
		}
		batch := m.between(0, len(shape)-1)
		k := m.between(1, len(shape)-batch)
		si := append(append([]int{}, shape[:batch]...), append(m.shape(m.between(0, 2), 1, 3), k)...)
		if len(si) == batch {
			return
		}
		idx := places(m, func(i int) int { return shape[batch+i%k] }, si...)
		x := anyType(m, shape...)
		out := []*graph.Value{m.op("GatherND", x, idx, graph.IntAttr("batch_dims", int64(batch)))}
		if batch == 0 {
			updates := append(append([]int{}, si[:len(si)-1]...), shape[k:]...)
			dt := pick(m, scattered...)
			out = append(out, m.op("ScatterND", small(m, dt, shape...), idx, small(m, dt, updates...), graph.StringAttr("reduction", pick(m, "none", "add", "mul", "max", "min"))))
		}
		m.sample(out...)
	}))
})

var _ = Describe("Resize", func() {
	It("agrees with the reference kernels", seeds(50, func(m *model) {
		c := m.between(1, 33)
		h, w := m.between(1, 6), m.between(1, 6)
		x := m.op("Conv", m.input(m.between(1, 2), 5, h, w), m.constant(c, 5, 1, 1))
		if m.chance(3) { // an image, which the blocked layout would pad
			c = m.between(1, 5)
			x = m.input(m.between(1, 2), c, h, w)
		}
		args := []any{x, nil}
		if m.chance(2) {
			args = append(args, m.data(tensor.From([]float32{1, 1, pick[float32](m, 1, 2, 1.5, 0.7), pick[float32](m, 1, 3, 2, 0.6)}, 4)))
		} else {
			args = append(args, nil, m.ints(int64(m.known[x].Shape[0]), int64(c), int64(m.between(1, 9)), int64(m.between(1, 9))))
		}
		args = append(args, graph.StringAttr("mode", pick(m, "nearest", "linear")),
			graph.StringAttr("coordinate_transformation_mode", pick(m, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")),
			graph.StringAttr("nearest_mode", pick(m, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")))
		y := m.op("Resize", args...)
		m.sample(y, m.op("Exp", m.op("Mul", y, m.scalar(0.1))))
	}))

	It("to nearest neighbours over any axes agrees with the reference kernels", seeds(60, func(m *model) {
		d := m.shape(m.between(1, 5), 1, pick(m, 5, 5, 20))
		x := m.input(d...)
		if m.chance(3) {
			x = m.op("Cast", m.op("Mul", x, m.scalar(40)), to(pick(m, tensor.Int8, tensor.Int32, tensor.Int64)))
		}
		args := []any{x, nil}
		if m.chance(2) {
			var sizes []int64
			for _, n := range d {
				sizes = append(sizes, int64(pick(m, n, 2*n, m.between(1, 3*n))))
			}
			args = append(args, nil, m.ints(sizes...))
		} else {
			scales := make([]float32, len(d))
			for a, n := range d {
				scales[a] = max(pick[float32](m, 1, 1, 2, 3, 1.7, 1.1, 0.6), 1/float32(n))
			}
			args = append(args, m.data(tensor.From(scales, len(d))))
		}
		m.exact(m.op("Resize", append(args, graph.StringAttr("coordinate_transformation_mode", pick(m, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")),
			graph.StringAttr("nearest_mode", pick(m, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")))...))
	}))

	It("of a region that a run names agrees with the reference kernels", seeds(60, func(m *model) {
		d := m.shape(m.between(1, 5), 1, 6)
		args, named, region := []any{m.input(d...)}, m.chance(2), make([]float32, 2*len(d))
		for a := range d {
			region[len(d)+a] = 1
			if m.chance(2) {
				region[a], region[len(d)+a] = pick[float32](m, 0, 0.25, 0.3, -0.2, 1.1), pick[float32](m, 1, 0.75, 0.9, 1.3, 0.1)
			}
		}
		switch box := tensor.From(region, len(region)); {
		case named:
			args = append(args, m.feed(box))
		case m.chance(4):
			args = append(args, nil)
		default:
			args = append(args, m.data(box))
		}
		sizes, scales := make([]int64, len(d)), make([]float32, len(d))
		for a, n := range d {
			sizes[a], scales[a] = int64(m.between(1, 9)), max(pick[float32](m, 1, 2, 1.7, 0.6), 1/float32(n))
		}
		if m.chance(2) {
			args = append(args, nil, m.ints(sizes...))
		} else {
			args = append(args, m.data(tensor.From(scales, len(d))))
		}
		m.sample(m.op("Resize", append(args, graph.StringAttr("coordinate_transformation_mode", "tf_crop_and_resize"), graph.StringAttr("mode", pick(m, "nearest", "linear")),
			graph.FloatAttr("extrapolation_value", pick[float32](m, 0, -3)), graph.StringAttr("nearest_mode", pick(m, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")))...))
	}))

	It("by scales that make no whole size, with corners aligned, is ONNX's", func() {
		m := newModel(1)
		x := m.feed(tensor.From([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 1, 2, 4))
		y := m.op("Resize", x, nil, m.data(tensor.From([]float32{1, 1, 0.6, 0.6}, 4)), graph.StringAttr("mode", "linear"),
			graph.StringAttr("coordinate_transformation_mode", "align_corners"))
		Expect(tensor.Of[float32](m.known[y])).To(Equal([]float32{1, 22.0 / 7}))
		m.check(y)
	})

	It("of sizes that scales reach in float32 alone has those of the inferred type", func() {
		m := newModel(1)
		y := m.op("Resize", m.input(1, 1, 10, 10), nil, m.data(tensor.From([]float32{1, 1, 0.7, 0.7}, 4)))
		Expect(m.known[y].Shape).To(Equal([]int{1, 1, 7, 7}))
		m.check(y)
	})

	It("of older operator sets agrees with the reference kernels", func() {
		for _, mode := range []string{"nearest", "linear"} {
			for opset, op := range map[int]string{9: "Upsample", 10: "Resize"} {
				m := newModel(1).version(opset)
				m.check(m.op(op, m.input(2, 5, 3, 4), m.data(tensor.From([]float32{1, 1, 2, 3}, 4)), graph.StringAttr("mode", mode)))
			}
		}
	})

	It("of operator set 10 to fewer nearest neighbours agrees with the reference kernels", seeds(20, func(m *model) {
		m.version(10)
		d := pick(m, []int{1, 3, 9, 6}, []int{2, 16, 7, 8}, []int{1, 9, 6, 2, 3}, []int{10})
		scales := make([]float32, len(d))
		for a := range scales {
			scales[a] = 1
			if a >= min(2, len(d)-1) {
				scales[a] = pick[float32](m, 1, 2, 0.6, 0.5, 0.35)
			}
		}
		x := m.input(d...)
		if len(d) == 4 && m.chance(3) {
			x = m.op("Cast", x, to(tensor.Float64))
		}
		m.exact(m.op("Resize", x, m.data(tensor.From(scales, len(d))), graph.StringAttr("mode", "nearest")))
	}))
})

var _ = Describe("GRU", func() {
	It("agrees with the reference kernels where rows have steps of their own number", seeds(60, func(m *model) {
		m.long, m.lengths = m.chance(6), true
		m.sample(recurrent(m, "GRU", 3, 1, 2, graph.IntAttr("linear_before_reset", int64(m.r.IntN(2))))...)
	}))

	It("agrees with the reference kernels", seeds(50, func(m *model) {
		out := recurrent(m, "GRU", 3, 1, 2, graph.IntAttr("linear_before_reset", int64(m.r.IntN(2))))
		m.sample(out...)
	}))
})

var _ = Describe("operator sets before 7", func() {
	It("have PRelu with one slope per channel", func() {
		for _, shape := range [][]int{{2, 5, 3, 4}, {2, 5, 3}, {2, 5, 1}, {2, 5}} {
			m := newModel(1)
			x, slope := m.input(shape...), m.constant(5)
			ones := []int{5}
			for range len(shape) - 2 {
				ones = append(ones, 1)
			}
			want := m.op("PRelu", x, m.data(tensor.From(tensor.Of[float32](slope.Const), ones...)))
			m.version(6)
			n := m.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "PRelu"}, Name: "old", Inputs: []*graph.Value{x, slope}, Outputs: []string{"old"}})
			Expect(graph.InferNode(n)).To(Succeed())
			m.known[n.Outputs[0]] = m.known[want]
			m.check(want, n.Outputs[0])
		}
	})

	It("and their broadcasting along an axis are not taken for today's", func() {
		for _, op := range []string{"Add", "Mul", "Pow", "Less"} {
			m := newModel(1).version(6)
			n := m.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Inputs: []*graph.Value{m.input(2, 3, 4), m.input(3)}, Outputs: []string{"y"},
				Attrs: []graph.Attr{graph.IntAttr("broadcast", 1), axis(1)}})
			_ = graph.InferNode(n)
			if n.Outputs[0].Type.Backed() {
				Expect(supports(n.Outputs[0]).Reason.Code).To(Equal(property.Version), op)
			}
		}
	})
})
