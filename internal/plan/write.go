package plan

import (
	"io"
	"strconv"
)

// Write writes the text form.
func (p *Plan) Write(w io.Writer) error {
	t := text{w: w}
	t.line("carve plan").number(Version)
	for _, f := range p.Facts {
		t.line("fact").quoted(f.Key, f.Value)
	}
	for _, b := range p.Bans {
		t.line("ban").quoted(b.Node, b.Backend, b.Pass, b.Code, b.Property, b.Detail)
	}
	for i := range p.Graphs {
		t.graph(&p.Graphs[i])
	}
	for i := range p.Arenas {
		t.arena(&p.Arenas[i])
	}
	t.end()
	return t.err
}

// text writes lines. The first error is kept.
type text struct {
	w   io.Writer
	buf []byte
	err error
}

func (t *text) line(word string) *text {
	if len(t.buf) > 0 {
		t.buf = append(t.buf, '\n')
	}
	if len(t.buf) >= 1<<16 {
		t.flush()
	}
	t.buf = append(t.buf, word...)
	return t
}

func (t *text) flush() {
	if t.err == nil {
		_, t.err = t.w.Write(t.buf)
	}
	t.buf = t.buf[:0]
}

func (t *text) end() {
	t.buf = append(t.buf, '\n')
	t.flush()
}

func (t *text) word(s string) *text {
	t.buf = append(append(t.buf, ' '), s...)
	return t
}

func (t *text) quoted(list ...string) *text {
	for _, s := range list {
		t.buf = strconv.AppendQuote(append(t.buf, ' '), s)
	}
	return t
}

func (t *text) number(list ...int64) *text {
	for _, n := range list {
		t.buf = strconv.AppendInt(append(t.buf, ' '), n, 10)
	}
	return t
}

// time writes nanoseconds.
func (t *text) time(list ...float64) *text {
	for _, x := range list {
		t.buf = strconv.AppendFloat(append(t.buf, ' '), x, 'f', -1, 64)
	}
	return t
}

func (t *text) graph(g *Graph) {
	t.line("graph").quoted(g.Name)
	if g.Nanoseconds != 0 || g.Bound != 0 {
		t.time(g.Nanoseconds).word("of").time(g.Bound)
	}
	for i := range g.Steps {
		t.step(&g.Steps[i])
	}
}

func (t *text) step(s *Step) {
	switch s.Kind {
	case Group:
		t.line("  group").quoted(s.Backend, s.Name)
		return
	case Host:
		t.line("  host").quoted(s.Name, s.Op)
		return
	case Convert:
		word := "  convert"
		if s.Within {
			word = "    within"
		}
		t.line(word).quoted(s.Name, s.In[0], s.Out[0])
		return
	case Node:
		t.line("    node").quoted(s.Name, s.Op)
	case Fused:
		t.line("    fused").quoted(s.Name, s.Op).word("of").quoted(s.Of...)
	}
	if s.Form != "" {
		t.word("as").quoted(s.Form)
	}
	if len(s.In) > 0 {
		t.word("in").quoted(s.In...)
	}
	if len(s.Out) > 0 {
		t.word("out").quoted(s.Out...)
	}
	if s.Cost != 0 {
		t.word("cost").time(s.Cost)
	}
}

func (t *text) arena(a *Arena) {
	t.line("arena").quoted(a.Device).number(a.Bytes).word("of").number(a.Bound).word("by").quoted(a.Method)
	for _, b := range a.Buffers {
		t.line("  buffer").quoted(b.Name).number(b.Offset, b.Bytes).word("from").number(b.First).word("to").number(b.End)
	}
}
