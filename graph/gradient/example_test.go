package gradient_test

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/gradient"
)

func ExampleExpand() {
	g, err := graph.Parse(`graph {
		opset 21
		opset "ai.onnx.preview.training" 1
		input %x: f32[3]
		%y: f32[3] = Mul(%x, %x) "square"
		%dx: f32[3] = ai.onnx.preview.training::Gradient(%x; xs=["x"], y="y") "gradient"
		output %dx
	}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := gradient.Expand(g); err != nil {
		fmt.Println(err)
		return
	}
	for n := range g.Nodes() { // y, and its derivative 2x by the rule of products
		fmt.Println(n.Op)
	}
	// Output:
	// Mul
	// Expand
	// Mul
	// Mul
	// Add
	// Identity
}
