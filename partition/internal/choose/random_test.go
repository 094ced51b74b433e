package choose_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/carve-dev/carve/partition/internal/choose"
)

// shape says what random problems are like.
type shape struct {
	vars     int     // at most
	alts     int     // at most, of each
	near     int     // how far back operands lie
	operands int     // at most
	states   int     // of values
	claims   int     // sets that are tried
	fixed    float64 // share of values that are wanted anyway
	spread   int64   // of costs
	aligned  bool    // alternative k makes and reads state k
}

// state returns the state of an alternative.
func (s *shape) state(rng *rand.Rand, alt int) int32 {
	if s.aligned {
		return int32(alt)
	}
	return int32(rng.IntN(s.states))
}

// small are problems whose assignments can be counted: up to 3^12.
var small = shape{vars: 12, alts: 3, near: 6, operands: 3, states: 3, claims: 3, fixed: 0.1, spread: 100}

// random returns a problem like a graph of operators: each variable makes one value or two, and reads up to a few. Conversions
// go by way of state 0 where there is no direct one, so that ways share hops.
func random(rng *rand.Rand, s shape) *choose.Problem {
	n := 2 + rng.IntN(s.vars-1)
	colors := 1 + rng.IntN(3)
	p := &choose.Problem{}
	for range colors {
		p.Launch = append(p.Launch, rng.Int64N(s.spread/2))
	}
	for range 1 + rng.IntN(2) {
		p.Values = append(p.Values, choose.Value{Maker: choose.None, Made: []int32{0}})
	}
	for v := range n {
		x := choose.Var{Joins: choose.None}
		alts := 1 + rng.IntN(s.alts)
		for k := range alts {
			a := choose.Alt{Cost: rng.Int64N(s.spread), Color: int32(rng.IntN(colors+1)) - 1, Claim: choose.None}
			if s.aligned {
				a.Color = int32(k % colors)
			}
			x.Alts = append(x.Alts, a)
		}
		for range 1 + rng.IntN(s.operands) {
			value := max(0, len(p.Values)-1-rng.IntN(s.near))
			u := choose.Use{Var: int32(v)}
			for k := range alts {
				u.Wants = append(u.Wants, s.state(rng, k))
			}
			p.Values[value].Uses = append(p.Values[value].Uses, u)
			if p.Values[value].Maker >= 0 && rng.IntN(2) == 0 {
				x.Joins = int32(value)
			}
		}
		p.Vars = append(p.Vars, x)
		for range 1 + rng.IntN(6)/5 {
			out := choose.Value{Maker: int32(v)}
			for k := range alts {
				out.Made = append(out.Made, s.state(rng, k))
			}
			if rng.Float64() < s.fixed {
				out.Fixed = append(out.Fixed, int32(rng.IntN(s.states)))
			}
			p.Values = append(p.Values, out)
		}
	}
	for id := range s.claims {
		claim(rng, p, int32(id), s)
	}
	p.Hops = randomHops(rng, s, len(p.Values))
	return p
}

// claim adds an alternative that covers a few variables, between which nothing is converted.
func claim(rng *rand.Rand, p *choose.Problem, id int32, s shape) {
	first := rng.IntN(len(p.Vars))
	size := min(2+rng.IntN(2), len(p.Vars)-first)
	if size < 2 {
		return
	}
	for v := first; v < first+size; v++ {
		if len(p.Vars[v].Alts) >= s.alts+1 {
			return
		}
	}
	in := func(v int32) bool { return int(v) >= first && int(v) < first+size }
	cost, color := rng.Int64N(s.spread), int32(rng.IntN(len(p.Launch)))
	for v := first; v < first+size; v++ {
		p.Vars[v].Alts = append(p.Vars[v].Alts, choose.Alt{Cost: cost, Color: color, Claim: id})
		cost = 0
	}
	for i := range p.Values {
		x := &p.Values[i]
		if in(x.Maker) {
			x.Made = append(x.Made, int32(rng.IntN(s.states)))
		}
		for k := range x.Uses {
			if in(x.Uses[k].Var) {
				want := int32(rng.IntN(s.states))
				if in(x.Maker) {
					want = choose.None
				}
				x.Uses[k].Wants = append(x.Uses[k].Wants, want)
			}
		}
	}
}

