package backendtest

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// dataGenerators are operators of which the data tells the shapes, and those that read shapes.
var dataGenerators = map[string]generator{
	"NonZero":  func(m *maker, op string) []*graph.Value { return one(m.nonZero()) },
	"Compress": compress, "NonMaxSuppression": nonMaxSuppression, "Unique": unique, "TfIdfVectorizer": countGrams,
	"Shape": func(m *maker, op string) []*graph.Value {
		c := m.call(op, m.measured(op))
		if m.chance(2) {
			c.int("start", m.between(-5, 5)).int("end", m.between(-5, 5))
		}
		return one(c.one())
	},
	"Size": func(m *maker, op string) []*graph.Value { return one(m.call(op, m.measured(op)).one()) },
}

// nonZero adds a NonZero of a tensor that the run gives, with zeros in it.
func (m *maker) nonZero() *graph.Value {
	shape := m.shape(m.rank(1, 4))
	return m.call("NonZero", m.feed(m.fill(m.dtype("NonZero", 0), shape, func(int) float64 { return float64(m.between(0, 2)) }))).one()
}

// measured adds a tensor of which the shape is asked for: one whose shape depends on data, at times.
func (m *maker) measured(op string) *graph.Value {
	if m.chance(2) {
		return m.nonZero()
	}
	return m.moved(op, 0, 5)
}

// unique finds what differs among few numbers, or among slices of one to three of them.
func unique(m *maker, op string) []*graph.Value {
	shape, most := m.shape(m.rank(1, 3)), pick(m, 1, 2, 40)
	dt := m.dtype(op, 0)
	if dt == tensor.String || dt.IsComplex() {
		dt = tensor.Int64
	}
	c := m.call(op)
	if a := m.r.IntN(len(shape)); m.chance(2) {
		for i := range shape {
			if i != a {
				shape[i] = m.between(1, 2)
			}
		}
		c.int("axis", pick(m, a, a-len(shape)))
	}
	lo := -most
	if dt.IsUnsigned() || dt == tensor.Bool {
		lo = 0
	}
	if dt == tensor.Bool {
		most = 1
	}
	c.operand(0, m.feed(m.fill(dt, shape, func(int) float64 { return float64(m.between(lo, most)) })))
	if m.chance(2) {
		c.int("sorted", m.r.IntN(2))
	}
	return c.out(m.between(1, 4))
}

// countGrams counts n-grams of one to three of few words, or integers, in rows of them and of some more.
func countGrams(m *maker, op string) []*graph.Value {
	vocabulary, longest := m.between(1, 12), m.between(1, 3)
	var pool, starts, indexes []int64
	for size := range longest {
		starts = append(starts, int64(len(pool)))
		for range m.between(1, 6) {
			for range size + 1 {
				pool = append(pool, int64(m.between(0, vocabulary)))
			}
			indexes = append(indexes, int64(len(indexes)))
		}
	}
	m.r.Shuffle(len(indexes), func(i, j int) { indexes[i], indexes[j] = indexes[j], indexes[i] })
	shape := pick(m, []int{m.between(0, 12)}, []int{m.length(m.between(1, 5)), m.between(1, 12)})
	row := m.fill(pick(m, tensor.Int64, tensor.Int32), shape, func(int) float64 { return float64(m.between(0, vocabulary+3)) })
	mode := pick(m, "TF", "IDF", "TFIDF")
	as := []graph.Attr{graph.IntsAttr("ngram_counts", starts...), graph.IntsAttr("ngram_indexes", indexes...), graph.StringAttr("mode", mode),
		graph.IntAttr("min_gram_length", int64(m.between(1, longest))), graph.IntAttr("max_gram_length", int64(m.between(1, longest))), graph.IntAttr("max_skip_count", int64(m.between(0, 3)))}
	c := m.call(op)
	if m.chance(2) {
		c.operand(0, m.leaf(wordsOf(row)))
		as = append(as, graph.StringsAttr("pool_strings", wordsOf(tensor.From(pool)).Strings...))
	} else {
		c.operand(0, m.leaf(row))
		as = append(as, graph.IntsAttr("pool_int64s", pool...))
	}
	if mode != "TF" && m.chance(2) {
		weights := make([]float32, len(indexes))
		for i := range weights {
			weights[i] = float32(m.between(-4, 9)) / 4
		}
		as = append(as, graph.FloatsAttr("weights", weights...))
	}
	c.attrs = append(c.attrs, as...)
	return one(c.one())
}

// wordsOf returns integers as words of their digits.
func wordsOf(t *tensor.Tensor) *tensor.Tensor {
	out := make([]string, t.Len())
	for i := range out {
		if t.DType == tensor.Int32 {
			out[i] = fmt.Sprint("w", tensor.Of[int32](t)[i])
		} else {
			out[i] = fmt.Sprint("w", tensor.Of[int64](t)[i])
		}
	}
	return tensor.FromStrings(out, t.Shape...)
}

func compress(m *maker, op string) []*graph.Value {
	shape := m.shape(m.rank(1, 4))
	a := m.r.IntN(len(shape))
	c, n := m.call(op, m.operand(m.dtype(op, 0), shape...)), shape[a]
	if m.chance(3) {
		n = 1
		for _, d := range shape {
			n *= d
		}
	} else {
		c.int("axis", a)
	}
	n = m.between(0, n) // conditions may be fewer
	c.operand(1, m.feed(m.fill(tensor.Bool, []int{n}, func(int) float64 { return float64(m.between(0, 1)) })))
	return one(c.one())
}

func nonMaxSuppression(m *maker, op string) []*graph.Value {
	images, boxes, classes := m.between(1, 3), m.between(1, 150), m.between(1, 4)
	centers, mixed := m.chance(2), m.chance(3)
	corners := m.fill(tensor.Float32, []int{images, boxes, 4}, func(i int) float64 {
		size := float64(m.between(1, 60))
		if mixed { // few large ones among small ones
			size = pick(m, 1.0, 1.5, 2, 2.5, 3, 3.5, 4, 100)
		}
		if i%4 >= 2 && centers {
			return size
		}
		return size + float64(m.between(0, 100))
	})
	c := m.call(op, m.leaf(corners), m.feed(m.uniform(tensor.Float32, 0, 1, images, classes, boxes)))
	if centers {
		c.int("center_point_box", 1)
	}
	c.operand(2, m.leaf(tensor.Scalar(int64(pick(m, 0, 1, 5, 1000)))))
	if m.chance(4) {
		return one(c.one())
	}
	c.operand(3, m.leaf(tensor.Scalar(float32(pick(m, 0, 0.1, 0.5, 0.9)))))
	if m.chance(2) {
		c.operand(4, m.leaf(tensor.Scalar(float32(0.3))))
	}
	return one(c.one())
}
