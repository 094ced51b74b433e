package carve_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("the report", func() {
	It("has the nodes in a region that a backend runs with the node around it", func(ctx SpecContext) {
		p := compile(ctx, textModel(`graph {
  opset 17
  opset "ai.onnx.preview" 1
  input %q: f32[1,2,4,8]
  input %k: f32[1,2,4,8]
  input %v: f32[1,2,4,8]
  %y = ai.onnx.preview::FlexAttention(%q, %k, %v) "attend" {
    score_mod: graph {
      input %s: f32[]
      %t = Tanh(%s) "attend/score_mod/cap"
      output %t
    }
  }
  output %y
}`), nil)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveExactElements(HaveField("Nodes", ConsistOf("attend", "attend/score_mod/cap"))))
		Expect(r.Groups[0].Backend).To(Equal("reference"))
	})
})
