package graph_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// addChain returns n Add nodes in a row, each with a constant of its own.
func addChain(n int) *graph.Graph {
	g := graph.New("chain")
	g.Opsets[""] = 21
	v := g.AddInput("x", graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N")}))
	for i := range n {
		c := g.AddConst(fmt.Sprint("c", i), tensor.Scalar(float32(i)+0.5))
		node := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Add"}, Name: fmt.Sprint("n", i), Inputs: []*graph.Value{v, c}, Outputs: []string{fmt.Sprint("v", i)}})
		v = node.Outputs[0]
	}
	g.SetOutputs(v)
	return g
}

// counting is a writer that keeps nothing.
type counting int64

func (c *counting) Write(b []byte) (int, error) { *c += counting(len(b)); return len(b), nil }

func processorTime() time.Duration {
	own, _ := usage()
	return own
}

var _ = Describe("A chain of a million nodes", Label("slow"), func() {
	It("is built, inferred, verified, simplified and printed in 10 s and 2 GiB", func() {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long: -ginkgo.label-filter=slow")
		}
		const nodes = 1_000_000
		start, cpu := time.Now(), processorTime()
		lap := func(what string) time.Duration {
			wall, own := time.Since(start), processorTime()-cpu
			_, peak := usage()
			GinkgoWriter.Printf("%-9s %6.2f s, %6.2f s of processors, peak %d MiB\n", what, wall.Seconds(), own.Seconds(), peak>>20)
			if own > 0 {
				return min(wall, own) // others may keep the processors busy
			}
			return wall
		}
		g := addChain(nodes)
		lap("build")
		Expect(graph.InferGraph(g)).To(Succeed())
		lap("infer")
		Expect(graph.Verify(g)).To(Succeed())
		lap("verify")
		report, err := graph.Simplify(context.Background(), g, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(report.Folded).To(BeEmpty())
		lap("simplify")
		var size counting
		Expect(graph.Print(&size, g, nil)).To(Succeed())
		Expect(lap("print")).To(BeNumerically("<", 10*time.Second))
		Expect(int64(size)).To(BeNumerically(">", 50*nodes))
		_, peak := usage()
		Expect(peak).To(BeNumerically("<", 2<<30))
		runtime.KeepAlive(g)
	})
})
