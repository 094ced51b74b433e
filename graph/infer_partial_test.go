package graph_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

// An element ?i7 is not known, and may be negative; where a shape has it, it is the dim ?7.

var _ = DescribeTable("Inference where elements of a shape are not known", infers,
	Entry("expand", "Expand", ins("f32[N,1,32]", "#[1,?i7,32]"), "f32[N,?7,32]"),
	Entry("expand of a dim", "Expand", ins("f32[N,6,32]", "#[?i7,?i8,?i9,32]"), "f32[?7,?1,?2,32]"),
	Entry("reshape", "Reshape", ins("f32[N,S,64]", "#[N,?i7,16]"), "f32[N,?1,16]"),
	Entry("reshape beside -1", "Reshape", ins("f32[N,64]", "#[?i7,-1,4]"), "f32[?1,?2,4]"),
	Entry("reshape, two", "Reshape", ins("f32[N,64]", "#[?i7,?i8,4]"), "f32[?1,?2,4]"),
	Entry("tile", "Tile", ins("f32[1,N]", "#[?i7,2]"), "f32[?7,2*N]"),
	Entry("tile of a dim", "Tile", ins("f32[N,3]", "#[?i7,2]"), "f32[?1,6]"),
	Entry("slice", "Slice", ins("f32[N,8,4]", "#[0,?i7]", "#[2,8]", "=[1,2]"), "f32[N,2,?1]"),
	Entry("pad", "Pad@13", ins("f32[N,3,8]", "#[0,0,?i7,0,0,1]"), "f32[N,3,?1]"),
	Entry("resize", "Resize@13", ins("f32[N,3,H,W]", "", "", "#[N,3,?i7,?i8]"), "f32[N,3,?7,?8]"),
	Entry("fill", "ConstantOfShape", ins("#[N,?i7]"), "f32[N,?7]"),
	Entry("range", "Range", ins("=0", "#?i7", "=1"), "i64[?7]"),
	Entry("range from elsewhere", "Range", ins("#?i7", "=9", "=1"), "i64[?1]"),
	Entry("one-hot", "OneHot", ins("i64[N]", "#?i7", "f32[2]"), "f32[N,?7]"),
	Entry("split", "Split@13", ins("f32[N,8]", "#[?i7,2]"), "f32[N,?7]; f32[N,2]", num("axis", 1)),
	Entry("top k", "TopK", ins("f32[N,8]", "#[?i7]"), "f32[N,?7]; i64[N,?7]"),
	Entry("grid", "AffineGrid", ins("f32[N,2,3]", "#[N,3,?i7,W]"), "f32[N,?7,W,2]"),
	Entry("contents joined with others", "Concat", ins("=[-1]", "i64[1]", "#[N]"), "i64[3] = [-1,?i1,N]", num("axis", 0)),
	Entry("contents of which none is known", "Concat", ins("i64[1]", "i64[1]"), "i64[2]", num("axis", 0)),
	Entry("contents added to", "Add", ins("#[N,?i7]", "=[1,1]"), "i64[2] = [N+1,?i7+1]"),
	Entry("contents multiplied with what is not known", "Mul", ins("#[N,2]", "i64[1]"), "i64[2]"),
	Entry("contents in part", "Slice", ins("#[N,?i7,4]", "=[1]", "=[3]", "=[0]"), "i64[2] = [?i7,4]"),
	Entry("one of contents", "Gather", ins("#[N,?i7,4]", "=1"), "i64[] = [?i7]", num("axis", 0)),
	Entry("contents divided, truncated", "Div", ins("#[N-1,N-9]", "=[4]"), "i64[2] = [floordiv(max(0,N-1),4),-floordiv(max(-N+9,0),4)+floordiv(max(0,N-9),4)]"),
	Entry("a sequence of single ones", "SplitToSequence", ins("f32[N,4]", "=1"), "seq(f32[1,4])", num("axis", 0)),
	Entry("chosen contents", "Where", ins("bool[]", "#[N,3,4]", "#[N,2,4]"), "i64[3] = [N,?i1,4]"),
)