// randomHops returns costs of hops, per value; some pairs of states have no direct way.
func randomHops(rng *rand.Rand, s shape, values int) func([]choose.Hop, int, int32, int32) ([]choose.Hop, bool) {
	cost := make([]int64, s.states*s.states)
	direct := make([]bool, s.states*s.states)
	for i := range cost {
		cost[i], direct[i] = rng.Int64N(s.spread), rng.IntN(4) > 0
	}
	factor := make([]int64, values)
	for i := range factor {
		factor[i] = 1 + rng.Int64N(3)
	}
	dead := rng.IntN(8) == 0 // the last state cannot be left
	return func(list []choose.Hop, value int, from, to int32) ([]choose.Hop, bool) {
		if dead && s.states > 1 && int(from) == s.states-1 {
			return list, false
		}
		hop := func(a, b int32) choose.Hop {
			k := int(a)*s.states + int(b)
			return choose.Hop{ID: int32(k), Cost: cost[k] * factor[value]}
		}
		if from == 0 || to == 0 || direct[int(from)*s.states+int(to)] {
			return append(list, hop(from, to)), true
		}
		return append(list, hop(from, 0), hop(0, to)), true
	}
}

// price is what a choice costs, counted in the plainest way; it shares nothing with the package.
func price(p *choose.Problem, x []int32) int64 {
	total := int64(0)
	for v, y := range p.Vars {
		a := y.Alts[x[v]]
		total += a.Cost
		if a.Claim >= 0 {
			for w, z := range p.Vars {
				has := slices.ContainsFunc(z.Alts, func(b choose.Alt) bool { return b.Claim == a.Claim })
				if has && z.Alts[x[w]].Claim != a.Claim {
					return choose.Hard
				}
			}
		}
		if a.Color < 0 {
			continue
		}
		shared := false
		if y.Joins >= 0 {
			m := p.Values[y.Joins].Maker
			shared = m >= 0 && p.Vars[m].Alts[x[m]].Color == a.Color
		}
		if !shared {
			total += p.Launch[a.Color]
		}
	}
	for i, v := range p.Values {
		from := v.Made[0]
		if v.Maker >= 0 {
			from = v.Made[x[v.Maker]]
		}
		paid := map[int32]int64{}
		want := func(to int32) bool {
			if to == choose.None || to == from {
				return true
			}
			hops, ok := p.Hops(nil, i, from, to)
			for _, h := range hops {
				paid[h.ID] = h.Cost
			}
			return ok
		}
		for _, to := range v.Fixed {
			if !want(to) {
				return choose.Hard
			}
		}
		for _, u := range v.Uses {
			if !want(u.Wants[x[u.Var]]) {
				return choose.Hard
			}
		}
		for _, c := range paid {
			total += c
		}
	}
	return total
}

// brute returns the least cost of all choices, and the number of choices.
func brute(p *choose.Problem) (least int64, choices int) {
	x := make([]int32, len(p.Vars))
	least = choose.Hard
	for {
		choices++
		least = min(least, price(p, x))
		v := 0
		for ; v < len(x); v++ {
			if x[v]++; int(x[v]) < len(p.Vars[v].Alts) {
				break
			}
			x[v] = 0
		}
		if v == len(x) {
			return least, choices
		}
	}
}

// text writes a problem for a message.
func text(p *choose.Problem) string {
	s := fmt.Sprintf("launch %v\n", p.Launch)
	for i, v := range p.Vars {
		s += fmt.Sprintf("var %d: %+v\n", i, v)
	}
	for i, v := range p.Values {
		s += fmt.Sprintf("value %d: %+v\n", i, v)
	}
	return s
}
