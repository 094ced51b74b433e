package backendtest

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// classicalGenerators are the operators of domain ai.onnx.ml on rows of numbers, without the trees.
var classicalGenerators = map[string]generator{
	"ai.onnx.ml:Scaler": columnwise,
	"ai.onnx.ml:Normalizer": func(m *maker, op string) []*graph.Value {
		x, _ := m.rows(op)
		return m.call(op, x).text("norm", pick(m, "MAX", "L1", "L2")).out(1)
	},
	"ai.onnx.ml:Binarizer": func(m *maker, op string) []*graph.Value {
		x, _ := m.rows(op)
		return m.call(op, x).float("threshold", float64(m.between(-1, 1))).out(1)
	},
	"ai.onnx.ml:Imputer":               imputer,
	"ai.onnx.ml:LinearRegressor":       linearModel,
	"ai.onnx.ml:LinearClassifier":      linearModel,
	"ai.onnx.ml:SVMRegressor":          machineRegressor,
	"ai.onnx.ml:SVMClassifier":         machineClassifier,
	"ai.onnx.ml:LabelEncoder":          labelEncoder,
	"ai.onnx.ml:OneHotEncoder":         oneHotEncoder,
	"ai.onnx.ml:ArrayFeatureExtractor": arrayFeatureExtractor,
}

// quarters returns numbers that are sums of few powers of two, so that most sums of their products are exact.
func (m *maker) quarters(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(m.between(-8, 8)) / 4
	}
	return out
}

func (c *call) floats(name string, v []float32) *call {
	c.attrs = append(c.attrs, floatsAttr(name, v))
	return c
}

func columnwise(m *maker, op string) []*graph.Value {
	x, columns := m.rows(op)
	c := m.call(op, x)
	for _, name := range []string{"offset", "scale"} {
		if !m.chance(4) {
			c.floats(name, m.quarters(pick(m, 1, columns)))
		}
	}
	return c.out(1)
}

func imputer(m *maker, op string) []*graph.Value {
	x, columns := m.rows(op)
	c := m.call(op, x)
	if x.Type.DType.IsInt() {
		values := make([]int64, pick(m, 1, columns))
		for i := range values {
			values[i] = int64(m.between(-9, 9)) << 40
		}
		c.attrs = append(c.attrs, graph.IntsAttr("imputed_value_int64s", values...))
		return c.int("replaced_value_int64", m.between(-3, 3)).out(1)
	}
	return c.floats("imputed_value_floats", m.quarters(pick(m, 1, columns))).float("replaced_value_float", pick(m, math.NaN(), 0, 1)).out(1)
}

// classes sets the labels of so many classes; at times there are none.
func (c *call) classes(name string, n int) *call {
	labels := make([]int64, n)
	for i := range labels {
		labels[i] = int64(5*i - 3)
	}
	c.attrs = append(c.attrs, graph.IntsAttr(name, labels...))
	return c
}

func (c *call) transformed() *call {
	return c.text("post_transform", pick(c.m, "NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"))
}

func linearModel(m *maker, op string) []*graph.Value {
	x, columns := m.rows(op)
	c, targets := m.call(op, x), m.between(1, 4)
	weights, bias := m.quarters(targets*columns), m.quarters(targets)
	if targets == 2 && m.chance(2) { // as of classifiers of two classes
		for i, w := range weights[:columns] {
			weights[columns+i] = -w
		}
		bias[1] = -bias[0]
	}
	c.floats("coefficients", weights)
	if op == "ai.onnx.ml:LinearRegressor" {
		if c.int("targets", targets); m.chance(2) {
			c.floats("intercepts", bias)
		}
		return c.transformed().out(1)
	}
	labels := targets
	if targets == 1 {
		labels = pick(m, 1, 2)
	}
	return c.floats("intercepts", bias).classes("classlabels_ints", labels).transformed().out(2)
}

// machine sets the vectors of a support vector machine and what is made of them.
func (c *call) machine(vectors, columns int) *call {
	m := c.m
	c.floats("support_vectors", m.quarters(vectors*columns)).text("kernel_type", pick(m, "LINEAR", "RBF", "POLY", "SIGMOID"))
	return c.floats("kernel_params", []float32{pick[float32](m, 0.25, 0.5), pick[float32](m, 0, 1), pick[float32](m, 1, 2, 3)})
}

