package graph_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("Simplify, of transpositions,", func() {
	DescribeTable("takes them where they cancel, or fewer are left", simplifiesTo,
		Entry("behind a Concat of what was quantised with different scales", 21, `
  input %x: u8[1,2,4,5]
  input %z: u8[1,3,4,5]
  const %s = f32[1]{0.5}
  const %t = f32[]{0.25}
  const %zero = u8[]{3}
  const %zeros = u8[1]{3}
  %a = Transpose(%x; perm=[0, 2, 3, 1]) "a"
  %b = Transpose(%z; perm=[0, 2, 3, 1]) "b"
  %c = DequantizeLinear(%a, %s, %zeros; axis=3) "c"
  %d = DequantizeLinear(%b, %t, %zero) "d"
  %e = Concat(%c, %d; axis=-1) "e"
  %y = Transpose(%e; perm=[0, 3, 1, 2]) "y"
  output %y
`, `
  input %x: u8[1,2,4,5]
  input %z: u8[1,3,4,5]
  const %s = f32[1]{0.5}
  const %t = f32[]{0.25}
  const %zero = u8[]{3}
  const %zeros = u8[1]{3}
  %c: f32[1,2,4,5] = DequantizeLinear(%x, %s, %zeros; axis=1) "c"
  %d: f32[1,3,4,5] = DequantizeLinear(%z, %t, %zero) "d"
  %y: f32[1,5,4,5] = Concat(%c, %d; axis=1) "e"
  output %y
`, "a:forwarded b:forwarded y:forwarded"),
		Entry("behind a bias of the last axis and an activation", 21, `
  input %x: f32[2,3,4,5]
  const %bias = f32[3]{1, 2, 3}
  const %low = f32[]{0}
  %a = Transpose(%x; perm=[0, 2, 3, 1]) "a"
  %b = Add(%a, %bias) "b"
  %c = Clip(%b, %low) "c"
  %y = Transpose(%c; perm=[0, 3, 1, 2]) "y"
  output %y
`, `
  input %x: f32[2,3,4,5]
  const %low = f32[]{0}
  const %bias = f32[1,3,1,1]{1, 2, 3}
  %b: f32[2,3,4,5] = Add(%x, %bias) "b"
  %y: f32[2,3,4,5] = Clip(%b, %low) "c"
  output %y
`, "a:forwarded y:forwarded"),
		Entry("behind an activation of a length that only a run knows, with a Concat behind", 21, `
  input %x: f32[3,4]
  const %c = bool[4]{true, false, true, true}
  %k = Compress(%x, %c; axis=1) "k"
  %a = Transpose(%k; perm=[1, 0]) "a"
  %b = Relu(%a) "b"
  %d = Transpose(%b; perm=[1, 0]) "d"
  %y = Concat(%d, %k; axis=1) "y"
  output %y
`, `
  input %x: f32[3,4]
  const %c = bool[4]{true, false, true, true}
  %k: f32[3,?1] = Compress(%x, %c; axis=1) "k"
  %b: f32[3,?1] = Relu(%k) "b"
  %y: f32[3,2*?1] = Concat(%b, %k; axis=1) "y"
  output %y
`, "a:forwarded d:forwarded"),
		Entry("behind a sum of two, of which one is left", 21, `
  input %x: f32[2,3,4]
  input %z: f32[2,1,4]
  %a = Transpose(%x; perm=[2, 0, 1]) "a"
  %b = Transpose(%z; perm=[2, 0, 1]) "b"
  %y = Add(%a, %b) "y"
  output %y
`, `
  input %x: f32[2,3,4]
  input %z: f32[2,1,4]
  $0: f32[2,3,4] = Add(%x, %z) "y"
  %y: f32[4,2,3] = Transpose($0; perm=[2, 0, 1]) "a" from("a", "b")
  output %y
`, ""),
		Entry("behind numbers that are quantised with a scale of one, before there was an axis", 10, `
  input %x: u8[1,2,4]
  const %s = f32[1]{0.5}
  const %z = u8[1]{3}
  %a = Transpose(%x; perm=[0, 2, 1]) "a"
  %b = DequantizeLinear(%a, %s, %z) "b"
  %y = Transpose(%b; perm=[0, 2, 1]) "y"
  output %y
`, `
  input %x: u8[1,2,4]
  const %s = f32[1]{0.5}
  const %z = u8[1]{3}
  %y: f32[1,2,4] = DequantizeLinear(%x, %s, %z) "b"
  output %y
`, "a:forwarded y:forwarded"),
		Entry("behind a value and a function of it that are multiplied, which pay together only", 21, `
  input %x: f32[1,8,4,5]
  %a = Transpose(%x; perm=[0, 2, 3, 1]) "a"
  %s = Tanh(%a) "s"
  %m = Mul(%a, %s) "m"
  %y = Transpose(%m; perm=[0, 3, 1, 2]) "y"
  %z = Transpose(%m; perm=[0, 3, 1, 2]) "z"
  %u = Relu(%y) "u"
  %v = Exp(%z) "v"
  output %u
  output %v
`, `
  input %x: f32[1,8,4,5]
  %s: f32[1,8,4,5] = Tanh(%x) "s"
  %m: f32[1,8,4,5] = Mul(%x, %s) "m"
  %u: f32[1,8,4,5] = Relu(%m) "u"
  %v: f32[1,8,4,5] = Exp(%m) "v"
  output %u, %v
`, "y:forwarded a:forwarded z:forwarded"),
		Entry("behind what an operand that moves nothing is multiplied with, though its own reader wants it as it is", 21, `
  input %x: f32[1,8,4,5]
  input %w: f32[1,8,1,1]
  %a = Transpose(%x; perm=[0, 2, 3, 1]) "a"
  %b = Transpose(%w; perm=[0, 2, 3, 1]) "b"
  %s = Softmax(%b) "s"
  %m = Mul(%a, %b) "m"
  %t = Tanh(%m) "t"
  %n = Add(%m, %t) "n"
  %y = Transpose(%n; perm=[0, 3, 1, 2]) "y"
  output %y
  output %s
`, `
  input %x: f32[1,8,4,5]
  input %w: f32[1,8,1,1]
  %b: f32[1,1,1,8] = Transpose(%w; perm=[0, 2, 3, 1]) "b"
  %s: f32[1,1,1,8] = Softmax(%b) "s"
  %m: f32[1,8,4,5] = Mul(%x, %w) "m"
  %t: f32[1,8,4,5] = Tanh(%m) "t"
  %y: f32[1,8,4,5] = Add(%m, %t) "n"
  output %y, %s
`, "a:forwarded y:forwarded"),
		Entry("not where a value and a function of it are read as they lie", 21, `
  input %x: f32[1,8,4,5]
  %a = Transpose(%x; perm=[0, 2, 3, 1]) "a"
  %s = Tanh(%a) "s"
  %m = Mul(%a, %s) "m"
  %y = Softmax(%m) "y"
  output %y
`, `
  input %x: f32[1,8,4,5]
  %a: f32[1,4,5,8] = Transpose(%x; perm=[0, 2, 3, 1]) "a"
  %s: f32[1,4,5,8] = Tanh(%a) "s"
  %m: f32[1,4,5,8] = Mul(%a, %s) "m"
  %y: f32[1,4,5,8] = Softmax(%m) "y"
  output %y
`, ""),
		Entry("not behind scales of an axis that there is not", 21, `
  input %x: u8[1,2,4]
  const %s = f32[1]{0.5}
  const %z = u8[1]{3}
  %a = Transpose(%x; perm=[0, 2, 1]) "a"
  %b = DequantizeLinear(%a, %s, %z; axis=9) "b"
  %y = Transpose(%b; perm=[0, 2, 1]) "y"
  output %y
`, `
  input %x: u8[1,2,4]
  const %s = f32[1]{0.5}
  const %z = u8[1]{3}
  %a: u8[1,4,2] = Transpose(%x; perm=[0, 2, 1]) "a"
  %b: f32[1,4,2] = DequantizeLinear(%a, %s, %z; axis=9) "b"
  %y: f32[1,2,4] = Transpose(%b; perm=[0, 2, 1]) "y"
  output %y
`, ""),
		Entry("not where none is gone, as nothing undoes it", 21, `
  input %x: f32[2,3,4]
  %a = Transpose(%x; perm=[2, 0, 1]) "a"
  %y = Relu(%a) "y"
  output %y
`, `
  input %x: f32[2,3,4]
  %a: f32[4,2,3] = Transpose(%x; perm=[2, 0, 1]) "a"
  %y: f32[4,2,3] = Relu(%a) "y"
  output %y
`, ""),
		Entry("not behind what is added to each element", 21, `
  input %x: f32[2,3]
  input %z: f32[3,2]
  %a = Transpose(%x) "a"
  %b = Add(%a, %z) "b"
  %y = Transpose(%b) "y"
  output %y
`, `
  input %x: f32[2,3]
  input %z: f32[3,2]
  %a: f32[3,2] = Transpose(%x) "a"
  %b: f32[3,2] = Add(%a, %z) "b"
  %y: f32[2,3] = Transpose(%b) "y"
  output %y
`, ""),
	)

	It("computes the same in random graphs", func() {
		sunk := 0
		for seed := range uint64(150) {
			g := parse(transposed(rand.New(rand.NewPCG(seed, 3))))
			sameResults(g, 0, "fold-affine") // which rounds differently
			for _, p := range simplify(g, graph.SimplifyOptions{}).Passes {
				if p.Name == "sink-transposes" {
					sunk += p.Changes
				}
			}
		}
		Expect(sunk).To(BeNumerically(">", 50))
	})
})

