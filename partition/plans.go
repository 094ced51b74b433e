package partition

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/partition/internal/choose"
)

// Rival is a plan that a choice by cost was compared with: one backend has every node that it takes by itself, and of the rest
// the best is chosen.
type Rival struct {
	Backend     string
	Nanoseconds float64 // modelled, launches counted by groups
}

// plan is a choice with its groups known.
type plan struct {
	place  *choose.Place
	groups *grouping
	cost   int64 // launches counted by groups
	loose  bool  // groups may have unconnected parts
}

// best returns the cheapest plan with launches counted by groups: of the choice x, and of those that prefer one backend wherever
// it takes a node by itself, each regrouped. Among equals the choice comes first, then backends by name.
func (b *placing) best(ctx context.Context, x []int32, o *choose.Settings) (*choose.Place, error) {
	best, err := b.corrected(ctx, x, choose.Hard)
	if err != nil {
		return nil, err
	}
	p := b.s.result.placement
	for _, i := range b.taking() {
		rivals := b.preferring(i)
		if b.atLeast(rivals) >= best.cost {
			continue
		}
		r, err := choose.Solve(ctx, rivals, o)
		if err != nil {
			return nil, err
		}
		rival, err := b.corrected(ctx, r.Choice, best.cost)
		if err != nil {
			return nil, err
		}
		p.Rivals = append(p.Rivals, Rival{Backend: b.s.names[i], Nanoseconds: b.nanoseconds(rival.cost)})
		if rival.cost < best.cost {
			best = rival
		}
	}
	p.Corrected, p.Regrouped = b.nanoseconds(best.cost), best.groups.moved
	b.s.loose = best.loose
	return best.place, nil
}

// atLeast returns what no choice of a problem is below: each variable's cheapest alternative.
func (b *placing) atLeast(p *choose.Problem) int64 {
	total := int64(0)
	for v := range p.Vars {
		least := choose.Hard
		for k := range p.Vars[v].Alts {
			least = min(least, p.Vars[v].Alts[k].Cost)
		}
		total += least
	}
	return total
}

// taking returns the backends that take nodes by themselves, by name; none where there is one, whose plan is every choice.
func (b *placing) taking() []int {
	var list []int
	for v := range b.alts {
		for k := range b.alts[v] {
			if a := &b.alts[v][k]; a.set < 0 && !slices.Contains(list, a.c.Backend) {
				list = append(list, a.c.Backend)
			}
		}
	}
	slices.SortFunc(list, func(x, y int) int {
		if b.s.names[x] < b.s.names[y] {
			return -1
		}
		return 1
	})
	if len(list) < 2 {
		return nil
	}
	return list
}

// preferring returns the problem with every node on backend i that it takes by itself. Sets of i compete with their nodes; those
// of others that hold such a node are out.
func (b *placing) preferring(i int) *choose.Problem {
	own := make([]bool, len(b.nodes))
	for v := range b.alts {
		own[v] = slices.ContainsFunc(b.alts[v], func(a alternative) bool { return a.set < 0 && a.c.Backend == i })
	}
	out := func(a *alternative, v int32) bool {
		switch {
		case a.c.Backend == i:
			return false
		case a.set >= 0:
			return slices.ContainsFunc(b.sets[a.set].vars, func(w int32) bool { return own[w] })
		}
		return own[v]
	}
	p := b.problem
	p.Vars = slices.Clone(p.Vars)
	for v := range p.Vars {
		p.Vars[v].Alts = slices.Clone(p.Vars[v].Alts)
		for k := range p.Vars[v].Alts {
			if out(&b.alts[v][k], int32(v)) {
				p.Vars[v].Alts[k].Cost = choose.Hard
			}
		}
	}
	return &p
}
