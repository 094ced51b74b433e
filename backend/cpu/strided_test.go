package cpu_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Values that are made where a Concat wants them, in strided rows.

// producer makes a row-major value of a shape of two to four dims.
type producer struct {
	name string
	axis int                // of a Concat, from the front; 0: the last one
	fits func(d []int) bool // nil: every shape
	make func(m *model, d []int) *graph.Value
}

func ofRank(r int) func([]int) bool { return func(d []int) bool { return len(d) == r } }

// with returns dims with another number at axis a.
func with(d []int, a, n int) []int {
	d = slices.Clone(d)
	d[a] = n
	return d
}

func int64s(d []int) []int64 {
	out := make([]int64, len(d))
	for i, n := range d {
		out[i] = int64(n)
	}
	return out
}

func last(d []int) int { return d[len(d)-1] }

// producers are the kernels of which in place is promised.
var producers = []producer{
	{"a function", 0, nil, func(m *model, d []int) *graph.Value {
		return m.op(pick(m, "Neg", "Sigmoid", "Relu", "Abs"), m.input(d...))
	}},
	{"a function of Go", 0, nil, func(m *model, d []int) *graph.Value { return m.op("Sin", m.input(d...)) }},
	{"a sum", 0, nil, func(m *model, d []int) *graph.Value { return m.op("Add", m.input(d...), m.input(d...)) }},
	{"a product that broadcasts", 0, nil, func(m *model, d []int) *graph.Value { return m.op("Mul", m.input(last(d)), m.input(d...)) }},
	{"a difference that broadcasts", 0, nil, func(m *model, d []int) *graph.Value {
		return m.op("Sub", m.input(d...), m.input(with(d, len(d)-1, 1)...))
	}},
	{"a mean", 0, nil, func(m *model, d []int) *graph.Value { return m.op("Mean", m.input(d...), m.input(d...), m.input(d...)) }},
	{"a choice", 0, nil, func(m *model, d []int) *graph.Value {
		return m.op("Where", m.op("Greater", m.input(d...), m.input(1)), m.input(d...), m.input(1))
	}},
	{"a cast", 0, nil, func(m *model, d []int) *graph.Value {
		return m.op("Cast", m.op("Less", m.input(d...), m.input(1)), graph.IntAttr("to", int64(tensor.Float32)))
	}},
	{"an Imputer", 0, ofRank(2), func(m *model, d []int) *graph.Value {
		return m.classical("Imputer", m.input(d...), graph.FloatsAttr("imputed_value_floats", tensor.Of[float32](m.floats(last(d)))...), graph.FloatAttr("replaced_value_float", 0))
	}},
	{"a OneHotEncoder", 0, nil, func(m *model, d []int) *graph.Value {
		cats := make([]int64, last(d))
		for i := range cats {
			cats[i] = int64(i) - 1
		}
		x := m.op("Cast", m.input(d[:len(d)-1]...), graph.IntAttr("to", int64(tensor.Int64)))
		return m.classical("OneHotEncoder", x, graph.IntsAttr("cats_int64s", cats...))
	}},
	{"a slope", 0, nil, func(m *model, d []int) *graph.Value { return m.op("PRelu", m.input(d...), m.constant(last(d))) }},
	{"a power", 0, nil, func(m *model, d []int) *graph.Value { return m.op("Pow", m.op("Abs", m.input(d...)), m.scalar(1.5)) }},
	{"a silu", 0, nil, func(m *model, d []int) *graph.Value {
		x := m.input(d...)
		return m.op("Mul", x, m.op("Sigmoid", x))
	}},
	{"a matrix product", 0, nil, func(m *model, d []int) *graph.Value {
		return m.op("MatMul", m.input(with(d, len(d)-1, 5)...), m.constant(5, last(d)))
	}},
	{"a matrix product with its tail", 0, nil, func(m *model, d []int) *graph.Value {
		y := m.op("Add", m.op("MatMul", m.input(with(d, len(d)-1, 7)...), m.constant(7, last(d))), m.constant(last(d)))
		return m.op(pick(m, "Relu", "Gelu"), y)
	}},
	{"a matrix product with a residual", 0, nil, func(m *model, d []int) *graph.Value {
		return m.op("Add", m.op("MatMul", m.input(with(d, len(d)-1, 3)...), m.constant(3, last(d))), m.input(d...))
	}},
	{"a batch of matrix products", 0, func(d []int) bool { return len(d) > 2 }, func(m *model, d []int) *graph.Value {
		r := len(d)
		b := with(with(d, r-2, 6), r-1, d[r-1])
		return m.op("MatMul", m.input(with(d, r-1, 6)...), m.input(b...))
	}},
	{"a Gemm", 0, ofRank(2), func(m *model, d []int) *graph.Value {
		return m.op("Gemm", m.input(d[0], 9), m.constant(d[1], 9), m.constant(d[1]), graph.IntAttr("transB", 1))
	}},
	{"a scaled Gemm", 0, ofRank(2), func(m *model, d []int) *graph.Value {
		return m.op("Gemm", m.input(8, d[0]), m.input(8, d[1]), m.input(d...), graph.IntAttr("transA", 1),
			graph.FloatAttr("alpha", 0.5), graph.FloatAttr("beta", 2))
	}},
	{"a softmax", 0, nil, func(m *model, d []int) *graph.Value { return m.op("Softmax", m.input(d...)) }},
	{"a layer normalisation", 0, nil, func(m *model, d []int) *graph.Value {
		return m.op("LayerNormalization", m.input(d...), m.constant(last(d)), m.constant(last(d)))
	}},
	{"a transposition", 0, nil, func(m *model, d []int) *graph.Value {
		from := slices.Clone(d)
		slices.Reverse(from)
		return m.op("Transpose", m.input(from...))
	}},
	{"a slice", 0, nil, func(m *model, d []int) *graph.Value {
		a := len(d) - 1
		return m.op("Slice", m.input(with(d, a, 2*d[a]+1)...), m.ints(1), m.ints(int64(2*d[a]+1)), m.ints(int64(a)), m.ints(2))
	}},
	{"a part", 0, nil, func(m *model, d []int) *graph.Value {
		a := len(d) - 1
		return m.ops("Split", 2, m.input(with(d, a, d[a]+3)...), m.ints(3, int64(d[a])), axis(a))[1]
	}},
	{"an expansion", 0, nil, func(m *model, d []int) *graph.Value {
		return m.op("Expand", m.input(with(d, len(d)-2, 1)...), m.ints(int64s(d)...))
	}},
	{"a repetition", 0, nil, func(m *model, d []int) *graph.Value {
		repeats := make([]int64, len(d))
		for i := range repeats {
			repeats[i] = 1
		}
		repeats[0] = int64(d[0])
		return m.op("Tile", m.input(with(d, 0, 1)...), m.ints(repeats...))
	}},
	{"rows that are gathered", 0, nil, func(m *model, d []int) *graph.Value {
		a := len(d) - 2
		list := make([]int64, d[a])
		for i := range list {
			list[i] = int64(m.r.IntN(5))
		}
		return m.op("Gather", m.input(with(d, a, 5)...), m.ints(list...), axis(a))
	}},
	{"a view of a function", 0, nil, func(m *model, d []int) *graph.Value {
		return m.op("Reshape", m.op("Neg", m.input(product(d))), m.ints(int64s(d)...))
	}},
	{"a view of a matrix product", 0, nil, func(m *model, d []int) *graph.Value {
		return m.op("Reshape", m.op("MatMul", m.input(product(d)/last(d), 4), m.constant(4, last(d))), m.ints(int64s(d)...))
	}},
	{"a reduction", 0, nil, func(m *model, d []int) *graph.Value {
		return m.op(pick(m, "ReduceMean", "ReduceMax"), m.input(append([]int{3}, d...)...), m.ints(0), graph.IntAttr("keepdims", 0))
	}},
	{"images normalised by groups", 1, func(d []int) bool { return len(d) > 2 && d[1]%2 == 0 }, func(m *model, d []int) *graph.Value {
		return m.op("GroupNormalization", m.input(d...), m.constant(d[1]), m.constant(d[1]), graph.IntAttr("num_groups", 2))
	}},
	{"images normalised by channels", 0, ofRank(3), func(m *model, d []int) *graph.Value {
		return m.op("InstanceNormalization", m.input(d...), m.constant(d[1]), m.constant(d[1]))
	}},
	{"depth turned to space", 0, func(d []int) bool { return len(d) == 4 && d[2]%2 == 0 && d[3]%2 == 0 }, func(m *model, d []int) *graph.Value {
		return m.op("DepthToSpace", m.input(d[0], 4*d[1], d[2]/2, d[3]/2), graph.IntAttr("blocksize", 2))
	}},
	{"a recurrence", 0, ofRank(3), func(m *model, d []int) *graph.Value {
		h, gates, op := d[2], 4, "LSTM"
		if m.chance(2) {
			gates, op = 3, "GRU"
		}
		direction := graph.StringAttr("direction", pick(m, "forward", "reverse"))
		y := m.ops(op, 2, m.input(d[0], d[1], 3), m.scaled(0.3, 1, gates*h, 3), m.scaled(0.2, 1, gates*h, h), m.scaled(0.3, 1, 2*gates*h), nil,
			m.input(1, d[1], h), graph.IntAttr("hidden_size", int64(h)), direction)[0]
		return m.op("Squeeze", y, m.ints(1))
	}},
}

