package dag

import "context"

// stepsPerItem is the search budget of one colour per node and edge. Graphs with some locality need less; where every node
// may read any earlier one, 10⁵ nodes are about where it runs out.
const stepsPerItem = 8

// state is a problem half solved: the quotient so far and how the problem's nodes map to it.
type state struct {
	work
	ctx  context.Context
	p    *Problem
	base *quotient
	q    *quotient
	of   []int32 // quotient node of each node
	last bool    // nothing comes behind the passes of this colour
}

// Group divides the nodes of the problem into groups: every node in one, every host node in one of its own, the quotient of
// all groups acyclic, bounds, cuts and connectedness as asked. It merges as far as its
// method can (see the package comment), not provably to the fewest groups, except that colours with Disconnected groups get
// the fewest that the groups of the colours before them leave room for, if neither bounds nor Alone interfere.
//
// Equal problems give equal groupings. The numbers of the nodes matter only for breaking ties: with Disconnected groups
// renumbering changes nothing but the names, with connected ones it moves the number of groups by a few in a hundred at
// most, and not to one side (random graphs of 200 nodes and two colours).
//
// It fails with an *Error wrapping ErrSize, ErrRange or ErrCycle (the graph itself has a cycle), and with ctx's error soon
// after ctx ends. The cost is O((nodes + edges) · colours), about 120 bytes of memory per node.
func Group(ctx context.Context, p *Problem) (*Grouping, error) {
	if err := p.check("group"); err != nil {
		return nil, err
	}
	s := &state{ctx: ctx, p: p}
	s.base = s.work.base(p)
	if err := s.start(); err != nil {
		return nil, err
	}
	short := false
	colors := p.colors()
	for i, c := range colors {
		s.last = i == len(colors)-1
		s.steps, s.short = s.budget(), false
		if err := s.group(c); err != nil {
			return nil, err
		}
		short = short || s.short
	}
	r := s.finish()
	r.Exhausted = short
	return r, nil
}

// budget returns the steps that may be spent on the searches of one colour.
func (s *state) budget() int64 {
	return stepsPerItem*(int64(s.base.n)+int64(len(s.base.adj))) + leastSteps
}

// apply replaces the quotient by its contraction along to.
func (s *state) apply(to []int32, m int32) {
	next := s.contract(s.q, to, m)
	if s.q != s.base {
		s.drop(s.q)
	}
	s.q = next
	s.follow(to)
}

// follow maps the problem's nodes along to, and takes it into the stock.
func (s *state) follow(to []int32) {
	for v, x := range s.of {
		s.of[v] = to[x]
	}
	s.give(to)
}

// keys returns the key of each node of the quotient for the pass of colour c, and how many nodes have one that is not
// negative. A key is the bound plus one.
func (s *state) keys(c int32) (key []int32, keyed int) {
	key = s.take(s.q.n)
	for i := range key {
		key[i] = outside
	}
	for v, x := range s.of {
		if s.p.Color[v] != c || key[x] == alone {
			continue
		}
		switch {
		case s.p.Alone != nil && s.p.Alone[v]:
			key[x] = alone
		case s.p.Bound != nil:
			key[x] = s.p.Bound[v] + 1
		default:
			key[x] = 0
		}
	}
	for _, k := range key {
		if k >= 0 {
			keyed++
		}
	}
	return key, keyed
}

// group finds the groups of one colour on the quotient.
func (s *state) group(c int32) error {
	pol := s.p.policy(c)
	if err := s.seed(c, pol); err != nil {
		return err
	}
	if pol.Disconnected {
		return nil
	}
	return s.merge(c, s.last)
}

// seed contracts the nodes of one colour by the level method, from whichever side gives fewer groups.
func (s *state) seed(c int32, pol Policy) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	key, keyed := s.keys(c)
	defer func() { s.give(key) }()
	if keyed == 0 {
		return nil
	}
	keys := int32(1)
	if s.p.Bound != nil {
		keys = s.base.n + 1
	}
	join := func(level, parent []int32, top int32) int32 {
		if pol.Disconnected {
			return s.classes(s.q, key, level, parent, top, keys)
		}
		return components(s.q, key, level, parent)
	}
	n := s.q.n
	level, parent, level2, parent2 := s.take(n), s.take(n), s.take(n), s.take(n)
	var top, saved, top2, saved2 int32
	both(int(n), func() { top = levels(s.q, key, level, false) }, func() { top2 = levels(s.q, key, level2, true) })
	if pol.Disconnected { // classes takes lists from the stock
		saved, saved2 = join(level, parent, top), join(level2, parent2, top2)
	} else {
		both(int(n), func() { saved = join(level, parent, top) }, func() { saved2 = join(level2, parent2, top2) })
	}
	backward := saved2 > saved
	if backward {
		level, level2, parent, parent2, top, saved = level2, level, parent2, parent, top2, saved2
	}
	if saved > 0 {
		to, m := s.number(s.q, key, level, parent, top, backward)
		s.apply(to, m)
	}
	s.give(level, level2, parent, parent2)
	return s.ctx.Err()
}

// start makes the first quotient: numbered topologically.
func (s *state) start() error {
	s.q, s.of = s.base, s.take(s.base.n)
	singletons(s.of)
	order, n := s.order(s.q)
	if n < s.q.n {
		return s.cycle(order[:n])
	}
	s.renumber(order)
	return s.ctx.Err()
}

// renumber numbers the quotient's nodes in the given order.
func (s *state) renumber(order []int32) {
	to := s.take(s.q.n)
	for i, v := range order {
		to[v] = int32(i)
	}
	s.give(order)
	s.apply(to, s.q.n)
}

// cycle returns the error for a graph of which only some nodes could be ordered.
func (s *state) cycle(ordered []int32) error {
	left := make([]bool, s.base.n)
	for i := range left {
		left[i] = true
	}
	for _, v := range ordered {
		left[v] = false
	}
	g := s.p.Graph
	for v := range g.n {
		if left[v] {
			return cycleError("group", cycle(g.predPtr, g.pred, func(u int32) bool { return left[u] }, v))
		}
	}
	return cycleError("group", nil)
}

// finish numbers the groups: by depth-first search from the nodes in ascending order, each group behind those it needs.
func (s *state) finish() *Grouping {
	g, n := s.p.Graph, s.q.n
	ptr, list := s.take(n+1), s.take(g.n)
	bucket(s.of, ptr, list)
	number := s.take(n)
	for i := range number {
		number[i] = -1
	}
	type frame struct{ group, item, pred int32 }
	var stack []frame
	r := &Grouping{Of: make([]int32, g.n), Color: make([]int32, n)}
	next := int32(0)
	push := func(x int32) {
		number[x] = n // on the way; an acyclic quotient never meets it again there
		stack = append(stack, frame{x, ptr[x], g.predPtr[list[ptr[x]]]})
	}
	for v := range g.n {
		if number[s.of[v]] < 0 {
			push(s.of[v])
		}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			u := list[f.item]
			if f.pred < g.predPtr[u+1] {
				y := s.of[g.pred[f.pred]]
				f.pred++
				if number[y] < 0 {
					push(y)
				}
				continue
			}
			if f.item++; f.item < ptr[f.group+1] {
				f.pred = g.predPtr[list[f.item]]
				continue
			}
			number[f.group] = next
			r.Color[next] = s.p.Color[u]
			next++
			stack = stack[:len(stack)-1]
		}
	}
	for v, x := range s.of {
		r.Of[v] = number[x]
	}
	return r
}
