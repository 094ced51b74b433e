package carve_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// doubler is a kernel from outside that doubles numbers, and makes its result where it is to lie or, where elsewhere is set, not.
type doubler struct {
	elsewhere bool
	placed    *int // results that lay where they were to
}

func (t doubler) Eval(ctx context.Context, n *graph.Node, inputs []tensor.Value) ([]tensor.Value, error) {
	return t.EvalInto(ctx, n, inputs, nil)
}

func (t doubler) EvalInto(_ context.Context, _ *graph.Node, inputs []tensor.Value, out func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error)) ([]tensor.Value, error) {
	x := inputs[0].(*tensor.Tensor)
	var y *tensor.Tensor
	if out != nil {
		var err error
		if y, err = out(0, x.DType, x.Shape); err != nil {
			return nil, err
		}
	}
	switch {
	case y == nil || t.elsewhere:
		y = tensor.From(make([]float32, x.Len()), x.Shape...)
	default:
		*t.placed++
	}
	to := tensor.Of[float32](y)
	for i, v := range tensor.Elements[float32](x) {
		to[i] = 2 * v
	}
	return []tensor.Value{y}, nil
}

var _ = Describe("an operator that brings its own kernel", func() {
	DescribeTable("runs it on the backend of last resort", func(ctx SpecContext, name string, elsewhere bool) {
		placed := 0
		graph.RegisterSchema(&graph.Schema{Domain: "test.ownkernel", Name: name, Since: 1, Inputs: []graph.Param{{Name: "X", Type: "tensor(float)"}},
			Outputs: []graph.Param{{Name: "Y", Type: "tensor(float)"}}, Infer: func(c *graph.Inference) error { return c.SetTensor(0, tensor.Float32, c.Shape(0)) },
			Evaluator: doubler{elsewhere: elsewhere, placed: &placed}})
		m := carve.FromGraph(graphOf(`graph {
  opset 18
  opset "test.ownkernel" 1
  input %x: f32[n,3]
  %a = Relu(%x)
  %b = test.ownkernel::` + name + `(%a)
  %y = Add(%b, %x)
  output %y
  output %b
}`))
		defer m.Close()
		p := mustCompile(ctx, m, &carve.Options{Verify: true})
		defer p.Close()
		var kept []map[string]tensor.Value
		for rows := range 4 {
			x := make([]float32, 3*rows)
			for i := range x {
				x[i] = float32(i - 3)
			}
			out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From(x, rows, 3)})
			Expect(err).NotTo(HaveOccurred())
			kept = append(kept, out)
		}
		for rows, out := range kept { // results of earlier runs are the caller's
			var b, y []float32
			for i := range 3 * rows {
				x := float32(i - 3)
				b, y = append(b, 2*max(x, 0)), append(y, x+2*max(x, 0))
			}
			Expect(slices.Equal(tensor.Elements[float32](out["b"].(*tensor.Tensor)), b)).To(BeTrue(), "%d rows: %v", rows, out["b"])
			Expect(slices.Equal(tensor.Elements[float32](out["y"].(*tensor.Tensor)), y)).To(BeTrue(), "%d rows: %v", rows, out["y"])
		}
		if elsewhere {
			Expect(placed).To(BeZero())
		} else {
			Expect(placed).To(BeNumerically(">", 0))
		}
	},
		Entry("where the result is to lie", "Placed", false),
		Entry("elsewhere, from where it is copied", "Elsewhere", true))
})
