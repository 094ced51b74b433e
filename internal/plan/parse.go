package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ErrSyntax is wrapped by errors about text that is no plan.
var ErrSyntax = errors.New("no plan")

// Bounds of what Parse takes.
const (
	mostBytes = 1 << 30
	mostWords = 1 << 16 // of a line
)

// ParseError tells where in a text an error is. It wraps ErrSyntax.
type ParseError struct {
	Line, Col int // both from 1; Col counts bytes
	Problem   string
}

// Error returns "no plan: line 3, column 7: …".
func (e *ParseError) Error() string {
	return fmt.Sprintf("%v: line %d, column %d: %s", ErrSyntax, e.Line, e.Col, e.Problem)
}

// Unwrap returns ErrSyntax.
func (e *ParseError) Unwrap() error { return ErrSyntax }

// Parse reads the text form. Work and memory are linear in the length of the text. The error is a *ParseError.
func Parse(s string) (p *Plan, err error) {
	r := reader{rest: s, p: &Plan{}}
	defer func() {
		if x := recover(); x != nil {
			e, ok := x.(*ParseError)
			if !ok {
				panic(x)
			}
			p, err = nil, e
		}
	}()
	if len(s) > mostBytes {
		r.fail("%d bytes, of at most %d", len(s), mostBytes)
	}
	r.header()
	for r.next() {
		r.statement()
	}
	return r.p, nil
}

// reader reads lines of words.
type reader struct {
	p    *Plan
	rest string
	line string // what is left of the line
	no   int
	full int // bytes of the line

	grouped bool // there was a group in the graph
}

// fail ends Parse with an error about the place that is read.
func (r *reader) fail(format string, args ...any) {
	panic(&ParseError{Line: max(r.no, 1), Col: r.full - len(r.line) + 1, Problem: fmt.Sprintf(format, args...)})
}

// next goes to the next line that says something, and reports whether there is one.
func (r *reader) next() bool {
	for r.rest != "" {
		r.line, r.rest, _ = strings.Cut(r.rest, "\n")
		r.no++
		r.line = strings.TrimSuffix(r.line, "\r")
		r.full = len(r.line)
		if r.blank(); r.line != "" {
			return true
		}
	}
	return false
}

func (r *reader) blank() { r.line = strings.TrimLeft(r.line, " \t") }

func (r *reader) header() {
	if !r.next() || r.word() != "carve" || r.word() != "plan" {
		r.fail("expected carve plan %d", Version)
	}
	if v := r.integer(); v != Version {
		r.fail("version %d, of which this program knows %d", v, Version)
	}
	r.over()
}

// word reads letters.
func (r *reader) word() string {
	r.blank()
	n := 0
	for n < len(r.line) && r.line[n] >= 'a' && r.line[n] <= 'z' {
		n++
	}
	w := r.line[:n]
	r.line = r.line[n:]
	return w
}

// is takes a word where it comes next.
func (r *reader) is(word string) bool {
	before := r.line
	if r.word() == word {
		return true
	}
	r.line = before
	return false
}

func (r *reader) keyword(word string) {
	if !r.is(word) {
		r.blank()
		r.fail("expected %s", word)
	}
}

// quoted reads a quoted string.
func (r *reader) quoted() string {
	r.blank()
	q, err := strconv.QuotedPrefix(r.line)
	if err != nil || q[0] != '"' {
		r.fail("expected a quoted name")
	}
	s, err := strconv.Unquote(q)
	if err != nil {
		r.fail("expected a quoted name")
	}
	r.line = r.line[len(q):]
	return s
}

// list reads quoted strings for as long as they come.
func (r *reader) list() []string {
	var out []string
	for r.blank(); strings.HasPrefix(r.line, `"`); r.blank() {
		if len(out) == mostWords {
			r.fail("more than %d names", mostWords)
		}
		out = append(out, r.quoted())
	}
	return out
}

// token reads up to the next blank.
func (r *reader) token() string {
	r.blank()
	n := strings.IndexAny(r.line, " \t")
	if n < 0 {
		n = len(r.line)
	}
	return r.line[:n]
}

