package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Negotiate asks the backends that have wishes, as Negotiators, which formats a finished group wants at its edges and for
// its constants, before conversions are put in. Wishes replace what the choice of signatures left there. The groups are
// shown as graphs of their own, made from a copy of the graph, so that nothing else changes. The nodes of groups that are
// refused are banned.
func (s *State) Negotiate(ctx context.Context) error {
	s.enter(stageNegotiate)
	talks := s.negotiators()
	if talks == nil {
		return nil
	}
	twin, err := s.g.Clone()
	if err != nil {
		return err
	}
	x := exchange{s: s, ids: map[*graph.Value]int{}, values: s.g.ValuesByID()}
	for id, v := range twin.ValuesByID() {
		if v != nil {
			x.ids[v] = id
		}
	}
	nodes := twin.NodesByID()
	for k, members := range s.members() {
		if talks[k] == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		copies := make([]*graph.Node, len(members))
		for i, n := range members {
			copies[i] = nodes[n.ID]
		}
		n, err := twin.Extract(copies, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}})
		if err != nil {
			return err
		}
		i := s.groups[k].backend
		wishes, err := talks[k].Negotiate(ctx, n.Regions[0].Graph)
		if errors.Is(err, backend.ErrRefused) {
			for _, m := range members {
				s.ban(m, i, stageNegotiate, property.Because(property.Veto, "%v", err))
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("group %d of %s: %w", k, s.names[i], err)
		}
		x.grant(int32(k), n, wishes)
	}
	return nil
}

// negotiators returns who is asked about each group, nil where nobody is. Groups whose shapes depend on data are not shown.
func (s *State) negotiators() []backend.Negotiator {
	var talks []backend.Negotiator
	for i, b := range s.o.Backends {
		t, ok := b.(backend.Negotiator)
		if !ok {
			continue
		}
		for k, info := range s.groups {
			if info.backend == int32(i) && !info.dynamic {
				if talks == nil {
					talks = make([]backend.Negotiator, len(s.groups))
				}
				talks[k] = t
			}
		}
	}
	return talks
}

// exchange carries wishes about the copy over to the graph.
type exchange struct {
	s      *State
	ids    map[*graph.Value]int              // of the copy's values
	values []*graph.Value                    // of the graph
	consts map[*tensor.Tensor][]*graph.Value // of the graph, by data; made when first needed
}

// grant carries the wishes of group k, which n of the copy holds, over.
func (x *exchange) grant(k int32, n *graph.Node, wishes map[*graph.Value]graph.Format) {
	body := n.Regions[0].Graph
	for i, in := range body.Inputs {
		if f, ok := wishes[in]; ok {
			x.read(k, x.original(n.Inputs[i]), f)
		}
	}
	for c := range body.Constants() {
		f, ok := wishes[c]
		if !ok || !c.IsConst() {
			continue
		}
		for _, v := range x.sharing(c.Const) {
			x.read(k, v, f)
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
		ownPorts(v.Producer).Outputs[v.Index] = graph.Fixed(f)
	}
}

// original returns the graph's value for one of the copy's, which may be the result of a group that was taken out before.
func (x *exchange) original(v *graph.Value) *graph.Value {
	for {
		if id, ok := x.ids[v]; ok {
			return x.values[id]
		}
		v = v.Producer.Regions[0].Graph.Outputs[v.Index]
	}
}

// sharing returns the graph's constants with that data: a copy shares it.
func (x *exchange) sharing(t *tensor.Tensor) []*graph.Value {
	if x.consts == nil {
		x.consts = map[*tensor.Tensor][]*graph.Value{}
		for v := range x.s.g.Constants() {
			if v.IsConst() {
				x.consts[v.Const] = append(x.consts[v.Const], v)
			}
		}
	}
	return x.consts[t]
}

// read makes the readers of v in group k want format f.
func (x *exchange) read(k int32, v *graph.Value, f graph.Format) {
	for _, u := range v.Uses() {
		if x.s.groupOf[u.Node.ID] == k && u.Slot < len(u.Node.Inputs) {
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
