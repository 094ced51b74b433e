// Command custom-property teaches the cpu backend a fusion of the user's own: a property that finds the five nodes of a
// Snake activation, x + sin²(a·x)/a (Ziyin, Hartwig and Ueda, "Neural networks fail to learn periodic functions and how
// to fix it", NeurIPS 2020), and a kernel that computes them in one pass.
//
//	go run ./examples/custom-property
//
// It runs a small network without the property and with it, and prints for both the groups and some numbers of the
// result. All that a user writes is in this file.
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// activation is what is fused, read from its last node: x + sin(a·x)·sin(a·x) / a. A pattern that stands in several places is
// one node, or one value, in all of them; nobody else reads what lies between.
var (
	input, scale = &property.Pattern{}, &property.Pattern{} // any values
	sine         = &property.Pattern{Ops: []string{"Sin"}, Inputs: []*property.Pattern{
		{Ops: []string{"Mul"}, Commutative: true, Inputs: []*property.Pattern{input, scale}}}}
	activation = &property.Pattern{Ops: []string{"Add"}, Commutative: true, Inputs: []*property.Pattern{input,
		{Ops: []string{"Div"}, Inputs: []*property.Pattern{{Ops: []string{"Mul"}, Inputs: []*property.Pattern{sine, sine}}, scale}}}}
)

// snake returns the property: what the pattern finds and check lets pass becomes one node, with formats and a kernel.
func snake() property.SubgraphProperty {
	r := property.RuleOf(property.NewPattern("snake", activation, check))
	r.Signatures, r.Kernel = signatures, kernel
	return r
}

// check turns down what the kernel cannot compute, with the reason that reports give.
func check(m *property.Match) *property.Reason {
	x, a := m.Value(input).Type, m.Value(scale).Type
	if x.DType != tensor.Float32 {
		return property.Because(property.DTypeReason, "x is %v", x)
	}
	if !a.Shape.Known() || len(a.Shape) > 0 {
		return property.Because(property.ShapeReason, "a is %v, and no scalar", a)
	}
	return nil
}

// signatures says that the kernel reads and writes row-major host memory.
func signatures(fused *graph.Node) []graph.Signature {
	return []graph.Signature{graph.UniformSignature("row-major", fused, graph.HostFormat)}
}

// kernel prepares the fused node. Its operands are x and a, in the order in which its body has them.
func kernel(fused *graph.Node, _ graph.Bindings) (property.Kernel, error) {
	body := fused.Regions[0].Graph
	m := activation.FindIn(body)
	if m == nil {
		return property.Kernel{}, fmt.Errorf("the body of %v is no snake activation", fused)
	}
	x, a := slices.Index(body.Inputs, m.Value(input)), slices.Index(body.Inputs, m.Value(scale))
	return property.Kernel{Run: func(_ context.Context, args *property.KernelArgs) error {
		src, dst := tensor.Of[float32](args.Inputs[x]), tensor.Of[float32](args.Outputs[0])
		scale := tensor.Of[float32](args.Inputs[a])[0]
		args.Workers.Parallel(len(dst), func(lo, hi int) { // on the threads of carve's pool
			for i, v := range src[lo:hi] {
				s := float32(math.Sin(float64(scale * v)))
				dst[lo+i] = v + s*s/scale
			}
		})
		return nil
	}}, nil
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "custom-property:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	model := carve.FromGraph(network())
	defer model.Close()
	before, err := compute(ctx, w, "without the property", model, nil)
	if err != nil {
		return err
	}
	after, err := compute(ctx, w, "with the property", model, &carve.Options{
		Properties: map[string][]property.SubgraphProperty{"cpu": {snake()}},
	})
	if err != nil {
		return err
	}
	most := 0.0
	for i := range before {
		most = max(most, math.Abs(float64(before[i]-after[i])))
	}
	fmt.Fprintf(w, "largest difference of %d values: %.1g\n", len(before), most)
	return nil
}

// compute compiles and runs the model, and prints its groups and the first numbers of the result.
func compute(ctx context.Context, w io.Writer, title string, m *carve.Model, o *carve.Options) ([]float32, error) {
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	const batch = 4
	data := make([]float32, batch*width)
	for i := range data {
		data[i] = float32(i%17)/8 - 1
	}
	out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From(data, batch, width)})
	if err != nil {
		return nil, err
	}
	r, err := p.Report(ctx, nil)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "%s: %d groups\n", title, len(r.Groups))
	for _, g := range r.Groups {
		fmt.Fprintf(w, "  %d on %s: %s\n", g.ID, g.Backend, strings.Join(g.Ops, ", "))
	}
	y := tensor.Elements[float32](out["y"].(*tensor.Tensor))
	fmt.Fprintf(w, "  y = %.4f …\n", y[:4])
	return y, nil
}

const width = 64

// network returns dense, Snake, dense, for x [N, 64] and y [N, 16].
func network() *graph.Graph {
	g := graph.New("periodic")
	node := func(op, name string, inputs ...*graph.Value) *graph.Value {
		return g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: name, Inputs: inputs, Outputs: []string{name + ".out"}}).Outputs[0]
	}
	x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N"), graph.D(width)}))
	a := g.AddConst("a", tensor.Scalar(float32(3)))
	h := node("MatMul", "dense1", x, g.AddConst("w1", weights(width, 128)))
	s := node("Sin", "sin", node("Mul", "scale", h, a))
	h = node("Add", "add", h, node("Div", "divide", node("Mul", "square", s, s), a))
	y := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Name: "dense2",
		Inputs: []*graph.Value{h, g.AddConst("w2", weights(128, 16))}, Outputs: []string{"y"}})
	g.SetOutputs(y.Outputs[0])
	return g
}

// weights returns a matrix of numbers between -0.15 and 0.15.
func weights(rows, columns int) *tensor.Tensor {
	data := make([]float32, rows*columns)
	state := uint32(rows)
	for i := range data {
		state = state*1664525 + 1013904223
		data[i] = (float32(state>>8)/(1<<24) - 0.5) * 0.3
	}
	return tensor.From(data, rows, columns)
}
