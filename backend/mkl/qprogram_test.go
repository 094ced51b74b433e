package mkl_test

import (
	"errors"
	"math"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("quantised models", func() {
	for _, lib := range libraries() {
		DescribeTable(strings.TrimSpace("in other layouts of activations "+lib), func(ctx SpecContext, layout string) {
			open(lib)
			c := mklWith(lib)
			c.Options = map[string]string{"layout": layout, "library": lib}
			if lib == "" {
				delete(c.Options, "library")
			}
			agreesInSteps(ctx, parse(`
  input %x: f32[2,3,9,9]
  const %w0 = f32[16,3,1,1]{~}
  const %s = f32[]{0.02}
  const %z = u8[]{100}
  const %wq = `+integers("i8", -127, 127, 16, 16, 3, 3)+`
  const %ws = f32[]{0.002}
  %a = Conv(%x, %w0)
  %q = QuantizeLinear(%a, %s, %z)
  %d = DequantizeLinear(%q, %s, %z)
  %w = DequantizeLinear(%wq, %ws)
  %c = Conv(%d, %w; pads=[1,1,1,1])
  %e = Sigmoid(%c)
  %y = Add(%e, %d) "y"
  output %y`), 0.02, c)
		}, Entry(nil, "NCHW16c"), Entry(nil, "NHWC"), Entry(nil, "row-major"))

		DescribeTable(strings.TrimSpace("are taken as far as pins allow "+lib), func(ctx SpecContext, pinned string, ops ...string) {
			b := open(lib)
			g := parse(quantizedConv("u8[2,16,9,9]", "u8[]{3}", integers("i8", -127, 127, 24, 16, 3, 3), "f32[]{0.004}",
				"%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "u8[]{121}"))
			p := program(ctx, g, carve.Options{Verify: true, Pins: []property.Pin{{Node: pinned, Backend: "reference"}}, Backends: []backend.Config{mklWith(lib)}})
			if mkl.ExactProducts(b) {
				Expect(opsOf(ctx, p)).To(ConsistOf(ops))
			}
			in := quantizedFeeds(g, 1)
			want, err := program(ctx, g, carve.Options{Backends: []backend.Config{{Name: "reference"}}}).Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			got, err := p.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			steps(got, want, 1)
		},
			Entry("not the image", "xd", "Conv", "QuantizeLinear"),
			Entry("not the product", "c", "DequantizeLinear", "QuantizeLinear"),
			Entry("not the result", "y", quantizedProduct),
		)

		It(strings.TrimSpace("of an early operator set "+lib), func(ctx SpecContext) {
			b := open(lib)
			g, err := graph.Parse("graph {\n  opset 10" + strings.ReplaceAll(quantizedConv("u8[2,16,9,9]", "u8[]{3}", integers("i8", -127, 127, 24, 16, 3, 3),
				"f32[]{0.004}", "%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "u8[]{121}"), "; axis=0", "") + "\n}")
			Expect(err).NotTo(HaveOccurred())
			Expect(graph.InferGraph(g)).To(Succeed())
			p := agreesInSteps(ctx, g, 1, mklWith(lib))
			if mkl.ExactProducts(b) {
				Expect(opsOf(ctx, p)).To(Equal([]string{quantizedProduct}))
			}
		})

		It(strings.TrimSpace("keep zero points for lengths that vectors do not divide "+lib), func(ctx SpecContext) {
			open(lib)
			for _, shape := range []string{"1,49,64", "1,17,64", "1,31,64", "1,64,49", "1,17,8,8", "1,50,256", "1,197,768", "16,49,192", "2,3,5,7,3"} {
				agreesInSteps(ctx, parse(`
  input %x: f32[`+shape+`]
  const %s = f32[]{0.02}
  const %z = u8[]{130}
  %q = QuantizeLinear(%x, %s, %z)
  %y = DequantizeLinear(%q, %s, %z) "y"
  output %y`), 0.02, mklWith(lib))
			}
		})

		It(strings.TrimSpace("saturate "+lib), func(ctx SpecContext) {
			open(lib)
			inf := float32(math.Inf(1))
			x := []float32{1e10, -1e10, inf, -inf, 3e38, -3e38, 1e-40, 0, 255, 256, -1, -2, 127.4, 128.6, -128.4, -200}
			for _, zero := range []string{"u8[]{0}", "u8[]{255}", "i8[]{-128}", "i8[]{127}"} {
				g := parse("\n  input %x: f32[16]\n  const %s = f32[]{1}\n  const %z = " + zero + "\n  %y = QuantizeLinear(%x, %s, %z) \"y\"\n  output %y")
				in := map[string]tensor.Value{"x": tensor.From(x, 16)}
				p := program(ctx, g, carve.Options{Backends: []backend.Config{mklWith(lib)}})
				Expect(opsOf(ctx, p)).To(Equal([]string{"QuantizeLinear"}))
				got, err := p.Run(ctx, in)
				Expect(err).NotTo(HaveOccurred())
				want, err := program(ctx, g, carve.Options{Backends: []backend.Config{{Name: "reference"}}}).Run(ctx, in)
				Expect(err).NotTo(HaveOccurred())
				steps(got, want, 1)
			}
		})

		It(strings.TrimSpace("allocate nothing in runs "+lib), func(ctx SpecContext) {
			open(lib)
			g := parse(`
  input %x: f32[5,64]
  const %s = f32[]{0.02}
  const %z = u8[]{100}
  const %wq = ` + integers("i8", -127, 127, 64, 64) + `
  const %ws = f32[]{0.004}
  %q = QuantizeLinear(%x, %s, %z)
  %d = DequantizeLinear(%q, %s, %z)
  %w = DequantizeLinear(%wq, %ws)
  %m = MatMul(%d, %w)
  %y = Add(%m, %d) "y"
  output %y`)
			for _, n := range []int{1, 2} {
				p := program(ctx, g, carve.Options{Threads: n, Backends: []backend.Config{mklWith(lib)}})
				in, out := arguments(ctx, p, g)
				var err error
				count := allocations(func() { err = errors.Join(err, p.RunInto(ctx, in, out)) })
				Expect(err).NotTo(HaveOccurred())
				Expect(count).To(BeZero(), "%d threads", n)
			}
		})
	}
})
