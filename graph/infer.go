package graph

import "fmt"

// InferNode sets the types of n's results from those of its operands. Nodes without a schema leave them as they are. The
// error is the schema's, wrapped with the node; regions are inferred by the schemas of the operators that own them, by
// InferGraph.
func InferNode(n *Node) error {
	if n.Schema == nil || n.Schema.Infer == nil {
		return nil
	}
	if err := n.Schema.Infer(&Inference{Node: n, g: n.graph}); err != nil {
		return fmt.Errorf("%v: %w", n, err)
	}
	return nil
}

// InferGraph infers the types of all nodes of g in topological order. It stops at the first error, which names the node.
func InferGraph(g *Graph) error {
	order, err := g.Topo()
	if err != nil {
		return err
	}
	for _, n := range order {
		if err := InferNode(n); err != nil {
			return err
		}
	}
	return nil
}

// Graph returns the graph of the node under inference.
func (c *Inference) Graph() *Graph { return c.g }
