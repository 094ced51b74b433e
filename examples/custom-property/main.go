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
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// snake is the property. It holds no state of a call: that is the selector's.
type snake struct{}

// Name implements property.SubgraphProperty.
func (snake) Name() string { return "snake" }

// NewSelector implements property.SubgraphProperty.
func (snake) NewSelector(*graph.Graph) property.Selector { return &snakeSelector{} }

// snakeSelector grows the set from the Sin: first the Mul before it, then what follows.
type snakeSelector struct{ unit snakeUnit }

// snakeUnit are the nodes of one activation, and its operands.
type snakeUnit struct {
	nodes []*graph.Node // scale, sin, square, divide, add
	x, a  *graph.Value
}

// Select implements property.Selector.
func (s *snakeSelector) Select(seed *graph.Node) bool {
	var ok bool
	s.unit, ok = matchSnake(seed)
	return ok
}

// SelectInput implements property.Selector.
func (s *snakeSelector) SelectInput(_, input *graph.Node) bool { return s.unit.has(input) }

// SelectOutput implements property.Selector.
func (s *snakeSelector) SelectOutput(_, output *graph.Node) bool { return s.unit.has(output) }

// Filter implements property.Selector: all or nothing.
func (s *snakeSelector) Filter(candidates []*graph.Node) []*graph.Node {
	if len(candidates) != len(s.unit.nodes) {
		return nil
	}
	return candidates
}

// Reset implements property.Selector.
func (s *snakeSelector) Reset() {}

func (u *snakeUnit) has(n *graph.Node) bool { return slices.Contains(u.nodes, n) }

// matchSnake looks around a Sin for Mul(x, a), Sin, Mul(s, s), Div(q, a), Add(x, d), float32, with a scalar a, and no other
// reader of what lies between them.
func matchSnake(sin *graph.Node) (u snakeUnit, ok bool) {
	if !sin.Is("Sin") || sin.Inputs[0].Type.DType != tensor.Float32 {
		return u, false
	}
	scale := sin.Inputs[0].Producer
	if scale == nil || !scale.Is("Mul") || only(scale.Outputs[0], 1) != sin {
		return u, false
	}
	u.x, u.a = scale.Inputs[0], scale.Inputs[1]
	square := only(sin.Outputs[0], 2)
	if square == nil || !square.Is("Mul") {
		return u, false
	}
	divide := only(square.Outputs[0], 1)
	if divide == nil || !divide.Is("Div") || divide.Inputs[0] != square.Outputs[0] || divide.Inputs[1] != u.a {
		return u, false
	}
	add := only(divide.Outputs[0], 1)
	if add == nil || !add.Is("Add") || add.Inputs[0] != u.x || add.Inputs[1] != divide.Outputs[0] {
		return u, false
	}
	if len(u.a.Type.Shape) != 0 || !u.x.Type.Equal(add.Outputs[0].Type) {
		return u, false
	}
	u.nodes = []*graph.Node{scale, sin, square, divide, add}
	return u, true
}

// only returns the node that reads v if it is the only one, with that number of operands.
func only(v *graph.Value, reads int) *graph.Node {
	if v.IsOutput() || v.NumUses() != reads {
		return nil
	}
	n := v.Uses()[0].Node
	for _, u := range v.Uses() {
		if u.Node != n {
			return nil
		}
	}
	return n
}

// Signatures implements property.Signer: the kernel reads and writes row-major host memory.
func (snake) Signatures(fused *graph.Node) []graph.Signature {
	return []graph.Signature{graph.UniformSignature("row-major", fused, graph.HostFormat)}
}

// Kernel implements backend.KernelProvider. The fused node's operands are x and a, in the order in which its body has them.
func (snake) Kernel(fused *graph.Node, _ graph.Bindings) (backend.Kernel, error) {
	body := fused.Regions[0].Graph
	for n := range body.Nodes() {
		u, ok := matchSnake(n)
		if !ok {
			continue
		}
		x, a := slices.Index(body.Inputs, u.x), slices.Index(body.Inputs, u.a)
		return backend.Kernel{Run: func(_ context.Context, args *backend.KernelArgs) error {
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
	return backend.Kernel{}, fmt.Errorf("the body of %v is no snake activation", fused)
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
		Properties: map[string][]property.SubgraphProperty{"cpu": {snake{}}},
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
