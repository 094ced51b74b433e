package mkl_test

import (
	"math"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// of is a model of one operator on an input of that shape.
func of(shape, call string) string {
	return "\n  input %x: f32[" + shape + "]\n  %y = " + call + "\n  output %y"
}

// withConstants is of with constants before the operator.
func withConstants(shape, call string, constants ...string) string {
	return "\n  input %x: f32[" + shape + "]\n  const " + strings.Join(constants, "\n  const ") + "\n  %y = " + call + "\n  output %y"
}

// resized is a Resize by scales, or to sizes.
func resized(shape, scales, sizes, attrs string) string {
	if scales != "" {
		return withConstants(shape, "Resize(%x, _, %s; "+attrs+")", "%s = f32[4]{"+scales+"}")
	}
	return withConstants(shape, "Resize(%x, _, _, %s; "+attrs+")", "%s = i64[4]{"+sizes+"}")
}

var _ = Describe("operators", func() {
	for _, lib := range libraries() {
		DescribeTable(strings.TrimSpace("agree with the reference "+lib), func(ctx SpecContext, text string, ops ...string) {
			open(lib)
			g := parse(text)
			p := program(ctx, g, carve.Options{Verify: true, Poison: true, Backends: []backend.Config{{Name: "mkl", Options: options(lib)}}})
			expectAgreement(ctx, p, g)
			Expect(append([]string{}, opsOf(ctx, p)...)).To(Equal(append([]string{}, ops...)))
		},
			Entry("transposed convolution", withConstants("1,16,5,5", "ConvTranspose(%x, %w; strides=[2,2])", "%w = f32[16,8,2,2]{~}"), "ConvTranspose"),
			Entry("transposed convolution, windows that overlap", withConstants("2,8,6,6", "ConvTranspose(%x, %w, %b; strides=[2,2], pads=[1,1,1,1], output_padding=[1,1])",
				"%w = f32[8,16,3,3]{~}", "%b = f32[16]{~}"), "ConvTranspose"),
			Entry("transposed convolution, groups", withConstants("1,32,5,5", "ConvTranspose(%x, %w; group=2, pads=[1,0,1,0])", "%w = f32[32,16,3,3]{~}"), "ConvTranspose"),
			Entry("transposed convolution, dilated", withConstants("1,16,5,5", "ConvTranspose(%x, %w; dilations=[2,2])", "%w = f32[16,16,3,3]{~}"), "ConvTranspose"),
			Entry("transposed convolution, size given", withConstants("1,16,5,5", "ConvTranspose(%x, %w; strides=[2,2], output_shape=[10,9])", "%w = f32[16,16,3,3]{~}"), "ConvTranspose"),
			Entry("transposed convolution, size given, more in front", withConstants("1,16,5,5", `ConvTranspose(%x, %w; strides=[2,2], output_shape=[10,10], auto_pad="SAME_LOWER")`, "%w = f32[16,16,3,3]{~}"), "ConvTranspose"),
			Entry("transposed convolution, one dim", withConstants("1,16,9", "ConvTranspose(%x, %w; strides=[3])", "%w = f32[16,16,4]{~}"), "ConvTranspose"),
			Entry("response normalisation", of("1,16,5,5", "LRN(%x; size=5)"), "LRN"),
			Entry("response normalisation, factors", of("2,32,4,4", "LRN(%x; size=5, alpha=0.3, bias=2.0)"), "LRN"),
			Entry("response normalisation of an even size, which begins elsewhere", of("1,16,5,5", "LRN(%x; size=4)")),
			Entry("pooling, ceil", of("1,16,12,12", "MaxPool(%x; kernel_shape=[3,3], strides=[2,2], ceil_mode=1)"), "MaxPool"),
			Entry("pooling, dilated: the library has its plain implementation only", of("1,16,12,12", "MaxPool(%x; kernel_shape=[3,3], dilations=[2,2])")),
			Entry("nearest, whole factors", resized("1,16,4,5", "1, 1, 2, 3", "", `mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"`), "Resize"),
			Entry("nearest, centres", resized("1,16,4,5", "", "1, 16, 8, 5", `mode="nearest"`), "Resize"),
			Entry("nearest, a fraction", resized("1,16,4,5", "", "1, 16, 6, 5", `mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"`)),
			Entry("nearest, the next above", resized("1,16,4,5", "", "1, 16, 8, 10", `mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="ceil"`)),
			Entry("nearest, smaller", resized("1,16,8,8", "", "1, 16, 4, 4", `mode="nearest"`)),
			Entry("linear", resized("1,16,4,5", "", "1, 16, 9, 10", `mode="linear"`), "Resize"),
			Entry("linear, smaller", resized("1,16,9,10", "", "1, 16, 4, 5", `mode="linear"`), "Resize"),
			Entry("linear, corners aligned", resized("1,16,4,5", "", "1, 16, 9, 10", `mode="linear", coordinate_transformation_mode="align_corners"`)),
			Entry("linear, smoothed", "\n  input %x: f32[1,16,9,10]\n  const %s = i64[4]{1, 16, 4, 5}\n  %y = Resize/18(%x, _, _, %s; mode=\"linear\", antialias=1)\n  output %y"),
			Entry("linear, a scale that is not the ratio of the sizes", resized("1,16,4,5", "1, 1, 1.3, 1.3", "", `mode="linear"`)),
			Entry("cubic", resized("1,16,4,5", "", "1, 16, 9, 10", `mode="cubic"`)),
			Entry("channels", resized("1,16,4,5", "", "1, 32, 4, 5", `mode="linear"`)),
			Entry("mean of rows", of("3,4,17", "ReduceMean(%x; axes=[2])"), "ReduceMean"),
			Entry("mean of pixels", of("2,16,5,6", "ReduceMean(%x; axes=[2,3], keepdims=0)"), "ReduceMean"),
			Entry("mean of everything", of("3,4,17", "ReduceMean(%x; keepdims=0)"), "ReduceMean"),
			Entry("largest of pixels", of("2,16,5,6", "ReduceMax(%x; axes=[-1,-2])"), "ReduceMax"),
			Entry("sums of dims apart: plain only", withConstants("3,4,5,6", "ReduceSum(%x, %a; keepdims=0)", "%a = i64[2]{0, 2}")),
			Entry("least of columns: plain only", of("33,7", "ReduceMin(%x; axes=[0])")),
			Entry("product of rows", of("4,6", "ReduceProd(%x; axes=[1])"), "ReduceProd"),
			Entry("length of rows: plain only", of("4,33", "ReduceL2(%x; axes=[1])")),
			Entry("a sum of squares, which the library has not", of("4,33", "ReduceSumSquare(%x; axes=[1])")),
			Entry("a sum over nothing", "\n  input %x: f32[4,5]\n  const %a = i64[0]{}\n  %y = ReduceSum(%x, %a; noop_with_empty_axes=1)\n  %z = Exp(%y)\n  output %z", "Exp"),
			Entry("sum of three", "\n  input %x: f32[1,16,4,4]\n  input %u: f32[1,16,4,4]\n  input %v: f32[1,16,4,4]\n  %y = Sum(%x, %u, %v)\n  output %y", "Sum"),
			Entry("sum of three that broadcast", "\n  input %x: f32[2,16,4,4]\n  input %u: f32[16,1,1]\n  input %v: f32[1]\n  %y = Sum(%x, %u, %v)\n  output %y"),
			Entry("layer normalisation, a dim in front of the last", withConstants("4,5,24", "LayerNormalization(%x, %s; axis=1)", "%s = f32[5,24]{~}"), "LayerNormalization"),
			Entry("softmax of before version 13", "\n  input %x: f32[3,4,5]\n  %y = Softmax/11(%x; axis=1)\n  output %y", "Softmax"),
		)
	}
})

var _ = It("the logarithm of a softmax over one element is 0, and NaN where that is not finite", func(ctx SpecContext) {
	open("")
	p := program(ctx, parse("\n  input %x: f32[5,1]\n  %y = LogSoftmax(%x)\n  output %y"), carve.Options{Verify: true})
	Expect(opsOf(ctx, p)).To(Equal([]string{"LogSoftmax"}))
	inf := float32(math.Inf(1))
	x, err := tensor.New(tensor.Float32, 5, 1)
	Expect(err).NotTo(HaveOccurred())
	copy(tensor.Of[float32](x), []float32{-3, 0, 1e30, inf, -inf})
	out, err := p.Run(ctx, map[string]tensor.Value{"x": x})
	Expect(err).NotTo(HaveOccurred())
	y := out["y"].(*tensor.Tensor)
	for i := range 3 {
		Expect(y.Float64At(i)).To(BeZero())
	}
	Expect(math.IsNaN(y.Float64At(3))).To(BeTrue())
	Expect(math.IsNaN(y.Float64At(4))).To(BeTrue())
})
