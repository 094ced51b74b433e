package graph

import (
	"errors"
	"fmt"
)

// InferNode checks n against its schema and sets the types and the known integer contents of its results from those of
// its operands. Nodes without a schema leave them as they are. The error is an *InferError, or whatever a registered
// schema's Infer returns, wrapped with the node; regions are inferred by the schemas of the operators that own them.
func InferNode(n *Node) error { return new(Inference).infer(n) }

// infer is InferNode with c as the memory that it needs, whatever c was used for before.
func (c *Inference) infer(n *Node) error {
	if n == nil {
		return errNilNode
	}
	if n.Schema == nil {
		return checkVersion(n)
	}
	if n.graph == nil {
		return nil
	}
	c.Node, c.g, c.mark = n, n.graph, n.graph.outermost().freshDims
	if c.bound = c.bound[:0]; cap(c.bound) == 0 {
		c.bound = c.first[:0]
	}
	if err := n.Schema.checkOperands(n, &c.bound); err != nil {
		return err
	}
	if n.Schema.Infer == nil {
		return nil
	}
	if err := n.Schema.Infer(c); err != nil {
		var own *InferError
		if errors.As(err, &own) {
			return err
		}
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
	var c Inference
	for _, n := range order {
		if err := c.infer(n); err != nil {
			return err
		}
	}
	return nil
}

// Graph returns the graph of the node under inference.
func (c *Inference) Graph() *Graph { return c.g }
