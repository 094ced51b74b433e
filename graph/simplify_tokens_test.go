package graph_test

import (
	"fmt"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
)

var _ = Describe("Simplify, of tokens and images,", func() {
	DescribeTable("transposes what has the fewest channels", simplifiesTo,
		Entry("between the products of a feed-forward part, and activates what is convolved", 20, `
  input %x: f32[1,4,2]
  const %w = f32[2,3]{1, 2, 3, 4, 5, 6}
  const %b = f32[3]{1, 2, 3}
  const %k = f32[3,1,1,1]{1, 2, 3}
  const %v = f32[3,1]{1, 2, 3}
  const %c = f32[1]{1}
  const %image = i64[4]{1, 3, 2, 2}
  const %tokens = i64[3]{1, 3, -1}
  %p = MatMul(%x, %w) "p"
  %q = Add(%b, %p) "q"
  %t = Transpose(%q; perm=[0, 2, 1]) "t"
  %i = Reshape(%t, %image) "i"
  %d = Conv(%i, %k; group=3) "d"
  %r = Reshape(%d, %tokens) "r"
  %s = Transpose(%r; perm=[0, 2, 1]) "s"
  %g = Gelu(%s) "g"
  %m = MatMul(%g, %v) "m"
  %y = Add(%m, %c) "y"
  output %y
`, `
  input %x: f32[1,4,2]
  const %b = f32[3]{1, 2, 3}
  const %k = f32[3,1,1,1]{1, 2, 3}
  const %c = f32[1]{1}
  const $0 = i64[4]{1, 2, 2, 2}
  const %w = f32[3,2,1,1]{1, 4, 2, 5, 3, 6}
  const $1 = i64[3]{1, 4, 1}
  const %v = f32[1,3,1,1]{1, 2, 3}
  %p: f32[1,3,2,2] = Conv(%i, %w, %b) "p" from("p", "q")
  %i: f32[1,2,2,2] = Transpose(%t; perm=[0, 3, 1, 2]) "t"
  %t: f32[1,2,2,2] = Reshape(%x, $0) "i"
  %d: f32[1,3,2,2] = Conv(%p, %k; group=3) "d"
  %y: f32[1,4,1] = Reshape(%s, $1) "r"
  %s: f32[1,2,2,1] = Transpose(%m; perm=[0, 2, 3, 1]) "s"
  %r: f32[1,3,2,2] = Gelu(%d) "g"
  %m: f32[1,1,2,2] = Conv(%r, %v, %c) "m" from("m", "y")
  output %y
`, ""),
		Entry("but not where the product has more of them", 20, `
  input %x: f32[1,2,2,3]
  const %w = f32[3,2]{1, 2, 3, 4, 5, 6}
  const %k = f32[2,1,1,1]{1, 2}
  %p = MatMul(%x, %w) "p"
  %t = Transpose(%p; perm=[0, 3, 1, 2]) "t"
  %y = Conv(%t, %k; group=2) "y"
  output %y
`, `
  input %x: f32[1,2,2,3]
  const %w = f32[3,2]{1, 2, 3, 4, 5, 6}
  const %k = f32[2,1,1,1]{1, 2}
  %p: f32[1,2,2,2] = MatMul(%x, %w) "p"
  %t: f32[1,2,2,2] = Transpose(%p; perm=[0, 3, 1, 2]) "t"
  %y: f32[1,2,2,2] = Conv(%t, %k; group=2) "y"
  output %y
`, ""),
		Entry("nor where something else reads the tokens", 20, `
  input %x: f32[1,4,2]
  const %w = f32[2,3]{1, 2, 3, 4, 5, 6}
  const %k = f32[3,1,1,1]{1, 2, 3}
  const %image = i64[4]{1, 3, 2, 2}
  %p = MatMul(%x, %w) "p"
  %t = Transpose(%p; perm=[0, 2, 1]) "t"
  %i = Reshape(%t, %image) "i"
  %y = Conv(%i, %k; group=3) "y"
  output %y
  output %p
`, `
  input %x: f32[1,4,2]
  const %w = f32[2,3]{1, 2, 3, 4, 5, 6}
  const %k = f32[3,1,1,1]{1, 2, 3}
  const $0 = i64[4]{1, 2, 2, 3}
  %p: f32[1,4,3] = MatMul(%x, %w) "p"
  %i: f32[1,3,2,2] = Transpose(%t; perm=[0, 3, 1, 2]) "t"
  %t: f32[1,2,2,3] = Reshape(%p, $0) "i"
  %y: f32[1,3,2,2] = Conv(%i, %k; group=3) "y"
  output %y, %p
`, ""),
		Entry("of an image whose size a run knows", 20, `
  input %x: f32[N,3,H,W]
  const %k = f32[3,1,1,1]{1, 2, 3}
  const %tokens = i64[3]{0, 3, -1}
  %d = Conv(%x, %k; group=3) "d"
  %r = Reshape(%d, %tokens) "r"
  %s = Transpose(%r; perm=[0, 2, 1]) "s"
  %y = Relu(%s) "y"
  output %y
`, `
  input %x: f32[N,3,H,W]
  const %k = f32[3,1,1,1]{1, 2, 3}
  dims $0 = i64 [N,H*W,3]
  %d: f32[N,3,H,W] = Conv(%x, %k; group=3) "d"
  %y: f32[N,H*W,3] = Reshape(%s, $0; allowzero=1) "r"
  %s: f32[N,H,W,3] = Transpose(%r; perm=[0, 2, 3, 1]) "s"
  %r: f32[N,3,H,W] = Relu(%d) "y"
  output %y
`, ""),
	)

	It("computes the same", func() {
		for _, c := range []struct{ batch, height, width, in, hidden, out int }{{1, 2, 3, 4, 8, 4}, {2, 3, 3, 5, 6, 3}, {3, 1, 4, 6, 4, 7}, {1, 1, 1, 2, 3, 1}, {2, 4, 1, 1, 2, 1}} {
			for _, views := range []bool{false, true} {
				sameResults(parse(statements(20, feedForward(c.batch, c.height, c.width, c.in, c.hidden, c.out, views))), 1e-4)
			}
		}
	})
})

