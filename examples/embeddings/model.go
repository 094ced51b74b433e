package main

import (
	"math"
	"math/rand/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// The sizes of the model that stands in for a trained one.
const (
	hidden   = 64
	heads    = 4
	layers   = 2
	longest  = 128 // tokens
	standard = 0.05
)

// builder adds nodes to a graph, with weights from a seed.
type builder struct {
	*graph.Graph
	r *rand.Rand
}

func (b *builder) node(op, name string, attrs []graph.Attr, inputs ...*graph.Value) *graph.Value {
	return b.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: name, Attrs: attrs, Inputs: inputs, Outputs: []string{name}}).Outputs[0]
}

func (b *builder) ints(name string, v ...int64) *graph.Value { return b.AddConst(name, tensor.From(v)) }

// weights returns normally distributed numbers.
func (b *builder) weights(name string, shape ...int) *graph.Value {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(b.r.NormFloat64() * standard)
	}
	return b.AddConst(name, tensor.From(v, shape...))
}

func (b *builder) linear(name string, x *graph.Value, in, out int) *graph.Value {
	return b.node("Add", name, nil, b.node("MatMul", name+".product", nil, x, b.weights(name+".weight", in, out)), b.weights(name+".bias", out))
}

func (b *builder) norm(name string, x *graph.Value) *graph.Value {
	one := make([]float32, hidden)
	for i := range one {
		one[i] = 1
	}
	return b.node("LayerNormalization", name, nil, x, b.AddConst(name+".scale", tensor.From(one)), b.weights(name+".shift", hidden))
}

// encoder returns a small encoder in the manner of BERT, with seeded weights in place of trained ones and the inputs and output of a
// trained one's export: input_ids and attention_mask, i64[batch, length], to last_hidden_state, f32[batch, length, hidden].
func encoder(words int) *graph.Graph {
	b := &builder{graph.New("encoder"), rand.New(rand.NewPCG(1, 2))}
	shape := graph.Shape{graph.Sym("batch"), graph.Sym("length")}
	ids := b.AddInput("input_ids", graph.TensorType(tensor.Int64, shape))
	mask := b.AddInput("attention_mask", graph.TensorType(tensor.Int64, shape))
	length := b.node("Shape", "length", []graph.Attr{graph.IntAttr("start", 1), graph.IntAttr("end", 2)}, ids)
	position := b.node("Slice", "position", nil, b.weights("positions", longest, hidden), b.ints("zero", 0), length, b.ints("axis", 0))
	x := b.norm("embedded", b.node("Add", "sum", nil, b.node("Gather", "word", nil, b.weights("words", words, hidden), ids), position))
	// 0 where the mask lets a token through, a large negative number elsewhere: [batch, 1, 1, length].
	float := b.node("Cast", "float", []graph.Attr{graph.IntAttr("to", 1)}, mask)
	wide := b.node("Unsqueeze", "wide", nil, float, b.ints("wide.axes", 1, 2))
	bias := b.node("Mul", "bias", nil, b.node("Sub", "shut", nil, b.AddConst("one", tensor.Scalar(float32(1))), wide), b.AddConst("far", tensor.Scalar(float32(-1e4))))
	for _, name := range []string{"first", "second"}[:layers] {
		x = b.norm(name+".attended", b.node("Add", name+".residual", nil, x, b.attention(name, x, bias)))
		inner := b.node("Gelu", name+".gelu", nil, b.linear(name+".up", x, hidden, 4*hidden))
		x = b.norm(name+".out", b.node("Add", name+".residual2", nil, x, b.linear(name+".down", inner, 4*hidden, hidden)))
	}
	b.SetOutputs(b.node("Identity", "last_hidden_state", nil, x))
	return b.Graph
}

// attention has each token look at all that the bias lets through.
func (b *builder) attention(name string, x, bias *graph.Value) *graph.Value {
	split := func(part string, perm ...int64) *graph.Value {
		y := b.linear(name+"."+part, x, hidden, hidden)
		y = b.node("Reshape", name+"."+part+".heads", nil, y, b.ints(name+"."+part+".shape", 0, 0, heads, hidden/heads))
		return b.node("Transpose", name+"."+part+".turned", []graph.Attr{graph.IntsAttr("perm", perm...)}, y)
	}
	q, k, v := split("query", 0, 2, 1, 3), split("key", 0, 2, 3, 1), split("value", 0, 2, 1, 3)
	scale := b.AddConst(name+".scale", tensor.Scalar(float32(1/math.Sqrt(hidden/heads))))
	score := b.node("Add", name+".score", nil, b.node("Mul", name+".scaled", nil, b.node("MatMul", name+".qk", nil, q, k), scale), bias)
	share := b.node("Softmax", name+".share", []graph.Attr{graph.IntAttr("axis", -1)}, score)
	back := b.node("Transpose", name+".back", []graph.Attr{graph.IntsAttr("perm", 0, 2, 1, 3)}, b.node("MatMul", name+".context", nil, share, v))
	flat := b.node("Reshape", name+".flat", nil, back, b.ints(name+".flat.shape", 0, 0, hidden))
	return b.linear(name+".joined", flat, hidden, hidden)
}
