package carve_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("a Scan", func() {
	It("collects several outputs beside a state", func(ctx SpecContext) {
		g, err := graph.Parse(`graph {
  opset 17
  input %s: f32[2]
  input %x: f32[3,2]
  %last, %sums, %doubles, %signs = Scan(%s, %x; num_scan_inputs=1) "scan" {
    body: graph {
      input %a: f32[2]
      input %b: f32[2]
      %sum = Add(%a, %b)
      %again = Identity(%sum)
      %double = Add(%sum, %sum)
      %zero = Sub(%a, %a)
      %sign = Greater(%sum, %zero)
      output %sum, %again, %double, %sign
    }
  }
  output %last, %sums, %doubles, %signs
}`)
		Expect(err).NotTo(HaveOccurred())
		p, err := carve.Compile(ctx, carve.FromGraph(g), nil)
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		out, err := p.Run(ctx, map[string]tensor.Value{"s": tensor.From([]float32{1, -9}, 2), "x": tensor.From([]float32{1, 2, 3, 4, 5, 6}, 3, 2)})
		Expect(err).NotTo(HaveOccurred())
		Expect(out["last"]).To(Equal(tensor.From([]float32{10, 3}, 2)))
		Expect(out["sums"]).To(Equal(tensor.From([]float32{2, -7, 5, -3, 10, 3}, 3, 2)))
		Expect(out["doubles"]).To(Equal(tensor.From([]float32{4, -14, 10, -6, 20, 6}, 3, 2)))
		Expect(out["signs"]).To(Equal(tensor.From([]bool{true, false, true, false, true, true}, 3, 2)))
	})
})
