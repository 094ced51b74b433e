package partition

import (
	"context"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
)

// negotiate asks the backends that have wishes, as Negotiators, which formats a finished group wants at its edges and for
// its constants, before conversions are put in. Wishes replace what the choice of signatures left there. The groups are
// shown as graphs of their own, made from a copy of g, so that nothing else changes.
func negotiate(ctx context.Context, a *assignment, order []*graph.Node, groupOf []int32, groups []groupInfo) error {
	talks := make([]backend.Negotiator, len(groups))
	any := false
	for i, b := range a.o.Backends {
		t, ok := b.(backend.Negotiator)
		if !ok {
			continue
		}
		for k, info := range groups {
			if info.backend == int32(i) && !info.dynamic {
				talks[k], any = t, true
			}
		}
	}
	if !any {
		return nil
	}
	twin, err := a.g.Clone()
	if err != nil {
		return err
	}
	x := exchange{a: a, ids: map[*graph.Value]int{}, values: a.g.ValuesByID(), groupOf: groupOf}
	for id, v := range twin.ValuesByID() {
		if v != nil {
			x.ids[v] = id
		}
	}
	nodes := twin.NodesByID()
	members := make([][]*graph.Node, len(groups))
	for _, n := range order {
		if k := groupOf[n.ID]; k >= 0 && talks[k] != nil {
			members[k] = append(members[k], nodes[n.ID])
		}
	}
	for k, t := range talks {
		if t == nil {
			continue
		}
		n, err := twin.Extract(members[k], graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}})
		if err != nil {
			return err
		}
		wishes, err := t.Negotiate(ctx, n.Regions[0].Graph)
		if err != nil {
			return fmt.Errorf("group %d of %s: %w", k, a.names[groups[k].backend], err)
		}
		x.grant(int32(k), n, wishes)
	}
	return nil
}

// exchange carries wishes about the copy over to the graph.
type exchange struct {
	a       *assignment
	ids     map[*graph.Value]int // of the copy's values
	values  []*graph.Value       // of the graph
	groupOf []int32
}

func (x *exchange) grant(k int32, n *graph.Node, wishes map[*graph.Value]graph.Format) {
	body := n.Regions[0].Graph
	for i, in := range body.Inputs {
		if f, ok := wishes[in]; ok {
			x.read(k, x.values[x.ids[n.Inputs[i]]], f)
		}
	}
	for c := range body.Constants() {
		f, ok := wishes[c]
		if !ok || !c.IsConst() {
			continue
		}
		for v := range x.a.g.Constants() { // the copy's constant shares its tensor with the graph's
			if v.IsConst() && v.Const == c.Const {
				x.read(k, v, f)
			}
		}
	}
	for _, out := range body.Outputs {
		f, ok := wishes[out]
		id, known := x.ids[out]
		if !ok || !known {
			continue
		}
		v := x.values[id]
		v.Format = f
		ports := ownPorts(v.Producer)
		ports.Outputs[v.Index] = graph.Fixed(f)
	}
}

// read makes the readers of v in group k want format f.
func (x *exchange) read(k int32, v *graph.Value, f graph.Format) {
	for _, u := range v.Uses() {
		if x.groupOf[u.Node.ID] == k && u.Slot < len(u.Node.Inputs) {
			ownPorts(u.Node).Inputs[u.Slot] = graph.Fixed(f)
		}
	}
}

// ownPorts gives a node a signature of its own that may be changed.
func ownPorts(n *graph.Node) *graph.Signature {
	s := *n.Ports
	s.Inputs, s.Outputs = slices.Clone(s.Inputs), slices.Clone(s.Outputs)
	n.Ports = &s
	return n.Ports
}
