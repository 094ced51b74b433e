package choose

import (
	"context"
	"slices"
)

// pair is two choices for all variables, x and y, of which a move takes one or the other for each variable. Those where the two
// differ are active; they are numbered.
type pair struct {
	f      *facts
	x, y   []int32
	active []int32
	number []int32 // by variable, None for those that are not active
	marks  []bool  // by value

	touched []int32 // values next to active variables
	entries []entry // value's, used again
	lits    []literal
	hops    []Hop
}

// literal is true where a variable is taken from y, or from x.
type literal struct {
	v    int32 // number
	swap bool
}

// sink receives the terms of the cost of a move.
type sink interface {
	// unary is paid by v alone: one cost where it stays as in x, the other where it is as in y.
	unary(v int32, stay, swap int64)
	// pair is paid by two: [u as in y][v as in y].
	pair(u, v int32, cost [2][2]int64)
	// any is paid where one of the literals is true, and u, if it is not None, is.
	any(cost int64, u literal, of []literal)
}

func newPair(f *facts) *pair {
	p := &pair{f: f, number: make([]int32, len(f.p.Vars)), marks: make([]bool, len(f.p.Values))}
	for v := range p.number {
		p.number[v] = None
	}
	return p
}

// set begins with two choices.
func (p *pair) set(x, y []int32, vars []int32) {
	for _, v := range p.active {
		p.number[v] = None
	}
	p.x, p.y, p.active, p.touched = x, y, p.active[:0], p.touched[:0]
	for _, v := range vars {
		if x[v] != y[v] {
			p.number[v] = int32(len(p.active))
			p.active = append(p.active, v)
		}
	}
	touch := func(list []int32) {
		for _, i := range list {
			if !p.marks[i] {
				p.marks[i] = true
				p.touched = append(p.touched, i)
			}
		}
	}
	for _, v := range p.active {
		touch(p.f.reads.at(v))
		touch(p.f.makes.at(v))
	}
	for _, i := range p.touched {
		p.marks[i] = false
	}
}

// side returns the choice that a literal stands for.
func (p *pair) side(swap int) []int32 {
	if swap == 1 {
		return p.y
	}
	return p.x
}

// terms hands all terms that depend on the move to a sink. The error is ctx's.
func (p *pair) terms(ctx context.Context, s sink) error {
	prob := p.f.p
	for k, v := range p.active {
		if k%often == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		alts := prob.Vars[v].Alts
		stay, swap := alts[p.x[v]].Cost, alts[p.y[v]].Cost
		if j := prob.Vars[v].Joins; j < 0 || prob.Values[j].Maker < 0 || p.number[prob.Values[j].Maker] < 0 {
			stay, swap = sum(stay, prob.launch(v, p.x)), sum(swap, prob.launch(v, p.y))
		} else {
			s.pair(p.number[prob.Values[j].Maker], int32(k), p.launches(prob.Values[j].Maker, v))
		}
		s.unary(int32(k), stay, swap)
		for _, i := range p.f.makes.at(v) {
			for _, w := range p.f.joined.at(i) {
				if p.number[w] < 0 {
					t := p.launches(v, w)
					s.unary(int32(k), t[0][0], t[1][0])
				}
			}
		}
	}
	for _, t := range p.f.tied() {
		a, b := p.number[t.a], p.number[t.b]
		if a < 0 || b < 0 {
			continue
		}
		var cost [2][2]int64
		for i := range 2 {
			for k := range 2 {
				ca, cb := prob.Vars[t.a].Alts[p.side(i)[t.a]].Claim, prob.Vars[t.b].Alts[p.side(k)[t.b]].Claim
				cost[i][k] = hardUnless(p.f.together(t.a, t.b, ca, cb))
			}
		}
		s.pair(a, b, cost)
	}
	for k, i := range p.touched {
		if k%often == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		p.value(i, s)
	}
	return nil
}

// launches returns what variable v pays for a launch, given the maker that it joins.
func (p *pair) launches(maker, v int32) (cost [2][2]int64) {
	prob := p.f.p
	for i := range 2 {
		for k := range 2 {
			own := prob.Vars[v].Alts[p.side(k)[v]].Color
			if own >= 0 && prob.Vars[maker].Alts[p.side(i)[maker]].Color != own {
				cost[i][k] = prob.Launch[own]
			}
		}
	}
	return cost
}

// entry is a set of literals, and what is paid where one of them is true by the maker's literal.
type entry struct {
	first, end int // of lits
	cost       [2]int64
}

