package choose

import (
	"context"
	"slices"
)

// Bounds of the exact elimination of a core.
const (
	maxCore  = 4096    // variables
	maxCells = 1 << 23 // of all tables together
	maxTable = 1 << 18 // of one
)

// factor is a table over several variables, by their places among those that are eliminated; the labels of the last one lie together.
type factor struct {
	vars []int32
	t    []int64
	gone bool // it is part of another one
}

// elimination finds the best labels of some variables, given those of all others, by tables over several variables. Variables go by
// their places in the ascending list of those that are eliminated. It holds memory that is used again by the next call.
type elimination struct {
	m       *model
	place   []int32   // by variable: its place, None for the others
	vars    []int32   // by place
	near    [][]int32 // by place: places, ascending
	order   []int32   // places
	next    []sized   // a heap
	done    []bool    // by place
	factors []factor
	buckets [][]int32 // by place: factors that have it
	used    [][]int32 // by place: factors that were put together when it was eliminated
	ints    []int32   // where lists lie
	cells   []int64   // where tables lie
	scratch projection
}

// sized is a place with the entries of the table that eliminating its variable makes.
type sized struct {
	size  int
	place int32
}

func (a sized) before(b sized) bool { return a.size < b.size || a.size == b.size && a.place < b.place }

// push adds to the heap.
func (e *elimination) push(x sized) {
	e.next = append(e.next, x)
	for i := len(e.next) - 1; i > 0; {
		up := (i - 1) / 2
		if !e.next[i].before(e.next[up]) {
			break
		}
		e.next[i], e.next[up] = e.next[up], e.next[i]
		i = up
	}
}

// pop takes the smallest from the heap.
func (e *elimination) pop() sized {
	x, last := e.next[0], len(e.next)-1
	e.next[0] = e.next[last]
	e.next = e.next[:last]
	for i := 0; ; {
		k := 2*i + 1
		if k+1 < last && e.next[k+1].before(e.next[k]) {
			k++
		}
		if k >= last || !e.next[k].before(e.next[i]) {
			return x
		}
		e.next[i], e.next[k] = e.next[k], e.next[i]
		i = k
	}
}

func newElimination(m *model) *elimination {
	return &elimination{m: m, place: slices.Repeat([]int32{None}, len(m.unary))}
}

// begin makes room for some variables.
func (e *elimination) begin(vars []int32) {
	e.vars = append(e.vars[:0], vars...)
	slices.Sort(e.vars)
	n := len(e.vars)
	e.near, e.buckets, e.used = lists32(e.near, n), lists32(e.buckets, n), lists32(e.used, n)
	e.order, e.next, e.factors = e.order[:0], e.next[:0], e.factors[:0]
	e.ints, e.cells = e.ints[:0], e.cells[:0]
	e.done = append(e.done[:0], make([]bool, n)...)
	for i, v := range e.vars {
		e.place[v] = int32(i)
	}
}

// lists32 returns n empty lists, in the memory of others.
func lists32(of [][]int32, n int) [][]int32 {
	for len(of) < n {
		of = append(of, nil)
	}
	for i := range n {
		of[i] = of[i][:0]
	}
	return of[:n]
}

// end forgets the variables.
func (e *elimination) end() {
	for _, v := range e.vars {
		e.place[v] = None
	}
}

// labels returns how many labels a variable has.
func (e *elimination) labels(place int32) int { return len(e.m.unary[e.vars[place]]) }

// size returns the entries of the table that eliminating a variable makes, at most a bit above the limit.
func (e *elimination) size(place int32, limit int) int {
	n := 1
	for _, w := range e.near[place] {
		if n *= e.labels(w); n > limit {
			return n
		}
	}
	return n
}

// plan finds an order of elimination whose tables are within bounds; false where it found none. Next comes the variable that makes
// the smallest table, the first of them.
func (e *elimination) plan(ctx context.Context, limit int) (bool, error) {
	for i, v := range e.vars {
		first := len(e.ints)
		for h := e.m.head[v]; h >= 0; h = e.m.next[h] {
			if w := e.place[e.m.node[h^1]]; w >= 0 {
				e.ints = append(e.ints, w)
			}
		}
		list := e.ints[first:len(e.ints):len(e.ints)]
		slices.Sort(list)
		e.near[i] = slices.Compact(list)
	}
	for i := range e.vars {
		e.push(sized{e.size(int32(i), limit), int32(i)})
	}
	total := 0
	for k := 0; len(e.order) < len(e.vars); k++ {
		if k%64 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		x := e.pop()
		if e.done[x.place] || e.size(x.place, limit) != x.size {
			continue // its size has changed since
		}
		if total += x.size; x.size > limit || total > maxCells {
			return false, nil
		}
		e.done[x.place] = true
		e.order = append(e.order, x.place)
		around := e.near[x.place]
		for _, w := range around {
			e.near[w] = e.union(e.near[w], around, x.place, w)
		}
		for _, w := range around {
			e.push(sized{e.size(w, limit), w})
		}
	}
	return true, nil
}

