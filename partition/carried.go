package partition

import (
	"slices"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
)

// assumedTrips is how often the body of a loop is taken to run, where a conversion may stand before the loop.
const assumedTrips = 16

// carried tells which values of a loop's body are carried to the next iteration: the body's parameter is what the iteration
// before has made, in its format, so that one whose readers want that format is not converted (convert.Hoist).
type carried struct {
	blocks func(g *graph.Graph) *State     // the partitions of graphs in this one; nil where they are not known
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
func carriedIn(s *State) carried {
	g, c := s.g, carried{blocks: s.o.Blocks}
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
	if sig := c.signature(n); sig != nil {
		return sig.Outputs[v.Index].Format
	}
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
	if sig := c.signature(n); sig != nil && u.Slot < len(sig.Inputs) {
		return sig.Inputs[u.Slot].Format
	}
	if count, input, _, _ := n.Carried(); n.Ports == nil && u.Slot >= input && u.Slot < input+count {
		return c.keptIn(n, u.Slot-input)
	}
	return wantedBy(u)
}

// signature returns that of a node whose backend and formats a choice by cost has settled, while nodes do not have them yet; nil where
// there is none.
func (c *carried) signature(n *graph.Node) *graph.Signature {
	if n == nil || n.Ports != nil || c.blocks == nil {
		return nil
	}
	s := c.blocks(n.Graph())
	if s == nil || s.table == nil {
		return nil
	}
	if t := s.table.taken(n); t != nil && len(t.Signatures) == 1 && len(t.Signatures[0].Vars) == 0 {
		return &t.Signatures[0]
	}
	return nil
}

// wants adds the formats in which the host scheduler's node of a use wants the operand: control flow has what it captures converted
// once, in front of it, where a loop, or each branch of an If, reads it in another format (convert.Hoist).
func (c *carried) wants(list []graph.Format, u graph.Use) []graph.Format {
	n, k := u.Node, u.Slot-len(u.Node.Inputs)
	if n.Ports != nil || k < 0 || !n.IsControl() || c.signature(n) != nil {
		return including(list, c.readIn(u))
	}
	var first []graph.Format // of an If's branch
	branches := map[graph.Format]int{}
	for i, r := range n.Regions {
		own := c.captured(r.Graph, k)
		if i == 0 {
			first = own
		}
		for _, f := range own {
			if branches[f]++; !n.Is("If") {
				list = including(list, f)
			}
		}
	}
	if !n.Is("If") {
		return list
	}
	for _, f := range first {
		if branches[f] == len(n.Regions) {
			list = including(list, f)
			delete(branches, f)
		}
	}
	if len(branches) > 0 { // what converts it is in the branch
		list = including(list, graph.HostFormat)
	}
	return list
}

// captured returns the formats in which capture k of a region is read.
func (c *carried) captured(g *graph.Graph, k int) (list []graph.Format) {
	if k >= len(g.Captures) {
		return nil
	}
	p := g.Captures[k]
	for _, u := range p.Uses() {
		list = c.wants(list, u)
	}
	if p.IsOutput() {
		list = including(list, graph.HostFormat)
	}
	return list
}

// including adds a format to a list that has each once.
func including(list []graph.Format, f graph.Format) []graph.Format {
	if slices.Contains(list, f) {
		return list
	}
	return append(list, f)
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
