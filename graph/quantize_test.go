package graph_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

// quantized is a graph of opset 21 that begins with integers x, a scale s and a zero point z.
func quantized(zero, body string) string {
	return `
  input %x: u8[2,4,6,6]
  const %s = f32[]{0.1}
  const %s2 = f32[]{0.2}
  const %z = u8[]{` + zero + `}
  const %z2 = u8[]{9}
` + body
}

var _ = DescribeTable("quantisation that cancels, exactly", func(body, want string) {
	g := parse(statements(21, body))
	simplify(g, graph.SimplifyOptions{})
	Expect(operators(g)).To(Equal(want))
	sameResults(parse(statements(21, body)), 0)
},
	Entry("integers to floats and back", quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %q = QuantizeLinear(%d, %s, %z) "q"
  %y = DequantizeLinear(%q, %s2, %z) "y"
  output %y
`), "DequantizeLinear"),
	Entry("also where others read the floats", quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %q = QuantizeLinear(%d, %s, %z) "q"
  %t = Tanh(%d) "t"
  output %q
  output %t
`), "DequantizeLinear Tanh"),
	Entry("not at another scale", quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %y = QuantizeLinear(%d, %s2, %z) "q"
  output %y
`), "DequantizeLinear QuantizeLinear"),
	Entry("not at another zero point", quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %y = QuantizeLinear(%d, %s, %z2) "q"
  output %y
`), "DequantizeLinear QuantizeLinear"),
	Entry("not to signed integers", quantized("0", `
  const %i = i8[]{0}
  %d = DequantizeLinear(%x, %s, %z) "d"
  %y = QuantizeLinear(%d, %s, %i) "q"
  output %y
`), "DequantizeLinear QuantizeLinear"),
	Entry("not at a scale that a run brings", `
  input %x: u8[2,3]
  input %s: f32[]
  %d = DequantizeLinear(%x, %s) "d"
  %y = QuantizeLinear(%d, %s) "q"
  output %y
`, "DequantizeLinear QuantizeLinear"),
	Entry("not floats to integers and back, which rounds", `
  input %x: f32[2,3]
  const %s = f32[]{0.1}
  %q = QuantizeLinear(%x, %s) "q"
  %y = DequantizeLinear(%q, %s) "d"
  output %y
`, "QuantizeLinear DequantizeLinear"),
	Entry("scales along an axis", `
  input %x: i8[2,3]
  const %s = f32[3]{0.1, 0.2, 0.3}
  const %z = i8[3]{0, 1, -2}
  %d = DequantizeLinear(%x, %s, %z) "d"
  %q = QuantizeLinear(%d, %s, %z; axis=-1) "q"
  %y = Neg(%q) "n"
  output %y
`, "Neg"),
	Entry("not along different axes", `
  input %x: i8[3,3]
  const %s = f32[3]{0.1, 0.2, 0.3}
  const %z = i8[3]{0, 1, -2}
  %d = DequantizeLinear(%x, %s, %z; axis=0) "d"
  %y = QuantizeLinear(%d, %s, %z) "q"
  output %y
`, "DequantizeLinear QuantizeLinear"),
	Entry("largest of windows", quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %p = MaxPool(%d; kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]) "p"
  %y = QuantizeLinear(%p, %s, %z) "q"
  output %y
