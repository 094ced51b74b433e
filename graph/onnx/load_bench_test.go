package onnx_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// BenchmarkLoadChain is the time and memory to load a chain of Add nodes, each with a constant, a name, and a type in
// value_info.
func BenchmarkLoadChain(b *testing.B) {
	for _, nodes := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			g := graph.New("chain")
			g.Opsets[""] = 21
			v := g.AddInput("x", graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N")}))
			for i := range nodes {
				c := g.AddConst(fmt.Sprint("c", i), tensor.Scalar(float32(i)+0.5))
				v = g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Add"}, Name: fmt.Sprint("n", i), Inputs: []*graph.Value{v, c},
					Outputs: []string{fmt.Sprint("v", i)}}).Outputs[0]
			}
			g.SetOutputs(v)
			if err := graph.InferGraph(g); err != nil {
				b.Fatal(err)
			}
			path := filepath.Join(b.TempDir(), "chain.onnx")
			if err := onnx.Save(context.Background(), path, &onnx.Model{Graph: g}, nil); err != nil {
				b.Fatal(err)
			}
			if info, err := os.Stat(path); err == nil {
				b.SetBytes(info.Size())
			}
			b.ReportAllocs()
			for b.Loop() {
				m, err := onnx.Load(context.Background(), path, nil)
				if err != nil {
					b.Fatal(err)
				}
				if err := m.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
