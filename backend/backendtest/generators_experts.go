package backendtest

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// expertGenerators are mixtures of experts, and attention whose memory is a matrix.
var expertGenerators = map[string]generator{microsoft.Domain + ":MoE": mixture, microsoft.Domain + ":QMoE": quantisedMixture,
	microsoft.Domain + ":LinearAttention": linearAttention, "LinearAttention": linearAttention, "CausalConvWithState": causalConv}

// expertSizes are the sizes of a mixture: the first layer has operands for a function of two where gated is set.
type expertSizes struct {
	tokens, experts, hidden, inner, first, chosen int
	gated                                         bool
}

// mixed adds what all mixtures have.
func (m *maker) mixed(c *call, s *expertSizes) {
	m.g.Opsets[microsoft.Domain] = 1
	shape := pick(m, []int{s.tokens, s.hidden}, []int{1, s.tokens, s.hidden})
	c.operand(0, m.leaf(m.random(tensor.Float32, shape...)))
	c.operand(1, m.leaf(m.random(tensor.Float32, s.tokens, s.experts)))
	c.int("k", s.chosen).flag("normalize_routing_weights")
	if !s.gated {
		c.text("activation_type", pick(m, "relu", "gelu", "silu", "identity"))
		return
	}
	c.text("activation_type", "swiglu").int("swiglu_fusion", pick(m, 1, 2))
	for _, a := range []graph.Attr{graph.FloatAttr("activation_alpha", 1.7), graph.FloatAttr("activation_beta", 1), graph.FloatAttr("swiglu_limit", 0.5)} {
		if m.chance(2) {
			c.set(a.Name, nil, a)
		}
	}
}

func (m *maker) expertSizes(unit int) *expertSizes {
	s := &expertSizes{tokens: pick(m, 1, 3, 40), experts: m.between(1, 5), hidden: unit * m.between(1, 3), inner: unit * m.between(1, 3), gated: m.chance(2)}
	s.chosen = m.between(1, s.experts)
	if s.first = s.inner; s.gated {
		s.first *= 2
	}
	return s
}

func mixture(m *maker, op string) []*graph.Value {
	s := m.expertSizes(pick(m, 1, 7, 16))
	c := m.call(op)
	m.mixed(c, s)
	c.operand(2, m.constant(m.random(tensor.Float32, s.experts, s.first, s.hidden)))
	c.operand(4, m.constant(m.random(tensor.Float32, s.experts, s.hidden, s.inner)))
	if m.chance(2) {
		c.operand(3, m.constant(m.random(tensor.Float32, s.experts, s.first)))
		c.operand(5, m.constant(m.random(tensor.Float32, s.experts, s.hidden)))
	}
	if !s.gated && m.chance(2) {
		c.operand(6, m.constant(m.random(tensor.Float32, s.experts, s.first, s.hidden)))
	}
	return one(c.one())
}

func quantisedMixture(m *maker, op string) []*graph.Value {
	unit := pick(m, 20, 32, 32)
	s := m.expertSizes(unit)
	c := m.call(op)
	m.mixed(c, s)
	block := pick(m, 0, unit)
	if unit == 32 && m.chance(2) {
		block = 16
	}
	if block > 0 {
		c.int("block_size", block)
	}
	every := pick(m, 2, 4, 4, 8, 8)
	c.int("expert_weight_bits", every)
	byteOf := func(int) float64 { return float64(m.r.IntN(256)) }
	zeros := m.chance(2)
	layer := func(i, rows, k int) {
		bits := every
		if m.chance(4) {
			bits = pick(m, 2, 4, 8)
			c.int(fmt.Sprintf("fc%d_expert_weight_bits", i+1), bits)
		}
		c.operand(2+3*i, m.constant(m.fill(tensor.Uint8, []int{s.experts, rows, k * bits / 8}, byteOf)))
		scales, line := []int{s.experts, rows}, []int{s.experts, (rows*bits + 7) / 8}
		if block > 0 {
			scales, line = append(scales, k/block), []int{s.experts, rows, (k/block*bits + 7) / 8}
		}
		c.operand(3+3*i, m.constant(m.uniform(tensor.Float32, 0.01, 0.1, scales...)))
		if zeros {
			c.operand(11+i, m.constant(m.fill(tensor.Uint8, line, byteOf)))
		}
		if m.chance(2) {
			c.operand(4+3*i, m.constant(m.random(tensor.Float32, s.experts, rows)))
		}
	}
	layer(0, s.first, s.hidden)
	layer(1, s.hidden, s.inner)
	if !s.gated && m.chance(2) {
		layer(2, s.first, s.hidden)
	}
	if m.chance(3) {
		c.operand(14, m.leaf(m.uniform(tensor.Float32, 0.1, 1, s.tokens, s.experts)))
	}
	return one(c.one())
}

func linearAttention(m *maker, op string) []*graph.Value {
	m.g.Opsets[microsoft.Domain] = 1
	batch, length, own, size, width := m.between(1, 2), pick(m, 1, 2, 9), pick(m, 1, 2, 4), pick(m, 4, 7, 16), pick(m, 3, 16, 17)
	heads, keys := pick(m, own, 2*own, (own+1)/2), pick(m, own, (own+1)/2)
	if op == "LinearAttention" { // the standard's has as many heads of keys as of values, and no fewer of queries
		heads, keys = pick(m, own, 2*own), own
	}
	rule := pick(m, "linear", "gated", "delta", "gated_delta")
	floats := func(lo, hi float64, shape ...int) *graph.Value {
		return m.leaf(m.uniform(tensor.Float32, lo, hi, shape...))
	}
	c := m.call(op, m.feed(m.random(tensor.Float32, batch, length, heads*size)), floats(-0.3, 0.3, batch, length, keys*size), floats(-1, 1, batch, length, own*width))
	if m.chance(2) {
		c.operand(3, floats(-1, 1, batch, own, size, width))
	}
	if rule == "gated" || rule == "gated_delta" {
		c.operand(4, floats(-2, 0, batch, length, pick(m, own, own*size)))
	}
	if rule == "delta" || rule == "gated_delta" {
		c.operand(5, floats(0, 1, batch, length, pick(m, own, 1)))
	}
	return c.int("q_num_heads", heads).int("kv_num_heads", own).text("update_rule", rule).out(pick(m, 1, 2))
}

// causalConv makes convolutions that see what came before, in earlier runs too.
func causalConv(m *maker, op string) []*graph.Value {
	batch, channels, length, taps := m.between(1, 3), pick(m, 1, 3, 16, 20), pick(m, 1, 2, 9, 33), m.between(1, 5)
	c := m.call(op, m.operand(tensor.Float32, batch, channels, length), m.weights(tensor.Float32, taps, channels, 1, taps))
	if m.chance(2) {
		c.operand(2, m.parameter(m.random(tensor.Float32, channels)))
	}
	if m.chance(2) {
		c.operand(3, m.operand(tensor.Float32, batch, channels, taps-1))
	}
	return c.text("activation", pick(m, "none", "silu", "swish")).out(2)
}
