package graph

import (
	"errors"
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
)

// ErrSyntax is wrapped by errors about text that is no graph, type, dim or format.
var ErrSyntax = errors.New("syntax error")

// ErrElided is wrapped by errors about tensors whose data the text leaves out.
var ErrElided = errors.New("the data are elided")

// ParseError tells where in a text an error is. It wraps ErrSyntax, ErrElided or what the text form's types report.
type ParseError struct {
	Line, Col int // both from 1; Col counts bytes
	Err       error
}

// Error returns "line 3, column 7: …".
func (e *ParseError) Error() string {
	return fmt.Sprintf("line %d, column %d: %v", e.Line, e.Col, e.Err)
}

// Unwrap returns the cause.
func (e *ParseError) Unwrap() error { return e.Err }

// Elided is a tensor of which the text gives only the type, and size and checksum of its elements (see Checksum).
type Elided struct {
	Name     string // of the constant, or of the attribute
	DType    tensor.DType
	Shape    []int
	Bytes    int
	Checksum uint64
}

// Parse reads the text form of a graph; see the package documentation. It checks the syntax and that names are defined,
// no more: Verify checks the graph, and InferGraph fills in types that the text leaves out. Elided tensors are an error.
// Work and memory are linear in the length of the text. The error is a *ParseError.
func Parse(text string) (*Graph, error) { return ParseElided(text, nil) }

// ParseElided is Parse with a function that supplies the data of elided tensors.
func ParseElided(text string, data func(Elided) (*tensor.Tensor, error)) (g *Graph, err error) {
	p := parser{lexer: lexer{text: text}, data: data}
	defer p.recovered(&err)
	p.space()
	g = p.graph(nil, 0)
	p.space()
	if p.pos < len(p.text) {
		p.fail("expected the end of the text")
	}
	g.freshDims = p.fresh
	return g, nil
}

type parser struct {
	lexer
	data  func(Elided) (*tensor.Tensor, error)
	scope *scope
	fresh int32 // the largest N of the unbacked symbols ?N
}

// scope is the graph that is being read: its values by reference, and operands that stand before their definition.
type scope struct {
	g       *Graph
	values  map[string]*Value
	pending []pending
	signed  []*Node // nodes whose signature follows from the formats of their values
}

type pending struct {
	ref  string
	pos  int
	node *Node
	slot int
}

// graph reads `graph "name" { … }`. A region has its owner from the start, whose operator sets it shares.
func (p *parser) graph(owner *Node, depth int) *Graph {
	if depth > MaxRegionDepth {
		p.fail("regions are nested deeper than %d", MaxRegionDepth)
	}
	p.keyword("graph")
	g := New("")
	g.owner = owner
	p.blank()
	if p.peek() == '"' {
		g.Name = p.quoted()
	}
	p.space()
	p.expect("{")
	outer := p.scope
	p.scope = &scope{g: g, values: map[string]*Value{}}
	var outputs []string
	var at []int
	for p.space(); !p.accept("}"); p.space() {
		if p.pos == len(p.text) {
			p.fail("the graph does not end")
		}
		if out, pos := p.statement(depth); out != nil {
			outputs, at = append(outputs, out...), append(at, pos...)
		}
	}
	for _, o := range p.scope.pending {
		o.node.SetOperand(o.slot, p.defined(o.ref, o.pos))
	}
	p.scope.settle()
	vs := make([]*Value, len(outputs))
	for i, ref := range outputs {
		vs[i] = p.defined(ref, at[i])
	}
	g.SetOutputs(vs...)
	p.scope = outer
	return g
}

func (p *parser) defined(ref string, pos int) *Value {
	v := p.scope.values[ref]
	if v == nil {
		p.pos = pos
		p.fail("%s is not defined", capped(ref))
	}
	return v
}

