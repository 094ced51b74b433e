package lower_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// randomGraph is a graph that grows node by node, each computed by the reference as it is added.
type randomGraph struct {
	*graph.Graph
	r      *rand.Rand
	float  tensor.DType
	values []*graph.Value
	data   map[*graph.Value]*tensor.Tensor
	heavy  int // nodes that make kernels long
}

// emptyGraph is a graph without anything, of the newest operators.
func emptyGraph(seed uint64) *randomGraph {
	g := &randomGraph{Graph: graph.New("operator"), r: rand.New(rand.NewPCG(seed, 8)), float: tensor.Float32, data: map[*graph.Value]*tensor.Tensor{}}
	g.Opsets = map[string]int{"": 26}
	return g
}

func newRandomGraph(seed uint64, float tensor.DType) *randomGraph {
	g := &randomGraph{Graph: graph.New("random"), r: rand.New(rand.NewPCG(seed, 7)), float: float, data: map[*graph.Value]*tensor.Tensor{}}
	g.Opsets = map[string]int{"": 22}
	for range 1 + g.r.IntN(2) {
		g.input(g.float, g.shape())
	}
	if g.r.IntN(3) == 0 {
		g.input([]tensor.DType{tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Int8, tensor.Bool}[g.r.IntN(5)], g.shape())
	}
	return g
}

func (g *randomGraph) shape() []int {
	extents := []int{1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33}
	shape := make([]int, 1+g.r.IntN(4))
	for {
		total := 1
		for i := range shape {
			shape[i] = extents[g.r.IntN(len(extents))]
			total *= shape[i]
		}
		if total <= 2000 {
			return shape
		}
	}
}

func (g *randomGraph) input(dt tensor.DType, shape []int) {
	t, err := tensor.New(dt, shape...)
	must(err)
	v := make([]float64, t.Len())
	for i := range v {
		switch {
		case dt == tensor.Bool:
			v[i] = float64(g.r.IntN(2))
		case dt == tensor.Uint8:
			v[i] = float64(g.r.IntN(256))
		case dt.IsFloat():
			v[i] = g.r.Float64()*4 - 2
		default:
			v[i] = float64(g.r.IntN(200) - 100)
		}
	}
	must(tensor.Encode(t, v))
	x := g.AddInput(fmt.Sprintf("x%d", len(g.Inputs)), graph.TypeOf(t))
	g.values = append(g.values, x)
	g.data[x] = t
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// node adds a node, and computes it.
func (g *randomGraph) node(op string, inputs []*graph.Value, attrs ...graph.Attr) *graph.Value {
	return g.results(1, op, inputs, attrs...)
}

// results adds a node with so many results, and returns the last.
func (g *randomGraph) results(count int, op string, inputs []*graph.Value, attrs ...graph.Attr) *graph.Value {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("v%d_%d", len(g.values), i)
	}
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Attrs: attrs, Inputs: inputs, Outputs: names})
	if err := graph.InferNode(n); err != nil {
		panic(fmt.Sprintf("%s%v: %v", op, attrs, err))
	}
	in := make([]tensor.Value, len(inputs))
	for i, v := range inputs {
		if v == nil {
			continue
		}
		if in[i] = g.data[v]; v.Const != nil {
			in[i] = v.Const
		}
	}
	out, err := reference.Evaluate(context.Background(), n, in)
	if err != nil {
		panic(fmt.Sprintf("%s%v: %v", op, attrs, err))
	}
	for i, v := range n.Outputs {
		g.data[v] = out[i].(*tensor.Tensor)
		v.Type = graph.TypeOf(g.data[v])
		g.values = append(g.values, v)
	}
	return n.Outputs[count-1]
}

func (g *randomGraph) ints(v ...int64) *graph.Value {
	return g.AddConst("", tensor.From(v, len(v)))
}

func (g *randomGraph) pick(want func(*graph.Value) bool) *graph.Value {
	for range 20 {
		i := g.r.IntN(len(g.values))
		if g.r.IntN(2) == 0 { // later ones more often, so that graphs grow deep
			i = len(g.values) - 1 - g.r.IntN(min(3, len(g.values)))
		}
		if v := g.values[i]; want(v) {
			return v
		}
	}
	return nil
}

