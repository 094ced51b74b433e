package plugin

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// ownProperty is a property that a plugin brings for backends.
type ownProperty struct {
	l       *Library
	at      uintptr // of the carve_property, where that is in this process
	c       cProperty
	backend string
	rule    *property.Rule
}

// maxState bounds the bytes of a selector's state.
const maxState = 1 << 24

func (l *Library) readProperties(from side) error {
	addresses, list, err := own[cProperty](from, l.table.properties, l.table.nProperties, "property")
	if err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	for i, c := range list {
		from.number(len(l.operators)+i, c.slots())
		p := &ownProperty{l: l, at: addresses[i], c: c, backend: from.text(c.backend)}
		name := from.text(c.name)
		switch {
		case !validName(name):
			return fmt.Errorf("%w: %s: property %d has the name %q", ErrPlugin, l.path, i, name)
		case (c.select_ == 0) == (c.claim == 0):
			return fmt.Errorf("%w: %s: property %s needs one of the functions select and claim", ErrPlugin, l.path, name)
		case c.kind > uint32(property.Admitting) || c.stateBytes > maxState || c.run != 0 && c.kind != uint32(property.Atomic):
			return fmt.Errorf("%w: %s: property %s is of kind %d with a state of %d bytes", ErrPlugin, l.path, name, c.kind, c.stateBytes)
		case slices.ContainsFunc(l.properties, func(q *ownProperty) bool { return q.rule.ID == name }):
			return fmt.Errorf("%w: %s: two properties have the name %q", ErrPlugin, l.path, name)
		}
		p.rule = &property.Rule{ID: name, Kind: property.Kind(c.kind), Selector: p.selector}
		if p.rule.Attributes, err = readAttrs(from, c.attrs, c.nAttrs); err != nil {
			return fmt.Errorf("%s: property %s: %w", l.path, name, err)
		}
		if c.run != 0 {
			p.rule.Kernel = p.kernel
			p.rule.Signatures = func(fused *graph.Node) []graph.Signature {
				return []graph.Signature{graph.UniformSignature("row-major", fused, graph.HostFormat)}
			}
		}
		l.properties = append(l.properties, p)
	}
	return nil
}

func (l *Library) propertyList() []backend.LibraryProperty {
	var out []backend.LibraryProperty
	for _, p := range l.properties {
		out = append(out, backend.LibraryProperty{Backend: p.backend, Property: p.rule})
	}
	return out
}

