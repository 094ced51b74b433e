package cpu_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// double returns the model in float64, with what the reference kernels make of it, to be judged as closely as that admits.
func (m *model) double(outputs ...*graph.Value) (*model, []*graph.Value) {
	GinkgoHelper()
	m.g.SetOutputs(outputs...)
	d := &model{seed: m.seed, r: m.r, known: map[*graph.Value]*tensor.Tensor{}}
	d.g, d.feeds = m.half(tensor.Float64, false)
	want, _ := mustExecute(d.g, d.feeds, referenceAlone())
	for _, v := range d.g.Outputs {
		d.known[v] = want[v.Name].(*tensor.Tensor)
	}
	d.judge = func(got map[string]tensor.Value) string {
		for _, v := range d.g.Outputs {
			if err := differDoubles(got[v.Name].(*tensor.Tensor), d.known[v]); err != nil {
				return fmt.Sprintf("output %s: %v", v.Name, err)
			}
		}
		return ""
	}
	return d, append([]*graph.Value{}, d.g.Outputs...)
}

// differDoubles is differ with a tolerance of some roundings of float64.
func differDoubles(got, want *tensor.Tensor) error {
	if want.DType != tensor.Float64 || got.DType != want.DType {
		return differ(got, want)
	}
	if fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
		return fmt.Errorf("%v instead of %v", got.Shape, want.Shape)
	}
	a, b := make([]float64, got.Len()), make([]float64, want.Len())
	if err := errors.Join(tensor.Decode(a, got), tensor.Decode(b, want)); err != nil {
		return err
	}
	limit := 1e-9 * tolerance(b)
	for i, x := range a {
		if y := b[i]; x != y && !(math.Abs(x-y) <= limit+1e-13*math.Abs(y)) && !(math.IsNaN(x) && math.IsNaN(y)) {
			return fmt.Errorf("%g instead of %g at %d of %v, tolerance %g", x, y, i, want.Shape, limit)
		}
	}
	return nil
}

// sampleDouble is sample in float64.
func (m *model) sampleDouble(outputs ...*graph.Value) {
	GinkgoHelper()
	d, out := m.double(outputs...)
	d.sample(out...)
}

// checkDouble is check in float64.
func (m *model) checkDouble(outputs ...*graph.Value) {
	GinkgoHelper()
	d, out := m.double(outputs...)
	d.check(out...)
}