func (r *reader) integer() int64 {
	t := r.token()
	n, err := strconv.ParseInt(t, 10, 64)
	if err != nil || n < 0 {
		r.fail("expected a number from 0")
	}
	r.line = r.line[len(t):]
	return n
}

func (r *reader) time() float64 {
	t := r.token()
	x, err := strconv.ParseFloat(t, 64)
	if err != nil || !(x >= 0) || math.IsInf(x, 1) {
		r.fail("expected nanoseconds")
	}
	r.line = r.line[len(t):]
	return x
}

func (r *reader) over() {
	if r.blank(); r.line != "" {
		r.fail("expected the end of the line")
	}
}

func (r *reader) statement() {
	at := r.line
	switch word := r.word(); word {
	case "fact":
		r.p.Facts = append(r.p.Facts, Fact{r.quoted(), r.quoted()})
	case "ban":
		r.p.Bans = append(r.p.Bans, Ban{r.quoted(), r.quoted(), r.quoted(), r.quoted(), r.quoted(), r.quoted()})
	case "graph":
		g := Graph{Name: r.quoted()}
		if r.blank(); r.line != "" {
			g.Nanoseconds = r.time()
			r.keyword("of")
			g.Bound = r.time()
		}
		r.p.Graphs, r.grouped = append(r.p.Graphs, g), false
	case "arena":
		a := Arena{Device: r.quoted(), Bytes: r.integer()}
		r.keyword("of")
		a.Bound = r.integer()
		r.keyword("by")
		a.Method = r.quoted()
		r.p.Arenas = append(r.p.Arenas, a)
	case "buffer":
		if len(r.p.Arenas) == 0 {
			r.line = at
			r.fail("a buffer outside of an arena")
		}
		r.buffer(&r.p.Arenas[len(r.p.Arenas)-1])
	case "group", "node", "fused", "convert", "within", "host":
		if len(r.p.Graphs) == 0 || len(r.p.Arenas) > 0 {
			r.line = at
			r.fail("a %s outside of a graph", word)
		}
		g := &r.p.Graphs[len(r.p.Graphs)-1]
		r.grouped = r.grouped || word == "group"
		if !r.grouped && (word == "node" || word == "fused" || word == "within") {
			r.line = at
			r.fail("a %s outside of a group", word)
		}
		g.Steps = append(g.Steps, r.step(word))
	default:
		r.line = at
		r.fail("expected fact, ban, graph, group, node, fused, convert, within, host, arena or buffer")
	}
	r.over()
}

func (r *reader) step(word string) Step {
	var s Step
	switch word {
	case "group":
		return Step{Kind: Group, Backend: r.quoted(), Name: r.quoted()}
	case "host":
		return Step{Kind: Host, Name: r.quoted(), Op: r.quoted()}
	case "convert", "within":
		return Step{Kind: Convert, Within: word == "within", Name: r.quoted(), In: []string{r.quoted()}, Out: []string{r.quoted()}}
	case "fused":
		s = Step{Kind: Fused, Name: r.quoted(), Op: r.quoted()}
		r.keyword("of")
		if s.Of = r.list(); len(s.Of) == 0 || !slices.IsSorted(s.Of) {
			r.fail("expected the sorted names of nodes")
		}
	default:
		s = Step{Kind: Node, Name: r.quoted(), Op: r.quoted()}
	}
	if r.is("as") {
		s.Form = r.quoted()
	}
	if r.is("in") {
		s.In = r.list()
	}
	if r.is("out") {
		s.Out = r.list()
	}
	if r.is("cost") {
		s.Cost = r.time()
	}
	return s
}

func (r *reader) buffer(a *Arena) {
	b := Buffer{Name: r.quoted(), Offset: r.integer(), Bytes: r.integer()}
	r.keyword("from")
	b.First = r.integer()
	r.keyword("to")
	b.End = r.integer()
	if b.Offset > a.Bytes || b.Bytes > a.Bytes-b.Offset || b.First > b.End {
		r.fail("a buffer outside of its arena of %d bytes", a.Bytes)
	}
	a.Buffers = append(a.Buffers, b)
}