// readAttrs reads attributes of the plugin's.
func readAttrs(from side, at uintptr, n uint64) ([]graph.Attr, error) {
	list, err := views[cAttr](from, at, n, "attribute")
	if err != nil {
		return nil, err
	}
	var out []graph.Attr
	for _, c := range list {
		a := graph.Attr{Name: from.text(c.name)}
		switch c.typ {
		case 1:
			a.Kind, a.Float = graph.AttrFloat, float32(c.f)
		case 2:
			a.Kind, a.Int = graph.AttrInt, c.i
		case 3:
			a.Kind, a.Str = graph.AttrString, from.text(c.s)
		case 6:
			a.Kind = graph.AttrFloats
			a.Floats, err = words[float32](from, c.floats, c.n, "floats")
		case 7:
			a.Kind = graph.AttrInts
			a.Ints, err = words[int64](from, c.ints, c.n, "ints")
		case 8:
			a.Kind = graph.AttrStrings
			var texts []cStr
			texts, err = words[cStr](from, c.strings, c.n, "strings")
			for _, s := range texts {
				a.Strs = append(a.Strs, from.text(s))
			}
		default:
			err = fmt.Errorf("%w: attribute %q of type %d", ErrPlugin, a.Name, c.typ)
		}
		if err == nil && !identifier(a.Name) {
			err = fmt.Errorf("%w: an attribute of the name %q", ErrPlugin, a.Name)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// ownSelector is one walk of a property over a graph.
type ownSelector struct {
	p     *ownProperty
	side  side // where the functions run
	page  *page
	graph *cGraph
	nodes []*graph.Node // by index
	index map[*graph.Node]uint32
	state []byte
	at    uintptr // of the state
	seed  *graph.Node
	sets  map[*graph.Node]*[]*graph.Node // of claim
	why   *property.Reason               // of what the plugin did wrong, until it is told
}

// selector is the Selector of the property's rule. What goes wrong is the reason for the first node that is asked about.
func (p *ownProperty) selector(g *graph.Graph) property.Selector {
	s := &ownSelector{p: p, page: &page{}, index: map[*graph.Node]uint32{}}
	w, done := p.l.ownWriter(s.page)
	defer done()
	order, err := g.Topo()
	if err = errors.Join(w.err, err); err != nil {
		s.fault(err)
		return s
	}
	s.side = w.side
	d := p.l.describe(w, order)
	s.nodes, s.graph = order, d.at
	s.state = many[byte](w, int(p.c.stateBytes))
	if len(s.state) > 0 {
		s.at = address(&s.state[0])
	}
	runtime.AddCleanup(s, (*page).end, s.page)
	for i, n := range order {
		s.index[n] = uint32(i)
	}
	if w.err != nil {
		s.fault(w.err)
	} else if p.c.claim != 0 {
		if err := s.claim(w); err != nil {
			s.fault(err)
		}
	}
	return s
}

// fault ends the walk: nothing is selected any more.
func (s *ownSelector) fault(err error) {
	s.why = property.Because(property.Unsupported, "%s: %v", s.p.l.path, err)
	s.index, s.sets = nil, nil
}

// claim asks for all sets at once. Of sets that overlap the first counts.
func (s *ownSelector) claim(w *writer) error {
	l, c := s.p.l, &s.p.c
	out := one[uintptr](w)
	if w.err != nil {
		return w.err
	}
	if err := l.do(w, "claim", c.claim, s.p.at, address(s.graph), address(out)); err != nil {
		return err
	}
	at := *out
	if at == 0 {
		return nil
	}
	if c.releaseClaims != 0 {
		defer func() { _, _ = l.call(w.side, c.releaseClaims, s.p.at, at) }()
	}
	list, err := view[cClaims](w.side, at, "claims")
	if err != nil {
		return err
	}
	claims, err := views[cClaim](w.side, list.claims, uint64(list.n), "claim")
	if err != nil {
		return err
	}
	s.sets = map[*graph.Node]*[]*graph.Node{}
	for i, x := range claims {
		nodes, err := words[uint32](w.side, x.nodes, x.nNodes, "nodes of a claim")
		if err != nil {
			return err
		}
		set := &[]*graph.Node{}
		for _, n := range nodes {
			if int(n) >= len(s.nodes) {
				return fmt.Errorf("%w: claim %d has node %d of %d", ErrPlugin, i, n, len(s.nodes))
			}
			if s.sets[s.nodes[n]] == nil {
				s.sets[s.nodes[n]] = set
				*set = append(*set, s.nodes[n])
			}
		}
	}
	return nil
}

// asks calls a function about nodes, which says 1 or 0.
func (s *ownSelector) asks(name string, fn uintptr, nodes ...*graph.Node) bool {
	args := []uintptr{s.p.at, address(s.graph), s.at}
	for _, n := range nodes {
		i, ok := s.index[n]
		if !ok {
			return false // made since, or after a fault
		}
		args = append(args, uintptr(i))
	}
	if fn == 0 {
		return false
	}
	st, err := s.p.l.call(s.side, fn, args...)
	runtime.KeepAlive(s)
	if err != nil {
		s.fault(err)
		return false
	}
	if st < 0 || st > 1 {
		s.answered(name, st)
		return false
	}
	return st == 1
}

// answered notes a status that is no answer.
func (s *ownSelector) answered(name string, st status) {
	s.why = property.Because(property.Unsupported, "%s: %s of property %s: %v", s.p.l.path, name, s.p.rule.ID, st)
}

// Select implements property.Selector.
func (s *ownSelector) Select(n *graph.Node) bool {
	s.seed = n
	if s.p.c.claim != 0 {
		return s.sets[n] != nil
	}
	return s.asks("select", s.p.c.select_, n)
}

// SelectInput implements property.Selector.
func (s *ownSelector) SelectInput(n, producer *graph.Node) bool {
	if s.p.c.claim != 0 {
		return s.sets[producer] != nil && s.sets[producer] == s.sets[s.seed]
	}
	return s.asks("select_input", s.p.c.selectInput, n, producer)
}

// SelectOutput implements property.Selector.
func (s *ownSelector) SelectOutput(n, reader *graph.Node) bool {
	if s.p.c.claim != 0 {
		return s.sets[reader] != nil && s.sets[reader] == s.sets[s.seed]
	}
	return s.asks("select_output", s.p.c.selectOutput, n, reader)
}

// Filter implements property.Selector. A claim is kept whole.
func (s *ownSelector) Filter(candidates []*graph.Node) []*graph.Node {
	if s.p.c.claim != 0 {
		if set := s.sets[s.seed]; set == nil || len(*set) != len(candidates) {
			s.why = property.Because(property.NotSelected, "only %d of the nodes of its set are to be had in one piece", len(candidates))
			return nil
		}
		return candidates
	}
	if s.p.c.filter == 0 {
		return candidates
	}
	pg := page{region: s.side.shared()}
	defer pg.end()
	w := &writer{page: &pg, side: s.side}
	nodes, n := many[uint32](w, len(candidates)), one[uint64](w)
	if w.err != nil || len(candidates) == 0 {
		return nil
	}
	for i, c := range candidates {
		index, ok := s.index[c]
		if !ok {
			return nil
		}
		nodes[i] = index
	}
	*n = uint64(len(nodes))
	st, err := s.p.l.call(s.side, s.p.c.filter, s.p.at, address(s.graph), s.at, address(&nodes[0]), address(n))
	runtime.KeepAlive(s)
	if err != nil {
		s.fault(err)
		return nil
	}
	number := *n
	if st != statusOK || number > uint64(len(nodes)) {
		s.answered("filter", st)
		return nil
	}
	kept, wanted := make([]*graph.Node, 0, number), slices.Clone(nodes[:number])
	for _, c := range candidates { // in their order
		if slices.Contains(wanted, s.index[c]) {
			kept = append(kept, c)
		}
	}
	if len(kept) != len(wanted) {
		s.why = property.Because(property.Unsupported, "%s: filter of property %s keeps nodes twice, or others", s.p.l.path, s.p.rule.ID)
		return nil
	}
	return kept
}

// Reset implements property.Selector.
func (s *ownSelector) Reset() {
	if fn := s.p.c.reset; fn != 0 && s.index != nil {
		if st, err := s.p.l.call(s.side, fn, s.p.at, address(s.graph), s.at); err != nil {
			s.fault(err)
		} else if st != statusOK {
			s.answered("reset", st)
		}
		runtime.KeepAlive(s)
		return
	}
	clear(s.state)
}

// Why implements property.Explainer: what went wrong is told once.
func (s *ownSelector) Why(*graph.Node) *property.Reason {
	why := s.why
	s.why = nil
	return why
}

// kernel prepares a fused node of the property for concrete shapes.
func (p *ownProperty) kernel(fused *graph.Node, b graph.Bindings) (property.Kernel, error) {
	about := func(err error) error {
		return fmt.Errorf("%s: property %s, node %q: %w", p.l.path, p.rule.ID, fused.Label(), err)
	}
	body, err := fused.Regions[0].Graph.Clone()
	if err != nil {
		return property.Kernel{}, about(err)
	}
	k := &ownKernel{fn: p.c.run, self: p.at, g: body, about: about}
	known := func(v *graph.Value) error {
		dims, err := v.Type.Shape.Eval(b, nil)
		if err != nil || !v.Type.IsTensor() {
			return fmt.Errorf("%w: value %v: %w", backend.ErrRefused, v, err)
		}
		v.Type = graph.TensorType(v.Type.DType, graph.ShapeOf(dims...))
		return nil
	}
	ports := func(list []*graph.Value) (out []kernelPort, err error) {
		for i, v := range list {
			if err := known(v); err != nil {
				return nil, err
			}
			dims, _ := v.Type.Shape.Static() // they are all numbers
			out = append(out, kernelPort{arg: i, dtype: v.Type.DType, dims: dims})
		}
		return out, nil
	}
	for n := range body.Nodes() {
		for _, v := range n.Outputs {
			if v != nil && !v.IsOutput() {
				if err := known(v); err != nil {
					return property.Kernel{}, about(err)
				}
			}
		}
	}
	if k.in, err = ports(body.Inputs); err != nil {
		return property.Kernel{}, about(err)
	}
	if k.out, err = ports(body.Outputs); err != nil {
		return property.Kernel{}, about(err)
	}
	for v := range body.Constants() {
		t := v.Const
		if v.IsDims() {
			if t, err = v.EvalDims(b); err != nil {
				return property.Kernel{}, about(err)
			}
		}
		if t == nil || t.DType == tensor.String {
			return property.Kernel{}, about(fmt.Errorf("%w: constant %v", backend.ErrRefused, v))
		}
		k.constants = append(k.constants, kernelPort{arg: -1, fixed: t})
	}
	if k, err = p.l.newKernel(k, func(w *writer) (*description, error) { return p.l.describeGroup(w, body) }, p.c.workspace); err != nil {
		return property.Kernel{}, err
	}
	return property.Kernel{Run: k.run, Workspace: k.workspace}, nil
}
