package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// floatsAlone ranks nodes as a backend for float32 in front of one for everything would: operators that move elements, and IsNaN, it
// runs in any type, and Softplus, which stands for what it does not know, not at all.
func floatsAlone(n *graph.Node) int {
	if n.Is("Reshape", "Transpose", "Concat", "Gather", "Shape", "Cast", "IsNaN") {
		return 0
	}
	if n.Is("Softplus") {
		return 1
	}
	for _, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v != nil && (v.Type.DType == tensor.Float16 || v.Type.DType == tensor.BFloat16) {
				return 1
			}
		}
	}
	return 0
}

var _ = DescribeTable("nodes of half precision compute in float32", func(body, want, gone string) {
	g := parse(statements(20, body))
	report := simplify(g, graph.SimplifyOptions{Rank: floatsAlone})
	Expect(g.Sort()).To(Succeed())
	Expect(g.String()).To(Equal(statements(20, want)))
	Expect(folded(report)).To(Equal(gone))
},
	Entry("with casts at the edges alone, and constants shared", `
  input %x: f16[2,2]
  const %w = f16[2,2]{1, 0.5, 2, 0.25}
  %a = MatMul(%x, %w) "a"
  %b = Tanh(%a) "b"
  %y = MatMul(%b, %w) "y"
  output %y
`, `
  input %x: f16[2,2]
  const %w = f32[2,2]{1, 0.5, 2, 0.25}
  $0: f32[2,2] = Cast(%x; to=1)
  %a: f32[2,2] = MatMul($0, %w) "a"
  %b: f32[2,2] = Tanh(%a) "b"
  $1: f32[2,2] = MatMul(%b, %w) "y"
  %y: f16[2,2] = Cast($1; to=10)
  output %y
`, ""),
	Entry("and round after each operator where the model says so", `
  meta "half_precision" = "rounded"
  input %x: f16[2,2]
  %a = Exp(%x) "a"
  %r = Transpose(%a; perm=[1, 0]) "r"
  %b = Tanh(%r) "b"
  %c = Cast(%a; to=1) "c"
  %y = Sin(%c) "y"
  output %b, %y
`, `
  meta "half_precision" = "rounded"
  input %x: f16[2,2]
  $0: f32[2,2] = Cast(%x; to=1)
  %a: f32[2,2] = Exp($0) "a"
  $1: f16[2,2] = Cast(%a; to=10)
  %r: f16[2,2] = Transpose($1; perm=[1, 0]) "r"
  $2: f32[2,2] = Cast(%r; to=1)
  $3: f32[2,2] = Tanh($2) "b"
  %c: f32[2,2] = Cast($1; to=1) "c"
  %y: f32[2,2] = Sin(%c) "y"
  %b: f16[2,2] = Cast($3; to=10)
  output %b, %y
`, ""),
	Entry("but for caches, which are continued as they are", `
  input %past: f16[2,N]
  input %x: f16[2,1]
  %a = Exp(%x) "a"
  %all = Concat(%past, %a; axis=1) "all"
  %b = Tanh(%all) "b"
  %c = Sin(%x) "c"
  %inner = Concat(%past, %c; axis=1) "inner"
  %d = Tanh(%inner) "d"
  output %all, %b, %d
`, `
  input %past: f16[2,N]
  input %x: f16[2,1]
  $0: f32[2,1] = Cast(%x; to=1)
  %a: f32[2,1] = Exp($0) "a"
  $1: f16[2,1] = Cast(%a; to=10)
  %all: f16[2,N+1] = Concat(%past, $1; axis=1) "all"
  $2: f32[2,N+1] = Cast(%all; to=1)
  $3: f32[2,N+1] = Tanh($2) "b"
  %c: f32[2,1] = Sin($0) "c"
  $4: f32[2,N] = Cast(%past; to=1)
  %inner: f32[2,N+1] = Concat($4, %c; axis=1) "inner"
  $5: f32[2,N+1] = Tanh(%inner) "d"
  %b: f16[2,N+1] = Cast($3; to=10)
  %d: f16[2,N+1] = Cast($5; to=10)
  output %all, %b, %d
`, ""),
	Entry("of each type of half precision", `
  input %x: bf16[2]
  %y = Exp(%x) "y"
  output %y
`, `
  input %x: bf16[2]
  $0: f32[2] = Cast(%x; to=1)
  $1: f32[2] = Exp($0) "y"
  %y: bf16[2] = Cast($1; to=16)
  output %y
`, ""),
	Entry("and outputs keep their names where others read on", `
  input %x: f16[2]
  %a = Exp(%x) "a"
  %b = Exp(%a) "b"
  output %a, %b
`, `
  input %x: f16[2]
  $0: f32[2] = Cast(%x; to=1)
  $1: f32[2] = Exp($0) "a"
  $2: f32[2] = Exp($1) "b"
  %a: f16[2] = Cast($1; to=10)
  %b: f16[2] = Cast($2; to=10)
  output %a, %b
`, ""),
	Entry("but for those that nobody runs better so", `
  input %x: f16[2]
  %a = Exp(%x) "a"
  %b = Softplus(%a) "b"
  %c = Exp(%b) "c"
  output %c
`, `
  input %x: f16[2]
  $0: f32[2] = Cast(%x; to=1)
  %a: f32[2] = Exp($0) "a"
  $1: f16[2] = Cast(%a; to=10)
  %b: f16[2] = Softplus($1) "b"
  $2: f32[2] = Cast(%b; to=1)
  $3: f32[2] = Exp($2) "c"
  %c: f16[2] = Cast($3; to=10)
  output %c
`, ""),
	Entry("and are asked there whether they are numbers, but not before", `
  input %x: f16[2]
  %n = IsNaN(%x) "n"
  %a = Exp(%x) "a"
  %b = IsNaN(%a) "b"
  output %n, %b
`, `
  input %x: f16[2]
  %n: bool[2] = IsNaN(%x) "n"
  $0: f32[2] = Cast(%x; to=1)
  %a: f32[2] = Exp($0) "a"
  %b: bool[2] = IsNaN(%a) "b"
  output %n, %b
`, ""),
	Entry("moves in between as well, but not before", `
  input %x: f16[2,3,4]
  %t = Transpose(%x; perm=[1, 0, 2]) "t"
  %a = Exp(%t) "a"
  %u = Transpose(%a; perm=[2, 1, 0]) "u"
  %b = Exp(%u) "b"
  output %b
`, `
  input %x: f16[2,3,4]
  %t: f16[3,2,4] = Transpose(%x; perm=[1, 0, 2]) "t"
  $0: f32[3,2,4] = Cast(%t; to=1)
  %a: f32[3,2,4] = Exp($0) "a"
  %u: f32[4,2,3] = Transpose(%a; perm=[2, 1, 0]) "u"
  $1: f32[4,2,3] = Exp(%u) "b"
  %b: f16[4,2,3] = Cast($1; to=10)
  output %b
`, ""),
	Entry("and gather rows of a table in its own type", `
  input %i: i64[1]
  const %w = f16[2,2]{1, 0.5, 2, 0.25}
  %g = Gather(%w, %i) "g"
  %b = Exp(%g) "b"
  output %b
`, `
  input %i: i64[1]
  const %w = f16[2,2]{1, 0.5, 2, 0.25}
  %g: f16[1,2] = Gather(%w, %i) "g"
  $0: f32[1,2] = Cast(%g; to=1)
  $1: f32[1,2] = Exp($0) "b"
  %b: f16[1,2] = Cast($1; to=10)
  output %b
`, ""),
	Entry("and the model's cast of one to float32 is no cast", `
  input %x: f16[2]
  %a = Exp(%x) "a"
  %b = Cast(%a; to=1) "b"
  %c = Exp(%b) "c"
  output %c
`, `
  input %x: f16[2]
  $0: f32[2] = Cast(%x; to=1)
  %a: f32[2] = Exp($0) "a"
  %c: f32[2] = Exp(%a) "c"
  output %c
`, "b:forwarded"),
	Entry("the model's cast of an operand to float32 being shared", `
  input %x: f16[2]
  %a = Exp(%x) "a"
  %b = Cast(%x; to=1) "b"
  %c = Tanh(%b) "c"
  output %a, %c
`, `
  input %x: f16[2]
  %b: f32[2] = Cast(%x; to=1) "b"
  $0: f32[2] = Exp(%b) "a"
  %c: f32[2] = Tanh(%b) "c"
  %a: f16[2] = Cast($0; to=10)
  output %a, %c
`, ""),
	Entry("the model's other casts rounding", `
  input %x: f32[2]
  %h = Cast(%x; to=10) "h"
  %a = Exp(%h) "a"
  %i = Cast(%a; to=7) "i"
  %b = Cast(%a; to=1) "b"
  %t = Tanh(%b) "t"
  %c = Cast(%t; to=10) "c"
  %d = Exp(%c) "d"
  output %i, %d
`, `
  input %x: f32[2]
  %h: f16[2] = Cast(%x; to=10) "h"
  $0: f32[2] = Cast(%h; to=1)
  %a: f32[2] = Exp($0) "a"
  $1: f16[2] = Cast(%a; to=10)
  %i: i64[2] = Cast($1; to=7) "i"
  %t: f32[2] = Tanh(%a) "t"
  %c: f16[2] = Cast(%t; to=10) "c"
  $2: f32[2] = Cast(%c; to=1)
  $3: f32[2] = Exp($2) "d"
  %d: f16[2] = Cast($3; to=10)
  output %i, %d
`, "b:forwarded"),
	Entry("what else comes of an operator staying as it is", `
  input %x: f16[1,2,3]
  %v, %i = MaxPool(%x; kernel_shape=[1]) "p"
  %s = Shape(%v) "s"
  output %v, %i, %s
`, `
  input %x: f16[1,2,3]
  const %s = i64[3]{1, 2, 3}
  $0: f32[1,2,3] = Cast(%x; to=1)
  $1: f32[1,2,3], %i: i64[1,2,3] = MaxPool($0; kernel_shape=[1]) "p"
  %v: f16[1,2,3] = Cast($1; to=10)
  output %v, %i, %s
`, "s:shape"),
	Entry("but for quantisation, and results whose type is an attribute's", `
  input %x: f16[2]
  input %n: i64[1]
  const %s = f16[]{0.5}
  %q = QuantizeLinear(%x, %s) "q"
  %d = DequantizeLinear(%q, %s) "d"
  %c = ConstantOfShape(%n; value=f16[1]{1}) "c"
  output %d, %c
`, `
  input %x: f16[2]
  input %n: i64[1] dims [?i1]
  const %s = f16[]{0.5}
  %q: u8[2] = QuantizeLinear(%x, %s) "q"
  %d: f16[2] = DequantizeLinear(%q, %s) "d"
  %c: f16[?1] = ConstantOfShape(%n; value=f16[1]{1}) "c"
  output %d, %c
`, ""),
	Entry("also in regions, what they get and give being of half precision", `
  input %c: bool[]
  input %x: f16[2]
  %a = Exp(%x) "a"
  %y = If(%c | %a) "if" {
    then_branch: graph {
      capture %p: f16[2]
      %e = Exp(%p) "e"
      output %e
    }
    else_branch: graph {
      capture %p: f16[2]
      output %p
    }
  }
  output %y
`, `
  input %c: bool[]
  input %x: f16[2]
  $0: f32[2] = Cast(%x; to=1)
  %a: f32[2] = Exp($0) "a"
  $1: f16[2] = Cast(%a; to=10)
  %y: f16[2] = If(%c | $1) "if" {
    then_branch: graph {
      capture %p: f16[2]
      $0: f32[2] = Exp($1) "e"
      $1: f32[2] = Cast(%p; to=1)
      %e: f16[2] = Cast($0; to=10)
      output %e
    }
    else_branch: graph {
      capture %p: f16[2]
      output %p
    }
  }
  output %y
`, ""),
)

var _ = Describe("half precision", func() {
	It("stays without a rank", func() {
		g := parse(statements(20, "  input %x: f16[2]\n  %y = Exp(%x) \"y\"\n  output %y\n"))
		simplify(g, graph.SimplifyOptions{})
		Expect(operators(g)).To(Equal("Exp"))
	})
	It("becomes float32 before patterns of that are sought", func() {
		text := statements(20, `
  input %x: f16[2,4]
  const %e = f16[]{0.001}
  const %g = f16[4]{1, 2, 3, 4}
  const %ax = i64[1]{-1}
  %m = ReduceMean(%x, %ax) "m"
  %d = Sub(%x, %m) "d"
  %q = Mul(%d, %d) "q"
  %v = ReduceMean(%q, %ax) "v"
  %w = Add(%v, %e) "w"
  %s = Sqrt(%w) "s"
  %n = Div(%d, %s) "n"
  %y = Mul(%n, %g) "y"
  output %y
`)
		g := parse(text)
		simplify(g, graph.SimplifyOptions{Rank: floatsAlone})
		Expect(operators(g)).To(Equal("Cast LayerNormalization Cast"))
	})
})
