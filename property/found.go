package property

import (
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Found returns the property of sets that a function finds: for a seed it returns the set around it, connected, the seed
// included, or nil. Where nodes of a set belong to other claims already, what is left of it is taken if it has at least
// that many nodes; least below 2 counts as 2.
//
// It is for backends whose fusions are read by code and not by a Pattern, such as chains of any length.
func Found(name string, least int, find func(seed *graph.Node) []*graph.Node) SubgraphProperty {
	least = max(least, 2)
	return &Rule{ID: name, Selector: func(*graph.Graph) Selector { return &foundSelector{least: least, find: find} }}
}

type foundSelector struct {
	least int
	find  func(seed *graph.Node) []*graph.Node
	set   []*graph.Node
}

// Select looks for the whole set at once, so that growing only confirms it.
func (s *foundSelector) Select(seed *graph.Node) bool {
	s.set = s.find(seed)
	return len(s.set) >= s.least
}

func (s *foundSelector) SelectInput(_, input *graph.Node) bool { return slices.Contains(s.set, input) }
func (s *foundSelector) SelectOutput(_, output *graph.Node) bool {
	return slices.Contains(s.set, output)
}

func (s *foundSelector) Filter(candidates []*graph.Node) []*graph.Node {
	if len(candidates) < s.least {
		return nil
	}
	return candidates
}

func (s *foundSelector) Reset() {}
