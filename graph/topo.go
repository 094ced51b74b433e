package graph

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrCycle is wrapped by errors about graphs that are not acyclic.
var ErrCycle = errors.New("graph has a cycle")

// ErrOrder is wrapped by errors about lists of nodes that are no topological order of their graph.
var ErrOrder = errors.New("not a topological order")

// ErrNil is wrapped by errors about graphs and nodes that are nil.
var ErrNil = errors.New("is nil")

var errNilGraph, errNilNode = fmt.Errorf("graph %w", ErrNil), fmt.Errorf("node %w", ErrNil)

func itoa(i int) string { return strconv.Itoa(i) }

// Topo returns the nodes in a topological order: the list order where that is topological, otherwise the list order with
// each node preceded by what it needs. It is deterministic and costs O(V+E), without recursion. The error wraps ErrCycle
// and names a node on a cycle; that of a nil graph wraps ErrNil.
func (g *Graph) Topo() ([]*Node, error) {
	if g == nil {
		return nil, errNilGraph
	}
	const (
		open = 1
		done = 2
	)
	state := make([]uint8, g.NodeIDs())
	order := make([]*Node, 0, g.live)
	type frame struct {
		n *Node
		k int
	}
	stack := make([]frame, 0, 32) // of most graphs, and not on the heap
	for root := range g.Nodes() {
		if state[root.ID] != 0 {
			continue
		}
		state[root.ID] = open
		stack = append(stack[:0], frame{root, 0})
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.k == f.n.NumOperands() {
				state[f.n.ID] = done
				order = append(order, f.n)
				stack = stack[:len(stack)-1]
				continue
			}
			v := f.n.Operand(f.k)
			f.k++
			if v == nil || v.Producer == nil {
				continue
			}
			switch p := v.Producer; state[p.ID] {
			case 0:
				state[p.ID] = open
				stack = append(stack, frame{p, 0})
			case open:
				return nil, fmt.Errorf("%w through %v", ErrCycle, p)
			}
		}
	}
	return order, nil
}

// Reorder puts the node list into the given order, which has to hold every node of g once, each behind the nodes whose
// results it reads. Otherwise g stays as it is and the error wraps ErrOrder. O(V+E).
func (g *Graph) Reorder(order []*Node) error {
	if len(order) != g.live {
		return fmt.Errorf("%w: %d nodes of %d", ErrOrder, len(order), g.live)
	}
	done := make([]bool, g.NodeIDs())
	for _, n := range order {
		if n == nil || n.graph != g || n.ID >= len(done) || done[n.ID] {
			return fmt.Errorf("%w: %v is no node of the graph or comes twice", ErrOrder, n)
		}
		for k := range n.NumOperands() {
			if v := n.Operand(k); v != nil && v.Producer != nil && !done[v.Producer.ID] {
				return fmt.Errorf("%w: %v comes before %v", ErrOrder, n, v.Producer)
			}
		}
		done[n.ID] = true
	}
	g.nodes = append(g.nodes[:0:0], order...)
	for i, n := range g.nodes {
		n.pos = i
	}
	return nil
}
