package graph_test

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph"
)

func ExampleParse() {
	g, err := graph.Parse(`graph "mlp" {
  opset 13
  input %x: f32[batch,2]
  const %w = f32[2,2]{1, 2, 3, 4}
  %h = MatMul(%x, %w) "dense"
  %y = Relu(%h) "act"
  output %y
}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := graph.InferGraph(g); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(g)
	_, err = graph.Parse("graph { output %y }")
	fmt.Println(err)
	// Output:
	// graph "mlp" {
	//   opset 13
	//   input %x: f32[batch,2]
	//   const %w = f32[2,2]{1, 2, 3, 4}
	//   %h: f32[batch,2] = MatMul(%x, %w) "dense"
	//   %y: f32[batch,2] = Relu(%h) "act"
	//   output %y
	// }
	// line 1, column 16: syntax error: %y is not defined
}

func ExampleSimplify() {
	g, _ := graph.Parse(`graph {
  opset 13
  input %x: f32[N,4]
  %s = Shape(%x) "shape"
  %i = Identity(%x) "id"
  %g = Sigmoid(%i) "gate"
  %m = Mul(%i, %g) "swish"
  %y = Reshape(%m, %s) "same"
  output %y
}`)
	_ = graph.InferGraph(g)
	report, err := graph.Simplify(context.Background(), g, nil)
	fmt.Print(g)
	for _, f := range report.Folded {
		fmt.Println(f.Name, f.Kind)
	}
	fmt.Println(err)
	// Output:
	// graph {
	//   opset 13
	//   input %x: f32[N,4]
	//   %y: f32[N,4] = Swish/24(%x) "swish" from("gate", "swish")
	//   output %y
	// }
	// shape shape
	// id forwarded
	// same forwarded
	// <nil>
}

func ExampleGraph_Extract() {
	g, _ := graph.Parse(`graph {
  input %x: f32[4]
  const %one = f32[]{1}
  %a: f32[4] = Add(%x, %one) "a"
  %b: f32[4] = Relu(%a) "b"
  output %b
}`)
	var set []*graph.Node
	for n := range g.Nodes() {
		set = append(set, n)
	}
	n, err := g.Extract(set, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused}, Name: "f"})
	fmt.Print(g)
	fmt.Println(err)
	_, err = g.Inline(n)
	fmt.Println(g.NumNodes(), err)
	// Output:
	// graph {
	//   input %x: f32[4]
	//   %b: f32[4] = carve::Fused(%x) "f" from("a", "b") {
	//     body: graph "f" {
	//       input %x: f32[4]
	//       const %one = f32[]{1}
	//       %a: f32[4] = Add(%x, %one) "a"
	//       %b: f32[4] = Relu(%a) "b"
	//       output %b
	//     }
	//   }
	//   output %b
	// }
	// <nil>
	// 2 <nil>
}
