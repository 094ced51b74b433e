package onnx

import (
	"fmt"
	"maps"
	"slices"

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
	s := &scope{frame: f, opsets: newOpsets(p.opsets), dims: l.newDims(false)}
	defaults, err = l.graphInto(s, p.graph)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(l.top.Opsets, p.opsets) // with those that a node has added
	for _, o := range p.graph.outputs {
		outputs = append(outputs, p.graph.names[o.name])
	}
	l.finishOutputs(outputs)
	return outputs, defaults, nil
}

// reserve takes the names that values of the file have: values of functions get others.
func (g *graphProto) reserve(n *names) {
	for i := range g.nodes {
		for _, s := range g.nodes[i].out() {
			n.taken[g.names[s]] = true
		}
	}
	for _, v := range g.inputs {
		n.taken[g.names[v.name]] = true
	}
	for _, v := range g.inits {
		n.taken[g.names[v.name]] = true
	}
}

// finishOutputs puts an Identity behind outputs whose value bears another name, as where a function hands its argument
// back.
func (l *loader) finishOutputs(names []string) {
	for i, name := range names {
		if v := l.top.Outputs[i]; v.Name != name {
			if _, ok := l.top.Opsets[""]; !ok {
				l.top.Opsets[""] = newestOpset
			}
			n := l.top.AddNode(graph.NodeSpec{Op: newOpsets(l.top.Opsets).op(&opProto{opKey{name: "Identity"}}), Name: name,
				Inputs: []*graph.Value{v}, Outputs: []string{name}})
			n.Outputs[0].Type = v.Type
			l.top.SetOutput(i, n.Outputs[0])
		}
	}
}

func (l *loader) newDims(own bool) *innerDims {
	return &innerDims{l: l, own: own, seen: map[string]graph.Dim{}}
}

// graphInto builds inputs, initializers, nodes and outputs of a graph of the file.
func (l *loader) graphInto(s *scope, p *graphProto) (defaults map[string]*tensor.Tensor, err error) {
	if s.call != nil { // a function may be called often
		if err := l.charge(s, len(p.names)/16); err != nil {
			return nil, err
		}
	}
	s.body, s.outer = &p.body, p.outer
	s.values = make([]*graph.Value, len(p.names))
	isInit := make([]bool, len(p.names))
	for _, init := range p.inits {
		if isInit[init.name] {
			return nil, at(fmt.Errorf("%w: initializer", ErrDuplicate), "", s.text(init.name))
		}
		isInit[init.name] = true
	}
	given, err := l.givenInputs(s, p, isInit)
	if err != nil {
		return nil, err
	}
	for _, in := range given {
		var dims dimNames = s.dims
		name := s.text(in.name)
		if s.frame.parent == nil {
			dims = &inputDims{l: l, input: name}
		}
		t, err := l.typ(in.typ, dims, 0)
		if err == nil {
			err = s.define(in.name, nil)
		}
		if err != nil {
			return nil, at(err, "", name)
		}
		s.values[in.name] = s.frame.g.AddInput(name, t)
	}
	declaredInputs := map[int32][]byte{}
	for _, in := range p.inputs {
		if isInit[in.name] {
			declaredInputs[in.name] = in.typ
		}
	}
	for _, init := range p.inits {
		name := s.text(init.name)
		t, err := l.tensor(init.msg, init.sparse)
		if err != nil {
			return nil, at(err, "", name)
		}
		if err := l.checkInitializer(s, declaredInputs, init.name, t); err != nil {
			return nil, at(err, "", name)
		}
		if s.values[init.name] == nil {
			s.values[init.name] = s.frame.g.AddConst(name, t)
			continue
		}
		if defaults == nil {
			defaults = map[string]*tensor.Tensor{}
		}
		defaults[name] = t
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
			return nil, at(fmt.Errorf("output %d: %w", i, err), "", s.text(o.name))
		}
		if v.Type.Kind == graph.KindUnknown { // results of functions, whose bodies name them otherwise
			if v.Type, err = l.typ(o.typ, s.dims, 0); err != nil {
				return nil, at(err, "", s.text(o.name))
			}
		}
		outs[i] = v
	}
	s.frame.g.SetOutputs(outs...)
	return defaults, nil
}

