package graph_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("DequantizeLinear of constants", func() {
	const weights = `
  input %x: f32[N,2,5,5]
  const %q = i8[2,2,1,1]{1, 2, 3, 4}
  const %s = f32[]{0.5}
`
	DescribeTable("is kept where its readers want integers, and folded where they do not",
		func(body string, wanted bool, want string) {
			g := parse(statements(13, weights+body))
			simplify(g, graph.SimplifyOptions{Evaluator: kernels{}, Keep: func(n *graph.Node) bool {
				Expect(n.Is("DequantizeLinear")).To(BeTrue())
				return wanted
			}})
			Expect(operators(g)).To(Equal(want))
			sameResults(parse(statements(13, weights+body)), 1e-5)
		},
		Entry("wanted", `
  %w = DequantizeLinear(%q, %s) "d"
  %y = Conv(%x, %w) "c"
  output %y
`, true, "DequantizeLinear Conv"),
		Entry("not wanted", `
  %w = DequantizeLinear(%q, %s) "d"
  %y = Conv(%x, %w) "c"
  output %y
`, false, "Conv"),
		Entry("an output is floats", `
  %w = DequantizeLinear(%q, %s) "d"
  %y = Conv(%x, %w) "c"
  output %y, %w
`, true, "Conv"),
		Entry("a scale behind goes into the weights", `
  const %f = f32[2,1,1]{3, 4}
  %w = DequantizeLinear(%q, %s) "d"
  %c = Conv(%x, %w) "c"
  %y = Mul(%c, %f) "m"
  output %y
`, true, "Conv"),
		Entry("so does a normalisation", `
`+batchNorm("f32", 2)+`
  %w = DequantizeLinear(%q, %s) "d"
  %c = Conv(%x, %w) "c"
  %y = BatchNormalization(%c, %scale, %shift, %mean, %var) "n"
  output %y
`, true, "Conv"),
		Entry("a number is the weights of nothing", `
  const %n = i8[]{3}
  %w = DequantizeLinear(%n, %s) "d"
  %y = Mul(%x, %w) "m"
  output %y
`, true, "Mul"),
		Entry("arithmetic of numbers that others were quantised between is folded as a whole", `
  const %n = i8[]{3}
`+quantisedSteps(20)+`
  %y = Mul(%x, %v20) "m"
  output %y
`, false, "Mul"),
		Entry("integers of the size of floats are folded", `
  const %b = i32[2]{100, -7}
  %w = DequantizeLinear(%q, %s) "d"
  %v = DequantizeLinear(%b, %s) "e"
  %y = Conv(%x, %w, %v) "c"
  output %y
`, true, "DequantizeLinear Conv"),
	)
})

// quantisedSteps returns the text of so many doublings of a number, each between integers and back: of %n to %v1 and on.
func quantisedSteps(count int) string {
	var b strings.Builder
	for i := range count {
		from := "%n"
		if i > 0 {
			fmt.Fprintf(&b, "  %%q%d = QuantizeLinear(%%v%d, %%s, %%n)\n", i, i)
			from = fmt.Sprintf("%%q%d", i)
		}
		fmt.Fprintf(&b, "  %%d%d = DequantizeLinear(%s, %%s, %%n)\n  %%v%d = Add(%%d%d, %%s)\n", i, from, i+1, i)
	}
	return b.String()
}
