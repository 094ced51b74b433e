package graph_test

import (
	"fmt"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Outputs", func() {
	// values returns a graph of n values that nothing reads: an input, and results.
	values := func(n int) (*graph.Graph, []*graph.Value) {
		g := graph.New("g")
		vs := []*graph.Value{g.AddInput("v0", graph.TensorType(tensor.Float32, graph.ShapeOf(2)))}
		for i := 1; i < n; i++ {
			vs = append(vs, g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Relu"}, Inputs: vs[:1], Outputs: []string{fmt.Sprint("v", i)}}).Outputs[0])
		}
		return g, vs
	}

	It("are known by their places, whatever is moved", func() {
		r := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			g, vs := values(6)
			want := make([]*graph.Value, r.IntN(9))
			for i := range want {
				want[i] = vs[r.IntN(len(vs))]
			}
			g.SetOutputs(want...)
			for range 12 {
				old, v := vs[r.IntN(len(vs))], vs[r.IntN(len(vs))]
				switch k := r.IntN(4); {
				case k == 0:
					g.MoveOutputs(old, v)
					for i := range want {
						if want[i] == old {
							want[i] = v
						}
					}
				case k == 1:
					want = append(append([]*graph.Value(nil), want...), v)
					g.SetOutputs(want...)
				case len(want) > 0:
					i := r.IntN(len(want))
					g.SetOutput(i, v)
					want[i] = v
				}
				Expect(g.Outputs).To(HaveLen(len(want)))
				for i, v := range g.Outputs {
					Expect(v).To(BeIdenticalTo(want[i]))
				}
				for _, v := range vs {
					listed := false
					for _, o := range want {
						listed = listed || o == v
					}
					Expect(v.IsOutput()).To(Equal(listed))
				}
				Expect(graph.Verify(g)).To(Succeed())
			}
			h, err := g.Clone()
			Expect(err).NotTo(HaveOccurred())
			if len(want) > 0 {
				h.SetOutput(0, h.Inputs[0])
			}
			Expect(graph.Verify(h)).To(Succeed())
			Expect(graph.Verify(g)).To(Succeed(), "a copy has outputs of its own")
		}
	})
	It("go with what is extracted and inlined", func() {
		g, vs := values(5)
		g.SetOutputs(vs[1], vs[2], vs[1], vs[0], vs[3], vs[1])
		n, err := g.Extract([]*graph.Node{vs[1].Producer, vs[3].Producer}, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}})
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(g)).To(Succeed())
		Expect(g.Outputs).To(HaveExactElements(n.Outputs[0], vs[2], n.Outputs[0], vs[0], n.Outputs[1], n.Outputs[0]))
		_, err = g.Inline(n)
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(g)).To(Succeed())
		Expect(g.Outputs).To(HaveExactElements(vs[1], vs[2], vs[1], vs[0], vs[3], vs[1]))
	})
})
