package gpugroup_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// maker makes a case of one node, of which the reference computes the results.
type maker struct {
	*rand.Rand
	c   *backendtest.Case
	err error
}

func newMaker(op string, seed uint64) *maker {
	h := fnv.New64a()
	_, _ = h.Write([]byte(op))
	m := &maker{Rand: rand.New(rand.NewPCG(seed, h.Sum64()))}
	m.c = &backendtest.Case{Name: op, Seed: seed, Graph: graph.New("one"), Values: map[*graph.Value]*tensor.Tensor{}}
	m.c.Graph.Opsets = map[string]int{"": 28}
	return m
}

func (m *maker) between(lo, hi int) int   { return lo + m.IntN(hi-lo+1) }
func (m *maker) chance(n int) bool        { return m.IntN(n) == 0 }
func (m *maker) of(list ...int) int       { return list[m.IntN(len(list))] }
func (m *maker) str(l ...string) string   { return l[m.IntN(len(l))] }
func (m *maker) flag(n string) graph.Attr { return graph.IntAttr(n, int64(m.IntN(2))) }

// operand adds an input of numbers that next gives; nil for numbers from -2 to 2.
func (m *maker) operand(dt tensor.DType, next func() float64, shape ...int) *graph.Value {
	t, err := tensor.New(dt, shape...)
	if err != nil {
		panic(err)
	}
	v := make([]float64, t.Len())
	for i := range v {
		if next == nil {
			v[i] = m.Float64()*4 - 2
		} else {
			v[i] = next()
		}
	}
	if err := tensor.Encode(t, v); err != nil {
		panic(err)
	}
	x := m.c.Graph.AddInput(fmt.Sprintf("in%d", len(m.c.Graph.Inputs)), graph.TypeOf(t))
	m.c.Values[x] = t
	return x
}

// node adds the node of the case, with the results that wanted says.
func (m *maker) node(op string, inputs []*graph.Value, wanted []bool, attrs ...graph.Attr) {
	spec := graph.NodeSpec{Op: graph.Op{Name: op}, Attrs: attrs, Inputs: inputs}
	for i, w := range wanted {
		name := ""
		if w {
			name = fmt.Sprintf("out%d", i)
		}
		spec.Outputs = append(spec.Outputs, name)
	}
	n := m.c.Graph.AddNode(spec)
	if m.err = graph.InferNode(n); m.err != nil {
		return
	}
	in := make([]tensor.Value, len(inputs))
	for i, v := range inputs {
		switch {
		case v == nil:
		case v.Const != nil:
			in[i] = v.Const
		default:
			in[i] = m.c.Values[v]
		}
	}
	out, err := reference.Evaluate(context.Background(), n, in)
	if m.err = err; err != nil {
		return
	}
	var results []*graph.Value
	for i, v := range n.Outputs {
		if v != nil {
			m.c.Values[v] = out[i].(*tensor.Tensor)
			v.Type = graph.TypeOf(m.c.Values[v])
			results = append(results, v)
		}
	}
	m.c.Graph.SetOutputs(results...)
}

// makers make cases of operators by name.
var makers = map[string]func(m *maker){"Attention": attention, "ConvTranspose": spread, "RotaryEmbedding": rotary, "CausalConvWithState": causalConv,
	"TensorScatter": tensorScatter, "BitCast": bitCast, "SwiGLU": func(m *maker) {
		dt, shape := m.float(), []int{m.between(1, 9), m.between(1, 9)}
		m.node("SwiGLU", []*graph.Value{m.operand(dt, nil, shape...), m.operand(dt, nil, shape...)}, []bool{true}, graph.FloatAttr("alpha", 1.3))
	}}

func init() {
	for op, gates := range map[string]int{"LSTM": 4, "GRU": 3, "RNN": 1} {
		makers[op+" with batches first"] = func(m *maker) { recurrent(m, op, gates) }
	}
}

