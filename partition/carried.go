package partition

import (
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
)

// assumedTrips is how often the body of a loop is taken to run, where a conversion may stand before the loop.
const assumedTrips = 16

// carried tells which values of a loop's body are carried to the next iteration: the body's parameter is what the iteration
// before has made, in its format, so that one whose readers want that format is not converted (convert.Hoist).
type carried struct {
	made   map[*graph.Value]*graph.Value   // by parameter
	params map[*graph.Value][]*graph.Value // by what is made
	kept   map[keptKey]graph.Format        // what keptIn has found, so that loops in each other are looked at once
}

// keptKey is value k that a loop carries.
type keptKey struct {
	n *graph.Node
	k int
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

// madeIn returns the format in which a value will be: that of its signature, and for a result of control flow, whose regions have
// their formats already, the one in which it comes out of them (convert.Hoist).
func (c *carried) madeIn(v *graph.Value) graph.Format {
	n := v.Producer
	if n == nil || n.Ports != nil || !n.IsControl() {
		return v.Format
	}
	if count, _, _, _ := n.Carried(); v.Index < count {
		return c.keptIn(n, v.Index)
	}
	f := graph.HostFormat
	for i, r := range n.Regions {
		if !n.Is("If") || v.Index >= len(r.Graph.Outputs) {
			return graph.HostFormat
		}
		g := c.madeIn(r.Graph.Outputs[v.Index])
		if i > 0 && g != f {
			return graph.HostFormat
		}
		f = g
	}
	return f
}

// readIn returns the format in which an operand will be read: a loop takes what it carries as its body does.
func (c *carried) readIn(u graph.Use) graph.Format {
	n := u.Node
	if count, input, _, _ := n.Carried(); n.Ports == nil && u.Slot >= input && u.Slot < input+count {
		return c.keptIn(n, u.Slot-input)
	}
	return wantedBy(u)
}

// keptIn returns the format in which carried value k of a loop will be: the one in which its body makes it, where all who read it
// there want that.
func (c *carried) keptIn(n *graph.Node, k int) (f graph.Format) {
	if f, known := c.kept[keptKey{n, k}]; known {
		return f
	}
	defer func() {
		if c.kept == nil {
			c.kept = map[keptKey]graph.Format{}
		}
		c.kept[keptKey{n, k}] = f
	}()
	_, _, param, result := n.Carried()
	body := n.Region("body")
	p, v := body.Inputs[param+k], body.Outputs[result+k]
	if v.Producer == nil {
		return graph.HostFormat
	}
	if f = c.madeIn(v); !convert.MayCarry(p, v, f) {
		return graph.HostFormat
	}
	for _, u := range p.Uses() {
		if c.readIn(u) != f {
			return graph.HostFormat
		}
	}
	return f
}
