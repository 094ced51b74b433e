package onnx_test

import (
	"bytes"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
)

var _ = It("gives values without names others than the graphs around them have", func(ctx SpecContext) {
	g, err := graph.Parse(`graph {
  opset 17
  input %c: bool[]
  input %x: f32[2]
  $0: f32[2] = Relu(%x)
  $1: f32[2] = Abs(%x)
  %y: f32[2] = If(%c | $0) {
    then_branch: graph {
      capture %a: f32[2]
      $0: f32[2] = Neg(%a)
      $1: f32[2] = Exp($0)
      $2: f32[2] = Abs($1)
      output $2
    }
    else_branch: graph {
      capture %a: f32[2]
      $0: f32[2] = Exp(%a)
      output $0
    }
  }
  output %y, $1
}`)
	Expect(err).NotTo(HaveOccurred())
	var file bytes.Buffer
	Expect(onnx.Write(ctx, &file, nil, &onnx.Model{Graph: g, IRVersion: 8}, nil)).To(Succeed())
	m, err := onnx.Parse(ctx, file.Bytes(), nil)
	Expect(err).NotTo(HaveOccurred())
	outer := map[string]bool{}
	for n := range m.Graph.Nodes() {
		outer[n.Outputs[0].Name] = true
	}
	inner := 0
	for n := range m.Graph.Nodes() {
		for _, r := range n.Regions {
			for k := range r.Graph.Nodes() {
				Expect(outer).NotTo(HaveKey(k.Outputs[0].Name))
				inner++
			}
		}
	}
	Expect(inner).To(Equal(4))
})
