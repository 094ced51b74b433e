package partition

import "github.com/carve-dev/carve/graph"

// assumedTrips is how often the body of a loop is taken to run, where a conversion may stand before the loop.
const assumedTrips = 16

// carried tells which values of a loop's body are carried to the next iteration: the body's parameter is what the iteration
// before has made, in its format, so that one whose readers want that format is not converted (convert.Hoist).
type carried struct {
	made   map[*graph.Value]*graph.Value   // by parameter
	params map[*graph.Value][]*graph.Value // by what is made
}

// carriedIn finds what is carried in a graph.
func carriedIn(g *graph.Graph) carried {
	var c carried
	n := g.Owner()
	if n == nil {
		return c
	}
	count, _, param, result := n.Carried()
	for k := range count {
		p, v := g.Inputs[param+k], g.Outputs[result+k]
		if v.Producer == nil || !p.Type.IsTensor() {
			continue
		}
		if c.made == nil {
			c.made, c.params = map[*graph.Value]*graph.Value{}, map[*graph.Value][]*graph.Value{}
		}
		c.made[p] = v
		c.params[v] = append(c.params[v], p)
	}
	return c
}

// of returns what a parameter is made as by the iteration before; other values are returned as they are.
func (c *carried) of(v *graph.Value) *graph.Value {
	if x := c.made[v]; x != nil {
		return x
	}
	return v
}

// leaves reports whether v is an output of its graph that is not only carried.
func (c *carried) leaves(v *graph.Value) bool {
	return v.IsOutput() && (c.params[v] == nil || v.NumOutputs() > len(c.params[v]))
}

// share returns the part of a conversion of v that counts for a run of the graph: what a loop captures is converted once.
func (c *carried) share(v *graph.Value) float64 {
	if v.Invariant() {
		return 1.0 / assumedTrips
	}
	return 1
}
