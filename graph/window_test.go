package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("Window", func() {
	conv := func(op string, attrs ...graph.Attr) *graph.Node {
		return graph.New("g").AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Outputs: []string{"y"}, Attrs: attrs})
	}
	DescribeTable("resolves convolutions", func(in, kernel, out, begin, end int, attrs ...graph.Attr) {
		w, err := graph.ConvAttrs(conv("Conv", attrs...), []int{kernel})
		Expect(err).NotTo(HaveOccurred())
		o, b, e, err := w.Resolve([]int{in})
		Expect(err).NotTo(HaveOccurred())
		Expect([]int{o[0], b[0], e[0]}).To(Equal([]int{out, begin, end}))
		n, ok := w.OutDim(0, graph.Sym("x")).Subst(map[string]graph.Dim{"x": graph.D(in)}).Const()
		Expect(ok).To(BeTrue())
		Expect(int(n)).To(Equal(out), "the symbolic form")
	},
		Entry("plain", 7, 3, 5, 0, 0),
		Entry("padded", 7, 3, 7, 1, 1, ints("pads", 1, 1)),
		Entry("strided and dilated", 10, 3, 3, 1, 0, ints("pads", 1, 0), ints("strides", 3), ints("dilations", 2)),
		Entry("same, upper", 5, 2, 5, 0, 1, str("auto_pad", "SAME_UPPER")),
		Entry("same, lower", 5, 2, 5, 1, 0, str("auto_pad", "SAME_LOWER")),
		Entry("same, stride above the kernel", 5, 1, 2, 0, 0, str("auto_pad", "SAME_UPPER"), ints("strides", 3)),
		Entry("valid ignores pads", 5, 3, 3, 0, 0, str("auto_pad", "VALID"), ints("pads", 1, 1)),
		Entry("empty input", 0, 1, 0, 0, 0),
	)
	It("counts no window of ceil_mode that starts behind input and leading pad, as a search finds", func() {
		for in := 1; in < 12; in++ {
			for kernel := 1; kernel < 5; kernel++ {
				for stride := 1; stride < 5; stride++ {
					for pad := range 4 {
						begin, end := pad%2, pad/2
						if in+begin+end < kernel {
							continue
						}
						w, err := graph.PoolAttrs(conv("MaxPool", ints("kernel_shape", int64(kernel)), ints("strides", int64(stride)),
							ints("pads", int64(begin), int64(end)), num("ceil_mode", 1)))
						Expect(err).NotTo(HaveOccurred())
						out, _, _, err := w.Resolve([]int{in})
						Expect(err).NotTo(HaveOccurred())
						want := 1 // windows needed to touch the last padded element, as far as they may start
						for (want-1)*stride+kernel < in+begin+end && want*stride < in+begin {
							want++
						}
						Expect(out[0]).To(Equal(want), "in %d kernel %d stride %d pads %d %d", in, kernel, stride, begin, end)
					}
				}
			}
		}
	})
	DescribeTable("resolves transposed convolutions", func(in, kernel, out, begin, end int, attrs ...graph.Attr) {
		w, err := graph.ConvAttrs(conv("ConvTranspose", attrs...), []int{kernel})
		Expect(err).NotTo(HaveOccurred())
		o, b, e, err := w.ResolveTranspose([]int{in})
		Expect(err).NotTo(HaveOccurred())
		Expect([]int{o[0], b[0], e[0]}).To(Equal([]int{out, begin, end}))
	},
		Entry("plain", 3, 3, 5, 0, 0),
		Entry("strided, padded, with output padding", 3, 3, 6, 1, 1, ints("strides", 2), ints("pads", 1, 1), ints("output_padding", 1)),
		Entry("same", 3, 3, 6, 0, 1, ints("strides", 2), str("auto_pad", "SAME_UPPER")),
		Entry("same, lower", 3, 3, 6, 1, 0, ints("strides", 2), str("auto_pad", "SAME_LOWER")),
		Entry("output shape", 3, 3, 10, 0, 0, ints("strides", 3), ints("output_shape", 10)),
		Entry("output shape that cuts", 3, 3, 8, 1, 0, ints("strides", 3), ints("output_shape", 8)),
	)
	DescribeTable("refuses", func(part string, attrs ...graph.Attr) {
		_, err := graph.ConvAttrs(conv("Conv", attrs...), []int{3, 3})
		Expect(err).To(MatchError(graph.ErrAttr))
		Expect(err.Error()).To(ContainSubstring(part))
	},
		Entry("stride 0", "strides", ints("strides", 1, 0)),
		Entry("too few pads", "4 entries", ints("pads", 1, 1)),
		Entry("huge dilations", "dilations", ints("dilations", 1, 1<<40)),
		Entry("an unknown auto_pad", "auto_pad", str("auto_pad", "SAME")),
		Entry("a negative group", "group", num("group", -1)),
	)
	It("refuses a window larger than the input", func() {
		w, err := graph.ConvAttrs(conv("Conv"), []int{3})
		Expect(err).NotTo(HaveOccurred())
		_, _, _, err = w.Resolve([]int{2})
		Expect(err).To(MatchError(graph.ErrShapeMismatch))
		_, _, _, err = w.Resolve([]int{5, 5})
		Expect(err).To(MatchError(graph.ErrShapeMismatch))
	})
})

