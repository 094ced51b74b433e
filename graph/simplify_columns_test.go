package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("Normalising the columns of a matrix", func() {
	weights := func(dtype string) string {
		return "  const %w = " + data(5, dtype, false, 4, 6) + "\n  const %b = " + data(6, dtype, false, 6) + "\n" + batchNorm(dtype, 6)
	}
	normalise := "BatchNormalization(%m, %scale, %shift, %mean, %var; epsilon=0.01) \"n\"\n"
	DescribeTable("folds into the product before it",
		func(body, want string, tolerance float64) {
			text := statements(17, body)
			g := parse(text)
			simplify(g, graph.SimplifyOptions{})
			Expect(operators(g)).To(Equal(want))
			Expect(g.Outputs[0].Name).To(Equal("y"))
			sameResults(parse(text), tolerance)
		},
		Entry("a MatMul", `
  input %x: f32[N,4]
`+weights("f32")+`
  %m = MatMul(%x, %w) "linear"
  %y = `+normalise+`
  output %y
`, "MatMul Add", 1e-5),
		Entry("one with a bias, in float64", `
  input %x: f64[N,4]
`+weights("f64")+`
  %p = MatMul(%x, %w) "linear"
  %m = Add(%b, %p) "bias"
  %y = `+normalise+`
  output %y
`, "MatMul Add", 1e-12),
		Entry("one of more rows, seen as one matrix and back", `
  input %x: f32[3,5,4]
`+weights("f32")+`
  const %s = i64[3]{3, 5, 6}
  %p = MatMul(%x, %w) "linear"
  %m = Flatten(%p; axis=2) "flat"
  %z = `+normalise+`  %r = Reshape(%z, %s) "back"
  %y = Relu(%r) "r"
  output %y
`, "MatMul Add Relu", 1e-5),
		Entry("one with a bias behind which rows are seen as one matrix", `
  input %x: f32[3,5,4]
`+weights("f32")+`
  %p = MatMul(%x, %w) "linear"
  %a = Add(%p, %b) "bias"
  %m = Flatten(%a; axis=2) "flat"
  %y = `+normalise+`
  output %y
`, "MatMul Add Flatten", 1e-5),
		Entry("not one that others read", `
  input %x: f32[N,4]
`+weights("f32")+`
  %m = MatMul(%x, %w) "linear"
  %y = `+normalise+`
  output %y, %m
`, "MatMul Mul Add", 1e-5),
		Entry("not one whose rows are divided", `
  input %x: f32[3,4]
  const %w = `+data(5, "f32", false, 4, 12)+"\n"+batchNorm("f32", 6)+`
  const %s = i64[2]{6, 6}
  %p = MatMul(%x, %w) "linear"
  %m = Reshape(%p, %s) "divide"
  %y = `+normalise+`
  output %y
`, "MatMul Reshape Mul Add", 1e-5),
		Entry("not one of two activations", `
  input %x: f32[N,4]
  input %w: f32[4,6]
`+batchNorm("f32", 6)+`
  %m = MatMul(%x, %w) "linear"
  %y = `+normalise+`
  output %y
`, "MatMul Mul Add", 1e-5),
		Entry("nothing, where another operator stands there", `
  input %m: f32[N,6]
`+batchNorm("f32", 6)+`
  %y = `+normalise+`
  output %y
`, "Mul Add", 1e-5),
		Entry("nothing in float16, which would be rounded twice", `
  input %m: f16[N,6]
`+batchNorm("f16", 6)+`
  %y = `+normalise+`
  output %y
`, "BatchNormalization", 0.0),
		Entry("nothing where channels have pixels", `
  input %m: f32[N,6,2]
`+batchNorm("f32", 6)+`
  %y = `+normalise+`
  output %y
`, "BatchNormalization", 0.0),
	)
})
