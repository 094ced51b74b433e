package graph_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// einsum returns the text of a model of one Einsum, with inputs x0, x1 of these types.
func einsum(opset int, equation string, types []string) string {
	var b, args strings.Builder
	for i, t := range types {
		fmt.Fprintf(&b, "  input %%x%d: %s\n", i, t)
		fmt.Fprintf(&args, ", %%x%d", i)
	}
	return statements(opset, fmt.Sprintf("\n%s  %%y = Einsum(%s; equation=%q) \"e\"\n  output %%y\n", b.String(), args.String()[2:], equation))
}

func einsums(g *graph.Graph) int {
	k := 0
	for n := range g.Nodes() {
		if n.Is("Einsum") {
			k++
		}
	}
	return k
}

// asked evaluates with the reference backend, and notes what it is asked for.
type asked struct {
	kernels
	ops []string
}

func (a *asked) Eval(ctx context.Context, n *graph.Node, inputs []tensor.Value) ([]tensor.Value, error) {
	a.ops = append(a.ops, n.Op.Name)
	return a.kernels.Eval(ctx, n, inputs)
}

var _ = Describe("Lowering of Einsum", func() {
	DescribeTable("computes the same", func(equation string, ops string, types ...string) {
		for _, opset := range []int{12, 13, 18} {
			text := einsum(opset, equation, types)
			g, before := parse(text), parse(text)
			Expect(graph.InferGraph(before)).To(Succeed())
			simplify(g, graph.SimplifyOptions{})
			Expect(einsums(g)).To(BeZero())
			Expect(g.Outputs[0].Type.Equal(before.Outputs[0].Type)).To(BeTrue(), "%v", g.Outputs[0].Type)
			order, err := g.Topo()
			Expect(err).NotTo(HaveOccurred())
			var names []string
			for _, n := range order {
				names = append(names, n.Op.Name)
			}
			if ops != "?" { // the order is not what counts
				Expect(strings.Join(names, " ")).To(Equal(ops))
			}

			feed := map[string]*tensor.Tensor{}
			sizes := graph.Bindings{"A": 2, "B": 3, "C": 4, "D": 5}
			for i, v := range g.Inputs {
				shape, err := v.Type.Shape.Eval(sizes, nil)
				Expect(err).NotTo(HaveOccurred())
				x, err := tensor.New(tensor.Float32, shape...)
				Expect(err).NotTo(HaveOccurred())
				for k, e := range tensor.Of[float32](x) {
					tensor.Of[float32](x)[k] = e + float32(math.Sin(float64(7*k+i)))
				}
				feed[v.Name] = x
			}
			want, got := execute(before, feed)[0], execute(g, feed)[0]
			Expect(got.Shape).To(Equal(want.Shape))
			for k, w := range tensor.Of[float32](want) {
				Expect(tensor.Of[float32](got)[k]).To(BeNumerically("~", w, 1e-5), "element %d", k)
			}
		}
	},
		Entry("matrix product", "ij,jk->ik", "MatMul", "f32[2,3]", "f32[3,4]"),
		Entry("batched", "bij,bjk->bik", "MatMul", "f32[A,B,C]", "f32[A,C,D]"),
		Entry("with the result turned", "bij,bjk->bki", "Transpose Transpose MatMul", "f32[A,B,C]", "f32[A,C,D]"),
		Entry("keys transposed", "bhse,bhte->bhst", "Transpose MatMul", "f32[A,B,3,4]", "f32[A,B,C,4]"),
		Entry("weights of heads", "bsd,hed->bhse", "Transpose Reshape MatMul Reshape Transpose", "f32[A,B,4]", "f32[2,3,4]"),
		Entry("two letters summed", "bshd,hdk->bsk", "Reshape Reshape MatMul", "f32[A,B,2,3]", "f32[2,3,5]"),
		Entry("rows of several letters in a batch", "bacd,bde->bace", "Reshape MatMul Reshape", "f32[A,2,3,4]", "f32[A,4,5]"),
		Entry("outer product", "i,j->ij", "Reshape Mul", "f32[A]", "f32[B]"),
		Entry("inner product", "i,i->", "Reshape Reshape MatMul Reshape", "f32[B]", "f32[B]"),
		Entry("matrix and vector", "ij,j", "Reshape MatMul Reshape", "f32[A,B]", "f32[B]"),
		Entry("elementwise", "bc,cb->bc", "Transpose Mul", "f32[A,B]", "f32[B,A]"),
		Entry("scaled per row", "bct,bc->tbc", "Transpose Mul", "f32[A,B,C]", "f32[A,B]"),
		Entry("sums of one operand", "ijk->ki", "ReduceSum Transpose", "f32[2,3,4]"),
		Entry("all summed", "bsd,btd->", "ReduceSum Reshape ReduceSum Reshape MatMul Reshape", "f32[A,B,D]", "f32[A,C,D]"),
		Entry("a transposition", "ijk->kij", "Transpose", "f32[A,B,C]"),
		Entry("ellipses", "...ij,...jk->...ik", "MatMul", "f32[A,B,3,4]", "f32[A,B,4,5]"),
		Entry("ellipses of different ranks", "...ij,...jk->...ik", "MatMul", "f32[7,3,4]", "f32[4,5]"),
		Entry("experts", "td,edf->tef", "Transpose Reshape MatMul Reshape", "f32[A,3]", "f32[2,3,4]"),
		Entry("a diagonal", "ii->i", "Reshape Slice", "f32[3,3]"),
		Entry("a diagonal of nothing", "ii->i", "?", "f32[0,0]"),
		Entry("a trace", "ii", "Reshape Slice ReduceSum", "f32[3,3]"),
		Entry("traces in a batch", "bii->b", "?", "f32[A,3,3]"),
		Entry("diagonals apart, in a batch", "ibi->bi", "?", "f32[3,A,3]"),
		Entry("diagonals of the ends of three", "iii->i", "?", "f32[4,4,4]"),
		Entry("diagonals of two letters", "ijbji->bij", "?", "f32[3,4,A,4,3]"),
		Entry("diagonals behind an ellipsis", "...ii->...i", "?", "f32[A,B,3,3]"),
		Entry("a diagonal and a matrix", "bii,ij->bj", "?", "f32[A,3,3]", "f32[3,4]"),
		Entry("diagonals of three operands", "aii,ij,jjb->ab", "?", "f32[A,3,3]", "f32[3,4]", "f32[4,4,B]"),
		Entry("three operands", "i,j,k->ijk", "?", "f32[2]", "f32[3]", "f32[4]"),
		Entry("products in a row", "bij,jk,kl->bil", "MatMul MatMul", "f32[A,B,C]", "f32[C,5]", "f32[5,6]"),
		Entry("the smaller product first", "ij,jk,kl->il", "MatMul MatMul", "f32[20,30]", "f32[30,40]", "f32[40,2]"),
		Entry("four operands behind ellipses", "...ij,...jk,kl,l->...i", "?", "f32[A,B,3,4]", "f32[A,B,4,5]", "f32[5,6]", "f32[6]"),
		Entry("a bilinear form", "bi,oij,bj->bo", "?", "f32[A,3]", "f32[2,3,4]", "f32[A,4]"),
		Entry("as many operands as are taken two by two", append([]any{strings.Repeat("ab,", 23) + "ab->a", "?"}, slices.Repeat([]any{"f32[2,3]"}, 24)...)...),
		Entry("three operands summed up", "bi,bi,bi->b", "?", "f32[A,B]", "f32[A,B]", "f32[A,B]"),
		Entry("a batch that broadcasts", "bcxd,bcyd->bcxy", "Transpose MatMul", "f32[1,A,3,4]", "f32[2,A,5,4]"),
		Entry("batches not known to be equal", "bcwd,bcdh->bcwh", "MatMul", "f32[A,B,3,4]", "f32[2,3,4,5]"),
		Entry("batches not known to be equal, of a product that is turned", "bij,bjk->bki", "Transpose Transpose MatMul", "f32[A,3,4]", "f32[2,4,5]"),
		Entry("batches behind an ellipsis that broadcast", "...ij,...jk->...ik", "MatMul", "f32[1,B,3,4]", "f32[A,1,4,5]"),
		Entry("elements that broadcast", "ab,ab->ba", "Mul Transpose", "f32[A,1]", "f32[2,B]"),
		Entry("elements that broadcast and get dims between", "abd,bc->bacd", "Transpose Unsqueeze Unsqueeze Mul", "f32[A,1,5]", "f32[B,C]"),
		Entry("vectors of batches not known to be equal", "blq,blk->blqk", "Unsqueeze Unsqueeze Mul", "f32[A,B,4]", "f32[2,3,C]"),
		Entry("matrices and vectors of batches not known to be equal", "bij,bj->bi", "Unsqueeze MatMul Squeeze", "f32[A,3,4]", "f32[2,4]"),
		Entry("inner products of batches not known to be equal", "abi,abi->ba", "Transpose Unsqueeze Transpose Unsqueeze MatMul Squeeze", "f32[A,B,4]", "f32[2,3,4]"),
		Entry("products per expert", "tef,efd->ted", "Transpose MatMul Transpose", "f32[A,2,3]", "f32[2,3,4]"),
	)
	DescribeTable("leaves", func(equation string, types ...string) {
		g := parse(einsum(13, equation, types))
		simplify(g, graph.SimplifyOptions{})
		Expect(einsums(g)).To(Equal(1))
	},
		Entry("diagonals of a symbol", "ii->i", "f32[A,A]"),
		Entry("diagonals that broadcast", "ii->i", "f32[3,1]"),
		Entry("dims that broadcast", "ij,jk->ik", "f32[2,1]", "f32[3,4]"),
		Entry("dims not known to be equal", "ij,jk->ik", "f32[2,A]", "f32[B,4]"),
		Entry("diagonals of dims not known to be equal", "ii->i", "f32[A,B]"),
		Entry("contracted dims that broadcast", "bij,bj->bi", "f32[A,3,4]", "f32[2,1]"),
		Entry("batches not known to be equal, of rows that are to be merged", "bacd,bde->bace", "f32[A,2,3,4]", "f32[B,4,5]"),
		Entry("integers without products of matrices", "ij,jk->ik", "i16[2,3]", "i16[3,4]"),
		Entry("more operands than are taken two by two", append([]any{strings.Repeat("a,", 24) + "a->a"}, slices.Repeat([]any{"f32[3]"}, 25)...)...),
	)
	It("comes before folding, which multiplies constants as products", func() {
		g := parse(statements(13, "\n  input %x: f32[4]\n  const %a = f32[2,3]{1, 2, 3, 4, 5, 6}\n  const %b = f32[3,4]{1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1}\n"+
			"  %t = Einsum(%a, %b; equation=\"ij,jk->ik\") \"e\"\n  %y = Add(%t, %x) \"sum\"\n  output %y\n"))
		var asked asked
		simplify(g, graph.SimplifyOptions{Evaluator: &asked})
		Expect(g.NumNodes()).To(Equal(1))
		Expect(asked.ops).To(ConsistOf("MatMul"))
		Expect(tensor.Of[float32](g.Outputs[0].Producer.Inputs[0].Const)).To(Equal([]float32{1, 2, 3, 6, 4, 5, 6, 15}))
	})
	It("leaves Einsum of constants to folding where it is left out", func() {
		g := parse(statements(13, "\n  const %a = f32[2]{1, 2}\n  %y = Einsum(%a, %a; equation=\"i,i->\") \"e\"\n  output %y\n"))
		simplify(g, graph.SimplifyOptions{Skip: []string{"lower-einsum"}})
		Expect(tensor.Of[float32](g.Outputs[0].Const)).To(Equal([]float32{5}))
	})
	It("computes the bits of random equations of integers", func() {
		r := rand.New(rand.NewPCG(1, 2))
		const letters, few = "abcd", 3
		for range 200 {
			sizes, dt := []int{1 + r.IntN(4), 1 + r.IntN(4), 1 + r.IntN(4), r.IntN(4)}, [...]string{"i32", "i64", "u32", "u64"}[r.IntN(4)]
			var terms, types []string
			var seen []byte
			for range 1 + r.IntN(few) {
				term, dims := "", []string{}
				for range r.IntN(few + 1) {
					k := r.IntN(len(letters)) // a letter may come twice
					term, dims = term+letters[k:k+1], append(dims, strconv.Itoa(sizes[k]))
				}
				terms, types, seen = append(terms, term), append(types, dt+"["+strings.Join(dims, ",")+"]"), append(seen, term...)
			}
			slices.Sort(seen)
			seen = slices.Compact(seen)
			r.Shuffle(len(seen), func(i, j int) { seen[i], seen[j] = seen[j], seen[i] })
			equation := strings.Join(terms, ",") + "->" + string(seen[:r.IntN(len(seen)+1)])
			text := einsum(13, equation, types)
			g, before := parse(text), parse(text)
			Expect(graph.InferGraph(before)).To(Succeed())
			simplify(g, graph.SimplifyOptions{})
			Expect(einsums(g)).To(BeZero(), "%s of %v", equation, types)
			feed := map[string]*tensor.Tensor{}
			for _, v := range g.Inputs {
				shape, err := v.Type.Shape.Eval(nil, nil)
				Expect(err).NotTo(HaveOccurred())
				x, err := tensor.New(v.Type.DType, shape...)
				Expect(err).NotTo(HaveOccurred())
				for i := range x.Bytes() {
					x.Bytes()[i] = byte(r.Uint32())
				}
				feed[v.Name] = x
			}
			want, got := execute(before, feed)[0], execute(g, feed)[0]
			Expect(got.Shape).To(Equal(want.Shape), "%s of %v", equation, types)
			Expect(got.Bytes()).To(Equal(want.Bytes()), "%s of %v", equation, types)
		}
	})
	It("writes shapes of symbols that may be 0 so that they stay", func() {
		g := parse(einsum(18, "bshd,hdk->bsk", []string{"f32[A,B,2,3]", "f32[2,3,5]"}))
		simplify(g, graph.SimplifyOptions{})
		Expect(g.String()).To(ContainSubstring("allowzero=1"))
		feed := map[string]*tensor.Tensor{"x0": tensor.From([]float32{}, 0, 4, 2, 3), "x1": tensor.From(slices.Repeat([]float32{1}, 30), 2, 3, 5)}
		Expect(execute(g, feed)[0].Shape).To(Equal([]int{0, 4, 5}))
	})
	It("asks for the Reshape that it needs", func() {
		g := parse(einsum(12, "bshd,hdk->bsk", []string{"f32[A,B,2,3]", "f32[2,3,5]"}))
		simplify(g, graph.SimplifyOptions{NewOps: func(op graph.Op) bool { return op.Since < 14 }})
		Expect(einsums(g)).To(Equal(1))
	})
})
