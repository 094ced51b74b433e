package onnx

import (
	"strconv"

	"github.com/carve-dev/carve/graph"
)

// expression reads the name of a dim as an expression of the inputs' symbols, as carve writes it and as some exporters
// do: sums, differences and products of names and numbers, and floordiv, mod, min, max, bcast and position of two. ok is
// false where it is anything else.
func (l *loader) expression(s string) (d graph.Dim, ok bool) {
	if len(s) > 512 {
		return d, false
	}
	p := &exprParser{s: s, l: l}
	d, ok = p.sum(0)
	p.space()
	return d, ok && p.i == len(s) && !d.TooComplex()
}

type exprParser struct {
	s string
	i int
	l *loader
}

func (p *exprParser) space() {
	for p.i < len(p.s) && p.s[p.i] == ' ' {
		p.i++
	}
}

func (p *exprParser) next(c byte) bool {
	p.space()
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

// maxExprDepth bounds how deep calls and parentheses are nested.
const maxExprDepth = 16

func (p *exprParser) sum(depth int) (d graph.Dim, ok bool) {
	negative := p.next('-')
	d, ok = p.product(depth)
	if negative {
		d = d.Scale(-1)
	}
	for ok && !d.TooComplex() {
		var e graph.Dim
		switch {
		case p.next('+'):
			e, ok = p.product(depth)
			d = d.Add(e)
		case p.next('-'):
			e, ok = p.product(depth)
			d = d.Sub(e)
		default:
			return d, true
		}
	}
	return d, false
}

func (p *exprParser) product(depth int) (d graph.Dim, ok bool) {
	d, ok = p.factor(depth)
	for ok && !d.TooComplex() && p.next('*') {
		var e graph.Dim
		if e, ok = p.factor(depth); ok && !e.TooComplex() {
			d = d.Mul(e)
		}
	}
	return d, ok && !d.TooComplex()
}

func (p *exprParser) factor(depth int) (d graph.Dim, ok bool) {
	if depth > maxExprDepth {
		return d, false
	}
	if p.next('(') {
		d, ok = p.sum(depth + 1)
		return d, ok && p.next(')')
	}
	start := p.i
	for p.i < len(p.s) && (p.s[p.i] == '_' || p.s[p.i] == '.' || p.s[p.i] >= '0' && p.s[p.i] <= '9' || p.s[p.i]|32 >= 'a' && p.s[p.i]|32 <= 'z') {
		p.i++
	}
	word := p.s[start:p.i]
	if n, err := strconv.ParseInt(word, 10, 32); err == nil {
		return graph.D(int(n)), true
	}
	if f := dimFunctions[word]; f != nil && p.next('(') {
		a, ok1 := p.sum(depth + 1)
		comma := p.next(',')
		b, ok2 := p.sum(depth + 1)
		if !ok1 || !ok2 || !comma || !p.next(')') {
			return d, false
		}
		return f(a, b)
	}
	if s, found := p.l.symbols[word]; found {
		return graph.Sym(s), true
	}
	return d, false
}

var dimFunctions = map[string]func(a, b graph.Dim) (graph.Dim, bool){
	"floordiv": func(a, b graph.Dim) (graph.Dim, bool) { return a.FloorDiv(b), true },
	"mod":      func(a, b graph.Dim) (graph.Dim, bool) { return a.Mod(b), true },
	"min":      func(a, b graph.Dim) (graph.Dim, bool) { return a.Min(b), true },
	"max":      func(a, b graph.Dim) (graph.Dim, bool) { return a.Max(b), true },
	"position": func(a, b graph.Dim) (graph.Dim, bool) { return a.Position(b), true },
	"bcast":    func(a, b graph.Dim) (graph.Dim, bool) { return a.Broadcast(b) },
}
