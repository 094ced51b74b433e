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
		c := m.call(op, m.operand(f, seq, batch, in), m.weights(f, in, directions, gates*hidden, in), m.weights(f, hidden, directions, gates*hidden, hidden))
		if m.chance(2) {
			c.operand(3, m.operand(f, directions, 2*gates*hidden))
		}
		if m.chance(3) {
			c.operand(4, m.leaf(m.fill(tensor.Int32, []int{batch}, func(int) float64 { return float64(m.between(0, seq)) })))
		}
		if m.chance(2) {
			c.operand(5, m.operand(f, directions, batch, hidden))
		}
		outputs := 2
		if op == "LSTM" {
			outputs = 3
			if m.chance(2) {
				c.operand(6, m.operand(f, directions, batch, hidden))
			}
			if m.chance(2) {
				c.operand(7, m.operand(f, directions, 3*hidden))
			}
		}
		c.int("hidden_size", hidden).text("direction", direction).flag("linear_before_reset")
		if m.chance(6) {
			c.attrs = append(c.attrs, graph.FloatAttr("clip", float32(1+m.r.Float64())))
		}
		return c.out(outputs)
	}
}
