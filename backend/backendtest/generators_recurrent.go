package backendtest

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// recurrentGenerators are LSTM, GRU and RNN, by the number of their gates, and an LSTM with weights of 8 bits.
var recurrentGenerators = map[string]generator{"LSTM": recurrentOf(4), "GRU": recurrentOf(3), "RNN": recurrentOf(1),
	microsoft.Domain + ":DynamicQuantizeLSTM": dynamicLSTM}

// dynamicLSTM makes LSTMs that round what they multiply. A state between two integers may be rounded to either, which later ones show.
func dynamicLSTM(m *maker, op string) []*graph.Value {
	m.g.Opsets[microsoft.Domain] = 1
	seq, batch, in, hidden := m.between(1, 3), m.between(1, 3), m.between(1, 40), m.between(1, 33)
	dt, f := pick(m, tensor.Uint8, tensor.Int8), tensor.Float32
	middle := map[tensor.DType]float64{tensor.Uint8: 128}[dt]
	weights := func(k int) *graph.Value {
		return m.constant(m.fill(dt, []int{1, k, 4 * hidden}, func(int) float64 { return middle + float64(m.between(-127, 127)) }))
	}
	c := m.call(op, m.operand(f, seq, batch, in), weights(in), weights(hidden))
	if m.chance(2) {
		c.operand(3, m.constant(m.random(f, 1, 8*hidden)))
	}
	if m.chance(3) {
		c.operand(4, m.leaf(m.fill(tensor.Int32, []int{batch}, func(int) float64 { return float64(m.between(0, seq)) })))
	}
	for _, i := range []int{5, 6} {
		if m.chance(2) {
			c.operand(i, m.operand(f, 1, batch, hidden))
		}
	}
	for _, i := range []int{8, 10} {
		shape := pick(m, []int{1}, []int{1, 4 * hidden})
		c.operand(i, m.constant(m.uniform(f, 0.0005, 0.002, shape...)))
		c.operand(i+1, m.constant(m.fill(dt, shape, func(int) float64 { return middle })))
	}
	out := c.int("hidden_size", hidden).text("direction", pick(m, "forward", "reverse")).out(3)
	for _, v := range out {
		m.c.slack[v] = 0.01
	}
	return out
}

func recurrentOf(gates int) generator {
	return func(m *maker, op string) []*graph.Value {
		seq, batch, in, hidden := m.between(1, 7), m.length(m.between(1, 3)), m.between(1, 20), m.between(1, 33)
		directions, direction := 1, pick(m, "forward", "reverse", "bidirectional")
		if direction == "bidirectional" {
			directions = 2
		}
		f := tensor.Float32
		c := m.call(op)
		batchFirst := c.has("layout") && m.chance(4)
		by := func(a, b int, rest ...int) *graph.Value { // of a and b the one that is the batch's comes first, where it is to
			if batchFirst {
				a, b = b, a
			}
			return m.operand(f, append([]int{a, b}, rest...)...)
		}
		c.operand(0, by(seq, batch, in))
		c.operand(1, m.weights(f, in, directions, gates*hidden, in))
		c.operand(2, m.weights(f, hidden, directions, gates*hidden, hidden))
		if m.chance(2) {
			c.operand(3, m.operand(f, directions, 2*gates*hidden))
		}
		if m.chance(3) {
			c.operand(4, m.leaf(m.fill(tensor.Int32, []int{batch}, func(int) float64 { return float64(m.between(0, seq)) })))
		}
		if m.chance(2) {
			c.operand(5, by(directions, batch, hidden))
		}
		outputs := 2
		if op == "LSTM" {
			outputs = 3
			if m.chance(2) {
				c.operand(6, by(directions, batch, hidden))
			}
			if m.chance(2) {
				c.operand(7, m.operand(f, directions, 3*hidden))
			}
			if m.chance(4) {
				c.int("input_forget", 1)
			}
		}
		if batchFirst {
			c.int("layout", 1)
		}
		c.int("hidden_size", hidden).text("direction", direction).flag("linear_before_reset")
		m.functions(c, map[int]int{1: 1, 3: 2, 4: 3}[gates], directions)
		return c.out(outputs)
	}
}

// functions gives the directions of a recurrent operator so many activations each, with parameters of their own or without, and bounds of what
// enters them. Those of gates are bounded, so that states are.
func (m *maker) functions(c *call, each, directions int) {
	n := each * directions
	if m.chance(6) {
		c.attrs = append(c.attrs, graph.FloatAttr("clip", float32(1+m.r.Float64())))
	}
	if !m.chance(3) {
		return
	}
	var names []string
	var alphas, betas []float32
	bounded := []string{"Sigmoid", "Tanh", "Softsign", "HardSigmoid", "ScaledTanh"}
	for i := range n {
		if each > 1 && i%each == 0 {
			names = append(names, pick(m, bounded...))
		} else {
			names = append(names, pick(m, append(bounded, "Relu", "Softplus", "LeakyRelu", "Elu", "Affine")...))
		}
		alphas, betas = append(alphas, float32(0.2+0.5*m.r.Float64())), append(betas, float32(0.2+0.5*m.r.Float64()))
	}
	c.attrs = append(c.attrs, graph.StringsAttr("activations", names...))
	if k := m.between(0, n); k > 0 {
		c.attrs = append(c.attrs, graph.FloatsAttr("activation_alpha", alphas[:k]...), graph.FloatsAttr("activation_beta", betas[:m.between(1, k)]...))
	}
}