`), "MaxPool"),
	Entry("not largest of windows in 16 bits, which MaxPool has not", strings.ReplaceAll(quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %p = MaxPool(%d; kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]) "p"
  %y = QuantizeLinear(%p, %s, %z) "q"
  output %y
`), "u8[", "u16["), "DequantizeLinear MaxPool QuantizeLinear"),
	Entry("not concatenations in 4 bits, which Concat has not", strings.ReplaceAll(quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %c = Concat(%d, %d; axis=1) "c"
  %y = QuantizeLinear(%c, %s, %z) "q"
  output %y
`), "u8[", "u4["), "DequantizeLinear Concat QuantizeLinear"),
	Entry("moves in 4 bits", strings.ReplaceAll(quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %t = Transpose(%d; perm=[0,2,3,1]) "t"
  %y = QuantizeLinear(%t, %s, %z) "q"
  output %y
`), "u8[", "u4["), "Transpose"),
	Entry("not averages", quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %p = AveragePool(%d; kernel_shape=[3,3]) "p"
  %y = QuantizeLinear(%p, %s, %z) "q"
  output %y
`), "DequantizeLinear AveragePool QuantizeLinear"),
	Entry("not largest ones that others read", quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %p = MaxPool(%d; kernel_shape=[3,3]) "p"
  %y = QuantizeLinear(%p, %s, %z) "q"
  output %p
  output %y
`), "DequantizeLinear MaxPool QuantizeLinear"),
	Entry("not largest ones at another scale", quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %p = MaxPool(%d; kernel_shape=[3,3]) "p"
  %y = QuantizeLinear(%p, %s2, %z) "q"
  output %y
`), "DequantizeLinear MaxPool QuantizeLinear"),
	Entry("moves", quantized("7", `
  const %shape = i64[2]{2, 144}
  %d = DequantizeLinear(%x, %s, %z) "d"
  %t = Transpose(%d; perm=[0,2,3,1]) "t"
  %r = Reshape(%t, %shape) "r"
  %y = QuantizeLinear(%r, %s, %z) "q"
  output %y
`), "Transpose Reshape"),
	Entry("concatenations of one scale", quantized("7", `
  input %w: u8[2,3,6,6]
  %d = DequantizeLinear(%x, %s, %z) "d"
  %e = DequantizeLinear(%w, %s, %z) "e"
  %c = Concat(%d, %e, %d; axis=1) "c"
  %y = QuantizeLinear(%c, %s, %z) "q"
  output %y
`), "Concat"),
	Entry("concatenations of several: operands are quantised again", quantized("7", `
  input %w: u8[2,3,6,6]
  %d = DequantizeLinear(%x, %s, %z) "d"
  %e = DequantizeLinear(%w, %s2, %z) "e"
  %c = Concat(%d, %e; axis=1) "c"
  %y = QuantizeLinear(%c, %s, %z) "q"
  output %y
`), "DequantizeLinear QuantizeLinear Concat"),
	Entry("not with floats among them", quantized("7", `
  input %w: f32[2,3,6,6]
  %d = DequantizeLinear(%x, %s, %z) "d"
  %c = Concat(%d, %w; axis=1) "c"
  %y = QuantizeLinear(%c, %s, %z) "q"
  output %y
`), "DequantizeLinear Concat QuantizeLinear"),
	Entry("relu of what is not negative", quantized("0", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %r = Relu(%d) "r"
  %y = QuantizeLinear(%r, %s, %z) "q"
  output %y
`), ""),
	Entry("not of what may be", quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %r = Relu(%d) "r"
  %y = QuantizeLinear(%r, %s, %z) "q"
  output %y
`), "DequantizeLinear Relu QuantizeLinear"),
	Entry("relu before saturation", `
  input %x: f32[2,3]
  const %s = f32[]{0.1}
  const %z = u8[]{0}
  %r = Relu(%x) "r"
  %y = QuantizeLinear(%r, %s, %z) "q"
  output %y
`, "QuantizeLinear"),
	Entry("not where the least integer is below zero", `
  input %x: f32[2,3]
  const %s = f32[]{0.1}
  const %z = i8[]{0}
  %r = Relu(%x) "r"
  %y = QuantizeLinear(%r, %s, %z) "q"
  output %y
`, "Relu QuantizeLinear"),
	Entry("a view before a product", quantized("7", `
  const %w = f32[144,2]{`+repeat("1", 288)+`}
  %d = DequantizeLinear(%x, %s, %z) "d"
  %f = Flatten(%d) "f"
  %y = MatMul(%f, %w) "m"
  output %y
`), "Flatten DequantizeLinear MatMul"),
	Entry("not before others", quantized("7", `
  %d = DequantizeLinear(%x, %s, %z) "d"
  %f = Flatten(%d) "f"
  %y = Tanh(%f) "m"
  output %y
`), "DequantizeLinear Flatten Tanh"),
	Entry("a view behind a product", `
  input %x: f32[4,6]
  const %w = f32[6,4]{`+repeat("1", 24)+`}
  const %s = f32[]{0.1}
  const %z = u8[]{7}
  const %shape = i64[3]{2, 2, 4}
  %m = MatMul(%x, %w) "m"
  %r = Reshape(%m, %shape) "r"
  %t = Transpose(%r; perm=[1,0,2]) "t"
  %q = QuantizeLinear(%t, %s, %z) "q"
  %y = DequantizeLinear(%q, %s) "d"
  output %y
`, "MatMul QuantizeLinear Reshape Transpose DequantizeLinear"),
	Entry("casts to a wider type and back", `
  input %x: f32[2,3]
  input %i: i32[2,3]
  %a = Cast(%x; to=11) "a"
  %y = Cast(%a; to=1) "b"
  %c = Cast(%i; to=7) "c"
  %z = Cast(%c; to=6) "d"
  %n = Neg(%y) "n"
  %m = Neg(%z) "m"
  output %n
  output %m
`, "Neg Neg"),
	Entry("not to a narrower one", `
  input %x: f32[2,3]
  input %i: i32[2,3]
  %a = Cast(%x; to=10) "a"
  %y = Cast(%a; to=1) "b"
  %c = Cast(%i; to=1) "c"
  %z = Cast(%c; to=6) "d"
  output %y
  output %z
`, "Cast Cast Cast Cast"),
)

// repeat is a list of n equal elements.
func repeat(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+", ", n), ", ") }