func isFloat(v *graph.Value) bool  { return v.Type.DType.IsFloat() }
func notFloat(v *graph.Value) bool { return !v.Type.DType.IsFloat() }
func isBool(v *graph.Value) bool   { return v.Type.DType == tensor.Bool }

func shapeOf(v *graph.Value) []int {
	s, _ := v.Type.Shape.Static()
	return s
}

// partner returns a value that broadcasts with v to at most a few thousand elements.
func (g *randomGraph) partner(v *graph.Value) *graph.Value {
	w := g.pick(func(w *graph.Value) bool {
		s, err := graph.BroadcastShapes(shapeOf(v), shapeOf(w))
		total := 1
		for _, d := range s {
			total *= d
		}
		return err == nil && total <= 4000 && w.Type.DType == v.Type.DType
	})
	if w == nil {
		return v
	}
	return w
}

// grow adds a random node or two.
func (g *randomGraph) grow() {
	if g.r.IntN(8) == 0 {
		if v := g.pick(notFloat); v != nil {
			g.growInteger(v)
			return
		}
	}
	v := g.pick(isFloat)
	if v == nil {
		return
	}
	rank := len(shapeOf(v))
	switch g.r.IntN(8) {
	case 0, 1:
		unary := []string{"Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "HardSwish", "LeakyRelu", "HardSigmoid", "Softplus", "Softsign", "Elu", "Sin", "Identity"}
		v = g.node(unary[g.r.IntN(len(unary))], []*graph.Value{v})
	case 2, 3:
		binary := []string{"Add", "Sub", "Mul", "Max", "Min"}
		v = g.node(binary[g.r.IntN(len(binary))], []*graph.Value{v, g.partner(v)})
	case 4:
		v = g.node("Clip", []*graph.Value{v, g.scalar(-1), g.scalar(1.5)})
	case 5, 6:
		if rank == 0 {
			return
		}
		v = g.reduce(v, rank)
	default:
		v = g.move(v, rank)
	}
	if v != nil && g.largest(v) > 20 {
		g.node("Tanh", []*graph.Value{v})
	}
}

func (g *randomGraph) scalar(f float64) *graph.Value {
	t, err := tensor.New(g.float)
	must(err)
	must(tensor.Encode(t, []float64{f}))
	return g.AddConst("", t)
}

func (g *randomGraph) largest(v *graph.Value) float64 {
	most := 0.0
	for i := range g.data[v].Len() {
		most = max(most, math.Abs(g.data[v].Float64At(i)))
	}
	return most
}

func (g *randomGraph) growInteger(v *graph.Value) {
	switch {
	case g.r.IntN(3) == 0:
		g.node("Cast", []*graph.Value{v}, graph.IntAttr("to", int64([]tensor.DType{tensor.Float32, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool}[g.r.IntN(5)])))
	case isBool(v):
		if x := g.pick(isFloat); x != nil && g.r.IntN(2) == 0 {
			s, err := graph.BroadcastShapes(shapeOf(v), shapeOf(x))
			if err == nil && len(s) < 5 {
				g.node("Where", []*graph.Value{v, x, x})
			}
			return
		}
		g.node([]string{"And", "Or", "Xor"}[g.r.IntN(3)], []*graph.Value{v, g.partner(v)})
	case v.Type.DType == tensor.Uint8 || v.Type.DType == tensor.Int8:
		g.node([]string{"Add", "Sub", "Mul"}[g.r.IntN(3)], []*graph.Value{v, g.partner(v)})
	default:
		w := g.partner(v)
		g.node([]string{"Add", "Sub", "Mul", "Max", "Min", "Equal", "Less", "Abs"}[g.r.IntN(7)], []*graph.Value{v, w})
	}
}

func (g *randomGraph) reduce(v *graph.Value, rank int) *graph.Value {
	axis := int64(g.r.IntN(rank))
	switch g.r.IntN(5) {
	case 0:
		return g.node("Softmax", []*graph.Value{v}, graph.IntAttr("axis", axis))
	case 1:
		last := shapeOf(v)[rank-1]
		t, err := tensor.New(g.float, last)
		must(err)
		w := make([]float64, last)
		for i := range w {
			w[i] = g.r.Float64()
		}
		must(tensor.Encode(t, w))
		scale := g.AddConst("scale", t)
		return g.node("LayerNormalization", []*graph.Value{v, scale, scale}, graph.FloatAttr("epsilon", 0.1), graph.IntAttr("axis", -1))
	}
	ops := []string{"ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSum", "ReduceSumSquare"}
	op := ops[g.r.IntN(len(ops))]
	axes := []int64{axis}
	if rank > 1 && g.r.IntN(3) == 0 {
		axes = append(axes, (axis+1+int64(g.r.IntN(rank-1)))%int64(rank))
	}
	keep := graph.IntAttr("keepdims", int64(g.r.IntN(2)))
	return g.node(op, []*graph.Value{v, g.ints(axes...)}, keep)
}

func (g *randomGraph) move(v *graph.Value, rank int) *graph.Value {
	shape := shapeOf(v)
	one := []*graph.Value{v}
	switch g.r.IntN(9) {
	case 0:
		var perm []int64
		for _, a := range g.r.Perm(rank) {
			perm = append(perm, int64(a))
		}
		return g.node("Transpose", one, graph.IntsAttr("perm", perm...))
	case 1:
		return g.node("Reshape", []*graph.Value{v, g.ints(g.factors(v)...)})
	case 2:
		return g.node("Unsqueeze", []*graph.Value{v, g.ints(int64(g.r.IntN(rank + 1)))})
	case 3:
		return g.node("Flatten", one, graph.IntAttr("axis", int64(g.r.IntN(rank+1))))
	}
	if rank == 0 {
		return nil
	}
	axis := g.r.IntN(rank)
	n := shape[axis]
	switch g.r.IntN(5) {
	case 0:
		first := g.r.IntN(n)
		if g.r.IntN(3) == 0 {
			return g.node("Slice", []*graph.Value{v, g.ints(int64(n - 1)), g.ints(int64(-n - 1)), g.ints(int64(axis)), g.ints(-1)})
		}
		return g.node("Slice", []*graph.Value{v, g.ints(int64(first)), g.ints(int64(n)), g.ints(int64(axis)), g.ints(int64(1 + g.r.IntN(2)))})
	case 1:
		if g.data[v].Len() > 3000 || g.heavy > 3 {
			return nil
		}
		g.heavy++
		return g.node("Concat", []*graph.Value{v, v, v}[:2+g.r.IntN(2)], graph.IntAttr("axis", int64(axis)))
	case 2:
		if g.data[v].Len() > 2000 || g.heavy > 3 {
			return nil
		}
		g.heavy++
		pads := make([]int64, 2*rank)
		pads[axis], pads[rank+axis] = int64(g.r.IntN(3)), int64(g.r.IntN(3))
		return g.node("Pad", []*graph.Value{v, g.ints(pads...), g.scalar(0.5)})
	case 3:
		var list []int64
		for range 1 + g.r.IntN(4) {
			list = append(list, int64(g.r.IntN(2*n)-n))
		}
		return g.node("Gather", []*graph.Value{v, g.ints(list...)}, graph.IntAttr("axis", int64(axis)))
	}
	if g.data[v].Len() > 1500 {
		return nil
	}
	repeats := make([]int64, rank)
	for i := range repeats {
		repeats[i] = 1
	}
	repeats[axis] = 2
	return g.node("Tile", []*graph.Value{v, g.ints(repeats...)})
}

// factors returns other dims for as many elements.
func (g *randomGraph) factors(v *graph.Value) []int64 {
	n := g.data[v].Len()
	var shape []int64
	for len(shape) < 3 && n > 1 {
		for d := 2 + g.r.IntN(8); d >= 1; d-- {
			if n%d == 0 {
				shape = append(shape, int64(d))
				n /= d
				break
			}
		}
	}
	return append(shape, int64(n))
}

// finish makes some values outputs: the last, and others at times.
func (g *randomGraph) finish() {
	out := []*graph.Value{g.values[len(g.values)-1]}
	for _, v := range g.values[:len(g.values)-1] {
		if v.Producer != nil && (v.NumUses() == 0 || g.r.IntN(10) == 0) {
			out = append(out, v)
		}
	}
	g.SetOutputs(out...)
}

func text(g *graph.Graph) string {
	var b strings.Builder
	must(graph.Print(&b, g, nil))
	return b.String()
}