var _ = Describe("float64", func() {
	It("broadcasts as the reference kernels do", seeds(80, func(m *model) {
		shape := make([]int, m.between(0, 5))
		for i := range shape {
			shape[i] = pick(m, 1, 2, 3, 5, 17)
		}
		a, b := shape, broadcastTo(m, shape)
		if m.chance(3) {
			a = broadcastTo(m, shape)
		}
		if m.chance(2) {
			a, b = b, a
		}
		op := pick(m, append([]string{"Pow", "PRelu", "Less", "Equal", "GreaterOrEqual"}, arithmetic...)...)
		x, y := operand(m, a...), operand(m, b...)
		switch op {
		case "Div":
			y = away(m, y)
		case "Pow":
			x = away(m, x)
		case "PRelu":
			x, y = operand(m, shape...), operand(m, broadcastTo(m, shape)...)
		}
		m.sampleDouble(m.op(op, x, y))
	}))

	It("takes any number of operands", seeds(20, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 5)
		var in []any
		for range m.between(1, 4) {
			in = append(in, operand(m, pick(m, shape, broadcastTo(m, shape))...))
		}
		m.sampleDouble(m.op(pick(m, "Sum", "Mean", "Max", "Min"), in...))
	}))

	It("is long in places", func() {
		m := newModel(1)
		x := m.input(3, 9001)
		m.checkDouble(m.op("Add", x, m.input(3, 1)), m.op("Sub", m.scalar(1), x), m.op("Tanh", x), m.op("ReduceSum", x, m.ints(1)), m.op("ReduceMax", x, m.ints(0)),
			m.op("Clip", x, m.scalar(-1)), m.op("Softmax", x, axis(1)), m.op("ReduceL2", x, m.ints(0)), m.op("Gelu", x, graph.StringAttr("approximate", "tanh")))
	})

	for _, op := range []string{"Exp", "Tanh", "Sigmoid", "Sqrt", "Abs", "Neg", "Reciprocal", "Log", "Erf", "Floor", "Ceil", "Round", "Softplus", "Softsign", "Mish",
		"HardSwish", "HardSigmoid", "Relu", "LeakyRelu", "ThresholdedRelu", "Elu", "Celu", "Selu", "Gelu", "Swish", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh",
		"Cosh", "Asinh", "Acosh", "Atanh", "Sign", "Shrink"} {
		It("has the function "+op, func() {
			m := newModel(3)
			x := m.input(3, 300)
			switch op {
			case "Asin", "Acos", "Atanh":
				x = m.op("Mul", m.op("Tanh", x), m.scalar(0.9))
			case "Log", "Sqrt", "Reciprocal":
				x = away(m, x)
			case "Acosh":
				x = m.op("Add", m.op("Abs", x), m.scalar(2))
			}
			out := []*graph.Value{m.op(op, x)}
			switch op {
			case "LeakyRelu", "Elu", "Celu", "ThresholdedRelu", "Swish":
				out = append(out, m.op(op, x, graph.FloatAttr("alpha", 0.3)))
			case "HardSigmoid":
				out = append(out, m.op(op, x, graph.FloatAttr("alpha", 0.3), graph.FloatAttr("beta", 0.4)))
			case "Shrink":
				out = append(out, m.op(op, x, graph.FloatAttr("lambd", 0.3), graph.FloatAttr("bias", 0.2)), m.op(op, m.op("Log", m.op("Neg", m.op("Abs", x)))))
			case "Gelu":
				out = append(out, m.op(op, x, graph.StringAttr("approximate", "tanh")))
			}
			m.checkDouble(out...)
		})
	}

	It("has remainders that are exact, of numbers near and far from each other", func() {
		m := newModel(8)
		x, y := make([]float64, 4000), make([]float64, 4000)
		for i := range x {
			y[i] = m.r.NormFloat64() * math.Exp2(float64(m.between(-40, 40)))
			if x[i] = y[i] * math.Round(m.r.NormFloat64()*math.Exp2(float64(m.between(-2, 60)))); m.chance(2) {
				x[i] = math.Nextafter(x[i], m.r.NormFloat64()*1e300)
			}
			switch m.r.IntN(60) {
			case 0:
				x[i] = pick(m, 0, math.Inf(1), math.NaN(), 5e-324, math.MaxFloat64)
			case 1:
				y[i] = pick(m, 0, math.Inf(-1), math.NaN(), 5e-324, math.MaxFloat64)
			}
		}
		m.exact(m.op("Mod", m.feed(tensor.From(x, len(x))), m.feed(tensor.From(y, len(y))), graph.IntAttr("fmod", 1)))
	})

	It("has rows of a norm of one", seeds(20, func(m *model) {
		m.version(pick(m, 18, 28)) // the operator is that of 1, or of 22
		d := m.shape(m.between(1, 4), 1, 40)
		if m.chance(3) {
			d[len(d)-1] = pick(m, 127, 128, 129, 300)
		}
		x := operand(m, d...)
		if m.chance(4) {
			x = m.op("Mul", x, m.scalar(0))
		}
		m.sampleDouble(m.op("LpNormalization", x, axis(m.between(-len(d), len(d)-1)), graph.IntAttr("p", int64(m.between(1, 2)))))
	}))

	It("has powers by constants, and bounds", func() {
		m := newModel(4)
		x := m.input(2, 37)
		var out []*graph.Value
		for _, e := range []float32{0, 1, 2, 3, -1, 0.5} {
			out = append(out, m.op("Pow", away(m, x), m.scalar(e)))
		}
		out = append(out, m.op("Clip", x, m.scalar(-0.5), m.scalar(1)), m.op("Clip", x, nil, m.op("Neg", m.input())), m.op("Clip", x),
			m.op("Mod", x, away(m, x), graph.IntAttr("fmod", 1)), m.op("Where", m.op("Less", x, m.scalar(0)), x, m.op("Exp", x)))
		m.checkDouble(out...)
		old := newModel(5).version(6)
		old.checkDouble(old.op("Clip", old.input(20), graph.FloatAttr("min", -0.5), graph.FloatAttr("max", 0.5)))
	})

	It("keeps NaN and infinities", func() {
		m := newModel(6)
		x := m.op("Div", m.input(6), m.data(tensor.From([]float32{0, 1, 0, 1, 0, 1}, 6)))
		y := m.op("Concat", x, m.op("Sub", x, x), axis(0))
		var out []*graph.Value
		for _, op := range []string{"Exp", "Tanh", "Sigmoid", "Relu", "Abs", "Neg", "Sqrt", "Erf", "IsNaN", "IsInf", "Softplus", "LeakyRelu", "Sign"} {
			out = append(out, m.op(op, y))
		}
		for _, off := range []string{"detect_negative", "detect_positive"} {
			out = append(out, m.op("IsInf", y, graph.IntAttr(off, 0)))
		}
		out = append(out, m.op("ReduceLogSumExp", y), m.op("ReduceLogSumExp", x), m.op("ArgMax", x, axis(0)))
		out = append(out, m.op("Max", y, m.scalar(1)), m.op("Min", m.scalar(1), y), m.op("Clip", y, m.scalar(-1), m.scalar(1)), m.op("ReduceMax", y), m.op("ReduceMin", x))
		m.checkDouble(out...)
	})

	It("reductions of short rows agree with the reference kernels, and keep NaN", seeds(60, func(m *model) {
		t := m.floats(m.between(1, 40), m.between(1, 24))
		for s, n := tensor.Of[float32](t), m.between(0, 3); n > 0; n-- {
			s[m.r.IntN(len(s))] = float32(math.NaN())
		}
		op := pick(m, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2")
		m.sampleDouble(m.op(op, m.feed(t), m.ints(1)))
	}))

	It("is reduced along any axes", seeds(60, func(m *model) {
		d := m.shape(m.between(1, 5), 1, 6)
		if m.chance(3) {
			d[len(d)-1] = m.between(100, 300)
		}
		var axes []int64
		for a := range d {
			if m.chance(2) {
				axes = append(axes, int64(a))
			}
		}
		op := pick(m, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd")
		x := operand(m, d...)
		if op == "ReduceLogSum" {
			x = away(m, x)
		}
		in := []any{x, graph.IntAttr("keepdims", int64(m.between(0, 1)))}
		if len(axes) > 0 {
			in = append(in[:1], m.ints(axes...), in[1])
		}
		m.sampleDouble(m.op(op, in...))
	}))

	It("has the places of extremes, and sums so far", seeds(30, func(m *model) {
		d := m.shape(m.between(1, 4), 1, 6)
		x, a := operand(m, d...), m.r.IntN(len(d))
		m.sampleDouble(m.op(pick(m, "ArgMax", "ArgMin"), x, axis(a), graph.IntAttr("keepdims", int64(m.between(0, 1))), graph.IntAttr("select_last_index", int64(m.between(0, 1)))),
			m.op("CumSum", x, m.data(tensor.Scalar(int64(a))), graph.IntAttr("exclusive", int64(m.between(0, 1))), graph.IntAttr("reverse", int64(m.between(0, 1)))))
	}))

	It("has the first elements, equal ones too", seeds(60, func(m *model) {
		d := m.shape(m.between(1, 3), 1, 5)
		a := m.r.IntN(len(d))
		d[a] = m.between(1, 200)
		x := operand(m, d...)
		if m.chance(2) {
			x = m.op("Round", x)
		}
		k := min(d[a], pick(m, 0, 1, m.between(1, 40), m.between(1, 200)))
		m.sampleDouble(m.ops("TopK", 2, x, m.ints(int64(k)), axis(a), graph.IntAttr("largest", int64(m.r.IntN(2))))...)
	}))

	It("has softmax along any axis, of old operator sets too", seeds(40, func(m *model) {
		if m.chance(3) {
			m.version(11)
		}
		d := m.shape(m.between(1, 4), 1, 9)
		m.sampleDouble(m.op(pick(m, "Softmax", "LogSoftmax"), operand(m, d...), axis(m.between(-len(d), len(d)-1))))
	}))

	It("is normalised", seeds(20, func(m *model) {
		d := m.shape(m.between(1, 4), 2, 40)
		a := m.between(0, len(d)-1)
		in := []any{operand(m, d...), operand(m, d[a:]...)}
		op := "RMSNormalization"
		if m.chance(2) {
			op = "LayerNormalization"
			if m.chance(2) {
				in = append(in, operand(m, d[a:]...))
			}
		}
		m.sampleDouble(m.op(op, append(in, axis(a), graph.FloatAttr("epsilon", 0.01))...))
	}))

	It("is multiplied by ranks from 1 to 5", seeds(80, func(m *model) {
		rows, k, cols := m.between(1, 20), m.between(1, 40), m.between(1, 40)
		batch := m.shape(m.between(0, 3), 1, 3)
		a, b := append(broadcastTo(m, batch), rows, k), append(broadcastTo(m, batch), k, cols)
		if m.chance(2) {
			b = append([]int{}, k, cols)
		}
		if m.chance(8) {
			a = []int{k}
		}
		if m.chance(8) {
			b = []int{k}
		}
		m.sampleDouble(m.op("MatMul", operand(m, a...), operand(m, b...)))
	}))

	It("is multiplied by second operands that are packed first", seeds(40, func(m *model) {
		rows, k, cols := m.between(256, 300), m.between(1, 40), m.between(1, 70)
		if m.chance(8) { // lines of a panel fall on few sets of a cache
			rows, k, cols = m.between(32, 40), m.between(260, 300), 512
		}
		switch m.r.IntN(3) {
		case 0:
			m.sampleDouble(m.op("Gemm", m.input(rows, k), m.input(cols, k), m.constant(cols), graph.IntAttr("transB", 1)))
		case 1:
			m.sampleDouble(m.op("MatMul", m.input(3, rows, k), m.input(k, cols)))
		default:
			m.sampleDouble(m.op("MatMul", m.input(2, 1, rows, k), m.input(pick(m, []int{2, k, cols}, []int{2, 1, k, cols})...)))
		}
	}))

	It("has general products", seeds(80, func(m *model) {
		rows, k, cols := pick(m, 1, 2, 5, 17), m.between(1, 40), pick(m, 1, 3, 8, 16, 40)
		a, b := []int{rows, k}, []int{k, cols}
		var attrs []any
		if m.chance(4) {
			a, attrs = []int{k, rows}, append(attrs, graph.IntAttr("transA", 1))
		}
		if m.chance(2) {
			b, attrs = []int{cols, k}, append(attrs, graph.IntAttr("transB", 1))
		}
		if m.chance(4) {
			attrs = append(attrs, graph.FloatAttr("alpha", 0.5))
		}
		if m.chance(4) {
			attrs = append(attrs, graph.FloatAttr("beta", 1.5))
		}
		args := []any{operand(m, a...), operand(m, b...)}
		if !m.chance(4) {
			args = append(args, operand(m, pick(m, []int{}, []int{1}, []int{cols}, []int{1, cols}, []int{rows, 1}, []int{1, 1}, []int{rows, cols})...))
		}
		m.sampleDouble(m.op("Gemm", append(args, attrs...)...))
	}))

	It("is convolved over one to three axes", seeds(200, func(m *model) {
		axes := m.between(1, 3)
		groups := pick(m, 1, 1, 2, 3)
		in, out := m.between(1, 6), m.between(1, 9)
		if m.chance(3) {
			groups, in, out = m.between(1, 5), 1, 1
		}
		dx, dw := []int{m.between(1, 3), groups * in}, []int{groups * out, in}
		var pad, stride, dilate []int64
		for range axes {
			k, d := m.between(1, 4), m.between(1, 2)
			dw = append(dw, k)
			dx = append(dx, (k-1)*d+m.between(1, 30))
			stride, dilate = append(stride, int64(m.between(1, 3))), append(dilate, int64(d))
		}
		for range 2 * axes {
			pad = append(pad, int64(m.between(0, 3)))
		}
		attrs := []any{strides(stride...), dilations(dilate...), group(groups), pads(pad...)}
		switch m.r.IntN(5) {
		case 0:
			attrs[3] = graph.StringAttr("auto_pad", pick(m, "SAME_UPPER", "SAME_LOWER", "VALID"))
		case 1:
			attrs = attrs[2:3] // no pads and a stride of 1, often of windows of one element
			for i := range dw[2:] {
				dw[2+i] = pick(m, 1, dw[2+i])
			}
		}
		args := []any{operand(m, dx...), operand(m, dw...)}
		if m.chance(2) {
			args = append(args, operand(m, dw[0]))
		}
		m.sampleDouble(m.op("Conv", append(args, attrs...)...))
	}))

	It("is convolved in parts and bands", func() {
		m := newModel(8)
		m.checkDouble(m.op("Conv", m.input(1, 40, 30, 31), m.constant(9, 40, 3, 3), m.constant(9), pads(1, 1, 1, 1)),
			m.op("Conv", m.input(6, 3, 5, 5), m.constant(4, 3, 3, 3)),
			m.op("Conv", m.input(2, 2, 300, 120), m.constant(2, 1, 3, 3), m.constant(2), group(2), pads(1, 1, 1, 1), strides(2, 2)))
	})

	It("is convolved backwards over one to three axes", seeds(150, func(m *model) {
		axes, groups := m.between(1, 3), pick(m, 1, 1, 2, 3)
		in, out := m.between(1, 6), m.between(1, 9)
		dx, dw := []int{m.between(1, 3), groups * in}, []int{groups * in, out}
		var pad, stride, dilate, more []int64
		for range axes {
			s := m.between(1, 3)
			dw, dx = append(dw, m.between(1, 4)), append(dx, m.between(3, 12))
			stride, dilate, more = append(stride, int64(s)), append(dilate, int64(m.between(1, 2))), append(more, int64(m.r.IntN(s)))
		}
		for range 2 * axes {
			pad = append(pad, int64(m.between(0, 1)))
		}
		attrs := []any{strides(stride...), dilations(dilate...), group(groups), pads(pad...), graph.IntsAttr("output_padding", more...)}
		if m.chance(4) {
			attrs[3] = graph.StringAttr("auto_pad", pick(m, "SAME_UPPER", "SAME_LOWER", "VALID"))
		}
		args := []any{operand(m, dx...), operand(m, dw...)}
		if m.chance(2) {
			args = append(args, operand(m, groups*out))
		}
		m.sampleDouble(m.op("ConvTranspose", append(args, attrs...)...))
	}))

	It("is convolved backwards in parts", func() {
		m := newModel(9)
		m.checkDouble(m.op("ConvTranspose", m.input(1, 12, 60, 61), m.constant(12, 9, 4, 4), m.constant(9), pads(1, 1, 1, 1), strides(2, 2)),
			m.op("ConvTranspose", m.input(2, 6, 70, 90), m.constant(6, 3, 3, 3), group(2), dilations(2, 1)),
			m.op("ConvTranspose", m.input(1, 2, 9, 30, 31), m.constant(2, 3, 3, 3, 3), strides(1, 2, 1)))
	})

	It("is resized", seeds(60, func(m *model) {
		d := m.shape(4, 1, 9)
		attrs := []any{graph.StringAttr("mode", pick(m, "nearest", "linear")), graph.StringAttr("nearest_mode", pick(m, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
			graph.StringAttr("coordinate_transformation_mode", pick(m, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"))}
		in := []any{operand(m, d...), nil, nil, m.ints(int64(d[0]), int64(d[1]), int64(m.between(1, 20)), int64(m.between(1, 20)))}
		if m.chance(2) {
			in = append(in[:2], m.data(tensor.From([]float32{1, 1, pick(m, float32(0.5), 1.5, 2), pick(m, float32(1), 2.3, 3)}, 4)))
		}
		m.sampleDouble(m.op("Resize", append(in, attrs...)...))
	}))

	It("is recurrent", seeds(90, func(m *model) {
		switch m.r.IntN(3) {
		case 0:
			m.sampleDouble(recurrent(m, "LSTM", 4, 2, 3)...)
		case 1:
			m.sampleDouble(recurrent(m, "GRU", 3, 1, 2, graph.IntAttr("linear_before_reset", int64(m.r.IntN(2))))...)
		default:
			act := func() string { return pick(m, "Tanh", "Relu", "Sigmoid") }
			m.sampleDouble(recurrent(m, "RNN", 1, 1, 2, graph.StringsAttr("activations", act(), act()))...)
		}
	}))

	It("is normalised over groups of channels", seeds(40, func(m *model) {
		groups := m.between(1, 3)
		d := append([]int{m.between(1, 3), groups * m.between(1, 3)}, m.shape(m.between(1, 3), 1, 7)...)
		n, eps := d[1], graph.FloatAttr("epsilon", 0.01)
		if m.chance(2) { // scales belonged to groups then
			m.version(18)
			n = groups
		}
		x := operand(m, d...)
		if m.chance(2) {
			m.sampleDouble(m.op("InstanceNormalization", x, operand(m, d[1]), operand(m, d[1]), eps))
			return
		}
		m.sampleDouble(m.op("GroupNormalization", x, operand(m, n), operand(m, n), eps, graph.IntAttr("num_groups", int64(groups))))
	}))

	It("is pooled, and normalised by channel", seeds(140, func(m *model) {
		axes := m.between(1, 3)
		d, k := m.shape(2, 1, 4), []int64{}
		var pad, stride, dilate []int64
		for range axes {
			k, dilate = append(k, int64(m.between(1, 4))), append(dilate, int64(m.between(1, 2)))
			d, stride = append(d, 7+m.between(1, 9)), append(stride, int64(m.between(1, 3)))
		}
		for i := range 2 * axes {
			pad = append(pad, int64(m.between(0, int(k[i%axes]-1)))/2)
		}
		x := operand(m, d...)
		attrs := []any{x, kernel(k...), strides(stride...), pads(pad...), dilations(dilate...), graph.IntAttr("ceil_mode", int64(m.between(0, 1)))}
		op := pick(m, "MaxPool", "AveragePool")
		if op == "AveragePool" {
			attrs = append(attrs, graph.IntAttr("count_include_pad", int64(m.between(0, 1))))
		}
		c := func() *graph.Value { return operand(m, d[1]) }
		m.sampleDouble(m.op(op, attrs...), m.op("GlobalAveragePool", x), m.op("GlobalMaxPool", x),
			m.op("BatchNormalization", x, c(), c(), c(), away(m, c()), graph.FloatAttr("epsilon", 0.01)))
	}))

	It("agrees with the reference kernels in random graphs", func() {
		for seed := range uint64(120) {
			r := newRandomGraph(seed)
			r.grow(r.between(3, 20))
			if len(r.g.Outputs) == 0 {
				continue
			}
			d, _ := r.double(append([]*graph.Value{}, r.g.Outputs...)...)
			got, _ := mustExecute(d.g, d.feeds, &carve.Options{Threads: 1 + int(seed%2)})
			Expect(d.judge(got)).To(BeEmpty(), "seed %d\n%v", seed, d)
		}
	})
})

var _ = It("a run on float64 allocates nothing", func(ctx SpecContext) {
	m := newModel(1)
	x := m.input(1, 8, 20, 20)
	y := m.op("MaxPool", m.op("Clip", m.op("Conv", x, m.constant(24, 8, 3, 3), m.constant(24), pads(1, 1, 1, 1)), m.scalar(0), m.scalar(6)), kernel(2, 2), strides(2, 2))
	y = m.op("Conv", y, m.constant(24, 1, 3, 3), m.constant(24), group(24), pads(1, 1, 1, 1))
	y = m.op("MatMul", m.op("Reshape", y, m.ints(24, 100)), m.constant(100, 300))
	y = m.op("Gelu", m.op("Swish", m.op("Pow", m.op("Tanh", y), m.scalar(2))), graph.StringAttr("approximate", "tanh"))
	y = m.op("LayerNormalization", m.op("Softmax", y), m.constant(300), m.constant(300))
	z := m.op("Add", m.op("ReduceL2", y, m.ints(0)), m.op("ReduceL1", m.op("Sub", y, m.scalar(1)), m.ints(0)))
	d, _ := m.double(m.op("Add", z, m.op("ReduceLogSumExp", m.op("Mean", y, y, y), m.ints(1))))
	cm := carve.FromGraph(d.g)
	defer cm.Close()
	p, err := carve.Compile(ctx, cm, &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Threads: 1, Strict: true})
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	in, out := []*tensor.Tensor{}, d.known[d.g.Outputs[0]]
	for _, v := range d.g.Inputs {
		in = append(in, d.feeds[v.Name].(*tensor.Tensor))
	}
	result, err := tensor.New(tensor.Float64, out.Shape...)
	Expect(err).NotTo(HaveOccurred())
	outs := []*tensor.Tensor{result}
	Expect(p.RunInto(ctx, in, outs)).To(Succeed())
	Expect(differDoubles(result, out)).To(Succeed())
	n := 1.0
	for try := 0; n > 0 && try < 3; try++ { // what earlier specs left behind may be cleaned up meanwhile
		n = testing.AllocsPerRun(20, func() { err = errors.Join(err, p.RunInto(ctx, in, outs)) })
	}
	Expect(n).To(BeZero())
	Expect(err).NotTo(HaveOccurred())
})
