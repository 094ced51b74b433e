package mkl_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
)

// images is a graph of two convolutions of n images with c channels, and what follows them.
func images(n, c int, rest string) string {
	return fmt.Sprintf(`
  input %%x: f32[%d,16,12,12]
  const %%w = f32[%d,16,1,1]{~}
  const %%v = f32[32,16,3,3]{~}
  %%a = Conv(%%x, %%w)
  %%b = Conv(%%x, %%v; pads=[1,1,1,1])`, n, c) + rest
}

var _ = Describe("concatenations of several images or rows", func() {
	for _, lib := range libraries() {
		options := func(threads int) carve.Options {
			return carve.Options{Placement: carve.Priority, Threads: threads, Verify: true, Poison: true, Strict: true, Backends: []backend.Config{{Name: "mkl", Options: options(lib)}}}
		}
		DescribeTable(strings.TrimSpace("take steps "+lib), func(ctx SpecContext, threads, steps int, text string) {
			open(lib)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(threads, runtime.GOMAXPROCS(0))))
			g := parse(text)
			p := program(ctx, g, options(threads))
			expectAgreement(ctx, p, g)
			_, profile, err := p.RunProfiled(ctx, feeds(g))
			Expect(err).NotTo(HaveOccurred())
			n := 0
			for _, s := range profile.Spans {
				if s.Op == "Concat" {
					n++
				}
			}
			Expect(n).To(Equal(steps))
		},
			Entry("none where convolutions make them", 1, 0, images(3, 16, `
  %c = Concat(%a, %b; axis=1)
  %y = Relu(%c)
  output %y`)),
			Entry("none where others do, and read their operands", 1, 0, images(2, 16, `
  %r = Sigmoid(%a)
  %m = MaxPool(%b; kernel_shape=[3,3], pads=[1,1,1,1])
  %s = Add(%m, %b)
  %p = AveragePool(%s; kernel_shape=[3,3], pads=[1,1,1,1])
  %c = Concat(%r, %p, %s; axis=1)
  %q = GlobalAveragePool(%c)
  %u = Mul(%c, %q)
  output %u`)),
			Entry("none where they grow", 2, 0, images(2, 32, `
  const %k = f32[32,64,1,1]{~}
  const %l = f32[32,96,1,1]{~}
  %c = Concat(%b, %a; axis=1)
  %rc = Relu(%c)
  %d = Conv(%rc, %k)
  %e = Concat(%b, %a, %d; axis=1)
  %re = Relu(%e)
  %f = Conv(%re, %l)
  %g = Concat(%b, %a, %d, %f; axis=1)
  %y = Relu(%g)
  output %y`)),
			Entry("one for all operands where threads would share an image", 2, 1, `
  input %x: f32[2,32,40,40]
  const %w = f32[32,32,3,3]{~}
  const %v = f32[32,32,3,3]{~}
  const %k = f32[32,64,3,3]{~}
  %a = Conv(%x, %w)
  %b = Conv(%x, %v)
  %c = Concat(%a, %b; axis=1)
  %r = Relu(%c)
  %y = Conv(%r, %k)
  output %y`),
			Entry("one for an operand that is made elsewhere", 1, 1, images(2, 16, `
  %c = Concat(%a, %b; axis=1)
  %y = Relu(%c)
  output %y
  output %a`)),
			Entry("two for small images", 1, 2, `
  input %x: f32[2,16,4,4]
  %a = Relu(%x)
  %b = Tanh(%x)
  %c = Concat(%a, %b; axis=1)
  output %c`),
			Entry("none for moves of rows", 1, 0, `
  input %x: f32[4,32,3]
  input %z: f32[4,3,64]
  %a = Transpose(%x; perm=[0,2,1])
  const %s = i64[1]{16}
  const %e = i64[1]{48}
  const %i = i64[1]{2}
  %b = Slice(%z, %s, %e, %i)
  %c = Concat(%a, %b; axis=2)
  %y = Relu(%c)
  output %y`),
			Entry("none for products of many rows", 1, 0, `
  input %x: f32[2,64,16]
  input %z: f32[2,80,16]
  const %w = f32[16,32]{~}
  const %v = f32[16,32]{~}
  %a = MatMul(%x, %w)
  %b = MatMul(%z, %v)
  %c = Concat(%a, %b; axis=1)
  %y = Relu(%c)
  output %y`),
			Entry("none for normalised rows", 1, 0, `
  input %x: f32[2,64,32]
  input %z: f32[2,80,32]
  const %g = f32[32]{~}
  const %h = f32[32]{~}
  %a = LayerNormalization(%x, %g, %h)
  %b = Softmax(%z)
  %c = Concat(%a, %b; axis=1)
  %y = Relu(%c)
  output %y`),
			Entry("but for what is normalised across images", 1, 2, `
  input %x: f32[2,64,32]
  const %g = f32[2,64,32]{~}
  const %h = f32[2,64,32]{~}
  %a = LayerNormalization(%x, %g, %h; axis=0)
  %b = LayerNormalization(%x, %h, %g; axis=-3)
  %c = Concat(%a, %b; axis=1)
  %y = Relu(%c)
  output %y`),
			Entry("one for each product of other rows", 1, 2, `
  input %x: f32[2,64,16]
  const %w = f32[16,32]{~}
  const %v = f32[16,32]{~}
  %a = MatMul(%x, %w)
  %b = MatMul(%x, %v)
  %c = Concat(%a, %b; axis=2)
  %y = Relu(%c)
  output %y`),
		)

		It(strings.TrimSpace("agree with the reference backend "+lib), func(ctx SpecContext) {
			open(lib)
			for seed := range uint64(24) {
				text := randomImages(rand.New(rand.NewPCG(seed, 3)))
				By(text)
				g := parse(text)
				o := options(1 + int(seed%2))
				o.Strict = false
				expectAgreement(ctx, program(ctx, g, o), g)
			}
		})
	}
})

