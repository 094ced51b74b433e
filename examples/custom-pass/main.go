// Command custom-pass teaches the compiler a rewrite of the user's own: a pass that makes the square of a value, Pow(x, 2),
// a product, Mul(x, x), which is one multiplication an element.
//
//	go run ./examples/custom-pass
//
// It prints the model's graph before the pass and after it, and compares the results of both. All that a user writes is in this
// file.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// squares is the pass: it sees the model's graph behind the compiler's own simplification, with all types known.
var squares = carve.Pass{Name: "squares", After: "simplify", Run: func(ctx context.Context, g *graph.Graph) error {
	order, err := g.Topo()
	if err != nil {
		return err
	}
	for _, n := range order {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x, ok := squared(n); ok {
			mul := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Mul"}, Name: n.Name, Origins: n.Provenance(),
				Inputs: []*graph.Value{x, x}, Outputs: []string{n.Outputs[0].Name}})
			mul.Outputs[0].Type = n.Outputs[0].Type
			g.ReplaceUses(n.Outputs[0], mul.Outputs[0])
			g.Remove(n)
		}
	}
	return g.Sort()
}}

// squared returns what a node squares. The exponent is a constant scalar of the base's element type, so that the product has the
// result's type.
func squared(n *graph.Node) (*graph.Value, bool) {
	if !n.Is("Pow") || len(n.Inputs) != 2 {
		return nil, false
	}
	x, e := n.Inputs[0], n.Inputs[1]
	if !e.IsConst() || e.Const.DType != tensor.Float32 || x.Type.DType != tensor.Float32 || e.Const.Len() != 1 || len(e.Const.Shape) > 0 {
		return nil, false
	}
	return x, tensor.Elements[float32](e.Const)[0] == 2
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "custom-pass:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	model := carve.FromGraph(network())
	defer model.Close()
	plain, err := compute(ctx, model, nil)
	if err != nil {
		return err
	}
	dump := func(pass string) io.Writer {
		if pass != "simplify" && pass != squares.Name {
			return nil
		}
		fmt.Fprintln(w, "after", pass+":")
		return w
	}
	passed, err := compute(ctx, model, &carve.Options{Passes: []carve.Pass{squares}, DumpTo: dump})
	if err != nil {
		return err
	}
	most := 0.0
	for i := range plain {
		most = max(most, math.Abs(float64(plain[i]-passed[i])))
	}
	fmt.Fprintf(w, "largest difference of %d values: %.1g\n", len(plain), most)

	// What a pass leaves is verified: one that takes a result away is told so.
	_, err = compute(ctx, model, &carve.Options{Passes: []carve.Pass{{Name: "careless", After: "simplify",
		Run: func(_ context.Context, g *graph.Graph) error {
			g.SetOutputs()
			return nil
		}}}})
	var pass *carve.PassError
	if !errors.As(err, &pass) {
		return errors.Join(errors.New("a careless pass went unnoticed"), err)
	}
	fmt.Fprintln(w, "refused:", pass)
	return nil
}

// compute compiles and runs the model.
func compute(ctx context.Context, m *carve.Model, o *carve.Options) ([]float32, error) {
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	data := make([]float32, 4*8)
	for i := range data {
		data[i] = float32(i%7)/4 - 0.75
	}
	out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From(data, 4, 8)})
	if err != nil {
		return nil, err
	}
	return tensor.Elements[float32](out["y"].(*tensor.Tensor)), nil
}

// network returns the root of the mean of squares of each row of x [N, 8], and a cube, which is no square.
func network() *graph.Graph {
	g := graph.New("rms")
	node := func(op, name string, inputs ...*graph.Value) *graph.Value {
		return g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: name, Inputs: inputs, Outputs: []string{name + ".out"}}).Outputs[0]
	}
	x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N"), graph.D(8)}))
	square := node("Pow", "square", x, g.AddConst("two", tensor.Scalar(float32(2))))
	root := node("Sqrt", "root", node("ReduceMean", "mean", square, g.AddConst("axes", tensor.From([]int64{1}))))
	cube := node("Pow", "cube", x, g.AddConst("three", tensor.Scalar(float32(3))))
	y := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Add"}, Name: "sum", Inputs: []*graph.Value{cube, root}, Outputs: []string{"y"}})
	g.SetOutputs(y.Outputs[0])
	return g
}