// recurrent is a layer with batches first and functions of its own.
func recurrent(m *maker, op string, gates int) {
	batch, steps, width, units, dirs := m.between(1, 3), m.between(1, 5), m.between(1, 5), m.between(1, 6), m.of(1, 2)
	f, direction := m.double(), map[int]string{1: m.str("forward", "reverse"), 2: "bidirectional"}[dirs]
	in := []*graph.Value{m.operand(f, nil, batch, steps, width), m.operand(f, nil, dirs, gates*units, width), m.operand(f, nil, dirs, gates*units, units), nil, nil, nil}
	if m.chance(2) {
		in[3] = m.operand(f, nil, dirs, 2*gates*units)
	}
	if m.chance(2) {
		in[4] = m.operand(tensor.Int32, func() float64 { return float64(m.between(0, steps)) }, batch)
	}
	if m.chance(2) {
		in[5] = m.operand(f, nil, batch, dirs, units)
	}
	attrs := []graph.Attr{graph.IntAttr("hidden_size", int64(units)), graph.StringAttr("direction", direction), graph.IntAttr("layout", 1)}
	if gates == 3 {
		attrs = append(attrs, m.flag("linear_before_reset"))
	}
	if m.chance(3) {
		attrs = append(attrs, graph.FloatAttr("clip", 0.5))
	}
	if m.chance(2) {
		var acts []string
		for range dirs * max(gates-1, 1) {
			acts = append(acts, m.str("Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign", "LeakyRelu", "Affine", "ScaledTanh"))
		}
		attrs = append(attrs, graph.StringsAttr("activations", acts...), graph.FloatsAttr("activation_alpha", 0.3, 0.4), graph.FloatsAttr("activation_beta", 0.6))
	}
	wanted := []bool{true, m.chance(2)}
	if gates == 4 {
		attrs = append(attrs, m.flag("input_forget"))
		wanted = append(wanted, m.chance(2))
	}
	m.node(op, in, wanted, attrs...)
}

// spread is a transposed convolution of one to three dims, in groups.
func spread(m *maker) {
	dt, groups, dims := m.double(), m.of(1, 1, 2, 3), m.between(1, 3)
	in, out := groups*m.between(1, 4), m.between(1, 4)
	x, w := []int{m.between(1, 2), in}, []int{in, out}
	var strides, dilations, pads []int64
	for range dims {
		x, w = append(x, m.between(2, 5)), append(w, m.between(1, 3))
		strides, dilations, pads = append(strides, int64(m.between(1, 3))), append(dilations, int64(m.between(1, 2))), append(pads, int64(m.IntN(2)))
	}
	operands := []*graph.Value{m.operand(dt, nil, x...), m.operand(dt, nil, w...)}
	if m.chance(2) {
		operands = append(operands, m.operand(dt, nil, groups*out))
	}
	m.node("ConvTranspose", operands, []bool{true}, graph.IntAttr("group", int64(groups)), graph.IntsAttr("strides", strides...),
		graph.IntsAttr("dilations", dilations...), graph.IntsAttr("pads", append(pads, pads...)...))
}

func (m *maker) double() tensor.DType {
	return []tensor.DType{tensor.Float32, tensor.Float64}[m.IntN(2)]
}

func (m *maker) float() tensor.DType {
	return []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float16, tensor.BFloat16}[m.IntN(4)]
}

func rotary(m *maker) {
	batch, heads, rows, half, rest := m.between(1, 3), m.between(1, 3), m.between(1, 6), m.between(1, 5), 0
	dt := m.float()
	attrs := []graph.Attr{m.flag("interleaved")}
	if m.chance(3) {
		rest = m.between(1, 4)
		attrs = append(attrs, graph.IntAttr("rotary_embedding_dim", int64(2*half)))
	}
	shape := []int{batch, heads, rows, 2*half + rest}
	if m.chance(2) {
		shape = []int{batch, rows, heads * (2*half + rest)}
		attrs = append(attrs, graph.IntAttr("num_heads", int64(heads)))
	}
	in := []*graph.Value{m.operand(dt, nil, shape...)}
	if m.chance(2) {
		in = append(in, m.operand(dt, nil, 9, half), m.operand(dt, nil, 9, half),
			m.operand(tensor.Int64, func() float64 { return float64(m.IntN(9)) }, batch, rows))
	} else {
		in = append(in, m.operand(dt, nil, batch, rows, half), m.operand(dt, nil, batch, rows, half))
	}
	m.node("RotaryEmbedding", in, []bool{true}, attrs...)
}

func causalConv(m *maker) {
	batch, channels, length, window := m.between(1, 3), m.between(1, 5), m.between(1, 9), m.between(2, 5)
	dt := m.float()
	in := []*graph.Value{m.operand(dt, nil, batch, channels, length), m.operand(dt, nil, channels, 1, window), nil, nil}
	if m.chance(2) {
		in[2] = m.operand(dt, nil, channels)
	}
	if m.chance(2) {
		in[3] = m.operand(dt, nil, batch, channels, window-1)
	}
	m.node("CausalConvWithState", in, []bool{true, true}, graph.StringAttr("activation", m.str("none", "silu", "swish")))
}

