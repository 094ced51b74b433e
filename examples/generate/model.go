package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// config are the sizes of a decoder.
type config struct {
	layers, width, heads, words, positions int
	seed                                   uint64
}

// decoder builds a decoder as GPT-2 is one, with random weights: token numbers and positions [batch, rows] and a cache for each layer
// [batch, heads, past, width/heads] give scores of the next token [batch, rows, words] and the caches with rows behind them. mask
// [batch, 1, rows, past+rows] is added to the scores of attention.
func decoder(c config) (*graph.Graph, error) {
	b := &builder{g: graph.New("decoder"), r: rand.New(rand.NewPCG(c.seed, 1))}
	b.g.Opsets[""] = 20
	batch, rows, past := graph.Sym("batch"), graph.Sym("rows"), graph.Sym("past")
	ids := b.g.AddInput("ids", graph.TensorType(tensor.Int64, graph.Shape{batch, rows}))
	at := b.g.AddInput("positions", graph.TensorType(tensor.Int64, graph.Shape{batch, rows}))
	mask := b.g.AddInput("mask", graph.TensorType(tensor.Float32, graph.Shape{batch, graph.D(1), rows, past.Add(rows)}))
	cache := graph.TensorType(tensor.Float32, graph.Shape{batch, graph.D(c.heads), past, graph.D(c.width / c.heads)})
	var presents []*graph.Value
	x := b.call("Add", b.call("Gather", b.weights(c.words, c.width), ids), b.call("Gather", b.weights(c.positions, c.width), at))
	for layer := range c.layers {
		pastK := b.g.AddInput(fmt.Sprintf("past_key_%d", layer), cache)
		pastV := b.g.AddInput(fmt.Sprintf("past_value_%d", layer), cache)
		y := b.norm(x, c.width)
		q, k, v := b.split(y, c), b.split(y, c), b.split(y, c)
		k = b.named(fmt.Sprintf("present_key_%d", layer), "Concat", []*graph.Value{pastK, k}, graph.IntAttr("axis", 2))
		v = b.named(fmt.Sprintf("present_value_%d", layer), "Concat", []*graph.Value{pastV, v}, graph.IntAttr("axis", 2))
		presents = append(presents, k, v)
		s := b.call("MatMul", q, b.transposed(k, 0, 1, 3, 2))
		s = b.call("Add", b.call("Mul", s, b.number(1/math.Sqrt(float64(c.width/c.heads)))), mask)
		p := b.with("Softmax", []*graph.Value{s}, graph.IntAttr("axis", -1))
		y = b.call("Reshape", b.transposed(b.call("MatMul", p, v), 0, 2, 1, 3), b.ints(0, 0, int64(c.width)))
		x = b.call("Add", x, b.linear(y, c.width, c.width))
		y = b.with("Gelu", []*graph.Value{b.linear(b.norm(x, c.width), c.width, 4*c.width)}, graph.StringAttr("approximate", "tanh"))
		x = b.call("Add", x, b.linear(y, 4*c.width, c.width))
	}
	scores := b.named("scores", "MatMul", []*graph.Value{b.norm(x, c.width), b.weights(c.width, c.words)})
	b.g.SetOutputs(append([]*graph.Value{scores}, presents...)...)
	return b.g, graph.InferGraph(b.g)
}

// builder adds nodes and weights to a graph.
type builder struct {
	g *graph.Graph
	r *rand.Rand
}

func (b *builder) named(name, op string, in []*graph.Value, attrs ...graph.Attr) *graph.Value {
	n := b.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: name, Inputs: in, Outputs: []string{name}, Attrs: attrs})
	return n.Outputs[0]
}

func (b *builder) with(op string, in []*graph.Value, attrs ...graph.Attr) *graph.Value {
	return b.named(fmt.Sprintf("%s_%d", op, b.g.NodeIDs()), op, in, attrs...)
}

func (b *builder) call(op string, in ...*graph.Value) *graph.Value { return b.with(op, in) }

func (b *builder) constant(t *tensor.Tensor) *graph.Value {
	return b.g.AddConst(fmt.Sprintf("constant_%d", b.g.ValueIDs()), t)
}

// weights are random ones of a standard deviation for which numbers keep their size through a product.
func (b *builder) weights(rows, columns int) *graph.Value {
	x := make([]float32, rows*columns)
	for i := range x {
		x[i] = float32(b.r.NormFloat64() / math.Sqrt(float64(rows)))
	}
	return b.constant(tensor.From(x, rows, columns))
}

func (b *builder) row(n int, value float32) *graph.Value {
	x := make([]float32, n)
	for i := range x {
		x[i] = value
	}
	return b.constant(tensor.From(x, n))
}

func (b *builder) number(x float64) *graph.Value { return b.constant(tensor.Scalar(float32(x))) }

func (b *builder) ints(x ...int64) *graph.Value { return b.constant(tensor.From(x, len(x))) }

func (b *builder) norm(x *graph.Value, width int) *graph.Value {
	return b.with("LayerNormalization", []*graph.Value{x, b.row(width, 1), b.row(width, 0)}, graph.IntAttr("axis", -1))
}

func (b *builder) linear(x *graph.Value, from, to int) *graph.Value {
	return b.call("Add", b.call("MatMul", x, b.weights(from, to)), b.row(to, 0))
}

func (b *builder) transposed(x *graph.Value, perm ...int64) *graph.Value {
	return b.with("Transpose", []*graph.Value{x}, graph.IntsAttr("perm", perm...))
}

// split is a layer whose columns are heads: [batch, heads, rows, width/heads].
func (b *builder) split(x *graph.Value, c config) *graph.Value {
	y := b.call("Reshape", b.linear(x, c.width, c.width), b.ints(0, 0, int64(c.heads), int64(c.width/c.heads)))
	return b.transposed(y, 0, 2, 1, 3)
}
