package carve_test

import (
	"context"
	"fmt"
	"log"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

func Example() {
	ctx := context.Background()
	model, err := carve.Open(ctx, "examples/quickstart/digits.onnx")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := carve.Compile(ctx, model, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	image := tensor.From(make([]float32, 64), 1, 1, 8, 8)
	out, err := program.Run(ctx, map[string]tensor.Value{"image": image})
	if err != nil {
		log.Fatal(err)
	}
	p := out["probabilities"].(*tensor.Tensor)
	fmt.Println(p.DType.Name(), p.Shape)
	// Output:
	// float32 [1 10]
}

// A graph may also be written as text, or made in code. Pins bind nodes to backends; what they cut off is converted.
func ExampleCompile() {
	ctx := context.Background()
	g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[N,3]
  %a = Exp(%x) "a"
  %b = Neg(%a) "b"
  %c = Abs(%b) "c"
  output %c
}`)
	if err != nil {
		log.Fatal(err)
	}
	model := carve.FromGraph(g)
	defer model.Close()
	program, err := carve.Compile(ctx, model, &carve.Options{
		Pins: []partition.Pin{{Node: "b", Backend: "reference"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	report, err := program.Report(ctx, map[string][]int{"x": {2, 3}})
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range report.Groups {
		fmt.Println(g.ID, g.Backend, g.Nodes)
	}
	where, why, _ := report.Why("b")
	fmt.Println(where, why[0].Backend, why[0].Reason)
	// Output:
	// 0 cpu [a]
	// 1 reference [b]
	// 2 cpu [c]
	// reference cpu pinned: the user pinned it to reference
}

// RunInto writes to tensors of the caller's, and allocates nothing at a shape that it has seen.
func ExampleProgram_RunInto() {
	ctx := context.Background()
	g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[N]
  %y = Relu(%x) "relu"
  output %y
}`)
	if err != nil {
		log.Fatal(err)
	}
	model := carve.FromGraph(g)
	defer model.Close()
	program, err := carve.Compile(ctx, model, &carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	y := []float32{0, 0, 0}
	x := tensor.From([]float32{-1, 2, -3}, 3)
	if err := program.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{tensor.From(y, 3)}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(y)
	// Output:
	// [0 2 0]
}
