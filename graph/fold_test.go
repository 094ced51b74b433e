package graph_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// data returns the text of a tensor of that dtype and shape with reproducible elements; positive ones on demand.
func data(seed uint64, dtype string, positive bool, shape ...int) string {
	rng := rand.New(rand.NewPCG(seed, 9))
	n := 1
	var dims []string
	for _, d := range shape {
		n *= d
		dims = append(dims, fmt.Sprint(d))
	}
	parts := make([]string, n)
	for i := range parts {
		x := rng.NormFloat64()
		if positive {
			x = 0.5 + rng.Float64()
		}
		parts[i] = fmt.Sprint(float32(x))
	}
	return fmt.Sprintf("%s[%s]{%s}", dtype, strings.Join(dims, ","), strings.Join(parts, ", "))
}

// batchNorm returns the statements of the parameters of a BatchNormalization with n channels.
func batchNorm(dtype string, n int) string {
	return fmt.Sprintf("  const %%scale = %s\n  const %%shift = %s\n  const %%mean = %s\n  const %%var = %s\n",
		data(1, dtype, false, n), data(2, dtype, false, n), data(3, dtype, false, n), data(4, dtype, true, n))
}

// operators lists the operators of g in order.
func operators(g *graph.Graph) string {
	var ops []string
	order, err := g.Topo()
	Expect(err).NotTo(HaveOccurred())
	for _, n := range order {
		ops = append(ops, n.Op.Name)
	}
	return strings.Join(ops, " ")
}

