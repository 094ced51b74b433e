package choose

import "slices"

// tie is two variables that have a claim in common.
type tie struct{ a, b int32 }

// claimed are the variables of each claim.
type claimed struct {
	members map[int32][]int32
	order   []int32 // of claims
}

func (p *Problem) claimed() claimed {
	c := claimed{members: map[int32][]int32{}}
	for v := range p.Vars {
		for _, a := range p.Vars[v].Alts {
			if a.Claim < 0 {
				continue
			}
			if c.members[a.Claim] == nil {
				c.order = append(c.order, a.Claim)
			}
			c.members[a.Claim] = append(c.members[a.Claim], int32(v))
		}
	}
	slices.Sort(c.order)
	return c
}

// claimed returns the variables of each claim, which are found once.
func (f *facts) claimed() *claimed {
	if f.sets == nil {
		c := f.p.claimed()
		f.sets = &c
	}
	return f.sets
}

// tied returns ties, which are found once.
func (f *facts) tied() []tie {
	if !f.known {
		f.claims, f.known = f.ties(), true
	}
	return f.claims
}

// ties returns pairs of variables along which claims hold together: a tree for each claim, whose branches follow values where
// there are some between its variables.
func (f *facts) ties() []tie {
	c := f.claimed()
	var out []tie
	seen := map[tie]bool{}
	add := func(a, b int32) {
		t := tie{min(a, b), max(a, b)}
		if !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	for _, id := range c.order {
		reached := []int32{c.members[id][0]}
		left := slices.Clone(c.members[id][1:])
		for len(left) > 0 {
			k, to := 0, reached[len(reached)-1]
			for i, v := range left {
				if r := f.neighbour(v, reached); r >= 0 {
					k, to = i, r
					break
				}
			}
			add(left[k], to)
			reached = append(reached, left[k])
			left = slices.Delete(left, k, k+1)
		}
	}
	return out
}

// neighbour returns one of the variables that v makes a value for or reads one of; None where it does neither.
func (f *facts) neighbour(v int32, of []int32) int32 {
	for _, i := range f.reads.at(v) {
		if m := f.p.Values[i].Maker; m >= 0 && contains(of, m) {
			return m
		}
	}
	for _, i := range f.makes.at(v) {
		for k := range f.p.Values[i].Uses {
			if u := f.p.Values[i].Uses[k].Var; contains(of, u) {
				return u
			}
		}
	}
	return None
}

// together reports whether variables may be parts of these claims at one time, as far as the two can tell.
func (f *facts) together(a, b, claimA, claimB int32) bool {
	return claimA == claimB || (claimA < 0 || !f.has(b, claimA)) && (claimB < 0 || !f.has(a, claimB))
}

func (f *facts) has(v, claim int32) bool {
	return slices.ContainsFunc(f.p.Vars[v].Alts, func(a Alt) bool { return a.Claim == claim })
}
