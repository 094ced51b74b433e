package choose

import (
	"context"
	"encoding/binary"
	"slices"
)

// model is a problem of pairs: variables with labels, and tables of costs between two variables. Its first variables are the
// problem's, whose labels are the alternatives that are left. Behind them come those of values with several readers: a label is
// the state, and the color, that the value is made in, with the set of states that it is converted to.
type model struct {
	f     *facts
	unary [][]int64 // by variable and label
	place []int32   // by variable: where a walk from makers to readers comes by
	loose bool      // some labels stand for several sets, at a cost that is too low

	head, deg []int32 // by variable
	next      []int32 // by half-edge: 2e and 2e+1 are the ends of edge e
	prev      []int32
	node      []int32
	tab       []table // by edge

	shared map[string]table
	key    []byte
	cells  slab
	gone   []bool // by variable: eliminated
	steps  []step // in order of elimination
	base   int64  // cost of what is decided

	rank    []int32     // scratch of message passing, by variable
	message [][]float64 // and by edge
}

// table is the costs between two variables: rows for the labels of the first end, columns for the second.
type table []int64

// slab hands out memory in pieces of large allocations.
type slab struct {
	free []int64
	next int // how many the next allocation has
}

// Sizes of allocations of a slab: many models are of a few variables.
const (
	slabFirst = 1 << 8
	slabMost  = 1 << 16
)

