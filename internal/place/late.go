package place

import (
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Unfounded returns a result of a node whose shape the shapes of the operands do not determine, nil where there is none:
// what depends on data has symbols of its own. A group of nodes without such results can be placed as soon as its operands
// are there.
func Unfounded(n *graph.Node) *graph.Value {
	var known map[string]bool
	for _, v := range n.Outputs {
		if v == nil || v.Type.Backed() {
			continue
		}
		if known == nil {
			known = map[string]bool{}
			for _, in := range n.Inputs {
				if in == nil {
					continue
				}
				for _, d := range in.Type.Shape {
					d.Symbols(known)
				}
			}
		}
		own := map[string]bool{}
		for _, d := range v.Type.Shape {
			if !d.Backed() {
				d.Symbols(own)
			}
		}
		for s := range own {
			if !known[s] && s[0] == '?' {
				if graph.Determined(n) {
					return nil
				}
				return v
			}
		}
	}
	return nil
}

// ReadsContents reports whether a node has a result whose shape the elements of integer operands tell, which only a run knows. In a group of
// its own, whose operands they are, it can be placed when these are there.
func ReadsContents(n *graph.Node) bool { return Unfounded(n) != nil && graph.DeterminedByContents(n) }

// Told reports whether the elements of an integer operand of a node are known where its group is specialised.
func Told(n *graph.Node, v *graph.Value) bool {
	return v.Dims != nil && (!v.HasUnknown() && within(n, v.Dims) || ReadsContents(n))
}

// within reports whether dims speak of no symbols that depend on data but those of the shapes of a node's operands, or of results that
// these and lengths found before determine.
func within(n *graph.Node, dims []graph.Dim) bool {
	known, own := map[string]bool{}, map[string]bool{}
	for _, d := range dims {
		if !d.Backed() {
			d.Symbols(own)
		}
	}
	shapesOf := n.Inputs
	if len(own) > 0 && Unfounded(n) == nil {
		shapesOf = slices.Concat(n.Inputs, n.Outputs)
	}
	for _, v := range shapesOf {
		if v != nil && len(own) > 0 {
			for _, d := range v.Type.Shape {
				d.Symbols(known)
			}
		}
	}
	for s := range own {
		if !known[s] && s[0] == '?' {
			return false
		}
	}
	return true
}
