package graph_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// kernels evaluates with the reference backend.
type kernels struct{}

func (kernels) Eval(ctx context.Context, n *graph.Node, inputs []tensor.Value) ([]tensor.Value, error) {
	return reference.Evaluate(ctx, n, inputs)
}

// names returns the provenance of all nodes, nested ones included, sorted.
func names(g *graph.Graph) []string {
	var out []string
	for n := range g.Nodes() {
		out = append(out, n.Provenance()...)
		for _, r := range n.Regions {
			out = append(out, names(r.Graph)...)
		}
	}
	slices.Sort(out)
	return out
}

// simplify infers and simplifies a graph, verifies it after every pass, and checks that no name is lost or doubled.
func simplify(g *graph.Graph, o graph.SimplifyOptions) *graph.SimplifyReport {
	GinkgoHelper()
	Expect(graph.InferGraph(g)).To(Succeed())
	Expect(graph.Verify(g)).To(Succeed())
	before := names(g)
	if o.Evaluator == nil {
		o.Evaluator = kernels{}
	}
	o.After = func(pass string, sub *graph.Graph) error { return graph.Verify(g) }
	report, err := graph.Simplify(context.Background(), g, &o)
	Expect(err).NotTo(HaveOccurred())
	after := names(g)
	for _, f := range report.Folded {
		after = append(after, f.Name)
	}
	slices.Sort(after)
	Expect(after).To(Equal(before))
	return report
}

// folded returns the report's list as text.
func folded(r *graph.SimplifyReport) string {
	var parts []string
	for _, f := range r.Folded {
		parts = append(parts, f.Name+":"+f.Kind.String())
	}
	return strings.Join(parts, " ")
}

// execute runs a graph without regions with the reference kernels.
func execute(g *graph.Graph, feed map[string]*tensor.Tensor) []*tensor.Tensor {
	GinkgoHelper()
	values := map[*graph.Value]tensor.Value{}
	bindings := graph.Bindings{}
	for _, v := range g.Inputs {
		t := feed[v.Name]
		Expect(t).NotTo(BeNil(), v.Name)
		values[v] = t
		for i, d := range v.Type.Shape {
			if s, ok := d.Symbol(); ok {
				bindings[s] = int64(t.Shape[i])
			}
		}
	}
	for v := range g.Constants() {
		if v.Const != nil {
			values[v] = v.Const
			continue
		}
		dims, err := graph.Shape(v.Dims).Eval(bindings, nil)
		Expect(err).NotTo(HaveOccurred())
		t, err := tensor.New(v.Type.DType, make([]int, 0)...)
		if len(v.Type.Shape) == 1 {
			t, err = tensor.New(v.Type.DType, len(dims))
		}
		Expect(err).NotTo(HaveOccurred())
		ints := make([]int64, len(dims))
		for i, d := range dims {
			ints[i] = int64(d)
		}
		Expect(tensor.EncodeInts(t, ints)).To(Succeed())
		values[v] = t
	}
	order, err := g.Topo()
	Expect(err).NotTo(HaveOccurred())
	for _, n := range order {
		inputs := make([]tensor.Value, len(n.Inputs))
		for i, v := range n.Inputs {
			if v != nil {
				inputs[i] = values[v]
			}
		}
		results, err := reference.Evaluate(context.Background(), n, inputs)
		Expect(err).NotTo(HaveOccurred(), n.String())
		for i, v := range n.Outputs {
			if v != nil {
				values[v] = results[i]
			}
		}
	}
	var out []*tensor.Tensor
	for _, v := range g.Outputs {
		out = append(out, values[v].(*tensor.Tensor))
	}
	return out
}