// randomImages returns a graph that grows by convolutions, functions, sums, pooling and concatenations of images of one
// size.
func randomImages(r *rand.Rand) string {
	n, side := 1+r.IntN(4), 6+r.IntN(8)
	text := fmt.Sprintf("\n  input %%v0: f32[%d,16,%d,%d]", n, side, side)
	channels := []int{16}
	add := func(c int, format string, args ...any) {
		text += fmt.Sprintf("\n  %%v%d = ", len(channels)) + fmt.Sprintf(format, args...)
		channels = append(channels, c)
	}
	pick := func() int { return max(r.IntN(len(channels)), r.IntN(len(channels))) }
	for k := range 8 + r.IntN(8) {
		x := pick()
		switch r.IntN(8) {
		case 0, 1:
			c := []int{16, 32, 32, 20}[r.IntN(4)]
			text += fmt.Sprintf("\n  const %%w%d = f32[%d,%d,1,1]{~}", k, c, channels[x])
			add(c, "Conv(%%v%d, %%w%d)", x, k)
			scale := 1 / math.Sqrt(float64(channels[x])) // values stay near one
			text += fmt.Sprintf("\n  const %%s%d = f32[]{%.3f}", k, scale)
			add(c, "Mul(%%v%d, %%s%d)", len(channels)-1, k)
			if r.IntN(2) == 0 {
				add(c, "Tanh(%%v%d)", len(channels)-1)
			}
		case 2:
			add(channels[x], "%s(%%v%d)", []string{"Tanh", "Sigmoid", "Neg"}[r.IntN(3)], x)
		case 3:
			add(channels[x], "MaxPool(%%v%d; kernel_shape=[3,3], pads=[1,1,1,1])", x)
		case 4:
			for y := range channels {
				if channels[y] == channels[x] && y != x {
					add(channels[x], "Mul(%%v%d, %%v%d)", x, y)
					break
				}
			}
		default:
			in, c := fmt.Sprintf("%%v%d", x), channels[x]
			for range 1 + r.IntN(3) {
				y := pick()
				in, c = in+fmt.Sprintf(", %%v%d", y), c+channels[y]
			}
			if c < 400 {
				add(c, "Concat(%s; axis=1)", in)
			}
		}
	}
	for i := range 3 {
		if v := len(channels) - 1 - i; v > 0 {
			text += fmt.Sprintf("\n  %%y%d = Tanh(%%v%d)\n  output %%y%d", i, v, i)
		}
	}
	if r.IntN(3) == 0 && len(channels) > 5 {
		text += fmt.Sprintf("\n  output %%v%d", len(channels)-4)
	}
	return text
}
