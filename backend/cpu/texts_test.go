package cpu_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
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

// fullIntegers returns integers of all sizes.
func (m *model) fullIntegers(shape []int) *tensor.Tensor {
	t, err := tensor.New(tensor.Int64, shape...)
	Expect(err).NotTo(HaveOccurred())
	v := tensor.Of[int64](t)
	for i := range v {
		v[i] = int64(m.r.Uint64()) >> m.r.IntN(64)
		if m.chance(9) {
			v[i] = math.MinInt64
		}
	}
	return t
}

// wide returns dims as int64.
func (m *model) wide(shape []int) []int64 {
	var list []int64
	for _, d := range shape {
		list = append(list, int64(d))
	}
	return list
}

// column takes a column of a matrix.
func (m *model) column(x *graph.Value, columns int) *graph.Value {
	k := int64(m.r.IntN(columns))
	if m.chance(2) {
		return m.op("Gather", x, m.ints(k-int64(columns*m.r.IntN(2))), axis(1))
	}
	return m.extract(x, m.ints(k))
}

// indices returns places along an axis, also from its end.
func (m *model) indices(length int, ends bool, shape ...int) *tensor.Tensor {
	list := make([]int64, 1)
	for _, d := range shape {
		list = slices.Repeat(list, d)
	}
	for i := range list {
		if list[i] = int64(m.r.IntN(length)); ends && m.chance(2) {
			list[i] -= int64(length)
		}
	}
	return tensor.From(list, shape...)
}

// extract takes elements of the last axis.
func (m *model) extract(x, at *graph.Value) *graph.Value {
	m.g.Opsets["ai.onnx.ml"] = 3
	name := fmt.Sprintf("extract_%d", m.g.NodeIDs())
	out := m.add(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "ArrayFeatureExtractor"}, Name: name, Inputs: []*graph.Value{x, at}, Outputs: []string{name}})
	Expect(m.err).NotTo(HaveOccurred())
	return out[0]
}

// expression returns a random regular expression.
func expression(m *model, depth int) string {
	if depth == 0 {
		return pick(m, "a", "b", "ab", ".", "[ab]", "[^a]", `\d`, `\w`, "", "x", "é", "^", "$", `\b`, "(?i:AB)", "(?s:.)", "(?m:^b$)")
	}
	e := func() string { return expression(m, depth-1) }
	return pick(m, func() string { return e() + e() }, func() string { return e() + e() + e() }, func() string { return "(" + e() + "|" + e() + ")" }, func() string { return "(?:" + e() + ")*" },
		func() string { return "(" + e() + ")+?" }, func() string { return "(?:" + e() + ")?" }, func() string { return "(?:" + e() + "){1,3}" })()
}

var _ = Describe("strings that a run makes", func() {
	DescribeTable("count as its memory", func(ctx SpecContext, name string, length, copies int) {
		m := newModel(1)
		long := m.feed(tensor.FromStrings([]string{strings.Repeat("x", length)}, 1))
		many := m.op("Tile", long, m.ints(int64(copies)))
		m.g.SetOutputs(m.op("Equal", m.op("StringConcat", many, long), long))
		cm := carve.FromGraph(m.g)
		defer cm.Close()
		p, err := carve.Compile(ctx, cm, &carve.Options{Backends: []backend.Config{{Name: name}}, MaxArenaBytes: 4 << 20})
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		_, err = p.Run(ctx, m.feeds)
		Expect(err).To(MatchError(carve.ErrMemoryLimit))
	},
		Entry("their characters on cpu", "cpu", 10_000, 2000),
		Entry("their characters on reference", "reference", 10_000, 2000),
		Entry("what tells where they lie, on cpu", "cpu", 1, 500_000),
		Entry("what tells where they lie, on reference", "reference", 1, 500_000),
	)
})