var _ = Describe("Folding into weights", func() {
	DescribeTable("keeps the results",
		func(body string, want string, tolerance float64) {
			text := statements(13, body)
			g := parse(text)
			simplify(g, graph.SimplifyOptions{})
			Expect(operators(g)).To(Equal(want))
			if want != operators(parse(text)) {
				last := g.Outputs[0].Producer
				Expect(last.Provenance()).To(ContainElements("linear", "n"))
				Expect(g.Outputs[0].Name).To(Equal("y"))
			}
			sameResults(parse(text), tolerance)
		},
		Entry("BatchNormalization after Conv without bias", `
  input %x: f32[N,4,5,5]
  const %w = `+data(5, "f32", false, 6, 4, 3, 3)+"\n"+batchNorm("f32", 6)+`
  %c = Conv(%x, %w) "linear"
  %y = BatchNormalization(%c, %scale, %shift, %mean, %var; epsilon=0.01) "n"
  output %y
`, "Conv", 1e-5),
		Entry("after a grouped Conv with bias", `
  input %x: f32[N,4,5]
  const %w = `+data(5, "f32", false, 6, 2, 3)+`
  const %b = `+data(6, "f32", false, 6)+"\n"+batchNorm("f32", 6)+`
  %c = Conv(%x, %w, %b; group=2) "linear"
  %y = BatchNormalization(%c, %scale, %shift, %mean, %var) "n"
  output %y
`, "Conv", 1e-5),
		Entry("after a grouped ConvTranspose", `
  input %x: f32[N,4,5]
  const %w = `+data(5, "f32", false, 4, 3, 3)+"\n"+batchNorm("f32", 6)+`
  %c = ConvTranspose(%x, %w; group=2) "linear"
  %y = BatchNormalization(%c, %scale, %shift, %mean, %var) "n"
  output %y
`, "ConvTranspose", 1e-5),
		Entry("after Gemm with alpha and beta", `
  input %x: f32[N,4]
  const %w = `+data(5, "f32", false, 4, 6)+`
  const %b = `+data(6, "f32", false, 1, 6)+"\n"+batchNorm("f32", 6)+`
  %c = Gemm(%x, %w, %b; alpha=0.5, beta=2.0) "linear"
  %y = BatchNormalization(%c, %scale, %shift, %mean, %var) "n"
  output %y
`, "Gemm", 1e-5),
		Entry("after Gemm with transposed weights and a single bias", `
  input %x: f64[N,4]
  const %w = `+data(5, "f64", false, 6, 4)+`
  const %b = f64[]{0.5}
`+batchNorm("f64", 6)+`
  %c = Gemm(%x, %w, %b; transB=1) "linear"
  %y = BatchNormalization(%c, %scale, %shift, %mean, %var) "n"
  output %y
`, "Gemm", 1e-12),
		Entry("a chain of scales and shifts after Conv", `
  input %x: f32[N,4,5,5]
  const %w = `+data(5, "f32", false, 6, 4, 1, 1)+`
  const %a = `+data(7, "f32", false, 6, 1, 1)+`
  const %d = `+data(8, "f32", true, 1, 6, 1, 1)+`
  const %s = f32[]{3}
  %c = Conv(%x, %w) "linear"
  %e = Mul(%a, %c) "e"
  %f = Add(%e, %d) "f"
  %g = Div(%f, %d) "g"
  %y = Sub(%g, %s) "n"
  output %y
`, "Conv", 1e-5),
		Entry("BatchNormalization in float16", `
  input %x: f16[N,2,5]
  const %w = `+data(5, "f16", false, 3, 2, 3)+"\n"+batchNorm("f16", 3)+`
  %c = Conv(%x, %w) "linear"
  %y = BatchNormalization(%c, %scale, %shift, %mean, %var) "n"
  output %y
`, "Conv", 2e-2),
		Entry("not in training", `
  input %x: f32[N,4,5]
  const %w = `+data(5, "f32", false, 6, 4, 3)+"\n"+batchNorm("f32", 6)+`
  %c = Conv(%x, %w) "linear"
  %y, %p, %q = BatchNormalization/14(%c, %scale, %shift, %mean, %var; training_mode=1) "n"
  output %y
`, "Conv BatchNormalization", 0.0),
		Entry("not with a bias that is no constant", `
  input %x: f32[N,4,5]
  input %b: f32[6]
  const %w = `+data(5, "f32", false, 6, 4, 3)+"\n"+batchNorm("f32", 6)+`
  %c = Conv(%x, %w, %b) "linear"
  %y = BatchNormalization(%c, %scale, %shift, %mean, %var) "n"
  output %y
`, "Conv BatchNormalization", 0.0),
		Entry("not where something else reads the result", `
  input %x: f32[N,4,5]
  const %w = `+data(5, "f32", false, 6, 4, 3)+"\n"+batchNorm("f32", 6)+`
  %c = Conv(%x, %w) "linear"
  %y = BatchNormalization(%c, %scale, %shift, %mean, %var) "n"
  output %y, %c
`, "Conv BatchNormalization", 0.0),
		Entry("not into weights that are no constants", `
  input %x: f32[N,4,5]
  input %w: f32[6,4,3]
`+batchNorm("f32", 6)+`
  %c = Conv(%x, %w) "linear"
  %y = BatchNormalization(%c, %scale, %shift, %mean, %var) "n"
  output %y
`, "Conv BatchNormalization", 0.0),
		Entry("not past another operator", `
  input %x: f32[N,4,5]
  const %w = `+data(5, "f32", false, 6, 4, 3)+"\n"+batchNorm("f32", 6)+`
  %c = Conv(%x, %w) "linear"
  %r = Relu(%c) "r"
  %y = BatchNormalization(%r, %scale, %shift, %mean, %var) "n"
  output %y
`, "Conv Relu BatchNormalization", 0.0),
		Entry("not a scale along another axis", `
  input %x: f32[N,4,5]
  const %w = `+data(5, "f32", false, 3, 4, 3)+`
  const %s = `+data(6, "f32", false, 3)+`
  %c = Conv(%x, %w) "linear"
  %y = Mul(%c, %s) "n"
  output %y
`, "Conv Mul", 0.0),
		Entry("not one that enlarges the result", `
  input %x: f32[1,4,5]
  const %w = `+data(5, "f32", false, 3, 4, 3)+`
  const %s = `+data(6, "f32", false, 1, 1, 1, 1)+`
  %c = Conv(%x, %w) "linear"
  %y = Mul(%c, %s) "n"
  output %y
`, "Conv Mul", 0.0),
		Entry("not a division by zero", `
  input %x: f32[1,4,5]
  const %w = `+data(5, "f32", false, 3, 4, 3)+`
  const %s = f32[]{0}
  %c = Conv(%x, %w) "linear"
  %y = Div(%s, %c) "m"
  %z = Div(%c, %s) "n"
  output %z, %y
`, "Conv Div Div", 0.0),
	)
	It("scales weights of many elements, every one by its channel", func() {
		g := graph.New("g")
		x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(1, 700, 4, 4)))
		weights := make([]float32, 1000*700)
		for i := range weights {
			weights[i] = float32(i % 97)
		}
		scale := make([]float32, 1000)
		for i := range scale {
			scale[i] = float32(i)
		}
		w, s := g.AddConst("w", tensor.From(weights, 1000, 700, 1, 1)), g.AddConst("s", tensor.From(scale, 1000, 1, 1))
		c := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Conv"}, Name: "linear", Inputs: []*graph.Value{x, w}, Outputs: []string{"c"}})
		y := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Mul"}, Name: "n", Inputs: []*graph.Value{c.Outputs[0], s}, Outputs: []string{"y"}})
		g.SetOutputs(y.Outputs[0])
		simplify(g, graph.SimplifyOptions{})
		got := tensor.Of[float32](g.Outputs[0].Producer.Inputs[1].Const)
		for i := range got {
			if got[i] != float32(i%97)*float32(i/700) {
				Fail(fmt.Sprint("element ", i, " is ", got[i]))
			}
		}
	})
	It("folds a shift where the weights are no constants", func() {
		g := parse(statements(13, `
  input %x: f32[N,4,5]
  input %w: f32[6,4,3]
  const %s = f32[6,1]{1, 2, 3, 4, 5, 6}
  %c = Conv(%x, %w) "linear"
  %y = Add(%c, %s) "n"
  output %y
`))
		simplify(g, graph.SimplifyOptions{})
		Expect(g.String()).To(Equal(statements(13, `
  input %x: f32[N,4,5]
  input %w: f32[6,4,3]
  const %w.bias = f32[6]{1, 2, 3, 4, 5, 6}
  %y: f32[N,6,3] = Conv(%x, %w, %w.bias) "linear" from("linear", "n")
  output %y
`)))
	})
	It("keeps weights that others read, and respects MaxFold", func() {
		text := statements(13, `
  input %x: f32[N,2,5]
  const %w = f32[1,2,1]{1, 2}
  const %s = f32[]{2}
  %c = Conv(%x, %w) "linear"
  %y = Mul(%c, %s) "n"
  output %y, %w
`)
		g := parse(text)
		simplify(g, graph.SimplifyOptions{})
		Expect(g.String()).To(ContainSubstring("const %w = f32[1,2,1]{1, 2}\n  const %w'2 = f32[1,2,1]{2, 4}\n"))
		g = parse(text)
		simplify(g, graph.SimplifyOptions{MaxFold: 7})
		Expect(operators(g)).To(Equal("Conv Mul"))
	})
})
