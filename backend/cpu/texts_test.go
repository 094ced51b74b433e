package cpu_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// words returns strings of many lengths that differ; with alike they agree in their lengths and in all bytes near their ends.
func (m *model) words(n int, alike bool) []string {
	list := make([]string, n)
	for i := range list {
		if list[i] = fmt.Sprintf("%d%s", i, strings.Repeat("x", i%23)); alike {
			list[i] = fmt.Sprintf("the same %04d for all", i)
		}
	}
	m.r.Shuffle(n, func(i, k int) { list[i], list[k] = list[k], list[i] })
	return list
}

// texts adds an input of strings, most of which are keys.
func (m *model) texts(keys []string, shape ...int) *graph.Value {
	t, err := tensor.New(tensor.String, shape...)
	Expect(err).NotTo(HaveOccurred())
	for i := range t.Strings {
		switch m.r.IntN(12) {
		case 0:
			t.Strings[i] = ""
		case 1:
			t.Strings[i] = pick(m, keys...) + "!"
		default:
			t.Strings[i] = pick(m, keys...)
		}
	}
	return m.feed(t)
}

// column takes a column of a matrix.
func (m *model) column(x *graph.Value, columns int) *graph.Value {
	k := int64(m.r.IntN(columns))
	if m.chance(2) {
		return m.op("Gather", x, m.ints(k-int64(columns*m.r.IntN(2))), axis(1))
	}
	m.g.Opsets["ai.onnx.ml"] = 3
	name := fmt.Sprintf("extract_%d", m.g.NodeIDs())
	out := m.add(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "ArrayFeatureExtractor"}, Name: name, Inputs: []*graph.Value{x, m.ints(k)}, Outputs: []string{name}})
	Expect(m.err).NotTo(HaveOccurred())
	return out[0]
}

var _ = Describe("strings", func() {
	It("are looked up, column by column", seeds(12, func(m *model) {
		keys := m.words(m.between(1, 60), m.chance(3))
		rows, columns := m.between(1, 300), m.between(1, 5)
		x := m.texts(keys, rows, columns)
		var hot, numbers []any
		for range m.between(1, 4) {
			c := m.column(x, columns)
			hot = append(hot, m.classical("OneHotEncoder", c, graph.StringsAttr("cats_strings", keys...), graph.IntAttr("zeros", 1)))
			floats := make([]float32, len(keys))
			for i := range floats {
				floats[i] = float32(m.r.NormFloat64())
			}
			y := m.classical("LabelEncoder", m.op("Reshape", c, m.ints(-1)), graph.StringsAttr("keys_strings", keys...), graph.FloatsAttr("values_floats", floats...), graph.FloatAttr("default_float", -3))
			numbers = append(numbers, m.op("Reshape", y, m.ints(-1, 1)))
		}
		m.check(m.op("Concat", append(hot, axis(-1))...), m.op("Concat", append(numbers, axis(1))...))
	}))

	It("are made of numbers and of strings, and are outputs where they are read too", seeds(12, func(m *model) {
		keys, rows := m.words(m.between(1, 40), false), m.between(1, 300)
		numbers, values := make([]int64, len(keys)), m.words(len(keys), true)
		for i := range numbers {
			numbers[i] = int64(m.between(-9, 9) * m.between(1, 1000))
		}
		x := m.texts(keys, rows, 2)
		c := m.column(x, 2)
		k := m.classical("LabelEncoder", c, graph.StringsAttr("keys_strings", keys...), graph.IntsAttr("values_int64s", numbers...))
		s := m.classical("LabelEncoder", c, graph.StringsAttr("keys_strings", keys...), graph.StringsAttr("values_strings", values...), graph.StringAttr("default_string", "none"))
		t := m.classical("LabelEncoder", m.op("Reshape", s, m.ints(1, -1)), graph.StringsAttr("keys_strings", values...), graph.IntsAttr("values_int64s", numbers...))
		back := m.classical("LabelEncoder", k, graph.IntsAttr("keys_int64s", numbers...), graph.StringsAttr("values_strings", values...))
		out := []*graph.Value{k, t, back}
		if m.chance(2) {
			out = append(out, c)
		}
		if m.chance(2) {
			out = append(out, s)
		}
		m.check(out...)
	}))

	It("are none in no rows", func() {
		m := newModel(1)
		x := m.texts([]string{"a", "b"}, 0, 2)
		c := m.column(x, 2)
		m.check(m.classical("OneHotEncoder", c, graph.StringsAttr("cats_strings", "a", "b")),
			m.classical("LabelEncoder", c, graph.StringsAttr("keys_strings", "a", "b"), graph.StringsAttr("values_strings", "c", "d")))
	})

	DescribeTable("and numbers that are no category are an error where the node says so, of one run", func(ctx SpecContext, good, bad *tensor.Tensor, cats graph.Attr) {
		g := graph.New("g")
		g.Opsets = map[string]int{"": 17, "ai.onnx.ml": 3}
		x := g.AddInput("x", graph.TypeOf(good))
		g.SetOutputs(g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "OneHotEncoder"}, Inputs: []*graph.Value{x}, Outputs: []string{"y"},
			Attrs: []graph.Attr{cats, graph.IntAttr("zeros", 0)}}).Outputs[0])
		p, err := carve.Compile(ctx, carve.FromGraph(g), nil)
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		for range 2 {
			out, err := p.Run(ctx, map[string]tensor.Value{"x": good})
			Expect(err).NotTo(HaveOccurred())
			Expect(tensor.Of[float32](out["y"].(*tensor.Tensor))).To(Equal([]float32{0, 1, 1, 0}))
			_, err = p.Run(ctx, map[string]tensor.Value{"x": bad})
			Expect(err).To(MatchError(ContainSubstring("element 1 is no category")))
		}
	},
		Entry("strings", tensor.FromStrings([]string{"b", "a"}), tensor.FromStrings([]string{"b", "c"}), graph.StringsAttr("cats_strings", "a", "b")),
		Entry("integers", tensor.From([]int64{7, 5}), tensor.From([]int64{7, 6}), graph.IntsAttr("cats_int64s", 5, 7)),
	)
})