// sameResults simplifies a copy of g and compares what both compute of random operands.
func sameResults(g *graph.Graph, tolerance float64) {
	GinkgoHelper()
	rng := rand.New(rand.NewPCG(3, 4))
	feed := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		dims := make([]int, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			n, ok := d.Const()
			if dims[i] = int(n); !ok {
				dims[i] = 3
			}
		}
		t, err := tensor.New(v.Type.DType, dims...)
		Expect(err).NotTo(HaveOccurred())
		data := make([]float64, t.Len())
		for i := range data {
			data[i] = rng.NormFloat64() * 3
		}
		Expect(tensor.Encode(t, data)).To(Succeed())
		feed[v.Name] = t
	}
	h, err := g.Clone()
	Expect(err).NotTo(HaveOccurred())
	simplify(h, graph.SimplifyOptions{})
	Expect(graph.InferGraph(g)).To(Succeed())
	want, got := execute(g, feed), execute(h, feed)
	Expect(got).To(HaveLen(len(want)))
	for i := range want {
		Expect(got[i].DType).To(Equal(want[i].DType))
		Expect(got[i].Shape).To(Equal(want[i].Shape))
		for k := range want[i].Len() {
			a, b := want[i].Float64At(k), got[i].Float64At(k)
			if a == b || math.IsNaN(a) && math.IsNaN(b) {
				continue
			}
			Expect(math.Abs(a-b)).To(BeNumerically("<=", tolerance*(1+math.Abs(a))), "output %d, element %d: %v, was %v", i, k, b, a)
		}
	}
}

// statements wraps lines in a graph of that operator set.
func statements(opset int, body string) string {
	return fmt.Sprintf("graph \"g\" {\n  opset %d\n%s}\n", opset, strings.TrimPrefix(body, "\n"))
}

