package cpu_test

import (
	"math"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("what pipelines of classical models are made of", func() {
	It("an Imputer, of numbers and of what is none", seeds(20, func(m *model) {
		rows, columns := m.between(1, 40), m.between(1, pick(m, 9, 300))
		x := make([]float32, rows*columns)
		for i := range x {
			x[i] = float32(m.between(-2, 2))
			if m.chance(4) {
				x[i] = float32(math.NaN())
			}
		}
		old := pick(m, float32(math.NaN()), 0, 1)
		m.check(m.classical("Imputer", m.feed(tensor.From(x, rows, columns)), graph.FloatAttr("replaced_value_float", old),
			graph.FloatsAttr("imputed_value_floats", tensor.Of[float32](m.floats(pick(m, 1, columns)))...)))
	}))

	It("the nearest of many rows: TopK of few elements of long rows", seeds(30, func(m *model) {
		n := m.between(4, 400)
		k := m.between(1, pick(m, min(32, n/4), n/4))
		x := m.floats(m.between(1, pick(m, 5, 20)), n)
		d := tensor.Of[float32](x)
		for i := range d {
			switch m.r.IntN(20) {
			case 0:
				d[i] = float32(math.NaN())
			case 1:
				d[i] = float32(math.Copysign(0, -1))
			case 2:
				d[i] = float32(math.Inf(1 - 2*m.r.IntN(2)))
			default:
				d[i] = float32(math.Round(float64(4*d[i]))) / 4 // so that many are equal
			}
		}
		v := m.feed(x)
		if m.chance(3) {
			v = m.op("Transpose", v)
			m.check(m.ops("TopK", 2, v, m.ints(int64(k)), axis(0), graph.IntAttr("largest", int64(m.r.IntN(2))))...)
			return
		}
		m.check(m.ops("TopK", 2, v, m.ints(int64(k)), graph.IntAttr("largest", int64(m.r.IntN(2))))...)
	}))

	It("the first of long rows of other types: numbers that float32 does not tell apart, and those that are none", seeds(60, func(m *model) {
		n := m.between(256, 1500)
		k := m.between(1, pick(m, min(32, n/4), n/4))
		x, spread, odd := make([]float64, m.between(1, 4)*n), pick(m, 1, 3, 500), m.chance(2)
		few := m.chance(6) // numbers at all
		for i := range x {
			x[i] = float64(m.r.IntN(2*spread)-spread)*pick(m, 1, 0x1p34) + float64(m.r.IntN(5)-2)
			if odd && m.chance(15) {
				x[i] = pick(m, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0x1p-149, 1e300)
			}
			if few && i%40 > 0 {
				x[i] = math.NaN()
			}
		}
		v := m.feed(tensor.From(x, len(x)/n, n))
		if dt := pick(m, tensor.Float64, tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Int64, tensor.Int32, tensor.Int8); dt != tensor.Float64 {
			v = m.op("Cast", v, to(dt))
		}
		out := m.ops("TopK", 2, v, m.ints(int64(k)), graph.IntAttr("largest", int64(m.r.IntN(2))))
		m.exact(out[1])
	}))

	It("columns that are chosen, by constant lists in order and out of it", seeds(40, func(m *model) {
		columns, rows := m.between(1, 120), pick(m, 1, 5, m.between(60, 200))
		list := make([]int64, m.between(1, 50))
		for i := range list {
			list[i] = int64(m.r.IntN(columns))
		}
		if m.chance(2) {
			slices.Sort(list)
		}
		x := m.input(rows, columns)
		y := m.extract(x, m.ints(slices.Clone(list)...))
		if m.chance(2) {
			list[0] -= int64(columns)
		}
		m.check(y, m.op("Gather", x, m.ints(list...), axis(1)), m.op("Gather", m.op("Neg", x), m.ints(list...), axis(-1)))
	}))

	It("votes of trees that tie: the first class wins, as the rounded scores say", func() {
		const trees = 10
		m := newModel(3)
		m.g.Opsets["ai.onnx.ml"] = 3
		zeros, ones := make([]int64, trees), make([]float32, trees)
		ids, modes, halves := make([]int64, 3*trees), make([]string, 3*trees), make([]float32, 3*trees)
		nodes, features, yes, no := make([]int64, 3*trees), make([]int64, 3*trees), make([]int64, 3*trees), make([]int64, 3*trees)
		voters, leaves := make([]int64, trees), make([]int64, trees)
		for i := range trees {
			for k := range 3 {
				ids[3*i+k], nodes[3*i+k], modes[3*i+k] = int64(i), int64(k), "LEAF"
			}
			modes[3*i], features[3*i], yes[3*i], no[3*i], halves[3*i] = "BRANCH_LEQ", int64(i), 1, 2, 0.5
			voters[i], leaves[i], ones[i] = int64(i), 2, 0.1
		}
		attrs := []graph.Attr{
			graph.IntsAttr("nodes_treeids", ids...), graph.IntsAttr("nodes_nodeids", nodes...), graph.IntsAttr("nodes_featureids", features...),
			graph.StringsAttr("nodes_modes", modes...), graph.IntsAttr("nodes_truenodeids", yes...), graph.IntsAttr("nodes_falsenodeids", no...),
			graph.FloatsAttr("nodes_values", halves...), graph.IntsAttr("class_treeids", voters...), graph.IntsAttr("class_nodeids", leaves...),
			graph.IntsAttr("class_ids", zeros...), graph.FloatsAttr("class_weights", ones...), graph.IntsAttr("classlabels_int64s", 0, 1),
		}
		rows := make([]float32, 7*trees) // row r: votes of 2 + r trees
		for r := range 7 {
			for i := range 2 + r {
				rows[r*trees+i] = 1
			}
		}
		out := m.add(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.ml", Name: "TreeEnsembleClassifier"}, Name: "votes",
			Inputs: []*graph.Value{m.feed(tensor.From(rows, 7, trees))}, Outputs: []string{"label", "scores"}, Attrs: attrs})
		Expect(m.err).NotTo(HaveOccurred())
		Expect(tensor.Of[int64](m.known[out[0]])).To(Equal([]int64{0, 0, 0, 0, 1, 1, 1}))
		Expect(tensor.Of[float32](m.known[out[1]])[6:8]).To(Equal([]float32{0.5, 0.5}))
		m.check(out...)
	})

	It("powers by a vector of exponents, of negative numbers and of none", seeds(8, func(m *model) {
		x := m.op("Concat", away(m, m.input(3, 9)), m.op("Neg", m.op("Exp", m.input(2, 9))), m.op("Mul", m.input(1, 9), m.scalar(0)), axis(0))
		m.check(m.op("Pow", x, m.input(9)), m.op("Pow", x, m.data(tensor.From([]float32{2, 3, -1, -2, 0, 4, 0.5, -0.5, 7}, 9))))
	}))

	It("the logarithm of sums of short rows, with infinities", seeds(12, func(m *model) {
		rows, n := m.between(1, 300), m.between(1, 150)
		x := m.floats(rows, n)
		d := tensor.Of[float32](x)
		for i := range min(3, len(d)) {
			d[m.r.IntN(len(d))] = []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}[i]
		}
		if m.chance(2) {
			for i := range n {
				d[i] = float32(math.Inf(-1))
			}
		}
		m.check(m.op("ReduceLogSumExp", m.feed(x), m.ints(1)))
	}))

	It("differences of a row and many rows in float64", seeds(12, func(m *model) {
		n := m.between(1, 150)
		many, one := m.input(m.between(1, 300), n), m.input(1, n)
		if m.chance(2) {
			many, one = one, many
		}
		x := m.op(pick(m, "Sub", "Div", "Mul", "Max"), many, away(m, one))
		m.checkDouble(x, m.op("Pow", away(m, x), m.scalar(-1)))
	}))

	It("powers by any exponent in float64, of numbers of all kinds", seeds(12, func(m *model) {
		x := m.op("Concat", m.op("Exp", m.op("Mul", m.input(150), m.scalar(pick[float32](m, 0.01, 1, 30)))), m.input(20), m.op("Mul", m.input(2), m.scalar(0)),
			m.data(tensor.From([]float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1}, 4)), axis(0))
		m.checkDouble(m.op("Pow", x, m.scalar(pick[float32](m, -0.7, 1.5, -3, 0.1, 12))))
	}))

	It("columns that are put together, past many dims", seeds(10, func(m *model) {
		shape := m.shape(m.between(1, 7), 1, 3)
		a := m.r.IntN(len(shape))
		var parts []any
		for range m.between(2, 5) {
			d := append([]int(nil), shape...)
			d[a] = m.between(1, 9)
			parts = append(parts, m.op("Relu", m.input(d...)))
		}
		m.check(m.op("Concat", append(parts, axis(a))...))
	}))
})
