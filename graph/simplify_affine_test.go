package graph_test

import . "github.com/onsi/ginkgo/v2"

var _ = Describe("Simplify, of what is done to channels,", func() {
	DescribeTable("leaves as little of it as there can be", func(body, want, gone string) {
		simplifiesTo(20, body, want, gone)
		sameResults(parse(statements(20, body)), 1e-5)
	},
		Entry("before a convolution that pads nothing: factors and terms", `
  input %x: f32[2,4,3,3]
  const %s = f32[4,1,1]{2, -1, 0.5, 3}
  const %b = f32[1,4,1,1]{1, 2, 3, 4}
  const %w = f32[2,2,2,1]{1, 2, 3, 4, 5, 6, 7, 8}
  %m = Mul(%s, %x) "m"
  %a = Sub(%m, %b) "a"
  %y = Conv(%a, %w; group=2) "y"
  output %y
`, `
  input %x: f32[2,4,3,3]
  const %w.bias = f32[2]{-17, -93}
  const %w = f32[2,2,2,1]{2, 4, -3, -4, 2.5, 3, 21, 24}
  %y: f32[2,2,2,3] = Conv(%x, %w, %w.bias; group=2) "y" from("m", "a", "y")
  output %y
`, ""),
		Entry("before one, by a normalisation", `
  input %x: f32[2,2,3,3]
  const %s = f32[2]{2, -1}
  const %b = f32[2]{1, 2}
  const %mean = f32[2]{0.5, 1}
  const %var = f32[2]{1, 4}
  const %w = f32[1,2,1,1]{1, 2}
  const %c = f32[1]{7}
  %n = BatchNormalization(%x, %s, %b, %mean, %var; epsilon=0.0) "n"
  %y = Conv(%n, %w, %c) "y"
  output %y
`, `
  input %x: f32[2,2,3,3]
  const %w = f32[1,2,1,1]{2, -1}
  const %c = f32[1]{12}
  %y: f32[2,1,3,3] = Conv(%x, %w, %c) "y" from("n", "y")
  output %y
`, ""),
		Entry("but not before one that pads", `
  input %x: f32[1,1,3,3]
  const %s = f32[1]{2}
  const %b = f32[1]{3}
  const %w = f32[1,1,2,2]{1, 2, 3, 4}
  %m = Add(%x, %b) "m"
  %y = Conv(%m, %w; pads=[1, 0, 0, 0]) "y"
  output %y
`, `
  input %x: f32[1,1,3,3]
  const %b = f32[1]{3}
  const %w = f32[1,1,2,2]{1, 2, 3, 4}
  %m: f32[1,1,3,3] = Add(%x, %b) "m"
  %y: f32[1,1,3,2] = Conv(%m, %w; pads=[1, 0, 0, 0]) "y"
  output %y
`, ""),
		Entry("where factors are of channels, and x is added again", `
  input %x: f32[2,3,4,5]
  input %n: f32[2,3,1,1]
  const %w = f32[1,3,1,1]{1, 2, 3}
  const %b = f32[1,3,1,1]{4, 5, 6}
  %s = Mul(%x, %n) "s"
  %t = Mul(%w, %s) "t"
  %u = Add(%t, %b) "u"
  %y = Add(%x, %u) "y"
  output %y
`, `
  input %x: f32[2,3,4,5]
  input %n: f32[2,3,1,1]
  const %w = f32[1,3,1,1]{1, 2, 3}
  const %b = f32[1,3,1,1]{4, 5, 6}
  const $0 = f32[]{1}
  %t: f32[2,3,4,5] = Mul(%x, $2) "t" from("s", "t")
  %y: f32[2,3,4,5] = Add(%t, %b) "u"
  $1: f32[2,3,1,1] = Mul(%n, %w) from()
  $2: f32[2,3,1,1] = Add($1, $0) from()
  output %y
`, "y:forwarded"),
		Entry("but not where the factors together have as many elements", `
  input %x: f32[2,3,4]
  input %n: f32[2,3,1]
  const %w = f32[4]{1, 2, 3, 4}
  %s = Mul(%x, %n) "s"
  %y = Mul(%s, %w) "y"
  output %y
`, `
  input %x: f32[2,3,4]
  input %n: f32[2,3,1]
  const %w = f32[4]{1, 2, 3, 4}
  %s: f32[2,3,4] = Mul(%x, %n) "s"
  %y: f32[2,3,4] = Mul(%s, %w) "y"
  output %y
`, ""),
	)
})
