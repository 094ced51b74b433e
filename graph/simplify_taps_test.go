package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("taps of convolutions that see nothing but padding", func() {
	DescribeTable("are taken away",
		func(body, op string, slot int, kernel, pads, dilations []int64) {
			g := parse(statements(13, body))
			simplify(g, graph.SimplifyOptions{Evaluator: kernels{}, Keep: func(*graph.Node) bool { return true }})
			n := g.Outputs[0].Producer
			Expect(n.Op.Name).To(Equal(op))
			for i, k := range kernel {
				d, _ := n.Inputs[slot].Type.Shape[2+i].Const()
				Expect(d).To(Equal(k))
			}
			got, _ := n.Ints("pads")
			Expect(got).To(Equal(pads))
			got, _ = n.Ints("dilations")
			Expect(got).To(Equal(dilations))
			sameResults(parse(statements(13, body)), 1e-6)
		},
		Entry("all but the centre", `
  input %x: f32[1,1,3,2]
  const %w = f32[1,1,3,3]{1, 2, 3, 4, 5, 6, 7, 8, 9}
  %y = Conv(%x, %w; pads=[3,3,3,3], dilations=[3,3]) "c"
  output %y
`, "Conv", 1, []int64{1, 1}, []int64{0, 0, 0, 0}, []int64{1, 1}),
		Entry("of one axis, with strides", `
  input %x: f32[1,1,3,6]
  const %w = f32[1,1,3,3]{1, 2, 3, 4, 5, 6, 7, 8, 9}
  %y = Conv(%x, %w; pads=[4,3,4,3], dilations=[4,3], strides=[1,2]) "c"
  output %y
`, "Conv", 1, []int64{1, 3}, []int64{0, 3, 0, 3}, []int64{1, 3}),
		Entry("of one side", `
  input %x: f32[1,1,2,4]
  const %w = f32[2,1,2,3]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  %y = Conv(%x, %w; pads=[2,0,0,0], dilations=[2,1]) "c"
  output %y
`, "Conv", 1, []int64{1, 3}, []int64{0, 0, 0, 0}, []int64{1, 1}),
		Entry("of weights that are dequantised", `
  input %x: f32[1,1,2,2]
  const %q = i8[2,1,3,3]{1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -2, -3, -4, -5, -6, -7, -8, -9}
  const %s = f32[2]{0.5, 0.25}
  %w = DequantizeLinear(%q, %s; axis=0) "d"
  %y = Conv(%x, %w; pads=[2,2,2,2], dilations=[2,2]) "c"
  output %y
`, "Conv", 1, []int64{1, 1}, []int64{0, 0, 0, 0}, []int64{1, 1}),
		Entry("of integers, where the image is padded with its zero point", `
  input %x: u8[1,1,2,2]
  const %w = i8[1,1,3,3]{1, 2, 3, 4, 5, 6, 7, 8, 9}
  const %z = u8[]{7}
  %y = ConvInteger(%x, %w, %z; pads=[2,2,2,2], dilations=[2,2]) "c"
  output %y
`, "ConvInteger", 1, []int64{1, 1}, []int64{0, 0, 0, 0}, []int64{1, 1}),
		Entry("not of a window that sees the image with all", `
  input %x: f32[1,1,4,4]
  const %w = f32[1,1,3,3]{1, 2, 3, 4, 5, 6, 7, 8, 9}
  %y = Conv(%x, %w; pads=[3,3,3,3], dilations=[3,3]) "c"
  output %y
`, "Conv", 1, []int64{3, 3}, []int64{3, 3, 3, 3}, []int64{3, 3}),
		Entry("not where they would make NaN of the padding", `
  input %x: f32[1,1,2,2]
  const %w = f32[1,1,3,3]{inf, 2, 3, 4, 5, 6, 7, 8, 9}
  %y = Conv(%x, %w; pads=[2,2,2,2], dilations=[2,2]) "c"
  output %y
`, "Conv", 1, []int64{3, 3}, []int64{2, 2, 2, 2}, []int64{2, 2}),
	)
})