var _ = Describe("strings", func() {
	It("match regular expressions as the reference kernels do, of few states and of too many", seeds(60, func(m *model) {
		pattern := expression(m, m.between(0, 4))
		if m.chance(8) {
			pattern = "(a|b)*a(a|b){12}"
		}
		list := make([]string, m.between(1, 200))
		for i := range list {
			for range m.between(0, pick(m, 4, 30)) {
				list[i] += pick(m, "a", "b", "a", "b", "B", "x", "1", "\n", "é", "\xff")
			}
		}
		x, columns := m.texts(list, 40, 5), 5
		y := m.op("RegexFullMatch", x, graph.StringAttr("pattern", pattern))
		m.check(y, m.op("RegexFullMatch", m.column(x, columns), graph.StringAttr("pattern", pattern)))
	}))

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

	It("are taken by their places, chosen and joined, of columns, views and constants", seeds(24, func(m *model) {
		keys := m.words(m.between(1, 30), false)
		rows, columns := m.between(1, 200), m.between(2, 5)
		x := m.texts(keys, rows, columns)
		list := m.data(tensor.FromStrings(keys))
		some := m.indices(len(keys), false, rows)
		labels := m.op("Reshape", m.extract(list, m.feed(some)), m.ints(-1, 1))
		parts := []any{labels}
		for range m.between(1, 4) {
			c := m.column(x, columns)
			missing := m.op("Cast", m.classical("LabelEncoder", c, graph.StringsAttr("keys_strings", keys[0], ""), graph.IntsAttr("values_int64s", 1, 1), graph.IntAttr("default_int64", 0)), to(tensor.Bool))
			other := pick(m, m.data(tensor.FromStrings([]string{"none"})), labels, m.column(x, columns))
			if c = m.op("Reshape", c, m.ints(-1, 1)); m.chance(2) {
				c, other = other, c
			}
			parts = append(parts, m.op("Where", m.op("Reshape", missing, m.ints(-1, 1)), c, other))
		}
		for _, v := range parts[1:] {
			Expect(v.(*graph.Value).Type.Shape).To(HaveLen(2))
		}
		for i, v := range parts { // what was chosen between two constants is one
			if d := m.known[v.(*graph.Value)].Shape; d[0] != rows {
				parts[i] = labels
			}
		}
		y := m.op("Concat", append(parts, x, axis(1))...)
		z := m.op("Gather", y, m.feed(m.indices(rows, true, m.between(1, 3), m.between(1, 3))), axis(0))
		m.check(y, z, m.op("Gather", m.op("Reshape", y, m.ints(1, -1)), m.ints(0, -1, 1), axis(1)), m.op("Concat", m.op("Reshape", x, m.ints(-1)), list, axis(0)))
	}))

	It("are sliced, split, repeated, transposed and joined in pairs, of columns, views and constants", seeds(40, func(m *model) {
		keys := m.words(m.between(1, 30), false)
		shape := m.shape(m.between(1, 3), 1, 6)
		x := m.texts(keys, shape...)
		switch m.r.IntN(3) {
		case 0:
			columns := m.between(2, 4)
			x = m.op("Reshape", m.column(m.texts(keys, product(shape), columns), columns), m.ints(m.wide(shape)...))
		case 1:
			x = m.op("Reshape", x, m.ints(m.wide(shape)...))
		}
		var starts, ends, steps, repeats, large []int64
		for _, d := range shape {
			from, to := m.r.IntN(d), m.between(0, d)
			starts, ends, steps = append(starts, int64(from)), append(ends, int64(to)), append(steps, pick[int64](m, 1, 1, 2))
			if m.chance(3) {
				starts[len(starts)-1], ends[len(ends)-1], steps[len(steps)-1] = -1, -100, -1
			}
			repeats = append(repeats, int64(m.between(0, 3)))
			if large = append(large, int64(d)); d == 1 {
				large[len(large)-1] = int64(m.between(1, 4))
			}
		}
		axes := make([]int64, len(shape))
		for i := range axes {
			axes[i] = int64(i)
		}
		out := []*graph.Value{m.op("Slice", x, m.ints(starts...), m.ints(ends...), m.ints(axes...), m.ints(steps...)), m.op("Tile", x, m.ints(repeats...)),
			m.op("Expand", x, m.ints(append([]int64{2}, large...)...)), m.op("Transpose", x)}
		along := m.r.IntN(len(shape))
		first := int64(m.between(0, shape[along]))
		out = append(out, m.ops("Split", 2, x, m.ints(first, int64(shape[along])-first), axis(along))...)
		out = append(out, m.op("StringConcat", x, pick(m, m.texts(keys, broadcastTo(m, shape)...), m.data(tensor.FromStrings([]string{"!"})))))
		m.check(append(out, m.op("Identity", out[0]), m.op("StringConcat", out[1], m.data(tensor.FromStrings([]string{"é"}))))...)
	}))

	It("are grouped and chosen as the reference kernels do, one by one and in slices", seeds(40, func(m *model) {
		keys := m.words(m.between(1, 30), m.chance(2))
		x := m.texts(keys, m.between(1, 40), m.between(1, 5), m.between(1, 3))
		unique, length := []any{x, graph.IntAttr("sorted", int64(m.between(0, 1)))}, m.known[x].Len()
		some := []any{x, nil}
		if k := m.between(0, 3); k < 3 {
			unique, some, length = append(unique, axis(k)), append(some, axis(k)), m.known[x].Shape[k]
		}
		keep := make([]bool, m.between(1, length))
		for i := range keep {
			keep[i] = m.chance(2)
		}
		some[1] = m.feed(tensor.From(keep, len(keep)))
		m.sample(append(m.ops("Unique", m.between(1, 4), unique...), m.op("Compress", some...))...)
	}))

	It("are split as the reference kernels do, at delimiters and at white space", seeds(60, func(m *model) {
		pieces := []string{"a", "b", " ", "\t", "\r\n", ", ", "é", "\u00a0", "\u2009", "abcdefghi", "\x80", "\x1f", "\x0e"}
		x, err := tensor.New(tensor.String, m.shape(m.between(0, 3), 0, 5)...)
		Expect(err).NotTo(HaveOccurred())
		for i := range x.Strings {
			for range m.between(0, pick(m, 3, 30)) {
				x.Strings[i] += pick(m, pieces...)
			}
		}
		args := []any{m.feed(x)}
		if m.chance(2) {
			args = append(args, graph.StringAttr("delimiter", pick(m, "", "a", " ", "ab", ", ", "\x80", "é")))
		}
		if m.chance(2) {
			args = append(args, graph.IntAttr("maxsplit", int64(m.between(-1, 5))))
		}
		m.version(20)
		out := m.ops("StringSplit", 2, args...)
		m.check(pick(m, out, out[:1], out[1:])...)
	}))

	It("are made of integers", seeds(8, func(m *model) {
		x := m.feed(m.fullIntegers(m.shape(m.between(0, 3), 0, 9)))
		m.check(m.op("Cast", x, to(tensor.String)), m.op("Cast", m.op("Cast", x, to(tensor.Int32)), to(tensor.String)))
	}))

	It("are counted with their neighbours as the reference kernels do, and so are integers", seeds(40, func(m *model) {
		words, longest := m.between(1, 6), m.between(1, 3)
		spread := pick(m, int64(1), 1<<40) // as a table has them, or a list of slots
		var pool, starts, at []int64
		for k := range longest {
			starts = append(starts, int64(len(pool)))
			for range m.between(0, 8) {
				pool, at = append(pool, m.int64s(k+1, 0, words)...), append(at, int64(m.r.IntN(9)))
			}
		}
		pool, at = append(pool, m.int64s(longest, 0, words)...), append(at, int64(m.r.IntN(9))) // one at least
		rows, columns := m.between(1, 5), m.between(1, 9)
		list := m.int64s(rows*columns, 0, words+2)
		attrs := []any{graph.StringAttr("mode", pick(m, "TF", "IDF", "TFIDF")), graph.IntAttr("min_gram_length", int64(m.between(1, longest))),
			graph.IntAttr("max_gram_length", int64(longest)), graph.IntAttr("max_skip_count", int64(m.r.IntN(3))), graph.IntsAttr("ngram_counts", starts...), graph.IntsAttr("ngram_indexes", at...)}
		if m.chance(2) {
			weights := make([]float32, len(at))
			for i := range weights {
				weights[i] = float32(m.between(1, 4))
			}
			attrs = append(attrs, graph.FloatsAttr("weights", weights...))
		}
		if m.chance(2) {
			names := make([]string, 0, len(pool))
			for _, w := range pool {
				names = append(names, fmt.Sprint("word", w))
			}
			texts := make([]string, 0, len(list))
			for _, w := range list {
				texts = append(texts, fmt.Sprint("word", w))
			}
			x := m.feed(tensor.FromStrings(texts, rows, columns))
			m.check(m.op("TfIdfVectorizer", append(attrs, x, graph.StringsAttr("pool_strings", names...))...))
			return
		}
		for _, w := range [][]int64{pool, list} {
			for i := range w {
				w[i] *= spread
			}
		}
		x := m.feed(tensor.From(list, rows, columns))
		if spread == 1 && m.chance(2) {
			x = m.op("Cast", x, to(tensor.Int32))
		}
		m.check(m.op("TfIdfVectorizer", append(attrs, x, graph.IntsAttr("pool_int64s", pool...))...))
	}))

	It("that are taken by places that there are not are an error", func() {
		m := newModel(1)
		list, at := m.data(tensor.FromStrings([]string{"a", "b"})), m.feed(tensor.From([]int64{1, 0}))
		y := m.extract(list, at)
		z := m.op("Gather", list, at)
		for i, bad := range []int64{-1, -3, 2} {
			m.g.SetOutputs(y)
			if i > 0 {
				m.g.SetOutputs(z)
			}
			m.feeds[at.Name] = tensor.From([]int64{1, bad})
			p, err := carve.Compile(context.Background(), carve.FromGraph(m.g), nil)
			Expect(err).NotTo(HaveOccurred())
			_, err = p.Run(context.Background(), m.feeds)
			var out *backend.RangeError
			Expect(errors.As(err, &out)).To(BeTrue(), "%v", err)
			p.Close()
		}
	})

	DescribeTable("that are equal among keys: the first counts, or the last where ONNX Runtime takes that", func(op string, c int, attrs ...graph.Attr) {
		m := newModel(1)
		m.g.Opsets["ai.onnx.ml"] = 3
		x := m.feed(tensor.FromStrings([]string{"a", "b", "c", "a long key", "a"}))
		y := m.classical(op, x, attrs...)
		if op == "LabelEncoder" {
			Expect(tensor.Of[int64](m.known[y])[0]).To(BeEquivalentTo(c))
		} else {
			Expect(tensor.Of[float32](m.known[y])[c]).To(Equal(float32(1)))
		}
		m.check(y)
	},
		Entry("of LabelEncoder", "LabelEncoder", 10, graph.StringsAttr("keys_strings", "a", "b", "a", "a long key", "b"), graph.IntsAttr("values_int64s", 10, 20, 30, 40, 50)),
		Entry("of OneHotEncoder", "OneHotEncoder", 2, graph.StringsAttr("cats_strings", "a", "b", "a", "a long key")),
	)

	It("that are floats have categories that are integers, as in package reference", seeds(30, func(m *model) {
		x := make([]float32, m.between(1, 300))
		for i := range x {
			x[i] = pick(m, float32(m.between(-4, 4)), float32(m.between(-40, 40))/8, 1e30, -1e30, float32(math.Inf(1)))
		}
		cats := []int64{int64(m.between(-3, 0)), 1, int64(m.between(2, 4)), int64(m.between(2, 4)) * pick(m, int64(1), int64(100000))}
		v := m.feed(tensor.From(x, len(x), 1))
		m.check(m.classical("OneHotEncoder", v, graph.IntsAttr("cats_int64s", cats...)),
			m.classical("OneHotEncoder", m.op("Cast", v, graph.IntAttr("to", int64(tensor.Float64))), graph.IntsAttr("cats_int64s", cats...)))
	}))

	It("that are equal among keys count as in package reference, of all kinds and in tables of all kinds", seeds(20, func(m *model) {
		list := m.words(m.between(2, 60), m.chance(2))
		if m.chance(3) { // whose first, middle and last bytes say little
			for i := range 300 {
				list = append(list, fmt.Sprintf("w%03d0", i))
			}
		}
		for range m.between(1, 20) {
			list = append(list, pick(m, list...))
		}
		numbers, values, floats := make([]int64, len(list)), make([]int64, len(list)), make([]float32, len(list))
		for i := range numbers {
			values[i], numbers[i] = int64(i), int64(m.between(-9, 9)*pick(m, 1, 1, 100000))
			floats[i] = pick(m, float32(math.NaN()), 0, float32(math.Copysign(0, -1)), 1, 2.5, float32(m.between(-3, 3)))
		}
		s, n, f := m.texts(list, 40), m.feed(tensor.From(numbers)), m.feed(tensor.From(floats))
		m.check(m.classical("LabelEncoder", s, graph.StringsAttr("keys_strings", list...), graph.IntsAttr("values_int64s", values...)),
			m.classical("LabelEncoder", n, graph.IntsAttr("keys_int64s", numbers...), graph.IntsAttr("values_int64s", values...)),
			m.classical("LabelEncoder", f, graph.FloatsAttr("keys_floats", floats...), graph.IntsAttr("values_int64s", values...)),
			m.classical("OneHotEncoder", s, graph.StringsAttr("cats_strings", list...)),
			m.classical("OneHotEncoder", n, graph.IntsAttr("cats_int64s", numbers...)))
	}))

	It("are found soon whatever their numbers are", func(SpecContext) {
		const factor = 0x9e3779b97f4a7c15 // usual for hashes: multiples of its inverse have products whose upper bits are alike
		inverse := uint64(factor)
		for range 6 {
			inverse *= 2 - factor*inverse
		}
		keys := make([]int64, 1<<18)
		for i := range keys {
			keys[i] = int64(uint64(i) * inverse)
		}
		m := newModel(1)
		x := m.feed(tensor.From(append([]int64{-5}, keys[:100]...)))
		m.check(m.classical("LabelEncoder", x, graph.IntsAttr("keys_int64s", keys...), graph.IntsAttr("values_int64s", keys...)))
	}, SpecTimeout(time.Minute))

	It("behind a chain of 10,000 views and columns compile in a time that grows with its length", func(ctx SpecContext) {
		m := newModel(1)
		x := m.texts([]string{"a", "b"}, 3, 1)
		v := x
		for i := range 10_000 {
			if v = m.op("Reshape", v, m.ints(3, 1)); i%2 == 0 {
				v = m.column(v, 1)
			}
		}
		y := m.classical("LabelEncoder", v, graph.StringsAttr("keys_strings", "a", "b"), graph.IntsAttr("values_int64s", 1, 2))
		m.g.SetOutputs(y)
		start := time.Now()
		p, err := carve.Compile(ctx, carve.FromGraph(m.g), nil)
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		_, err = p.Run(ctx, m.feeds)
		Expect(err).NotTo(HaveOccurred())
		Expect(time.Since(start)).To(BeNumerically("<", 20*time.Second))
	})

	It("are written to the caller's outputs, and copied there where these have strings of operands", func(ctx SpecContext) {
		m := newModel(1)
		x := m.texts([]string{"a", "b", "c", "d"}, 50, 2)
		m.g.SetOutputs(m.op("Gather", x, m.ints(1, 0), axis(1)), m.op("Gather", x, m.ints(1, 1), axis(1)))
		p, err := carve.Compile(ctx, carve.FromGraph(m.g), nil)
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		s, err := p.NewSession()
		Expect(err).NotTo(HaveOccurred())
		defer s.Close()
		given := m.feeds[x.Name].(*tensor.Tensor)
		var swapped, second []string
		for i := 0; i < given.Len(); i += 2 {
			swapped, second = append(swapped, given.Strings[i+1], given.Strings[i]), append(second, given.Strings[i+1], given.Strings[i+1])
		}
		var results []*tensor.Tensor
		for range 2 {
			t, err := tensor.New(tensor.String, 50, 2)
			Expect(err).NotTo(HaveOccurred())
			results = append(results, t)
		}
		run := func(in *tensor.Tensor, out ...*tensor.Tensor) {
			GinkgoHelper()
			Expect(s.RunInto(ctx, []*tensor.Tensor{in}, out)).To(Succeed())
		}
		for range 2 {
			run(given, results...)
			Expect(results[0].Strings).To(Equal(swapped))
			Expect(results[1].Strings).To(Equal(second))
		}
		kept := slices.Clone(results[0].Strings)
		fresh, err := s.Run(ctx, m.feeds)
		Expect(err).NotTo(HaveOccurred())
		clear(fresh[p.Outputs()[0].Name].(*tensor.Tensor).Strings)
		Expect(results[0].Strings).To(Equal(kept))
		list := slices.Concat(given.Strings, make([]string, 2))
		run(&tensor.Tensor{DType: tensor.String, Shape: []int{50, 2}, Strings: list[:100]}, &tensor.Tensor{DType: tensor.String, Shape: []int{50, 2}, Strings: list[2:]}, results[1])
		Expect(list[2:]).To(Equal(swapped))
		Expect(results[1].Strings).To(Equal(second))
	})

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
