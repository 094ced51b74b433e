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

// corrected returns the plan of a choice when it is known which nodes come to lie in one group. Launches are counted by group
// then, and groups that do not earn their launch and the conversions around them dissolve: the part of the choice that is theirs
// is solved again without their backend. It does so in rounds, each of which is kept where all groups together cost less
// afterwards. A plan that cannot cost less than below is not loosened.
func (b *placing) corrected(ctx context.Context, x []int32, below int64) (*plan, error) {
	place, err := choose.NewPlace(ctx, &b.problem, x)
	if err != nil {
		return nil, err
	}
	joined := b.problem.Launch
	defer func() { b.problem.Launch = joined }()
	b.problem.Launch = make([]int64, len(joined)) // groups pay now
	groups, err := b.groups(ctx, place, joined)
	if err != nil {
		return nil, err
	}
	p := &plan{place: place, groups: groups, cost: b.problem.Cost(x) + groups.launches}
	for range regroupRounds {
		if groups.launches == 0 {
			break
		}
		before := slices.Clone(place.Choice())
		moved := 0
		for g := range groups.members {
			if g%64 == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			ok, err := b.dissolve(ctx, place, groups, int32(g), joined)
			if err != nil {
				return nil, err
			}
			if ok {
				moved++
			}
		}
		if moved == 0 {
			break
		}
		next, err := b.groups(ctx, place, joined)
		if err != nil {
			return nil, err
		}
		cost := b.problem.Cost(place.Choice()) + next.launches
		if cost >= p.cost {
			for v, a := range before {
				place.Set(int32(v), a)
			}
			break
		}
		next.moved = groups.moved + moved
		groups = next
		p.groups, p.cost = groups, cost
	}
	if p.cost-groups.launches >= below {
		return p, nil
	}
	return p, b.loosen(ctx, p, joined)
}

// worthLoosening is the part of a plan's time that groups of unconnected parts have to save by their launches, since they hold
// their memory for longer.
const worthLoosening = 0.01

// loosen allows a plan groups of unconnected parts where the launches that this saves are worth it.
func (b *placing) loosen(ctx context.Context, p *plan, launch []int64) error {
	least := int64(worthLoosening * float64(p.cost))
	if b.s.o.Disconnected || p.groups.launches <= least {
		return nil
	}
	b.s.loose = true
	groups, err := b.groups(ctx, p.place, launch)
	b.s.loose = false
	if err != nil {
		return err
	}
	if saved := p.groups.launches - groups.launches; saved > least {
		groups.moved = p.groups.moved
		p.groups, p.loose, p.cost = groups, true, p.cost-saved
	}
	return nil
}

// grouping is the groups of a choice.
type grouping struct {
	of       []int32   // group by variable
	members  [][]int32 // variables by group
	backend  []int32
	launches int64 // what they cost in sum
	moved    int   // groups that were given away before
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

// dissolve gives the nodes of a group to other backends where that costs less, in conversions and launches as well. Groups that
// took part in a change in this round are left for the next.
func (b *placing) dissolve(ctx context.Context, place *choose.Place, g *grouping, group int32, launch []int64) (bool, error) {
	members := g.members[group]
	if len(members) > regroupNodes || len(members) == 0 {
		return false, nil
	}
	around := b.neighbours(g, group)
	most := launch[g.backend[group]] // that can be saved
	for _, h := range around {
		most += launch[g.backend[h]]
	}
	allow := b.without(members, g.backend[group])
	if b.dearer(place, members, allow) >= most+place.Conversions(members) || b.torn(place, members) {
		return false, nil
	}
	to, by, err := place.Resolve(ctx, members, allow, nil)
	if err != nil || by >= choose.Hard {
		return false, err
	}
	into := b.backendsAt(members, to)
	by -= launch[g.backend[group]]
	for _, i := range into {
		near := 0
		for _, h := range around {
			if g.backend[h] == i {
				near++
			}
		}
		if near == 0 {
			by += launch[i]
		} else if len(into) == 1 {
			by -= int64(near-1) * launch[i] // what it connects becomes one group
		}
	}
	if by >= 0 {
		return false, nil
	}
	for k, v := range members {
		place.Set(v, to[k])
	}
	for _, h := range around {
		if slices.Contains(into, g.backend[h]) {
			g.members[h] = nil
		}
	}
	g.members[group] = nil
	return true, nil
}

// without returns what a group's nodes may be that leave a backend: single nodes, and sets that lie within the group.
func (b *placing) without(members []int32, backend int32) func(v, alt int32) bool {
	return func(v, alt int32) bool {
		a := &b.alts[v][alt]
		if int32(a.c.Backend) == backend {
			return false
		}
		return a.set < 0 || !slices.ContainsFunc(b.sets[a.set].vars, func(w int32) bool {
			_, in := slices.BinarySearch(members, w)
			return !in
		})
	}
}

// dearer returns by how much the times of nodes grow at least with what is allowed; Hard where one has nothing.
func (b *placing) dearer(place *choose.Place, members []int32, allow func(v, alt int32) bool) int64 {
	x, by := place.Choice(), int64(0)
	for _, v := range members {
		alts := b.problem.Vars[v].Alts
		least := choose.Hard
		for k := range alts {
			if alts[k].Cost < least && allow(v, int32(k)) {
				least = alts[k].Cost
			}
		}
		if least >= choose.Hard {
			return choose.Hard
		}
		by += least - alts[x[v]].Cost
	}
	return by
}

// torn reports whether a set that was chosen lies in part in a group.
func (b *placing) torn(place *choose.Place, members []int32) bool {
	x := place.Choice()
	for _, v := range members {
		if s := b.alts[v][x[v]].set; s >= 0 {
			for _, w := range b.sets[s].vars {
				if _, in := slices.BinarySearch(members, w); !in {
					return true
				}
			}
		}
	}
	return false
}

// backendsAt returns the backends of alternatives, each once.
func (b *placing) backendsAt(members, to []int32) (list []int32) {
	for k, v := range members {
		if i := int32(b.alts[v][to[k]].c.Backend); !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	return list
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
