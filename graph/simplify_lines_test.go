package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("Simplify, of lines,", func() {
	DescribeTable("makes them images of one row where convolutions come one behind the other", func(body, want, gone string) {
		simplifiesTo(20, body, want, gone)
		sameResults(parse(statements(20, body)), 1e-5)
	},
		Entry("with their windows, and what is element-wise in between", `
  input %x: f32[1,5,6]
  input %m: f32[1,1,4]
  const %w = f32[5,1,2]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
  const %c = f32[5,1]{1, 2, 3, 4, 5}
  const %v = f32[5,1,3]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
  const %b = f32[1]{3}
  %a = Conv(%x, %w; group=5, dilations=[2], kernel_shape=[2]) "a"
  %t = Tanh(%a) "t"
  %p = PRelu(%t, %c) "p"
  %n = Mul(%m, %p) "n"
  %q = MaxPool(%n; kernel_shape=[3], strides=[1], pads=[1, 1]) "q"
  %z = ConvTranspose(%q, %v, %b; strides=[2], pads=[0, 1], output_padding=[1]) "z"
  %y = Relu(%z) "y"
  output %y
`, `
  input %x: f32[1,5,6]
  input %m: f32[1,1,4]
  const %b = f32[1]{3}
  const $0 = i64[4]{1, 5, 1, 6}
  const %w = f32[5,1,1,2]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
  const %c = f32[5,1,1]{1, 2, 3, 4, 5}
  const $1 = i64[4]{1, 1, 1, 4}
  const %v = f32[5,1,1,3]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
  const $2 = i64[3]{1, 1, 9}
  %a: f32[1,5,1,4] = Conv($4, %w; dilations=[1, 2], group=5, kernel_shape=[1, 2]) "a"
  %t: f32[1,5,1,4] = Tanh(%a) "t"
  %p: f32[1,5,1,4] = PRelu(%t, %c) "p"
  %n: f32[1,5,1,4] = Mul($5, %p) "n"
  %q: f32[1,5,1,4] = MaxPool(%n; kernel_shape=[1, 3], pads=[0, 1, 0, 1], strides=[1, 1]) "q"
  %z: f32[1,1,1,9] = ConvTranspose(%q, %v, %b; output_padding=[0, 1], pads=[0, 0, 0, 1], strides=[1, 2]) "z"
  $3: f32[1,1,1,9] = Relu(%z) "y"
  $4: f32[1,5,1,6] = Reshape(%x, $0; allowzero=1) from()
  $5: f32[1,1,1,4] = Reshape(%m, $1; allowzero=1) from()
  %y: f32[1,1,9] = Reshape($3, $2; allowzero=1) from()
  output %y
`, ""),
		Entry("where others read what lies between", `
  input %x: f32[1,5,4]
  const %w = f32[5,1,1]{1, 2, 3, 4, 5}
  const %v = f32[5,1,2]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
  %a = Conv(%x, %w; group=5) "a"
  %y = Conv(%a, %v; group=5, pads=[1, 0]) "y"
  %s = Transpose(%a; perm=[0, 2, 1]) "s"
  output %a
  output %y
  output %s
`, `
  input %x: f32[1,5,4]
  const $0 = i64[4]{1, 5, 1, 4}
  const %w = f32[5,1,1,1]{1, 2, 3, 4, 5}
  const $1 = i64[3]{1, 5, 4}
  const %v = f32[5,1,1,2]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
  $2: f32[1,5,1,4] = Conv($4, %w; group=5) "a"
  $3: f32[1,5,1,4] = Conv($2, %v; group=5, pads=[0, 1, 0, 0]) "y"
  %s: f32[1,4,5] = Transpose(%a; perm=[0, 2, 1]) "s"
  $4: f32[1,5,1,4] = Reshape(%x, $0; allowzero=1) from()
  %a: f32[1,5,4] = Reshape($2, $1; allowzero=1) from()
  %y: f32[1,5,4] = Reshape($3, $1; allowzero=1) from()
  output %a, %y, %s
`, ""),
		Entry("through what names axes", `
  input %x: f32[1,6,5]
  const %w = f32[6,1,1]{1, 2, 3, 4, 5, 6}
  const %two = f32[8,1,1]{2, 2, 2, 2, 2, 2, 2, 2}
  const %begin = i64[2]{-1, 1}
  const %end = i64[2]{-8, 9}
  const %axes = i64[2]{1, -1}
  const %steps = i64[2]{-1, 2}
  const %pads = i64[6]{0, 1, 0, 0, 0, 1}
  const %last = i64[1]{2}
  const %half = i64[2]{4, 3}
  %a = Conv(%x, %w; group=6) "a"
  %j = Concat(%x, %a; axis=-2) "j"
  %s = Slice(%j, %begin, %end, %axes, %steps) "s"
  %f, %g = Split(%s, %half; axis=1) "f"
  %p = Pad(%g, %pads; mode="reflect") "p"
  %h = Softmax(%p) "h"
  %r = ReduceMean(%f, %last) "r"
  %i = Concat(%h, %r; axis=2) "i"
  %k = Concat(%i, %i; axis=1) "k"
  %d = Conv(%k, %two; group=8) "d"
  %y = ReduceMax(%d, %last; keepdims=0) "y"
  output %y
`, `
  input %x: f32[1,6,5]
  const %begin = i64[2]{-1, 1}
  const %end = i64[2]{-8, 9}
  const %steps = i64[2]{-1, 2}
  const %half = i64[2]{4, 3}
  const $0 = i64[4]{1, 6, 1, 5}
  const %w = f32[6,1,1,1]{1, 2, 3, 4, 5, 6}
  const %axes = i64[2]{1, 3}
  const %pads = i64[8]{0, 1, 0, 0, 0, 0, 0, 1}
  const %last = i64[2]{2, 3}
  const %two = f32[8,1,1,1]{2, 2, 2, 2, 2, 2, 2, 2}
  %a: f32[1,6,1,5] = Conv($1, %w; group=6) "a"
  %j: f32[1,12,1,5] = Concat($1, %a; axis=1) "j"
  %s: f32[1,7,1,2] = Slice(%j, %begin, %end, %axes, %steps) "s"
  %f: f32[1,4,1,2], %g: f32[1,3,1,2] = Split(%s, %half; axis=1) "f"
  %p: f32[1,4,1,3] = Pad(%g, %pads; mode="reflect") "p"
  %h: f32[1,4,1,3] = Softmax(%p; axis=3) "h"
  %r: f32[1,4,1,1] = ReduceMean(%f, %last) "r"
  %i: f32[1,4,1,4] = Concat(%h, %r; axis=3) "i"
  %k: f32[1,8,1,4] = Concat(%i, %i; axis=1) "k"
  %d: f32[1,8,1,4] = Conv(%k, %two; group=8) "d"
  %y: f32[1,8] = ReduceMax(%d, %last; keepdims=0) "y"
  $1: f32[1,6,1,5] = Reshape(%x, $0; allowzero=1) from()
  output %y
`, ""),
		Entry("and images of one column, where one convolution is enough", `
  input %x: f32[2,3,7,1]
  input %g: f32[2,3,1,1]
  const %w = f32[3,1,2,1]{1, 2, 3, 4, 5, 6}
  const %c = f32[3,1,1]{1, 2, 3}
  const %e = f32[4,1]{1, 2, 3, 4}
  const %pads = i64[8]{0, 0, 1, 0, 0, 0, 2, 0}
  const %image = i64[2]{2, 3}
  const %scales = f32[4]{1, 1, 2, 2}
  %m = Mul(%x, %g) "m"
  %p = Pad(%m, %pads; mode="edge") "p"
  %a = Conv(%p, %w; group=3, strides=[2, 1], dilations=[3, 1], pads=[1, 0, 0, 0]) "a"
  %d = Add(%a, %c) "d"
  %b = Mul(%d, %e) "b"
  %q = AveragePool(%b; kernel_shape=[2, 1]) "q"
  %h = Softmax(%q; axis=2) "h"
  %k = Concat(%h, %b; axis=2) "k"
  %y = ReduceMean(%k, %image; keepdims=0) "y"
  %z = Resize(%k, _, %scales) "z"
  output %y, %z
`, `
  input %x: f32[2,3,7,1]
  input %g: f32[2,3,1,1]
  const %scales = f32[4]{1, 1, 2, 2}
  const %w.bias = f32[3]{1, 2, 3}
  const $0 = i64[4]{2, 3, 1, 7}
  const %pads = i64[8]{0, 0, 0, 1, 0, 0, 0, 2}
  const %w = f32[3,1,1,2]{1, 2, 3, 4, 5, 6}
  const %e = f32[1,4]{1, 2, 3, 4}
  const $1 = i64[4]{2, 3, 7, 1}
  const %image = i64[2]{2, 3}
  %m: f32[2,3,1,7] = Mul($2, %g) "m"
  %p: f32[2,3,1,10] = Pad(%m, %pads; mode="edge") "p"
  %a: f32[2,3,1,4] = Conv(%p, %w, %w.bias; dilations=[1, 3], group=3, pads=[0, 1, 0, 0], strides=[1, 2]) "a" from("a", "d")
  %b: f32[2,3,1,4] = Mul(%a, %e) "b"
  %q: f32[2,3,1,3] = AveragePool(%b; kernel_shape=[1, 2]) "q"
  %h: f32[2,3,1,3] = Softmax(%q; axis=3) "h"
  %k: f32[2,3,1,7] = Concat(%h, %b; axis=3) "k"
  %y: f32[2,3] = ReduceMean(%k, %image; keepdims=0) "y"
  %z: f32[2,3,14,2] = Resize($3, _, %scales) "z"
  $2: f32[2,3,1,7] = Reshape(%x, $0; allowzero=1) from()
  $3: f32[2,3,7,1] = Reshape(%k, $1; allowzero=1) from()
  output %y, %z
`, ""),
		Entry("but not what has other axes, or indices", `
  input %x: f32[1,2,5,1]
  const %w = f32[2,1,2,1]{1, 2, 3, 4}
  const %rows = i64[1]{2}
  const %pads = i64[8]{0, 1, 0, 0, 0, 0, 0, 0}
  const %axes = i64[4]{3, 2, 1, 0}
  %a = Conv(%x, %w; group=2) "a"
  %r = ReduceMax(%a, %rows; keepdims=0) "r"
  %p = Pad(%a, %pads, _, %axes) "p"
  %m, %i = MaxPool(%a; kernel_shape=[2, 1]) "m"
  output %r, %p, %m, %i
`, `
  input %x: f32[1,2,5,1]
  const %rows = i64[1]{2}
  const %pads = i64[8]{0, 1, 0, 0, 0, 0, 0, 0}
  const %axes = i64[4]{3, 2, 1, 0}
  const $0 = i64[4]{1, 2, 1, 5}
  const %w = f32[2,1,1,2]{1, 2, 3, 4}
  const $1 = i64[4]{1, 2, 4, 1}
  %a: f32[1,2,1,4] = Conv($2, %w; group=2) "a"
  %r: f32[1,2,1] = ReduceMax($3, %rows; keepdims=0) "r"
  %p: f32[1,2,5,1] = Pad($3, %pads, _, %axes) "p"
  %m: f32[1,2,3,1], %i: i64[1,2,3,1] = MaxPool($3; kernel_shape=[2, 1]) "m"
  $2: f32[1,2,1,5] = Reshape(%x, $0; allowzero=1) from()
  $3: f32[1,2,4,1] = Reshape(%a, $1; allowzero=1) from()
  output %r, %p, %m, %i
`, ""),
		Entry("but not one convolution", `
  input %x: f32[1,5,4]
  const %w = f32[5,1,1]{1, 2, 3, 4, 5}
  %a = Conv(%x, %w; group=5) "a"
  %y = Relu(%a) "y"
  output %y
`, `
  input %x: f32[1,5,4]
  const %w = f32[5,1,1]{1, 2, 3, 4, 5}
  %a: f32[1,5,4] = Conv(%x, %w; group=5) "a"
  %y: f32[1,5,4] = Relu(%a) "y"
  output %y
`, ""),
		Entry("nor those with something else between them, or of few channels", `
  input %x: f32[1,4,5]
  const %two = i64[]{2}
  const %u = f32[5,4,1]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
  const %w = f32[5,1,1]{1, 2, 3, 4, 5}
  %a = Conv(%x, %u) "a"
  %c = CumSum(%a, %two) "c"
  %y = Conv(%c, %w; group=5) "y"
  output %y
`, `
  input %x: f32[1,4,5]
  const %two = i64[]{2}
  const %u = f32[5,4,1]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
  const %w = f32[5,1,1]{1, 2, 3, 4, 5}
  %a: f32[1,5,5] = Conv(%x, %u) "a"
  %c: f32[1,5,5] = CumSum(%a, %two) "c"
  %y: f32[1,5,5] = Conv(%c, %w; group=5) "y"
  output %y
`, ""),
	)

	It("leaves images without rows alone where a Reshape cannot say so", func() {
		g := parse(statements(13, `
  input %x: f32[1,5,0,1]
  const %w = f32[5,1,1,1]{1, 2, 3, 4, 5}
  %y = Conv(%x, %w; group=5) "y"
  output %y
`))
		simplify(g, graph.SimplifyOptions{})
		Expect(operators(g)).To(Equal("Conv"))
	})

	DescribeTable("pads where it convolves", func(body, want, gone string) {
		simplifiesTo(18, body, want, gone)
		sameResults(parse(statements(18, body)), 1e-5)
	},
		Entry("for all that read it", `
  input %x: f32[1,1,2,3]
  const %w = f32[1,1,2,3]{1, 2, 3, 4, 5, 6}
  const %v = f32[1,1,3,1]{1, 2, 3}
  const %pads = i64[4]{1, 0, 0, 0}
  const %axes = i64[2]{2, -1}
  %p = Pad(%x, %pads, _, %axes) "p"
  %y = Conv(%p, %w; pads=[0, 1, 1, 2]) "y"
  %z = Conv(%p, %v; auto_pad="VALID") "z"
  output %y
  output %z
`, `
  input %x: f32[1,1,2,3]
  const %w = f32[1,1,2,3]{1, 2, 3, 4, 5, 6}
  const %v = f32[1,1,2,1]{2, 3}
  %y: f32[1,1,3,4] = Conv(%x, %w; auto_pad="NOTSET", pads=[1, 1, 1, 2]) "y" from("p", "y")
  %z: f32[1,1,1,3] = Conv(%x, %v; auto_pad="NOTSET", dilations=[1, 1], kernel_shape=[2, 1], pads=[0, 0, 0, 0]) "z"
  output %y, %z
`, ""),
		Entry("but not with other numbers or channels, infinite weights, or more than the taps reach", `
  input %x: f32[1,1,3]
  const %w = f32[1,1,2]{1, 2}
  const %v = f32[1,1,2]{1, +inf}
  const %u = f32[1,2,2]{1, 2, 3, 4}
  const %pads = i64[6]{0, 0, 1, 0, 0, 0}
  const %before = i64[6]{0, 0, 2, 0, 0, 0}
  const %behind = i64[6]{0, 0, 0, 0, 0, 2}
  const %channels = i64[6]{0, 0, 0, 0, 1, 0}
  const %one = f32[]{1}
  %p = Pad(%x, %pads, %one) "p"
  %a = Conv(%p, %w) "a"
  %q = Pad(%x, %pads) "q"
  %b = Conv(%q, %v) "b"
  %r = Pad(%x, %before) "r"
  %c = Conv(%r, %w) "c"
  %s = Pad(%x, %behind) "s"
  %d = Conv(%s, %w) "d"
  %t = Pad(%x, %channels) "t"
  %e = Conv(%t, %u) "e"
  output %a, %b, %c, %d, %e
`, `
  input %x: f32[1,1,3]
  const %w = f32[1,1,2]{1, 2}
  const %v = f32[1,1,2]{1, +Inf}
  const %u = f32[1,2,2]{1, 2, 3, 4}
  const %pads = i64[6]{0, 0, 1, 0, 0, 0}
  const %before = i64[6]{0, 0, 2, 0, 0, 0}
  const %behind = i64[6]{0, 0, 0, 0, 0, 2}
  const %channels = i64[6]{0, 0, 0, 0, 1, 0}
  const %one = f32[]{1}
  %p: f32[1,1,4] = Pad(%x, %pads, %one) "p"
  %a: f32[1,1,3] = Conv(%p, %w) "a"
  %q: f32[1,1,4] = Pad(%x, %pads) "q"
  %b: f32[1,1,3] = Conv(%q, %v) "b"
  %r: f32[1,1,5] = Pad(%x, %before) "r"
  %c: f32[1,1,4] = Conv(%r, %w) "c"
  %s: f32[1,1,5] = Pad(%x, %behind) "s"
  %d: f32[1,1,4] = Conv(%s, %w) "d"
  %t: f32[1,2,3] = Pad(%x, %channels) "t"
  %e: f32[1,1,2] = Conv(%t, %u) "e"
  output %a, %b, %c, %d, %e
`, ""),
	)

	DescribeTable("convolves along what is left of images whose rows or columns a kernel takes whole", func(body, want, gone string) {
		simplifiesTo(18, body, want, gone)
		sameResults(parse(statements(18, body)), 1e-5)
	},
		Entry("columns", `
  input %x: f32[2,1,3,8]
  const %w = f32[1,1,2,8]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
  const %b = f32[1]{1}
  %c = Conv(%x, %w, %b; strides=[2, 3], pads=[1, 0, 0, 0]) "c"
  %y = Relu(%c) "y"
  output %y
`, `
  input %x: f32[2,1,3,8]
  const %b = f32[1]{1}
  const %w = f32[1,8,1,2]{1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 8, 16}
  const $0 = i64[4]{2, 1, 2, 1}
  %c: f32[2,1,1,2] = Conv($2, %w, %b; dilations=[1, 1], kernel_shape=[1, 2], pads=[0, 1, 0, 0], strides=[1, 2]) "c"
  $1: f32[2,1,1,2] = Relu(%c) "y"
  $2: f32[2,8,1,3] = Transpose(%x; perm=[0, 3, 1, 2]) from()
  %y: f32[2,1,2,1] = Reshape($1, $0; allowzero=1) from()
  output %y
`, ""),
		Entry("rows", `
  input %x: f32[2,2,4,3]
  const %w = f32[1,2,4,2]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
  %y = Conv(%x, %w; dilations=[1, 2], pads=[0, 1, 0, 0]) "y"
  output %y
`, `
  input %x: f32[2,2,4,3]
  const $0 = i64[4]{2, 8, 1, 3}
  const %w = f32[1,8,1,2]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
  %y: f32[2,1,1,2] = Conv($1, %w; dilations=[1, 2], kernel_shape=[1, 2], pads=[0, 1, 0, 0], strides=[1, 1]) "y"
  $1: f32[2,8,1,3] = Reshape(%x, $0; allowzero=1) from()
  output %y
`, ""),
		Entry("but not where it moves along them", `
  input %x: f32[2,1,3,8]
  const %w = f32[1,1,2,8]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
  %y = Conv(%x, %w; pads=[0, 1, 0, 0]) "y"
  output %y
`, `
  input %x: f32[2,1,3,8]
  const %w = f32[1,1,2,8]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
  %y: f32[2,1,2,2] = Conv(%x, %w; pads=[0, 1, 0, 0]) "y"
  output %y
`, ""),
	)
})
