package choose

import "context"

// Place is a choice that is changed variable by variable, with the costs that each change brings at hand. It is for one
// goroutine.
type Place struct {
	f    *facts
	x    []int32
	want [][]wanted // by value: the states that its readers want, as things are
}

// wanted is a state and how many uses want it.
type wanted struct {
	state int32
	uses  int32
}

// NewPlace returns the place of a choice, which it owns from then on. The error is ctx's, or wraps ErrProblem.
func NewPlace(ctx context.Context, p *Problem, x []int32) (*Place, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	f, err := newFacts(ctx, p)
	if err != nil {
		return nil, err
	}
	return newPlace(ctx, f, x)
}

func newPlace(ctx context.Context, f *facts, x []int32) (*Place, error) {
	l := &Place{f: f, x: x, want: make([][]wanted, len(f.p.Values))}
	for i := range f.p.Values {
		if i%often == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		v := &f.p.Values[i]
		for _, w := range v.Fixed {
			l.count(int32(i), w, 1)
		}
		for k := range v.Uses {
			l.count(int32(i), v.Uses[k].Wants[x[v.Uses[k].Var]], 1)
		}
	}
	return l, nil
}

// Choice returns the choice. It is the place's.
func (l *Place) Choice() []int32 { return l.x }

// count adds uses of a value in a state.
func (l *Place) count(value, state, by int32) {
	if state == None {
		return
	}
	list := l.want[value]
	for k := range list {
		if list[k].state == state {
			list[k].uses += by
			return
		}
	}
	l.want[value] = append(list, wanted{state, by})
}

// price returns what the conversions of a value cost.
func (l *Place) price(value int32) int64 {
	c := &l.f.price
	c.wants = c.wants[:0]
	for _, w := range l.want[value] {
		if w.uses > 0 {
			c.wants = append(c.wants, w.state)
		}
	}
	return c.cost(int(value), l.f.p.Values[value].made(l.x), c.wants...)
}

// around returns the part of the cost that depends on a variable.
func (l *Place) around(v int32) int64 {
	total := sum(l.f.p.Vars[v].Alts[l.x[v]].Cost, l.f.p.launch(v, l.x))
	reads := l.f.reads.at(v)
	for k, i := range reads {
		if k == 0 || reads[k-1] != i {
			total = sum(total, l.price(i))
		}
	}
	for _, i := range l.f.makes.at(v) {
		total = sum(total, l.price(i))
		for _, w := range l.f.joined.at(i) {
			total = sum(total, l.f.p.launch(w, l.x))
		}
	}
	return total
}

// Set gives a variable another alternative.
func (l *Place) Set(v, to int32) {
	reads := l.f.reads.at(v)
	for k, i := range reads {
		if k > 0 && reads[k-1] == i {
			continue
		}
		uses := l.f.p.Values[i].Uses
		for u := range uses {
			if uses[u].Var == v {
				l.count(i, uses[u].Wants[l.x[v]], -1)
				l.count(i, uses[u].Wants[to], 1)
			}
		}
	}
	l.x[v] = to
}

// Change returns by how much the sum grows when these variables take these alternatives, all at once. Nothing changes. It is
// Hard or more where that must not be. Claims are the caller's to keep whole.
func (l *Place) Change(vars, to []int32) int64 {
	before := make([]int32, len(vars))
	d := int64(0)
	for k, v := range vars {
		before[k] = l.x[v]
		d -= l.around(v)
		l.Set(v, to[k])
		d += l.around(v)
	}
	for k := len(vars) - 1; k >= 0; k-- {
		l.Set(vars[k], before[k])
	}
	return d
}

// improve lets each of the variables take its best alternative of its own, given all others, until none wants another one: iterated
// conditional modes. Among equals stays what is. Variables are looked at again where one next to them has changed.
func (l *Place) improve(ctx context.Context, vars []int32) error {
	settled := make([]bool, len(l.x))
	for sweep := 0; sweep < 8; sweep++ {
		changed := false
		for k := range vars {
			if k%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			v := vars[k]
			if sweep%2 == 1 {
				v = vars[len(vars)-1-k]
			}
			if settled[v] {
				continue
			}
			settled[v] = true
			if l.settle(v) {
				l.eachNear(v, func(w int32) { settled[w] = w == v })
				changed = true
			}
		}
		if !changed {
			break
		}
	}
	return nil
}

// settle gives a variable its best alternative of its own, given all others. It reports whether that is another one.
func (l *Place) settle(v int32) bool {
	alts := l.f.p.Vars[v].Alts
	was := l.x[v]
	if len(l.f.alts[v]) < 2 || alts[was].Claim >= 0 {
		return false
	}
	best, least := was, l.around(v)
	for _, a := range l.f.alts[v] {
		if a == was || alts[a].Claim >= 0 {
			continue
		}
		l.Set(v, a)
		if c := l.around(v); c < least {
			best, least = a, c
		}
	}
	l.Set(v, best)
	return best != was
}

// eachNear calls f with the variables that have a value in common with v, itself among them, some of them twice.
func (l *Place) eachNear(v int32, f func(w int32)) {
	near := func(i int32) {
		x := &l.f.p.Values[i]
		if x.Maker >= 0 {
			f(x.Maker)
		}
		for k := range x.Uses {
			f(x.Uses[k].Var)
		}
		for _, w := range l.f.joined.at(i) {
			f(w)
		}
	}
	for _, i := range l.f.reads.at(v) {
		near(i)
	}
	for _, i := range l.f.makes.at(v) {
		near(i)
	}
	if j := l.f.p.Vars[v].Joins; j >= 0 {
		near(j)
	}
}
