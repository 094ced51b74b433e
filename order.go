package carve

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/memplan/schedule"
)

// The order of execution. Each group's body is put into the order that needs the least memory, and so are the graphs of
// groups, conversions and the host's nodes. The groups are what they are by then: the order changes neither them nor the
// conversions. Symbols without a bound count as graph.AssumedDim.

// order is the pass: it reorders group bodies, then the graphs around them, and keeps the orders before.
func (c *compilation) order() error {
	c.before = map[*graph.Graph][]*graph.Node{}
	if c.o.KeepOrder {
		return nil
	}
	m := memoryModel{ctx: c.ctx, registry: c.registry, options: &c.o, backends: c.backends, estimate: true}
	return c.blocks(func(g *graph.Graph) error {
		for n := range g.Nodes() {
			if n.IsCarve(graph.OpSubgraph) {
				if err := c.orderGraph(&m, n.Regions[0].Graph); err != nil {
					return err
				}
			}
		}
		return c.orderGraph(&m, g)
	})
}

func (c *compilation) orderGraph(m *memoryModel, g *graph.Graph) error {
	if g.NumNodes() < 4 {
		return nil // at most one of three nodes has another place, and none that frees anything
	}
	nodes, err := g.Topo()
	if err != nil {
		return err
	}
	o, err := schedule.Order(c.ctx, m.graph(g, nodes), nil)
	if err != nil || !o.Reordered {
		return err
	}
	sorted := make([]*graph.Node, len(nodes))
	for i, k := range o.Order {
		sorted[i] = nodes[k]
	}
	c.before[g] = nodes
	return g.Reorder(sorted)
}
