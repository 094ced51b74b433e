package graph_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

const layerNorm = `
  input %x: f32[N,5,8]
  const %two = f32[]{2}
  const %eps = f32[]{1e-12}
  const %gamma = f32[8]{1, 2, 3, 4, 5, 6, 7, 8}
  const %beta = f32[8]{8, 7, 6, 5, 4, 3, 2, 1}
  %m = ReduceMean(%x; axes=[-1]) "m"
  %d = Sub(%x, %m) "d"
  %q = Pow(%d, %two) "q"
  %v = ReduceMean(%q; axes=[2]) "v"
  %e = Add(%v, %eps) "e"
  %r = Sqrt(%e) "r"
  %n = Div(%d, %r) "n"
  %s = Mul(%n, %gamma) "s"
  %y = Add(%s, %beta) "y"
  output %y
`

const gelu = `
  input %x: f32[N,8]
  const %root = f32[]{1.4142135}
  const %one = f32[]{1}
  const %half = f32[]{0.5}
  %d = Div(%x, %root) "d"
  %e = Erf(%d) "e"
  %a = Add(%e, %one) "a"
  %m = Mul(%x, %a) "m"
  %y = Mul(%m, %half) "y"
  output %y
`

const tanhGelu = `
  input %x: f32[N,8]
  const %three = f32[]{3}
  const %c = f32[]{0.044715}
  const %k = f32[]{0.7978845608}
  const %one = f32[]{1}
  const %half = f32[]{0.5}
  %h = Mul(%x, %half) "h"
  %p = Pow(%x, %three) "p"
  %q = Mul(%p, %c) "q"
  %r = Add(%x, %q) "r"
  %s = Mul(%r, %k) "s"
  %t = Tanh(%s) "t"
  %u = Add(%t, %one) "u"
  %y = Mul(%h, %u) "y"
  output %y
`

const hardSwish = `
  input %x: f32[N,8]
  const %three = f32[]{3}
  const %zero = f32[]{0}
  const %six = f32[]{6}
  %a = Add(%x, %three) "a"
  %c = Clip(%a, %zero, %six) "c"
  %m = Mul(%x, %c) "m"
  %y = Div(%m, %six) "y"
  output %y
`

const groupNorm = `
  input %x: f32[N,6,4,5]
  const %shape = i64[4]{0, 6, 4, 5}
  const %parted = i64[3]{0, 3, -1}
  const %scale = f32[3]{1, 2, 3}
  const %shift = f32[3]{0, 1, 2}
  const %gamma = f32[6,1,1]{1, 2, 3, 4, 5, 6}
  const %beta = f32[6,1,1]{6, 5, 4, 3, 2, 1}
  %p = Reshape(%x, %parted) "p"
  %i = InstanceNormalization(%p, %scale, %shift; epsilon=0.01) "i"
  %r = Reshape(%i, %shape) "r"
  %s = Mul(%r, %gamma) "s"
  %y = Add(%s, %beta) "y"
  output %y
`

