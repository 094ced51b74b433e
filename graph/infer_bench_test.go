package graph_test

import (
	"fmt"
	"testing"

	"github.com/carve-dev/carve/graph"
)

// residual returns a chain of blocks of a convolution, a normalisation and an addition: 4 nodes a block.
func residual(blocks int) *graph.Graph {
	g := graph.New("residual")
	parse := func(s string) graph.Type {
		t, err := graph.ParseType(s)
		if err != nil {
			panic(err)
		}
		return t
	}
	x := g.AddInput("x", parse("f32[N,64,56,56]"))
	w := g.AddInput("w", parse("f32[64,64,3,3]"))
	c := g.AddInput("c", parse("f32[64]"))
	add := func(op string, in []*graph.Value, attrs ...graph.Attr) *graph.Value {
		return g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Inputs: in, Outputs: []string{"y"}, Attrs: attrs}).Outputs[0]
	}
	for range blocks {
		y := add("Conv", []*graph.Value{x, w}, graph.IntsAttr("pads", 1, 1, 1, 1))
		y = add("BatchNormalization", []*graph.Value{y, c, c, c, c})
		x = add("Relu", []*graph.Value{add("Add", []*graph.Value{y, x})})
	}
	g.SetOutputs(x)
	return g
}

func BenchmarkInferGraph(b *testing.B) {
	for _, blocks := range []int{25, 2500} {
		b.Run(fmt.Sprintf("nodes=%d", 4*blocks), func(b *testing.B) {
			g := residual(blocks)
			b.ReportAllocs()
			for b.Loop() {
				if err := graph.InferGraph(g); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*4*blocks), "ns/node")
		})
	}
}
