package gpukernel

import (
	"fmt"
	"strings"
)

// mapKernel renders a kernel without reductions: every item computes a few neighbouring elements of all outputs, which have
// equally many.
func (r *renderer) mapKernel(name string, outputs []output) Launch {
	total := elements(r.p.nodes[outputs[0].value].shape)
	wide := 4
	for _, o := range outputs {
		shape := r.p.nodes[o.value].shape
		if elements(shape) != total {
			panic(cut{value: o.value, why: "results of different sizes"})
		}
		if e := extents(shape); len(e) == 0 || e[len(e)-1]%4 != 0 {
			wide = 1
		}
	}
	e := newEmitter(name, r.p, r.materialised, wide)
	chunks := total / wide
	first := variable(e.loop("first", total, wide, scopeChunk))
	at := first
	if wide > 1 {
		e.element = e.loop("e", wide, 1, scopeElement)
		at = at.plus(variable(e.element), 1)
	}
	var after strings.Builder
	for _, o := range outputs {
		shape := r.p.nodes[o.value].shape
		v := e.value(o.value, e.unflatten(at, shape), "")
		e.writeElement(&after, o, v, at)
	}
	row, chunk, element := e.endPass()
	const threads = 256
	body := fmt.Sprintf("{\n\tconst int item = GROUP(0) * THREADS + ITEM;\n\tif (item < %d) {\n\tconst i32 first = item * %d;\n%s%s%s\t}\n}\n",
		chunks, wide, row+chunk, eachElement(wide, element), after.String())
	k := &Kernel{Name: name, Params: e.params, Support: e.support, Body: body, Threads: threads}
	return Launch{k, [3]int{ceilDiv(chunks, threads), 1, 1}, e.args}
}

// eachElement wraps statements that hold for an element of a chunk into a loop.
func eachElement(wide int, text string) string {
	if text == "" {
		return ""
	}
	if wide == 1 {
		return text
	}
	return fmt.Sprintf("\tUNROLL for (int e = 0; e < %d; e++) {\n%s\t}\n", wide, text)
}

// writeElement emits what keeps an element of an output, and appends to after what writes a chunk of them.
func (e *emitter) writeElement(after *strings.Builder, o output, v string, at index) {
	t := e.p.nodes[o.value].typ
	p := e.param(o.buffer, t, true)
	if e.element < 0 {
		fmt.Fprintf(after, "%s\n", store(t, p, e.write(at), v))
		return
	}
	name := e.name("o")
	e.emit(scopeChunk, fmt.Sprintf("%s %s[%d];", t.compute(), name, e.wide))
	e.emit(scopeElement, fmt.Sprintf("%s[e] = %s;", name, v))
	base := at.plus(variable(e.element), -1)
	if t.isFloat() {
		fmt.Fprintf(after, "STORE4_%s(%s + %s, %s)\n", t, p, e.write(base), name)
		return
	}
	fmt.Fprintf(after, "UNROLL for (int e = 0; e < %d; e++) %s\n", e.wide, store(t, p, e.write(at), name+"[e]"))
}
