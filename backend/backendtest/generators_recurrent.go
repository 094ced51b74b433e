package backendtest

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// recurrentGenerators are LSTM, GRU and RNN, by the number of their gates.
var recurrentGenerators = map[string]generator{"LSTM": recurrentOf(4), "GRU": recurrentOf(3), "RNN": recurrentOf(1)}

func recurrentOf(gates int) generator {
	return func(m *maker, op string) []*graph.Value {
		seq, batch, in, hidden := m.between(1, 7), m.between(1, 3), m.between(1, 20), m.between(1, 33)
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
			c.operand(4, m.leaf(m.fill(tensor.Int32, []int{batch}, func(int) float64 { return float64(m.between(1, seq)) })))
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
