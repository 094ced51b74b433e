package plan

import "github.com/carve-dev/carve/graph"

// Sequence is a graph in the order that a plan has it in.
type Sequence struct {
	Graph *graph.Graph
	Nodes []*graph.Node // all of the graph's
}

// Orders returns a carved graph, and the bodies of its groups, in the order of g. A graph whose nodes are others than those that
// g lists is left out; whether an order is topological nobody has looked at.
func (g *Graph) Orders(carved *graph.Graph) []Sequence {
	outer, bodies := []string{}, map[string][]string{}
	in := ""
	for i := range g.Steps {
		s := &g.Steps[i]
		k := s.key()
		switch {
		case s.Kind == Group:
			in = s.Name
			outer = append(outer, k)
			bodies[in] = []string{}
		case s.Kind == Host || s.Kind == Convert && !s.Within:
			outer = append(outer, k)
		default:
			bodies[in] = append(bodies[in], k)
		}
	}
	var d describer
	list := arrange(carved, outer, func(n *graph.Node) string {
		d.g.Steps = d.g.Steps[:0]
		switch {
		case n.IsCarve(graph.OpSubgraph):
			return (&Step{Kind: Group, Name: label(n)}).key()
		case n.IsCarve(graph.OpConvert):
			d.convert(n, false)
			return d.g.Steps[0].key()
		}
		return (&Step{Kind: Host, Name: label(n)}).key()
	})
	for n := range carved.Nodes() {
		if !n.IsCarve(graph.OpSubgraph) {
			continue
		}
		list = append(list, arrange(n.Regions[0].Graph, bodies[label(n)], func(m *graph.Node) string {
			d.g.Steps = d.g.Steps[:0]
			d.node(m)
			return d.g.Steps[0].key()
		})...)
	}
	return list
}

// key is what a step is found by in a graph.
func (s *Step) key() string {
	switch s.Kind {
	case Group:
		return "g" + s.Name
	case Convert:
		return "c" + s.Name + "\x00" + s.In[0] + "\x00" + s.Out[0]
	case Host:
		return "h" + s.Name
	case Node, Fused:
	}
	return "n" + s.Name
}

// arrange puts the nodes of a graph into the order of keys; none where these are others.
func arrange(g *graph.Graph, keys []string, keyOf func(*graph.Node) string) []Sequence {
	if len(keys) != g.NumNodes() {
		return nil
	}
	by := make(map[string][]*graph.Node, len(keys))
	for n := range g.Nodes() {
		k := keyOf(n)
		by[k] = append(by[k], n)
	}
	o := Sequence{Graph: g}
	for _, k := range keys {
		list := by[k]
		if len(list) == 0 {
			return nil
		}
		o.Nodes = append(o.Nodes, list[0])
		by[k] = list[1:]
	}
	return []Sequence{o}
}
