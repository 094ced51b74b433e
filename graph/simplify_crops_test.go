package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("fold-crops", func() {
	// cropped is a convolution whose result a Slice cuts.
	cropped := func(shape, conv, start, end, axes, steps string) string {
		text := "  input %x: " + shape + "\n  const %w = " + data(1, "f32", false, 2, 2, 3) + "\n"
		for _, v := range [][2]string{{"start", start}, {"end", end}, {"axes", axes}, {"steps", steps}} {
			text += "  const %" + v[0] + " = " + v[1] + "\n"
		}
		return statements(13, text+"  %c = "+conv+" \"c\"\n  %y = Slice(%c, %start, %end, %axes, %steps) \"y\"\n  output %y\n")
	}
	const causal = "Conv(%x, %w; pads=[4, 4], dilations=[2])"
	const transposed = "ConvTranspose(%x, %w; strides=[2])"

	DescribeTable("has a convolution pad less, or a transposed one more, for a Slice of its ends",
		func(shape, conv, start, end, want string) {
			text := cropped(shape, conv, start, end, "i64[1]{-1}", "i64[1]{1}")
			g := parse(text)
			simplify(g, graph.SimplifyOptions{Skip: []string{"lift-lines", "convolve-along", "trim-taps"}})
			Expect(g.NumNodes()).To(Equal(1), g.String())
			Expect(g.String()).To(ContainSubstring(want))
			sameResults(parse(text), 0, "lift-lines", "convolve-along", "trim-taps")
		},
		Entry("causal", "f32[1,2,9]", causal, "i64[1]{0}", "i64[1]{-4}", "pads=[4, 0]"),
		Entry("causal, of any length", "f32[1,2,N]", causal, "i64[1]{0}", "i64[1]{-4}", "pads=[4, 0]"),
		Entry("of a known length", "f32[1,2,9]", causal, "i64[1]{1}", "i64[1]{10}", "pads=[3, 1]"),
		Entry("at the beginning", "f32[1,2,N]", causal, "i64[1]{3}", "i64[1]{9223372036854775807}", "pads=[1, 4]"),
		Entry("with a stride", "f32[1,2,12]", "Conv(%x, %w; pads=[2, 5], strides=[2])", "i64[1]{1}", "i64[1]{-2}", "pads=[0, 1]"),
		Entry("transposed", "f32[1,2,5]", transposed, "i64[1]{1}", "i64[1]{-2}", "pads=[1, 2]"),
		Entry("transposed, of any length", "f32[1,2,N]", transposed, "i64[1]{0}", "i64[1]{-1}", "pads=[0, 1]"),
	)

	DescribeTable("leaves others alone",
		func(shape, conv, start, end, axes, steps string) {
			text := cropped(shape, conv, start, end, axes, steps)
			g := parse(text)
			simplify(g, graph.SimplifyOptions{Skip: []string{"lift-lines", "convolve-along", "trim-taps"}})
			Expect(g.String()).To(ContainSubstring("Slice("))
			sameResults(parse(text), 0, "lift-lines", "convolve-along", "trim-taps")
		},
		Entry("of what it does not pad", "f32[1,2,9]", causal, "i64[1]{0}", "i64[1]{-5}", "i64[1]{2}", "i64[1]{1}"),
		Entry("whose result might be shorter than nothing", "f32[1,2,N]", causal, "i64[1]{2}", "i64[1]{-4}", "i64[1]{2}", "i64[1]{1}"),
		Entry("of channels", "f32[1,2,9]", causal, "i64[1]{0}", "i64[1]{1}", "i64[1]{1}", "i64[1]{1}"),
		Entry("with a step", "f32[1,2,9]", causal, "i64[1]{0}", "i64[1]{-4}", "i64[1]{2}", "i64[1]{2}"),
		Entry("to an index of any length", "f32[1,2,N]", causal, "i64[1]{0}", "i64[1]{3}", "i64[1]{2}", "i64[1]{1}"),
		Entry("that leaves nothing", "f32[1,2,9]", causal, "i64[1]{4}", "i64[1]{4}", "i64[1]{2}", "i64[1]{1}"),
		Entry("transposed, that may leave nothing", "f32[1,2,N]", transposed, "i64[1]{1}", "i64[1]{-2}", "i64[1]{2}", "i64[1]{1}"),
		Entry("transposed, that leaves nothing", "f32[1,2,5]", transposed, "i64[1]{2}", "i64[1]{2}", "i64[1]{2}", "i64[1]{1}"),
		Entry("transposed, to a shape", "f32[1,2,5]", "ConvTranspose(%x, %w; strides=[2], output_shape=[10])", "i64[1]{0}", "i64[1]{-1}", "i64[1]{2}", "i64[1]{1}"),
		Entry("transposed, that pads as it likes", "f32[1,2,5]", "ConvTranspose(%x, %w; strides=[2], auto_pad=\"SAME_UPPER\")", "i64[1]{0}", "i64[1]{-1}", "i64[1]{2}", "i64[1]{1}"),
		Entry("from an index that counts from the end, of any length", "f32[1,2,N]", transposed, "i64[1]{-5}", "i64[1]{9223372036854775807}", "i64[1]{2}", "i64[1]{1}"),
		Entry("that pads as it likes", "f32[1,2,9]", "Conv(%x, %w; auto_pad=\"SAME_UPPER\")", "i64[1]{1}", "i64[1]{-1}", "i64[1]{2}", "i64[1]{1}"),
	)

	It("knows the inputs of a Slice since operator set 10, and leaves one alone whose steps a run gives", func() {
		weights := "  const %w = " + data(1, "f32", false, 2, 2, 3) + "\n  const %start = i64[1]{0}\n  const %end = i64[1]{-4}\n  const %axes = i64[1]{2}\n"
		for steps, last := range map[string]string{"  const %steps = i64[1]{1}\n": "Conv", "  input %steps: i64[1]\n": "Slice"} {
			g := parse(statements(10, "  input %x: f32[1,2,9]\n"+steps+weights+"  %c = "+causal+" \"c\"\n  %y = Slice(%c, %start, %end, %axes, %steps) \"y\"\n  output %y\n"))
			simplify(g, graph.SimplifyOptions{Skip: []string{"lift-lines", "convolve-along", "trim-taps"}})
			Expect(g.Outputs[0].Producer.Op.Name).To(Equal(last), g.String())
		}
	})

	It("leaves a result alone that others read", func() {
		text := statements(9, "  input %x: f32[1,2,9]\n  const %w = "+data(1, "f32", false, 2, 2, 3)+"\n  %c = "+causal+" \"c\"\n  %y = Slice(%c; starts=[0], ends=[-4], axes=[2]) \"y\"\n  output %y, %c\n")
		g := parse(text)
		simplify(g, graph.SimplifyOptions{Skip: []string{"lift-lines"}})
		Expect(g.String()).To(ContainSubstring("Slice"))
		text = statements(9, "  input %x: f32[1,2,9]\n  const %w = "+data(1, "f32", false, 2, 2, 3)+"\n  %c = "+causal+" \"c\"\n  %y = Slice(%c; starts=[0], ends=[-4], axes=[2]) \"y\"\n  output %y\n")
		g = parse(text)
		simplify(g, graph.SimplifyOptions{Skip: []string{"lift-lines", "convolve-along", "trim-taps"}})
		Expect(g.NumNodes()).To(Equal(1), g.String())
		sameResults(parse(text), 0, "lift-lines")
	})
})
