package partition

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
)

// Where Options.Isolated is set, each node is a group of its own, takes its operands row-major on the host, gives its
// results so, and shares no conversion with others. It is what a partition is compared with.

// isolate gives each node the signature that is cheapest if all its neighbours' formats are the host's.
func (c *formatChooser) isolate() {
	for _, n := range c.order {
		best := math.Inf(1)
		for i, s := range c.sigs[n.ID] {
			if x := c.isolatedCost(n, &s); x < best {
				best, c.choice[n.ID] = x, i
			}
		}
	}
}

// isolatedCost is what a signature and its conversions from and to the host's format cost.
func (c *formatChooser) isolatedCost(n *graph.Node, s *graph.Signature) float64 {
	sum := s.Extra
	for k, v := range n.Inputs {
		again := false
		for j, w := range n.Inputs[:k] {
			again = again || w == v && s.Inputs[j].Format == s.Inputs[k].Format
		}
		if v != nil && !again {
			sum += c.cost(v, graph.HostFormat, s.Inputs[k].Format)
		}
	}
	for i, v := range n.Outputs {
		if v != nil {
			f := s.Outputs[i].Format
			sum += c.cost(v, f, graph.HostFormat) + paddingCost*float64(c.physical(v, f)-c.sizes[v.ID].logical)
		}
	}
	return sum
}

// isolateValue inserts the conversions of one value: behind its producer, and before each of its readers by itself. They
// belong to the groups of these, unless they cross to another device or need a backend's converter.
func (b *builder) isolateValue(v *graph.Value) {
	if v.Format != graph.HostFormat {
		n := convert.NewConvert(b.s.g, v, graph.HostFormat)
		b.place(n, v.Producer)
		for _, u := range append([]graph.Use(nil), v.Uses()...) {
			if u.Node != n {
				u.Node.SetOperand(u.Slot, n.Outputs[0])
			}
		}
		if v.IsOutput() {
			b.s.g.MoveOutputs(v, n.Outputs[0])
		}
		v = n.Outputs[0]
	}
	var wants, shared []convert.Want
	for _, u := range v.Uses() {
		switch f := wantedBy(u); {
		case f == graph.HostFormat || u.Node.IsCarve(graph.OpConvert):
		case reordered(f):
			wants = append(wants, convert.Want{Node: u.Node, Slot: u.Slot, Format: f})
		default:
			shared = append(shared, convert.Want{Node: u.Node, Slot: u.Slot, Format: f})
		}
	}
	sortWants(shared)
	convert.Insert(v, shared, nil)
	sortWants(wants)
	for len(wants) > 0 {
		k := 1
		for k < len(wants) && wants[k].Node == wants[0].Node {
			k++
		}
		for _, n := range convert.Insert(v, wants[:k], nil) {
			b.place(n, wants[0].Node)
		}
		wants = wants[k:]
	}
}

// place puts a Convert node into the group of a node that it belongs to.
func (b *builder) place(n, owner *graph.Node) {
	from, to := n.Inputs[0].Format, n.Outputs[0].Format
	if owner == nil || b.s.groupAt(owner) < 0 || !reordered(from) || !reordered(to) {
		b.s.setGroup(n, -1)
		return
	}
	n.Backend = owner.Backend
	b.s.setGroup(n, b.s.groupAt(owner))
}

// reordered reports whether a format is one that any backend of the host can convert.
func reordered(f graph.Format) bool { return f.Device.IsHost() && !f.Layout.IsOpaque() }

// Conversion is a change of format that a run makes.
type Conversion struct {
	Type graph.Type
	From graph.Format
}

// Conversions returns the conversions of an isolated partition (Options.Isolated), from when they are inserted to when groups
// are extracted: those of groups, and the single hops between groups, of which a value shares those that several targets have
// in common. The graph stays as it is. The error is of a conversion that nobody makes.
func (s *State) Conversions() ([]Conversion, error) {
	var list []Conversion
	hops := map[*graph.Value][][]*convert.Converter{} // paths from each value that have been counted
	for n := range s.g.Nodes() {
		if !n.IsCarve(graph.OpConvert) {
			continue
		}
		v := n.Inputs[0]
		if s.groupAt(n) >= 0 {
			list = append(list, Conversion{v.Type, v.Format})
			continue
		}
		rank := -1
		if v.Type.Shape.Known() {
			rank = len(v.Type.Shape)
		}
		path, err := s.o.Registry.PathOf(v.Format, n.Outputs[0].Format, v.Type.DType, rank)
		if err != nil {
			return nil, fmt.Errorf("value %v: %w", v, err)
		}
		done := 0
		for _, other := range hops[v] {
			done = max(done, common(path, other))
		}
		from := v.Format
		for i, c := range path {
			if i >= done {
				list = append(list, Conversion{v.Type, from})
			}
			from = c.To
		}
		hops[v] = append(hops[v], path)
	}
	return list, nil
}

// common returns how many hops two paths have in common from where they begin.
func common(a, b []*convert.Converter) int {
	k := 0
	for k < min(len(a), len(b)) && a[k].To == b[k].To {
		k++
	}
	return k
}
