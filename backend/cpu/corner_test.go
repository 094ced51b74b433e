package cpu_test

import (
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Cases that random ones have found.
var _ = DescribeTable("corners agree with the reference kernels", func(ctx SpecContext, text string) {
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	feeds := map[string]tensor.Value{}
	for _, v := range g.Inputs {
		dims, ok := v.Type.Shape.Static()
		Expect(ok).To(BeTrue())
		x, err := tensor.New(v.Type.DType, dims...)
		Expect(err).NotTo(HaveOccurred())
		numbers := make([]float64, x.Len())
		for i := range numbers {
			numbers[i] = float64(i%13 - 6)
		}
		Expect(tensor.Encode(x, numbers)).To(Succeed())
		feeds[v.Name] = x
	}
	m := carve.FromGraph(g)
	defer m.Close()
	var results [2]*tensor.Tensor
	for i, name := range []string{"cpu", "reference"} {
		p, err := carve.Compile(ctx, m, &carve.Options{Verify: true, Strict: true, Backends: []backend.Config{{Name: name}}})
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		out, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		results[i] = out["y"].(*tensor.Tensor)
	}
	Expect(results[0].Shape).To(Equal(results[1].Shape))
	for i := range results[1].Len() {
		want := results[1].Float64At(i)
		Expect(results[0].Float64At(i)).To(BeNumerically("~", want, 1e-5*math.Max(1, math.Abs(want))), "element %d", i)
	}
},
	Entry("slices of the depth that lie in padding only", `graph "g" {
  opset 13
  input %x: f32[1,3,3,2,5]
  const %w = f32[3,2,1,1,1]{1, -2, 3, -4, 5, -6}
  const %b = f32[2]{-7, 8}
  %c = ConvTranspose(%x, %w, %b; strides=[3,1,1])
  %y = Relu(%c)
  output %y
}`),
	Entry("a kernel of the depth, dilated, and a residual behind it", `graph "g" {
  opset 13
  input %x: f32[2,2,2,2,5]
  const %w = f32[2,1,2,1,1]{1, -2, 3, -4}
  const %r = f32[]{3}
  %c = ConvTranspose(%x, %w; strides=[4,2,1], dilations=[2,1,1])
  %y = Mul(%c, %r)
  output %y
}`),
	Entry("Pad's constant in another type than float32", `graph "g" {
  opset 8
  input %x: f64[3]
  %y = Pad(%x; mode="constant", pads=[1, 2], value=1.5)
  output %y
}`),
	Entry("channels of bytes", `graph "g" {
  opset 17
  input %x: f32[1,16,4,19]
  const %s = f32[]{0.25}
  const %z = i8[]{3}
  const %from = i64[1]{8}
  const %to = i64[1]{16}
  const %axis = i64[1]{1}
  %q = QuantizeLinear(%x, %s, %z)
  %h = Slice(%q, %from, %to, %axis)
  %d = DequantizeLinear(%h, %s, %z)
  %y = MaxPool(%d; kernel_shape=[2,3], strides=[1,2])
  output %y
}`),
)
