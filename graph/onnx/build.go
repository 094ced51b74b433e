package onnx

import (
	"fmt"
	"maps"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// newestOpset is the newest version of the default domain whose operators are known.
const newestOpset = 28

// build makes the graph of the model. It returns the names of its outputs as well, and the data of inputs that have some.
func (l *loader) build() (outputs []string, defaults map[string]*tensor.Tensor, err error) {
	p := l.proto
	if v := p.opsets[""]; v > newestOpset {
		return nil, nil, fmt.Errorf("%w: version %d of the default domain; the newest known is %d", ErrUnsupportedOpset, v, newestOpset)
	}
	if _, ok := p.opsets[""]; !ok && p.ir < 3 { // such models do not say
		p.opsets[""] = 1
	}
	l.top = graph.New(p.graph.name)
	l.top.Doc = p.doc
	l.top.Opsets = maps.Clone(p.opsets)
	l.top.Meta = maps.Clone(p.meta)
	f := &frame{g: l.top}
	if len(p.functions) > 0 {
		f.names = newNames()
		p.graph.reserve(f.names)
	}
	s := &scope{frame: f, types: p.graph.types, opsets: p.opsets, dims: l.newDims(false)}
	defaults, err = l.graphInto(s, p.graph)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range p.graph.outputs {
		outputs = append(outputs, o.name)
	}
	return outputs, defaults, l.finishOutputs(outputs)
}

// reserve takes the names that values of the file have: values of functions get others.
func (g *graphProto) reserve(n *names) {
	for i := range g.nodes {
		for _, s := range g.nodes[i].out {
			n.taken[s] = true
		}
	}
	for _, v := range g.inputs {
		n.taken[v.name] = true
	}
	for _, v := range g.inits {
		n.taken[v.name] = true
	}
}

// finishOutputs puts an Identity behind outputs whose value bears another name, as where a function hands its argument
// back.
func (l *loader) finishOutputs(names []string) error {
	for i, name := range names {
		if v := l.top.Outputs[i]; v.Name != name {
			if _, ok := l.top.Opsets[""]; !ok {
				l.top.Opsets[""] = newestOpset
			}
			n := l.top.AddNode(graph.NodeSpec{Op: l.schemaOf("", "Identity", l.top.Opsets), Name: name,
				Inputs: []*graph.Value{v}, Outputs: []string{name}})
			n.Outputs[0].Type = v.Type
			l.top.SetOutput(i, n.Outputs[0])
		}
	}
	return nil
}

func (l *loader) newDims(own bool) *innerDims {
	return &innerDims{l: l, own: own, fresh: map[string]graph.Dim{}}
}

// graphInto builds inputs, initializers, nodes and outputs of a graph of the file.
func (l *loader) graphInto(s *scope, p *graphProto) (defaults map[string]*tensor.Tensor, err error) {
	s.values = make(map[string]*graph.Value, len(p.inputs)+len(p.inits)+len(p.nodes))
	inits := make(map[string]int, len(p.inits))
	for i, init := range p.inits {
		if _, ok := inits[init.name]; ok {
			return nil, at(fmt.Errorf("%w: initializer", ErrDuplicate), "", init.name)
		}
		inits[init.name] = i
	}
	isTop := s.frame.parent == nil
	keep := !isTop || l.o.Overridable && l.proto.ir >= 4 // the owner of a region always gives its inputs
	for _, in := range p.inputs {
		if _, constant := inits[in.name]; isTop && (keep || !constant) {
			if _, err := l.typ(in.typ, identifiers{l}, 0); err != nil {
				return nil, at(err, "", in.name)
			}
		}
	}
	kept := map[string]bool{}
	for _, in := range p.inputs {
		if in.name == "" {
			return nil, at(fmt.Errorf("%w: input without a name", ErrSyntax), "", "")
		}
		_, constant := inits[in.name]
		if constant && !keep {
			continue
		}
		kept[in.name] = true
		var dims dimNames = s.dims
		if isTop {
			dims = &inputDims{l: l, input: in.name}
		}
		t, err := l.typ(in.typ, dims, 0)
		if err != nil {
			return nil, at(err, "", in.name)
		}
		if err := s.define(in.name, nil); err != nil {
			return nil, at(err, "", in.name)
		}
		s.values[in.name] = s.frame.g.AddInput(in.name, t)
	}
	for _, init := range p.inits {
		_, t, err := l.tensor(init.msg, init.sparse)
		if err != nil {
			return nil, at(err, "", init.name)
		}
		if kept[init.name] {
			if defaults == nil {
				defaults = map[string]*tensor.Tensor{}
			}
			defaults[init.name] = t
			continue
		}
		s.values[init.name] = s.frame.g.AddConst(init.name, t)
	}
	if err := l.buildNodes(s, p.nodes); err != nil {
		return nil, err
	}
	outs := make([]*graph.Value, len(p.outputs))
	for i, o := range p.outputs {
		v, err := s.resolve(o.name)
		if err == nil && v == nil {
			err = ErrDangling
		}
		if err != nil {
			return nil, at(fmt.Errorf("output %d: %w", i, err), "", o.name)
		}
		if v.Type.Kind == graph.KindUnknown { // results of functions, whose bodies name them otherwise
			if v.Type, err = l.typ(o.typ, s.dims, 0); err != nil {
				return nil, at(err, "", o.name)
			}
		}
		outs[i] = v
	}
	s.frame.g.SetOutputs(outs...)
	return defaults, nil
}

// buildNodes builds a list of nodes in topological order.
func (l *loader) buildNodes(s *scope, nodes []nodeProto) error {
	s.countNames(nodes)
	order, err := s.order(nodes)
	if err != nil {
		return err
	}
	for _, i := range order {
		label, err := l.nodeLabel(s, &nodes[i], i)
		if err != nil {
			return at(err, short(nodes[i].name), "")
		}
		n := &nodes[i]
		if err := l.charge(s, 1+(len(n.in)+len(n.out)+len(n.attrs))/16); err != nil {
			return at(err, label, "")
		}
		if err := l.buildNode(s, &nodes[i], label); err != nil {
			return at(err, label, "")
		}
	}
	return nil
}

// charge takes n off the number of nodes that may still be made. Long lists count as several nodes, so that functions
// cannot multiply them.
func (l *loader) charge(s *scope, n int) error {
	if s.call != nil {
		if l.inlined -= n; l.inlined < 0 {
			return fmt.Errorf("%w: more than %d nodes in functions", ErrTooLarge, l.o.MaxInlined)
		}
	}
	if l.nodes -= n; l.nodes < 0 {
		return fmt.Errorf("%w: more than %d nodes", ErrTooLarge, l.o.MaxNodes)
	}
	if l.polls++; l.polls&1023 == 0 {
		return l.ctx.Err()
	}
	return nil
}

// buildNode builds a node, or the body of the function that it calls.
func (l *loader) buildNode(s *scope, n *nodeProto, label string) error {
	in := make([]*graph.Value, len(n.in))
	for i, name := range n.in {
		if name == "" {
			continue
		}
		v, err := s.resolve(name)
		if err != nil {
			return at(err, label, name)
		}
		in[i] = v
	}
	if fn := l.proto.functions[functionKey{n.domain, n.op, n.overload}]; fn != nil {
		return l.inline(s, n, label, fn, in)
	}
	if _, ok := s.opsets[""]; !ok && n.domain == "" {
		return fmt.Errorf("%w: the model imports no version of the default domain", ErrUnsupportedOpset)
	}
	spec := graph.NodeSpec{Op: l.schemaOf(n.domain, n.op, s.opsets), Name: label, Inputs: in, Outputs: make([]string, len(n.out))}
	var set captures
	for _, a := range n.attrs {
		if a.ref != "" && s.call == nil {
			return at(fmt.Errorf("%w: reference to attribute %q outside of a function", ErrSyntax, short(a.ref)), label, a.name)
		}
		b, ok := s.given(a)
		if !ok {
			continue
		}
		if b.attr.isGraph() {
			regions, err := l.regions(s, a.name, b, label, &set)
			if err != nil {
				return err
			}
			spec.Regions = append(spec.Regions, regions...)
			continue
		}
		v, err := l.value(b.attr, b.scope)
		if err != nil {
			return err
		}
		named := *v
		named.Name = a.name
		spec.Attrs = append(spec.Attrs, named)
	}
	if spec.Op.Domain == "" && spec.Op.Name == "Constant" {
		spec.Attrs = normalConstant(spec.Attrs)
	}
	spec.Captures = set.outer
	for i, name := range n.out {
		if name == "" {
			continue
		}
		var err error
		if spec.Outputs[i], err = l.valueName(s, name); err != nil {
			return err
		}
	}
	node := s.frame.g.AddNode(spec)
	if node.Schema == nil {
		node.Op.Since = 0
	}
	return l.results(s, n, node)
}

// results defines the results of a node and gives them the types of value_info.
func (l *loader) results(s *scope, n *nodeProto, node *graph.Node) error {
	for i, name := range n.out {
		if name == "" {
			continue
		}
		v := node.Outputs[i]
		if typ := s.types[name]; typ != nil {
			t, err := l.typ(typ, s.dims, 0)
			if err != nil {
				return at(err, node.Name, name)
			}
			v.Type = t
		}
		s.values[name] = v
	}
	return nil
}

// schemaOf returns the operator in the form that the imported version of its domain has. Where there is none, Since is
// that version, so that no other form is taken for it.
func (l *loader) schemaOf(domain, name string, opsets map[string]int) graph.Op {
	version, ok := opsets[domain]
	if !ok {
		version = 1 << 30
	}
	op := graph.Op{Domain: domain, Name: name, Since: version}
	if s := graph.LookupSchema(domain, name, version); s != nil {
		op.Since = s.Since
	}
	return op
}

// regions builds the graphs of an attribute. A list of graphs becomes regions named "attribute/0" and so on.
func (l *loader) regions(s *scope, name string, b binding, label string, set *captures) ([]graph.Region, error) {
	var out []graph.Region
	for i, g := range b.attr.graphs {
		region := name
		if b.attr.kind == attrGraphs {
			region = fmt.Sprintf("%s/%d", name, i)
		} else if i > 0 {
			return nil, at(fmt.Errorf("%w: %d graphs, 1 expected", ErrSyntax, len(b.attr.graphs)), label, name)
		}
		if s.frame.depth == graph.MaxRegionDepth {
			return nil, fmt.Errorf("%w: regions, more than %d", ErrDepth, graph.MaxRegionDepth)
		}
		f := set.addRegion(g.name, s.frame)
		g.reserve(f.names)
		inner := &scope{parent: b.scope, frame: f, types: g.types, opsets: b.scope.opsets, label: label + "/" + region + "/",
			attrs: b.scope.attrs, call: s.call, dims: b.scope.dims}
		if l.labels -= len(inner.label); l.labels < 0 {
			return nil, errLabels
		}
		if _, err := l.graphInto(inner, g); err != nil {
			return nil, at(err, label, "")
		}
		out = append(out, graph.Region{Name: region, Graph: f.g})
	}
	return out, nil
}
