package dag_test

import (
	"fmt"

	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"

	"github.com/carve-dev/carve/partition/internal/dag"
	"github.com/carve-dev/carve/partition/internal/dagtest"
)

// oracle checks a grouping by other means than Verify: the quotient's cycles with gonum's strongly connected components,
// connectedness with its components, and everything else by definition. It returns what is wrong, or "".
func oracle(g *dagtest.Graph, p *dag.Problem, r *dag.Grouping) string {
	if len(r.Of) != g.Nodes {
		return "not every node has a group"
	}
	members := make([][]int32, r.Len())
	for v, x := range r.Of {
		if x < 0 || int(x) >= r.Len() {
			return fmt.Sprintf("node %d: group %d", v, x)
		}
		members[x] = append(members[x], int32(v))
	}
	if cyclic(g, r) {
		return "the quotient has a cycle"
	}
	for x, nodes := range members {
		if fault := group(g, p, r, int32(x), nodes); fault != "" {
			return fmt.Sprintf("group %d %v: %s", x, nodes, fault)
		}
	}
	for e := range g.From {
		u, v := g.From[e], g.To[e]
		if p.Cut != nil && p.Cut[e] && r.Of[u] == r.Of[v] {
			return fmt.Sprintf("edge %d→%d is cut but inside a group", u, v)
		}
		if r.Of[u] > r.Of[v] {
			return "the groups are not numbered topologically"
		}
	}
	return ""
}

// cyclic reports whether the quotient of all groups has a cycle.
func cyclic(g *dagtest.Graph, r *dag.Grouping) bool {
	q := simple.NewDirectedGraph()
	for x := range r.Len() {
		q.AddNode(simple.Node(x))
	}
	for e := range g.From {
		if u, v := r.Of[g.From[e]], r.Of[g.To[e]]; u != v {
			q.SetEdge(simple.Edge{F: simple.Node(u), T: simple.Node(v)})
		}
	}
	return len(topo.TarjanSCC(q)) != r.Len()
}

// group returns what is wrong with one group.
func group(g *dagtest.Graph, p *dag.Problem, r *dag.Grouping, x int32, nodes []int32) string {
	if len(nodes) == 0 {
		return "empty"
	}
	color := r.Color[x]
	if color < 0 && len(nodes) > 1 {
		return "several host nodes"
	}
	var policy dag.Policy
	if color >= 0 && int(color) < len(p.Policy) {
		policy = p.Policy[color]
	}
	for _, v := range nodes {
		switch {
		case p.Color[v] != color:
			return "wrong colour"
		case color >= 0 && p.Bound != nil && p.Bound[v] != p.Bound[nodes[0]]:
			return "crosses a bound"
		case p.Alone != nil && p.Alone[v] && len(nodes) > 1:
			return "alone node has company"
		}
	}
	if !policy.Disconnected && !connected(g, r, nodes) {
		return "not connected"
	}
	return ""
}

// connected reports whether edges connect the nodes of a group.
func connected(g *dagtest.Graph, r *dag.Grouping, nodes []int32) bool {
	if len(nodes) == 1 {
		return true
	}
	u := simple.NewUndirectedGraph()
	for _, v := range nodes {
		u.AddNode(simple.Node(v))
	}
	for e := range g.From {
		if a, b := g.From[e], g.To[e]; r.Of[a] == r.Of[b] && r.Of[a] == r.Of[nodes[0]] {
			u.SetEdge(simple.Edge{F: simple.Node(a), T: simple.Node(b)})
		}
	}
	return len(topo.ConnectedComponents(u)) == 1
}
