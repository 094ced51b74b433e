package mkl_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/flops"
)

var _ = DescribeTable("a profile has the model's FLOPs", func(ctx SpecContext, products int, text string) {
	open("") // skips where there is no library
	g := parse(text)
	count, err := flops.Of(g, nil)
	Expect(err).NotTo(HaveOccurred())
	p := program(ctx, g, carve.Options{Threads: 1, Strict: true, Backends: []backend.Config{{Name: "mkl"}}})
	_, profile, err := p.RunProfiled(ctx, feeds(g))
	Expect(err).NotTo(HaveOccurred())
	sum, steps := 0.0, 0
	for _, s := range profile.Spans {
		if sum += s.FLOPs; s.FLOPs > 0 {
			steps++
		}
	}
	Expect(sum).To(Equal(count.Total))
	Expect(steps).To(Equal(products))
},
	Entry("of convolutions and products", 4, `
  input %x: f32[2,16,8,8]
  const %w = f32[32,16,3,3]{~}
  const %d = f32[32,1,3,3]{~}
  const %t = f32[32,8,2,2]{~}
  const %v = f32[12,7]{~}
  %a = Conv(%x, %w; pads=[1,1,1,1])
  %b = Relu(%a)
  %c = Conv(%b, %d; group=32)
  %e = ConvTranspose(%c, %t; strides=[2,2])
  %y = MatMul(%e, %v)
  output %y`),
	Entry("of convolutions that are made image by image", 7, images(3, 16, `
  const %k = f32[16,48,1,1]{~}
  %c = Concat(%a, %b; axis=1)
  %r = Relu(%c)
  %y = Conv(%r, %k)
  output %y`)),
)
