package carve_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
)

var _ = It("Check knows the steps to which a fused node rounds floats: halves fall to either side", func(ctx SpecContext) {
	weights := make([]string, 8*16*9)
	for i := range weights {
		weights[i] = fmt.Sprint(float32(i*37%201-100) * 0.01)
	}
	p := compile(ctx, textModel(`graph {
  opset 13
  input %x: f32[1,16,12,12]
  const %w = f32[8,16,3,3]{`+strings.Join(weights, ", ")+`}
  const %s = f32[]{0.02}
  const %z = u8[]{3}
  %c = Conv(%x, %w)
  %q = QuantizeLinear(%c, %s, %z)
  %y = DequantizeLinear(%q, %s, %z)
  output %y
}`), nil)
	x := make([]float32, 16*12*12)
	for i := range x {
		x[i] = float32(i*53%251-125) * 0.02
	}
	d, err := p.Check(ctx, map[string]tensor.Value{"x": tensor.From(x, 1, 16, 12, 12)})
	Expect(err).NotTo(HaveOccurred())
	Expect(d).To(BeNil())
})
