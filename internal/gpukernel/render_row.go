package gpukernel

import (
	"fmt"
	"slices"
	"strings"
)

// rowSpace is what the reductions of a kernel have in common: the dims that they keep, which number the rows, and those that
// they reduce, which number the columns.
type rowSpace struct {
	all           []int // dims that are not 1
	reduced       []bool
	rows, columns int
}

// spaceOf returns the space of a reduction.
func (r *renderer) spaceOf(v Value) rowSpace {
	n := &r.p.nodes[v]
	s := rowSpace{rows: 1, columns: 1}
	for i, d := range r.p.nodes[n.in[0]].shape {
		if d == 1 {
			continue
		}
		reduced := slices.Contains(n.axes, i)
		s.all, s.reduced = append(s.all, d), append(s.reduced, reduced)
		if reduced {
			s.columns *= d
		} else {
			s.rows *= d
		}
	}
	return s
}

func (s rowSpace) part(reduced bool) []int {
	var list []int
	for i, d := range s.all {
		if s.reduced[i] == reduced {
			list = append(list, d)
		}
	}
	return list
}

// lanes returns how many items share a row.
func (s rowSpace) lanes(threads int) int {
	inner := s.reduced[len(s.reduced)-1]
	switch {
	case !inner && (s.rows >= 1024 || s.columns <= 32):
		return 1 // neighbouring items read neighbouring rows, which lie together
	case s.columns <= 8 && s.rows >= 64:
		return 1
	case s.columns <= 1024 && s.rows >= 4:
		return 32
	}
	return threads
}

// rowKernel renders a kernel with reductions: a row for one item, 32, or a whole group. It passes over the row once for each
// depth of reductions, and once more for outputs as long as the row; what it has read stays in registers where a row is short.
func (r *renderer) rowKernel(name string, outputs []output, levels [][]Value) Launch {
	const threads, registers = 256, 32
	s := r.spaceOf(levels[0][0])
	lanes := s.lanes(threads)
	wide := 1
	if last := len(s.all) - 1; lanes > 1 && s.reduced[last] && s.all[last]%4 == 0 {
		wide = 4
	}
	e := newEmitter(name, r.p, r.materialised, wide)
	chunks := s.columns / wide
	if each := ceilDiv(chunks, lanes); each*wide <= registers {
		e.chunks, e.cacheBudget = each, registers
	}
	place := e.rowPlace(s)
	w := &rowWriter{e: e, s: s, lanes: lanes, chunks: chunks}
	for depth := range levels {
		w.reduce(r, levels, depth, place)
	}
	w.write(r, outputs, levels[len(levels)-1][0], place)

	perGroup := threads / lanes
	body := fmt.Sprintf(`{
	ARENA(arena);
	const int lane = ITEM %% LANES;
	const i32 wanted = GROUP(0) * %d + ITEM / LANES;
	const int live = wanted < %d;
	const i32 row = live ? wanted : %d;
%s%s}
`, perGroup, s.rows, s.rows-1, e.cacheText, w.body.String())
	// Without a number of groups, the assembler spills some registers rather than take more than 32.
	k := &Kernel{Name: name, Params: e.params, Support: e.support, Defines: []Define{def("LANES", lanes)}, Files: []string{"combine.h"}, Body: body,
		Threads: threads, Blocks: 1, Arena: threads * 8, Waits: lanes > 1}
	return Launch{k, [3]int{ceilDiv(s.rows, perGroup), 1, 1}, e.args}
}

// rowPlace declares the atoms of a row's dims and of its columns', and returns the index in the whole space.
func (e *emitter) rowPlace(s rowSpace) []index {
	row := variable(e.loop("row", s.rows, 1, scopeRow))
	e.row = row
	column := variable(e.loop("column", s.columns, e.wide, scopeChunk))
	if e.wide > 1 {
		e.element = e.loop("e", e.wide, 1, scopeElement)
		column = column.plus(variable(e.element), 1)
	}
	e.columns = []index{column}
	rows := e.unflatten(row, s.part(false))
	for i, x := range rows {
		if len(rows) > 1 && !e.isVariable(x) { // each dim has an atom of its own
			rows[i] = e.newAtom(x, e.write(x), s.part(false)[i], 1)
		}
		e.rowAtoms = append(e.rowAtoms, e.atomOf(rows[i]))
	}
	return rows
}

func (e *emitter) isVariable(x index) bool {
	for i := range e.atoms {
		if x.isAtom(i) {
			return true
		}
	}
	return false
}

func (e *emitter) atomOf(x index) int {
	for i := range e.atoms {
		if x.isAtom(i) {
			return i
		}
	}
	return -1
}

// rowWriter puts the passes of a row kernel together.
type rowWriter struct {
	e      *emitter
	s      rowSpace
	lanes  int
	chunks int
	body   strings.Builder
}

// whole returns the index of the element of the current column: its dims of columns are computed in the pass.
func (w *rowWriter) whole(rows []index) []index {
	columns := w.e.unflatten(w.e.columns[0], w.s.part(true))
	var at []index
	for _, reduced := range w.s.reduced {
		if reduced {
			at, columns = append(at, columns[0]), columns[1:]
		} else {
			at, rows = append(at, rows[0]), rows[1:]
		}
	}
	return at
}

// spread puts the indices of a shape's dims that are not 1 to their places.
func spread(at []index, shape []int) []index {
	to := make([]index, len(shape))
	for i, d := range shape {
		if d != 1 {
			to[i], at = at[0], at[1:]
		} else {
			to[i] = number(0)
		}
	}
	return to
}

