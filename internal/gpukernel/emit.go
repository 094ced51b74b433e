package gpukernel

import (
	"fmt"
	"slices"
	"strings"
)

// statementsMax bounds the text of a kernel: what would be longer is cut.
const statementsMax = 1500

// cut says that a value has to be in memory before a kernel that wants it can be written.
type cut struct {
	value Value
	why   string
	long  bool // the interpreter has no room for so much
}

// cached is a chunk of a row that passes keep in registers.
type cached struct {
	name string
	each bool // an element for each place in the chunk, or one for all
}

// emitter writes the body of a kernel. Text is gathered by scope, and put together at the end of a pass.
type emitter struct {
	p            *Program
	materialised map[Value]string // the values that lie in buffers
	atoms        []atom
	named        map[string]int    // atoms by their text
	declared     map[string]bool   // those among them whose variables the text at hand has
	memo         map[string]string // what is computed already, by value, index and guard
	memoScope    map[string]scope
	divisions    []division
	text         [3]strings.Builder
	kernel       string         // its name
	tables       map[Value]bool // those that are written
	support      string         // what stands in front of the kernel
	serial       int
	statements   int
	limit        int   // of statements
	done         Value // of two operands or more, the one that was computed last
	plain        bool  // for the interpreter: elements are read one by one
	element      int   // the atom of the element within a chunk, -1 where chunks are single elements
	wide         int   // elements of a chunk
	params       []Param
	args         []Arg
	// Of kernels with reductions:
	rowAtoms    []int // of the dims that are kept, and of those that are reduced
	row         index
	columns     []index
	results     map[Value]string // variables of reductions that are done
	cache       map[string]cached
	cacheBudget int    // registers that may still be used for it
	cacheText   string // declarations
	chunks      int    // of a row, for an item; 0 where it is not known to be few
}

func newEmitter(kernel string, p *Program, materialised map[Value]string, wide int) *emitter {
	return &emitter{p: p, kernel: kernel, tables: map[Value]bool{}, materialised: materialised, named: map[string]int{}, declared: map[string]bool{}, memo: map[string]string{}, memoScope: map[string]scope{},
		element: -1, wide: wide, limit: statementsMax, done: NoValue, results: map[Value]string{}, cache: map[string]cached{}}
}

func (e *emitter) name(prefix string) string {
	e.serial++
	return fmt.Sprintf("%s%d", prefix, e.serial)
}

func (e *emitter) emit(s scope, line string) {
	e.statements++
	e.text[s].WriteString(line)
	e.text[s].WriteString("\n")
}

func (e *emitter) loop(name string, size, multiple int, s scope) int {
	e.atoms = append(e.atoms, atom{name, size, multiple, s})
	return len(e.atoms) - 1
}

// endPass forgets what is known within a chunk, and returns the texts of the scopes.
func (e *emitter) endPass() (row, chunk, element string) {
	for k, s := range e.memoScope {
		if s != scopeRow {
			delete(e.memo, k)
			delete(e.memoScope, k)
		}
	}
	for k := range e.declared {
		if e.atoms[e.named[k]].scope != scopeRow {
			delete(e.declared, k)
		}
	}
	row, chunk, element = e.text[0].String(), e.text[1].String(), e.text[2].String()
	for i := range e.text {
		e.text[i].Reset()
	}
	return row, chunk, element
}

// param returns the name of the parameter for a buffer.
func (e *emitter) param(buf string, t Type, written bool) string {
	for i, a := range e.args {
		if a.Buffer == buf {
			e.params[i].Written = e.params[i].Written || written
			return e.params[i].Name
		}
	}
	name := fmt.Sprintf("p%d", len(e.params))
	e.params = append(e.params, Param{Name: name, Type: t, Written: written})
	e.args = append(e.args, buffer(buf))
	return name
}