// union returns the places of two ascending lists, without two of them.
func (e *elimination) union(a, b []int32, x, y int32) []int32 {
	first := len(e.ints)
	for len(a) > 0 || len(b) > 0 {
		var w int32
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			w, a = a[0], a[1:]
		case len(a) == 0 || b[0] < a[0]:
			w, b = b[0], b[1:]
		default:
			w, a, b = a[0], a[1:], b[1:]
		}
		if w != x && w != y {
			e.ints = append(e.ints, w)
		}
	}
	return e.ints[first:len(e.ints):len(e.ints)]
}

// exact finds the best labels of a core by eliminating its variables with tables over several; false where these would be too
// large. It adds the cost to the model's.
func (m *model) exact(ctx context.Context, core []int32, labels []int32, limit int) (bool, error) {
	if !worthPlanning(core, limit) {
		return false, nil
	}
	cost, ok, err := newElimination(m).solve(ctx, core, labels, limit)
	if ok {
		m.base = sum(m.base, cost)
	}
	return ok, err
}

func worthPlanning(core []int32, limit int) bool { return len(core) <= maxCore && limit > 0 }

// fits reports whether exact finds the best labels of a core.
func (e *elimination) fits(ctx context.Context, core []int32, limit int) (bool, error) {
	if !worthPlanning(core, limit) {
		return false, nil
	}
	e.begin(core)
	defer e.end()
	return e.plan(ctx, min(limit, maxTable))
}

// solve finds the best labels of some variables, given those of all others. It returns what they cost; false where it would take
// larger tables than that.
func (e *elimination) solve(ctx context.Context, vars []int32, labels []int32, limit int) (int64, bool, error) {
	e.begin(vars)
	defer e.end()
	if ok, err := e.plan(ctx, min(limit, maxTable)); !ok {
		return 0, false, err
	}
	for i := range e.vars {
		e.collect(int32(i), labels)
	}
	total := int64(0)
	for _, x := range e.order {
		for _, k := range e.buckets[x] {
			if !e.factors[k].gone {
				e.used[x] = append(e.used[x], k)
			}
		}
		f, err := e.project(ctx, x)
		if err != nil {
			return 0, false, err
		}
		for _, k := range e.used[x] {
			e.factors[k].gone = true
		}
		if len(f.vars) == 0 {
			total = sum(total, f.t[0])
		}
		for _, w := range f.vars {
			e.buckets[w] = append(e.buckets[w], int32(len(e.factors)))
		}
		e.factors = append(e.factors, f)
	}
	for _, x := range slices.Backward(e.order) {
		e.decide(x, labels)
	}
	return total, true, nil
}

// collect makes the factors of a variable: its own costs, with what each label costs beside those of the variables that stay, and the
// tables of which it is the first end.
func (e *elimination) collect(x int32, labels []int32) {
	v, m := e.vars[x], e.m
	own := e.table(len(m.unary[v]))
	copy(own, m.unary[v])
	for h := m.head[v]; h >= 0; h = m.next[h] {
		u := m.node[h^1]
		w := e.place[u]
		if w < 0 {
			d := m.end(h)
			for k := range own {
				own[k] = sum(own[k], d.at(int32(k), labels[u]))
			}
		} else if h&1 == 0 {
			e.add(m.tab[h>>1], x, w)
		}
	}
	e.add(own, x)
}

// add adds a factor.
func (e *elimination) add(t []int64, vars ...int32) {
	first := len(e.ints)
	e.ints = append(e.ints, vars...)
	for _, w := range vars {
		e.buckets[w] = append(e.buckets[w], int32(len(e.factors)))
	}
	e.factors = append(e.factors, factor{vars: e.ints[first:len(e.ints):len(e.ints)], t: t})
}

// table returns memory for a table, which is not cleared.
func (e *elimination) table(n int) []int64 {
	if n > cap(e.cells)-len(e.cells) {
		e.cells = make([]int64, 0, max(n, 1<<12, 2*cap(e.cells)))
	}
	first := len(e.cells)
	e.cells = e.cells[:first+n]
	return e.cells[first : first+n : first+n]
}

// decide gives a variable the first of its best labels, given those of the variables that were eliminated later.
func (e *elimination) decide(x int32, labels []int32) {
	v := e.vars[x]
	costs := e.table(len(e.m.unary[v]))
	clear(costs)
	for _, k := range e.used[x] {
		f := &e.factors[k]
		at, stride, n := 0, 0, 1
		for i, w := range slices.Backward(f.vars) {
			if w == x {
				stride = n
			} else {
				at += n * int(labels[e.vars[f.vars[i]]])
			}
			n *= e.labels(w)
		}
		for l := range costs {
			costs[l] = sum(costs[l], f.t[at+l*stride])
		}
	}
	labels[v] = int32(slices.Index(costs, slices.Min(costs)))
}

// cores returns the variables that are left, by connected component, each in the order of numbers.
func (m *model) cores(ctx context.Context) ([][]int32, error) {
	var out [][]int32
	seen := make([]bool, len(m.unary))
	for v := range m.unary {
		if m.gone[v] || seen[v] {
			continue
		}
		core := []int32{int32(v)}
		seen[v] = true
		for i := 0; i < len(core); i++ {
			if i%often == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			for h := m.head[core[i]]; h >= 0; h = m.next[h] {
				if w := m.node[h^1]; !seen[w] {
					seen[w] = true
					core = append(core, w)
				}
			}
		}
		slices.Sort(core)
		out = append(out, core)
	}
	return out, nil
}
