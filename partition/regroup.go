package partition

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/partition/internal/choose"
)

// Bounds of the correction of groups.
const (
	regroupRounds = 4
	regroupNodes  = 64 // of a group that may be given away
)

// regroup corrects a choice when it is known which nodes come to lie in one group: launches are counted by group, and a group
// whose nodes cost less on the backend of a neighbour, where they need no launch of their own, goes there. It does so in
// rounds, each of which is kept where all groups together cost less afterwards.
func (b *placing) regroup(ctx context.Context, place *choose.Place) error {
	if !slices.ContainsFunc(b.launches, func(ns float64) bool { return ns > 0 }) {
		return nil
	}
	joined := b.problem.Launch
	defer func() { b.problem.Launch = joined }()
	b.problem.Launch = make([]int64, len(joined)) // groups pay now
	groups, err := b.groups(ctx, place, joined)
	if err != nil {
		return err
	}
	for range regroupRounds {
		before, total := slices.Clone(place.Choice()), b.problem.Cost(place.Choice())+groups.launches
		moved := 0
		for g := range groups.members {
			if g%64 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if b.giveAway(place, groups, int32(g), joined) {
				moved++
			}
		}
		if moved == 0 {
			return nil
		}
		next, err := b.groups(ctx, place, joined)
		if err != nil {
			return err
		}
		if b.problem.Cost(place.Choice())+next.launches >= total {
			for v, a := range before {
				place.Set(int32(v), a)
			}
			return nil
		}
		groups = next
		b.s.result.placement.Regrouped += moved
	}
	return nil
}

// grouping is the groups of a choice.
type grouping struct {
	of       []int32   // group by variable
	members  [][]int32 // variables by group
	backend  []int32
	launches int64 // what they cost in sum
}

// groups finds the groups that a choice comes to.
func (b *placing) groups(ctx context.Context, place *choose.Place, launch []int64) (*grouping, error) {
	order, err := b.s.g.Topo()
	if err != nil {
		return nil, err
	}
	x := place.Choice()
	for v, n := range b.nodes {
		b.s.backend[n.ID] = int32(b.alts[v][x[v]].c.Backend)
	}
	of, infos, err := b.s.group(ctx, order)
	for _, n := range b.nodes {
		b.s.backend[n.ID] = unassigned
	}
	if err != nil {
		return nil, err
	}
	g := &grouping{of: make([]int32, len(b.nodes)), members: make([][]int32, len(infos))}
	for v, n := range b.nodes {
		g.of[v] = of[n.ID]
		g.members[of[n.ID]] = append(g.members[of[n.ID]], int32(v))
	}
	for _, info := range infos {
		g.backend = append(g.backend, info.backend)
		g.launches += launch[info.backend]
	}
	return g, nil
}

// giveAway gives a group to the backend of a neighbour where that costs least, and less than it costs as it is. Groups that took
// part in a change in this round are left for the next.
func (b *placing) giveAway(place *choose.Place, g *grouping, group int32, launch []int64) bool {
	members := g.members[group]
	if len(members) > regroupNodes || len(members) == 0 {
		return false
	}
	around := b.neighbours(g, group)
	var bestTo []int32
	best, saved, into := int64(0), launch[g.backend[group]], int32(-1)
	for _, i := range b.backendsOf(g, around) {
		if i == g.backend[group] {
			continue
		}
		to := b.moveTo(place, members, i)
		if to == nil {
			continue
		}
		d := place.Change(members, to) - saved
		merged := 0
		for _, h := range around {
			if g.backend[h] == i {
				merged++
			}
		}
		d -= int64(merged-1) * launch[i] // what it connects becomes one group
		if d < best {
			best, bestTo, into = d, to, i
		}
	}
	if bestTo == nil {
		return false
	}
	for k, v := range members {
		place.Set(v, bestTo[k])
	}
	for _, h := range around {
		if g.backend[h] == into {
			g.members[h] = nil
		}
	}
	g.members[group] = nil
	return true
}

// neighbours returns the groups that read what a group makes, or make what it reads.
func (b *placing) neighbours(g *grouping, group int32) []int32 {
	var out []int32
	add := func(v int32) {
		if h := g.of[v]; h != group && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	for _, v := range g.members[group] {
		n := b.nodes[v]
		for _, x := range n.Inputs {
			if x != nil && x.Producer != nil && b.number[x.Producer.ID] >= 0 {
				add(b.number[x.Producer.ID])
			}
		}
		for _, x := range n.Outputs {
			if x == nil {
				continue
			}
			for _, u := range x.Uses() {
				if b.number[u.Node.ID] >= 0 {
					add(b.number[u.Node.ID])
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// backendsOf returns the backends of groups, by name.
func (b *placing) backendsOf(g *grouping, groups []int32) []int32 {
	var out []int32
	for _, h := range groups {
		if !slices.Contains(out, g.backend[h]) {
			out = append(out, g.backend[h])
		}
	}
	slices.SortFunc(out, func(x, y int32) int {
		if b.s.names[x] < b.s.names[y] {
			return -1
		}
		return 1
	})
	return out
}

// moveTo returns the alternatives with which a group's nodes go to backend i, each the best in turn; nil where one has none there,
// or a set would be torn that has nodes elsewhere.
func (b *placing) moveTo(place *choose.Place, members []int32, i int32) []int32 {
	x := place.Choice()
	before := make([]int32, len(members))
	for k, v := range members {
		before[k] = x[v]
		if s := b.alts[v][x[v]].set; s >= 0 {
			for _, w := range b.sets[s].vars {
				if !slices.Contains(members, w) {
					return nil
				}
			}
		}
	}
	to := make([]int32, len(members))
	ok := true
	for k, v := range members {
		to[k] = b.alone(place, v, func(a *alternative) bool { return int32(a.c.Backend) == i })
		if ok = to[k] >= 0; !ok {
			break
		}
		place.Set(v, to[k])
	}
	for k, v := range members {
		place.Set(v, before[k])
	}
	if !ok {
		return nil
	}
	return to
}
