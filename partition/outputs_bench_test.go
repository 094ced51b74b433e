package partition_test

import (
	"fmt"
	"testing"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

// BenchmarkOutputs partitions graphs whose every node is an output, in a layout that is not the host's: each is converted,
// and each group hands several over. Time per output should not grow with their number.
func BenchmarkOutputs(b *testing.B) {
	for _, outputs := range []int{2_000, 20_000} {
		b.Run(fmt.Sprintf("outputs=%d", outputs), func(b *testing.B) {
			backends := []backend.Backend{instance("a", graph.NHWC, "Relu"), &reference.Backend{}}
			r, err := convert.NewRegistry(nil)
			if err != nil {
				b.Fatal(err)
			}
			model := graph.New("outputs")
			model.Opsets[""] = 17
			x := model.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(1, 4, 3, 3)))
			values := make([]*graph.Value, outputs)
			for i := range values {
				from, op := x, "Relu"
				if i%4 > 0 {
					from = values[i-1]
				} else if i%8 == 0 {
					op = "Neg"
				}
				values[i] = model.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: fmt.Sprint("n", i), Inputs: []*graph.Value{from}, Outputs: []string{""}}).Outputs[0]
			}
			model.SetOutputs(values...)
			if err := graph.InferGraph(model); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				g, err := model.Clone()
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if _, err := partition.Partition(b.Context(), g, &partition.Options{Backends: backends, Registry: r}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(outputs), "ns/output")
		})
	}
}
