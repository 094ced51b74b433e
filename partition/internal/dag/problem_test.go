package dag_test

import (
	"github.com/carve-dev/carve/partition/internal/dag"
	"github.com/carve-dev/carve/partition/internal/dagtest"
)

// problem is a graph with a colour per node.
func problem(g *dagtest.Graph, color []int32) *dag.Problem {
	graph, err := dag.New(g.Nodes, g.From, g.To)
	if err != nil {
		panic(err)
	}
	return &dag.Problem{Graph: graph, Color: color}
}
