package mkl_test

import (
	"context"
	"fmt"
	"math"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// folding evaluates constants with the reference kernels.
type folding struct{}

func (folding) Eval(ctx context.Context, n *graph.Node, inputs []tensor.Value) ([]tensor.Value, error) {
	return reference.Evaluate(ctx, n, inputs)
}

// quantizedModel turns a float model into one with QuantizeLinear and DequantizeLinear around its products: activations get
// one scale and zero point, of the range that they have in runs of the float model, weights one scale per output.
func quantizedModel(ctx context.Context, model *graph.Graph, runs []map[string]tensor.Value, backends ...backend.Config) (*graph.Graph, error) {
	g, err := model.Clone()
	if err != nil {
		return nil, err
	}
	if err := graph.InferGraph(g); err != nil {
		return nil, err
	}
	if _, err := graph.Simplify(ctx, g, &graph.SimplifyOptions{Evaluator: folding{}}); err != nil {
		return nil, err
	}
	var values []*graph.Value
	seen := map[*graph.Value]bool{}
	add := func(v *graph.Value) {
		if !seen[v] {
			seen[v] = true
			values = append(values, v)
		}
	}
	var products []*graph.Node
	for n := range g.Nodes() {
		if n.Is("Conv", "MatMul", "Gemm") && n.Inputs[1].IsConst() {
			products = append(products, n)
			add(n.Inputs[0])
			if p := n.Inputs[0].Producer; p != nil && p.Is("MaxPool") {
				add(p.Inputs[0])
			}
		}
	}
	ranges, err := rangesOf(ctx, g, values, runs, backends)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		r := ranges[i]
		if p := v.Producer; p != nil && p.Is("MaxPool") { // the largest ones have the parameters of all
			for k, x := range values {
				if x == p.Inputs[0] {
					r = ranges[k]
				}
			}
		}
		lo, hi := min(r[0], 0), max(r[1], 1e-6)
		scale := float32((hi - lo) / 255)
		zero := uint8(math.Round(-lo / float64(scale)))
		between(g, v, g.AddConst("", tensor.Scalar(scale)), g.AddConst("", tensor.Scalar(zero)))
	}
	for _, n := range products {
		quantizeWeights(g, n)
	}
	return g, graph.InferGraph(g)
}

// rangesOf returns the smallest and largest number of values in runs of the float model.
func rangesOf(ctx context.Context, g *graph.Graph, values []*graph.Value, runs []map[string]tensor.Value, backends []backend.Config) ([][2]float64, error) {
	probe, err := g.Clone()
	if err != nil {
		return nil, err
	}
	byID := probe.ValuesByID()
	var outs []*graph.Value
	for i, v := range values {
		w := byID[v.ID]
		n := probe.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Neg"}, Name: fmt.Sprint("probe", i), Inputs: []*graph.Value{w}, Outputs: []string{fmt.Sprint("probe", i)}})
		n.Outputs[0].Type = w.Type
		outs = append(outs, n.Outputs[0])
	}
	probe.SetOutputs(outs...)
	p, err := carve.Compile(ctx, carve.FromGraph(probe), &carve.Options{Placement: carve.Priority, Backends: backends})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	out := make([][2]float64, len(values))
	for _, in := range runs {
		got, err := p.Run(ctx, in)
		if err != nil {
			return nil, err
		}
		for i := range values {
			for _, x := range tensor.Of[float32](got[fmt.Sprint("probe", i)].(*tensor.Tensor)) {
				out[i][0], out[i][1] = min(out[i][0], float64(-x)), max(out[i][1], float64(-x))
			}
		}
	}
	return out, nil
}

// between quantizes and dequantizes v for all who read it.
func between(g *graph.Graph, v, scale, zero *graph.Value) {
	uses := append([]graph.Use(nil), v.Uses()...)
	q := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "QuantizeLinear"}, Name: v.Name + "/q", Inputs: []*graph.Value{v, scale, zero}, Outputs: []string{v.Name + "/q"}})
	d := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "DequantizeLinear"}, Name: v.Name + "/d", Inputs: []*graph.Value{q.Outputs[0], scale, zero}, Outputs: []string{v.Name + "/d"}})
	for _, u := range uses {
		u.Node.SetOperand(u.Slot, d.Outputs[0])
	}
}

// quantizeWeights replaces the weights of a product.
func quantizeWeights(g *graph.Graph, n *graph.Node) {
	t := n.Inputs[1].Const
	axis := 1
	if n.Is("Conv") || n.Is("Gemm") && n.Int("transB", 0) != 0 {
		axis = 0
	}
	count, inner := t.Shape[axis], 1
	for _, d := range t.Shape[axis+1:] {
		inner *= d
	}
	w := tensor.Of[float32](t)
	scales := make([]float32, count)
	for i, x := range w {
		c := i / inner % count
		scales[c] = max(scales[c], x/127, -x/127, 1e-9)
	}
	q := make([]int8, len(w))
	for i, x := range w {
		q[i] = int8(math.RoundToEven(float64(x) / float64(scales[i/inner%count])))
	}
	d := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "DequantizeLinear", Since: 13}, Name: n.Name + "/w", Outputs: []string{n.Name + "/w"},
		Attrs:  []graph.Attr{graph.IntAttr("axis", int64(axis))},
		Inputs: []*graph.Value{g.AddConst("", tensor.From(q, t.Shape...)), g.AddConst("", tensor.From(scales))}})
	n.SetOperand(1, d.Outputs[0])
}
