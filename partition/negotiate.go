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

// agreed forms groups and chooses formats until no backend refuses a group when its formats are negotiated.
func agreed(ctx context.Context, a *assignment) (order []*graph.Node, groupOf []int32, groups []groupInfo, err error) {
	for range maxReviews {
		if order, groupOf, groups, err = grouped(ctx, a); err != nil {
			return nil, nil, nil, err
		}
		formats, err := chooseFormats(ctx, a, order)
		if err != nil {
			return nil, nil, nil, err
		}
		formats.apply()
		refused, err := negotiate(ctx, a, order, groupOf, groups)
		if err != nil || !refused {
			return order, groupOf, groups, err
		}
	}
	return nil, nil, nil, fmt.Errorf("%w: %d rounds", ErrReview, maxReviews)
}

// negotiate asks the backends that have wishes, as Negotiators, which formats a finished group wants at its edges and for
// its constants, before conversions are put in. Wishes replace what the choice of signatures left there. The groups are
// shown as graphs of their own, made from a copy of g, so that nothing else changes. Where backends refuse groups, these
// are given to backends further down the list, which then claim anew, and all has to be grouped again.
func negotiate(ctx context.Context, a *assignment, order []*graph.Node, groupOf []int32, groups []groupInfo) (refused bool, err error) {
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
		return false, nil
	}
	twin, err := a.g.Clone()
	if err != nil {
		return false, err
	}
	x := exchange{a: a, ids: map[*graph.Value]int{}, values: a.g.ValuesByID(), groupOf: groupOf}
	for id, v := range twin.ValuesByID() {
		if v != nil {
			x.ids[v] = id
		}
	}
	nodes := twin.NodesByID()
	members, copies := make([][]*graph.Node, len(groups)), make([][]*graph.Node, len(groups))
	for _, n := range order {
		if k := groupOf[n.ID]; k >= 0 && talks[k] != nil {
			members[k], copies[k] = append(members[k], n), append(copies[k], nodes[n.ID])
		}
	}
	first := int32(len(a.names))
	for k, t := range talks {
		if t == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := twin.Extract(copies[k], graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}})
		if err != nil {
			return false, err
		}
		i := groups[k].backend
		wishes, err := t.Negotiate(ctx, n.Regions[0].Graph)
		if errors.Is(err, backend.ErrRefused) {
			for _, m := range members[k] {
				if err := a.dismiss(m, i, property.Because(property.Veto, "%v", err)); err != nil {
					return false, err
				}
			}
			first = min(first, i)
			continue
		}
		if err == nil {
			err = x.grant(int32(k), n, wishes)
		}
		if err != nil {
			return false, fmt.Errorf("group %d of %s: %w", k, a.names[i], err)
		}
	}
	if int(first) == len(a.names) {
		return false, nil
	}
	return true, a.again(ctx, first)
}

// exchange carries wishes about the copy over to the graph.
type exchange struct {
	a       *assignment
	ids     map[*graph.Value]int // of the copy's values
	values  []*graph.Value       // of the graph
	groupOf []int32
	consts  map[*tensor.Tensor][]*graph.Value // of the graph, by data; made when first needed
}

// grant carries the wishes of group k, which n of the copy holds, over.
func (x *exchange) grant(k int32, n *graph.Node, wishes map[*graph.Value]graph.Format) error {
	body := n.Regions[0].Graph
	for i, in := range body.Inputs {
		if f, ok := wishes[in]; ok {
			v := x.original(n.Inputs[i])
			if err := x.reachable(v, v.Format, f); err != nil {
				return err
			}
			x.read(k, v, f)
		}
	}
	for c := range body.Constants() {
		f, ok := wishes[c]
		if !ok || !c.IsConst() {
			continue
		}
		for _, v := range x.sharing(c.Const) {
			if err := x.reachable(v, v.Format, f); err != nil {
				return err
			}
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
		if err := x.reachable(v, f, graph.HostFormat); err != nil {
			return err
		}
		v.Format = f
		ports := ownPorts(v.Producer)
		ports.Outputs[v.Index] = graph.Fixed(f)
	}
	return nil
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
		for v := range x.a.g.Constants() {
			if v.IsConst() {
				x.consts[v.Const] = append(x.consts[v.Const], v)
			}
		}
	}
	return x.consts[t]
}

// reachable returns an error where nobody converts v between two formats. Whoever wishes for a format has to bring
// converters of it from and to the host's.
func (x *exchange) reachable(v *graph.Value, from, to graph.Format) error {
	if _, err := x.a.o.Registry.Path(from, to); err != nil {
		return fmt.Errorf("%w: wish for value %v: %w", ErrSignature, v, err)
	}
	return nil
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
