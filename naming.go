package carve

import (
	"strconv"

	"github.com/carve-dev/carve/graph"
)

// nameNodes gives nodes without a name that of their first result, or of their operator, with a number where it is taken;
// in regions behind owner and attribute, as in models from files. Reports, errors and fallbacks speak of nodes by name.
func (c *compilation) nameNodes() error {
	if !nameless(c.g) {
		return nil
	}
	n := naming{taken: map[string]bool{}}
	n.collect(c.g)
	n.graph(c.g, "")
	return nil
}

// nameless reports whether a node of the graph, or of one nested in it, has no name.
func nameless(g *graph.Graph) bool {
	for n := range g.Nodes() {
		if n.Name == "" && n.Origins == nil {
			return true
		}
		for _, r := range n.Regions {
			if nameless(r.Graph) {
				return true
			}
		}
	}
	return false
}

type naming struct{ taken map[string]bool }

// collect takes the names that are there.
func (t *naming) collect(g *graph.Graph) {
	for n := range g.Nodes() {
		for _, name := range n.Provenance() {
			t.taken[name] = true
		}
		for _, r := range n.Regions {
			t.collect(r.Graph)
		}
	}
}

func (t *naming) graph(g *graph.Graph, scope string) {
	for n := range g.Nodes() {
		if n.Name == "" && n.Origins == nil {
			n.Name = t.unique(scope + labelOf(n))
		}
		for _, r := range n.Regions {
			t.graph(r.Graph, scope+n.Name+"/"+r.Name+"/")
		}
	}
}

func labelOf(n *graph.Node) string {
	for _, v := range n.Outputs {
		if v != nil && v.Name != "" {
			return v.Name
		}
	}
	return n.Op.Name
}

// unique returns s, or s with the first number behind it that makes it new, and takes it.
func (t *naming) unique(s string) string {
	name := s
	for i := 2; t.taken[name]; i++ {
		name = s + "_" + strconv.Itoa(i)
	}
	t.taken[name] = true
	return name
}
