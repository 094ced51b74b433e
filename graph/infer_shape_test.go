package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = DescribeTable("Inference of shapes", infers,
	Entry("reshape", "Reshape", ins("f32[N,S,768]", "=[0,0,12,64]"), "f32[N,S,12,64]"),
	Entry("reshape with -1", "Reshape", ins("f32[N,S,12,64]", "=[0,0,-1]"), "f32[N,S,768]"),
	Entry("reshape that joins symbols", "Reshape", ins("f32[N,S,768]", "=[-1,768]"), "f32[N*S,768]"),
	Entry("reshape that parts symbols", "Reshape", ins("f32[N*S,768]", "#[N,-1,768]"), "f32[N,S,768]"),
	Entry("reshape by numbers that do not divide", "Reshape", ins("f32[N,6]", "=[-1,4]"), "f32[floordiv(3*N,2),4]"),
	Entry("reshape of zeros", "Reshape", ins("f32[0,3]", "=[3,0]"), "f32[3,0]", num("allowzero", 1)),
	Entry("reshape of version 1", "Reshape@1", ins("f32[N,6]"), "f32[N,2,3]", ints("shape", 0, 2, -1)),
	Entry("reshape, contents unknown", "Reshape", ins("f32[N,6]", "i64[3]"), "f32[?4,?5,?6]"),
	Entry("reshape, nothing known", "Reshape", ins("f32[N,6]", "i64[*]"), "f32[*]"),
	Entry("reshape of an unknown rank", "Reshape", ins("f32[*]", "=[0,-1,4]"), "f32[?1,?2,4]"),
	Entry("reshape of contents", "Reshape", ins("#[N]", "=[]"), "i64[] = [N]"),
	Entry("flatten", "Flatten", ins("f32[N,3,H]"), "f32[N,3*H]"),
	Entry("flatten at 0", "Flatten", ins("f32[N,3]"), "f32[1,3*N]", num("axis", 0)),
	Entry("squeeze", "Squeeze@11", ins("f32[1,N,1]"), "f32[1,N]", ints("axes", -1)),
	Entry("squeeze by input", "Squeeze@13", ins("f32[1,N,1]", "=[0]"), "f32[N,1]"),
	Entry("squeeze all", "Squeeze", ins("f32[1,3,1]"), "f32[3]"),
	Entry("squeeze of a symbol", "Squeeze", ins("f32[1,N]"), "f32[*]"),
	Entry("squeeze of contents", "Squeeze", ins("#[N]", "=[0]"), "i64[] = [N]"),
	Entry("unsqueeze", "Unsqueeze@11", ins("f32[N]"), "f32[1,N,1]", ints("axes", 0, -1)),
	Entry("unsqueeze by input", "Unsqueeze", ins("f32[N]", "=[1]"), "f32[N,1]"),
	Entry("unsqueeze of contents", "Unsqueeze", ins("#N", "=[0]"), "i64[1] = [N]"),
	Entry("transpose", "Transpose", ins("f32[N,C,H]"), "f32[H,N,C]", ints("perm", 2, 0, 1)),
	Entry("transpose by default", "Transpose", ins("f32[N,C,H]"), "f32[H,C,N]"),
	Entry("shape", "Shape", ins("f32[N,3,2*H]"), "i64[3] = [N,3,2*H]"),
	Entry("shape in part", "Shape@15", ins("f32[N,3,H]"), "i64[2] = [3,H]", num("start", -2)),
	Entry("shape of a scalar", "Shape", ins("f32[]"), "i64[0] = []"),
	Entry("size", "Size", ins("f32[N,3,H]"), "i64[] = [3*H*N]"),
	Entry("expand", "Expand", ins("f32[N,1]", "#[1,S]"), "f32[N,S]"),
	Entry("expand, contents unknown", "Expand", ins("f32[N,1]", "i64[3]"), "f32[?1,?4,?3]"),
	Entry("tile", "Tile", ins("f32[N,3]", "=[2,3]"), "f32[2*N,9]"),
	Entry("concat", "Concat", ins("f32[N,S,4]", "f32[N,P,4]"), "f32[N,P+S,4]", num("axis", 1)),
	Entry("concat knows more together", "Concat", ins("f32[N,?1,4]", "f32[2,3,4]"), "f32[2,?1+3,4]", num("axis", 1)),
	Entry("concat of contents", "Concat", ins("#[N]", "=[1,-1]"), "i64[3] = [N,1,-1]", num("axis", 0)),
	Entry("split in halves", "Split@13", ins("f32[N,2*D]"), "f32[N,D]; f32[N,D]", num("axis", -1)),
	Entry("split by attribute", "Split@11", ins("f32[6,N]"), "f32[2,N]; f32[4,N]", ints("split", 2, 4)),
	Entry("split by input", "Split", ins("f32[6,N]", "=[1,5]"), "f32[1,N]; f32[5,N]"),
	Entry("split unevenly", "Split@18", ins("f32[7]"), "f32[3]; f32[3]; f32[1]", num("num_outputs", 3)),
	Entry("split into more than there is", "Split@18", ins("f32[5]"), "f32[2]; f32[2]; f32[1]; f32[0]", num("num_outputs", 4)),
	Entry("split of contents", "Split", ins("#[N,C,H]", "=[1,2]"), "i64[1] = [N]; i64[2] = [C,H]"),
	Entry("slice of version 1", "Slice@1", ins("f32[10,N]"), "f32[8,N]", ints("axes", 0), ints("starts", 1), ints("ends", -1)),
	Entry("slice", "Slice", ins("f32[N,S,8]", "=[0]", "=[2]", "=[2]"), "f32[N,S,2]"),
	Entry("slice of a symbol's head", "Slice", ins("f32[N]", "=[0]", "=[3]"), "f32[min(3,N)]"),
	Entry("slice of a symbol's tail", "Slice", ins("f32[N]", "=[1]", "=[9223372036854775807]"), "f32[max(0,N-1)]"),
	Entry("slice of a sum to one of what is added", "Slice", ins("f32[M+N]", "=[0]", "#[N]", "=[0]"), "f32[N]"),
	Entry("slice to a symbol", "Slice", ins("f32[1,512]", "=[0]", "#[S]", "=[1]"), "f32[1,min(512,S)]"),
	Entry("slice between symbols", "Slice", ins("f32[512]", "#[P]", "#[P+S]"), "f32[min(S,max(-P+512,0))]"),
	Entry("slice that is empty for each size", "Slice", ins("f32[N,3]", "=[1]", "=[1]"), "f32[0,3]"),
	Entry("empty whatever the size", "Reshape", ins("f32[min(0,max(0,N-1)),4]", "=[0,2]"), "f32[0,2]"),
	Entry("slice from the last place to one that may be before the end", "Slice", ins("f32[1]", "=[0]", "#[-S+5]"), "f32[position(-S+5,1)]"),
	Entry("slice from the last of several", "Slice", ins("f32[4]", "=[3]", "#[-S+5]"), "f32[max(0,position(-S+5,4)-3)]"),
	Entry("slice of the last one", "Slice", ins("f32[N]", "=[-1]", "=[9223372036854775807]"), "f32[min(1,N)]"),
	Entry("the last one beside all", "Div", ins("f32[N]", "f32[min(1,N)]"), "f32[N]"),
	Entry("slice of as many last ones as there are", "Slice", ins("f32[S,8]", "#[-S]", "=[9223372036854775807]", "=[0]", "=[1]"), "f32[S,8]"),
	Entry("slice from a position that may be before the end", "Slice", ins("f32[256]", "#[-P+256]", "=[9223372036854775807]"), "f32[-position(-P+256,256)+256]"),
	Entry("slice from the last ones on", "Slice", ins("f32[P+S]", "#[-S]", "=[9223372036854775807]"), "f32[P+S-position(-S,P+S)]"),
	Entry("slice backwards", "Slice", ins("f32[N,5]", "=[-1,3]", "=[-9223372036854775808,-9223372036854775808]", "=[0,1]", "=[-1,-2]"), "f32[N,2]"),
	Entry("slice with steps", "Slice", ins("f32[10]", "=[1]", "=[8]", "=[0]", "=[3]"), "f32[3]"),
	Entry("slice, starts unknown", "Slice", ins("f32[N,10]", "i64[1]", "=[8]", "=[1]"), "f32[N,?2]"),
	Entry("slice of contents", "Slice", ins("#[N,C,H]", "=[-2]", "=[9223372036854775807]", "=[0]"), "i64[2] = [C,H]"),
	Entry("gather", "Gather", ins("f32[V,D]", "i64[N,S]"), "f32[N,S,D]"),
	Entry("gather at an axis", "Gather", ins("f32[N,S,D]", "=0"), "f32[N,D]", num("axis", 1)),
	Entry("gather of contents", "Gather", ins("#[N,C,H]", "=-1"), "i64[] = [H]"),
	Entry("gather elements", "GatherElements", ins("f32[N,S]", "i64[N,2]"), "f32[N,2]", num("axis", 1)),
	Entry("gather nd", "GatherND", ins("f32[B,4,5,6]", "i64[B,M,2]"), "f32[B,M,6]", num("batch_dims", 1)),
	Entry("scatter nd", "ScatterND", ins("f32[N,4]", "i64[M,1]", "f32[M,4]"), "f32[N,4]"),
	Entry("pad of version 2", "Pad@2", ins("f32[N,4]"), "f32[N,7]", ints("pads", 0, 1, 0, 2)),
	Entry("pad of axes", "Pad@18", ins("f32[N,4]", "=[1,2]", "", "=[-1]"), "f32[N,7]"),
	Entry("pad around, in a version before that which says so", "Pad@18", ins("f32[N,4]", "=[0,1,0,2]"), "f32[N,7]", str("mode", "wrap")),
	Entry("pad to a multiple", "Pad", ins("f32[N]", "#[0,1-N]"), "f32[1]"),
	Entry("top k", "TopK", ins("f32[N,10]", "=[3]"), "f32[N,3]; i64[N,3]"),
	Entry("top k, unknown", "TopK", ins("f32[N,10]", "i64[1]"), "f32[N,?2]; i64[N,?2]"),
	Entry("one hot", "OneHot", ins("i64[N]", "=5", "f32[2]"), "f32[N,5]"),
	Entry("non zero", "NonZero", ins("f32[N,3]"), "i64[2,?1]"),
	Entry("unique", "Unique", ins("f32[N,3]"), "f32[?1]; i64[?1]; i64[3*N]; i64[?1]"),
	Entry("compress", "Compress", ins("f32[N,3]", "bool[3]"), "f32[N,?1]", num("axis", 1)),
	Entry("non-maximum suppression", "NonMaxSuppression", ins("f32[B,N,4]", "f32[B,C,N]"), "i64[?1,3]"),
	Entry("constant of shape", "ConstantOfShape", ins("#[N,3]"), "f32[N,3]"),
	Entry("constant of shape with contents", "ConstantOfShape", ins("=[2]"), "i64[2] = [-1,-1]", graph.TensorAttr("value", tensor.From([]int64{-1}, 1))),
	Entry("constant", "Constant", ins(), "i64[2] = [3,4]", ints("value_ints", 3, 4)),
	Entry("range", "Range", ins("=0", "#S", "=1"), "i64[S]"),
	Entry("range with steps", "Range", ins("=10", "=0", "=-3"), "i64[4] = [10,7,4,1]"),
	Entry("range of floats", "Range", ins("~0", "~1", "~0.25"), "f32[4]"),
	Entry("random", "RandomUniform", ins(), "f16[2,3]", ints("shape", 2, 3), num("dtype", int64(tensor.Float16))),
	Entry("sum of contents", "Add", ins("#[N,C]", "=1"), "i64[2] = [N+1,C+1]"),
	Entry("quotient of contents", "Div", ins("#[12*N]", "=[4]"), "i64[1] = [3*N]"),
	Entry("quotient of products", "Div", ins("#[N*S]", "#[S]"), "i64[1] = [N]"),
	Entry("quotient of what may be negative", "Div", ins("#[N-5]", "=[2]"), "i64[1] = [-floordiv(max(-N+5,0),2)+floordiv(max(0,N-5),2)]"),
	Entry("negative numbers are truncated", "Div", ins("=[-7]", "=[2]"), "i64[1] = [-3]"),
	Entry("division by 0", "Div", ins("#[N]", "=[0]"), "i64[1]"),
	Entry("remainder", "Mod", ins("#[N]", "=[2]"), "i64[1] = [mod(N,2)]"),
	Entry("product of contents", "ReduceProd", ins("#[N,3,S]", "=[0]"), "i64[] = [3*N*S]", num("keepdims", 0)),
	Entry("least of contents", "ReduceMin", ins("=[300,7]", "=[0]"), "i64[1] = [7]"),
	Entry("cast of contents", "Cast", ins("#[N,3]"), "i32[2] = [N,3]", num("to", int64(tensor.Int32))),
	Entry("sequence", "SequenceConstruct", ins("f32[N,3]", "f32[N,4]"), "seq(f32[N,?1])"),
	Entry("element", "SequenceAt", ins("seq(f32[3,4])", "=0"), "f32[3,4]"),
	Entry("empty sequence", "SequenceEmpty", ins(), "seq(i64[*])", num("dtype", 7)),
	Entry("insertion", "SequenceInsert", ins("seq(f32[3])", "f32[4]"), "seq(f32[?1])"),
	Entry("split to sequence", "SplitToSequence", ins("f32[N,6]", "=2"), "seq(f32[N,2])", num("axis", 1)),
	Entry("concat from sequence", "ConcatFromSequence", ins("seq(f32[3,4])"), "f32[?1,4]", num("axis", 0)),
	Entry("optional", "Optional", ins("f32[N]"), "opt(f32[N])"),
	Entry("get element", "OptionalGetElement", ins("opt(seq(f32[3]))"), "seq(f32[3])"),
	Entry("convert", "carve.Convert", ins("f32[N,3]"), "f32[N,3]"),
)

