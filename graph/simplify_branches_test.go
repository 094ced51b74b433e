package graph_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("Convolutions of one operand that are added or subtracted", func() {
	const three, one = `Conv(%x, %w3, %b3; pads=[1,1,1,1])`, `Conv(%x, %w1)`
	weights := "  const %w3 = " + data(11, "f32", false, 4, 4, 3, 3) + "\n  const %b3 = " + data(12, "f32", false, 4) +
		"\n  const %w1 = " + data(13, "f32", false, 4, 4, 1, 1) + "\n" + batchNorm("f32", 4)
	DescribeTable("become one",
		func(body, want string) {
			text := statements(17, "  input %x: f32[2,4,7,9]\n"+weights+body)
			g := parse(text)
			simplify(g, graph.SimplifyOptions{})
			Expect(operators(g)).To(Equal(want))
			sameResults(parse(text), 1e-5)
		},
		Entry("of three taps and of one", `
  %a = `+three+` "a"
  %b = `+one+` "b"
  %y = Add(%b, %a) "add"
  output %y
`, "Conv"),
		Entry("and a normalisation between them", `
  %a = `+three+` "a"
  %n = BatchNormalization(%x, %scale, %shift, %mean, %var) "n"
  %b = `+one+` "b"
  %s = Add(%b, %n) "s"
  %t = Add(%s, %a) "t"
  %y = Relu(%t) "r"
  output %y
`, "Conv Relu"),
		Entry("with something else between them", `
  %a = `+three+` "a"
  %b = `+one+` "b"
  %s = Add(%x, %a) "s"
  %y = Add(%s, %b) "t"
  output %y
`, "Conv Add"),
		Entry("of which one is subtracted", `
  %a = `+three+` "a"
  %b = `+one+` "b"
  %y = Sub(%a, %b) "sub"
  output %y
`, "Conv"),
		Entry("not of which the wider is subtracted", `
  %n = BatchNormalization(%x, %scale, %shift, %mean, %var) "n"
  %a = `+three+` "a"
  %b = `+one+` "b"
  %s = Add(%b, %n) "s"
  %y = Sub(%s, %a) "sub"
  output %y
`, "Conv Conv Sub"),
		Entry("of which a sum is subtracted from one, but for that", `
  %n = BatchNormalization(%x, %scale, %shift, %mean, %var) "n"
  %a = `+three+` "a"
  %b = `+one+` "b"
  %s = Add(%a, %n) "s"
  %y = Sub(%b, %s) "sub"
  output %y
`, "Conv Conv Sub"),
		Entry("of which one is subtracted from a sum", `
  %n = BatchNormalization(%x, %scale, %shift, %mean, %var) "n"
  %a = `+three+` "a"
  %s = Add(%x, %a) "s"
  %y = Sub(%s, %n) "sub"
  output %y
`, "Conv Add"),
		Entry("with what is broadcast added to one", `
  input %n: f32[1,4,1,1]
  %b = `+one+` "b"
  %s = Add(%n, %b) "s"
  %a = `+three+` "a"
  %y = Add(%s, %a) "t"
  output %y
`, "Conv Add"),
		Entry("of no padding by name", `
  %a = Conv(%x, %w3; auto_pad="VALID", strides=[2,2]) "a"
  %c = Conv(%x, %w3; strides=[2,2]) "c"
  %y = Add(%a, %c) "add"
  output %y
`, "Conv"),
		Entry("dilated and of one tap", `
  %a = Conv(%x, %w3, %b3; pads=[2,2,2,2], dilations=[2,2]) "a"
  %b = `+one+` "b"
  %y = Add(%a, %b) "add"
  output %y
`, "Conv"),
		Entry("not dilated differently", `
  %a = Conv(%x, %w3; pads=[2,2,2,2], dilations=[2,2]) "a"
  %b = `+three+` "b"
  %y = Add(%a, %b) "add"
  output %y
`, "Conv Conv Add"),
		Entry("not where others read one", `
  %a = `+three+` "a"
  %b = `+one+` "b"
  %y = Add(%a, %b) "add"
  output %y, %a
`, "Conv Conv Add"),
		Entry("not where one is broadcast", `
  const %w7 = `+data(14, "f32", false, 4, 4, 7, 9)+`
  %a = `+three+` "a"
  %b = Conv(%x, %w7) "b"
  %y = Add(%a, %b) "add"
  output %y
`, "Conv Reshape Conv Add"),
		Entry("not of different operands", `
  %z = Relu(%x) "z"
  %a = `+three+` "a"
  %b = Conv(%z, %w1) "b"
  %y = Add(%a, %b) "add"
  output %y
`, "Relu Conv Conv Add"),
		Entry("not where no window holds the other", `
  const %wide = `+data(15, "f32", false, 4, 4, 1, 3)+`
  const %high = `+data(16, "f32", false, 4, 4, 3, 1)+`
  %a = Conv(%x, %wide; pads=[0,1,0,1]) "a"
  %b = Conv(%x, %high; pads=[1,0,1,0]) "b"
  %y = Add(%a, %b) "add"
  output %y
`, "Conv Conv Add"),
		Entry("not where the wider window has more groups", `
  const %d = `+data(17, "f32", false, 4, 1, 3, 3)+`
  %a = Conv(%x, %d; pads=[1,1,1,1], group=4) "a"
  %b = `+one+` "b"
  %y = Add(%a, %b) "add"
  output %y
`, "Conv Conv Add"),
		Entry("not of strides that differ", `
  const %w7 = `+data(18, "f32", false, 4, 4, 7, 1)+`
  const %w4 = `+data(19, "f32", false, 4, 4, 4, 1)+`
  %a = Conv(%x, %w7; pads=[3,0,3,0], strides=[2,1]) "a"
  %b = Conv(%x, %w4) "b"
  %y = Add(%a, %b) "add"
  output %y
`, "Conv Conv Add"),
	)
	It("compute what they did, with random windows, groups and sums", func() {
		merged := 0
		for seed := range uint64(60) {
			text := randomBranches(rand.New(rand.NewPCG(seed, 8)))
			g := parse(text)
			before := strings.Count(operators(g), "Conv") + strings.Count(operators(g), "BatchNormalization")
			simplify(g, graph.SimplifyOptions{})
			merged += before - strings.Count(operators(g), "Conv") - strings.Count(operators(g), "BatchNormalization")
			sameResults(parse(text), 1e-4)
		}
		Expect(merged).To(BeNumerically(">", 60))
	})
})

