package gpukernel

import (
	"fmt"
	"slices"
	"strings"
)

// interpreted returns the launch of a kernel that the renderer has written as a program for the interpreter.
func (r *renderer) interpreted(e *emitter, c *code, rows bool, total, columns, lanes int) Launch {
	if len(e.params) > interpreterBuffers {
		panic(tooLong{})
	}
	c.op("end", false)
	words, registers := c.encode()
	threads := interpreterThreadsFor(registers)
	if threads == 0 || threads < lanes {
		panic(tooLong{})
	}
	of, each := prebuilt().elements, threads*interpreterEach
	if rows {
		of, each = prebuilt().rows, threads/lanes
	}
	k := *of
	k.Threads, k.Arena, k.Params = threads, interpreterArena(registers, threads), slices.Clone(of.Params)
	l := Launch{Kernel: &k, Grid: [3]int{ceilDiv(total, each), 1, 1}}
	for i := range interpreterBuffers {
		from := i
		if i >= len(e.params) {
			from = 0 // no instruction names it
		}
		k.Params[i].Type, k.Params[i].Written = e.params[from].Type, e.params[from].Written && i < len(e.params)
		l.Args = append(l.Args, e.args[from])
	}
	l.Args = append(l.Args, value(threads), value(total), value(columns), value(lanes), Arg{Data: words})
	return l
}

func newTranslator(e *emitter, fixed ...string) *translator {
	t := &translator{code: &code{fixed: len(fixed)}, e: e, variables: map[string]operand{}, constants: map[string]int{}, tables: map[string]int{}}
	for _, name := range fixed {
		t.variables[name] = operand{t: "i32", reg: t.register(false)}
	}
	return t
}

// interpretMap is mapKernel for the interpreter: its items take single elements, which lie apart.
func (r *renderer) interpretMap(name string, outputs []output) Launch {
	total := elements(r.p.nodes[outputs[0].value].shape)
	e := newEmitter(name, r.p, r.materialised, 1)
	e.plain, e.limit = true, r.limit
	at := variable(e.loop("first", total, 1, scopeChunk))
	var after strings.Builder
	for _, o := range outputs {
		shape := r.p.nodes[o.value].shape
		if elements(shape) != total {
			panic(cut{value: o.value, why: "results of different sizes"})
		}
		v := e.value(o.value, e.unflatten(at, shape), "")
		e.writeElement(&after, o, v, at)
	}
	row, chunk, _ := e.endPass()
	t := newTranslator(e, "first")
	t.statements(row + chunk + after.String())
	return r.interpreted(e, t.code, false, total, 1, 1)
}

// interpretRows is rowKernel for the interpreter.
func (r *renderer) interpretRows(name string, outputs []output, levels [][]Value) Launch {
	s := r.spaceOf(levels[0][0])
	lanes := 1
	for lanes < 32 && 4*lanes < s.columns || lanes < interpreterThreads && s.rows < 1024 && 8*lanes < s.columns {
		lanes *= 2
	}
	e := newEmitter(name, r.p, r.materialised, 1)
	e.plain, e.limit = true, r.limit
	place := e.rowPlace(s)
	t := newTranslator(e, "row", "column")
	w := &rowWriter{e: e, s: s}
	for depth := range levels {
		t.reduce(r, w, levels, depth, place, lanes)
	}
	after, ends := w.results(r, outputs, levels[len(levels)-1][0], place)
	row, chunk, _ := e.endPass()
	t.statements(row)
	if after != "" {
		t.loop(chunk + after)
	} else {
		t.statements(chunk)
	}
	t.statements(ends)
	return r.interpreted(e, t.code, true, s.rows, s.columns, lanes)
}

func (t *translator) loop(text string) {
	t.with(instruction{op: "loop", d: none, a: none, b: none, c: none}, 0)
	t.statements(text)
	t.with(instruction{op: "next", d: none, a: none, b: none, c: none}, 0)
}

// reduce writes the pass that computes reductions of one depth.
func (t *translator) reduce(r *renderer, w *rowWriter, levels [][]Value, depth int, rows []index, lanes int) {
	e := t.e
	type accumulator struct {
		name, function string
		v              Value
		typ            Type
	}
	var list []accumulator
	for _, v := range levels[depth] {
		n := &r.p.nodes[v]
		if s := r.spaceOf(v); !slices.Equal(s.all, w.s.all) || !slices.Equal(s.reduced, w.s.reduced) {
			panic(cut{value: levels[0][0], why: "reductions of different rows"})
		}
		a := accumulator{e.name("a"), n.reduce.function(n.typ), v, n.typ}
		x := e.value(n.in[0], spread(w.whole(rows), r.p.nodes[n.in[0]].shape), "")
		e.emit(scopeChunk, fmt.Sprintf("%s = %s(%s, %s);", a.name, a.function, a.name, x))
		e.results[v] = a.name
		list = append(list, a)
	}
	row, chunk, _ := e.endPass()
	t.statements(row)
	for _, a := range list {
		t.accumulator(a.name, computeTypes[a.typ.compute()], r.p.nodes[a.v].reduce.identity(a.typ))
	}
	t.loop(chunk)
	for _, a := range list {
		v := t.variables[a.name]
		t.combine(v, a.function, lanes)
		if a.typ.compute() == "i32" && a.typ != I32 {
			t.variables[a.name] = operand{t: "i32", reg: t.op(a.typ.storage()+"_of_i32", false, v.reg)}
		}
	}
}
