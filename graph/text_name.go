package graph

import (
	"hash/maphash"
	"strconv"
	"strings"
)

// valueNames gives every value of a graph the name by which the text speaks of it. A value with a name is %name, and
// %name'2, %name'3 … where values before it have the same name; one without is $0, $1 … in the order of definition.
type valueNames struct {
	g   *Graph
	ord []int32 // by value id: position among its namesakes, or among the nameless; -1 where undefined
}

// nameValues numbers the values in the order in which the text defines them.
func nameValues(g *Graph) valueNames {
	t := valueNames{g: g, ord: make([]int32, g.ValueIDs())}
	for i := range t.ord {
		t.ord[i] = -1
	}
	first := newNameSet(g.ValueIDs())
	namesakes := map[string]int32{}
	nameless := int32(0)
	for v := range g.definitions() {
		if v.ID < 0 || v.ID >= len(t.ord) {
			continue
		}
		switch {
		case v.Name == "":
			t.ord[v.ID] = nameless
			nameless++
		case first.add(v):
			t.ord[v.ID] = 0
		default:
			namesakes[v.Name]++
			t.ord[v.ID] = namesakes[v.Name]
		}
	}
	return t
}

// definitions iterates over all values in the order of the text: inputs, captures, constants, results.
func (g *Graph) definitions() func(yield func(*Value) bool) {
	return func(yield func(*Value) bool) {
		for _, list := range [][]*Value{g.Inputs, g.Captures, g.consts} {
			for _, v := range list {
				if v != nil && !yield(v) {
					return
				}
			}
		}
		for n := range g.Nodes() {
			for _, v := range n.Outputs {
				if v != nil && !yield(v) {
					return
				}
			}
		}
	}
}

func (t *valueNames) appendRef(b []byte, v *Value) []byte {
	if v.graph != t.g || v.ID < 0 || v.ID >= len(t.ord) || t.ord[v.ID] < 0 {
		b = append(b, "!undefined "...) // of a graph that Verify rejects
		return appendQuoted(b, v.String())
	}
	ord := int64(t.ord[v.ID])
	if v.Name == "" {
		return strconv.AppendInt(append(b, '$'), ord, 10)
	}
	b = appendWord(append(b, '%'), v.Name)
	if ord > 0 {
		b = strconv.AppendInt(append(b, '\''), ord+1, 10)
	}
	return b
}

// nameSet is a set of values by name, a hash table of pointers: a map of a million strings would weigh five times more.
type nameSet struct {
	seed  maphash.Seed
	table []*Value // a power of two, at most half full
}

func newNameSet(n int) *nameSet {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return &nameSet{seed: maphash.MakeSeed(), table: make([]*Value, size)}
}

// add reports whether no value of that name was there.
func (s *nameSet) add(v *Value) bool {
	mask := uint64(len(s.table) - 1)
	for i := maphash.String(s.seed, v.Name) & mask; ; i = (i + 1) & mask {
		switch w := s.table[i]; {
		case w == nil:
			s.table[i] = v
			return true
		case w.Name == v.Name:
			return false
		}
	}
}

// isWordByte reports whether a word of the text may hold c outside of quotes.
func isWordByte(c byte) bool { return isOpByte(c) || c == '/' }

// isOpByte is isWordByte for names and domains of operators, which a slash and a version may follow.
func isOpByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
}

// keywords begin statements and clauses; an operator of such a name is quoted.
var keywords = map[string]bool{
	"graph": true, "opset": true, "meta": true, "doc": true, "input": true, "capture": true, "const": true, "dims": true,
	"output": true, "from": true, "on": true, "as": true, "ports": true, "none": true, "_": true,
}

// appendWord appends s as it is where it is a word of the text, otherwise quoted.
func appendWord(b []byte, s string) []byte {
	for i := range len(s) {
		if !isWordByte(s[i]) {
			return appendQuoted(b, s)
		}
	}
	if s == "" {
		return appendQuoted(b, s)
	}
	return append(b, s...)
}

// appendOpWord is appendWord for names and domains of operators.
func appendOpWord(b []byte, s string) []byte {
	if s == "" || keywords[s] || strings.IndexByte(s, '/') >= 0 {
		return appendQuoted(b, s)
	}
	return appendWord(b, s)
}

func appendQuoted(b []byte, s string) []byte { return strconv.AppendQuote(b, s) }