var _ = Describe("Fusing what exporters write out", func() {
	swap := func(text string, pairs ...string) string {
		GinkgoHelper()
		for i := 0; i < len(pairs); i += 2 {
			Expect(text).To(ContainSubstring(pairs[i]))
			text = strings.Replace(text, pairs[i], pairs[i+1], 1)
		}
		return text
	}
	DescribeTable("finds",
		func(opset int, body, want string) {
			text := statements(opset, body)
			g := parse(text)
			all := names(g)
			simplify(g, graph.SimplifyOptions{})
			Expect(g.NumNodes()).To(Equal(1), g.String())
			Expect(g.String()).To(ContainSubstring(want))
			Expect(names(g)).To(Equal(all))
			Expect(g.Outputs[0].Producer.Origins[0]).NotTo(Equal("y"), "the first of the pattern comes first")
			sameResults(parse(text), 2e-6)
		},
		Entry("LayerNormalization", 13, layerNorm, "LayerNormalization/17(%x, %gamma, %beta; axis=-1, epsilon=1e-12)"),
		Entry("with operands exchanged", 13, swap(layerNorm, "Mul(%n, %gamma)", "Mul(%gamma, %n)", "Add(%s, %beta)", "Add(%beta, %s)", "Add(%v, %eps)", "Add(%eps, %v)"), "LayerNormalization/17(%x, %gamma, %beta;"),
		Entry("with a product for the square, and a reciprocal", 13, swap(layerNorm, "Pow(%d, %two)", "Mul(%d, %d)", "%n = Div(%d, %r)", "%i = Reciprocal(%r) \"i\"\n  %n = Mul(%i, %d)"), "LayerNormalization/17(%x, %gamma, %beta;"),
		Entry("without a shift", 13, swap(layerNorm, "  %y = Add(%s, %beta) \"y\"\n", "", "%s = Mul(%n, %gamma) \"s\"", "%y = Mul(%n, %gamma) \"y\""), "LayerNormalization/17(%x, %gamma;"),
		Entry("over two axes", 13, swap(layerNorm, "axes=[-1]", "axes=[1, 2]", "axes=[2]", "axes=[-1, -2]", "f32[8]{1, 2, 3, 4, 5, 6, 7, 8}", data(1, "f32", false, 5, 8), "f32[8]{8, 7, 6, 5, 4, 3, 2, 1}", data(2, "f32", false, 5, 8)), "axis=-2"),
		Entry("with axes as an operand", 18, swap(layerNorm, "const %two", "const %axes = i64[1]{-1}\n  const %two", "(%x; axes=[-1])", "(%x, %axes)", "(%q; axes=[2])", "(%q, %axes)"), "LayerNormalization(%x"),
		Entry("with the difference written twice", 13, swap(layerNorm, "%q = Pow(%d, %two)", "%d2 = Sub(%x, %m) \"d2\"\n  %q = Pow(%d2, %two)"), "LayerNormalization/17(%x"),
		Entry("GroupNormalization", 13, groupNorm, "epsilon=0.01, num_groups=3"),
		Entry("InstanceNormalization that is scaled and moved", 13, swap(groupNorm, "  %p = Reshape(%x, %parted) \"p\"\n", "", "InstanceNormalization(%p,", "InstanceNormalization(%x,", "  %r = Reshape(%i, %shape) \"r\"\n", "", "Mul(%r,", "Mul(%i,",
			"%scale = f32[3]{1, 2, 3}", "%scale = f32[6]{1, 2, 3, 4, 5, 6}", "%shift = f32[3]{0, 1, 2}", "%shift = f32[6]{0, 1, 2, 3, 4, 5}"), "InstanceNormalization(%x"),
		Entry("GroupNormalization without a shift", 13, swap(groupNorm, "%s = Mul(%r, %gamma)", "%y = Mul(%r, %gamma)", "  %y = Add(%s, %beta) \"y\"\n", ""), "GroupNormalization/21(%x"),
		Entry("GroupNormalization of what is divided", 13, swap(groupNorm, "Mul(%r, %gamma)", "Div(%r, %gamma)", "Add(%s, %beta)", "Sub(%s, %beta)"), "GroupNormalization/21(%x"),
		Entry("Gelu", 13, gelu, "Gelu/20(%x)"),
		Entry("Gelu multiplied in another order", 13, swap(gelu, "%d = Div(%x, %root)", "const %inv = f32[]{0.70710677}\n  %d = Mul(%inv, %x)", "%m = Mul(%x, %a)", "%m = Mul(%half, %x)", "Mul(%m, %half)", "Mul(%a, %m)"), "Gelu/20(%x)"),
		Entry("Gelu by tanh", 13, tanhGelu, `Gelu/20(%x; approximate="tanh")`),
		Entry("Gelu by tanh, the cube as products", 13, swap(tanhGelu, "%p = Pow(%x, %three)", "%p2 = Mul(%x, %x) \"p2\"\n  %p = Mul(%p2, %x)"), `Gelu/20(%x; approximate="tanh")`),
		Entry("Gelu by tanh, x factored out", 13, swap(tanhGelu, "%p = Pow(%x, %three)", "%p = Mul(%x, %x)", "Add(%x, %q)", "Add(%q, %one)", "%s = Mul(%r, %k)", "%s0 = Mul(%x, %k) \"s0\"\n  %s = Mul(%s0, %r)"), `Gelu/20(%x; approximate="tanh")`),
		Entry("HardSwish", 13, hardSwish, "HardSwish/14(%x)"),
		Entry("HardSwish with attributes of Clip", 10, swap(hardSwish, "Clip(%a, %zero, %six)", "Clip(%a; max=6.0, min=0.0)", "  const %zero = f32[]{0}\n", ""), "HardSwish/14(%x)"),
		Entry("HardSwish divided first", 14, swap(hardSwish, "%m = Mul(%x, %c)", "%m = Div(%c, %six)", "Div(%m, %six)", "Mul(%m, %x)"), "HardSwish(%x)"),
		Entry("HardSwish of HardSigmoid", 13, "  input %x: f32[N,8]\n  %h = HardSigmoid(%x; alpha=0.16666667) \"h\"\n  %y = Mul(%x, %h) \"y\"\n  output %y\n", "HardSwish/14(%x)"),
		Entry("Swish", 13, "  input %x: f32[N,8]\n  %h = Sigmoid(%x) \"h\"\n  %y = Mul(%h, %x) \"y\"\n  output %y\n", "Swish/24(%x)"),
		Entry("Swish of a multiple", 13, "  input %x: f32[N,8]\n  const %c = f32[]{1.75}\n  %m = Mul(%x, %c) \"m\"\n  %h = Sigmoid(%m) \"h\"\n  %y = Mul(%h, %x) \"y\"\n  output %y\n", "Swish/24(%x; alpha=1.75)"),
		Entry("Mish", 13, "  input %x: f32[N,8]\n  %h = Softplus(%x) \"h\"\n  %t = Tanh(%h) \"t\"\n  %y = Mul(%x, %t) \"y\"\n  output %y\n", "Mish/18(%x)"),
	)
	DescribeTable("leaves alone",
		func(body string) {
			g := parse(statements(13, body))
			before := g.NumNodes()
			simplify(g, graph.SimplifyOptions{})
			Expect(g.NumNodes()).To(Equal(before), g.String())
			Expect(g.String()).NotTo(MatchRegexp(`/(14|17|18|20|24)\(`))
		},
		Entry("LayerNormalization: an output inside", swap(layerNorm, "output %y", "output %y, %v")),
		Entry("a reader of the difference outside", swap(layerNorm, "output %y", "%z = Neg(%d) \"z\"\n  output %y, %z")),
		Entry("another exponent", swap(layerNorm, "f32[]{2}", "f32[]{4}")),
		Entry("axes that differ", swap(layerNorm, "axes=[2]", "axes=[1]")),
		Entry("axes in the middle", swap(layerNorm, "axes=[-1]", "axes=[1]", "axes=[2]", "axes=[1]")),
		Entry("axes dropped", swap(layerNorm, "axes=[-1]", "axes=[-1], keepdims=0", "Sub(%x, %m)", "Sub(%x, %u)", "%d = Sub", "const %ax = i64[1]{2}\n  %u = Unsqueeze(%m, %ax) \"u\"\n  %d = Sub")),
		Entry("a scale of another shape", swap(layerNorm, "f32[8]{1, 2, 3, 4, 5, 6, 7, 8}", "f32[5,1]{1, 2, 3, 4, 5}")),
		Entry("the mean of something else", swap(layerNorm, "%d = Sub(%x, %m)", "%w = Neg(%x) \"w\"\n  %d = Sub(%w, %m)")),
		Entry("another dtype", strings.NewReplacer("f32", "f64").Replace(layerNorm)),
		Entry("GroupNormalization: groups across images", swap(groupNorm, "{0, 3, -1}", "{1, 3, -1}", "{0, 6, 4, 5}", "{-1, 6, 4, 5}")),
		Entry("groups of another dtype", strings.NewReplacer("f32", "f64").Replace(swap(groupNorm, "  %s = Mul(%r, %gamma) \"s\"\n", "", "Add(%s, %beta)", "Add(%r, %beta)"))),
		Entry("an output inside groups", swap(groupNorm, "output %y", "output %y, %i")),
		Entry("results of another shape", swap(groupNorm, "{0, 6, 4, 5}", "{0, 6, 20, 1}")),
		Entry("Gelu: another number", swap(gelu, "1.4142135", "1.41")),
		Entry("an output inside", swap(gelu, "output %y", "output %y, %e")),
		Entry("a reader of the error function outside", swap(gelu, "output %y", "%z = Neg(%a) \"z\"\n  output %y, %z")),
		Entry("the error function of something else", swap(gelu, "%d = Div(%x, %root)", "%w = Neg(%x) \"w\"\n  %d = Div(%w, %root)")),
		Entry("a number that enlarges the result", swap(gelu, "%half = f32[]{0.5}", "%half = f32[1,1,1]{0.5}")),
		Entry("Gelu by tanh: another power", swap(tanhGelu, "f32[]{3}", "f32[]{4}")),
		Entry("another coefficient", swap(tanhGelu, "0.044715", "0.05")),
		Entry("HardSwish: other bounds", swap(hardSwish, "f32[]{6}", "f32[]{5}")),
		Entry("Clip without a bound", swap(hardSwish, "Clip(%a, %zero, %six)", "Clip(%a, %zero)")),
		Entry("HardSigmoid with other parameters", "  input %x: f32[N,8]\n  %h = HardSigmoid(%x) \"h\"\n  %y = Mul(%x, %h) \"y\"\n  output %y\n"),
		Entry("Swish of something else", "  input %x: f32[N,8]\n  input %w: f32[N,8]\n  %h = Sigmoid(%w) \"h\"\n  %y = Mul(%h, %x) \"y\"\n  output %y\n"),
		Entry("Swish of a multiple by elements", "  input %x: f32[N,8]\n  input %c: f32[N,8]\n  %m = Mul(%x, %c) \"m\"\n  %h = Sigmoid(%m) \"h\"\n  %y = Mul(%h, %x) \"y\"\n  output %y\n"),
		Entry("Swish that broadcasts", "  input %x: f32[8]\n  %h = Sigmoid(%x) \"h\"\n  %n = Neg(%h) \"n\"\n  %y = Mul(%n, %x) \"y\"\n  output %y\n"),
		Entry("Swish with the sigmoid read elsewhere", "  input %x: f32[N,8]\n  %h = Sigmoid(%x) \"h\"\n  %y = Mul(%h, %x) \"y\"\n  output %y, %h\n"),
		Entry("integers", "  input %x: i64[N]\n  const %two = i64[]{2}\n  %a = Mul(%x, %two) \"a\"\n  %y = Mul(%a, %x) \"y\"\n  output %y\n"),
	)
	DescribeTable("makes a PRelu of one number for all slopes a LeakyRelu, and no other",
		func(kind, slope, want string) {
			text := statements(16, "  input %x: "+kind+"\n  const %s = "+slope+"\n  %y = PRelu(%x, %s) \"y\"\n  output %y\n")
			g := parse(text)
			simplify(g, graph.SimplifyOptions{})
			Expect(g.String()).To(ContainSubstring(want))
			if kind != "f32[2,N]" { // of which few lengths are none that a run refuses
				sameResults(parse(text), 0)
			}
		},
		Entry("one slope", "f32[N,8]", "f32[1]{0.25}", "LeakyRelu(%x; alpha=0.25)"),
		Entry("equal slopes", "f32[N,2,3]", "f32[2,1]{-2,-2}", "LeakyRelu(%x; alpha=-2.0)"),
		Entry("of float64", "f64[2]", "f64[]{0.5}", "LeakyRelu(%x; alpha=0.5)"),
		Entry("slopes that differ", "f32[N,2,3]", "f32[2,1]{-2,2}", "PRelu"),
		Entry("equal slopes of axes whose length a run knows", "f32[2,N]", "f32[2]{-2,-2}", "PRelu"),
		Entry("a number that is none of float32", "f64[2]", "f64[]{0.1}", "PRelu"),
		Entry("integers", "i32[2]", "i32[]{3}", "PRelu"),
		Entry("no slopes at all", "f32[2,0]", "f32[0]{}", "PRelu"),
	)
	It("brings in only operators that are wanted", func() {
		for _, body := range []string{layerNorm, gelu, hardSwish} {
			g := parse(statements(13, body))
			var asked []string
			simplify(g, graph.SimplifyOptions{NewOps: func(op graph.Op) bool {
				asked = append(asked, fmt.Sprintf("%v/%d", op, op.Since))
				return false
			}})
			Expect(g.NumNodes()).To(BeNumerically(">", 3))
			Expect(asked).NotTo(BeEmpty())
		}
	})
	It("fuses one after another", func() {
		text := statements(13, swap(gelu, "  output %y\n", "  %g = Sigmoid(%y) \"g\"\n  %z = Mul(%g, %y) \"z\"\n  output %z\n"))
		g := parse(text)
		simplify(g, graph.SimplifyOptions{})
		Expect(operators(g)).To(Equal("Gelu Swish"))
		sameResults(parse(text), 2e-6)
	})
})
