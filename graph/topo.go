package graph

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrCycle is wrapped by errors about graphs that are not acyclic.
var ErrCycle = errors.New("graph has a cycle")

func itoa(i int) string { return strconv.Itoa(i) }

// Topo returns the nodes in a topological order: the list order where that is topological, otherwise the list order with
// each node preceded by what it needs. It is deterministic and costs O(V+E), without recursion. The error wraps ErrCycle
// and names a node on a cycle.
func (g *Graph) Topo() ([]*Node, error) {
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
	var stack []frame
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
