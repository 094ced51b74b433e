package convert

import "github.com/carve-dev/carve/graph"

// Hoist moves conversions out of the regions of g's control flow, where they are made as often as a region runs: it is called for
// inner graphs first. A conversion of what a loop captures stands before the loop; one of what a branch captures stands before the
// branch where all branches make it, or somebody else does, or the branch is in a loop that does not change what is captured. What
// a loop carries stays, from iteration to iteration, in the format that takes the fewest conversions in its body, with one
// conversion before the first iteration and one behind the last. What all branches convert from one format is converted behind
// them. It returns how many nodes it has changed. Conversions that this makes superfluous are for Eliminate.
func Hoist(g *graph.Graph) int {
	changed := 0
	for _, n := range controls(g) {
		this := n.Is("If") && sinkResults(n)
		this = hoistCaptures(n) || this
		if this = keepCarried(n) || this; this {
			changed++
		}
	}
	return changed
}

// controls returns the nodes of g that have regions with conversions of their own.
func controls(g *graph.Graph) []*graph.Node {
	var list []*graph.Node
	for n := range g.Nodes() {
		if n.IsControl() || n.Is("SequenceMap") {
			list = append(list, n)
		}
	}
	return list
}

// loops reports whether n runs its region many times.
func loops(n *graph.Node) bool { return n.Is("Loop", "Scan", "SequenceMap") }

// hoistCaptures moves the conversions of captures out of a node's regions.
func hoistCaptures(n *graph.Node) bool {
	changed := false
	for i := len(n.Captures) - 1; i >= 0; i-- {
		v := n.Captures[i]
		if v.IsConst() || v.IsDims() {
			continue
		}
		always := loops(n) || v.Invariant()
		moved, read := false, false
		for _, r := range n.Regions {
			p := r.Graph.Captures[i]
			for _, u := range append([]graph.Use(nil), p.Uses()...) {
				if !u.Node.IsCarve(graph.OpConvert) {
					continue
				}
				out := u.Node.Outputs[0]
				if !always && conversionTo(v, out.Format) == nil && !everywhere(n, i, out.Format) {
					continue
				}
				r.Graph.ReplaceUses(out, captured(n, converted(v, out.Format), r.Graph))
				r.Graph.Remove(u.Node)
				moved = true
			}
			read = read || p.NumUses() > 0 || p.IsOutput()
		}
		if moved && !read {
			n.RemoveCapture(i)
		}
		changed = changed || moved
	}
	return changed
}

// everywhere reports whether all regions of n convert capture i to a format.
func everywhere(n *graph.Node, i int, f graph.Format) bool {
	for _, r := range n.Regions {
		if conversionTo(r.Graph.Captures[i], f) == nil {
			return false
		}
	}
	return true
}

// conversionTo returns what a conversion to a format, which the graph has, makes of v; nil where it has none.
func conversionTo(v *graph.Value, f graph.Format) *graph.Value {
	for _, u := range v.Uses() {
		if u.Node.IsCarve(graph.OpConvert) && u.Node.Outputs[0].Format == f {
			return u.Node.Outputs[0]
		}
	}
	return nil
}

// converted returns v in a format, by a conversion that its graph has or gets.
func converted(v *graph.Value, f graph.Format) *graph.Value {
	if v.Format == f {
		return v
	}
	if c := conversionTo(v, f); c != nil {
		return c
	}
	return NewConvert(v.Graph(), v, f).Outputs[0]
}

// captured returns what stands for v in a region of n, which captures it.
func captured(n *graph.Node, v *graph.Value, r *graph.Graph) *graph.Value {
	for i, c := range n.Captures {
		if c == v {
			return r.Captures[i]
		}
	}
	n.AddCapture(v)
	last := len(n.Captures) - 1
	for _, x := range n.Regions {
		x.Graph.Captures[last].Format = v.Format
	}
	return r.Captures[last]
}

// keepCarried chooses the formats of what a loop carries.
func keepCarried(n *graph.Node) bool {
	count, input, param, result := n.Carried()
	changed := false
	for k := range count {
		c := carry{n: n, body: n.Region("body"), input: input + k, param: param + k, result: result + k, output: k}
		if v := n.Inputs[c.input]; v == nil || !v.Type.IsTensor() {
			continue
		}
		if f := c.best(); f != c.body.Inputs[c.param].Format {
			c.change(f)
			changed = true
		}
	}
	return changed
}

// carry is a value that a loop carries, by its numbers.
type carry struct {
	n                            *graph.Node
	body                         *graph.Graph
	input, param, result, output int
}

// source returns the body's result as it is made, before it is converted to the format in which it is carried.
func (c *carry) source() *graph.Value {
	v := c.body.Outputs[c.result]
	if p := v.Producer; p != nil && p.IsCarve(graph.OpConvert) {
		return p.Inputs[0]
	}
	return v
}

// best returns the format that takes the fewest conversions in the body, the present one of those that take as many.
func (c *carry) best() graph.Format {
	p := c.body.Inputs[c.param]
	best, least := p.Format, c.conversions(p.Format)
	v := c.body.Outputs[c.result]
	try := func(f graph.Format) {
		if !MayCarry(p, v, f) {
			return
		}
		if x := c.conversions(f); x < least {
			best, least = f, x
		}
	}
	try(c.source().Format)
	for _, u := range p.Uses() {
		if u.Node.IsCarve(graph.OpConvert) {
			try(u.Node.Outputs[0].Format)
		}
	}
	return best
}

// MayCarry reports whether a loop may carry a value in a format, from a body's result to its parameter. What may change its shape from
// iteration to iteration is copied by the host.
func MayCarry(param, result *graph.Value, f graph.Format) bool {
	return f.Device.IsHost() || param.Type.Backed() && result.Type.Backed() && param.Type.Equal(result.Type)
}

