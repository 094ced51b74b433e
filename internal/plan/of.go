package plan

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/memplan/schedule"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// Of describes a graph that was carved, in the order of its nodes. O(V+E).
func Of(g *graph.Graph, r *partition.Result) Graph {
	d := describer{how: map[*graph.Node]*partition.Chosen{}, g: Graph{Name: g.Name}}
	if p := r.Placement(); p != nil {
		d.g.Nanoseconds, d.g.Bound = math.Round(p.Nanoseconds), math.Round(p.Bound)
	}
	list := r.Chosen()
	for i := range list {
		d.how[list[i].Node] = &list[i]
	}
	for n := range g.Nodes() {
		switch {
		case n.IsCarve(graph.OpSubgraph):
			d.add(Step{Kind: Group, Backend: n.Backend, Name: label(n)})
			for m := range n.Regions[0].Graph.Nodes() {
				d.node(m)
			}
		case n.IsCarve(graph.OpConvert):
			d.convert(n, false)
		default:
			d.add(Step{Kind: Host, Name: label(n), Op: n.Op.String()})
		}
	}
	return d.g
}

type describer struct {
	g   Graph
	how map[*graph.Node]*partition.Chosen
}

func (d *describer) add(s Step) { d.g.Steps = append(d.g.Steps, s) }

func (d *describer) convert(n *graph.Node, within bool) {
	v := n.Inputs[0]
	rank, of := len(v.Type.Shape), v
	for of.Producer != nil && of.Producer.IsCarve(graph.OpConvert) {
		of = of.Producer.Inputs[0]
	}
	d.add(Step{Kind: Convert, Within: within, Name: of.String(), In: []string{v.Format.Name(rank)}, Out: []string{n.Outputs[0].Format.Name(rank)}})
}

// node describes a node of a group.
func (d *describer) node(n *graph.Node) {
	if n.IsCarve(graph.OpConvert) {
		d.convert(n, true)
		return
	}
	s := Step{Kind: Node, Name: label(n), Op: n.Op.String()}
	c := d.how[n]
	if c != nil {
		s.Form, s.Cost = c.Signature.Name, math.Round(c.Nanoseconds)
		s.In, s.Out = formatNames(n, c.Signature)
	}
	if c != nil && c.Property != "" && len(n.Regions) == 1 {
		s.Kind, s.Op = Fused, c.Property
		for m := range n.Regions[0].Graph.Nodes() {
			s.Of = append(s.Of, label(m))
		}
		slices.Sort(s.Of)
	}
	d.add(s)
}

// formatNames returns the names of a signature's formats, "-" where a node has no such operand or result. Variables, which resolved
// signatures have none of, are "*".
func formatNames(n *graph.Node, s *graph.Signature) (in, out []string) {
	name := func(ports []graph.Port, vs []*graph.Value) []string {
		list := make([]string, len(ports))
		for i, p := range ports {
			switch {
			case i >= len(vs) || vs[i] == nil:
				list[i] = "-"
			case p.Var > 0:
				list[i] = "*"
			default:
				list[i] = p.Format.Name(len(vs[i].Type.Shape))
			}
		}
		return list
	}
	return name(s.Inputs, n.Inputs), name(s.Outputs, n.Outputs)
}

// BansOf describes a table of bans.
func BansOf(t *partition.Bans) (out []Ban) {
	for _, b := range t.All() {
		for _, name := range b.Names() {
			out = append(out, Ban{Node: name, Backend: b.Backend, Pass: b.Pass, Code: string(b.Reason.Code), Property: b.Reason.Property, Detail: b.Reason.Detail})
		}
	}
	return out
}

// Impose adds a plan's bans to a table.
func (p *Plan) Impose(t *partition.Bans) {
	for _, b := range p.Bans {
		t.Add(partition.Ban{Node: b.Node, Backend: b.Backend, Pass: b.Pass,
			Reason: &property.Reason{Code: property.Code(b.Code), Property: b.Property, Detail: b.Detail}})
	}
}

// Known returns the arenas for who plans memory again.
func (p *Plan) Known() []schedule.Known {
	var list []schedule.Known
	for i := range p.Arenas {
		a := &p.Arenas[i]
		k := schedule.Known{Device: a.Device, Height: a.Bytes, Method: a.Method, Placed: make([]schedule.Placed, len(a.Buffers))}
		for j, b := range a.Buffers {
			k.Placed[j] = schedule.Placed{Bytes: b.Bytes, Offset: b.Offset, Lower: b.First, Upper: b.End}
		}
		list = append(list, k)
	}
	return list
}
