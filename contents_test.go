package carve_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// sized is the text of a model whose node "late" has a shape that the elements of an input tell, or some of them.
func sized(sizes int, body string) string {
	return fmt.Sprintf(`graph {
  opset 17
  input %%x: f32[N,3,4]
  input %%n: i64[%d]
  const %%one = i64[1]{1}
  const %%two = i64[1]{2}
  const %%three = i64[1]{3}
  const %%four = i64[1]{4}
  const %%zero = i64[1]{0}
  const %%pair = f32[2]{0.5, 2}
%s
}`, sizes, body)
}

var _ = Describe("nodes whose shapes the elements of an operand tell", func() {
	DescribeTable("run on cpu, specialised for these",
		func(ctx SpecContext, text string, contents ...[]int64) {
			m := textModel(text)
			p := compile(ctx, m, &carve.Options{Verify: true, Poison: true})
			s, err := p.NewSession()
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(s.Close)
			for range 2 {
				for k, n := range contents {
					feeds := map[string]tensor.Value{"x": wave(1+k%2, 3, 4), "n": tensor.From(n, len(n))}
					got, err := s.Run(ctx, feeds)
					Expect(err).NotTo(HaveOccurred())
					want := referenceOutputs(ctx, m, feeds)
					for _, port := range p.Outputs() {
						Expect(got[port.Name].(*tensor.Tensor).Shape).To(Equal(want[port.Name].(*tensor.Tensor).Shape), "%v", n)
						near(got[port.Name], want[port.Name])
					}
				}
			}
			Expect(backendsOf(ctx, p)).To(And(HaveKeyWithValue("late", "cpu"), HaveKeyWithValue("behind", "cpu")))
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			for _, x := range r.Rejected {
				Expect(x.Reason).NotTo(ContainSubstring(string(property.SpecializeFail)), "%v", x)
			}
		},
		Entry("Expand", sized(1, `  %s = Concat(%n, %one, %three, %one; axis=0) "s"
  %u = Expand(%x, %s) "late"
  %y = Exp(%u) "behind"
  output %y`), []int64{2}, []int64{1}, []int64{5}, []int64{0}),
		Entry("Reshape, of which the number of elements tells no more than one dim", sized(2, `  %u = Reshape(%x, %n) "late"
  %y = Softmax(%u; axis=1) "behind"
  output %y`), []int64{4, 3}, []int64{-1, 2}, []int64{6, 2}, []int64{0, -1}),
		Entry("Tile", sized(1, `  %s = Concat(%one, %n, %two; axis=0) "s"
  %u = Tile(%x, %s) "late"
  %y = Exp(%u) "behind"
  output %y`), []int64{2}, []int64{3}, []int64{0}),
		Entry("Slice", sized(2, `  const %first = i64[1]{0}
  const %second = i64[1]{1}
  %from = Gather(%n, %first) "from"
  %to = Gather(%n, %second) "to"
  %u = Slice(%x, %from, %to, %two) "late"
  %y = Exp(%u) "behind"
  output %y`), []int64{0, 2}, []int64{1, 4}, []int64{-3, -1}, []int64{3, 1}, []int64{-9, 9}),
		Entry("Slice by as many places as another one tells", sized(3, `  const %first = i64[1]{0}
  %some = Gather(%n, %first) "some"
  %from = Slice(%n, %one, %some) "from"
  %u = Slice(%x, %from, %from) "none"
  %to = Add(%from, %two) "to"
  %v = Slice(%x, %from, %to) "late"
  %y = Exp(%v) "behind"
  output %y, %u`), []int64{2, 0, 1}, []int64{3, 0, 1}, []int64{1, 0, 0}),
		Entry("Pad", sized(6, `  %u = Pad(%x, %n) "late"
  %y = Exp(%u) "behind"
  output %y`), []int64{0, 1, 2, 0, 0, 1}, []int64{0, 0, 0, 0, 0, 0}, []int64{1, 0, -1, 0, 0, 3}),
		Entry("Resize", sized(2, `  const %axis = i64[1]{0}
  %i = Unsqueeze(%x, %axis) "images"
  %b = Shape(%i) "shape"
  %from = Slice(%b, %zero, %two) "from"
  %s = Concat(%from, %n; axis=0) "s"
  %u = Resize(%i, _, _, %s; mode="linear") "late"
  %y = Exp(%u) "behind"
  output %y`), []int64{5, 6}, []int64{2, 9}, []int64{3, 4}),
		Entry("Resize of planes by sizes that the run alone tells", sized(4, `  const %axis = i64[1]{0}
  %i = Unsqueeze(%x, %axis) "images"
  %u = Resize(%i, _, _, %n; mode="linear") "late"
  %y = Exp(%u) "behind"
  output %y`), []int64{1, 1, 5, 6}, []int64{1, 2, 2, 9}, []int64{1, 1, 3, 4}),
		Entry("TopK", sized(1, `  %u, %i = TopK(%x, %n) "late"
  %y = Exp(%u) "behind"
  output %y, %i`), []int64{2}, []int64{4}, []int64{0}),
		Entry("ReduceSum", sized(1, `  %u = ReduceSum(%x, %n; keepdims=0) "late"
  %y = Exp(%u) "behind"
  output %y`), []int64{2}, []int64{0}, []int64{-2}),
		Entry("ReduceSum over two axes", sized(2, `  %u = ReduceSum(%x, %n) "late"
  %y = Exp(%u) "behind"
  output %y`), []int64{2, 0}, []int64{0, 1}, []int64{-2, -1}),
		Entry("ConstantOfShape", sized(2, `  %u = ConstantOfShape(%n; value=f32[1]{0.5}) "late"
  %y = Exp(%u) "behind"
  output %y`), []int64{2, 3}, []int64{0, 4}),
		Entry("Range", sized(1, `  const %first = i64[]{0}
  const %step = i64[]{1}
  const %at = i64[]{0}
  %end = Gather(%n, %at) "end"
  %u = Range(%first, %end, %step) "late"
  %y = Add(%u, %u) "behind"
  output %y`), []int64{3}, []int64{0}, []int64{-2}),
	)

	DescribeTable("say what is wrong with them", func(ctx SpecContext, text string, n []int64, message string) {
		p := compile(ctx, textModel(text), &carve.Options{Verify: true})
		_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(2, 3, 4), "n": tensor.From(n, len(n))})
		Expect(err).To(MatchError(ContainSubstring(message)))
		Expect(err).To(MatchError(ContainSubstring("late")))
	},
		Entry("a negative dim", sized(3, `  %y = Expand(%x, %n) "late"
  output %y`), []int64{-4, 3, 4}, "-4"),
		Entry("a shape that does not broadcast", sized(3, `  %y = Expand(%x, %n) "late"
  output %y`), []int64{3, 3, 4}, "3"),
		Entry("a dim that is not the operand's", sized(1, `  %s = Concat(%one, %n, %four; axis=0) "s"
  %y = Expand(%x, %s) "late"
  output %y`), []int64{2}, "2"),
		Entry("another number of elements, in one dim", sized(1, `  %s = Concat(%two, %n; axis=0) "s"
  %y = Reshape(%x, %s) "late"
  output %y`), []int64{5}, "5"),
		Entry("another number of elements", sized(2, `  %y = Reshape(%x, %n) "late"
  output %y`), []int64{7, 5}, "7"),
		Entry("more than there are", sized(1, `  %y, %i = TopK(%x, %n) "late"
  output %y, %i`), []int64{9}, "9"),
		Entry("more than memory holds", sized(3, `  %y = Tile(%x, %n) "late"
  output %y`), []int64{1 << 40, 1 << 20, 1}, "late"),
	)
})
