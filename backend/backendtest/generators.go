package backendtest

import (
	"maps"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// generator makes an operator on random operands and returns results to compare.
type generator func(m *maker, op string) []*graph.Value

// generators are those of the operators that some backend beside the reference runs: its specs ask for one of each.
var generators = collect(unaryGenerators, binaryGenerators, layerGenerators, windowGenerators, normGenerators, moveGenerators, indexGenerators, dataGenerators, recurrentGenerators, quantizeGenerators, treeGenerators, classicalGenerators, attentionGenerators, expertGenerators)

// elementary are those of operators that do not add up: what they make of numbers that are none, the order of sums does not decide.
var elementary = collect(unaryGenerators, binaryGenerators, moveGenerators, indexGenerators, dataGenerators)

func collect(families ...map[string]generator) map[string]generator {
	out := map[string]generator{}
	for _, f := range families {
		maps.Copy(out, f)
	}
	return out
}

// each gives several operators one generator.
func each(g generator, ops ...string) map[string]generator {
	out := map[string]generator{}
	for _, op := range ops {
		out[op] = g
	}
	return out
}

func one(v *graph.Value) []*graph.Value { return []*graph.Value{v} }

// unaryGenerators are functions of single elements.
var unaryGenerators = collect(
	each(unaryOf(-3, 3), "Abs", "Neg", "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "HardSigmoid", "HardSwish", "Swish", "Gelu", "Mish", "Sigmoid",
		"Tanh", "Softplus", "Softsign", "Erf", "Exp", "Sin", "Cos", "Sinh", "Cosh", "Asinh", "Atan", "Sign", "Floor", "Ceil", "Round", "ThresholdedRelu", "Shrink", "BitwiseNot"),
	each(unaryOf(-0.95, 0.95), "Asin", "Acos", "Atanh", "Tan"),
	each(unaryOf(1.1, 6), "Acosh"),
	each(unaryOf(0.01, 9), "Log", "Sqrt", "Reciprocal"),
	map[string]generator{"Clip": clip, "IsNaN": unusual, "IsInf": unusual, "Cast": cast, "Not": func(m *maker, op string) []*graph.Value {
		return one(m.call(op, m.leaf(m.random(tensor.Bool, m.shape(m.rank(0, 5))...))).one())
	}},
)

// unaryOf generates numbers in [lo, hi].
func unaryOf(lo, hi float64) generator {
	return func(m *maker, op string) []*graph.Value {
		dt := m.dtype(op, 0)
		low := lo
		if dt.IsUnsigned() {
			low = max(lo, 0)
		}
		shape := m.shape(m.rank(0, 5))
		if m.chance(3) {
			shape = m.image(2)
		}
		c := m.call(op, m.within(dt, low, hi, shape...))
		if lo == -3 && m.chance(3) {
			c = m.call(op, m.operand(dt, shape...))
		}
		for _, name := range []string{"alpha", "beta", "gamma", "lambd", "bias"} {
			if m.chance(2) {
				c.float(name, 0.1+m.r.Float64())
			}
		}
		if m.chance(2) {
			c.text("approximate", pick(m, "none", "tanh"))
		}
		return one(c.one())
	}
}

func clip(m *maker, op string) []*graph.Value {
	dt := m.dtype(op, 0)
	c := m.call(op, m.operand(dt, m.shape(m.rank(0, 5))...))
	for _, bound := range []struct {
		name   string
		lo, hi int
	}{{"min", 0, 1}, {"max", 2, 3}} {
		switch i := c.port(bound.name); {
		case m.chance(4):
		case i >= 0 && m.chance(4): // known when it runs
			c.operand(i, m.leaf(m.fill(dt, nil, func(int) float64 { return float64(m.between(bound.lo, bound.hi)) })))
		default:
			c.float(bound.name, float64(m.between(bound.lo, bound.hi)))
		}
	}
	return one(c.one())
}

// unusual puts NaN and infinities between numbers.
func unusual(m *maker, op string) []*graph.Value {
	x := m.leaf(m.random(tensor.Float32, m.shape(m.rank(0, 4))...))
	zero := m.constant(m.fill(tensor.Float32, nil, func(int) float64 { return 0 }))
	bad := m.call("Div", m.call("Round", x).one(), zero).one() // NaN where x is small, else infinite
	return one(m.call(op, bad).flag("detect_negative").flag("detect_positive").one())
}

func cast(m *maker, op string) []*graph.Value {
	from, to := pick(m, testedTypes...), pick(m, testedTypes...)
	lo := -100.0
	if from.IsUnsigned() || to.IsUnsigned() || from == tensor.Bool {
		lo = 0
	}
	hi := 100.0
	if from == tensor.Bool {
		hi = 1
	}
	return one(m.call(op, m.within(from, lo, hi, m.shape(m.rank(0, 5))...)).int("to", int(to)).one())
}

// binaryGenerators are operators of several operands that broadcast.
var binaryGenerators = collect(
	each(binaryOf, "Add", "Sub", "Mul", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
	each(variadic, "Max", "Min", "Sum", "Mean"),
	each(integersOf, "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
	map[string]generator{"Pow": pow, "PRelu": prelu, "Where": where},
	each(func(m *maker, op string) []*graph.Value {
		shape := m.shape(m.rank(0, 4))
		return one(m.call(op, m.leaf(m.random(tensor.Bool, shape...)), m.leaf(m.random(tensor.Bool, m.broadcast(shape)...))).one())
	}, "And", "Or", "Xor"),
)

// pair returns two shapes that broadcast to one.
func (m *maker) pair() (a, b []int) {
	a = m.shape(m.rank(0, 5))
	if m.chance(3) {
		a = m.image(2)
		if m.chance(2) { // by channel
			return a, pick(m, []int{1, a[1], 1, 1}, []int{a[1], 1, 1}, []int{a[0], a[1], 1, 1}, []int{1}, nil)
		}
	}
	b = m.broadcast(a)
	if m.chance(3) {
		b = a
	}
	if m.chance(4) {
		a, b = m.broadcast(a), a
	}
	return a, b
}

func binaryOf(m *maker, op string) []*graph.Value {
	dt := m.dtype(op, 0)
	a, b := m.pair()
	x, y := m.operand(dt, a...), m.operand(dt, b...)
	if op == "Div" {
		y = m.within(dt, 1, 4, b...)
	}
	return one(m.call(op, x, y).one())
}

// integersOf is an operator on two integers.
func integersOf(m *maker, op string) []*graph.Value {
	dt := pick(m, tensor.Int32, tensor.Int64, tensor.Int8, tensor.Uint8, tensor.Uint16, tensor.Uint64)
	a, b := m.pair()
	if op == "BitShift" {
		dt = pick(m, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64)
		return one(m.call(op, m.operand(dt, a...), m.within(dt, 0, 9, b...)).text("direction", pick(m, "LEFT", "RIGHT")).one())
	}
	c := m.call(op, m.operand(dt, a...), m.operand(dt, b...))
	if op == "Mod" {
		c.flag("fmod")
	}
	return one(c.one())
}

func variadic(m *maker, op string) []*graph.Value {
	dt := m.dtype(op, 0)
	a, b := m.pair()
	list := []*graph.Value{m.operand(dt, a...), m.operand(dt, b...)}
	for range m.between(0, 2) {
		list = append(list, m.operand(dt, m.broadcast(a)...))
	}
	if m.chance(4) {
		list = list[:1]
	}
	return one(m.call(op, list...).one())
}

func pow(m *maker, op string) []*graph.Value {
	a, b := m.pair()
	if types := []tensor.DType{tensor.Float32, tensor.Int32, tensor.Int64}; m.chance(3) && m.g.Opsets[""] >= 12 {
		x, y := pick(m, types...), pick(m, types...)
		if m.chance(2) {
			return one(m.call(op, m.within(x, 1, 4, a...), m.constant(m.fill(y, nil, func(int) float64 { return float64(m.between(0, 3)) }))).one())
		}
		return one(m.call(op, m.within(x, 1, 4, a...), m.within(y, 0, 4, b...)).one())
	}
	y := m.within(tensor.Float32, -2, 2, b...)
	if m.chance(2) {
		y = m.constant(m.fill(tensor.Float32, nil, func(int) float64 { return pick(m, -1.0, 0.5, 1, 2, 3) }))
	}
	return one(m.call(op, m.within(tensor.Float32, 0.1, 3, a...), y).one())
}

func prelu(m *maker, op string) []*graph.Value {
	dt := m.dtype(op, 0)
	a := m.shape(m.rank(1, 4))
	return one(m.call(op, m.operand(dt, a...), m.operand(dt, m.broadcast(a)...)).one())
}

func where(m *maker, op string) []*graph.Value {
	dt := m.dtype(op, 1)
	a, b := m.pair()
	return one(m.call(op, m.leaf(m.random(tensor.Bool, m.broadcast(a)...)), m.operand(dt, a...), m.operand(dt, b...)).one())
}
