package graph_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

var _ = Describe("sums of dims", func() {
	concat := func(n int, sym func(i int) graph.Dim) *graph.Value {
		g := graph.New("g")
		g.Opsets[""] = 21
		var in []*graph.Value
		for i := range n {
			in = append(in, g.AddInput(fmt.Sprint("x", i), graph.TensorType(tensor.Float32, graph.Shape{sym(i)})))
		}
		y := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Concat"}, Inputs: in, Attrs: []graph.Attr{graph.IntAttr("axis", 0)}, Outputs: []string{"y"}}).Outputs[0]
		g.SetOutputs(y)
		Expect(graph.InferGraph(g)).To(Succeed())
		return y
	}

	It("are those of the dims one by one", func() {
		dims := []graph.Dim{graph.Sym("b"), graph.D(3), graph.Sym("a").Scale(2), graph.Sym("b").Scale(-1), graph.Sym("a").Mul(graph.Sym("c")).Add(graph.D(1)), graph.Sym("a")}
		var want graph.Dim
		for _, d := range dims {
			want = want.Add(d)
		}
		Expect(want.String()).To(Equal("3*a+a*c+4"))
		y := concat(len(dims), func(i int) graph.Dim { return dims[i] })
		Expect(y.Type.Shape[0].Equal(want)).To(BeTrue(), y.Type.String())
		Expect(concat(2, func(i int) graph.Dim { return graph.Sym("a").Scale(int64(1 - 2*i)) }).Type.Shape[0].Is(0)).To(BeTrue())
	})

	It("of tens of thousands take time in proportion", func() {
		before := zootest.ProcessorTime()
		concat(40000, func(i int) graph.Dim { return graph.Sym(fmt.Sprint("d", i)) })
		Expect(zootest.ProcessorTime() - before).To(BeNumerically("<", 20*time.Second))
	})
})
