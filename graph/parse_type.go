package graph

import (
	"strconv"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// Limits of what the text may nest.
const (
	maxTypeDepth = 16
	maxDimDepth  = 16
	maxDimTerms  = 256 // of one dim, functions in it apart
	maxDimAtoms  = 64  // of one product
)

// ParseType reads the form of Type.String. The error is a *ParseError.
func ParseType(s string) (t Type, err error) {
	p := parser{lexer: lexer{text: s}}
	defer p.recovered(&err)
	t = p.typ(0)
	p.end()
	return t, nil
}

// ParseDim reads the form of Dim.String: a sum of products of integers, symbols and floordiv, mod, min, max, bcast and position
// of two dims. Symbols that are no identifiers stand in double quotes. The error is a *ParseError.
func ParseDim(s string) (d Dim, err error) {
	p := parser{lexer: lexer{text: s}}
	defer p.recovered(&err)
	p.blank()
	d = p.dim(0)
	p.blank()
	p.end()
	return d, nil
}

// ParseFormat reads the form of Format.String and Format.Name, such as "host:NCHW16c". The error is a *ParseError.
func ParseFormat(s string) (f Format, err error) {
	p := parser{lexer: lexer{text: s}}
	defer p.recovered(&err)
	f = p.formatOf(s)
	return f, nil
}

func (p *parser) end() {
	if p.pos < len(p.text) {
		p.fail("unexpected %q", capped(p.text[p.pos:]))
	}
}

// typ reads ?, f32[N,3], ?[*], seq(…), opt(…) or map(…).
func (p *parser) typ(depth int) Type {
	if depth > maxTypeDepth {
		p.fail("types are nested deeper than %d", maxTypeDepth)
	}
	if p.accept("?") {
		if p.peek() != '[' {
			return Type{}
		}
		return Type{Kind: KindTensor, Shape: p.shape()}
	}
	elem := func() *Type {
		e := p.typ(depth + 1)
		p.expect(")")
		return &e
	}
	start := p.pos
	switch word := p.ahead(); word {
	case "seq":
		p.pos += len(word)
		p.expect("(")
		return Type{Kind: KindSequence, Elem: elem()}
	case "opt":
		p.pos += len(word)
		p.expect("(")
		return Type{Kind: KindOptional, Elem: elem()}
	case "map":
		p.pos += len(word)
		p.expect("(")
		key := p.dtype()
		p.expect(",")
		return Type{Kind: KindMap, DType: key, Elem: elem()}
	case "":
		p.pos = start
		p.fail("expected a type")
	}
	return Type{Kind: KindTensor, DType: p.dtype(), Shape: p.shape()}
}

func (p *parser) dtype() tensor.DType {
	word := p.ahead()
	dt, ok := tensor.ParseDType(word)
	if !ok && word != "invalid" {
		p.fail("%q is no element type", capped(word))
	}
	p.pos += len(word)
	return dt
}

// shape reads [N,3] or [*].
func (p *parser) shape() Shape {
	if p.accept("[*]") {
		return nil
	}
	return p.dims()
}

// dims reads [N,3]; it is never nil.
func (p *parser) dims() []Dim {
	p.expect("[")
	out := []Dim{}
	for p.blank(); !p.accept("]"); p.blank() {
		if len(out) > 0 {
			p.expect(",")
			p.blank()
		}
		out = append(out, p.dim(0))
	}
	return out
}

// dim reads a sum of products.
func (p *parser) dim(depth int) Dim {
	if depth > maxDimDepth {
		p.fail("functions are nested deeper than %d", maxDimDepth)
	}
	sum := p.product(depth, 1)
	for i := 1; ; i++ {
		p.blank()
		sign := int64(1)
		switch {
		case p.accept("+"):
		case p.peek() == '-' && !strings.HasPrefix(p.text[p.pos:], "->"):
			p.pos++
			sign = -1
		default:
			return sum
		}
		if i >= maxDimTerms {
			p.fail("more than %d terms", maxDimTerms)
		}
		p.blank()
		sum = sum.Add(p.product(depth, sign))
	}
}

// product reads a product that sign is a factor of.
func (p *parser) product(depth int, sign int64) Dim {
	for p.accept("-") {
		sign = -sign
		p.blank()
	}
	d := p.factor(depth, sign)
	for i := 1; ; i++ {
		p.blank()
		if !p.accept("*") {
			return d
		}
		if i >= maxDimAtoms {
			p.fail("more than %d factors", maxDimAtoms)
		}
		p.blank()
		at := p.pos
		f := p.factor(depth, 1)
		if len(d.terms())*len(f.terms()) > maxTerms {
			p.pos = at
			p.fail("the product is too complex")
		}
		d = d.Mul(f)
	}
}

// factor reads an integer, a symbol or a function of two dims, times sign.
func (p *parser) factor(depth int, sign int64) Dim {
	switch c := p.peek(); {
	case isDigit(c):
		start := p.pos
		for isDigit(p.peek()) {
			p.pos++
		}
		s := p.text[start:p.pos]
		if sign < 0 {
			s = "-" + s
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			p.pos = start
			p.fail("number %q is out of range", capped(s))
		}
		return Dim{c: n}
	case c == '"':
		name := p.quoted()
		if name == "" {
			p.fail("the name of a symbol is empty")
		}
		return p.symbol(name).Scale(sign)
	}
	start := p.pos
	for p.pos < len(p.text) && isSymbolByte(p.text[p.pos]) {
		p.pos++
	}
	name := p.text[start:p.pos]
	if !isSymbol(name) {
		p.pos = start
		p.fail("expected a dim")
	}
	if p.accept("(") {
		return p.function(name, start, depth).Scale(sign)
	}
	return p.symbol(name).Scale(sign)
}

// symbol returns the symbol of that name, and takes note of the numbers that Fresh must not give again.
func (p *parser) symbol(name string) Dim {
	if rest, ok := strings.CutPrefix(name, "?"); ok {
		if n, err := strconv.ParseInt(strings.TrimPrefix(rest, "i"), 10, 32); err == nil {
			p.fresh = max(p.fresh, int32(n))
		}
	}
	return Sym(strings.Clone(name))
}

func (p *parser) function(name string, start, depth int) Dim {
	a := p.dim(depth + 1)
	p.expect(",")
	p.blank()
	b := p.dim(depth + 1)
	p.expect(")")
	d := Dim{}
	switch name {
	case "floordiv":
		d = a.FloorDiv(b)
	case "mod":
		d = a.Mod(b)
	case "min":
		d = a.Min(b)
	case "max":
		d = a.Max(b)
	case "position":
		d = a.Position(b)
	case "bcast":
		ok := false
		if d, ok = a.Broadcast(b); !ok {
			p.pos = start
			p.fail("%v and %v do not broadcast", a, b)
		}
	default:
		p.pos = start
		p.fail("%q is no function of dims", capped(name))
	}
	if d.e != nil && len(d.e.key) > maxDimKey {
		p.pos = start
		p.fail("the dim is too complex")
	}
	return d
}

// maxDimKey bounds the text of a function of dims: nested ones repeat their arguments.
const maxDimKey = 1 << 14

// format reads @host:NCHW16c or @"…".
func (p *parser) format() Format {
	at := p.pos
	p.expect("@")
	if p.peek() == '"' {
		s := p.quoted()
		end := p.pos
		p.pos = at
		f := p.formatOf(s)
		p.pos = end
		return f
	}
	start := p.pos
	for p.pos < len(p.text) && isFormatByte(p.text[p.pos]) {
		p.pos++
	}
	s, end := p.text[start:p.pos], p.pos
	p.pos = at
	f := p.formatOf(strings.Clone(s))
	p.pos = end
	return f
}

// formatOf reads the whole of s: device, colon, layout. The device is host, or kind:index.
func (p *parser) formatOf(s string) Format {
	device, layout, ok := strings.Cut(s, ":")
	if !ok {
		p.fail("%q is no format: a colon parts device and layout", capped(s))
	}
	var f Format
	if device != "host" {
		var index string
		index, layout, ok = strings.Cut(layout, ":")
		n, err := strconv.ParseInt(index, 10, 32)
		if !ok || err != nil {
			p.fail("%q is no format: it has no device index", capped(s))
		}
		f.Device.Index = int32(n)
		switch digits, other := strings.CutPrefix(device, "device"); {
		case device == "cuda":
			f.Device.Type = tensor.CUDA
		case device == "opencl":
			f.Device.Type = tensor.OpenCL
		case other:
			t, err := strconv.ParseInt(digits, 10, 32)
			if err != nil {
				p.fail("%q is no device", capped(device))
			}
			f.Device.Type = tensor.DeviceType(t)
		default:
			p.fail("%q is no device", capped(device))
		}
	}
	l, err := ParseLayout(layout)
	if err != nil {
		p.failWith(err)
	}
	f.Layout = l
	return f
}