// feedForward is the text of tokens that are multiplied, convolved as an image, activated and multiplied again, as views of a sequence or as
// they are.
func feedForward(batch, height, width, in, hidden, out int, views bool) string {
	weights := func(name string, dims ...int) string {
		n, shape := 1, ""
		for i, d := range dims {
			n *= d
			shape += strings.Repeat(",", min(i, 1)) + strconv.Itoa(d)
		}
		text := make([]string, n)
		for i := range text {
			text[i] = strconv.Itoa((i*7+len(name))%11 - 5)
		}
		return fmt.Sprintf("  const %%%s = f32[%s]{%s}\n", name, shape, strings.Join(text, ", "))
	}
	body := weights("w", in, hidden) + weights("b", hidden) + weights("k", hidden, 1, 3, 3) + weights("v", hidden, out) + weights("c", out)
	if !views {
		return fmt.Sprintf("  input %%x: f32[%d,%d,%d,%d]\n", batch, height, width, in) + body + `
  %p = MatMul(%x, %w) "p"
  %q = Add(%p, %b) "q"
  %t = Transpose(%q; perm=[0, 3, 1, 2]) "t"
  %d = Conv(%t, %k; group=` + strconv.Itoa(hidden) + `, pads=[1, 1, 1, 1]) "d"
  %s = Transpose(%d; perm=[0, 2, 3, 1]) "s"
  %g = Softsign(%s) "g"
  %m = MatMul(%g, %v) "m"
  %y = Add(%c, %m) "y"
  output %y
`
	}
	return fmt.Sprintf("  input %%x: f32[%d,%d,%d]\n", batch, height*width, in) + body +
		fmt.Sprintf("  const %%image = i64[4]{%d, %d, %d, %d}\n  const %%tokens = i64[3]{%d, %d, -1}\n", batch, hidden, height, width, batch, hidden) + `
  %p = MatMul(%x, %w) "p"
  %q = Add(%p, %b) "q"
  %t = Transpose(%q; perm=[0, 2, 1]) "t"
  %i = Reshape(%t, %image) "i"
  %d = Conv(%i, %k; group=` + strconv.Itoa(hidden) + `, pads=[1, 1, 1, 1]) "d"
  %r = Reshape(%d, %tokens) "r"
  %s = Transpose(%r; perm=[0, 2, 1]) "s"
  %g = Softsign(%s) "g"
  %m = MatMul(%g, %v) "m"
  %y = Add(%c, %m) "y"
  output %y
`
}
