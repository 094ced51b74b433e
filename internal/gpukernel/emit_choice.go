package gpukernel

import (
	"fmt"
	"slices"
	"strings"
)

// Elements that are chosen by numbers: those of other values, and those of tables.

func (e *emitter) gather(n *node, at []index, guard string) (string, scope) {
	indices := &e.p.nodes[n.in[1]]
	in := e.p.nodes[n.in[0]].shape
	rank := len(indices.shape)
	chosen := e.value(n.in[1], slices.Clone(at[n.axis:n.axis+rank]), guard)
	s := max(e.scopeOfText(chosen), e.scopeOfText(guard))
	wrapped := e.name("n")
	extent := in[n.axis]
	e.emit(s, fmt.Sprintf("const i32 %s = (i32)(%s < 0 ? %s + %d : %s);", wrapped, chosen, chosen, extent, chosen))
	g := e.condition(guard, fmt.Sprintf("%s >= 0 && %s < %d", wrapped, wrapped, extent), s)
	e.atoms = append(e.atoms, atom{wrapped, extent, 1, s})
	to := slices.Concat(at[:n.axis], []index{variable(len(e.atoms) - 1)}, at[n.axis+rank:])
	r := e.value(n.in[0], to, g)
	return r, max(e.scopeOfText(r), s)
}

// fromTable reads a table, which is written in front of the kernel.
func (e *emitter) fromTable(v Value, n *node, at index, guard string) (string, scope) {
	name := fmt.Sprintf("%s_table%d", e.kernel, v)
	if !e.tables[v] {
		e.tables[v] = true
		e.support += fmt.Sprintf("TABLE(%s, %s, %d) = {%s};\n", n.typ.compute(), name, len(n.table), strings.Join(n.table, ", "))
	}
	text := fmt.Sprintf("%s[%s]", name, e.write(at))
	if lo, hi := e.bounds(at); guard != "" && (lo < 0 || hi >= len(n.table)) {
		text = fmt.Sprintf("%s ? %s : 0", guard, text)
	}
	return e.declareScoped(max(e.scopeOf(at), e.scopeOfText(guard)), n.typ, text)
}

// pick reads the element that indices choose.
func (e *emitter) pick(n *node, at []index, guard string) (string, scope) {
	in := e.p.nodes[n.in[0]].shape
	to := make([]index, len(in))
	var tests []string
	s, next := e.scopeOfText(guard), 1
	for i, a := range n.along {
		if a.Index == NoValue {
			to[i] = at[a.Axis]
			continue
		}
		shape := e.p.nodes[a.Index].shape
		chosen := e.value(n.in[next], slices.Clone(at[len(at)-len(shape):]), guard)
		next++
		its := e.scopeOfText(chosen)
		s = max(s, its)
		name, text := e.name("n"), chosen
		if !a.Within {
			text = fmt.Sprintf("%s < 0 ? %s + %d : %s", chosen, chosen, in[i], chosen)
			if t := e.p.nodes[a.Index].typ; t == U64 || t == U32 {
				text = chosen
			}
			tests = append(tests, fmt.Sprintf("%s >= 0 && %s < %d", name, name, in[i]))
		}
		e.emit(its, fmt.Sprintf("const %s %s = %s;", indexType(e.p.nodes[a.Index].typ, a.Within), name, text))
		if !a.Within { // what is compared is wide
			narrow := e.name("n")
			e.emit(its, fmt.Sprintf("const i32 %s = (i32)%s;", narrow, name))
			name = narrow
		}
		e.atoms = append(e.atoms, atom{name, in[i], 1, its})
		to[i] = variable(len(e.atoms) - 1)
	}
	if len(tests) > 0 {
		guard = e.condition(guard, strings.Join(tests, " && "), s)
	}
	r := e.value(n.in[0], to, guard)
	return r, max(e.scopeOfText(r), s)
}

// indexType is the type in which an index is compared with an extent.
func indexType(t Type, within bool) string {
	switch {
	case within || t != I64 && t != U64 && t != U32:
		return "i32"
	case t == I64:
		return "i64"
	}
	return "u64"
}
