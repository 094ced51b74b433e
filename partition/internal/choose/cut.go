package choose

import "context"

// cutter finds the best move between two choices by a minimum cut: a variable on the source's side stays as in the first.
// Auxiliary vertices stand for "one of several". Terms that are not submodular are replaced by an upper bound that is tight
// where nothing moves; exact is then false.
type cutter struct {
	n     network
	exact bool
	lean  bool // which of two upper bounds is taken
}

// most is the most that a term counts, so that sums of them stay far from the capacity of what must not be cut.
const most = int64(1) << 58

// unary implements sink.
func (c *cutter) unary(v int32, stay, swap int64) {
	c.n.sinkCost(v, min(swap, most))
	c.n.sourceCost(v, min(stay, most))
}

// pair implements sink.
func (c *cutter) pair(u, v int32, t [2][2]int64) {
	for i := range t {
		for k := range t[i] {
			t[i][k] = min(t[i][k], most)
		}
	}
	if excess := t[0][0] + t[1][1] - t[0][1] - t[1][0]; excess > 0 {
		c.exact = false
		if c.lean {
			t[0][1] += excess
		} else {
			t[1][0] += excess
		}
	}
	c.n.sinkCost(u, t[1][0]-t[0][0])
	c.n.sinkCost(v, t[1][1]-t[1][0])
	if w := t[0][1] + t[1][0] - t[0][0] - t[1][1]; w > 0 {
		c.n.arc(u, v, w)
	}
}

// any implements sink.
func (c *cutter) any(cost int64, u literal, of []literal) {
	cost = min(cost, most)
	swaps := 0
	for _, l := range of {
		if l.swap {
			swaps++
		}
	}
	if swaps > 0 && swaps < len(of) { // literals of both kinds: at most the sum over the kinds
		c.exact = false
		for _, swap := range []bool{false, true} {
			var some []literal
			for _, l := range of {
				if l.swap == swap {
					some = append(some, l)
				}
			}
			c.any(cost, u, some)
		}
		return
	}
	swap := swaps > 0
	if u.v < 0 {
		c.alone(cost, swap, of)
		return
	}
	if len(of) == 1 {
		var t [2][2]int64
		t[bit(u.swap)][bit(swap)] = cost
		c.pair(u.v, of[0].v, t)
		return
	}
	if u.swap == swap {
		c.exact = false
		if c.lean {
			c.alone(cost, swap, of)
		} else {
			c.alone(cost, swap, []literal{u})
		}
		return
	}
	z := c.some(swap, of)
	if swap {
		c.n.arc(u.v, z, cost)
	} else {
		c.n.arc(z, u.v, cost)
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// some returns a vertex that is on the sink's side where one of the variables is, or, without swap, on the source's where one is.
func (c *cutter) some(swap bool, of []literal) int32 {
	z := c.n.vertex()
	for _, l := range of {
		if swap {
			c.n.arc(z, l.v, capacity)
		} else {
			c.n.arc(l.v, z, capacity)
		}
	}
	return z
}

// alone adds a cost where one of the literals is true.
func (c *cutter) alone(cost int64, swap bool, of []literal) {
	z := of[0].v
	if len(of) > 1 {
		z = c.some(swap, of)
	}
	if swap {
		c.n.sinkCost(z, cost)
	} else {
		c.n.sourceCost(z, cost)
	}
}

// move returns the best mixture of the two choices of a pair, and whether it is certain to be the best. Ties stay with the
// first choice.
func (c *cutter) move(ctx context.Context, p *pair, lean bool) ([]int32, bool, error) {
	c.n.reset(len(p.active))
	c.exact, c.lean = true, lean
	if err := p.terms(ctx, c); err != nil {
		return nil, false, err
	}
	if err := c.n.cut(ctx); err != nil {
		return nil, false, err
	}
	z := append([]int32(nil), p.x...)
	for k, v := range p.active {
		if c.n.sink(int32(k)) {
			z[v] = p.y[v]
		}
	}
	return z, c.exact, nil
}

// turns finds out which variables have to be turned, so that the first choice takes the second's alternative, for all terms to
// be submodular. It is a forest of sets with the parity of each member to its parent.
type turns struct {
	parent []int32
	odd    []bool
	clash  bool // there is no way
}

func newTurns(n int) *turns {
	t := &turns{parent: make([]int32, n), odd: make([]bool, n)}
	for i := range t.parent {
		t.parent[i] = int32(i)
	}
	return t
}

// find returns the representative of v's set, and whether v is turned the other way than it is.
func (t *turns) find(v int32) (int32, bool) {
	root, odd := v, false
	for t.parent[root] != root {
		odd = odd != t.odd[root]
		root = t.parent[root]
	}
	for at, o := v, odd; t.parent[at] != root && at != root; { // shorten the way
		next, step := t.parent[at], t.odd[at]
		t.parent[at], t.odd[at] = root, o
		o = o != step
		at = next
	}
	return root, odd
}

// relate says whether two variables have to be turned differently.
func (t *turns) relate(a, b int32, differ bool) {
	ra, oa := t.find(a)
	rb, ob := t.find(b)
	if ra == rb {
		t.clash = t.clash || (oa != ob) != differ
		return
	}
	t.parent[rb], t.odd[rb] = ra, (oa != ob) != differ
}

// unary implements sink.
func (t *turns) unary(int32, int64, int64) {}

// pair implements sink.
func (t *turns) pair(u, v int32, c [2][2]int64) {
	for i := range c {
		for k := range c[i] {
			c[i][k] = min(c[i][k], most)
		}
	}
	switch excess := c[0][0] + c[1][1] - c[0][1] - c[1][0]; {
	case excess < 0:
		t.relate(u, v, false)
	case excess > 0:
		t.relate(u, v, true)
	}
}

// any implements sink.
func (t *turns) any(_ int64, u literal, of []literal) {
	for _, l := range of[1:] {
		t.relate(of[0].v, l.v, of[0].swap != l.swap)
	}
	if u.v >= 0 {
		t.relate(u.v, of[0].v, u.swap == of[0].swap)
	}
}

// binary finds the optimum over variables that have at most two alternatives each and are connected with no others, by one cut;
// false where the terms cannot be turned submodular. It changes x.
func (f *facts) binary(ctx context.Context, p *pair, vars, x []int32) (bool, error) {
	first, second := append([]int32(nil), x...), append([]int32(nil), x...)
	for _, v := range vars {
		if len(f.alts[v]) > 2 {
			return false, nil
		}
		first[v] = f.alts[v][0]
		second[v] = f.alts[v][len(f.alts[v])-1]
	}
	p.set(first, second, vars)
	t := newTurns(len(p.active))
	if err := p.terms(ctx, t); err != nil {
		return false, err
	}
	if t.clash {
		return false, nil
	}
	active := append([]int32(nil), p.active...)
	for k, v := range active {
		if _, odd := t.find(int32(k)); odd {
			first[v], second[v] = second[v], first[v]
		}
	}
	p.set(first, second, vars)
	z, exact, err := new(cutter).move(ctx, p, false)
	if err != nil || !exact {
		return false, err
	}
	for _, v := range vars {
		x[v] = z[v]
	}
	return true, nil
}