// reduce writes the pass that computes reductions of one depth.
func (w *rowWriter) reduce(r *renderer, levels [][]Value, depth int, rows []index) {
	e := w.e
	var before, after strings.Builder
	for _, v := range levels[depth] {
		n := &r.p.nodes[v]
		if s := r.spaceOf(v); !slices.Equal(s.all, w.s.all) || !slices.Equal(s.reduced, w.s.reduced) {
			panic(cut{value: levels[0][0], why: "reductions of different rows"})
		}
		acc, t := e.name("a"), n.typ.compute()
		fmt.Fprintf(&before, "%s %s = %s;\n", t, acc, n.reduce.identity(n.typ))
		x := e.value(n.in[0], spread(w.whole(rows), r.p.nodes[n.in[0]].shape), "")
		inner := scopeChunk
		if e.element >= 0 {
			inner = scopeElement
		}
		e.emit(inner, fmt.Sprintf("%s = %s(%s, %s);", acc, n.reduce.function(n.typ), acc, x))
		if w.lanes > 1 {
			fmt.Fprintf(&after, "COMBINE_%s(%s, %s)\n", t, acc, n.reduce.function(n.typ))
		}
		if t == "i32" && n.typ != I32 {
			fmt.Fprintf(&after, "%s = (%s)%s;\n", acc, n.typ.storage(), acc)
		}
		e.results[v] = acc
	}
	// Results count from the next pass on; within this one nobody may read them, which depths see to.
	row, chunk, element := e.endPass()
	w.body.WriteString(row + before.String() + w.loop(chunk, element, "") + after.String())
}

// loop wraps the statements of a pass: chunks of the row are dealt to its lanes.
func (w *rowWriter) loop(chunk, element, after string) string {
	inner := chunk + eachElement(w.e.wide, element) + after
	if w.e.chunks > 0 {
		return fmt.Sprintf("\tUNROLL for (int chunk = 0; chunk < %d; chunk++) {\n\tif (chunk * LANES + lane < %d) {\n\tconst i32 column = (chunk * LANES + lane) * %d;\n%s\t}\n\t}\n",
			w.e.chunks, w.chunks, w.e.wide, inner)
	}
	return fmt.Sprintf("\tfor (i32 at = lane; at < %d; at += LANES) {\n\tconst i32 column = at * %d;\n%s\t}\n", w.chunks, w.e.wide, inner)
}

// write writes the last pass, over outputs as long as the row, and those that have one element for it.
func (w *rowWriter) write(r *renderer, outputs []output, last Value, rows []index) {
	after, ends := w.results(r, outputs, last, rows)
	row, chunk, element := w.e.endPass()
	w.body.WriteString(row)
	if after != "" {
		w.body.WriteString("\tif (live) {\n" + w.loop(chunk, element, after) + "\t}\n")
	}
	if ends != "" {
		w.body.WriteString("\tif (lane == 0 && live) {\n" + ends + "\t}\n")
	}
}

// results emits the values of outputs, and returns what stores those of a chunk, and those of which a row has one.
func (w *rowWriter) results(r *renderer, outputs []output, last Value, rows []index) (each, once string) {
	e := w.e
	var after, ends strings.Builder
	for _, o := range outputs {
		shape := r.p.nodes[o.value].shape
		at, whole := w.placeOf(shape, last, rows)
		switch {
		case whole:
			v := e.value(o.value, at, "")
			e.writeElement(&after, o, v, e.flatten(at, shape))
		default:
			v := e.value(o.value, slices.Clone(at), "")
			if e.scopeOfText(v) != scopeRow {
				panic(cut{value: last, why: "a result that is not one of the row's"})
			}
			t := r.p.nodes[o.value].typ
			fmt.Fprintf(&ends, "%s\n", store(t, e.param(o.buffer, t, true), e.write(e.flatten(at, shape)), v))
		}
	}
	return after.String(), ends.String()
}

// placeOf returns the index of an output's element, for the row and, where whole, the column at hand. An output of another shape
// than the rows' has as many elements in the same order, which it can where columns follow each other in memory.
func (w *rowWriter) placeOf(shape []int, last Value, rows []index) (at []index, whole bool) {
	e := w.e
	switch total := elements(shape); {
	case slices.Equal(extents(shape), w.s.all):
		return spread(w.whole(rows), shape), true
	case slices.Equal(extents(shape), w.s.part(false)):
		return spread(rows, shape), false
	case total == w.s.rows:
		return e.unflatten(e.row, shape), false
	case total == w.s.rows*w.s.columns && !slices.Contains(w.s.reduced[slices.Index(w.s.reduced, true):], false):
		return e.unflatten(e.columns[0].plus(e.row, w.s.columns), shape), true
	}
	panic(cut{value: last, why: "results of another shape than the rows'"})
}

func (o ReduceOp) function(t Type) string {
	suffix := "f32"
	switch {
	case t == F64:
		suffix = "f64"
	case !t.isFloat():
		suffix = "integer"
	}
	return [...]string{"ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"}[o] + "_" + suffix
}

// identity returns what a reduction begins with.
func (o ReduceOp) identity(t Type) string {
	switch {
	case o == ReduceSum:
		return "0"
	case o == ReduceProd:
		return "1"
	case t.isFloat() && o == ReduceMax:
		return "NEGATIVE_INFINITY"
	case t.isFloat():
		return "-NEGATIVE_INFINITY"
	}
	low := map[Type][2]string{
		I8: {"-128", "127"}, U8: {"0", "255"}, Bool: {"0", "1"}, I16: {"-32768", "32767"}, U16: {"0", "65535"},
		I32: {"(-2147483647 - 1)", "2147483647"}, U32: {"0", "0xffffffffu"},
		I64: {"((i64)1 << 63)", "~((i64)1 << 63)"}, U64: {"0", "~(u64)0"},
	}[t]
	if o == ReduceMax {
		return low[0]
	}
	return low[1]
}