func product(d []int) int {
	n := 1
	for _, k := range d {
		n *= k
	}
	return n
}

// concatSteps compiles the model for cpu and one thread, runs it, and returns how many steps its concatenations take.
func (m *model) concatSteps(outputs ...*graph.Value) int {
	GinkgoHelper()
	m.g.SetOutputs(outputs...)
	b, err := cpu.Open(backend.Config{Name: "cpu"})
	Expect(err).NotTo(HaveOccurred())
	w := &guardedBackend{Backend: b, name: "cpu"}
	cm := carve.FromGraph(m.g)
	defer cm.Close()
	p, err := carve.Compile(context.Background(), cm, &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Open: map[string]backend.Backend{"cpu": w}, Strict: true, Threads: 1, Verify: true})
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	got, err := p.Run(context.Background(), m.feeds)
	Expect(err).NotTo(HaveOccurred())
	Expect(w.faults).To(BeEmpty())
	for _, v := range m.g.Outputs {
		Expect(differ(got[v.Name].(*tensor.Tensor), m.known[v])).To(Succeed(), "output %s of\n%v", v.Name, m)
	}
	n := 0
	for _, s := range w.steps {
		if s == "Concat" {
			n++
		}
	}
	return n
}

var _ = Describe("a Concat of several rows", func() {
	for _, q := range producers {
		It("is written in place by "+q.name, func() {
			for s, d := range [][]int{{3, 20}, {2, 4, 16}, {3, 2, 4, 24}} {
				if q.fits != nil && !q.fits(d) {
					continue
				}
				m, a := newModel(uint64(s)), q.axis
				if a == 0 {
					a = len(d) - 1
				}
				y := m.op("Concat", q.make(m, d), m.op("Neg", m.input(with(d, a, 17)...)), axis(a))
				z := m.op("Concat", m.op("Exp", m.input(d...)), q.make(m, d), axis(a-len(d)))
				Expect(m.concatSteps(m.op("Tanh", y), z)).To(BeZero(), "%v", m)
				m.sample(m.g.Outputs...)
			}
		})
	}

	DescribeTable("copies", func(steps int, build func(m *model) []*graph.Value) {
		m := newModel(1)
		Expect(m.concatSteps(build(m)...)).To(Equal(steps), "%v", m)
	},
		Entry("inputs and constants", 2, func(m *model) []*graph.Value {
			return []*graph.Value{m.op("Concat", m.input(2, 20), m.op("Neg", m.input(2, 20)), m.constant(2, 16), axis(1))}
		}),
		Entry("rows of few bytes", 1, func(m *model) []*graph.Value {
			return []*graph.Value{m.op("Concat", m.op("Neg", m.input(2, 3)), m.op("Neg", m.input(2, 20)), axis(1))}
		}),
		Entry("results of kernels that write no rows", 1, func(m *model) []*graph.Value {
			return []*graph.Value{m.op("Concat", m.op("CumSum", m.input(2, 20), m.ints(1)), m.op("Neg", m.input(2, 20)), axis(1))}
		}),
		Entry("what a kernel reads that reads no rows", 1, func(m *model) []*graph.Value {
			v := m.op("Neg", m.input(2, 20))
			return []*graph.Value{m.op("Concat", v, m.op("Neg", m.input(2, 20)), axis(1)), m.op("CumSum", v, m.ints(1))}
		}),
		Entry("not what others read that read rows, also through views", 0, func(m *model) []*graph.Value {
			v := m.op("Neg", m.input(2, 20))
			r := m.op("Reshape", v, m.ints(2, 4, 5))
			return []*graph.Value{m.op("Concat", v, m.op("Neg", m.input(2, 20)), axis(1)), m.op("Exp", r), m.op("MatMul", v, m.constant(20, 3)),
				m.op("Transpose", r), m.op("Softmax", v), m.op("ReduceSum", v, m.ints(1)), m.op("Mul", v, v)}
		}),
		Entry("what is an output", 1, func(m *model) []*graph.Value {
			v := m.op("Neg", m.input(2, 20))
			return []*graph.Value{m.op("Concat", v, m.op("Neg", m.input(2, 20)), axis(1)), v}
		}),
		Entry("an operand that comes again", 1, func(m *model) []*graph.Value {
			v := m.op("Neg", m.input(2, 20))
			return []*graph.Value{m.op("Concat", v, m.op("Neg", m.input(2, 20)), v, axis(1))}
		}),
		Entry("no other concatenation along the same axis", 0, func(m *model) []*graph.Value {
			part := func() *graph.Value { return m.op("Neg", m.input(2, 3, 20)) }
			y := m.op("Concat", part(), part(), part(), axis(2))
			return []*graph.Value{m.op("Concat", part(), y, axis(2))}
		}),
		Entry("no other concatenation along an axis before", 0, func(m *model) []*graph.Value {
			part := func() *graph.Value { return m.op("Neg", m.input(1, 3, 20)) }
			y := m.op("Concat", part(), part(), axis(1))
			return []*graph.Value{m.op("Concat", m.op("Neg", m.input(1, 6, 20)), y, axis(2))}
		}),
		Entry("no other concatenation that it begins with", 0, func(m *model) []*graph.Value {
			a, b, c := m.op("Neg", m.input(2, 20)), m.op("Exp", m.input(2, 16)), m.op("Neg", m.input(2, 20))
			y := m.op("Concat", a, b, axis(1))
			return []*graph.Value{m.op("Tanh", y), m.op("Tanh", m.op("Concat", a, b, c, axis(1)))}
		}),
		Entry("a product of few rows for each run of rows", 1, func(m *model) []*graph.Value {
			return []*graph.Value{m.op("Concat", m.op("MatMul", m.input(2, 3, 5), m.constant(5, 20)), m.op("Neg", m.input(2, 1, 20)), axis(1))}
		}),
		Entry("no product of many", 0, func(m *model) []*graph.Value {
			return []*graph.Value{m.op("Concat", m.op("MatMul", m.input(2, 64, 5), m.constant(5, 20)), m.op("Neg", m.input(2, 1, 20)), axis(1))}
		}),
		Entry("no halves that are rotated", 0, func(m *model) []*graph.Value {
			x := m.op("MatMul", m.input(2, 3, 5), m.constant(5, 64))
			lo := m.op("Slice", x, m.ints(0), m.ints(32), m.ints(2))
			hi := m.op("Slice", x, m.ints(32), m.ints(64), m.ints(2))
			return []*graph.Value{m.op("Mul", m.op("Concat", m.op("Neg", hi), lo, axis(-1)), m.constant(3, 64))}
		}),
		Entry("no images of any blocked kernel", 0, func(m *model) []*graph.Value {
			x := m.input(2, 5, 4, 4)
			conv := func(c int) *graph.Value { return m.op("Conv", x, m.constant(c, 5, 1, 1)) }
			gate := m.op("Sigmoid", m.op("GlobalAveragePool", conv(16)))
			y := m.op("Concat", m.op("Sigmoid", conv(16)), m.op("Add", conv(16), conv(16)), m.op("Mul", conv(16), gate),
				m.op("Upsample", m.op("Conv", m.input(2, 5, 2, 2), m.constant(32, 5, 1, 1)), m.data(tensor.From([]float32{1, 1, 2, 2}, 4))), conv(7), axis(1))
			return []*graph.Value{m.op("Conv", y, m.constant(3, 87, 1, 1))}
		}),
	)

	It("agrees with the reference kernels, whoever makes and reads its operands", seeds(60, func(m *model) {
		g := growing{model: m, batch: m.between(1, 4), symbol: m.chance(3)}
		for range m.between(1, 3) {
			d := []int{g.batch}
			for range m.between(1, 3) {
				d = append(d, pick(m, 2, 3, 4, 20, 37))
			}
			y := g.concat(d, m.r.IntN(3))
			if m.chance(2) {
				y = m.op(pick(m, "Neg", "Softmax"), y)
			}
			g.out = append(g.out, y)
		}
		m.sample(g.out...)
	}))
})