// steps makes nodes one after another and infers each at once.
type steps struct{ g *graph.Graph }

func (c steps) input(t string) *graph.Value { return operand(c.g, t) }

func (c steps) op(name string, inputs []*graph.Value, attrs ...graph.Attr) *graph.Value {
	GinkgoHelper()
	n := c.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: name}, Name: name, Inputs: inputs, Outputs: []string{name}, Attrs: attrs})
	Expect(graph.InferNode(n)).To(Succeed())
	return n.Outputs[0]
}

var _ = Describe("Inference through shape arithmetic", func() {
	vals := func(vs ...*graph.Value) []*graph.Value { return vs }
	var c steps
	BeforeEach(func() { c = steps{graph.New("g")} })

	It("follows Where over a comparison, as an Expand that keeps -1", func() {
		x := c.input("f32[1,N]")
		want := c.input("=[-1,4]")
		same := c.op("Equal", vals(want, c.input("=[-1,-1]")))
		shape := c.op("Where", vals(same, c.op("ConstantOfShape", vals(c.input("=[2]")), graph.TensorAttr("value", tensor.From([]int64{1}, 1))), want))
		Expect(shown(shape)).To(Equal("i64[2] = [1,4]"))
		Expect(shown(c.op("Unsqueeze", vals(c.op("Size", vals(x)), c.input("=[0]"))))).To(Equal("i64[1] = [N]"))
	})
	It("follows sizes through floats", func() {
		x := c.input("f32[N,3,H,W]")
		hw := c.op("Slice", vals(c.op("Shape", vals(x)), c.input("=[2]"), c.input("=[4]")))
		f := c.op("Cast", vals(hw), num("to", 1))
		size := c.op("Cast", vals(c.op("Floor", vals(c.op("Mul", vals(f, c.input("~[2,0.5]")))))), num("to", 7))
		Expect(shown(size)).To(Equal("i64[2] = [2*H,floordiv(W,2)]"))
		nc := c.op("Slice", vals(c.op("Shape", vals(x)), c.input("=[0]"), c.input("=[2]")))
		out := c.op("Resize", vals(x, nil, nil, c.op("Concat", vals(nc, size), num("axis", 0))))
		Expect(shown(out)).To(Equal("f32[N,3,2*H,floordiv(W,2)]"))
	})
	It("follows pads that are reordered as a matrix", func() {
		m := c.op("Reshape", vals(c.input("#[N,1,2,3]"), c.input("=[-1,2]")))
		back := c.op("Slice", vals(m, c.input("=[-1]"), c.input("=[-9223372036854775807]"), c.input("=[0]"), c.input("=[-1]")))
		pads := c.op("Reshape", vals(c.op("Transpose", vals(back), ints("perm", 1, 0)), c.input("=[-1]")))
		Expect(shown(pads)).To(Equal("i64[4] = [2,N,3,1]"))
	})
	It("keeps heads of attention apart from the batch", func() {
		x := c.input("f32[N,S,768]")
		shape := c.op("Shape", vals(x))
		n := c.op("Gather", vals(shape, c.input("=[0]")), num("axis", 0))
		s := c.op("Gather", vals(shape, c.input("=[1]")), num("axis", 0))
		target := c.op("Concat", vals(n, s, c.input("=[12]"), c.input("=[64]")), num("axis", 0))
		q := c.op("Transpose", vals(c.op("Reshape", vals(x, target))), ints("perm", 0, 2, 1, 3))
		k := c.op("Transpose", vals(q), ints("perm", 0, 1, 3, 2))
		Expect(shown(c.op("MatMul", vals(q, k)))).To(Equal("f32[N,12,S,S]"))
	})
	It("knows how much a slice takes, wherever its bounds lie", func() {
		dims := []graph.Dim{graph.Sym("P"), graph.Sym("P").Scale(-1), graph.Sym("Q").Scale(-1), graph.Sym("P").Sub(graph.Sym("Q")), graph.D(3).Sub(graph.Sym("P")), graph.D(-2), graph.D(2)}
		for _, d := range []graph.Dim{graph.Sym("P"), graph.Sym("P").Add(graph.Sym("Q")), graph.D(4)} {
			for _, start := range dims {
				for _, end := range append(dims, d, graph.D(1<<40)) {
					n := c.op("Slice", vals(c.input("f32["+d.String()+"]"), c.input("#["+start.String()+"]"), c.input("#["+end.String()+"]"))).Type.Shape[0]
					for i := range int64(49) {
						at := graph.Bindings{"P": i / 7, "Q": i % 7}
						var x [4]int64
						for k, d := range []graph.Dim{d, start, end, n} {
							var err error
							x[k], err = d.Eval(at)
							Expect(err).NotTo(HaveOccurred())
						}
						_, want := graph.SliceRange(x[0], x[1], x[2], 1)
						Expect(x[3]).To(Equal(want), "%v[%v:%v] is %v, of %v", d, start, end, n, at)
					}
				}
			}
		}
	})
	It("fills what it cannot infer from what the model declares, but not with unbound names", func() {
		x := c.input("f32[N,4]")
		n := c.g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "NonZero"}, Inputs: vals(x), Outputs: []string{"y"}})
		for _, row := range [][2]string{
			{"i64[2,7]", "i64[2,7]"}, {"i64[2,N]", "i64[2,N]"}, {"i64[5,?77]", "i64[2,?77]"},
			{"i64[2,boxes]", "i64[2,?"}, {"f32[*]", "i64[2,?"},
		} {
			t, err := graph.ParseType(row[0])
			Expect(err).NotTo(HaveOccurred())
			n.Outputs[0].Type = t
			Expect(graph.InferNode(n)).To(Succeed())
			Expect(shown(n.Outputs[0])).To(HavePrefix(row[1]), row[0])
		}
	})
})
