package property

import (
	"slices"

	"github.com/carve-dev/carve/graph"
)

// NewPattern returns the property of all matches of a pattern: each becomes an atomic claim. Where matches overlap, the one
// that begins first in topological order wins, and of those the largest that passes the check, unless that is nil; what the
// check turns down is reported with its reason.
//
// A property that brings signatures or a kernel for the fused nodes is a Rule made of it:
//
//	snake := property.RuleOf(property.NewPattern("snake", pattern, nil))
//	snake.Signatures, snake.Kernel = signatures, kernel
func NewPattern(name string, p *Pattern, check func(*Match) *Reason) SubgraphProperty {
	f := &fuse{p: p, check: check, ops: map[string]bool{}}
	f.depth = p.measure(map[*Pattern]int{}, f.ops)
	return &Rule{ID: name, Selector: func(*graph.Graph) Selector { return &fuseSelector{f: f} }}
}

// fuse is what selectors of a pattern share.
type fuse struct {
	p     *Pattern
	check func(*Match) *Reason
	depth int
	ops   map[string]bool // that nodes of a match can have
}

type fuseSelector struct {
	f    *fuse
	seed *graph.Node
	m    *Match
	why  *Reason
}

// maxRoots bounds the nodes behind a seed that are tried as a match's last node.
const maxRoots = 64

// Select looks for the match behind the seed at once, so that growing only confirms it.
func (s *fuseSelector) Select(seed *graph.Node) bool {
	s.m, s.why, s.seed = nil, nil, seed
	if s.f.ops[seed.Op.String()] {
		s.search(nil)
	}
	return s.m != nil
}

// search finds the largest match that holds the seed: its last node is the seed or comes a few readers behind.
func (s *fuseSelector) search(allowed func(*graph.Node) bool) {
	roots := []*graph.Node{s.seed}
	level := roots
	for depth := 1; len(level) > 0; depth++ {
		for _, root := range level {
			m, why := s.f.p.find(root, allowed, s.f.check)
			if why != nil {
				s.why = why
			}
			if m != nil && m.has(s.seed) && (s.m == nil || len(m.Nodes) > len(s.m.Nodes)) {
				s.m = m
			}
		}
		if depth >= s.f.depth {
			break
		}
		var next []*graph.Node
		for _, n := range level {
			for _, v := range n.Outputs {
				if v == nil || len(roots) >= maxRoots {
					continue
				}
				for _, c := range v.Consumers() {
					if s.f.ops[c.Op.String()] && !slices.Contains(roots, c) && len(roots) < maxRoots {
						roots, next = append(roots, c), append(next, c)
					}
				}
			}
		}
		level = next
	}
	if s.m != nil {
		s.why = nil
	}
}

func (s *fuseSelector) SelectInput(_, input *graph.Node) bool   { return s.m.has(input) }
func (s *fuseSelector) SelectOutput(_, output *graph.Node) bool { return s.m.has(output) }

// Filter takes all of the match. Where nodes of it belong to other claims, a smaller match may be left.
func (s *fuseSelector) Filter(candidates []*graph.Node) []*graph.Node {
	in := func(n *graph.Node) bool { return slices.Contains(candidates, n) }
	if whole := s.m.Nodes; slices.ContainsFunc(whole, func(n *graph.Node) bool { return !in(n) }) {
		s.m = nil
		if in(s.seed) {
			s.search(in)
		}
		if s.m == nil {
			if s.why == nil {
				s.why = Because(NotSelected, "a part of the match belongs to another claim")
			}
			return nil
		}
	}
	return s.m.Nodes
}

func (s *fuseSelector) Reset() {}

// Why implements Explainer: only what the check turned down is worth telling.
func (s *fuseSelector) Why(*graph.Node) *Reason { return s.why }
