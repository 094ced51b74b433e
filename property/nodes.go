package property

import "github.com/carve-dev/carve/graph"

// Nodes returns the property of connected sets of nodes that a predicate qualifies: a capability function, an operator
// list, a rule about shapes. Its claims are atomic; WithKind makes borders or limits of them:
//
//	property.WithKind(property.Admitting, property.Nodes("static-shape", property.StaticShapes))
func Nodes(name string, p Predicate) SubgraphProperty {
	return &Rule{ID: name, Selector: func(*graph.Graph) Selector { return &nodesSelector{p} }}
}

type nodesSelector struct{ p Predicate }

func (s *nodesSelector) Select(seed *graph.Node) bool            { return s.p(seed) == nil }
func (s *nodesSelector) SelectInput(_, input *graph.Node) bool   { return s.p(input) == nil }
func (s *nodesSelector) SelectOutput(_, output *graph.Node) bool { return s.p(output) == nil }
func (s *nodesSelector) Filter(set []*graph.Node) []*graph.Node  { return set }
func (s *nodesSelector) Reset()                                  {}
func (s *nodesSelector) Why(n *graph.Node) *Reason               { return s.p(n) }
