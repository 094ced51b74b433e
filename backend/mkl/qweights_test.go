package mkl_test

import (
	"math"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("weights of integers", func() {
	for _, lib := range libraries() {
		It(strings.TrimSpace("are matched where they were folded to floats, and where they were not "+lib), func(ctx SpecContext) {
			b := open(lib)
			if !mkl.ExactProducts(b) {
				Skip("no VNNI: such weights are not multiplied as integers")
			}
			text := quantizedConv("u8[2,16,9,9]", "u8[]{3}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])\n  %v = DequantizeLinear(%wq, %ws; axis=0)\n  %e = Conv(%xd, %v; strides=[2,2])\n  output %e", "%c", "u8[]{121}")
			folded := program(ctx, parse(text), carve.Options{Backends: []backend.Config{mklWith(lib)}})
			kept := program(ctx, parse(text), carve.Options{MaxFold: -1, Backends: []backend.Config{mklWith(lib)}})
			in := quantizedFeeds(parse(text), 1)
			a, err := folded.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			again, err := kept.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			Expect(opsOf(ctx, folded)).To(Equal([]string{quantizedProduct, quantizedProduct}))
			Expect(opsOf(ctx, kept)).To(Equal([]string{quantizedProduct, quantizedProduct}))
			steps(a, again, 1e-4)
			for _, p := range []*carve.Program{folded, kept} {
				for _, c := range packs(ctx, p) {
					Expect(c.Bytes).To(BeNumerically("<", 2*24*16*3*3+4096), "weights of one byte, and what the library adds: %v", c)
				}
			}
		})

		It(strings.TrimSpace("pass Program.Check where halves are rounded to the other side, and fall back "+lib), func(ctx SpecContext) {
			open(lib)
			g := parse(`
  input %x: f32[4,16]
  const %one = f32[]{1}
  const %z = u8[]{1}
  const %wq = ` + integers("i8", -3, 3, 16, 8) + `
  %q = QuantizeLinear(%x, %one, %z)
  %d = DequantizeLinear(%q, %one, %z)
  %w = DequantizeLinear(%wq, %one)
  %m = MatMul(%d, %w)
  %y = QuantizeLinear(%m, %one, %z) "y"
  output %q
  output %m
  output %y`)
			x := make([]float32, 64)
			for i := range x {
				x[i] = float32(i%9) + 0.5
			}
			in := map[string]tensor.Value{"x": tensor.From(x, 4, 16)}
			for _, fail := range []string{"", "compile", "run"} {
				c := mklWith(lib)
				c.Options = map[string]string{"fail": fail, "library": lib}
				if lib == "" {
					delete(c.Options, "library")
				}
				p := program(ctx, g, carve.Options{Verify: true, Backends: []backend.Config{c}})
				got, err := p.Run(ctx, in)
				Expect(err).NotTo(HaveOccurred())
				for i, v := range tensor.Of[uint8](got["q"].(*tensor.Tensor)) {
					Expect(float64(v)).To(BeNumerically("~", float64(x[i])+1, 0.5))
				}
				difference, err := p.Check(ctx, in)
				if fail == "" {
					Expect(err).NotTo(HaveOccurred())
					Expect(difference).To(BeNil())
				}
			}
		})

		DescribeTable(strings.TrimSpace("where products may saturate are not multiplied as integers "+lib), func(ctx SpecContext, x string, most int, ops ...string) {
			mkl.WithoutVNNI(open(lib), func() {
				g := parse(quantizedConv(x+"[1,16,9,9]", x+"[]{3}", integers("i8", -most, most, 24, 16, 3, 3), scales(24, 0.004),
					"%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "u8[]{121}"))
				Expect(opsOf(ctx, agreesInSteps(ctx, g, 1, mklWith(lib)))).To(Equal(ops))
			})
		},
			Entry("small ones are", "u8", 64, quantizedProduct),
			Entry("large ones", "u8", 127, "DequantizeLinear", "Conv", "QuantizeLinear"),
			Entry("any, by signed integers", "i8", 64, "DequantizeLinear", "Conv", "QuantizeLinear"),
		)
	}
})

var _ = Describe("integers behind floats", func() {
	It("are found, whatever scaled them", func() {
		rng := rand.New(rand.NewPCG(11, 3))
		for range 300 {
			shape := []int{1 + rng.IntN(5), 1 + rng.IntN(5), 1 + rng.IntN(3)}
			axis := rng.IntN(3)
			n, inner := 1, 1
			for i, d := range shape {
				if n *= d; i > axis {
					inner *= d
				}
			}
			scales := make([]float32, shape[axis])
			for i := range scales {
				scales[i] = float32(math.Exp(rng.NormFloat64() * 6))
			}
			w := make([]float32, n)
			for i := range w {
				q := rng.IntN(256) - 128
				if rng.IntN(3) == 0 {
					q = 0
				}
				w[i] = float32(q) * scales[i/inner%shape[axis]]
			}
			q, s := mkl.Recovered(tensor.From(w, shape...), axis)
			Expect(q).To(HaveLen(n), "%v along %d: %v", shape, axis, w)
			for i := range w {
				x := float64(q[i]) * float64(s[i/inner%shape[axis]])
				Expect(x).To(BeNumerically("~", float64(w[i]), 1e-6*math.Abs(float64(w[i]))))
			}
		}
	})

	DescribeTable("are not found where there are none", func(w ...float32) {
		q, _ := mkl.Recovered(tensor.From(w, 1, len(w)), 0)
		Expect(q).To(BeNil())
	},
		Entry("numbers without a common measure", float32(1), float32(math.Sqrt2), float32(math.Pi)),
		Entry("more than eight bits", float32(1), float32(255)),
		Entry("129 at both ends", float32(-128), float32(128), float32(1)),
		Entry("infinite", float32(1), float32(math.Inf(1))),
		Entry("no number", float32(1), float32(math.NaN())),
		Entry("too small for a scale", float32(1e-45), float32(3e-45)),
	)
})