// value returns an expression for an element of v, which holds where guard does; guard "" always holds.
func (e *emitter) value(v Value, at []index, guard string) string {
	n := &e.p.nodes[v]
	if n.kind == kindConstant {
		return n.text
	}
	if r, ok := e.results[v]; ok {
		e.wantRow(v, at)
		return r
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%d@", v)
	for i, x := range at {
		if n.shape[i] == 1 {
			at[i] = number(0)
			continue
		}
		key.WriteString(x.key())
	}
	if r, ok := e.memo[key.String()]; ok {
		return r
	}
	guarded := key.String() + guard
	if r, ok := e.memo[guarded]; ok {
		return r
	}
	if _, there := e.materialised[v]; e.statements > e.limit && !there && n.kind != kindInput {
		if e.plain && e.done != NoValue {
			v = e.done
		}
		panic(cut{value: v, why: "the kernel grows too long"})
	}
	r, s := e.compute(v, n, at, guard)
	e.memo[guarded] = r
	e.memoScope[guarded] = s
	if n.kind == kindScalar && len(n.in) > 1 {
		e.done = v
	}
	return r
}

func (e *emitter) compute(v Value, n *node, at []index, guard string) (string, scope) {
	if buf, ok := e.materialised[v]; ok {
		return e.load(buf, n, at, guard)
	}
	switch n.kind {
	case kindInput:
		return e.load(n.buffer, n, at, guard)
	case kindScalar:
		return e.scalar(n, at, guard)
	case kindReduce:
		panic(cut{value: v, why: "a reduction inside of another's row"})
	case kindConcat:
		return e.concat(n, at, guard)
	case kindPad:
		return e.pad(n, at, guard)
	case kindGather:
		return e.gather(n, at, guard)
	case kindIota:
		return e.declareScoped(e.scopeOf(at[0]), I32, e.write(at[0]))
	case kindTable:
		return e.fromTable(v, n, at[0], guard)
	case kindPick:
		return e.pick(n, at, guard)
	case kindConstant, kindReshape, kindTranspose, kindSlice, kindExpand:
	}
	r := e.value(n.in[0], e.moved(n, at), guard)
	return r, e.scopeOfText(r)
}

// moved returns the place in the operand of a movement without conditions.
func (e *emitter) moved(n *node, at []index) []index {
	in := e.p.nodes[n.in[0]].shape
	to := make([]index, len(in))
	switch n.kind {
	case kindReshape:
		return e.unflatten(e.flatten(at, n.shape), in)
	case kindTranspose:
		for i, a := range n.axes {
			to[a] = at[i]
		}
	case kindSlice:
		for i := range in {
			to[i] = number(n.starts[i]).plus(at[i], n.steps[i])
		}
	case kindExpand:
		copy(to, at[len(at)-len(in):])
	case kindInput, kindConstant, kindScalar, kindReduce, kindConcat, kindPad, kindGather, kindIota, kindTable, kindPick: // compute has them
	}
	return to
}

// declare emits a variable and returns it.
func (e *emitter) declare(s scope, t Type, expression string) string {
	name := e.name("v")
	if c := t.compute(); c == "i32" && t != I32 {
		expression = fmt.Sprintf("(i32)(%s)(%s)", t.storage(), expression)
	}
	e.emit(s, fmt.Sprintf("const %s %s = %s;", t.compute(), name, expression))
	e.remember(name, s)
	return name
}

func (e *emitter) remember(text string, s scope) {
	e.memo["="+text] = text
	e.memoScope["="+text] = s
}

// scopeOfText returns the scope of a result of value.
func (e *emitter) scopeOfText(text string) scope { return e.memoScope["="+text] }

func (e *emitter) scalar(n *node, at []index, guard string) (string, scope) {
	s := e.scopeOfText(guard)
	pairs := make([]string, 2*len(n.in))
	for k := range n.in {
		i := len(n.in) - 1 - k // $1 is part of $10
		if e.plain {
			i = k // a chain of sums needs few registers so
		}
		in := e.p.nodes[n.in[i]].shape
		to := slices.Clone(at[len(at)-len(in):])
		r := e.value(n.in[i], to, guard)
		s = max(s, e.scopeOfText(r))
		last := len(pairs) - 2*i
		pairs[last-2], pairs[last-1] = fmt.Sprintf("$%d", i), r
	}
	return e.declareScoped(s, n.typ, strings.NewReplacer(pairs...).Replace(n.text))
}

func (e *emitter) declareScoped(s scope, t Type, expression string) (string, scope) {
	return e.declare(s, t, expression), s
}

// load reads an element, four at once where they lie together.
func (e *emitter) load(buf string, n *node, at []index, guard string) (string, scope) {
	place := e.flatten(at, n.shape)
	p := e.param(buf, n.typ, false)
	s := max(e.scopeOf(place), e.scopeOfText(guard))
	if guard != "" {
		zero := "0"
		return e.declareScoped(s, n.typ, fmt.Sprintf("%s ? %s : %s", guard, e.element1(n.typ, p, e.write(place)), zero))
	}
	if s == scopeRow || e.plain {
		return e.declareScoped(s, n.typ, e.element1(n.typ, p, e.write(place)))
	}
	key := buf + place.key()
	if c, ok := e.cache[key]; ok {
		return e.fromCache(c)
	}
	base, each := place, false
	if e.element >= 0 && place.coefficient(e.element) == 1 && n.typ.isFloat() {
		base = place.plus(variable(e.element), -1)
		each = e.multiple(base)%e.wide == 0
	}
	elementwise := e.element >= 0 && place.coefficient(e.element) != 0
	if elementwise && !each || e.scopeOf(base) == scopeElement {
		return e.declareScoped(scopeElement, n.typ, e.element1(n.typ, p, e.write(place)))
	}
	size := 1
	if each {
		size = e.wide
	}
	name := e.name("r")
	target := name
	if e.chunks > 0 && n.typ.compute() == "f32" && e.cacheBudget >= e.chunks*size {
		e.cacheBudget -= e.chunks * size
		e.cacheText += fmt.Sprintf("f32 %s[%d][%d];\n", name, e.chunks, size)
		e.cache[key] = cached{name, each}
		target = name + "[chunk]"
	} else {
		e.emit(scopeChunk, fmt.Sprintf("%s %s[%d];", n.typ.compute(), name, size))
	}
	if each {
		e.emit(scopeChunk, fmt.Sprintf("LOAD4_%s(%s, %s + %s)", n.typ, target, p, e.write(base)))
		e.remember(target+"[e]", scopeElement)
		return target + "[e]", scopeElement
	}
	e.emit(scopeChunk, fmt.Sprintf("%s[0] = %s;", target, e.element1(n.typ, p, e.write(base))))
	e.remember(target+"[0]", scopeChunk)
	return target + "[0]", scopeChunk
}

func (e *emitter) fromCache(c cached) (string, scope) {
	text, s := c.name+"[chunk][0]", scopeChunk
	if c.each {
		text, s = c.name+"[chunk][e]", scopeElement
	}
	e.remember(text, s)
	return text, s
}

func (e *emitter) element1(t Type, p, place string) string {
	if t.isFloat() {
		return fmt.Sprintf("LOAD(%s, %s, %s)", t, p, place)
	}
	return fmt.Sprintf("(%s)%s[%s]", t.compute(), p, place)
}

// condition declares a guard: what holds where both do.
func (e *emitter) condition(guard, test string, s scope) string {
	if guard != "" {
		s = max(s, e.scopeOfText(guard))
		test = guard + " && " + test
	}
	name := e.name("g")
	e.emit(s, fmt.Sprintf("const int %s = %s;", name, test))
	e.remember(name, s)
	return name
}

func (e *emitter) concat(n *node, at []index, guard string) (string, scope) {
	x := at[n.axis]
	lo, hi := e.bounds(x)
	result, first := "", 0
	s := e.scopeOfText(guard)
	for _, v := range n.in {
		end := first + e.p.nodes[v].shape[n.axis]
		if hi >= first && lo < end {
			to := slices.Clone(at)
			to[n.axis] = x.plus(number(first), -1)
			if lo >= first && hi < end {
				r := e.value(v, to, guard)
				return r, e.scopeOfText(r)
			}
			g := e.condition(guard, fmt.Sprintf("%s >= %d && %s < %d", e.write(x), first, e.write(x), end), e.scopeOf(x))
			r := e.value(v, to, g)
			s = max(s, e.scopeOfText(r), e.scopeOfText(g))
			result += fmt.Sprintf("%s ? %s : ", g, r)
		}
		first = end
	}
	return e.declareScoped(s, n.typ, result+"0")
}

func (e *emitter) pad(n *node, at []index, guard string) (string, scope) {
	in := e.p.nodes[n.in[0]].shape
	to := make([]index, len(in))
	var tests []string
	s := scopeRow
	for i := range in {
		to[i] = at[i].plus(number(n.starts[i]), -1)
		lo, hi := e.bounds(to[i])
		if lo < 0 {
			tests = append(tests, e.write(to[i])+" >= 0")
		}
		if hi >= in[i] {
			tests = append(tests, fmt.Sprintf("%s < %d", e.write(to[i]), in[i]))
		}
		if lo < 0 || hi >= in[i] {
			s = max(s, e.scopeOf(to[i]))
		}
	}
	if len(tests) == 0 {
		r := e.value(n.in[0], to, guard)
		return r, e.scopeOfText(r)
	}
	g := e.condition(guard, strings.Join(tests, " && "), s)
	inside := e.value(n.in[0], to, g)
	with := e.value(n.in[1], nil, guard)
	s = max(e.scopeOfText(g), e.scopeOfText(inside), e.scopeOfText(with))
	return e.declareScoped(s, n.typ, fmt.Sprintf("%s ? %s : %s", g, inside, with))
}

// wantRow cuts at a reduction whose result is wanted for another row than the one that the kernel is at.
func (e *emitter) wantRow(v Value, at []index) {
	kept := 0
	for i, d := range e.p.nodes[v].shape {
		if d == 1 {
			continue
		}
		if kept >= len(e.rowAtoms) || !at[i].isAtom(e.rowAtoms[kept]) {
			panic(cut{value: v, why: "a reduction that is read at another row"})
		}
		kept++
	}
}

// store returns the statement that writes a value.
func store(t Type, p, place, v string) string {
	if t.isFloat() {
		return fmt.Sprintf("STORE(%s, %s, %s, %s);", t, p, place, v)
	}
	return fmt.Sprintf("%s[%s] = (%s)%s;", p, place, t.storage(), v)
}
