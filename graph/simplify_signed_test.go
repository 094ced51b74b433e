package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("weights of uint8", func() {
	const weights = `
  input %x: u8[1,1,3,3]
  input %s: i8[1,1,3,3]
  input %z: u8[]
  input %m: u8[1,1,3,2]
  const %w = u8[1,1,2,2]{0, 127, 128, 255}
  const %a = u8[1]{128}
  const %f = f32[]{0.5}
  const %c = u8[]{3}
`
	simplified := func(body string) *graph.Graph {
		g := parse(statements(13, weights+body))
		simplify(g, graph.SimplifyOptions{Evaluator: kernels{}})
		return g
	}

	DescribeTable("are signed where they are multiplied by uint8, with their zero points",
		func(body string, w, zero int, values []int64, about int64) {
			n := simplified(body).Outputs[0].Producer
			Expect(n.Inputs[w].Const.DType).To(Equal(tensor.Int8))
			Expect(n.Inputs[zero].Const.DType).To(Equal(tensor.Int8))
			for i, v := range values {
				Expect(n.Inputs[w].Const.Int64At(i)).To(Equal(v))
			}
			Expect(n.Inputs[zero].Const.Int64At(0)).To(Equal(about))
		},
		Entry("of a convolution", `
  %y = ConvInteger(%x, %w, %z, %a) "n"
  output %y
`, 1, 3, []int64{-128, -1, 0, 127}, int64(0)),
		Entry("without a zero point", `
  %y = MatMulInteger(%m, %w) "n"
  output %y
`, 1, 3, []int64{-128, -1, 0, 127}, int64(-128)),
		Entry("of a convolution that is rounded", `
  %y = QLinearConv(%x, %f, %c, %w, %f, %a, %f, %c) "n"
  output %y
`, 3, 5, []int64{-128, -1, 0, 127}, int64(0)),
	)

	DescribeTable("stay as they are", func(body string, w int) {
		Expect(simplified(body).Outputs[0].Producer.Inputs[w].Type.DType).To(Equal(tensor.Uint8))
	},
		Entry("beside int8", `
  %y = ConvInteger(%s, %w) "n"
  output %y
`, 1),
		Entry("with a zero point of a run", `
  %y = ConvInteger(%x, %w, %c, %z) "n"
  output %y
`, 1),
		Entry("that are no constant", `
  %y = ConvInteger(%x, %x) "n"
  output %y
`, 1),
	)
})
