package property

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Sets drives a property over g: every node of the topological order that is still free is offered as a seed, and each
// set that grows, passes Filter and is convex in the current graph goes to accept, which may contract it; sets that it
// turns down leave their nodes free for other seeds. A set that Filter tears apart is offered piece by piece. One that is
// not convex loses its topologically latest offending node and grows again; a large one, or one that does so often, is
// divided into convex parts instead. Nodes that convexity, Judge or Filter took away, or Select refused with a reason, are
// reported to declined, which may be nil.
//
// It is deterministic: nodes are visited in topological order and consumers by id. The cost is that of the selector's calls,
// O(V+E) of them if its sets are small or become claims: a node is given up by the pass once two large sets with it have
// come to nothing.
func Sets(ctx context.Context, g *graph.Graph, p SubgraphProperty, free func(*graph.Node) bool,
	accept func(set []*graph.Node) bool, declined func(*graph.Node, *Reason)) error {
	if ctx == nil {
		ctx = context.Background()
	}
	order, err := g.Topo()
	if err != nil {
		return err
	}
	return SetsIn(ctx, g, order, p, free, accept, declined)
}

// SetsIn is Sets where a topological order of g is known: several properties may look at one graph, and their sets be turned
// down, before it is another one.
func SetsIn(ctx context.Context, g *graph.Graph, order []*graph.Node, p SubgraphProperty, free func(*graph.Node) bool,
	accept func(set []*graph.Node) bool, declined func(*graph.Node, *Reason)) error {
	s := &setFinder{g: g, p: p, sel: p.NewSelector(g), free: free, accept: accept, declined: declined}
	if s.sel == nil {
		return nil
	}
	s.explain, _ = s.sel.(Explainer)
	s.judge, _ = s.sel.(Judge)
	s.facts = make([]fact, g.NodeIDs())
	for i, n := range order {
		s.facts[n.ID].rank = int32(i) + 1
	}
	for i, seed := range order {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if s.usable(seed) {
			if err := s.from(seed); err != nil {
				return err
			}
		}
	}
	return nil
}

// Bounds of the work that a pass puts into sets that come to nothing.
const (
	maxRetries  = 16      // growths from one seed
	largeSet    = 4096    // edges looked at by a growth that counts as large
	maxLarge    = 2       // large growths that a node may be part of without ending in a claim
	searchLimit = 1 << 16 // nodes outside of a set that one test of convexity may look at
)

// setFinder is one pass of a property.
type setFinder struct {
	g        *graph.Graph
	p        SubgraphProperty
	sel      Selector
	explain  Explainer
	judge    Judge
	free     func(*graph.Node) bool
	accept   func([]*graph.Node) bool
	declined func(*graph.Node, *Reason)

	facts   []fact // by node id
	stamp   uint32
	begun   bool          // Select has been called
	exclude []*graph.Node // taken away from the current seed's sets
	queue   []*graph.Node
	readers []*graph.Node
	left    []*graph.Node    // of a set that was filtered
	whole   [1][]*graph.Node // the pieces of a set of which all are left
	before  []fact           // of the nodes of the piece that is claimed
	effort  int              // edges that the latest growth looked at
	claimed int              // nodes of the current growth that became claims
}

// fact is what a pass knows of a node.
type fact struct {
	rank  int32 // place in the topological order from 1; 0 for nodes that came later
	large uint8 // large sets that came to nothing
	mark  uint32
}

// fact returns the entry of a node.
func (s *setFinder) fact(n *graph.Node) *fact {
	for n.ID >= len(s.facts) {
		s.facts = append(s.facts, fact{})
	}
	return &s.facts[n.ID]
}

func (s *setFinder) usable(n *graph.Node) bool {
	if n.Graph() != s.g {
		return false
	}
	f := s.fact(n)
	return f.rank > 0 && f.large < maxLarge && s.free(n)
}

// from makes what it can of one seed.
func (s *setFinder) from(seed *graph.Node) error {
	s.exclude = s.exclude[:0]
	for try := 0; ; try++ {
		set := s.grow(seed)
		if set == nil {
			return nil
		}
		bad, err := s.g.Offender(set, searchLimit)
		if err != nil {
			return err
		}
		if bad == nil {
			return s.offer(set)
		}
		s.decline(bad, Because(Cycle, "with it the set of %s would depend on itself", s.p.Name()))
		if bad == seed || len(set) == 1 {
			return nil
		}
		if try == maxRetries || s.effort > largeSet {
			parts, err := s.g.ConvexParts(set)
			if err != nil {
				return err
			}
			for _, part := range parts {
				if err := s.offer(part); err != nil {
					return err
				}
			}
			return nil
		}
		s.exclude = append(s.exclude, bad)
	}
}

// grow returns the set around seed in topological order, nil where the selector turns the seed down.
func (s *setFinder) grow(seed *graph.Node) []*graph.Node {
	if s.begun {
		s.sel.Reset()
	}
	s.begun = true
	if !s.sel.Select(seed) {
		s.why(seed)
		return nil
	}
	s.effort = 0
	s.stamp++
	s.fact(seed).mark = s.stamp
	s.queue = append(s.queue[:0], seed)
	for i := 0; i < len(s.queue); i++ {
		cur := s.queue[i]
		for _, v := range cur.Operands() {
			s.effort++
			if p := v.Producer; p != nil && s.candidate(p) && s.sel.SelectInput(cur, p) {
				s.take(p)
			}
		}
		for _, o := range cur.Outputs {
			if o == nil {
				continue
			}
			s.effort += o.NumUses()
			for _, c := range s.consumers(o) {
				if s.candidate(c) && s.sel.SelectOutput(cur, c) {
					s.take(c)
				}
			}
		}
	}
	set := slices.Clone(s.queue)
	s.sort(set)
	return set
}