var _ = Describe("Simplify", func() {
	row := func(opset int, body, want, gone string) {
		GinkgoHelper()
		g := parse(statements(opset, body))
		report := simplify(g, graph.SimplifyOptions{})
		Expect(g.String()).To(Equal(statements(opset, want)))
		Expect(folded(report)).To(Equal(gone))
	}
	DescribeTable("folds constants", row,
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
	DescribeTable("turns shape arithmetic into dims values", row,
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
	DescribeTable("removes what does nothing", row,
		Entry("Identity between others", 13, `
  input %x: f32[2]
  %a = Neg(%x) "a"
  %b = Identity(%a) "b"
  %y = Neg(%b) "y"
  output %y
`, `
  input %x: f32[2]
  %a: f32[2] = Neg(%x) "a"
  %y: f32[2] = Neg(%a) "y"
  output %y
`, "b:forwarded"),
		Entry("Identity of an input", 13, `
  input %x: f32[2]
  %y = Identity(%x) "y"
  output %y
`, `
  input %x: f32[2]
  output %x
`, "y:forwarded"),
		Entry("an output's name stays with an inner value", 13, `
  input %x: f32[2]
  %a = Neg(%x) "a"
  %y = Identity(%a) "b"
  output %y
`, `
  input %x: f32[2]
  %y: f32[2] = Neg(%x) "a"
  output %y
`, "b:forwarded"),
		Entry("many of them", 13, `
  input %x: f32[2,3]
  const %no = bool[]{false}
  const %ratio = f32[]{0.5}
  const %shape = i64[2]{2, 3}
  const %pads = i64[4]{0, 0, 0, 0}
  const %ones = i64[2]{1, 1}
  const %starts = i64[1]{0}
  const %ends = i64[1]{9}
  const %axes = i64[1]{1}
  %a = Neg(%x) "a"
  %b = Dropout(%a, %ratio, %no) "b"
  %c = Cast(%b; to=1) "c"
  %d = Transpose(%c; perm=[0, 1]) "d"
  %e = Reshape(%d, %shape) "e"
  %f = Pad(%e, %pads) "f"
  %g = Tile(%f, %ones) "g"
  %h = Expand(%g, %ones) "h"
  %i = Slice(%h, %starts, %ends, %axes) "i"
  %j = Concat(%i; axis=0) "j"
  %k = Sum(%j) "k"
  %l = Flatten(%k; axis=1) "l"
  output %l
`, `
  input %x: f32[2,3]
  %l: f32[2,3] = Neg(%x) "a"
  output %l
`, "b:forwarded c:forwarded d:forwarded e:forwarded f:forwarded g:forwarded h:forwarded i:forwarded j:forwarded k:forwarded l:forwarded"),
		Entry("neutral elements that are exact", 13, `
  input %x: f32[2]
  input %i: i64[2]
  const %minus = f32[]{-0}
  const %zero = f32[2]{0, 0}
  const %one = f32[1]{1}
  const %int = i64[]{0}
  %a = Add(%minus, %x) "a"
  %b = Sub(%a, %zero) "b"
  %c = Mul(%one, %b) "c"
  %d = Div(%c, %one) "d"
  %e = Pow(%d, %one) "e"
  %y = Neg(%e) "y"
  %f = Add(%i, %int) "f"
  %z = Neg(%f) "z"
  output %y, %z
`, `
  input %x: f32[2]
  input %i: i64[2]
  %y: f32[2] = Neg(%x) "y"
  %z: i64[2] = Neg(%i) "z"
  output %y, %z
`, "a:forwarded b:forwarded c:forwarded d:forwarded e:forwarded f:forwarded"),
		Entry("casts and pads of other forms", 10, `
  input %x: f32[2]
  input %u: u8[2]
  const %zero = u8[2]{0, 0}
  %a = Pad(%x; pads=[0, 0]) "a"
  %b = Pad(%a; pads=[0, 1]) "b"
  %c = Cast(%b; to=11) "c"
  %d = CastLike/15(%c, %c) "d"
  %e = CastLike/15(%d, %x) "e"
  %f = BitShift/11(%u, %zero; direction="LEFT") "f"
  %g = Cast(%f; to=1) "g"
  output %e, %g
`, `
  input %x: f32[2]
  input %u: u8[2]
  %b: f32[3] = Pad(%x; pads=[0, 1]) "b"
  %c: f64[3] = Cast(%b; to=11) "c"
  %e: f32[3] = CastLike/15(%c, %x) "e"
  %g: f32[2] = Cast(%u; to=1) "g"
  output %e, %g
`, "a:forwarded d:forwarded f:forwarded"),
		Entry("not those that are inexact or change the shape", 13, `
  input %x: f32[2]
  const %zero = f32[]{0}
  const %one = f32[1,1]{1}
  %a = Add(%x, %zero) "a"
  %b = Mul(%a, %one) "b"
  %c = Sub(%zero, %x) "c"
  output %b, %c
`, `
  input %x: f32[2]
  const %zero = f32[]{0}
  const %one = f32[1,1]{1}
  %a: f32[2] = Add(%x, %zero) "a"
  %b: f32[1,2] = Mul(%a, %one) "b"
  %c: f32[2] = Sub(%zero, %x) "c"
  output %b, %c
`, ""),
		Entry("Dropout in training that drops nothing", 13, `
  input %x: f32[2]
  const %t = bool[]{true}
  const %ratio = f32[]{0}
  %a = Neg(%x) "a"
  %b, %m = Dropout(%a, %ratio, %t) "b"
  output %b
`, `
  input %x: f32[2]
  %b: f32[2] = Neg(%x) "a"
  output %b
`, "b:forwarded"),
		Entry("nor Dropout in training, with its mask read, or a slice backwards", 13, `
  input %x: f32[2]
  input %t: bool[]
  const %starts = i64[1]{-1}
  const %ends = i64[1]{-9}
  const %axes = i64[1]{0}
  const %steps = i64[1]{-1}
  %a = Dropout(%x, _, %t) "a"
  %b, %m = Dropout(%a) "b"
  %c = Slice(%b, %starts, %ends, %axes, %steps) "c"
  %d = Transpose(%c) "d"
  output %d, %m
`, `
  input %x: f32[2]
  input %t: bool[]
  const %starts = i64[1]{-1}
  const %ends = i64[1]{-9}
  const %axes = i64[1]{0}
  %a: f32[2] = Dropout(%x, _, %t) "a"
  %b: f32[2], %m: bool[2] = Dropout(%a) "b"
  %d: f32[2] = Slice(%b, %starts, %ends, %axes, %starts) "c"
  output %d, %m
`, "d:forwarded"),
	)
	DescribeTable("merges views", row,
		Entry("transpositions", 13, `
  input %x: f32[2,3,4]
  %a = Transpose(%x; perm=[1, 2, 0]) "a"
  %b = Transpose(%a) "b"
  output %b
`, `
  input %x: f32[2,3,4]
  %b: f32[2,4,3] = Transpose(%x; perm=[0, 2, 1]) "b" from("a", "b")
  output %b
`, ""),
		Entry("transpositions that undo each other", 13, `
  input %x: f32[2,3,4]
  %n = Neg(%x) "n"
  %a = Transpose(%n; perm=[1, 2, 0]) "a"
  %b = Transpose(%a; perm=[2, 0, 1]) "b"
  %y = Neg(%b) "y"
  output %y
`, `
  input %x: f32[2,3,4]
  %n: f32[2,3,4] = Neg(%x) "n"
  %y: f32[2,3,4] = Neg(%n) "y"
  output %y
`, "a:forwarded b:forwarded"),
		Entry("reshapes", 13, `
  input %x: f32[N,3,4]
  const %s = i64[2]{-1, 12}
  const %t = i64[3]{4, -1, 3}
  %a = Reshape(%x, %s) "a"
  %b = Reshape(%a, %t) "b"
  output %b
`, `
  input %x: f32[N,3,4]
  const %t = i64[3]{4, -1, 3}
  %b: f32[4,N,3] = Reshape(%x, %t) "b" from("a", "b")
  output %b
`, ""),
		Entry("not a reshape whose 0 copies what lies between", 13, `
  input %x: f32[N,3,4]
  const %s = i64[2]{-1, 12}
  const %t = i64[2]{0, -1}
  %a = Reshape(%x, %s) "a"
  %b = Reshape(%a, %t) "b"
  output %b
`, `
  input %x: f32[N,3,4]
  const %s = i64[2]{-1, 12}
  %b: f32[N,12] = Reshape(%x, %s) "a"
  output %b
`, "b:forwarded"),
		Entry("not what others read", 13, `
  input %x: f32[2,3,4]
  %a = Transpose(%x; perm=[1, 2, 0]) "a"
  %b = Transpose(%a) "b"
  output %b, %a
`, `
  input %x: f32[2,3,4]
  %a: f32[3,4,2] = Transpose(%x; perm=[1, 2, 0]) "a"
  %b: f32[2,4,3] = Transpose(%a) "b"
  output %b, %a
`, ""),
	)
	DescribeTable("merges twins", row,
		Entry("a tree of them, and their constants", 13, `
  input %x: f32[2]
  const %one = f32[]{1}
  const %uno = f32[]{1}
  %a = Add(%x, %one) "a"
  %b = Add(%x, %uno) "b"
  %c = Neg(%a) "c"
  %d = Neg(%b) "d"
  %y = Mul(%c, %d) "y"
  output %y, %d
`, `
  input %x: f32[2]
  const %one = f32[]{1}
  %a: f32[2] = Add(%x, %one) "a" from("a", "b")
  %d: f32[2] = Neg(%a) "c" from("c", "d")
  %y: f32[2] = Mul(%d, %d) "y"
  output %y, %d
`, ""),
		Entry("with attributes of several kinds", 13, `
  input %x: f32[N,2]
  %s = Shape(%x) "s"
  %a = ConstantOfShape(%s; value=f32[1]{1}) "a"
  %b = ConstantOfShape(%s; value=f32[1]{1}) "b"
  %c = ConstantOfShape(%s; value=f32[1]{2}) "c"
  %f = LeakyRelu(%c; alpha=0.5) "f"
  %g = LeakyRelu(%c; alpha=0.25) "g"
  %h = ReduceMax(%f; axes=[0, 1]) "h"
  %i = ReduceMax(%f; axes=[0, 1]) "i"
  output %a, %b, %g, %h, %i
`, `
  input %x: f32[N,2]
  dims %s = i64 [N,2]
  %a: f32[N,2] = ConstantOfShape(%s; value=f32[1]{1}) "a" from("a", "b")
  %c: f32[N,2] = ConstantOfShape(%s; value=f32[1]{2}) "c"
  %f: f32[N,2] = LeakyRelu(%c; alpha=0.5) "f"
  %g: f32[N,2] = LeakyRelu(%c; alpha=0.25) "g"
  %h: f32[1,1] = ReduceMax(%f; axes=[0, 1]) "h" from("h", "i")
  output %a, %a, %g, %h, %h
`, "s:shape"),
		Entry("not where attributes, order, dtype or shape differ", 13, `
  input %x: f32[2,2]
  const %one = f32[]{1}
  const %double = f64[]{1}
  const %vector = f32[1]{1}
  %a = Softmax(%x; axis=0) "a"
  %b = Softmax(%x; axis=1) "b"
  %c = Sub(%a, %b) "c"
  %d = Sub(%b, %a) "d"
  %e = Sub(%c, %one) "e"
  %f = Sub(%d, %vector) "f"
  output %e, %f, %double
`, `
  input %x: f32[2,2]
  const %one = f32[]{1}
  const %double = f64[]{1}
  const %vector = f32[1]{1}
  %a: f32[2,2] = Softmax(%x; axis=0) "a"
  %b: f32[2,2] = Softmax(%x; axis=1) "b"
  %c: f32[2,2] = Sub(%a, %b) "c"
  %d: f32[2,2] = Sub(%b, %a) "d"
  %e: f32[2,2] = Sub(%c, %one) "e"
  %f: f32[2,2] = Sub(%d, %vector) "f"
  output %e, %f, %double
`, ""),
	)
	DescribeTable("removes the dead", row,
		Entry("a chain, its constants, and nodes with regions", 13, `
  input %x: f32[2]
  input %c: bool[]
  const %w = f32[]{1}
  %a = Add(%x, %w) "a"
  %b = Neg(%a) "b"
  %d = If(%c | %x) "d" {
    then_branch: graph {
      capture %x
      %t = Neg(%x) "d/t"
      output %t
    }
    else_branch: graph {
      capture %x
      %e = Abs(%x) "d/e"
      output %e
    }
  }
  %y = Neg(%x) "y"
  output %y
`, `
  input %x: f32[2]
  input %c: bool[]
  %y: f32[2] = Neg(%x) "y"
  output %y
`, "d:dead d/t:dead d/e:dead b:dead a:dead"),
	)
	DescribeTable("works in regions", row,
		Entry("an If whose condition folds gives way to its arm", 13, `
  input %x: f32[2]
  const %c = bool[]{true}
  %no = Not(%c) "no"
  %y = If(%no | %x) "if" {
    then_branch: graph {
      capture %x
      %t = Neg(%x) "if/t"
      output %t
    }
    else_branch: graph {
      capture %x
      %e = Abs(%x) "if/e"
      %f = Neg(%e) "if/f"
      output %f
    }
  }
  output %y
`, `
  input %x: f32[2]
  %e: f32[2] = Abs(%x) "if/e"
  %y: f32[2] = Neg(%e) "if/f"
  output %y
`, "no:constant if:forwarded if/t:dead"),
		Entry("captured constants are cloned in, unread and repeated captures dropped", 13, `
  input %x: f32[2]
  input %c: bool[]
  const %w = f32[]{2}
  %n = Neg(%w) "n"
  %u = Neg(%x) "u"
  %v = Neg(%x) "v"
  %y = If(%c | %x, %n, %u, %v, %c) "if" {
    then_branch: graph {
      capture %x
      capture %n
      capture %u
      capture %v
      capture %c
      %m = Neg(%n) "m"
      %s = Add(%u, %v) "s"
      %t = Mul(%s, %m) "t"
      output %t
    }
    else_branch: graph {
      capture %x
      capture %n
      capture %u
      capture %v
      capture %c
      output %u
    }
  }
  output %y
`, `
  input %x: f32[2]
  input %c: bool[]
  %u: f32[2] = Neg(%x) "u" from("u", "v")
  %y: f32[2] = If(%c | %u) "if" {
    then_branch: graph {
      capture %u: f32[2]
      const %m = f32[]{2}
      %s: f32[2] = Add(%u, %u) "s"
      %t: f32[2] = Mul(%s, %m) "t"
      output %t
    }
    else_branch: graph {
      capture %u: f32[2]
      output %u
    }
  }
  output %y
`, "n:constant m:constant"),
	)
	It("computes the same after folding, removal and merging", func() {
		sameResults(parse(statements(13, `
  input %x: f32[N,3,4]
  const %one = f32[]{1}
  const %w = f32[4]{1, -2, 3, -4}
  const %s = i64[2]{-1, 12}
  %a = Mul(%x, %w) "a"
  %b = Mul(%x, %w) "b"
  %c = Add(%a, %b) "c"
  %d = Transpose(%c; perm=[2, 0, 1]) "d"
  %e = Transpose(%d; perm=[1, 0, 2]) "e"
  %f = Mul(%e, %one) "f"
  %g = Reshape(%f, %s) "g"
  %n = Shape(%g) "n"
  %h = Expand(%one, %n) "h"
  %y = Sub(%g, %h) "y"
  output %y, %c
`)), 0)
	})
	It("replaces each of many outputs", func() {
		g := graph.New("g")
		x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(2)))
		var outputs []*graph.Value
		for i := range 200 {
			n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: []string{"Neg", "Abs"}[i%2]}, Name: fmt.Sprint("n", i), Inputs: []*graph.Value{x}, Outputs: []string{fmt.Sprint("v", i)}})
			m := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Identity"}, Name: fmt.Sprint("m", i), Inputs: n.Outputs, Outputs: []string{fmt.Sprint("w", i)}})
			outputs = append(outputs, m.Outputs[0])
		}
		g.SetOutputs(outputs...)
		simplify(g, graph.SimplifyOptions{})
		Expect(operators(g)).To(Equal("Neg Abs"))
		for i, v := range g.Outputs {
			Expect(v.Producer.Op.Name).To(Equal([]string{"Neg", "Abs"}[i%2]))
		}
	})
	It("leaves out passes that are skipped, and names all", func() {
		text := statements(13, "  input %x: f32[2]\n  %a = Identity(%x) \"a\"\n  %y = Neg(%a) \"y\"\n  output %y\n")
		g := parse(text)
		simplify(g, graph.SimplifyOptions{Skip: graph.SimplifyPasses()})
		Expect(g.NumNodes()).To(Equal(2))
		report := simplify(parse(text), graph.SimplifyOptions{})
		for i, name := range graph.SimplifyPasses() {
			Expect(report.Passes[i].Name).To(Equal(name))
			Expect(report.Passes[i].Changes > 0).To(Equal(name == "remove-no-ops"), name)
		}
	})
	It("needs no options, and no evaluator for Constant nodes", func() {
		g := parse(statements(13, "  %a = Constant(; value_int=3) \"a\"\n  output %a\n"))
		report, err := graph.Simplify(context.Background(), g, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(folded(report)).To(Equal("a:constant"))
	})
	It("stops with its context, and with an error of After", func() {
		g := parse(statements(13, "  input %x: f32[2]\n  %a = Identity(%x) \"a\"\n  output %a\n"))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := graph.Simplify(ctx, g, nil)
		Expect(err).To(MatchError(context.Canceled))
		_, err = graph.Simplify(context.Background(), g, &graph.SimplifyOptions{After: func(string, *graph.Graph) error { return errStop }})
		Expect(err).To(MatchError(errStop))
	})
	It("reports types that no longer fit", func() {
		g := parse(statements(13, `
  const %s = f32[1]{0.75}
  input %x: f32[3]
  %t = Exp(%s) "t"
  %u = Cast(%t; to=7) "u"
  %v = ConstantOfShape(%u) "v"
  %y = Add(%x, %v) "y"
  output %y
`))
		Expect(graph.InferGraph(g)).To(Succeed())
		_, err := graph.Simplify(context.Background(), g, &graph.SimplifyOptions{Evaluator: kernels{}})
		Expect(err).To(MatchError(graph.ErrShapeMismatch))
		Expect(graph.Verify(g)).To(Succeed())
	})
	It("does not depend on the order of the node list", func() {
		text := statements(13, `
  input %x: f32[2]
  %a = Neg(%x) "a"
  %b = Identity(%a) "b"
  %c = Abs(%b) "c"
  %d = Mul(%c, %a) "d"
  output %d
`)
		lines := strings.Split(text, "\n")
		slices.Reverse(lines[3:7])
		for _, t := range []string{text, strings.Join(lines, "\n")} {
			g := parse(t)
			simplify(g, graph.SimplifyOptions{})
			Expect(g.Sort()).To(Succeed())
			Expect(g.String()).To(Equal(statements(13, "  input %x: f32[2]\n  %a: f32[2] = Neg(%x) \"a\"\n  %c: f32[2] = Abs(%a) \"c\"\n  %d: f32[2] = Mul(%c, %a) \"d\"\n  output %d\n")))
		}
	})
})

var errStop = errors.New("stop")

// fixed is an evaluator that always returns the same.
type fixed []tensor.Value

func (f fixed) Eval(context.Context, *graph.Node, []tensor.Value) ([]tensor.Value, error) {
	if f == nil {
		return nil, errStop
	}
	return f, nil
}
