package reference_test

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

func ExampleEvaluate() {
	g := graph.New("one operator")
	x := tensor.From([]float32{1, 2, 3, 4}, 2, 2)
	n := g.AddNode(graph.NodeSpec{
		Op:      graph.Op{Name: "ReduceSum"},
		Attrs:   []graph.Attr{graph.IntAttr("keepdims", 0)},
		Inputs:  []*graph.Value{g.AddInput("x", graph.TypeOf(x))},
		Outputs: []string{"sum"},
	})
	out, err := reference.Evaluate(context.Background(), n, []tensor.Value{x})
	if err != nil {
		fmt.Println(err)
		return
	}
	sum := out[0].(*tensor.Tensor)
	fmt.Println(sum, sum.Float64At(0))
	// Output: f32[] 10
}

func ExampleSupports() {
	g := graph.New("one operator")
	x := g.AddInput("x", graph.TensorType(tensor.Int64, graph.ShapeOf(3)))
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Erf", Since: 9}, Name: "gauss", Inputs: []*graph.Value{x}, Outputs: []string{"y"}})
	fmt.Println(reference.Supports(n))
	n = g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Sqrt"}, Inputs: []*graph.Value{x}, Outputs: []string{"z"}})
	fmt.Println(reference.Supports(n))
	// Output:
	// <nil>
	// dtype: Sqrt since 13, input X: i64 is not admitted
}
