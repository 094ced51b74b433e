package operators_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

type signer = func(n *graph.Node) ([]graph.Signature, *property.Reason)

func parse(text string) *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse("graph {\n  opset 17\n" + text + "\n}")
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.InferGraph(g)).To(Succeed())
	return g
}

var _ = Describe("a table", func() {
	table := operators.Table[signer, *place.Plan]{}
	table.Register("Neg", operators.Operator[signer, *place.Plan]{Signatures: func(n *graph.Node) ([]graph.Signature, *property.Reason) {
		return operators.RowMajor(n), nil
	}})
	supports := func(text string) backend.Support {
		return table.Supports(parse(text).Outputs[0].Producer, "kernel", func(v *graph.Value) *property.Reason {
			if !operators.IsFloat32(v) {
				return operators.NotFloat32(v)
			}
			return nil
		}, func(s signer) ([]graph.Signature, *property.Reason) { return s(parse(text).Outputs[0].Producer) })
	}

	It("answers for the nodes that it knows", func() {
		s := supports("  input %x: f32[4]\n  %y = Neg(%x)\n  output %y")
		Expect(s.Reason).NotTo(HaveOccurred())
		Expect(s.Signatures).To(HaveLen(1))
	})

	It("says why it turns others down", func() {
		Expect(supports("  input %x: f32[4]\n  %y = Abs(%x)\n  output %y").Reason).To(HaveField("Code", property.Unsupported))
		Expect(supports("  input %x: f64[4]\n  %y = Neg(%x)\n  output %y").Reason).To(HaveField("Code", property.DTypeReason))
	})

	It("takes each name once", func() {
		Expect(func() { table.Register("Neg", operators.Operator[signer, *place.Plan]{}) }).To(Panic())
	})

	It("orders subgraphs whose nodes are known", func() {
		known := func(n *graph.Node) bool {
			_, ok := table.Lookup(n)
			return ok
		}
		Expect(operators.Order(parse("  input %x: f32[4]\n  %y = Neg(%x)\n  %z = Neg(%y)\n  output %z"), "kernel", known)).To(HaveLen(2))
		_, err := operators.Order(parse("  input %x: f32[4]\n  %y = Neg(%x)\n  %z = Abs(%y)\n  output %z"), "kernel", known)
		Expect(err).To(MatchError(backend.ErrUnavailable))
	})
})

var _ = DescribeTable("a transposition keeps the bytes", func(dims, perm []int, keeps bool) {
	Expect(operators.KeepsBytes(dims, perm)).To(Equal(keeps))
},
	Entry("where dims of 1 move", []int{2, 1, 3, 1}, []int{1, 0, 3, 2}, true),
	Entry("where none moves", []int{2, 3}, []int{0, 1}, true),
	Entry("not where others change places", []int{2, 3}, []int{1, 0}, false),
)

var _ = It("assumed dims are those that are known, and expressions of graph.AssumedSize", func() {
	g := parse("  input %x: f32[seq,3,0,2*seq+1,seq-80,2*batch]\n  %y = Neg(%x)\n  output %y")
	Expect(operators.AssumedDims(g.Inputs[0])).To(Equal([]int{32, 3, 0, 65, 32, 2}))
	n, ok := operators.ConstDim(g.Inputs[0], 1)
	Expect([]any{n, ok}).To(Equal([]any{3, true}))
	_, ok = operators.ConstDim(g.Inputs[0], 0)
	Expect(ok).To(BeFalse())
})
