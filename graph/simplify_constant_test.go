package graph_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Simplify, of constants and shapes,", func() {
	DescribeTable("folds constants", simplifiesTo,
		Entry("a chain of them", 13, `
  const %a = f32[2]{1, 2}
  const %b = f32[]{3}
  input %x: f32[2]
  %c = Mul(%a, %b) "c"
  %d = Neg(%c) "d"
  %y = Add(%x, %d) "y"
  output %y, %c
`, `
  input %x: f32[2]
  const %c = f32[2]{3, 6}
  const %d = f32[2]{-3, -6}
  %y: f32[2] = Add(%x, %d) "y"
  output %y, %c
`, "c:constant d:constant"),
		Entry("Constant nodes of every attribute", 13, `
  input %x: f32[2]
  %a = Constant(; value=f32[2]{1, 2}) "a"
  %b = Constant(; value_float=2.0) "b"
  %c = Constant(; value_ints=[1, 2]) "c"
  %d = Constant(; value_string="s") "d"
  %y = Add(%x, %a) "y"
  output %y, %b, %c, %d
`, `
  input %x: f32[2]
  const %a = f32[2]{1, 2}
  const %b = f32[]{2}
  const %c = i64[2]{1, 2}
  const %d = str[]{"s"}
  %y: f32[2] = Add(%x, %a) "y"
  output %y, %b, %c, %d
`, "a:constant b:constant c:constant d:constant"),
		Entry("not random ones", 13, `
  const %a = f32[2]{1, 2}
  %y: f32[2] = RandomNormalLike(%a) "y"
  %z: f32[2] = RandomNormalLike(%a) "z"
  output %y, %z
`, `
  const %a = f32[2]{1, 2}
  %y: f32[2] = RandomNormalLike(%a) "y"
  %z: f32[2] = RandomNormalLike(%a) "z"
  output %y, %z
`, ""),
		Entry("nor Dropout in training", 13, `
  const %a = f32[2]{1, 2}
  const %r = f32[]{0.5}
  const %t = bool[]{true}
  %y = Dropout(%a, %r, %t) "y"
  %z = Dropout(%a, %r, %t) "z"
  output %y, %z
`, `
  const %a = f32[2]{1, 2}
  const %r = f32[]{0.5}
  const %t = bool[]{true}
  %y: f32[2] = Dropout(%a, %r, %t) "y"
  %z: f32[2] = Dropout(%a, %r, %t) "z"
  output %y, %z
`, ""),
		Entry("not unknown ones", 13, `
  const %a = f32[2]{1, 2}
  %y: f32[2] = com.example::Op(%a) "y"
  output %y
`, `
  const %a = f32[2]{1, 2}
  %y: f32[2] = com.example::Op(%a) "y"
  output %y
`, ""),
		Entry("not those of 2^40 elements", 13, `
  const %shape = i64[2]{1048576, 1048576}
  %y = ConstantOfShape(%shape) "y"
  output %y
`, `
  const %shape = i64[2]{1048576, 1048576}
  %y: f32[1048576,1048576] = ConstantOfShape(%shape) "y"
  output %y
`, ""),
		Entry("results whose size depends on data", 13, `
  const %a = f32[3]{0, 1, 2}
  %y = NonZero(%a) "y"
  output %y
`, `
  const %y = i64[1,2]{1, 2}
  output %y
`, "y:constant"),
	)
	It("folds up to MaxFold bytes, and nothing where it is negative", func() {
		text := statements(13, "  const %a = f32[4]{1, 2, 3, 4}\n  %y = Neg(%a) \"y\"\n  output %y\n")
		for limit, want := range map[int64]string{16: "y:constant", 15: "", -1: ""} {
			Expect(folded(simplify(parse(text), graph.SimplifyOptions{MaxFold: limit}))).To(Equal(want))
		}
	})
	It("transposes constants of any size, which take no more place than they do", func() {
		text := statements(13, "  const %a = f32[2,2]{1, 2, 3, 4}\n  %y = Transpose(%a) \"y\"\n  output %y\n")
		for limit, want := range map[int64]string{8: "y:constant", -1: ""} {
			Expect(folded(simplify(parse(text), graph.SimplifyOptions{MaxFold: limit}))).To(Equal(want))
		}
	})
	DescribeTable("does without what an evaluator should not return",
		func(results ...tensor.Value) {
			g := parse(statements(13, "  const %a = f32[2]{1, 2}\n  %y = Neg(%a) \"y\"\n  output %y\n"))
			Expect(folded(simplify(g, graph.SimplifyOptions{Evaluator: fixed(results)}))).To(BeEmpty())
		},
		Entry("nothing, or an error"),
		Entry("nil", tensor.Value(nil)),
		Entry("another dtype", tensor.From([]int64{1, 2})),
		Entry("another shape", tensor.From([]float32{1, 2, 3})),
		Entry("another rank", tensor.From([]float32{1, 2}, 1, 2)),
		Entry("a malformed tensor", &tensor.Tensor{DType: tensor.Float32, Shape: []int{2}}),
		Entry("a sequence", &tensor.Sequence{}),
	)
	DescribeTable("turns shape arithmetic into dims values", simplifiesTo,
		Entry("Reshape by its own shape", 13, `
  input %x: f32[N,3,8]
  const %zero = i64[]{0}
  const %minus = i64[1]{-1}
  const %axes = i64[1]{0}
  %s = Shape(%x) "s"
  %n = Gather(%s, %zero) "n"
  %u = Unsqueeze(%n, %axes) "u"
  %t = Concat(%u, %minus; axis=0) "t"
  %y = Reshape(%x, %t) "y"
  output %y
`, `
  input %x: f32[N,3,8]
  dims %t = i64 [N,-1]
  %y: f32[N,24] = Reshape(%x, %t) "y"
  output %y
`, "s:shape n:shape u:shape t:shape"),
		Entry("numbers, where the dims are known", 13, `
  input %x: f32[2,3]
  %s = Shape(%x) "s"
  %y = ConstantOfShape(%s) "y"
  %z = Add(%x, %y) "z"
  output %z, %s
`, `
  input %x: f32[2,3]
  const %s = i64[2]{2, 3}
  const %y = f32[2,3]{0, 0, 0, 0, 0, 0}
  %z: f32[2,3] = Add(%x, %y) "z"
  output %z, %s
`, "s:shape y:constant"),
		Entry("not where data determine the dims", 13, `
  input %x: f32[N]
  %i = NonZero(%x) "i"
  %s: i64[2] = Shape(%i) "s"
  output %s
`, `
  input %x: f32[N]
  %i: i64[1,?1] = NonZero(%x) "i"
  %s: i64[2] dims [1,?1] = Shape(%i) "s"
  output %s
`, ""),
	)

	It("computes large constants of nodes that are alike once", func() {
		g := graph.New("g")
		g.Opsets[""] = 17
		x, w := g.AddInput("x", graph.TensorType(tensor.Float32, graph.Shape{graph.D(1), graph.D(130)})), g.AddConst("w", tensor.From(make([]float32, 130*131), 131, 130))
		var out []*graph.Value
		for range 3 {
			t := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Transpose"}, Inputs: []*graph.Value{w}, Outputs: []string{""}})
			y := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Inputs: []*graph.Value{x, t.Outputs[0]}, Outputs: []string{""}})
			x2 := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Inputs: []*graph.Value{y.Outputs[0], w}, Outputs: []string{""}})
			x = x2.Outputs[0]
			out = append(out, x)
		}
		g.SetOutputs(out...)
		var asked asked
		simplify(g, graph.SimplifyOptions{Evaluator: &asked})
		Expect(asked.ops).To(Equal([]string{"Transpose"}))
	})
})

// fixed is an evaluator that always returns the same.
type fixed []tensor.Value

func (f fixed) Eval(context.Context, *graph.Node, []tensor.Value) ([]tensor.Value, error) {
	if f == nil {
		return nil, errStop
	}
	return f, nil
}