// growing is a model that grows from concatenations to their operands.
type growing struct {
	*model
	batch  int
	symbol bool // the batch is one
	out    []*graph.Value
}

// concat returns a concatenation of these dims, of operands of any kind, up to so many others among them.
func (g *growing) concat(d []int, depth int) *graph.Value {
	a := g.r.IntN(len(d))
	var in []any
	for left := d[a]; left > 0; {
		part := with(d, a, min(left, pick(g.model, 1, 2, 16, 20, left)))
		v := g.operand(part, depth)
		in, left = append(in, v), left-part[a]
		if left >= part[a] && g.chance(3) {
			in, left = append(in, v), left-part[a]
		}
		switch g.r.IntN(7) { // who reads it beside
		case 0:
			g.out = append(g.out, g.op("Neg", v))
		case 1:
			if len(part) > 2 {
				g.out = append(g.out, g.op("GlobalMaxPool", v))
			}
			g.out = append(g.out, g.op(pick(g.model, "Softmax", "Transpose"), v))
		case 2:
			g.out = append(g.out, g.op("Add", g.op("Reshape", v, g.ints(-1)), g.scalar(1)))
		case 3:
			if g.chance(3) {
				g.out = append(g.out, v)
			}
		case 4:
			g.out = append(g.out, g.reader(v, part))
		}
	}
	if g.chance(2) {
		a -= len(d)
	}
	return g.op("Concat", append(in, axis(a))...)
}

