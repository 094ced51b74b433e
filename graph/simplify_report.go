package graph

import "slices"

// FoldKind tells why a node of the model is in no graph any more.
type FoldKind uint8

// The kinds. A node that was merged into another, or fused with others, has not vanished: it is an origin of that node.
const (
	FoldedConstant FoldKind = iota // computed when the model was compiled
	Forwarded                      // its result is its operand's
	FoldedDead                     // nothing needs its results
	FoldedShape                    // turned into expressions of dims
)

var foldKindNames = [...]string{FoldedConstant: "constant", Forwarded: "forwarded", FoldedDead: "dead", FoldedShape: "shape"}

// String returns "constant", "forwarded", "dead" or "shape".
func (k FoldKind) String() string {
	if int(k) < len(foldKindNames) {
		return foldKindNames[k]
	}
	return "unknown"
}

// Folded is a node of the model that vanished.
type Folded struct {
	Name string
	Kind FoldKind
}

// PassReport tells what a pass did.
type PassReport struct {
	Name    string
	Changes int // rewrites; each replaces a value, fuses or removes a node, or merges constants
}

// SimplifyReport is what Simplify did.
type SimplifyReport struct {
	Folded []Folded     // in the order in which they vanished
	Passes []PassReport // in the order of the table
}

// vanish notes that n leaves no node behind; nodes in its regions are dead.
func (s *simplifier) vanish(n *Node, kind FoldKind) {
	for _, name := range n.Provenance() {
		s.report.Folded = append(s.report.Folded, Folded{name, kind})
	}
	s.changes++
	for _, r := range n.Regions {
		s.vanishAll(r.Graph)
	}
}

func (s *simplifier) vanishAll(g *Graph) {
	for n := range g.Nodes() {
		s.vanish(n, FoldedDead)
	}
}

// absorb adds the provenance of other to n's. Names that both have are sorted out at the end.
func (s *simplifier) absorb(n, other *Node) {
	names := other.Provenance()
	if len(names) == 0 {
		return
	}
	if !s.owned[n] {
		n.Origins = slices.Clone(n.Provenance())
		s.owned[n] = true
	}
	n.Origins = append(n.Origins, names...)
	delete(s.owned, other)
}

// absorbBefore is absorb for the nodes of a fused pattern, whose names come before n's.
func (s *simplifier) absorbBefore(n *Node, others []*Node) {
	own := n.Provenance()
	n.Origins = []string{}
	s.owned[n] = true
	for _, m := range others {
		s.absorb(n, m)
	}
	n.Origins = append(n.Origins, own...)
}

// finish removes repetitions from the provenance of the nodes that absorbed others.
func (s *simplifier) finish() {
	for n := range s.owned {
		if len(n.Origins) < 2 {
			continue
		}
		seen := make(map[string]bool, len(n.Origins))
		n.Origins = slices.DeleteFunc(n.Origins, func(name string) bool {
			again := seen[name]
			seen[name] = true
			return again
		})
	}
}