func machineRegressor(m *maker, op string) []*graph.Value {
	x, columns := m.rows(op)
	c, n := m.call(op, x), m.between(0, 9)
	if n > 0 {
		c.machine(n, columns)
	}
	coef := n
	if n == 0 {
		coef = columns
	}
	c.int("n_supports", n).floats("coefficients", m.quarters(coef)).floats("rho", m.quarters(1)).text("post_transform", pick(m, "NONE", "LOGISTIC"))
	if m.chance(3) {
		c.int("one_class", 1)
	}
	return c.out(1)
}

func machineClassifier(m *maker, op string) []*graph.Value {
	x, columns := m.rows(op)
	c, classes := m.call(op, x), m.between(2, 4)
	c.classes("classlabels_ints", classes).transformed()
	if m.chance(4) { // without vectors
		return c.floats("coefficients", m.quarters(classes*columns)).floats("rho", m.quarters(pick(m, 1, classes))).out(2)
	}
	per, total := make([]int64, classes), 0
	for i := range per {
		per[i] = int64(m.between(0, 4))
		total += int(per[i])
	}
	if total == 0 {
		per[0], total = 2, 2
	}
	pairs := classes * (classes - 1) / 2
	c.machine(total, columns).floats("coefficients", m.quarters((classes-1)*total)).floats("rho", m.quarters(pairs))
	c.attrs = append(c.attrs, graph.IntsAttr("vectors_per_class", per...))
	if m.chance(2) {
		c.floats("prob_a", m.quarters(pairs)).floats("prob_b", m.quarters(pairs))
	}
	return c.out(2)
}

// labelEncoder makes one of numbers, close together or far apart, to numbers.
func labelEncoder(m *maker, op string) []*graph.Value {
	n, far := m.between(1, 9), pick(m, 1, 1000)
	keys := make([]int64, n)
	for i := range keys {
		keys[i] = int64(m.between(-3, 3) * far)
	}
	floats := make([]float32, n)
	for i, k := range keys {
		floats[i] = float32(k)
		if m.chance(9) {
			floats[i] = float32(math.NaN())
		}
	}
	m.g.Opsets["ai.onnx.ml"] = m.between(2, newestML)
	from := pick(m, tensor.Float32, tensor.Int64)
	x := m.leaf(m.fill(from, []int{m.between(1, 7), m.between(1, 3)}, func(int) float64 {
		if from == tensor.Float32 && m.chance(9) {
			return math.NaN()
		}
		return float64(m.between(-3, 3) * far)
	}))
	c := m.call(op, x)
	if from == tensor.Float32 {
		c.floats("keys_floats", floats)
	} else {
		c.attrs = append(c.attrs, graph.IntsAttr("keys_int64s", keys...))
	}
	if m.chance(2) {
		c.floats("values_floats", m.quarters(n)).float("default_float", 0.5)
	} else {
		c.attrs = append(c.attrs, graph.IntsAttr("values_int64s", keys...))
		c.int("default_int64", 77)
	}
	return c.out(1)
}

func oneHotEncoder(m *maker, op string) []*graph.Value {
	x := m.leaf(m.fill(pick(m, tensor.Int64, tensor.Int32), m.shape(m.rank(0, 3)), func(int) float64 { return float64(m.between(-3, 3)) }))
	cats := make([]int64, m.between(1, 5))
	for i := range cats {
		cats[i] = int64(i - 2)
	}
	c := m.call(op, x)
	c.attrs = append(c.attrs, graph.IntsAttr("cats_int64s", cats...))
	return c.out(1)
}

func arrayFeatureExtractor(m *maker, op string) []*graph.Value {
	x := m.leaf(m.random(m.dtype(op, 0), m.shape(m.rank(1, 3))...))
	shape, count := m.shapeOf(x), m.between(1, 5)
	last := shape[len(shape)-1]
	if last == 0 {
		count = 0
	}
	at := m.leaf(m.fill(tensor.Int64, []int{count}, func(int) float64 { return float64(m.r.IntN(last)) }))
	return m.call(op, x, at).out(1)
}
