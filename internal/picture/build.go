package picture

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/exec"
)

// Source is what a Document is made of.
type Source struct {
	Model    string // its name
	Spec     *exec.Spec
	Backends []backend.Backend // in order of priority
	Registry *convert.Registry
	Threads  int
	Sizes    graph.Bindings // values of symbols that modelled times count with
	// Measured returns the nanoseconds of a run of a node on a backend with a signature that has no variables, 0 where they are not
	// known; nil where nothing was measured.
	Measured func(n *graph.Node, backend string, sig *graph.Signature) float64
	Facts    []Fact
	Folded   []Folded
	Rejected []Rejection
	Spans    []Span // of a run; nil where none was measured
	Total    time.Duration
}

// builder makes a Document. Maps are looked up, never walked through.
type builder struct {
	src    *Source
	d      *Document
	nodes  map[*graph.Node]int     // drawn, by node of the compiled graph
	groups map[int]int             // by id
	parts  map[part]int            // of groups, by name
	moves  map[string][]int        // conversions between groups, by name, those that no span has yet
	called map[*graph.Value]string // what groups read, by its name outside
}

// part is a node of a group.
type part struct {
	group int
	name  string
}

// Build makes the Document of a program for concrete shapes. It costs O(nodes times backends), and asks backends about nodes again.
func Build(src *Source) *Document {
	b := &builder{src: src, d: &Document{Version: Version, Model: short(src.Model), Facts: src.Facts, Folded: src.Folded, Nodes: []Node{}, Arenas: []Arena{}},
		nodes: map[*graph.Node]int{}, groups: map[int]int{}, parts: map[part]int{}, moves: map[string][]int{}, called: map[*graph.Value]string{}}
	b.d.rejected = map[string][]Rejection{}
	for _, r := range src.Rejected {
		b.d.rejected[r.Node] = append(b.d.rejected[r.Node], r)
	}
	for _, be := range src.Backends {
		i := be.Info()
		b.d.Backends = append(b.d.Backends, Backend{i.Name, i.Version, i.Processor})
	}
	b.block(src.Spec, -1)
	slices.SortStableFunc(b.d.Arenas, func(x, y Arena) int { return x.Scope - y.Scope }) // those of the main graph first
	b.run()
	return b.d
}

// results are where the values of a scope come from: node and output.
type results map[*graph.Value][2]int

// node adds a node to a scope and returns its index.
func (b *builder) node(scope int, n Node) int {
	at := len(b.d.Nodes)
	n.Scope, n.Inside, n.Name = scope, -1, short(n.Name)
	b.d.Nodes = append(b.d.Nodes, n)
	s := &b.d.Scopes[scope]
	s.Nodes = append(s.Nodes, at)
	return at
}

// scope begins a scope.
func (b *builder) scope(owner int) int {
	at := len(b.d.Scopes)
	b.d.Scopes = append(b.d.Scopes, Scope{Owner: owner, Nodes: []int{}, Edges: []Edge{}})
	if owner >= 0 {
		b.d.Nodes[owner].Inside = at
	}
	return at
}

// inputs adds the nodes of what a scope reads. names are those of the values outside, where they have others there.
func (b *builder) inputs(scope int, from results, vs []*graph.Value, outside func(k int) *graph.Value) {
	for k, v := range vs {
		if outside != nil {
			if o := outside(k); o != nil {
				b.called[v] = b.name(o)
			}
		}
		x := b.value(v)
		from[v] = [2]int{b.node(scope, Node{Kind: KindInput, Label: "input", Name: x.Name, Group: -1, Outputs: []Value{x}}), 0}
	}
}

// outputs adds the nodes of what a scope makes.
func (b *builder) outputs(scope int, from results, vs []*graph.Value, name func(k int) string) {
	for k, v := range vs {
		x := b.value(v)
		if s := name(k); s != "" {
			x.Name = short(s)
		}
		at := b.node(scope, Node{Kind: KindOutput, Label: "output", Name: x.Name, Group: -1, Inputs: []Value{x}})
		b.edge(scope, from, v, at)
	}
}

// edge leads from what makes a value to a node.
func (b *builder) edge(scope int, from results, v *graph.Value, to int) {
	if at, ok := from[v]; ok {
		s := &b.d.Scopes[scope]
		s.Edges = append(s.Edges, Edge{From: at[0], Output: at[1], To: to})
	}
}