func tensorScatter(m *maker) {
	dt := []tensor.DType{tensor.Float32, tensor.Float16, tensor.Int8, tensor.Int64}[m.IntN(4)]
	batch, rows, size := m.between(1, 3), m.between(2, 9), m.between(1, 4)
	of := m.between(1, rows)
	mode, most := "linear", rows-of
	if m.chance(2) {
		mode, most = "circular", 3*rows
	}
	in := []*graph.Value{m.operand(dt, nil, batch, 2, rows, size), m.operand(dt, nil, batch, 2, of, size), nil}
	if m.chance(3) {
		m.node("TensorScatter", in[:2], []bool{true}, graph.StringAttr("mode", mode))
		return
	}
	in[2] = m.operand(tensor.Int64, func() float64 { return float64(m.between(0, most)) }, batch)
	m.node("TensorScatter", in, []bool{true}, graph.StringAttr("mode", mode))
}

func bitCast(m *maker) {
	same := [][]tensor.DType{{tensor.Float32, tensor.Int32, tensor.Uint32}, {tensor.Int64, tensor.Uint64}, {tensor.Int8, tensor.Uint8},
		{tensor.Int16, tensor.Uint16}}[m.IntN(4)]
	x := m.operand(same[m.IntN(len(same))], func() float64 { return float64(m.between(-99, 99)) }, m.between(1, 5), m.between(1, 9))
	m.node("BitCast", []*graph.Value{x}, []bool{true}, graph.IntAttr("to", int64(same[m.IntN(len(same))])))
}

// attention is any: of both ranks and all types, with caches, masks of fewer dims or keys, windows, caps and lengths.
func attention(m *maker) {
	batch, kv, share := m.between(1, 3), m.between(1, 3), m.between(1, 3)
	queries, own, depth, width := m.of(1, 2, 5, 9), m.of(1, 4, 7, 17), m.of(1, 4, 7), m.of(2, 4, 9)
	dt := m.float()
	if m.chance(3) {
		dt = tensor.Float64
	}
	heads, past := kv*share, 0
	side := func(heads, rows, columns int, packed bool) *graph.Value {
		if packed {
			return m.operand(dt, nil, batch, rows, heads*columns)
		}
		return m.operand(dt, nil, batch, heads, rows, columns)
	}
	packed := m.chance(2)
	var attrs []graph.Attr
	if packed {
		attrs = []graph.Attr{graph.IntAttr("q_num_heads", int64(heads)), graph.IntAttr("kv_num_heads", int64(kv))}
	}
	in := make([]*graph.Value, 7)
	in[0], in[1], in[2] = side(heads, queries, depth, packed), side(kv, own, depth, packed), side(kv, own, width, packed)
	if m.chance(3) {
		past = m.between(1, 6)
		in[4], in[5] = side(kv, past, depth, false), side(kv, past, width, false)
	}
	keys := past + own
	if m.chance(2) {
		shape := []int{m.of(1, batch), m.of(1, heads), m.of(1, queries), keys}[m.IntN(3):]
		if m.chance(4) {
			shape[len(shape)-1] = m.between(1, keys)
		}
		if m.chance(2) {
			in[3] = m.operand(tensor.Bool, func() float64 { return float64(m.IntN(2)) }, shape...)
		} else {
			in[3] = m.operand(dt, nil, shape...)
		}
	}
	if past == 0 && m.chance(3) {
		in[6] = m.operand(tensor.Int64, func() float64 { return float64(m.between(0, keys)) }, batch)
	}
	if m.chance(3) {
		attrs = append(attrs, graph.IntAttr("is_causal", 1))
	}
	if m.chance(4) {
		attrs = append(attrs, graph.FloatAttr("softcap", 1.5))
	}
	if m.chance(4) {
		attrs = append(attrs, graph.FloatAttr("scale", 0.7))
	}
	wanted := []bool{true, in[4] != nil, in[4] != nil, m.chance(3)}
	if wanted[3] {
		attrs = append(attrs, graph.IntAttr("qk_matmul_output_mode", int64(m.IntN(4))))
	}
	m.node("Attention", in, wanted, attrs...)
}