func (s *slab) make(n int) []int64 {
	if n > len(s.free) {
		if n > slabMost/4 {
			return make([]int64, n)
		}
		s.next = min(max(slabFirst, 2*s.next), slabMost)
		s.free = make([]int64, max(s.next, n))
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// maxLabels is how many labels a value's variable should have at most.
const maxLabels = 96

func newModel(ctx context.Context, f *facts) (*model, error) {
	p := f.p
	m := &model{f: f, shared: map[string]table{}, head: make([]int32, len(p.Vars)), deg: make([]int32, len(p.Vars)),
		unary: make([][]int64, len(p.Vars)), place: make([]int32, len(p.Vars))}
	for v := range p.Vars {
		m.head[v], m.place[v] = -1, int32(2*v)
		u := m.cells.make(len(f.alts[v]))
		for i, a := range f.alts[v] {
			alt := &p.Vars[v].Alts[a]
			u[i] = alt.Cost
			if alt.Color >= 0 && (p.Vars[v].Joins < 0 || p.Values[p.Vars[v].Joins].Maker < 0) {
				u[i] = sum(u[i], p.Launch[alt.Color])
			}
		}
		m.unary[v] = u
	}
	m.reserve()
	for i := range p.Values {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		m.value(int32(i))
	}
	m.claims()
	m.shared = nil
	m.gone, m.steps = make([]bool, len(m.unary)), make([]step, 0, len(m.unary))
	return m, nil
}

// reserve makes room for the variables of values and for the edges around them: lists of a million that grow are copied often.
func (m *model) reserve() {
	several, edges := 0, 0
	for i := range m.f.p.Values {
		if v := &m.f.p.Values[i]; len(v.Uses) > 1 {
			several++
			edges += 1 + len(v.Uses)
		} else {
			edges += len(v.Uses)
		}
	}
	m.unary, m.head, m.deg, m.place = slices.Grow(m.unary, several), slices.Grow(m.head, several), slices.Grow(m.deg, several), slices.Grow(m.place, several)
	m.tab, m.node = make([]table, 0, edges), make([]int32, 0, 2*edges)
	m.next, m.prev = make([]int32, 0, 2*edges), make([]int32, 0, 2*edges)
}

// kind is how a value may be made.
type kind struct{ state, color int32 }

// value adds the terms of a value.
func (m *model) value(i int32) {
	v := &m.f.p.Values[i]
	switch {
	case v.Maker < 0 && len(v.Uses) == 1:
		u := &v.Uses[0]
		for k, a := range m.f.alts[u.Var] {
			m.unary[u.Var][k] = sum(m.unary[u.Var][k], m.price(i, v.Made[0], u.Wants[a]))
		}
	case v.Maker < 0 && len(v.Uses) == 0:
		m.base = sum(m.base, m.price(i, v.Made[0], None))
	case len(v.Uses) == 0:
		for k, a := range m.f.alts[v.Maker] {
			m.unary[v.Maker][k] = sum(m.unary[v.Maker][k], m.price(i, v.Made[a], None))
		}
		m.joins(i)
	case len(v.Uses) == 1:
		u := &v.Uses[0]
		rows, cols := m.f.alts[v.Maker], m.f.alts[u.Var]
		t := make([]int64, 0, 64)
		for _, a := range rows {
			for _, b := range cols {
				t = append(t, m.price(i, v.Made[a], u.Wants[b]))
			}
		}
		m.connect(v.Maker, u.Var, m.keep(t))
		m.joins(i)
	default:
		m.several(i)
	}
}

// price is what a value's conversions cost to what is wanted anyway and to one more state.
func (m *model) price(value int32, from, to int32) int64 {
	c := &m.f.price
	c.wants = append(append(c.wants[:0], m.f.p.Values[value].Fixed...), to)
	return c.cost(int(value), from, c.wants...)
}

// joins adds what variables that join value i pay for launches where their colors are not its maker's.
func (m *model) joins(i int32) {
	maker := m.f.p.Values[i].Maker
	for _, v := range m.f.joined.at(i) {
		rows, cols := m.f.alts[maker], m.f.alts[v]
		t := make([]int64, 0, 64)
		for _, a := range rows {
			for _, b := range cols {
				t = append(t, m.launch(m.f.p.Vars[maker].Alts[a].Color, m.f.p.Vars[v].Alts[b].Color))
			}
		}
		m.connect(maker, v, m.keep(t))
	}
}

func (m *model) launch(maker, reader int32) int64 {
	if reader < 0 || maker == reader {
		return 0
	}
	return m.f.p.Launch[reader]
}

// label is one of a value's variable.
type label struct {
	kind  int
	set   uint64 // of the wanted states
	any   bool   // stands for all larger sets too
	price int64
}

// several adds a variable for a value with several readers.
func (m *model) several(i int32) {
	v := &m.f.p.Values[i]
	kinds, of := m.kinds(v, len(m.f.joined.at(i)) > 0)
	var wants []int32
	for k := range v.Uses {
		for _, a := range m.f.alts[v.Uses[k].Var] {
			if w := v.Uses[k].Wants[a]; w != None && !contains(v.Fixed, w) && !contains(wants, w) && len(wants) < 64 {
				wants = append(wants, w)
			}
		}
	}
	slices.Sort(wants)
	labels := m.labels(i, kinds, wants)
	x := int32(len(m.unary))
	u := m.cells.make(len(labels))
	for k := range labels {
		u[k] = labels[k].price
	}
	m.unary, m.head, m.deg = append(m.unary, u), append(m.head, -1), append(m.deg, 0)
	var t []int64
	if v.Maker < 0 {
		m.place = append(m.place, 2*v.Uses[0].Var-1)
	} else {
		m.place = append(m.place, 2*v.Maker+1)
		for k := range m.f.alts[v.Maker] {
			for _, l := range labels {
				t = append(t, hardUnless(l.kind == of[k]))
			}
		}
		m.connect(v.Maker, x, m.keep(t))
	}
	for k := range v.Uses {
		use := &v.Uses[k]
		joins := m.f.p.Vars[use.Var].Joins == i && !reads(v.Uses[:k], use.Var)
		t = t[:0]
		for _, l := range labels {
			for _, a := range m.f.alts[use.Var] {
				w := use.Wants[a]
				at := slices.Index(wants, w)
				c := hardUnless(w == None || l.any || w == kinds[l.kind].state || contains(v.Fixed, w) || at >= 0 && l.set>>at&1 == 1)
				if joins {
					c = sum(c, m.launch(kinds[l.kind].color, m.f.p.Vars[use.Var].Alts[a].Color))
				}
				t = append(t, c)
			}
		}
		m.connect(x, use.Var, m.keep(t))
	}
	for _, w := range m.f.joined.at(i) { // who joins without reading
		if v.Maker >= 0 && !reads(v.Uses, w) {
			t = t[:0]
			for _, l := range labels {
				for _, a := range m.f.alts[w] {
					t = append(t, m.launch(kinds[l.kind].color, m.f.p.Vars[w].Alts[a].Color))
				}
			}
			m.connect(x, w, m.keep(t))
		}
	}
}

func reads(uses []Use, v int32) bool {
	return slices.ContainsFunc(uses, func(u Use) bool { return u.Var == v })
}

func hardUnless(ok bool) int64 {
	if ok {
		return 0
	}
	return Hard
}

// kinds returns the ways in which a value may be made, and that of each alternative of its maker.
func (m *model) kinds(v *Value, colors bool) (kinds []kind, of []int) {
	if v.Maker < 0 {
		return []kind{{v.Made[0], None}}, nil
	}
	for _, a := range m.f.alts[v.Maker] {
		k := kind{v.Made[a], None}
		if colors {
			k.color = m.f.p.Vars[v.Maker].Alts[a].Color
		}
		at := slices.Index(kinds, k)
		if at < 0 {
			at = len(kinds)
			kinds = append(kinds, k)
		}
		of = append(of, at)
	}
	return kinds, of
}

// labels returns the labels of a value's variable. Where all sets were too many, the largest sets are represented by labels that
// allow everything at the cost of the cheapest set that is one smaller than they are: a relaxation.
func (m *model) labels(value int32, kinds []kind, wants []int32) []label {
	size := len(wants)
	for size > 1 && len(kinds)*subsets(len(wants), size) > maxLabels {
		size--
	}
	var labels []label
	c := &m.f.price
	v := &m.f.p.Values[value]
	for k, from := range kinds {
		first, least := len(labels), Hard
		free := make([]int, 0, 64)
		for i, w := range wants {
			if w != from.state {
				free = append(free, i)
			}
		}
		var grow func(at int, set uint64, n int)
		grow = func(at int, set uint64, n int) {
			c.wants = append(c.wants[:0], v.Fixed...)
			for i := range wants {
				if set>>i&1 == 1 {
					c.wants = append(c.wants, wants[i])
				}
			}
			price := c.cost(int(value), from.state, c.wants...)
			if n == size {
				least = min(least, price)
			}
			if price >= Hard {
				return
			}
			labels = append(labels, label{kind: k, set: set, price: price})
			for i := at; i < len(free) && n < size; i++ {
				grow(i+1, set|1<<free[i], n+1)
			}
		}
		grow(0, 0, 0)
		labels = append(labels[:first], widest(labels[first:])...)
		if size < len(free) && least < Hard {
			labels = append(labels, label{kind: k, any: true, price: least})
			m.loose = true
		}
	}
	if len(labels) == 0 { // the value cannot be had as it is wanted anyway
		labels = append(labels, label{any: true, price: Hard})
	}
	return labels
}

// subsets returns the number of subsets of n with at most size elements, at most about 1<<20.
func subsets(n, size int) int {
	total, term := 1, 1
	for k := 1; k <= size && total < 1<<20; k++ {
		term = term * (n - k + 1) / k
		total += term
	}
	return total
}

// widest leaves out sets that a larger one holds for the same price.
func widest(labels []label) []label {
	out := labels[:0:0]
	for i, l := range labels {
		if !slices.ContainsFunc(labels, func(k label) bool { return k.set&l.set == l.set && k.set != l.set && k.price <= l.price }) {
			out = append(out, labels[i])
		}
	}
	return out
}

// claims ties the variables of each claim to each other, along values where they can.
func (m *model) claims() {
	for _, t := range m.f.tied() {
		rows, cols := m.f.alts[t.a], m.f.alts[t.b]
		tab := make([]int64, 0, len(rows)*len(cols))
		for _, a := range rows {
			for _, b := range cols {
				tab = append(tab, hardUnless(m.f.together(t.a, t.b, m.f.p.Vars[t.a].Alts[a].Claim, m.f.p.Vars[t.b].Alts[b].Claim)))
			}
		}
		m.connect(t.a, t.b, m.keep(tab))
	}
}

// keep returns a table with that content, one that is there already where it can.
func (m *model) keep(t []int64) table {
	zero := true
	m.key = m.key[:0]
	for _, c := range t {
		m.key = binary.LittleEndian.AppendUint64(m.key, uint64(c))
		zero = zero && c == 0
	}
	if zero {
		return nil
	}
	s, ok := m.shared[string(m.key)]
	if !ok {
		s = m.cells.make(len(t))
		copy(s, t)
		m.shared[string(m.key)] = s
	}
	return s
}

// connect adds a table between two variables; nil is one of zeros.
func (m *model) connect(a, b int32, t table) {
	if t == nil {
		return
	}
	for h := m.smaller(a, b); h >= 0; h = m.next[h] {
		e := h >> 1
		if m.node[2*e] == a && m.node[2*e+1] == b || m.node[2*e] == b && m.node[2*e+1] == a {
			m.merge(e, a, t)
			return
		}
	}
	e := int32(len(m.tab))
	m.tab = append(m.tab, t)
	m.node = append(m.node, a, b)
	m.next, m.prev = append(m.next, -1, -1), append(m.prev, -1, -1)
	m.link(2*e, a)
	m.link(2*e+1, b)
}

// smaller returns the first half-edge of the variable with fewer neighbours.
func (m *model) smaller(a, b int32) int32 {
	if m.deg[a] <= m.deg[b] {
		return m.head[a]
	}
	return m.head[b]
}

// merge adds a table, whose rows are a's, to that of edge e.
func (m *model) merge(e, a int32, t table) {
	old := m.tab[e]
	out := table(m.cells.make(len(old)))
	if m.node[2*e] == a {
		for i := range old {
			out[i] = sum(old[i], t[i])
		}
	} else {
		rows, cols := len(m.unary[m.node[2*e]]), len(m.unary[m.node[2*e+1]])
		for i := range rows {
			for j := range cols {
				out[i*cols+j] = sum(old[i*cols+j], t[j*rows+i])
			}
		}
	}
	m.tab[e] = out
}

func (m *model) link(h, v int32) {
	m.next[h], m.prev[h] = m.head[v], -1
	if m.head[v] >= 0 {
		m.prev[m.head[v]] = h
	}
	m.head[v] = h
	m.deg[v]++
}

func (m *model) unlink(h int32) {
	v := m.node[h]
	if m.prev[h] >= 0 {
		m.next[m.prev[h]] = m.next[h]
	} else {
		m.head[v] = m.next[h]
	}
	if m.next[h] >= 0 {
		m.prev[m.next[h]] = m.prev[h]
	}
	m.deg[v]--
}