// made notes the results of a node, and adds the edges of its operands.
func (b *builder) made(scope int, from results, n *graph.Node, at int) {
	b.nodes[n] = at
	for _, v := range n.Operands() {
		b.edge(scope, from, v, at)
	}
	for k, v := range n.Outputs {
		if v != nil {
			from[v] = [2]int{at, k}
		}
	}
}

// block adds the scope of a block, with its groups and regions, and its arenas.
func (b *builder) block(s *exec.Spec, owner int) {
	blk := s.Block()
	scope := b.scope(owner)
	from := results{}
	b.inputs(scope, from, slices.Concat(blk.Graph.Inputs, blk.Graph.Captures), nil)
	who := make([]int, len(blk.Steps))
	for i := range blk.Steps {
		st := &blk.Steps[i]
		n := st.Node
		drawn := Node{Kind: KindHost, Label: n.Op.String(), Name: n.Label(), Backend: Host, Group: st.ID, Nodes: names(n.Provenance())}
		if d := st.Device(); !d.IsHost() {
			drawn.Device = d.String()
		}
		switch st.Kind {
		case exec.StepGroup:
			drawn.Kind, drawn.Label, drawn.Name, drawn.Backend = KindGroup, fmt.Sprintf("group %d", st.ID), "", n.Backend
			if n.Op.Domain != graph.CarveDomain {
				drawn.Label += " as " + short(n.Op.String())
			}
			drawn.Inputs, drawn.Outputs = b.operands(n), b.results(n)
		case exec.StepConvert:
			drawn = b.conversion(n)
			drawn.Via = st.Hop.Name
			drawn.Nanoseconds = math.Round(st.Hop.Cost.Of(drawn.Bytes))
			if d := st.Device(); !d.IsHost() {
				drawn.Device = d.String()
			}
		case exec.StepHost:
			drawn.Attrs, drawn.Inputs, drawn.Outputs = attributes(n), b.operands(n), b.results(n)
			drawn.Candidates = b.candidates(n, Host)
		}
		at := b.node(scope, drawn)
		who[i] = at
		b.made(scope, from, n, at)
		switch st.Kind {
		case exec.StepGroup:
			b.groups[st.ID] = at
			b.body(n, at)
		case exec.StepConvert:
			b.moves[n.Name] = append(b.moves[n.Name], at)
		case exec.StepHost:
			b.groups[st.ID] = at
			b.regions(s, i, at)
		}
	}
	b.outputs(scope, from, blk.Graph.Outputs, func(k int) string { return b.name(blk.Graph.Outputs[k]) })
	b.arenas(s, scope, who)
}

// regions adds those that the host scheduler runs for step i.
func (b *builder) regions(s *exec.Spec, i, owner int) {
	inner := s.Inner(i)
	if len(inner) == 0 {
		return
	}
	n := s.Block().Steps[i].Node
	scope := b.scope(owner)
	for k, in := range inner {
		name := n.Regions[k].Name
		b.block(in, b.node(scope, Node{Kind: KindRegion, Label: short(name), Name: name, Backend: Host, Group: -1}))
	}
}

// body adds the nodes of a group.
func (b *builder) body(group *graph.Node, owner int) {
	g := group.Regions[0].Graph
	order, err := g.Topo()
	if err != nil {
		return // verified when it was compiled
	}
	scope := b.scope(owner)
	from := results{}
	outer := slices.Concat(group.Inputs, group.Captures)
	b.inputs(scope, from, slices.Concat(g.Inputs, g.Captures), func(k int) *graph.Value {
		if k < len(outer) {
			return outer[k]
		}
		return nil
	})
	all := []string{}
	for _, n := range order {
		var drawn Node
		if n.IsCarve(graph.OpConvert) {
			drawn = b.conversion(n)
			drawn.Backend, drawn.Via = group.Backend, group.Backend
			drawn.Nanoseconds = math.Round(b.src.Registry.Cost(n.Inputs[0].Format, n.Outputs[0].Format, drawn.Bytes))
		} else {
			drawn = b.operator(n, group.Backend)
			all = append(all, drawn.Nodes...)
		}
		drawn.Device, drawn.Group = b.d.Nodes[owner].Device, b.d.Nodes[owner].Group
		at := b.node(scope, drawn)
		b.parts[part{drawn.Group, n.Name}] = at
		b.made(scope, from, n, at)
	}
	b.d.Nodes[owner].Nodes = all
	b.outputs(scope, from, g.Outputs, func(k int) string { return b.name(group.Outputs[k]) })
}