var _ = Describe("Elements that are not known", func() {
	It("are what they were when a node is inferred again, and the same for all who ask", func() {
		g, err := graph.Parse(`graph "" {
  opset 17
  input %x: f32[N,1,4]
  input %n: i64[1]
  const %one = i64[1]{1}
  const %minus = i64[3]{-1, -1, -1}
  const %ones = i64[3]{1, 1, 1}
  %s = Concat(%minus_one, %n, %four; axis=0) "s"
  %at = Equal(%s, %minus) "at"
  %t = Where(%at, %ones, %s) "t"
  %y = Expand(%x, %t) "y"
  %z = Tile(%x, %t) "z"
  const %minus_one = i64[1]{-1}
  const %four = i64[1]{4}
  output %y, %z
}`)
		Expect(err).NotTo(HaveOccurred())
		var shapes []string
		for range 3 {
			Expect(graph.InferGraph(g)).To(Succeed())
			shapes = append(shapes, g.Outputs[0].Type.String()+" "+g.Outputs[1].Type.String())
		}
		Expect(shapes[0]).To(MatchRegexp(`^f32\[N,(\?\d+),4\] f32\[N,(\?\d+),16\]$`))
		Expect(shapes[1:]).To(HaveEach(shapes[0]))
		Expect(g.Outputs[0].Type.Shape[1]).To(Equal(g.Outputs[1].Type.Shape[1]))
	})
	It("are not taken for dims, which are not negative", func() {
		Expect(graph.Sym("?7").NonNegative()).To(BeTrue())
		Expect(graph.Sym("?i7").NonNegative()).To(BeFalse())
		Expect(graph.Sym("?i7").Add(graph.D(9)).NonNegative()).To(BeFalse())
	})
})

var _ = DescribeTable("Least values", func(text string, nonNegative bool) {
	d, err := graph.ParseDim(text)
	Expect(err).NotTo(HaveOccurred())
	Expect(d.NonNegative()).To(Equal(nonNegative))
	for i := range int64(49) {
		if n, err := d.Eval(graph.Bindings{"P": i / 7, "Q": i % 7}); err == nil && nonNegative {
			Expect(n).To(BeNumerically(">=", 0), "%v of %d", d, i)
		}
	}
},
	Entry(nil, "P", true),
	Entry(nil, "P-1", false),
	Entry(nil, "floordiv(P-1,2)+1", true),
	Entry(nil, "floordiv(floordiv(P-1,2),2)+1", true),
	Entry(nil, "floordiv(P-3,2)+1", false),
	Entry(nil, "P-Q", false),
	Entry(nil, "mod(P-5,4)", true),
	Entry(nil, "mod(P,Q)", true),
	Entry(nil, "mod(P-1,Q+1)", false),
	Entry(nil, "max(P-4,0)", true),
	Entry(nil, "min(P-4,0)", false),
	Entry(nil, "bcast(P,Q)", true),
	Entry(nil, "P*Q+P", true),
	Entry(nil, "2*position(P-3,Q)", true),
)

var _ = DescribeTable("Dims that are divided", func(text, normal string) {
	d, err := graph.ParseDim(text)
	Expect(err).NotTo(HaveOccurred())
	Expect(d.String()).To(Equal(normal))
},
	Entry("twice", "floordiv(floordiv(H-1,2),2)", "floordiv(H-1,4)"),
	Entry("and once more", "floordiv(floordiv(floordiv(H-1,2),2)+1,3)", "floordiv(H+3,12)"),
	Entry("a convolution behind others", "floordiv(floordiv(floordiv(H-10,5)-2,2)-2,2)+1", "floordiv(H-40,20)+1"),
	Entry("by what may be negative", "floordiv(floordiv(H,N),2)", "floordiv(floordiv(H,N),2)"),
)

var _ = It("divides what may be negative as ONNX does, truncating", func() {
	for _, text := range []string{"N-9", "3*N-2*M", "N*M-20"} {
		for k := 1; k < 6; k++ {
			node := opNode(graph.New("g"), "Div", 1, ins("#["+text+"]", fmt.Sprintf("=[%d]", k)))
			Expect(graph.InferNode(node)).To(Succeed())
			dims := node.Outputs[0].Dims
			Expect(dims).To(HaveLen(1))
			of, err := graph.ParseDim(text)
			Expect(err).NotTo(HaveOccurred())
			for n := range int64(24) {
				b := graph.Bindings{"N": n, "M": n % 7}
				whole, err := of.Eval(b)
				Expect(err).NotTo(HaveOccurred())
				got, err := dims[0].Eval(b)
				Expect(err).NotTo(HaveOccurred())
				Expect(got).To(Equal(whole/int64(k)), "%s by %d where N is %d", text, k, n)
			}
		}
	}
})
