package dag_test

import (
	"fmt"
	"slices"

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
		if p.Cut != nil && p.Cut[e] && r.Of[u] == r.Of[v] && !(p.Unit != nil && p.Unit[u] >= 0 && p.Unit[u] == p.Unit[v]) {
			return fmt.Sprintf("edge %d→%d is cut but inside a group", u, v)
		}
		if r.Of[u] > r.Of[v] {
			return "the groups are not numbered topologically"
		}
	}
	if p.Unit != nil {
		for u := range int32(g.Nodes) {
			groups := map[int32]bool{}
			host, rejected := 0, 0
			for v := range g.Nodes {
				if p.Unit[v] != u {
					continue
				}
				groups[r.Of[v]] = true
				if p.Color[v] < 0 {
					host++
				}
				if slices.Contains(r.Rejected, int32(v)) {
					rejected++
				}
			}
			if whole := len(groups) <= 1 || host == len(groups) || rejected == len(groups); !whole && !slices.Contains(r.Split, u) {
				return fmt.Sprintf("unit %d is split and not reported", u)
			}
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
	size, unit := int64(0), true
	for _, v := range nodes {
		rejected := slices.Contains(r.Rejected, v)
		switch {
		case rejected && (color >= 0 || p.Color[v] < 0):
			return "rejected node in a coloured group"
		case !rejected && p.Color[v] != color:
			return "wrong colour"
		case color >= 0 && p.Bound != nil && p.Bound[v] != p.Bound[nodes[0]]:
			return "crosses a bound"
		}
		if p.Size != nil {
			size += int64(p.Size[v])
		} else {
			size++
		}
		unit = unit && p.Unit != nil && p.Unit[v] >= 0 && p.Unit[v] == p.Unit[nodes[0]]
	}
	unit = unit || len(nodes) == 1
	for _, v := range nodes {
		if p.Alone != nil && p.Alone[v] && !unit {
			return "alone node has company"
		}
	}
	if policy.MaxSize > 0 && size > policy.MaxSize && !unit {
		return "too large"
	}
	if !policy.Disconnected && !connected(g, p, r, nodes) {
		return "not connected"
	}
	return ""
}

// connected reports whether edges and whole units connect the nodes of a group.
func connected(g *dagtest.Graph, p *dag.Problem, r *dag.Grouping, nodes []int32) bool {
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
	if p.Unit != nil {
		for i, a := range nodes {
			for _, b := range nodes[:i] {
				if p.Unit[a] >= 0 && p.Unit[a] == p.Unit[b] && !slices.Contains(r.Split, p.Unit[a]) {
					u.SetEdge(simple.Edge{F: simple.Node(a), T: simple.Node(b)})
				}
			}
		}
	}
	return len(topo.ConnectedComponents(u)) == 1
}
