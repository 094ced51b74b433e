package graph

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// node reads a node with its results, operands, attributes, clauses and regions.
func (p *parser) node(depth int) {
	spec := NodeSpec{}
	results := p.results()
	start := p.pos
	spec.Op = p.op()
	p.expect("(")
	refs, captures := p.operands()
	p.space()
	if p.accept(";") {
		spec.Attrs = p.attrs()
	}
	p.space()
	p.expect(")")
	for i := range results {
		spec.Outputs = append(spec.Outputs, results[i].name)
	}
	spec.Inputs = make([]*Value, len(refs))
	spec.Captures = make([]*Value, len(captures))
	n := p.scope.g.AddNode(spec)
	for i := range results {
		p.result(n, i, &results[i])
	}
	for k, r := range slices.Concat(refs, captures) {
		switch v := p.scope.values[r.ref]; {
		case r.ref == "_" && k < len(refs):
		case r.ref == "_":
			p.pos = r.pos
			p.fail("a capture is omitted")
		case v != nil:
			n.SetOperand(k, v)
		default:
			p.scope.pending = append(p.scope.pending, pending{r.ref, r.pos, n, k})
		}
	}
	p.clauses(n)
	p.regions(n, depth)
	for _, r := range n.Regions {
		if len(r.Graph.Captures) != len(n.Captures) {
			p.pos = start
			p.fail("%d captures, but %d in region %q", len(n.Captures), len(r.Graph.Captures), capped(r.Name))
		}
	}
}

type operand struct {
	ref string
	pos int
}

// result is an output as it is read, before there is a node.
type result struct {
	ref, name string // ref is "" for an omitted one
	pos       int
	v         Value // type, format and dims
}

// results reads `%y: f32[N], _ =`; nothing where the statement begins with an operator.
func (p *parser) results() []result {
	if c := p.peek(); c != '%' && c != '$' && p.ahead() != "_" {
		return nil
	}
	var out []result
	for {
		r := result{pos: p.pos}
		if p.ahead() == "_" {
			p.pos++
		} else {
			r.ref, r.name = p.ref()
			p.ascription(&r.v)
		}
		out = append(out, r)
		p.blank()
		if !p.accept(",") {
			break
		}
		p.space()
	}
	p.expect("=")
	p.blank()
	return out
}

// result gives output i of n what the text says of it.
func (p *parser) result(n *Node, i int, r *result) {
	if r.ref == "" {
		if v := n.Outputs[i]; v != nil { // AddNode makes a single output even without a name
			v.kind = kindRemoved
			n.Outputs[i] = nil
		}
		return
	}
	v := n.Outputs[i]
	if v == nil {
		v = n.newOutput(i, "")
	}
	v.Type, v.Format, v.Dims = r.v.Type, r.v.Format, r.v.Dims
	if p.scope.values[r.ref] != nil {
		p.pos = r.pos
	}
	p.define(r.ref, v)
}

// op reads domain::Name/version.
func (p *parser) op() Op {
	op := Op{Name: p.opWord()}
	if p.accept("::") {
		op.Domain = op.Name
		op.Name = p.opWord()
	}
	if p.peek() == '/' {
		p.pos++
		since := p.integer()
		if since < 0 || since > math.MaxInt32 {
			p.fail("bad version")
		}
		op.Since = int(since)
	}
	return op
}

// operands reads `%x, _ | %captured`.
func (p *parser) operands() (inputs, captures []operand) {
	list := &inputs
	for {
		p.space()
		switch c := p.peek(); {
		case c == '|' && list == &inputs:
			p.pos++
			list = &captures
			continue
		case c == ')' || c == ';':
			return inputs, captures
		case c == ',' && len(*list) > 0:
			p.pos++
			p.space()
		case len(*list) > 0:
			p.fail("expected a comma, a semicolon or a closing bracket")
		}
		o := operand{pos: p.pos}
		if p.ahead() == "_" {
			p.pos++
			o.ref = "_"
		} else {
			o.ref, _ = p.ref()
		}
		*list = append(*list, o)
	}
}

// clauses reads label, from(…), on, as and ports on the node's line.
func (p *parser) clauses(n *Node) {
	p.blank()
	if p.peek() == '"' {
		n.Name = p.quoted()
	}
	for {
		p.blank()
		word := p.ahead()
		switch word {
		case "from":
			p.pos += len(word)
			p.expect("(")
			n.Origins = []string{}
			for p.space(); !p.accept(")"); p.space() {
				if len(n.Origins) > 0 {
					p.expect(",")
					p.space()
				}
				n.Origins = append(n.Origins, p.quoted())
			}
		case "on":
			p.pos += len(word)
			p.blank()
			n.Backend = p.quoted()
		case "as":
			p.pos += len(word)
			p.blank()
			n.SigName = p.quoted()
		case "ports":
			p.pos += len(word)
			p.ports(n)
		default:
			if n.SigName != "" && n.Ports == nil {
				p.followed(n)
			}
			return
		}
	}
}

