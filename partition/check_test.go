package partition_test

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

// place is where a node of the model went.
type place struct {
	group int         // index of its group, counted from the end of the groups for what stands alone
	node  *graph.Node // the node that has the signature: itself, or the fused one that stands for it
}

// source is where a value comes from: output of a node of the model, an input, or a constant.
type source struct {
	node   string
	output int
	input  string
	data   *tensor.Tensor
}

// plan is a partitioned graph as the checker reads it. It shares nothing with the verifier of the package.
type plan struct {
	before, after *graph.Graph
	places        map[string]place
	nodes         map[string]*graph.Node // by name, in after
	converts      []*graph.Node
	home          map[*graph.Node]int // group of each Convert, -1 between groups
}

// check proves that after is a partition of before, whose nodes have distinct names: every node once; the groups together
// acyclic on the model's graph; every operand the value that it was; a Convert where formats differ, one per value and
// format, in the group that holds both its ends; none elsewhere; inputs and outputs as they were, in the host's format.
func check(before, after *graph.Graph, res *partition.Result) error {
	p := &plan{before: before, after: after, places: map[string]place{}, nodes: map[string]*graph.Node{}, home: map[*graph.Node]int{}}
	for _, step := range []func(*partition.Result) error{p.locate, p.acyclic, p.ports, p.flow, p.necessary, p.packed} {
		if err := step(res); err != nil {
			return err
		}
	}
	return nil
}

// locate finds every node of the model, once.
func (p *plan) locate(res *partition.Result) error {
	put := func(n *graph.Node, at place) error {
		if _, twice := p.places[n.Name]; twice {
			return fmt.Errorf("node %q is there twice", n.Name)
		}
		p.places[n.Name], p.nodes[n.Name] = at, n
		return nil
	}
	alone := len(res.Groups)
	for n := range p.after.Nodes() {
		switch {
		case n.IsCarve(graph.OpConvert):
			p.converts, p.home[n] = append(p.converts, n), -1
		case n.IsCarve(graph.OpSubgraph):
			k := slices.IndexFunc(res.Groups, func(g *partition.Group) bool { return g.Node == n })
			if k < 0 || res.Groups[k].Body != n.Regions[0].Graph {
				return fmt.Errorf("%v is not among the groups", n)
			}
			for m := range n.Regions[0].Graph.Nodes() {
				switch {
				case m.IsCarve(graph.OpConvert):
					p.converts, p.home[m] = append(p.converts, m), k
					continue
				case m.Backend != res.Groups[k].Backend:
					return fmt.Errorf("%v of %q is in a group of %q", m, m.Backend, res.Groups[k].Backend)
				case m.IsCarve(graph.OpFused):
					for f := range m.Regions[0].Graph.Nodes() {
						if err := put(f, place{k, m}); err != nil {
							return err
						}
					}
					continue
				}
				if err := put(m, place{k, m}); err != nil {
					return err
				}
			}
		default:
			if !partition.HostScheduled(n) {
				return fmt.Errorf("%v stands outside of groups", n)
			}
			if err := put(n, place{alone, n}); err != nil {
				return err
			}
			alone++
		}
	}
	for n := range p.before.Nodes() {
		m, ok := p.nodes[n.Name]
		if !ok {
			return fmt.Errorf("node %q is lost", n.Name)
		}
		if m.Op != n.Op {
			return fmt.Errorf("node %q became %v", n.Name, m)
		}
	}
	if len(p.places) != p.before.NumNodes() {
		return fmt.Errorf("%d nodes became %d", p.before.NumNodes(), len(p.places))
	}
	return nil
}

// acyclic contracts the groups on the model's graph.
func (p *plan) acyclic(*partition.Result) error {
	q := simple.NewDirectedGraph()
	for _, at := range p.places {
		if q.Node(int64(at.group)) == nil {
			q.AddNode(simple.Node(at.group))
		}
	}
	for n := range p.before.Nodes() {
		for _, v := range n.Operands() {
			if v.Producer == nil {
				continue
			}
			if from, to := p.places[v.Producer.Name].group, p.places[n.Name].group; from != to {
				q.SetEdge(simple.Edge{F: simple.Node(from), T: simple.Node(to)})
			}
		}
	}
	if _, err := topo.Sort(q); err != nil {
		return fmt.Errorf("groups depend on each other: %w", err)
	}
	return nil
}