// reader returns what a kernel that reads strided rows makes of a value of these dims.
func (g *growing) reader(v *graph.Value, d []int) *graph.Value {
	k := last(d)
	if len(d) > 2 && d[1] > 0 && g.chance(2) {
		return g.op("InstanceNormalization", v, g.constant(d[1]), g.constant(d[1]), graph.FloatAttr("epsilon", 0.01))
	}
	switch g.r.IntN(6) {
	case 0:
		return g.op("LayerNormalization", v, g.constant(k), g.constant(k), graph.FloatAttr("epsilon", 0.01))
	case 1:
		return g.op("MatMul", v, g.constant(k, 3))
	case 2:
		return g.op("Gather", v, g.ints(int64(k-1), 0), axis(len(d)-1))
	case 3:
		return g.op(pick(g.model, "ReduceMean", "ReduceMax"), v, g.ints(int64(g.r.IntN(len(d)))))
	case 4:
		return g.op("PRelu", v, g.constant(k))
	}
	return g.op("Slice", v, g.ints(0), g.ints(1<<40), g.ints(int64(g.r.IntN(len(d)))), g.ints(2))
}

// operand returns a value of these dims.
func (g *growing) operand(d []int, depth int) *graph.Value {
	switch {
	case depth > 0 && g.chance(3):
		return g.concat(d, depth-1)
	case g.chance(8):
		t := g.floats(d...)
		ty := graph.TypeOf(t)
		if g.symbol && d[0] == g.batch {
			ty.Shape = append(graph.Shape{graph.Sym("N")}, ty.Shape[1:]...)
		}
		return g.feedAs(ty, t)
	case g.symbol && d[0] == g.batch:
		t := g.floats(d...)
		ty := graph.TypeOf(t)
		ty.Shape = append(graph.Shape{graph.Sym("N")}, ty.Shape[1:]...)
		x := g.feedAs(ty, t)
		return pick(g.model, func() *graph.Value { return g.op("Neg", x) }, func() *graph.Value { return g.op("MatMul", x, g.constant(last(d), last(d))) },
			func() *graph.Value { return g.op("Softmax", x) }, func() *graph.Value { return g.op("Add", x, g.constant(last(d))) })()
	}
	var fit []producer
	for _, q := range producers {
		if q.fits == nil || q.fits(d) {
			fit = append(fit, q)
		}
	}
	return pick(g.model, fit...).make(g.model, d)
}