// ports reads `(@host:NCHW16c, @host:row-major -> @host:NCHW16c)`.
func (p *parser) ports(n *Node) {
	p.expect("(")
	s := &Signature{Name: n.SigName}
	list := &s.Inputs
	for {
		p.space()
		switch {
		case p.accept("->") && list == &s.Inputs:
			list = &s.Outputs
			continue
		case p.accept(")"):
			n.Ports = s
			return
		case len(*list) > 0:
			p.expect(",")
			p.space()
		}
		if p.accept("$") {
			i := p.integer()
			if i < 0 || i > 1<<16 {
				p.fail("bad variable")
			}
			*list = append(*list, Variable(int(i)))
		} else {
			*list = append(*list, Fixed(p.format()))
		}
	}
}

// followed gives n the signature that its values' formats tell. Operands that are defined later are settled by settle.
func (p *parser) followed(n *Node) {
	p.scope.signed = append(p.scope.signed, n)
}

// settle fills in the signatures that followed postponed.
func (s *scope) settle() {
	format := func(vs []*Value) []Port {
		ports := make([]Port, len(vs))
		for i, v := range vs {
			if v != nil {
				ports[i] = Fixed(v.Format)
			}
		}
		return ports
	}
	for _, n := range s.signed {
		n.Ports = &Signature{Name: n.SigName, Inputs: format(n.Inputs), Outputs: format(n.Outputs)}
	}
}

// regions reads `{ then_branch: graph { … } … }`.
func (p *parser) regions(n *Node, depth int) {
	p.blank()
	if !p.accept("{") {
		return
	}
	for p.space(); !p.accept("}"); p.space() {
		name := p.word()
		p.blank()
		p.expect(":")
		p.blank()
		n.Regions = append(n.Regions, Region{strings.Clone(name), p.graph(n, depth+1)})
	}
}

// attrs reads `axis=1, pads=[0,0]`.
func (p *parser) attrs() []Attr {
	var out []Attr
	seen := map[string]bool{}
	for {
		p.space()
		at := p.pos
		a := Attr{Name: p.word()}
		if seen[a.Name] {
			p.pos = at
			p.fail("attribute %q is given twice", capped(a.Name))
		}
		seen[a.Name] = true
		p.blank()
		p.expect("=")
		p.blank()
		p.attr(&a)
		out = append(out, a)
		if p.space(); !p.accept(",") {
			return out
		}
	}
}

// attr reads the value of an attribute.
func (p *parser) attr(a *Attr) {
	switch c := p.peek(); {
	case c == '"':
		a.Kind, a.Str = AttrString, p.quoted()
	case c == '[':
		p.list(a)
	case isDigit(c) || c == '-' || c == '+' || strings.HasPrefix(p.text[p.pos:], "nan:"):
		p.scalar(a)
	default:
		p.tagged(a)
	}
}

// tagged reads a value that begins with a word: none, type(…), an empty list, dims or a tensor.
func (p *parser) tagged(a *Attr) {
	word := p.ahead()
	empty := func(k AttrKind) {
		p.pos += len(word)
		p.expect("[]")
		a.Kind = k
	}
	switch word {
	case "none":
		p.pos += len(word)
	case "type":
		p.pos += len(word)
		p.expect("(")
		a.Kind, a.Type = AttrType, p.typ(0)
		p.expect(")")
	case "dims":
		p.pos += len(word)
		a.Kind, a.Dims = AttrDims, p.dims()
	case "ints":
		empty(AttrInts)
	case "floats":
		empty(AttrFloats)
	case "strings":
		empty(AttrStrings)
	case "tensors":
		empty(AttrTensors)
	default:
		a.Kind, a.Tensor = AttrTensor, p.tensor(a.Name)
	}
}

// scalar reads an int or a float, the latter told by its dot, exponent, Inf or nan.
func (p *parser) scalar(a *Attr) {
	if p.accept("nan:0x") {
		bits, err := strconv.ParseUint(p.number(), 16, 32)
		if err != nil {
			p.fail("bad bits of a NaN")
		}
		a.Kind, a.Float = AttrFloat, math.Float32frombits(uint32(bits))
		return
	}
	start := p.pos
	s := p.number()
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		a.Kind, a.Int = AttrInt, n
		return
	}
	f, err := strconv.ParseFloat(s, 32)
	if err != nil {
		p.pos = start
		p.fail("bad number %q", capped(s))
	}
	a.Kind, a.Float = AttrFloat, float32(f)
}

// list reads a list of ints, floats, strings or tensors, all of one kind.
func (p *parser) list(a *Attr) {
	p.expect("[")
	for {
		p.space()
		at := p.pos
		var item Attr
		item.Name = a.Name
		p.attr(&item)
		kind := AttrNone
		switch item.Kind {
		case AttrInt:
			kind, a.Ints = AttrInts, append(a.Ints, item.Int)
		case AttrFloat:
			kind, a.Floats = AttrFloats, append(a.Floats, item.Float)
		case AttrString:
			kind, a.Strs = AttrStrings, append(a.Strs, item.Str)
		case AttrTensor:
			kind, a.Tensors = AttrTensors, append(a.Tensors, item.Tensor)
		}
		if kind == AttrNone || a.Kind != AttrNone && a.Kind != kind {
			p.pos = at
			p.fail("a list holds ints, floats, strings or tensors, of one kind")
		}
		a.Kind = kind
		p.space()
		if p.accept("]") {
			return
		}
		p.expect(",")
	}
}