func (s *setFinder) candidate(n *graph.Node) bool {
	return s.usable(n) && s.fact(n).mark != s.stamp && !slices.Contains(s.exclude, n)
}

func (s *setFinder) take(n *graph.Node) {
	s.fact(n).mark = s.stamp
	s.queue = append(s.queue, n)
}

// consumers returns the distinct nodes that read v, by id. The list is valid until the next call.
func (s *setFinder) consumers(v *graph.Value) []*graph.Node {
	s.readers = s.readers[:0]
	for _, u := range v.Uses() {
		s.readers = append(s.readers, u.Node)
	}
	if len(s.readers) > 1 {
		slices.SortFunc(s.readers, func(a, b *graph.Node) int { return a.ID - b.ID })
		s.readers = slices.Compact(s.readers)
	}
	return s.readers
}

func (s *setFinder) sort(set []*graph.Node) {
	if len(set) > 1 {
		slices.SortFunc(set, func(a, b *graph.Node) int { return int(s.fact(a).rank - s.fact(b).rank) })
	}
}

// offer lets Filter choose from a convex set, and offers its connected pieces.
func (s *setFinder) offer(set []*graph.Node) error {
	s.claimed = 0
	for _, piece := range s.pieces(set) {
		if len(piece) < len(set) {
			bad, err := s.g.Offender(piece, searchLimit)
			if err != nil {
				return err
			}
			if bad != nil {
				for _, n := range piece {
					s.decline(n, Because(Cycle, "the piece that %s keeps is not convex", s.p.Name()))
				}
				continue
			}
		}
		if s.judge != nil {
			if why := s.judge.Judge(piece); why != nil {
				for _, n := range piece {
					s.decline(n, why)
				}
				continue
			}
		}
		s.claim(piece)
	}
	if s.effort > largeSet && 2*s.claimed < len(set) {
		for _, n := range set {
			if n.Graph() == s.g {
				s.fact(n).large++
			}
		}
	}
	return nil
}

// claim gives a piece to accept. Where that undoes a contraction, the nodes have new ids.
func (s *setFinder) claim(piece []*graph.Node) {
	s.before = s.before[:0]
	for _, n := range piece {
		s.before = append(s.before, *s.fact(n))
	}
	if s.accept(piece) {
		s.claimed += len(piece)
	}
	for i, n := range piece {
		if n.Graph() == s.g {
			*s.fact(n) = s.before[i]
		}
	}
}

// pieces filters a connected set and returns the connected components of what is left, in topological order of their first
// nodes. The list is valid until the next call.
func (s *setFinder) pieces(set []*graph.Node) [][]*graph.Node {
	s.stamp++
	inSet := s.stamp
	for _, n := range set {
		s.fact(n).mark = inSet
	}
	kept := s.sel.Filter(set)
	s.stamp++
	inKept := s.stamp
	left := s.left[:0]
	for _, n := range kept {
		if n != nil && n.Graph() == s.g && s.fact(n).mark == inSet {
			s.fact(n).mark = inKept
			left = append(left, n)
		}
	}
	if s.explain != nil {
		for _, n := range set {
			if s.fact(n).mark == inSet {
				s.why(n)
			}
		}
	}
	s.sort(left)
	s.left = left
	if len(left) == len(set) {
		copy(set, left)
		s.whole[0] = set
		return s.whole[:]
	}
	s.stamp++
	var out [][]*graph.Node
	for _, n := range left {
		if s.fact(n).mark == inKept {
			out = append(out, s.component(n, inKept))
		}
	}
	return out
}

// component returns the nodes with a mark that hang together with n, and marks them anew.
func (s *setFinder) component(n *graph.Node, mark uint32) []*graph.Node {
	part := []*graph.Node{n}
	s.fact(n).mark = s.stamp
	visit := func(m *graph.Node) {
		if m.Graph() != s.g {
			return
		}
		if f := s.fact(m); f.mark == mark {
			f.mark = s.stamp
			part = append(part, m)
		}
	}
	for i := 0; i < len(part); i++ {
		for _, v := range part[i].Operands() {
			if v.Producer != nil {
				visit(v.Producer)
			}
		}
		for _, o := range part[i].Outputs {
			if o == nil {
				continue
			}
			for _, u := range o.Uses() {
				visit(u.Node)
			}
		}
	}
	s.sort(part)
	return part
}

// why reports what the selector has to say about a node that it turned down.
func (s *setFinder) why(n *graph.Node) {
	if s.explain == nil || s.declined == nil {
		return
	}
	if r := s.explain.Why(n); r != nil {
		s.decline(n, r)
	}
}

// decline reports a reason, as the property's.
func (s *setFinder) decline(n *graph.Node, why *Reason) {
	if s.declined == nil {
		return
	}
	r := *why
	if r.Property == "" {
		r.Property = s.p.Name()
	}
	s.declined(n, &r)
}
