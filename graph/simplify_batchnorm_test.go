package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("BatchNormalization by its operand's own statistics", func() {
	statistics := `  %mean = ReduceMean(%x; axes=[0,2], keepdims=0) "mean"
  %sq = Mul(%x, %x) "square"
  %var = ReduceMean(%sq; axes=[0,2], keepdims=0) "var"
`
	affine := "  const %scale = " + data(21, "f32", false, 6) + "\n  const %shift = " + data(22, "f32", false, 6) + "\n"
	const training = "BatchNormalization(%x, %scale, %shift, %mean, %var; training_mode=1, momentum=1.0, epsilon=0.01) \"n\"\n"
	DescribeTable("is InstanceNormalization of one image",
		func(opset int, body, want string) {
			text := statements(opset, body)
			g := parse(text)
			simplify(g, graph.SimplifyOptions{})
			Expect(operators(g)).To(Equal(want))
			sameResults(parse(text), 1e-5)
		},
		Entry("without what computed other statistics", 17, "  input %x: f32[1,6,W]\n"+affine+statistics+"  %y, %m, %v = "+training+"  output %y\n", "InstanceNormalization"),
		Entry("not of several", 17, "  input %x: f32[2,6,5]\n"+affine+statistics+"  %y, %m, %v = "+training+"  output %y\n",
			"ReduceMean Mul ReduceMean BatchNormalization"),
		Entry("not of a matrix", 17, "  input %x: f32[1,6]\n  const %mean = "+data(23, "f32", false, 6)+"\n  const %var = "+data(24, "f32", true, 6)+"\n"+affine+"  %y, %m, %v = "+training+"  output %y\n",
			"BatchNormalization"),
		Entry("not where its statistics are read", 17, "  input %x: f32[1,6,5]\n"+affine+statistics+"  %y, %m, %v = "+training+"  output %y, %v\n",
			"ReduceMean Mul ReduceMean BatchNormalization"),
		Entry("not by statistics that are given", 17, "  input %x: f32[1,6,5]\n"+affine+statistics+"  %y = BatchNormalization(%x, %scale, %shift, %mean, %var) \"n\"\n  output %y\n",
			"ReduceMean Mul ReduceMean BatchNormalization"),
	)
})