// statement reads one statement of a graph; those that declare outputs return them.
func (p *parser) statement(depth int) (outputs []string, at []int) {
	g := p.scope.g
	switch c := p.peek(); {
	case c == '%' || c == '$':
		p.node(depth)
		return nil, nil
	case c == '"':
		p.node(depth)
		return nil, nil
	}
	switch word := p.ahead(); word {
	case "input", "capture":
		p.pos += len(word)
		p.blank()
		ref, name := p.ref()
		var v *Value
		if word == "input" {
			v = g.AddInput(name, Type{})
		} else {
			v = g.AddCapture(name, Type{})
		}
		p.define(ref, v)
		p.ascription(v)
	case "const":
		p.constant()
	case "dims":
		p.dimsValue()
	case "output":
		p.pos += len(word)
		for {
			p.space()
			at = append(at, p.pos)
			ref, _ := p.ref()
			outputs = append(outputs, ref)
			if p.blank(); !p.accept(",") {
				return outputs, at
			}
		}
	case "opset", "meta", "doc":
		p.header(word)
	default:
		p.node(depth)
	}
	return nil, nil
}

func (p *parser) header(word string) {
	g := p.scope.g
	p.pos += len(word)
	p.blank()
	switch word {
	case "opset":
		domain := ""
		if p.peek() == '"' {
			domain = p.quoted()
			p.blank()
		}
		g.Opsets[domain] = int(p.integer())
	case "meta":
		key := p.quoted()
		p.blank()
		p.expect("=")
		p.blank()
		if g.Meta == nil {
			g.Meta = map[string]string{}
		}
		g.Meta[key] = p.quoted()
	case "doc":
		g.Doc = p.quoted()
	}
}

func (p *parser) define(ref string, v *Value) {
	if p.scope.values[ref] != nil {
		p.fail("%s is defined twice", capped(ref))
	}
	p.scope.values[ref] = v
}

// ascription reads `: TYPE @FORMAT dims [N]`, all of it optional, behind the name of a value.
func (p *parser) ascription(v *Value) {
	p.blank()
	if p.accept(":") {
		p.blank()
		v.Type = p.typ(0)
		p.blank()
	}
	if p.peek() == '@' {
		v.Format = p.format()
		p.blank()
	}
	if p.ahead() == "dims" {
		p.pos += len("dims")
		p.blank()
		v.Dims, _ = p.known()
	}
}

// known reads a list of dims, or a single one: a scalar's.
func (p *parser) known() (dims []Dim, scalar bool) {
	if p.peek() == '[' {
		return p.dims(), false
	}
	return []Dim{p.dim(0)}, true
}

func (p *parser) constant() {
	p.pos += len("const")
	p.blank()
	ref, name := p.ref()
	p.blank()
	p.expect("=")
	p.blank()
	v := p.scope.g.AddConst(name, p.tensor(name))
	p.define(ref, v)
	p.blank()
	if p.peek() == '@' {
		v.Format = p.format()
	}
}

func (p *parser) dimsValue() {
	p.pos += len("dims")
	p.blank()
	ref, name := p.ref()
	p.blank()
	p.expect("=")
	p.blank()
	dt := tensor.Int64
	if word := p.ahead(); word == "i64" || word == "i32" {
		if word == "i32" {
			dt = tensor.Int32
		}
		p.pos += len(word)
		p.blank()
	}
	dims, scalar := p.known()
	v := p.scope.g.AddDims(name, dims, scalar)
	v.Type.DType = dt
	p.define(ref, v)
	p.blank()
	if p.peek() == '@' {
		v.Format = p.format()
	}
}

// ref reads the name of a value: the whole of it, and the value's own name.
func (p *parser) ref() (ref, name string) {
	start := p.pos
	switch {
	case p.accept("$"):
		for isDigit(p.peek()) {
			p.pos++
		}
		if p.pos == start+1 {
			p.fail("expected a number")
		}
		return p.text[start:p.pos], ""
	case p.accept("%"):
		name = p.word()
		if name == "" {
			p.fail("the name of a value is empty")
		}
		suffix := p.pos
		if p.accept("'") {
			for isDigit(p.peek()) {
				p.pos++
			}
		}
		return "%" + name + p.text[suffix:p.pos], name
	}
	p.fail("expected the name of a value")
	return "", ""
}
