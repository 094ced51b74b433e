package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var stateKernels = []kernel{
	{"LinearAttention", 27, linearAttention},
	{"CausalConvWithState", 27, causalConv},
}

// linearAttention runs the recurrence step by step: S is a [d_k, d_v] matrix per key head.
func linearAttention(c *Call) {
	q := c.headsOf(0, c.Node.Int("q_num_heads", 0))
	kn := c.Node.Int("kv_num_heads", 0)
	k, v := c.headsOf(1, kn), c.headsOf(2, kn)
	c.checkHeads(q, k, v)
	c.require(q.len == k.len, c.portName(1), "%v for %v", c.input(1), c.input(0))
	rule := c.Node.Str("update_rule", "gated_delta")
	gated, delta := rule == "gated" || rule == "gated_delta", rule == "delta" || rule == "gated_delta"
	if !gated && !delta && rule != "linear" {
		c.fail("update_rule", ErrAttribute, "%q", rule)
	}
	var decay, beta *heads
	if gated {
		decay = c.headsOf(4, kn)
		c.require(decay.b == k.b && decay.n == k.n && decay.len == k.len && (decay.dim == 1 || decay.dim == k.dim), c.portName(4), "%v for %v",
			c.input(4), c.input(1))
	}
	if delta {
		n := kn
		if t := c.input(5); len(t.Shape) == 3 && t.Shape[2] == 1 {
			n = 1
		}
		beta = c.headsOf(5, n)
		c.require(beta.b == k.b && (beta.n == k.n || beta.n == 1) && beta.len == k.len && beta.dim == 1, c.portName(5), "%v for %v", c.input(5), c.input(1))
	}
	dt, sdt := c.input(0).DType, c.input(0).DType
	stateShape := []int{k.b, k.n, k.dim, v.dim}
	state := c.floatBuffer(stateShape...)
	if t := c.optional(3); t != nil {
		c.require(sameShape(t.Shape, stateShape), c.portName(3), "%v is expected, found %v", stateShape, t)
		state, sdt = c.floats(3), t.DType
	}
	scale := c.float("scale", 0)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(q.dim))
	}
	out := &heads{b: q.b, n: q.n, len: q.len, dim: v.dim}
	out.v = c.floatBuffer(out.shape()...)
	m := &linearRecurrence{c: c, q: q, k: k, v: v, out: out, decay: decay, beta: beta, scale: scale, residual: make([]float64, v.dim)}
	for b := range k.b {
		for h := range k.n {
			s := state[(b*k.n+h)*k.dim*v.dim:][:k.dim*v.dim]
			for t := range k.len {
				m.step(s, b, h, t)
			}
		}
	}
	c.putHeads(0, dt, out, true)
	if c.wants(1) {
		c.putFloats(1, sdt, stateShape, state)
	}
}

// linearRecurrence is the recurrence over the steps of key-value heads. decay and beta are nil where the rule has none.
type linearRecurrence struct {
	c                         *Call
	q, k, v, out, decay, beta *heads
	scale                     float64
	residual                  []float64 // [Dv], used again by each step
}

// step updates the state s [Dk, Dv] of batch element b and head h with key and value t, and asks it the queries of the
// group.
func (m *linearRecurrence) step(s []float64, b, h, t int) {
	key, width := m.k.row(b, h, t), m.v.dim
	if m.decay != nil {
		g := m.decay.row(b, h, t)
		for i := range s {
			s[i] *= math.Exp(g[i/width%len(g)])
		}
	}
	copy(m.residual, m.v.row(b, h, t))
	if m.beta != nil {
		rate := m.beta.row(b, h%m.beta.n, t)[0]
		for j := range m.residual {
			sum := 0.0
			for i, x := range key {
				sum += s[i*width+j] * x
			}
			m.residual[j] = rate * (m.residual[j] - sum)
		}
	}
	for i, x := range key {
		for j, r := range m.residual {
			s[i*width+j] += x * r
		}
	}
	group := m.q.n / m.k.n
	for g := range group {
		query, dst := m.q.row(b, h*group+g, t), m.out.row(b, h*group+g, t)
		for i, x := range query {
			for j := range dst {
				dst[j] += m.scale * x * s[i*width+j]
			}
		}
	}
	m.c.spend(len(s) * (4 + group))
}

// causalConv convolves every channel of [N, C, L] with its own kernel over the past, which past_state continues.
func causalConv(c *Call) {
	x, w := c.input(0), c.input(1)
	c.require(len(x.Shape) == 3, c.portName(0), "[N, C, L] is expected, found %v", x)
	c.require(len(w.Shape) == 3 && w.Shape[0] == x.Shape[1] && w.Shape[1] == 1 && w.Shape[2] > 0, c.portName(1), "%v for %v", w, x)
	n, channels, length, k := x.Shape[0], x.Shape[1], x.Shape[2], w.Shape[2]
	stateShape := []int{n, channels, k - 1}
	past := c.floatBuffer(stateShape...)
	if t := c.optional(3); t != nil {
		c.require(sameShape(t.Shape, stateShape), c.portName(3), "%v is expected, found %v", stateShape, t)
		past = c.floats(3)
	}
	bias := make([]float64, channels)
	if c.has(2) {
		bias = c.floats(2)
		c.require(len(bias) == channels, c.portName(2), "%d for %d channels", len(bias), channels)
	}
	activation := c.Node.Str("activation", "none")
	if activation != "none" && activation != "silu" && activation != "swish" {
		c.fail("activation", ErrAttribute, "%q", activation)
	}
	v, ws := c.floats(0), c.floats(1)
	out := make([]float64, len(v))
	row := make([]float64, k-1+length)
	for r := range n * channels {
		ch := r % channels
		copy(row, past[r*(k-1):][:k-1])
		copy(row[k-1:], v[r*length:][:length])
		for i := range length {
			s := bias[ch]
			for j, f := range ws[ch*k:][:k] {
				s += f * row[i+j]
			}
			if activation != "none" {
				s *= sigmoid(s)
			}
			out[r*length+i] = s
		}
		copy(past[r*(k-1):][:k-1], row[length:])
		c.spend(length * (k + 1))
	}
	c.putFloats(0, x.DType, x.Shape, out)
	if c.wants(1) {
		c.putFloats(1, c.stateType(3, x.DType), stateShape, past)
	}
}

// stateType returns the type of an optional input, or def.
func (c *Call) stateType(i int, def tensor.DType) tensor.DType {
	if t := c.optional(i); t != nil {
		return t.DType
	}
	return def
}
