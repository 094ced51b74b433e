package cuda_test

import (
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

var _ = Describe("placement by cost", func() {
	// layers are products of a matrix [rows, width], each with an activation behind it.
	layers := func(rows, width string, weights []int) *graph.Graph {
		GinkgoHelper()
		g, err := graph.Parse("graph {\n  opset 24\n  input %x: f32[" + rows + "," + width + "]\n" +
			"  %a = MatMul(%x, %x) \"a\"\n  %b = Tanh(%a) \"b\"\n  %c = MatMul(%b, %b) \"c\"\n  %y = Relu(%c) \"d\"\n  output %y\n}")
		Expect(err).NotTo(HaveOccurred())
		r := rand.New(rand.NewPCG(1, 2))
		w := g.AddConst("w", whole(r, 1, weights...))
		for _, n := range g.NodesByID() {
			if n.Is("MatMul") {
				n.SetOperand(1, w)
			}
		}
		return g
	}
	DescribeTable("takes the device for what it is worth, without being asked for", func(ctx SpecContext, g func() *graph.Graph, where string) {
		m := carve.FromGraph(g())
		DeferCleanup(m.Close)
		fake := own("placement of "+where, fakecuda.Options{})
		fake.Set("processors", 108)
		p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{config(fake)}, Threads: 4, Verify: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Placement).NotTo(BeNil())
		for _, x := range r.Groups {
			Expect(x.Backend).To(Equal(where), "%v", x.Nodes)
		}
	},
		Entry("large products", func() *graph.Graph { return layers("4096", "1024", []int{1024, 1024}) }, "cuda"),
		Entry("small ones", func() *graph.Graph { return layers("4", "8", []int{8, 8}) }, "cpu"),
	)
})
