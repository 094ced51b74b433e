package backendtest

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// attentionGenerators are attention with a cache of keys and values.
var attentionGenerators = map[string]generator{microsoft.Domain + ":GroupQueryAttention": groupQuery, "Attention": attend, "TensorScatter": writeCache}

// writeCache writes into a cache of a fixed length, behind its end from its beginning on where it is circular.
func writeCache(m *maker, op string) []*graph.Value {
	shape := []int{m.between(1, 3), m.between(1, 3), m.between(1, 20), pick(m, 1, 8, 16, 17)}
	axis := pick(m, 1, 2, 2, 3)
	fresh, dt := append([]int{}, shape...), m.dtype(op, 0)
	fresh[axis] = m.between(1, shape[axis])
	mode, most := "linear", shape[axis]-fresh[axis]
	if m.chance(2) {
		mode, most = "circular", 3*shape[axis]
	}
	c := m.call(op, m.operand(dt, shape...), m.operand(dt, fresh...))
	if m.chance(3) {
		c.int("axis", axis-4)
	} else {
		c.int("axis", axis)
	}
	if !m.chance(4) {
		c.operand(2, m.leaf(m.fill(tensor.Int64, shape[:1], func(int) float64 { return float64(m.between(0, most)) })))
	}
	return one(c.text("mode", mode).one())
}

// attend makes the standard's attention, of matrices by heads or with heads beside each other, in all its forms.
func attend(m *maker, op string) []*graph.Value {
	batch, rows, fresh, own, share, size, width := m.between(1, 3), m.between(1, 9), m.between(1, 9), m.between(1, 2), m.between(1, 3), pick(m, 1, 8, 16, 20), pick(m, 1, 8, 16)
	past, apart := pick(m, 0, 0, 1, 7), m.chance(2)
	f := tensor.Float32
	by := func(heads, n, size int) *graph.Value {
		if apart {
			return m.operand(f, batch, heads, n, size)
		}
		return m.operand(f, batch, n, heads*size)
	}
	c := m.call(op, by(own*share, rows, size), by(own, fresh, size), by(own, fresh, width))
	if !apart {
		c.int("q_num_heads", own*share).int("kv_num_heads", own)
	}
	if past > 0 {
		c.operand(4, m.operand(f, batch, own, past, size))
		c.operand(5, m.operand(f, batch, own, past, width))
	}
	keys := past + fresh
	shape := pick(m, []int{rows, keys}, []int{1, 1, rows, keys}, []int{batch, 1, rows, keys}, []int{batch, own * share, rows, keys}, []int{1, keys}, []int{rows, max(1, keys-1)})
	switch m.r.IntN(4) {
	case 0:
		c.operand(3, m.operand(f, shape...))
	case 1:
		c.operand(3, m.leaf(m.random(tensor.Bool, shape...)))
	}
	if c.port("nonpad_kv_seqlen") >= 0 && m.chance(4) {
		c.operand(6, m.leaf(m.fill(tensor.Int64, []int{batch}, func(int) float64 { return float64(m.between(1, keys)) })))
	}
	c.flag("is_causal")
	if m.chance(3) {
		c.float("softcap", 3).float("scale", 0.3)
	}
	if m.chance(4) {
		c.int("left_window_size", m.between(0, 3)).int("right_window_size", m.between(-1, 3))
	}
	if m.chance(3) {
		c.int("qk_matmul_output_mode", m.between(0, 3))
		return c.out(4)
	}
	return c.out(pick(m, 1, 3))
}

// groupQuery makes attention of a prompt, or of what follows one, of which rows of a batch have lengths of their own.
func groupQuery(m *maker, op string) []*graph.Value {
	m.g.Opsets[microsoft.Domain] = 1
	batch, rows, own, share, size := m.between(1, 3), pick(m, 1, 1, 4, 11), m.between(1, 2), m.between(1, 3), pick(m, 8, 16)
	past := pick(m, 0, 1, 7, 40)
	room, total := past+pick(m, 0, 0, rows, rows+3), past+rows
	lengths := m.fill(tensor.Int32, []int{batch}, func(i int) float64 {
		if i == 0 {
			return float64(total - 1)
		}
		return float64(total - 1 - m.between(0, past))
	})
	floats := func(shape ...int) *graph.Value { return m.leaf(m.random(tensor.Float32, shape...)) }
	c := m.call(op, m.feed(m.random(tensor.Float32, batch, rows, own*share*size)), floats(batch, rows, own*size), floats(batch, rows, own*size))
	if room > 0 {
		c.operand(3, floats(batch, own, room, size))
		c.operand(4, floats(batch, own, room, size))
	}
	c.operand(5, m.leaf(lengths))
	c.operand(6, m.leaf(tensor.Scalar(int32(total))))
	c.int("num_heads", own*share).int("kv_num_heads", own)
	if m.chance(2) {
		c.operand(7, m.constant(m.random(tensor.Float32, total, size/2)))
		c.operand(8, m.constant(m.random(tensor.Float32, total, size/2)))
		c.int("do_rotary", 1).flag("rotary_interleaved")
	}
	if m.chance(3) {
		c.operand(10, floats(1, pick(m, 1, own*share), rows, total))
	}
	if m.chance(3) {
		c.int("local_window_size", m.between(1, 9))
	}
	if m.chance(3) {
		c.set("softcap", nil, graph.FloatAttr("softcap", 4))
	}
	return c.flag("smooth_softmax").out(3)
}