// transposed writes a random graph of transpositions, element-wise operators and Concats of tensors of rank 3.
func transposed(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("graph {\n  opset 21\n  input %v0: f32[2,3,4]\n  const %s = f32[]{0.5}\n")
	dims := [][]int{{2, 3, 4}}
	perms := [][]int{{1, 2, 0}, {2, 0, 1}, {0, 2, 1}, {1, 0, 2}}
	add := func(d []int, format string, args ...any) {
		fmt.Fprintf(&b, "  %%v%d = %s\n", len(dims), fmt.Sprintf(format, args...))
		dims = append(dims, d)
	}
	for range 25 {
		i := len(dims) - 1 - r.IntN(min(len(dims), 3))
		d := dims[i]
		switch r.IntN(6) {
		case 0, 1:
			p := perms[r.IntN(len(perms))]
			add([]int{d[p[0]], d[p[1]], d[p[2]]}, "Transpose(%%v%d; perm=[%d, %d, %d])", i, p[0], p[1], p[2])
		case 2:
			add(d, "%s(%%v%d)", []string{"Relu", "Neg", "Abs"}[r.IntN(3)], i)
		case 3:
			fmt.Fprintf(&b, "  const %%c%d = f32[%d]{%s}\n", len(dims), d[2], strings.TrimSuffix(strings.Repeat("1.5, ", d[2]), ", "))
			add(d, "%s(%%v%d, %%c%d)", []string{"Add", "Mul"}[r.IntN(2)], i, len(dims))
		default:
			j := len(dims) - 1 - r.IntN(min(len(dims), 6))
			if dims[j][0] == d[0] && dims[j][1] == d[1] && dims[j][2] == d[2] {
				add(d, "Sub(%%v%d, %%v%d)", i, j)
			} else if dims[j][1] == d[1] && dims[j][2] == d[2] {
				add([]int{d[0] + dims[j][0], d[1], d[2]}, "Concat(%%v%d, %%v%d; axis=0)", i, j)
			} else if dims[j][0] == d[0] && dims[j][1] == d[1] {
				add([]int{d[0], d[1], d[2] + dims[j][2]}, "Concat(%%v%d, %%v%d; axis=-1)", i, j)
			}
		}
	}
	fmt.Fprintf(&b, "  output %%v%d\n  output %%v%d\n}", len(dims)-1, max(len(dims)-3, 0))
	return b.String()
}