// randomBranches returns the text of a graph that adds up convolutions of one input, and other values of the same type.
func randomBranches(rng *rand.Rand) string {
	const channels = 4
	stride, group := 1+rng.IntN(2), []int{1, 2, 4}[rng.IntN(3)]
	var body strings.Builder
	fmt.Fprintf(&body, "  input %%x: f32[N,%d,8,8]\n%s", channels, batchNorm("f32", channels))
	sum := ""
	for i := range 2 + rng.IntN(4) {
		k, d, g := 1+2*rng.IntN(3), 1+rng.IntN(2), group
		if rng.IntN(4) == 0 {
			g = channels
		}
		value := fmt.Sprintf("v%d", i)
		switch {
		case stride == 1 && rng.IntN(4) == 0:
			fmt.Fprintf(&body, "  %%%s = BatchNormalization(%%x, %%scale, %%shift, %%mean, %%var) \"n%d\"\n", value, i)
		default:
			bias := ""
			fmt.Fprintf(&body, "  const %%w%d = %s\n", i, data(rng.Uint64(), "f32", false, channels, channels/g, k, k))
			if rng.IntN(2) == 0 {
				fmt.Fprintf(&body, "  const %%b%d = %s\n", i, data(rng.Uint64(), "f32", false, channels))
				bias = fmt.Sprintf(", %%b%d", i)
			}
			p := d * (k / 2)
			fmt.Fprintf(&body, "  %%%s = Conv(%%x, %%w%d%s; group=%d, pads=[%d,%d,%d,%d], strides=[%d,%d], dilations=[%d,%d]) \"c%d\"\n",
				value, i, bias, g, p, p, p, p, stride, stride, d, d, i)
		}
		if sum != "" {
			operands := []string{sum, value}
			rng.Shuffle(2, func(i, j int) { operands[i], operands[j] = operands[j], operands[i] })
			value = fmt.Sprintf("s%d", i)
			fmt.Fprintf(&body, "  %%%s = %s(%%%s, %%%s) \"a%d\"\n", value, []string{"Add", "Add", "Sub"}[rng.IntN(3)], operands[0], operands[1], i)
		}
		sum = value
	}
	fmt.Fprintf(&body, "  %%y = Relu(%%%s) \"r\"\n  output %%y\n", sum)
	return statements(17, body.String())
}
