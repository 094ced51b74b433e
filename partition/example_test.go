package partition_test

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// A graph for two backends: the first takes convolutions and activations and keeps images in NHWC, the second takes the
// rest. A property keeps groups of the first from being smaller than two nodes.
func ExamplePartition() {
	g, err := graph.Parse(`graph "net" {
  opset 17
  input %x: f32[1,3,2,2]
  const %w = f32[1,3,1,1]{1, 2, 3}
  %conv = Conv(%x, %w) "conv"
  %act = Relu(%conv) "act"
  %exp = Exp(%act) "exp"
  %last = Relu(%exp) "last"
  output %last
}
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := graph.InferGraph(g); err != nil {
		fmt.Println(err)
		return
	}
	nhwc := &reference.Backend{Name: "nhwc", Layout: func(graph.Type) graph.Layout { return graph.NHWC },
		Accept: func(n *graph.Node) bool { return n.Is("Conv", "Relu") }}
	backends := []backend.Backend{nhwc, &reference.Backend{Name: "plain"}}
	registry, err := convert.NewRegistry(nil, graph.On(graph.NHWC))
	if err != nil {
		fmt.Println(err)
		return
	}
	pairs := property.Limit(property.Nodes("pairs", property.Ops("Conv", "Relu")), property.Bounds{Min: 2})
	res, err := partition.Partition(context.Background(), g, &partition.Options{
		Backends:   backends,
		Registry:   registry,
		Properties: map[string][]property.SubgraphProperty{"nhwc": {property.WithKind(property.Admitting, pairs)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range g.Nodes() {
		fmt.Println(n.Op.Name, n.Backend, n.Provenance())
	}
	for _, r := range res.Rejected {
		fmt.Println(r.Node, "not on", r.Backend+":", r.Reason)
	}
	for _, p := range res.Packs {
		fmt.Println("pack", p.Name, "to", p.Format.Name(4))
	}
	// Output:
	// Convert  []
	// Subgraph nhwc [conv act]
	// Convert  []
	// Subgraph plain [exp last]
	// exp not on nhwc: unsupported (pairs): Exp is not among Conv, Relu
	// last not on nhwc: too-small (pairs): a set of 1 nodes, of at least 2
	// pack w to host:NHWC
}