// checkInitializer compares an initializer with the input that the graph declares under its name. What value_info says of one counts as
// little as it does for results: converters to float16 leave it as it was, or change it alone.
func (l *loader) checkInitializer(s *scope, declaredInputs map[int32][]byte, name int32, t *tensor.Tensor) error {
	typ, ok := declaredInputs[name]
	if !ok {
		return nil
	}
	declared, err := l.typ(typ, s.dims, 0)
	if err != nil {
		return err
	}
	if is := graph.TensorType(t.DType, graph.ShapeOf(t.Shape...)); !declared.MayBe(is) {
		return fmt.Errorf("%w: initializer of type %v, declared as %v", ErrSyntax, is, declared)
	}
	return nil
}

// givenInputs returns the inputs of a graph that its caller gives: all of a region's; of the model's those without data,
// and those with data that Options.Override names. It takes the symbols of the model's inputs.
func (l *loader) givenInputs(s *scope, p *graphProto, isInit []bool) ([]valueInfo, error) {
	isTop := s.frame.parent == nil
	var out []valueInfo
	for _, in := range p.inputs {
		if in.name == 0 {
			return nil, at(fmt.Errorf("%w: input without a name", ErrSyntax), "", "")
		}
		if isTop && isInit[in.name] {
			name := s.text(in.name)
			if l.proto.ir < 4 { // every initializer had to be an input
				continue
			}
			l.overridable = append(l.overridable, name)
			if !slices.Contains(l.o.Override, name) {
				continue
			}
		}
		out = append(out, in)
	}
	if !isTop {
		return out, nil
	}
	for _, name := range l.o.Override {
		if !slices.Contains(l.overridable, name) {
			return nil, at(fmt.Errorf("%w", ErrOverride), "", name)
		}
	}
	for _, in := range out {
		if _, err := l.typ(in.typ, identifiers{l}, 0); err != nil {
			return nil, at(err, "", s.text(in.name))
		}
	}
	return out, nil
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
			return at(err, short(s.text(nodes[i].name)), "")
		}
		n := &nodes[i]
		if err := l.charge(s, 1+(len(n.args)+len(n.attrs))/16); err != nil {
			return at(err, label, "")
		}
		if err := l.buildNode(s, &nodes[i], label); err != nil {
			return at(err, label, "")
		}
	}
	s.nameGradients()
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
	in := append(l.inputs[:0], make([]*graph.Value, n.inputs)...)
	l.inputs = nil // regions have nodes of their own
	for i, name := range n.in() {
		if name == 0 {
			continue
		}
		v, err := s.resolve(name)
		if err != nil {
			return at(err, label, s.text(name))
		}
		in[i] = v
	}
	if fn := l.proto.functions[n.op.opKey]; fn != nil {
		return l.inline(s, n, label, fn, in)
	}
	if n.op.domain == "" && !s.opsets.has("") {
		return fmt.Errorf("%w: the model imports no version of the default domain", ErrUnsupportedOpset)
	}
	if err := s.opsets.admits(n.op); err != nil {
		return err
	}
	spec := graph.NodeSpec{Op: s.opsets.op(n.op), Name: label, Inputs: in, Outputs: append(l.outputs[:0], make([]string, len(n.out()))...)}
	var set *captures
	for _, a := range n.attrs {
		if a.ref != "" && s.call == nil {
			return at(fmt.Errorf("%w: reference to attribute %q outside of a function", ErrSyntax, short(a.ref)), label, a.name)
		}
		b, ok := s.given(a)
		if !ok {
			continue
		}
		if b.attr.isGraph() {
			if set == nil {
				set = &captures{}
			}
			regions, err := l.regions(s, a.name, b, label, set)
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
	if set != nil {
		spec.Captures = set.outer
	}
	for i, name := range n.out() {
		if name == 0 {
			continue
		}
		var err error
		if spec.Outputs[i], err = l.valueName(s, name); err != nil {
			return err
		}
	}
	node := s.frame.g.AddNode(spec)
	if s.prefix != "" && n.op.domain == "ai.onnx.preview.training" && n.op.name == "Gradient" {
		s.gradients = append(s.gradients, node)
	}
	l.inputs, l.outputs = in, spec.Outputs
	if node.Schema == nil {
		node.Op.Since = 0
	}
	return l.results(s, n, node)
}

// results defines the results of a node and gives them the types of value_info.
func (l *loader) results(s *scope, n *nodeProto, node *graph.Node) error {
	for i, name := range n.out() {
		if name == 0 {
			continue
		}
		v := node.Outputs[i]
		if typ := s.body.typeOf(name); typ != nil {
			t, err := l.typ(typ, s.dims, 0)
			if err != nil {
				return at(err, node.Name, s.text(name))
			}
			v.Type = t
		}
		s.values[name] = v
	}
	return nil
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
		inner := &scope{parent: b.scope, frame: f, opsets: b.scope.opsets, label: label + "/" + region + "/",
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