// operator describes a node that a backend runs.
func (b *builder) operator(n *graph.Node, backend string) Node {
	x := Node{Kind: KindOp, Label: short(n.Op.String()), Name: n.Label(), Backend: backend, Nodes: names(modelNodes(n)), Attrs: attributes(n),
		Inputs: b.operands(n), Outputs: b.results(n), Candidates: b.candidates(n, backend)}
	if fused(n) {
		x.Property = short(n.Str("pattern", ""))
		if n.Op.Domain == graph.CarveDomain {
			x.Label = joined(n.Region("body"))
		}
	}
	return x
}

// joined names what is fused by its operators: "Conv + Add + Relu".
func joined(body *graph.Graph) string {
	const most = 5
	var ops []string
	for n := range body.Nodes() {
		switch {
		case n.IsCarve(graph.OpConvert):
		case fused(n) && n.Op.Domain == graph.CarveDomain:
			ops = append(ops, joined(n.Region("body")))
		default:
			ops = append(ops, n.Op.String())
		}
	}
	if more := len(ops) - most; more > 0 {
		ops = append(ops[:most], fmt.Sprintf("%d more", more))
	}
	return short(strings.Join(ops, " + "))
}

// fused reports whether a property has put a node in the place of several.
func fused(n *graph.Node) bool { return n.Region("body") != nil && n.Str("pattern", "") != "" }

// modelNodes returns the model's nodes that a backend runs with n: those of its regions too.
func modelNodes(n *graph.Node) []string {
	out := slices.Clone(n.Provenance())
	for _, r := range n.Regions {
		for m := range r.Graph.Nodes() {
			for _, name := range modelNodes(m) {
				if !slices.Contains(out, name) {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

func names(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = short(s)
	}
	return out
}

// conversion describes a Convert node.
func (b *builder) conversion(n *graph.Node) Node {
	from, to := b.value(n.Inputs[0]), b.value(n.Outputs[0])
	rank := len(n.Inputs[0].Type.Shape)
	left, right := n.Inputs[0].Format.Name(rank), n.Outputs[0].Format.Name(rank)
	if l, ok := strings.CutPrefix(left, Host+":"); ok && strings.HasPrefix(right, Host+":") {
		left, right = l, strings.TrimPrefix(right, Host+":")
	}
	return Node{Kind: KindConvert, Label: left + " → " + right, Name: from.Name, Backend: Host, Group: -1,
		Bytes: from.Bytes, Inputs: []Value{from}, Outputs: []Value{to}}
}

func (b *builder) operands(n *graph.Node) []Value {
	var out []Value
	for _, v := range n.Operands() {
		out = append(out, b.value(v))
	}
	return out
}

func (b *builder) results(n *graph.Node) []Value {
	var out []Value
	for _, v := range n.Outputs {
		if v != nil {
			out = append(out, b.value(v))
		} else {
			out = append(out, Value{}) // outputs count with those that are left out
		}
	}
	return out
}

// name returns the name of a value in the model; of what conversions make, that of what they convert.
func (b *builder) name(v *graph.Value) string {
	for v.Producer != nil && v.Producer.IsCarve(graph.OpConvert) {
		v = v.Producer.Inputs[0]
	}
	if name, ok := b.called[v]; ok {
		return name
	}
	return short(v.String())
}

// value describes a value, with the sizes of the shapes that the Document is for.
func (b *builder) value(v *graph.Value) Value {
	x := Value{Name: b.name(v), Type: short(v.Type.String()), Constant: v.IsConst() || v.IsDims()}
	if v.Format != graph.HostFormat {
		x.Format = v.Format.Name(len(v.Type.Shape))
	}
	if !v.Type.IsTensor() || !v.Type.Shape.Known() {
		return x
	}
	dims, err := v.Type.Shape.Eval(b.src.Spec.Bindings(), nil)
	if err != nil {
		return x
	}
	t := v.Type
	t.Shape = graph.ShapeOf(dims...)
	x.Type = short(t.String())
	if n, err := b.src.Registry.Size(v.Format, v.Type.DType, dims); err == nil {
		x.Bytes = n
	}
	return x
}

// Bounds on what is told of a node.
const (
	maxAttrs   = 24
	maxReasons = 4 // of a backend
)

// attributes returns those of a node, in words.
func attributes(n *graph.Node) []string {
	var out []string
	for _, a := range n.Attrs {
		if a.Name == "pattern" && fused(n) {
			continue
		}
		if len(out) == maxAttrs {
			return append(out, fmt.Sprintf("… %d more", len(n.Attrs)-maxAttrs))
		}
		out = append(out, short(a.String()))
	}
	return out
}
