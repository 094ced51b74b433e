package graph

import "strconv"

// node writes one node:
//
//	%y: f32[N], _ = com.example::Op/17(%x, _, %w | %captured; axis=1) "label" from("a", "b") on "npu" as "sig"
//
// followed by its regions in braces.
func (p *printer) node(n *Node, depth int) {
	for i, v := range n.Outputs {
		p.comma(i)
		if v == nil {
			p.str("_")
			continue
		}
		p.definition(v)
	}
	if len(n.Outputs) > 0 {
		p.str(" = ")
	}
	p.op(n)
	p.str("(")
	for i, v := range n.Inputs {
		p.comma(i)
		p.ref(v)
	}
	if len(n.Captures) > 0 {
		if len(n.Inputs) > 0 {
			p.str(" ")
		}
		p.str("| ")
		for i, v := range n.Captures {
			p.comma(i)
			p.ref(v)
		}
	}
	for i := range n.Attrs {
		if i == 0 {
			p.str("; ")
		} else {
			p.str(", ")
		}
		p.attr(&n.Attrs[i])
	}
	p.str(")")
	p.clauses(n)
	if len(n.Regions) == 0 {
		return
	}
	p.str(" {")
	for _, r := range n.Regions {
		p.line(depth + 1)
		p.buf = appendWord(p.buf, r.Name)
		p.str(": ")
		if r.Graph == nil {
			p.str("graph {}")
			continue
		}
		p.graph(r.Graph, depth+1)
	}
	p.line(depth)
	p.str("}")
}

// clauses writes label, provenance, backend and signature.
func (p *printer) clauses(n *Node) {
	if n.Name != "" {
		p.str(" ")
		p.buf = appendQuoted(p.buf, n.Name)
	}
	if n.Origins != nil {
		p.str(" from(")
		for i, s := range n.Origins {
			p.comma(i)
			p.buf = appendQuoted(p.buf, s)
		}
		p.str(")")
	}
	if n.Backend != "" {
		p.str(" on ")
		p.buf = appendQuoted(p.buf, n.Backend)
	}
	if n.SigName != "" {
		p.str(" as ")
		p.buf = appendQuoted(p.buf, n.SigName)
	}
	if n.Ports != nil && !portsFollow(n) {
		p.str(" ports(")
		p.ports(n.Ports.Inputs, n.Inputs)
		p.str(" -> ")
		p.ports(n.Ports.Outputs, n.Outputs)
		p.str(")")
	}
}

// portsFollow reports whether the text need not tell the formats of the chosen signature: it has a name, and its ports
// have the formats of the operands and results, as in every verified graph.
func portsFollow(n *Node) bool {
	s := n.Ports
	if n.SigName == "" || len(s.Inputs) != len(n.Inputs) || len(s.Outputs) != len(n.Outputs) {
		return false
	}
	for i, v := range n.Inputs {
		if v != nil && s.Inputs[i] != Fixed(v.Format) {
			return false
		}
	}
	for i, v := range n.Outputs {
		if v != nil && s.Outputs[i] != Fixed(v.Format) {
			return false
		}
	}
	return true
}

func (p *printer) ports(ports []Port, vs []*Value) {
	for i, port := range ports {
		p.comma(i)
		if port.Var > 0 {
			p.str("$" + itoa(port.Var-1))
			continue
		}
		rank := 0
		if i < len(vs) && vs[i] != nil {
			rank = len(vs[i].Type.Shape)
		}
		p.buf = appendFormat(p.buf, port.Format, rank)
	}
}

// op writes the operator, with its since-version where the graph's operator set does not tell it.
func (p *printer) op(n *Node) {
	if n.Op.Domain != "" {
		p.buf = appendOpWord(p.buf, n.Op.Domain)
		p.str("::")
	}
	p.buf = appendOpWord(p.buf, n.Op.Name)
	key := Op{Domain: n.Op.Domain, Name: n.Op.Name}
	since, ok := p.since[key]
	if !ok {
		if s := LookupSchema(key.Domain, key.Name, versionFor(n.graph, key)); s != nil {
			since = s.Since
		}
		p.since[key] = since
	}
	if n.Op.Since != since {
		p.str("/")
		p.str(itoa(n.Op.Since))
	}
}

// attr writes name=value; the form of the value tells its kind.
func (p *printer) attr(a *Attr) {
	p.buf = appendWord(p.buf, a.Name)
	p.str("=")
	switch a.Kind {
	case AttrInt:
		p.buf = strconv.AppendInt(p.buf, a.Int, 10)
	case AttrFloat:
		p.buf = appendAttrFloat(p.buf, a.Float)
	case AttrString:
		p.buf = appendQuoted(p.buf, a.Str)
	case AttrTensor:
		if a.Tensor == nil {
			p.str("none")
			return
		}
		p.buf = appendTensor(p.buf, a.Tensor, p.max)
	case AttrType:
		p.str("type(")
		p.buf = appendType(p.buf, a.Type)
		p.str(")")
	case AttrDims:
		p.str("dims")
		p.buf = appendDims(p.buf, a.Dims)
	case AttrInts:
		p.list("ints", len(a.Ints), func(i int) { p.buf = strconv.AppendInt(p.buf, a.Ints[i], 10) })
	case AttrFloats:
		p.list("floats", len(a.Floats), func(i int) { p.buf = appendAttrFloat(p.buf, a.Floats[i]) })
	case AttrStrings:
		p.list("strings", len(a.Strs), func(i int) { p.buf = appendQuoted(p.buf, a.Strs[i]) })
	case AttrTensors:
		p.list("tensors", len(a.Tensors), func(i int) { p.buf = appendTensor(p.buf, a.Tensors[i], p.max) })
	default:
		p.str("none")
	}
}

// list writes [1, 2]; an empty list carries the word of its kind.
func (p *printer) list(kind string, n int, item func(i int)) {
	if n == 0 {
		p.str(kind)
	}
	p.str("[")
	for i := range n {
		p.comma(i)
		item(i)
	}
	p.str("]")
}
