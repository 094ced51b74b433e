package choose

import (
	"context"
	"slices"
)

// Resolve chooses some variables anew while all others stay as they are. It returns the alternatives of vars, which are in
// ascending order, and by how much the sum grows with them; nothing changes. allow says which alternatives may be taken; one of a
// claim that has variables elsewhere is the caller's to refuse. Where nothing is allowed the sum grows by Hard. Cost: that of
// Solve for the part, whose neighbours have one alternative each.
func (l *Place) Resolve(ctx context.Context, vars []int32, allow func(v, alt int32) bool, o *Settings) (to []int32, by int64, err error) {
	if to, by, ok := l.each(vars, allow); ok {
		return to, by, nil
	}
	s := &part{l: l, p: &Problem{Launch: l.f.p.Launch}, of: map[int32]int32{}, values: map[int32]int32{}}
	s.p.Hops = func(list []Hop, value int, from, to int32) ([]Hop, bool) {
		return l.f.p.Hops(list, int(s.list[value]), from, to)
	}
	for _, v := range vars {
		if !s.variable(v, allow) {
			return nil, Hard, nil
		}
	}
	for k, v := range vars {
		for _, i := range l.f.reads.at(v) {
			s.value(i)
		}
		for _, i := range l.f.makes.at(v) {
			s.value(i)
			for _, w := range l.f.joined.at(i) {
				s.fixed(w)
			}
		}
		if j := l.f.p.Vars[v].Joins; j >= 0 {
			s.p.Vars[k].Joins = s.value(j)
		}
	}
	for v, k := range s.of { // the neighbours' launches depend on variables of the part alone
		if j := l.f.p.Vars[v].Joins; int(k) >= len(vars) && j >= 0 {
			if i, ok := s.values[j]; ok {
				s.p.Vars[k].Joins = i
			}
		}
	}
	s.uses(vars)
	r, err := Solve(ctx, s.p, o)
	if err != nil {
		return nil, 0, err
	}
	for k := range vars {
		to = append(to, s.alts[k][r.Choice[k]])
	}
	if r.Cost >= Hard {
		return to, Hard, nil
	}
	return to, l.Change(vars, to), nil
}

// fewChoices is how many choices each looks at.
const fewChoices = 24

// each is Resolve where there are few choices: it looks at each, and takes the first of the best. It reports false where they are more.
func (l *Place) each(vars []int32, allow func(v, alt int32) bool) (best []int32, by int64, ok bool) {
	alts, choices := make([][]int32, len(vars)), 1
	for i, v := range vars {
		for k := range l.f.p.Vars[v].Alts {
			if allow(v, int32(k)) {
				alts[i] = append(alts[i], int32(k))
			}
		}
		if choices *= len(alts[i]); choices > fewChoices || choices > 1 && i > 2 {
			return nil, 0, false
		}
	}
	by = Hard
	to := make([]int32, len(vars))
	for n := range choices {
		for i := len(vars) - 1; i >= 0; i-- {
			to[i] = alts[i][n%len(alts[i])]
			n /= len(alts[i])
		}
		if !l.whole(vars, to) {
			continue
		}
		if d := l.Change(vars, to); d < by {
			best, by = append(best[:0], to...), d
		}
	}
	return best, by, true
}

// whole reports whether of each claim among these alternatives all of the variables take it that have it.
func (l *Place) whole(vars, to []int32) bool {
	for i, v := range vars {
		claim := l.f.p.Vars[v].Alts[to[i]].Claim
		for k, w := range vars {
			if claim >= 0 && l.f.p.Vars[w].Alts[to[k]].Claim != claim && l.f.has(w, claim) {
				return false
			}
		}
	}
	return true
}

// Conversions returns what the conversions of all values cost that some variables read or make, those that several read once for
// each.
func (l *Place) Conversions(vars []int32) int64 {
	total := int64(0)
	for _, v := range vars {
		for _, list := range [][]int32{l.f.reads.at(v), l.f.makes.at(v)} {
			for _, i := range list {
				total = sum(total, l.price(i))
			}
		}
	}
	return total
}

// part is a problem of some variables of another one.
type part struct {
	l      *Place
	p      *Problem
	of     map[int32]int32 // variables of the part by those of the whole
	alts   [][]int32       // alternatives of the whole by variable of the part
	values map[int32]int32 // values of the part by those of the whole
	list   []int32         // values of the whole
}

// variable adds one that is chosen. It reports whether there is something to choose from.
func (s *part) variable(v int32, allow func(v, alt int32) bool) bool {
	var alts []int32
	x := Var{Joins: None}
	for k := range s.l.f.p.Vars[v].Alts {
		if allow(v, int32(k)) {
			alts = append(alts, int32(k))
			x.Alts = append(x.Alts, s.l.f.p.Vars[v].Alts[k])
		}
	}
	s.of[v] = int32(len(s.p.Vars))
	s.p.Vars, s.alts = append(s.p.Vars, x), append(s.alts, alts)
	return len(alts) > 0
}

// fixed adds one that stays as it is, unless it is there, and returns its number.
func (s *part) fixed(v int32) int32 {
	if k, ok := s.of[v]; ok {
		return k
	}
	k := int32(len(s.p.Vars))
	s.of[v] = k
	alt := s.l.f.p.Vars[v].Alts[s.l.x[v]]
	s.p.Vars = append(s.p.Vars, Var{Joins: None, Alts: []Alt{{Color: alt.Color, Claim: None}}})
	s.alts = append(s.alts, []int32{s.l.x[v]})
	return k
}

// value adds one, unless it is there, and returns its number. Its uses come last.
func (s *part) value(i int32) int32 {
	if k, ok := s.values[i]; ok {
		return k
	}
	v := &s.l.f.p.Values[i]
	x := Value{Maker: None, Fixed: slices.Clone(v.Fixed), Made: v.Made}
	if v.Maker >= 0 {
		x.Maker = s.fixed(v.Maker)
		x.Made = nil
		for _, a := range s.alts[x.Maker] {
			x.Made = append(x.Made, v.Made[a])
		}
	}
	k := int32(len(s.p.Values))
	s.values[i] = k
	s.p.Values, s.list = append(s.p.Values, x), append(s.list, i)
	return k
}

// uses adds the uses of the values: those of other variables are states that are wanted whatever is chosen.
func (s *part) uses(vars []int32) {
	for k := range s.p.Values {
		out := &s.p.Values[k]
		for _, u := range s.l.f.p.Values[s.list[k]].Uses {
			if _, chosen := slices.BinarySearch(vars, u.Var); !chosen {
				if w := u.Wants[s.l.x[u.Var]]; w != None && !contains(out.Fixed, w) {
					out.Fixed = append(out.Fixed, w)
				}
				continue
			}
			own := Use{Var: s.of[u.Var]}
			for _, a := range s.alts[own.Var] {
				own.Wants = append(own.Wants, u.Wants[a])
			}
			out.Uses = append(out.Uses, own)
		}
	}
}