// conversions returns how many of the carried value an iteration makes where it is carried in a format.
func (c *carry) conversions(f graph.Format) int {
	p := c.body.Inputs[c.param]
	var wants []graph.Format
	want := func(w graph.Format) {
		for _, x := range wants {
			if x == w {
				return
			}
		}
		wants = append(wants, w)
	}
	for _, u := range p.Uses() {
		if u.Node.IsCarve(graph.OpConvert) {
			want(u.Node.Outputs[0].Format)
		} else {
			want(p.Format)
		}
	}
	own := c.body.Outputs[c.result] == p
	if p.NumOutputs() > 1 || p.IsOutput() && !own {
		want(p.Format)
	}
	n := len(wants)
	for _, w := range wants {
		if w == f {
			n--
		}
	}
	v := c.body.Outputs[c.result]
	if own || c.source().Format == f {
		return n
	}
	if v.Format == f && (v.NumUses() > 0 || v.NumOutputs() > 1) {
		return n // it is made for others as well
	}
	return n + 1
}

// change has the value carried in a format.
func (c *carry) change(f graph.Format) {
	g, p, o := c.n.Graph(), c.body.Inputs[c.param], c.n.Outputs[c.output]
	was, own, source := p.Format, c.body.Outputs[c.result] == p, c.source()
	c.n.SetOperand(c.input, converted(c.n.Inputs[c.input], f))
	uses := append([]graph.Use(nil), p.Uses()...)
	p.Format = f
	var back *graph.Value // in the format that it had
	old := func() *graph.Value {
		if back == nil {
			back = NewConvert(c.body, p, was).Outputs[0]
		}
		return back
	}
	for i := range c.body.Outputs {
		if c.body.Outputs[i] == p && !(own && i == c.result) {
			c.body.SetOutput(i, old())
		}
	}
	for _, u := range uses {
		switch {
		case !u.Node.IsCarve(graph.OpConvert):
			u.Node.SetOperand(u.Slot, old())
		case u.Node.Outputs[0].Format == f:
			c.body.ReplaceUses(u.Node.Outputs[0], p)
			c.body.Remove(u.Node)
		}
	}
	if last := c.body.Outputs[c.result]; !own {
		c.body.SetOutput(c.result, converted(source, f))
		drop(last)
	}
	if o == nil {
		return
	}
	o.Format = f
	outside(g, o, was)
}

// drop removes the conversion that makes v where nobody reads it any more.
func drop(v *graph.Value) {
	if madeOf(v) != nil && v.NumUses() == 0 && !v.IsOutput() {
		v.Graph().Remove(v.Producer)
	}
}

// outside gives those who read a result of control flow that is in another format now the format that it had.
func outside(g *graph.Graph, v *graph.Value, was graph.Format) {
	uses := append([]graph.Use(nil), v.Uses()...)
	if len(uses) == 0 && !v.IsOutput() {
		return
	}
	back := NewConvert(g, v, was).Outputs[0]
	for _, u := range uses {
		u.Node.SetOperand(u.Slot, back)
	}
	g.MoveOutputs(v, back)
}

// sinkResults converts what all branches convert from one format behind them. A branch that gives back what a loop carries, as
// what the loop carries next, counts as one that converts it: the loop will carry that format.
func sinkResults(n *graph.Node) bool {
	changed := false
	for k, o := range n.Outputs {
		f, ok := sinks(n, k)
		if o == nil || !ok {
			continue
		}
		was := o.Format
		for _, r := range n.Regions {
			v := madeOf(r.Graph.Outputs[k])
			if v == nil {
				v = captured(n, converted(outer(n, r.Graph, r.Graph.Outputs[k]), f), r.Graph)
			}
			last := r.Graph.Outputs[k]
			r.Graph.SetOutput(k, v)
			drop(last)
		}
		o.Format = f
		outside(n.Graph(), o, was)
		changed = true
	}
	return changed
}

// sinks returns the format that all branches of n have result k in before they convert it.
func sinks(n *graph.Node, k int) (f graph.Format, ok bool) {
	for _, r := range n.Regions {
		if k >= len(r.Graph.Outputs) {
			return f, false
		}
		v := madeOf(r.Graph.Outputs[k])
		switch {
		case v == nil && !givesBack(n, r.Graph, k), v != nil && ok && v.Format != f:
			return f, false
		case v != nil:
			f, ok = v.Format, true
		}
	}
	return f, ok
}

// outer returns what n captures as v, a capture of its region r; nil for another value.
func outer(n *graph.Node, r *graph.Graph, v *graph.Value) *graph.Value {
	for i, c := range r.Captures {
		if c == v {
			return n.Captures[i]
		}
	}
	return nil
}

// givesBack reports whether a region of n gives, as result k, a value that a loop around n carries, and the loop carries that result
// in its place.
func givesBack(n *graph.Node, r *graph.Graph, k int) bool {
	body, v, o := n.Graph(), outer(n, r, r.Outputs[k]), n.Outputs[k]
	if v == nil || o == nil || body.Owner() == nil {
		return false
	}
	count, _, param, result := body.Owner().Carried()
	for i := range count {
		if body.Inputs[param+i] == v && body.Outputs[result+i] == o {
			return true
		}
	}
	return false
}

// madeOf returns what a conversion converts, nil for a value that none has made.
func madeOf(v *graph.Value) *graph.Value {
	if p := v.Producer; p != nil && p.IsCarve(graph.OpConvert) {
		return p.Inputs[0]
	}
	return nil
}
