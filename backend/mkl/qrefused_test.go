package mkl_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
)

var _ = Describe("operators that are not fused on integers", func() {
	for _, lib := range libraries() {
		DescribeTable(strings.TrimSpace("are right all the same "+lib), func(ctx SpecContext, text string, ops ...string) {
			b := open(lib)
			g := parse(text)
			p := agreesInSteps(ctx, g, 0.02, mklWith(lib), backend.Config{Name: "cpu"})
			if mkl.ExactProducts(b) {
				Expect(opsOf(ctx, p)).To(ConsistOf(ops))
			}
		},
			Entry("what others read between is a float", quantizedConv("u8[1,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004), `
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %r = Relu(%c)
  output %r`, "%c", "u8[]{9}"), quantizedProduct, "QuantizeLinear", "Relu"),
			Entry("an output in the middle", quantizedConv("u8[1,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004), `
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  output %c`, "%c", "u8[]{9}"), quantizedProduct, "QuantizeLinear"),
			Entry("two quantisations of one result", quantizedConv("u8[1,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004), `
  const %zs = f32[]{0.25}
  const %zz = i8[]{3}
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %z = QuantizeLinear(%c, %zs, %zz)
  output %z`, "%c", "u8[]{9}"), quantizedProduct, "QuantizeLinear", "QuantizeLinear"),
			Entry("a scale that a run brings", `
  input %x: u8[1,16,9,9]
  input %xs: f32[]
  const %w = f32[24,16,3,3]{~}
  %xd = DequantizeLinear(%x, %xs)
  %y = Conv(%xd, %w; pads=[1,1,1,1]) "y"
  output %y`, "Conv"),
			Entry("a scale that is computed", `
  input %x: f32[5,16]
  const %w = `+multiples(16, 24)+`
  %q, %s, %z = DynamicQuantizeLinear(%x)
  %d = DequantizeLinear(%q, %s, %z)
  %y = MatMul(%d, %w) "y"
  output %y`, "MatMul"),
			Entry("weights with scales of their inputs", `
  input %x: u8[1,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{2}
  const %wq = `+integers("i8", -127, 127, 24, 16, 3, 3)+`
  const %ws = `+scales(16, 0.004)+`
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws; axis=1)
  %y = Conv(%xd, %w; pads=[1,1,1,1]) "y"
  output %y`, "DequantizeLinear", "Conv"),
			Entry("an image with scales of its channels", `
  input %x: u8[1,16,9,9]
  const %xs = `+scales(16, 0.02)+`
  const %xz = `+integers("u8", 0, 9, 16)+`
  const %wq = `+integers("i8", -127, 127, 24, 16, 3, 3)+`
  const %ws = f32[]{0.004}
  %xd = DequantizeLinear(%x, %xs, %xz; axis=1)
  %w = DequantizeLinear(%wq, %ws)
  %y = Conv(%xd, %w; pads=[1,1,1,1]) "y"
  output %y`, "Conv"),
			Entry("weights that do not fit about their zero point", `
  input %x: u8[1,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{2}
  const %wq = `+integers("u8", 0, 255, 24, 16, 3, 3)+`
  const %ws = f32[]{0.004}
  const %wz = u8[]{11}
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws, %wz)
  %y = Conv(%xd, %w; pads=[1,1,1,1]) "y"
  output %y`, "DequantizeLinear", "Conv"),
			Entry("weights that are floats", `
  input %x: u8[1,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{2}
  const %w = f32[24,16,1,1]`+strings.TrimPrefix(scales(24*16, 1), "f32[384]")+`
  %xd = DequantizeLinear(%x, %xs, %xz)
  %y = Conv(%xd, %w) "y"
  output %y`, "DequantizeLinear", "Conv"),
			Entry("weights that a run brings", `
  input %x: u8[1,16,9,9]
  input %wq: i8[24,16,3,3]
  const %xs = f32[]{0.02}
  const %xz = u8[]{2}
  const %ws = f32[]{0.004}
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws)
  %y = Conv(%xd, %w) "y"
  output %y`, "DequantizeLinear", "DequantizeLinear"),
			Entry("a residual that broadcasts", quantizedConv("u8[1,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004), `
  input %r: f32[1,24,1,1]
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %s = Add(%c, %r)`, "%s", "u8[]{9}"), quantizedProduct, "Add", "QuantizeLinear"),
			Entry("a sum of which others read an operand", quantizedSum("u8[7,5]", "u8[7,5]", "u8[]{90}", "%t = Tanh(%a)\n  output %t\n  %s = Add(%a, %b)", "u8[]{100}"),
				"DequantizeLinear", "Tanh", quantizedAdd),
			Entry("a sum that stays a float", quantizedSum("u8[7,5]", "u8[7,5]", "u8[]{90}", "%s = Add(%a, %b)\n  output %s", "u8[]{100}"),
				"DequantizeLinear", "DequantizeLinear", "Add", "QuantizeLinear"),
			Entry("a sum that broadcasts", quantizedSum("u8[7,5]", "u8[1,5]", "u8[]{90}", "%s = Add(%a, %b)", "u8[]{100}"),
				"DequantizeLinear", "DequantizeLinear", "Add", "QuantizeLinear"),
		)
	}
})
