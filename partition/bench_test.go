package partition_test

import (
	"fmt"
	"testing"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/partition/internal/dagtest"
)

// build makes a graph of that structure: operators of as many inputs as a node has edges to it, those without any reading
// the graph's input, and all sinks its outputs.
func build(d *dagtest.Graph) *graph.Graph {
	g := graph.New("bench")
	g.Opsets[""] = 17
	t := graph.TensorType(tensor.Float32, graph.ShapeOf(1, 64, 56, 56))
	x := g.AddInput("x", t)
	values := make([]*graph.Value, d.Nodes)
	e := 0
	var inputs, outputs []*graph.Value
	for v := range values {
		inputs = inputs[:0]
		for ; e < len(d.To) && int(d.To[e]) == v; e++ {
			inputs = append(inputs, values[d.From[e]])
		}
		op := "Add"
		switch len(inputs) {
		case 0:
			inputs = append(inputs, x)
			fallthrough
		case 1:
			op = "Relu"
		}
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Inputs: inputs, Outputs: []string{""}})
		values[v] = n.Outputs[0]
		values[v].Type = t
	}
	for _, v := range values {
		if v.NumUses() == 0 {
			outputs = append(outputs, v)
		}
	}
	g.SetOutputs(outputs...)
	return g
}

// BenchmarkPartition measures what lies between finished claims and verified groups. Every backend claims half of all
// nodes at random.
func BenchmarkPartition(b *testing.B) {
	graphs := []struct {
		name string
		make func(n int) *dagtest.Graph
	}{
		{"chain", dagtest.Chain},
		{"random", func(n int) *dagtest.Graph { return dagtest.Random(n, 20, 1) }},
		{"resnet50", dagtest.ResNet50},
	}
	for _, kind := range graphs {
		for _, count := range []int{1, 2, 4} {
			for _, nodes := range []int{10_000, 100_000, 1_000_000} {
				b.Run(fmt.Sprintf("graph=%s/backends=%d/nodes=%d", kind.name, count, nodes), func(b *testing.B) {
					var backends []backend.Backend
					for i := range count {
						backends = append(backends, &reference.Backend{Name: fmt.Sprintf("reference%d", i)})
					}
					g := build(kind.make(nodes))
					colors := dagtest.Colors(nodes, count, 0.5, 1)
					a := partition.Assign(g, backends, func(n *graph.Node) int { return int(colors[n.ID]) })
					b.ReportAllocs()
					for b.Loop() {
						groups, err := a.Group(b.Context())
						if err != nil {
							b.Fatal(err)
						}
						b.ReportMetric(float64(groups), "groups")
					}
				})
			}
		}
	}
}
