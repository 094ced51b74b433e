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
	m.c.Graph.Opsets = map[string]int{"": 26}
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
var makers = map[string]func(m *maker){"Attention": attention}

// attention is any: of both ranks and all types, with caches, masks of fewer dims or keys, windows, caps and lengths.
func attention(m *maker) {
	batch, kv, share := m.between(1, 3), m.between(1, 3), m.between(1, 3)
	queries, own, depth, width := m.of(1, 2, 5, 9), m.of(1, 4, 7, 17), m.of(1, 4, 7), m.of(2, 4, 9)
	dt := []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float16, tensor.BFloat16}[m.IntN(4)]
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
