package graph_test

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Types are inferred with symbolic dims; integer shape arithmetic becomes expressions.
func ExampleInferGraph() {
	g := graph.New("example")
	x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("batch"), graph.Sym("seq"), graph.D(768)}))
	w := g.AddConst("w", &tensor.Tensor{DType: tensor.Float32, Shape: []int{768, 64}, Data: make([]byte, 4*768*64)})
	heads := g.AddConst("heads", tensor.From([]int64{0, 0, 4, 16}, 4))

	y := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Inputs: []*graph.Value{x, w}, Outputs: []string{"y"}}).Outputs[0]
	z := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Reshape"}, Inputs: []*graph.Value{y, heads}, Outputs: []string{"z"}}).Outputs[0]
	s := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Size"}, Inputs: []*graph.Value{z}, Outputs: []string{"s"}}).Outputs[0]
	if err := graph.InferGraph(g); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(z.Type)
	fmt.Println(s.Dims[0])

	bad := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Name: "bad", Inputs: []*graph.Value{y, w}, Outputs: []string{"b"}})
	fmt.Println(graph.InferNode(bad))
	// Output:
	// f32[batch,seq,4,16]
	// 64*batch*seq
	// MatMul "bad": input 1 "B" (w): shape mismatch: expected 64 at axis 0, found f32[768,64]
}
