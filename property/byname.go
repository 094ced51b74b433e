package property

import (
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Grouping says how nodes that were chosen are put into groups.
type Grouping uint8

const (
	// Together is carve's: the groups are acyclic all together, and as large as that allows.
	Together Grouping = iota
	// AsMXNet is the grouping of Apache MXNet 1.x, one group after another, each by itself acyclic; see MXNetSets. Sets that need
	// each other's results, at which MXNet fails, are cut further.
	AsMXNet
)

// ByName returns the properties that do what MXNet's default and default_v2 do: a backend that has them takes the nodes of operators of
// these names, in any domain, and no others, in groups of connected nodes. The first limits what the backend takes; as MXNet groups, a
// second draws the borders.
func ByName(name string, g Grouping, ops ...string) []SubgraphProperty {
	ops = slices.Clone(ops)
	chosen := func(n *graph.Node) *Reason {
		if slices.Contains(ops, n.Op.Name) {
			return nil
		}
		return Because(Unsupported, "%v is not among %s", n.Op, capped(ops))
	}
	limit := WithKind(Admitting, Nodes(name, chosen))
	if g == Together {
		return []SubgraphProperty{limit}
	}
	return []SubgraphProperty{limit, &Rule{ID: name + "-groups", Kind: Bounding, Selector: func(g *graph.Graph) Selector {
		s := &groupSelector{chosen: chosen, of: map[*graph.Node]int{}}
		for i, set := range MXNetSets(g, chosen) {
			for _, n := range set {
				s.of[n] = i + 1
			}
		}
		return s
	}}}
}

// groupSelector selects groups that are known.
type groupSelector struct {
	chosen Predicate
	of     map[*graph.Node]int // numbers from 1
}

func (s *groupSelector) Select(seed *graph.Node) bool            { return s.of[seed] > 0 }
func (s *groupSelector) SelectInput(cur, input *graph.Node) bool { return s.of[cur] == s.of[input] }
func (s *groupSelector) SelectOutput(cur, output *graph.Node) bool {
	return s.of[cur] == s.of[output]
}
func (s *groupSelector) Filter(set []*graph.Node) []*graph.Node { return set }
func (s *groupSelector) Reset()                                 {}
func (s *groupSelector) Why(n *graph.Node) *Reason              { return s.chosen(n) }

// MXNetSets returns the sets of nodes that Apache MXNet's partitioner makes of those that a predicate qualifies, in its order, by the
// algorithm of its build_subgraph.cc with what is wrong in it: a set grows from each node over operands and readers; where it would
// depend on itself through nodes that belong to no set yet, the topologically latest node at the offending place is left out, and it
// grows again. Sets are not looked at together, so that two may need each other's results, and the search for a path gives up after
// as many steps as there are nodes. Cost: up to O(V²·E), as MXNet's.
func MXNetSets(g *graph.Graph, qualified Predicate) [][]*graph.Node {
	m := &mxnetSets{order: postOrder(g), set: map[*graph.Node]int{}, rank: map[*graph.Node]int{}, qualified: qualified}
	m.steps = len(m.order) + len(g.Inputs)
	for range g.Constants() {
		m.steps++ // variables are nodes in MXNet
	}
	for i, n := range m.order {
		m.rank[n] = i
	}
	var out [][]*graph.Node
	for _, seed := range m.order {
		if m.set[seed] != 0 || qualified(seed) != nil {
			continue
		}
		out = append(out, m.from(seed, len(out)+1))
	}
	return out
}

type mxnetSets struct {
	order     []*graph.Node
	rank      map[*graph.Node]int
	set       map[*graph.Node]int // numbers from 1
	steps     int
	qualified Predicate
}

// postOrder lists nodes as MXNet numbers them: depth first from the outputs, operands before their readers.
func postOrder(g *graph.Graph) []*graph.Node {
	type visit struct {
		n    *graph.Node
		next int
	}
	seen := map[*graph.Node]bool{}
	var out []*graph.Node
	for _, v := range g.Outputs {
		if v.Producer == nil || seen[v.Producer] {
			continue
		}
		seen[v.Producer] = true
		stack := []visit{{n: v.Producer}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == top.n.NumOperands() {
				out = append(out, top.n)
				stack = stack[:len(stack)-1]
				continue
			}
			v := top.n.Operand(top.next)
			top.next++
			if v != nil && v.Producer != nil && !seen[v.Producer] {
				seen[v.Producer] = true
				stack = append(stack, visit{n: v.Producer})
			}
		}
	}
	return out
}

// makers are the producers of operands, readers the consumers of results.
func makers(n *graph.Node) (out []*graph.Node) {
	for _, v := range n.Operands() {
		if v.Producer != nil {
			out = append(out, v.Producer)
		}
	}
	return out
}

func (m *mxnetSets) readers(n *graph.Node) (out []*graph.Node) {
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		for _, r := range v.Consumers() {
			if _, known := m.rank[r]; known && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// from makes the set of a seed.
func (m *mxnetSets) from(seed *graph.Node, number int) []*graph.Node {
	excluded := map[*graph.Node]bool{}
	for {
		set := m.grow(seed, number, excluded)
		bad := m.offender(set, number)
		if bad == nil {
			slices.SortFunc(set, func(a, b *graph.Node) int { return m.rank[a] - m.rank[b] })
			return set
		}
		for _, n := range set {
			m.set[n] = 0
		}
		if excluded[bad] || bad == seed {
			m.set[seed] = number
			return []*graph.Node{seed}
		}
		excluded[bad] = true
	}
}

// grow collects what can be reached from the seed.
func (m *mxnetSets) grow(seed *graph.Node, number int, excluded map[*graph.Node]bool) []*graph.Node {
	set := []*graph.Node{seed}
	m.set[seed] = number
	for i := 0; i < len(set); i++ {
		for _, n := range append(makers(set[i]), m.readers(set[i])...) {
			if m.set[n] == 0 && !excluded[n] && m.qualified(n) == nil {
				m.set[n] = number
				set = append(set, n)
			}
		}
	}
	return set
}

// neighbour is a node that belongs to no set, beside one: the latest nodes of the set that it feeds, and that feed it; -1 for none.
type neighbour struct {
	n           *graph.Node
	feeds, from int
}

// offender returns the latest node of the set at a place where a path leads out of it and back, nil where there is none.
func (m *mxnetSets) offender(set []*graph.Node, number int) *graph.Node {
	at := map[*graph.Node]int{}
	var list []neighbour
	entry := func(n *graph.Node) *neighbour {
		k, ok := at[n]
		if !ok {
			k = len(list)
			at[n] = k
			list = append(list, neighbour{n, -1, -1})
		}
		return &list[k]
	}
	for _, n := range set {
		for _, x := range makers(n) {
			if m.set[x] == 0 {
				e := entry(x)
				e.feeds = max(e.feeds, m.rank[n])
			}
		}
		for _, x := range m.readers(n) {
			if m.set[x] == 0 {
				e := entry(x)
				e.from = max(e.from, m.rank[n])
			}
		}
	}
	slices.SortFunc(list, func(a, b neighbour) int { return m.rank[a.n] - m.rank[b.n] })
	worst := -1
	for i, a := range list {
		if a.from < 0 {
			continue
		}
		if a.feeds >= 0 {
			worst = max(worst, a.feeds, a.from)
		}
		for _, b := range list[i+1:] {
			if b.feeds >= 0 && m.reaches(a.n, b.n, number) {
				worst = max(worst, a.feeds, a.from, b.feeds, b.from)
			}
		}
	}
	if worst < 0 {
		return nil
	}
	return m.order[worst]
}

// reaches reports a path from a to b that does not cross the set. It remembers no node that it has seen.
func (m *mxnetSets) reaches(a, b *graph.Node, number int) bool {
	stack := []*graph.Node{b}
	for count := 0; len(stack) > 0 && count < m.steps; count++ {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		switch top {
		case a:
			return true
		case nil: // a variable, which is a step too
			continue
		}
		for _, v := range top.Operands() {
			if v.Producer == nil || m.set[v.Producer] != number {
				stack = append(stack, v.Producer)
			}
		}
	}
	return false
}
