package partition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
)

// ErrPlan is wrapped by the verifier's errors.
var ErrPlan = errors.New("partition is not sound")

// Verify checks a partitioned graph in O(V+E): the groups together are acyclic; every node is in a Subgraph, or is a
// Convert or the host scheduler's; every operand has the format that its reader's signature wants; no Convert connects
// equal formats; and no value is converted twice to one format in one place.
func Verify(g *graph.Graph) error {
	if _, err := g.Topo(); err != nil {
		return fmt.Errorf("%w: %w", ErrPlan, err)
	}
	for n := range g.Nodes() {
		switch {
		case n.IsCarve(graph.OpConvert):
		case n.IsCarve(graph.OpSubgraph):
			body := n.Regions[0].Graph
			for i, v := range body.Inputs {
				if w := n.Inputs[i]; v.Format != w.Format {
					return fmt.Errorf("%w: %v reads %v as %v, which is %v", ErrPlan, n, w, v.Format, w.Format)
				}
			}
			for i, v := range body.Outputs {
				if w := n.Outputs[i]; w != nil && v.Format != w.Format {
					return fmt.Errorf("%w: %v gives %v as %v, which is %v", ErrPlan, n, w, v.Format, w.Format)
				}
			}
			if err := verifyFormats(body); err != nil {
				return err
			}
			continue
		case HostScheduled(n):
		default:
			return fmt.Errorf("%w: %v is in no group", ErrPlan, n)
		}
	}
	return verifyFormats(g)
}

func verifyFormats(g *graph.Graph) error {
	return verifyFormatsIn(g, func(*graph.Node) int32 { return 0 })
}

// verifyFormatsIn is verifyFormats for a graph whose nodes will be in several graphs: place tells which.
func verifyFormatsIn(g *graph.Graph, place func(*graph.Node) int32) error {
	type target struct {
		v     *graph.Value
		f     graph.Format
		place int32
	}
	seen := map[target]bool{}
	for n := range g.Nodes() {
		if n.IsCarve(graph.OpConvert) {
			t := target{n.Inputs[0], n.Outputs[0].Format, place(n)}
			if t.f == t.v.Format {
				return fmt.Errorf("%w: %v converts between equal formats", ErrPlan, n)
			}
			if seen[t] {
				return fmt.Errorf("%w: %v is converted to %v twice", ErrPlan, t.v, t.f)
			}
			seen[t] = true
			continue
		}
		if n.IsCarve(graph.OpSubgraph) {
			continue
		}
		for k, v := range n.Operands() {
			if f := wantedBy(graph.Use{Node: n, Slot: k}); f != v.Format && !v.IsDims() {
				return fmt.Errorf("%w: %v wants %v in %v, which is %v", ErrPlan, n, v, f, v.Format)
			}
		}
		for i, v := range n.Outputs {
			if v != nil && n.Ports != nil && v.Format != n.Ports.Outputs[i].Format {
				return fmt.Errorf("%w: %v gives %v in %v, which is %v", ErrPlan, n, v, n.Ports.Outputs[i].Format, v.Format)
			}
		}
	}
	return nil
}

func sortWants(ws []convert.Want) {
	slices.SortFunc(ws, func(a, b convert.Want) int {
		if a.Node != b.Node {
			return a.Node.ID - b.Node.ID
		}
		return a.Slot - b.Slot
	})
}