var _ = Describe("Axes", func() {
	It("normalises axes", func() {
		Expect(graph.NormAxis(-1, 4)).To(Equal(3))
		Expect(graph.NormAxes([]int64{-1, 0}, 3)).To(Equal([]int{2, 0}))
		_, err := graph.NormAxis(4, 4)
		Expect(err).To(MatchError(graph.ErrAttr))
		_, err = graph.NormAxes([]int64{0, -3}, 3)
		Expect(err).To(MatchError(graph.ErrAttr))
	})
	It("tells the axes of a reduction, from attribute or operand", func() {
		node := func(op graph.Op, attrs ...graph.Attr) *graph.Node {
			return graph.New("g").AddNode(graph.NodeSpec{Op: op, Attrs: attrs})
		}
		Expect(graph.ReduceAxes(node(graph.Op{Name: "ReduceSum", Since: 1}, ints("axes", -1, 0)), nil, 3)).To(Equal([]int{0, 2}))
		Expect(graph.ReduceAxes(node(graph.Op{Name: "ReduceSum"}), []int64{1}, 3)).To(Equal([]int{1}))
		Expect(graph.ReduceAxes(node(graph.Op{Name: "ReduceSum"}), nil, 2)).To(Equal([]int{0, 1}))
		Expect(graph.ReduceAxes(node(graph.Op{Name: "ReduceSum"}, num("noop_with_empty_axes", 1)), nil, 2)).To(BeEmpty())
	})
	It("broadcasts concrete shapes", func() {
		Expect(graph.BroadcastShapes([]int{2, 1, 4}, []int{3, 1}, []int{})).To(Equal([]int{2, 3, 4}))
		Expect(graph.BroadcastShapes([]int{1}, []int{0})).To(Equal([]int{0}))
		Expect(graph.BroadcastShapes()).To(Equal([]int{}))
		_, err := graph.BroadcastShapes([]int{2, 3}, []int{4})
		Expect(err).To(MatchError(graph.ErrShapeMismatch))
		Expect(err.Error()).To(ContainSubstring("[2 3] and [4]"))
	})
	DescribeTable("slices as ONNX does", func(length, start, end, step, first, count int) {
		f, n := graph.SliceRange(int64(length), int64(start), int64(end), int64(step))
		Expect([]int{int(f), int(n)}).To(Equal([]int{first, count}))
	},
		Entry(nil, 10, 2, 8, 3, 2, 2),
		Entry(nil, 10, -3, 100, 1, 7, 3),
		Entry(nil, 10, 5, 5, 1, 5, 0),
		Entry(nil, 10, -1, -100, -1, 9, 10),
		Entry(nil, 10, 100, 3, -2, 9, 3),
		Entry(nil, 0, 0, 5, 1, 0, 0),
		Entry(nil, 0, -1, -5, -1, 0, 0),
	)
	It("reads Einsum's equations", func() {
		e, err := graph.ParseEinsum("b...i, ...ij")
		Expect(err).NotTo(HaveOccurred())
		Expect(e.Inputs[0]).To(Equal(graph.EinsumTerm{Before: "b", After: "i", Ellipsis: true}))
		Expect(e.Output).To(Equal(graph.EinsumTerm{After: "bj", Ellipsis: true}))
		for _, bad := range []string{"i->ii", "1,2", "i->j", "i..j", "i->k->l"} {
			_, err := graph.ParseEinsum(bad)
			Expect(err).To(MatchError(graph.ErrAttr), bad)
		}
	})
})
