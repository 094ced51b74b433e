package choose

import (
	"context"
	"slices"
)

// propose hands proposals to try, until that says no: the cheapest alternatives of each color, and of each state that values
// are made in, as far as variables have such; with the claims of the color, and without.
func (w *search) propose(try func(y []int32) (bool, error)) error {
	f := w.s.f
	var colors, states []int32
	for _, v := range w.vars {
		for _, a := range f.alts[v] {
			if c := f.p.Vars[v].Alts[a].Color; !contains(colors, c) {
				colors = append(colors, c)
			}
		}
		for _, i := range f.makes.at(v) {
			for _, a := range f.alts[v] {
				if s := f.p.Values[i].Made[a]; !contains(states, s) && len(states) < maxStates {
					states = append(states, s)
				}
			}
		}
	}
	slices.Sort(colors)
	slices.Sort(states)
	for _, claims := range []bool{true, false} {
		for _, c := range colors {
			y := w.proposal(claims, func(_, _ int32, a *Alt) bool { return a.Color == c })
			if more, err := try(y); !more || err != nil {
				return err
			}
		}
	}
	for _, s := range states {
		y := w.proposal(false, func(v, a int32, _ *Alt) bool {
			for _, i := range f.makes.at(v) {
				if f.p.Values[i].Made[a] == s {
					return true
				}
			}
			return false
		})
		if more, err := try(y); !more || err != nil {
			return err
		}
	}
	return nil
}

// maxStates bounds the proposals.
const maxStates = 16

// proposal returns a choice of alternatives that fit, the cheapest of each variable, and of claims whose variables have
// one that fits. Variables without such stay as they are, unless that would tear a claim apart.
func (w *search) proposal(claims bool, fits func(v, a int32, alt *Alt) bool) []int32 {
	f := w.s.f
	y := slices.Clone(w.s.x)
	set := make([]bool, len(y))
	if claims {
		c := f.claimed()
		for _, id := range c.order {
			w.claim(y, set, id, c.members[id], fits)
		}
	}
	for _, v := range w.vars {
		if set[v] {
			continue
		}
		if a := w.cheapest(v, func(a int32) bool { return fits(v, a, &f.p.Vars[v].Alts[a]) }); a >= 0 {
			y[v], set[v] = a, true
		}
	}
	w.mend(y)
	return y
}

// claim takes a claim where all of its variables are free and it fits.
func (w *search) claim(y []int32, set []bool, id int32, members []int32, fits func(v, a int32, alt *Alt) bool) {
	f := w.s.f
	alts := make([]int32, len(members))
	for k, v := range members {
		at := slices.IndexFunc(f.p.Vars[v].Alts, func(a Alt) bool { return a.Claim == id })
		if set[v] || w.fixed[v] || !slices.Contains(f.alts[v], int32(at)) || !fits(v, int32(at), &f.p.Vars[v].Alts[at]) {
			return
		}
		alts[k] = int32(at)
	}
	for k, v := range members {
		y[v], set[v] = alts[k], true
	}
}

// cheapest returns the cheapest alternative of a variable that is no claim's; None where none fits.
func (w *search) cheapest(v int32, fits func(a int32) bool) int32 {
	f := w.s.f
	best, least := None, Hard
	for _, a := range f.alts[v] {
		if alt := &f.p.Vars[v].Alts[a]; alt.Claim < 0 && alt.Cost < least && fits(a) {
			best, least = a, alt.Cost
		}
	}
	return best
}

// mend takes what is left of claims that were torn apart by the cheapest alternatives by themselves.
func (w *search) mend(y []int32) {
	f := w.s.f
	taken := map[int32]int{}
	for _, v := range w.vars {
		if c := f.p.Vars[v].Alts[y[v]].Claim; c >= 0 {
			taken[c]++
		}
	}
	if len(taken) == 0 {
		return
	}
	members := f.claimed().members
	for _, v := range w.vars {
		c := f.p.Vars[v].Alts[y[v]].Claim
		if c < 0 || taken[c] == len(members[c]) {
			continue
		}
		if a := w.cheapest(v, func(int32) bool { return true }); a >= 0 {
			y[v] = a
		}
	}
}

// claims takes each claim, in place of what its variables and those of claims that it overlaps are, and dissolves each that is
// taken, where that makes the sum smaller. It reports whether it did.
func (w *search) claims(ctx context.Context, place *Place) (bool, error) {
	some := false
	for k, id := range w.s.f.claimed().order {
		if k%256 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		vars, to, ok := w.toggle(id)
		if ok && place.Change(vars, to) < 0 {
			for i, v := range vars {
				place.Set(v, to[i])
			}
			some = true
		}
	}
	return some, nil
}

// toggle returns what changes when a claim is taken, or dissolved where it is taken.
func (w *search) toggle(id int32) (vars, to []int32, ok bool) {
	f, x := w.s.f, w.s.x
	any := func(int32) bool { return true }
	members := f.claimed().members[id]
	for _, v := range members {
		if w.fixed[v] {
			return nil, nil, false
		}
	}
	taken := f.p.Vars[members[0]].Alts[x[members[0]]].Claim == id
	for _, v := range members {
		at := int32(slices.IndexFunc(f.p.Vars[v].Alts, func(a Alt) bool { return a.Claim == id }))
		if taken {
			at = w.cheapest(v, any)
		}
		if at < 0 {
			return nil, nil, false
		}
		vars, to = append(vars, v), append(to, at)
	}
	for k := 0; k < len(members) && !taken; k++ {
		other := f.p.Vars[members[k]].Alts[x[members[k]]].Claim
		if other < 0 {
			continue
		}
		for _, v := range f.claimed().members[other] {
			if contains(vars, v) {
				continue
			}
			at := w.cheapest(v, any)
			if at < 0 {
				return nil, nil, false
			}
			vars, to = append(vars, v), append(to, at)
		}
	}
	return vars, to, true
}
