package place

import "github.com/carve-dev/carve/graph"

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