// ports checks the graph's own inputs and outputs.
func (p *plan) ports(*partition.Result) error {
	if len(p.before.Inputs) != len(p.after.Inputs) || len(p.before.Outputs) != len(p.after.Outputs) {
		return fmt.Errorf("inputs or outputs got lost")
	}
	for i, v := range p.before.Inputs {
		if w := p.after.Inputs[i]; w.Name != v.Name || w.Format != graph.HostFormat || !w.Type.Equal(v.Type) {
			return fmt.Errorf("input %d is %v %v in %v, was %v", i, w, w.Type, w.Format, v)
		}
	}
	for i, v := range p.before.Outputs {
		w := p.after.Outputs[i]
		if w.Format != graph.HostFormat {
			return fmt.Errorf("output %v is in %v", v, w.Format)
		}
		from, via := trace(w)
		if from != sourceOf(v) {
			return fmt.Errorf("output %d is %v, was %v", i, from, sourceOf(v))
		}
		if err := p.converted(from, via, graph.HostFormat); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

func sourceOf(v *graph.Value) source {
	switch {
	case v.Producer != nil:
		return source{node: v.Producer.Name, output: v.Index}
	case v.IsConst():
		return source{data: v.Const}
	}
	return source{input: v.Name}
}

// trace follows a value through Convert nodes and the borders of groups and fused nodes back to its source.
func trace(v *graph.Value) (from source, via []*graph.Node) {
	for {
		n := v.Producer
		switch {
		case n == nil && v.IsInput() && v.Graph().Owner() != nil:
			owner := v.Graph().Owner()
			v = owner.Inputs[slices.Index(v.Graph().Inputs, v)]
		case n == nil:
			return sourceOf(v), via
		case n.IsCarve(graph.OpConvert):
			via = append(via, n)
			v = n.Inputs[0]
		case n.IsCarve(graph.OpSubgraph) || n.IsCarve(graph.OpFused):
			v = n.Regions[0].Graph.Outputs[v.Index]
		default:
			return source{node: n.Name, output: v.Index}, via
		}
	}
}

// own returns the format in which a source is made.
func (p *plan) own(s source) graph.Format {
	if s.node == "" {
		return graph.HostFormat
	}
	n := p.places[s.node].node
	if n.Ports == nil {
		return graph.HostFormat
	}
	if !n.IsCarve(graph.OpFused) {
		return n.Ports.Outputs[s.output].Format
	}
	for i, v := range n.Regions[0].Graph.Outputs {
		if v.Producer.Name == s.node && v.Index == s.output {
			return n.Ports.Outputs[i].Format
		}
	}
	return graph.HostFormat // it does not leave the fused node
}

// converted checks the way of a value from its source to a reader that wants a format.
func (p *plan) converted(from source, via []*graph.Node, want graph.Format) error {
	own := p.own(from)
	switch {
	case own == want && len(via) > 0:
		return fmt.Errorf("%v in %v is converted on the way to a reader that wants just that: %v", from, own, via)
	case own != want && len(via) != 1:
		return fmt.Errorf("%v in %v takes %d conversions to %v", from, own, len(via), want)
	case own != want && via[0].Outputs[0].Format != want:
		return fmt.Errorf("%v is converted to %v, wanted in %v", from, via[0].Outputs[0].Format, want)
	}
	return nil
}

// flow checks every operand of every node of the model.
func (p *plan) flow(*partition.Result) error {
	for n := range p.before.Nodes() {
		m, at := p.nodes[n.Name], p.places[n.Name]
		if len(m.Inputs) != len(n.Inputs) || len(m.Outputs) != len(n.Outputs) {
			return fmt.Errorf("node %q has other ports", n.Name)
		}
		for k, v := range n.Inputs {
			if v == nil || v.IsDims() {
				continue
			}
			from, via := trace(m.Inputs[k])
			if v.IsConst() {
				if len(via) > 0 {
					return fmt.Errorf("constant operand %d of %q is converted at run time", k, n.Name)
				}
				if f := p.wants(m, at.node, k); m.Inputs[k].Format != f && at.node == m {
					return fmt.Errorf("constant operand %d of %q is in %v, wanted in %v", k, n.Name, m.Inputs[k].Format, f)
				}
				continue
			}
			if from != sourceOf(v) {
				return fmt.Errorf("operand %d of %q is %v, was %v", k, n.Name, from, sourceOf(v))
			}
			if from.node != "" && p.places[from.node].node == at.node && at.node != m {
				continue // inside of a fused node
			}
			if err := p.converted(from, via, p.wants(m, at.node, k)); err != nil {
				return fmt.Errorf("operand %d of %q: %w", k, n.Name, err)
			}
		}
	}
	return nil
}

// wants returns the format in which operand k of m is read; unit is m, or the fused node around it.
func (p *plan) wants(m, unit *graph.Node, k int) graph.Format {
	switch {
	case unit.Ports == nil:
		return graph.HostFormat
	case unit == m:
		return unit.Ports.Inputs[k].Format
	}
	return unit.Ports.Inputs[slices.Index(m.Graph().Inputs, m.Inputs[k])].Format
}

// necessary checks that no Convert is superfluous: no two of one value to one format, none unread, and none outside of a group
// that holds its value's producer and a reader.
func (p *plan) necessary(*partition.Result) error {
	type target struct {
		s source
		f graph.Format
	}
	seen := map[target]bool{}
	for _, c := range p.converts {
		from, via := trace(c.Inputs[0])
		t := target{from, c.Outputs[0].Format}
		switch {
		case len(via) > 0:
			return fmt.Errorf("%v converts what is converted", c)
		case seen[t]:
			return fmt.Errorf("%v is converted to %v twice", from, t.f)
		case p.own(from) == t.f:
			return fmt.Errorf("%v converts between equal formats", c)
		}
		seen[t] = true
		groups := p.readers(c.Outputs[0])
		if len(groups) == 0 {
			return fmt.Errorf("nobody reads %v", c)
		}
		home := -2
		if from.node != "" {
			home = p.places[from.node].group
		}
		if inside := slices.Contains(groups, home); inside != (p.home[c] >= 0) || inside && p.home[c] != home {
			return fmt.Errorf("%v is in group %d; its value's is %d and its readers' are %v", c, p.home[c], home, groups)
		}
	}
	return nil
}

// readers returns the groups of the model's nodes that read v, -1 for outputs of the graph.
func (p *plan) readers(v *graph.Value) (groups []int) {
	for _, u := range v.Uses() {
		switch {
		case u.Node.IsCarve(graph.OpSubgraph):
			groups = append(groups, p.readers(u.Node.Regions[0].Graph.Inputs[u.Slot])...)
		case u.Node.IsCarve(graph.OpFused):
			for m := range u.Node.Regions[0].Graph.Nodes() {
				groups = append(groups, p.places[m.Name].group)
			}
		case !u.Node.IsCarve(graph.OpConvert):
			groups = append(groups, p.places[u.Node.Name].group)
		}
	}
	if v.IsOutput() {
		if owner := v.Graph().Owner(); owner != nil {
			groups = append(groups, p.readers(owner.Outputs[slices.Index(v.Graph().Outputs, v)])...)
		} else {
			groups = append(groups, -1)
		}
	}
	return groups
}

// packed checks that every constant is converted once per format.
func (p *plan) packed(res *partition.Result) error {
	type target struct {
		t *tensor.Tensor
		f graph.Format
	}
	seen := map[target]bool{}
	for _, k := range res.Packs {
		t := target{k.Constant, k.Format}
		if seen[t] || k.Format == graph.HostFormat {
			return fmt.Errorf("constant %q is packed to %v twice, or for nothing", k.Name, k.Format)
		}
		seen[t] = true
	}
	return nil
}