// value hands over the terms of a value.
func (p *pair) value(i int32, s sink) {
	v := &p.f.p.Values[i]
	maker, reader, more := None, None, false
	if v.Maker >= 0 {
		maker = p.number[v.Maker]
	}
	for k := range v.Uses {
		if n := p.number[v.Uses[k].Var]; n >= 0 && n != reader {
			more = more || reader >= 0
			reader = n
		}
	}
	switch {
	case more:
		p.several(i, maker, s)
	case reader < 0:
		s.unary(maker, p.priced(i, 0, 0), p.priced(i, 1, 0))
	case maker < 0:
		s.unary(reader, p.priced(i, 0, 0), p.priced(i, 0, 1))
	default:
		s.pair(maker, reader, [2][2]int64{{p.priced(i, 0, 0), p.priced(i, 0, 1)}, {p.priced(i, 1, 0), p.priced(i, 1, 1)}})
	}
}

// priced returns what a value's conversions cost with its maker from one side and its readers from another.
func (p *pair) priced(i int32, maker, readers int) int64 {
	v, c := &p.f.p.Values[i], &p.f.price
	c.wants = append(c.wants[:0], v.Fixed...)
	for k := range v.Uses {
		if w := v.Uses[k].Wants[p.side(readers)[v.Uses[k].Var]]; w != None && !contains(c.wants, w) {
			c.wants = append(c.wants, w)
		}
	}
	return c.cost(int(i), v.made(p.side(maker)), c.wants...)
}

// several hands over the terms of a value with several readers that are active: each hop from each state that it may be made in.
func (p *pair) several(i, maker int32, s sink) {
	p.entries, p.lits = p.entries[:0], p.lits[:0]
	sides := 2
	if maker < 0 {
		sides = 1
	}
	for m := range sides {
		p.from(i, m, maker, s)
	}
	for k := range p.entries {
		e := &p.entries[k]
		of := p.lits[e.first:e.end]
		if maker < 0 {
			s.any(e.cost[0], literal{v: None}, of)
			continue
		}
		both := min(e.cost[0], e.cost[1])
		if both > 0 {
			s.any(both, literal{v: None}, of)
		}
		for m := range 2 {
			if rest := e.cost[m] - both; rest > 0 {
				s.any(rest, literal{maker, m == 1}, of)
			}
		}
	}
}

// hopsTo appends the hops from one state to another.
func (p *pair) hopsTo(i, from, to int32) []Hop {
	if to == None || to == from {
		return nil
	}
	list, ok := p.f.p.Hops(p.hops[:0], int(i), from, to)
	if !ok {
		list = append(list[:0], Hop{ID: -2 - to, Cost: Hard})
	}
	p.hops = list
	return list
}

// from collects the hops that may be needed with the maker on one side.
func (p *pair) from(i int32, m int, maker int32, s sink) {
	v := &p.f.p.Values[i]
	from := v.made(p.side(m))
	var need []needed
	find := func(h Hop) *needed {
		for k := range need {
			if need[k].hop.ID == h.ID {
				return &need[k]
			}
		}
		need = append(need, needed{hop: h})
		return &need[len(need)-1]
	}
	always := func(to int32) {
		for _, h := range p.hopsTo(i, from, to) {
			find(h).always = true
		}
	}
	for _, w := range v.Fixed {
		always(w)
	}
	for k := range v.Uses {
		u := &v.Uses[k]
		n := p.number[u.Var]
		if n < 0 {
			always(u.Wants[p.x[u.Var]])
			continue
		}
		for swap := range 2 {
			for _, h := range p.hopsTo(i, from, u.Wants[p.side(swap)[u.Var]]) {
				find(h).add(literal{n, swap == 1})
			}
		}
	}
	for k := range need {
		d := &need[k]
		if d.always {
			if maker >= 0 {
				cost := [2]int64{}
				cost[m] = d.hop.Cost
				s.unary(maker, cost[0], cost[1])
			}
			continue
		}
		p.enter(d, m)
	}
}

// needed is a hop and who may need it.
type needed struct {
	hop    Hop
	always bool
	of     []literal
}

// add adds a literal; a variable that needs the hop either way makes it needed always.
func (d *needed) add(l literal) {
	if d.always {
		return
	}
	for k := len(d.of) - 1; k >= 0 && d.of[k].v == l.v; k-- { // a variable's uses stand together
		if d.of[k].swap == l.swap {
			return
		}
		d.always = true
	}
	if !d.always {
		d.of = append(d.of, l)
	}
}

// enter adds the cost of a hop to the entry with the same literals.
func (p *pair) enter(d *needed, m int) {
	for k := range p.entries {
		if e := &p.entries[k]; slices.Equal(p.lits[e.first:e.end], d.of) {
			e.cost[m] = sum(e.cost[m], d.hop.Cost)
			return
		}
	}
	first := len(p.lits)
	p.lits = append(p.lits, d.of...)
	e := entry{first: first, end: len(p.lits)}
	e.cost[m] = d.hop.Cost
	p.entries = append(p.entries, e)
}
