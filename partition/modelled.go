package partition

import (
	"context"
	"fmt"
	"time"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition/internal/choose"
	"github.com/carve-dev/carve/property"
)

// Modelled is the Chooser by cost: it collects the candidates of all backends, and takes those whose modelled times, with the
// conversions between them and the launches of groups, are least in sum. Backends and signatures are chosen together, so that
// ChooseFormats has nothing left to choose: of each candidate the signatures count in all formats that their variables can
// take, up to 16. A conversion counts once per value and format, with hops that several ways share counted once. Whole sets
// compete with their parts.
//
// A node pays for a launch where the producer of its first computed operand is on another backend; sets of nodes that hang
// together in other ways only have their launches corrected afterwards, when groups are known: groups that do not earn their
// launch and the conversions around them dissolve, and groups may have unconnected parts where the launches that this saves are a
// hundredth of the time. Plans that prefer one backend wherever it takes a node are looked at as wholes, and none that is cheaper
// is missed.
//
// Of choices that cost the same, that with the most on earlier backends is taken; the order of the list means nothing else. What
// a property adjusts, in place of fusing it, it adjusts for all backends, though.
type Modelled struct {
	// Launches are the nanoseconds that it takes to begin a group, by backend; those that are missing count nothing.
	Launches []float64
	// Budget ends the search where the optimum is not found by then; what is best is taken. 0 means no bound in time.
	Budget time.Duration
	// Times are measured times, which count in place of modelled ones; nil means none.
	Times Times
}

// Placement tells how good a choice by cost is.
type Placement struct {
	Nanoseconds float64 // modelled, of what was chosen, launches as counted before groups are known
	Bound       float64 // no choice costs less
	Corrected   float64 // modelled, of what was taken when groups were known, launches counted by them
	Regrouped   int     // groups that dissolved, since they did not earn their launch and conversions
	// Rivals are the plans that prefer one backend, by its name, as far as they were worth a look: none is below Corrected.
	Rivals []Rival
}

// Gap returns how far the choice may be from the least cost, as a share of that.
func (p *Placement) Gap() float64 {
	if p.Bound <= 0 || p.Nanoseconds <= p.Bound {
		return 0
	}
	return (p.Nanoseconds - p.Bound) / p.Bound
}

// Choose implements Chooser.
func (m *Modelled) Choose(ctx context.Context, t *Candidates) error {
	b := &placing{t: t, s: t.s, launches: m.Launches, times: m.Times}
	for i := range t.Backends() {
		err := t.Collect(ctx, i, func(c *Candidate) bool {
			b.offer(c)
			return false
		})
		if err != nil {
			return err
		}
	}
	t.s.result.placement = &Placement{}
	complete, err := b.variables()
	if err != nil || !complete {
		return err // what nobody runs is the partition's error
	}
	if len(b.nodes) == 0 {
		return nil
	}
	x, err := b.solve(ctx, m.Budget)
	if err != nil {
		return err
	}
	place, err := b.best(ctx, x, &choose.Settings{Budget: m.Budget})
	if err != nil {
		return err
	}
	if err := b.losses(ctx, place); err != nil {
		return err
	}
	return b.take(place)
}

// solve finds the best choice. Where that is certain, ties are part of the costs: those of earlier backends count one less in the
// lowest bits. A search that is not certain is made without them, so that it does not depend on the order of backends.
func (b *placing) solve(ctx context.Context, budget time.Duration) ([]int32, error) {
	pose := func(ties bool) (*choose.Solution, error) {
		if err := b.pose(ctx, ties); err != nil {
			return nil, err
		}
		return choose.Solve(ctx, &b.problem, &choose.Settings{Budget: budget, Certain: ties})
	}
	r, err := pose(true)
	if err == nil && r.Choice == nil {
		r, err = pose(false)
	}
	if err != nil {
		return nil, err
	}
	p := b.s.result.placement
	p.Nanoseconds, p.Bound = b.nanoseconds(r.Cost), b.nanoseconds(r.Bound)
	if b.s.o.Logger != nil {
		b.s.o.Logger.DebugContext(ctx, "placement", "nodes", len(b.nodes), "nanoseconds", p.Nanoseconds, "bound", p.Bound,
			"cores", r.Tables+r.Cuts+r.Searches, "searched", r.Vars)
	}
	return r.Choice, nil
}

// take takes what was chosen: sets first, which change the graph. A set that cannot be taken, since those before it have made it
// depend on itself, is taken apart.
func (b *placing) take(place *choose.Place) error {
	x := place.Choice()
	for v := range b.nodes {
		a := &b.alts[v][x[v]]
		if a.set < 0 || b.sets[a.set].vars[0] != int32(v) {
			continue
		}
		ok, err := b.accept(a)
		if err != nil {
			return err
		}
		if !ok {
			b.apart(place, a.set, func(int32, *alternative) bool { return true })
		}
	}
	for v := range b.nodes {
		if a := &b.alts[v][x[v]]; a.set < 0 {
			ok, err := b.accept(a)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("%w: node %v is taken twice", ErrPlan, b.nodes[v])
			}
		}
	}
	return nil
}

// accept takes a candidate with the one signature that was chosen.
func (b *placing) accept(a *alternative) (bool, error) {
	if !b.s.o.Isolated { // where each node converts by itself, formats are chosen for that
		a.c.Signatures = []graph.Signature{a.sig}
	}
	return b.t.Take(a.c)
}

// apart gives the nodes of a set what is best for each by itself, of what fits, and returns by how much the sum grows; Hard where one
// has nothing, and stays. What is best is found with all of them by themselves: next to a set's parts nothing is.
func (b *placing) apart(place *choose.Place, set int32, fits func(v int32, a *alternative) bool) int64 {
	vars := b.sets[set].vars
	to := make([]int32, len(vars))
	for i, v := range vars {
		alts, least := b.problem.Vars[v].Alts, choose.Hard
		to[i] = -1
		for k := range alts {
			if a := &b.alts[v][k]; a.set < 0 && alts[k].Cost < least && fits(v, a) {
				to[i], least = int32(k), alts[k].Cost
			}
		}
		if to[i] < 0 {
			return choose.Hard
		}
	}
	by := place.Change(vars, to)
	for i, v := range vars {
		place.Set(v, to[i])
	}
	for range 2 {
		for _, v := range vars {
			if at := b.alone(place, v, func(a *alternative) bool { return fits(v, a) }); at >= 0 {
				by += place.Change([]int32{v}, []int32{at})
				place.Set(v, at)
			}
		}
	}
	return by
}

// alone returns the best alternative of a variable that is a single node's, among those that fit; -1 where there is none.
func (b *placing) alone(place *choose.Place, v int32, fits func(a *alternative) bool) int32 {
	best, least := int32(-1), choose.Hard
	for k := range b.alts[v] {
		a := &b.alts[v][k]
		if a.set >= 0 || fits != nil && !fits(a) {
			continue
		}
		if d := place.Change([]int32{v}, []int32{int32(k)}); d < least {
			best, least = int32(k), d
		}
	}
	return best
}

// losses notes what each node would cost on the backends that it is not on: by how much the sum grows, with everything else as it
// is, but for the parts of a set that it belongs to.
func (b *placing) losses(ctx context.Context, place *choose.Place) error {
	x := place.Choice()
	for v := range b.nodes {
		if v%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		own := &b.alts[v][x[v]]
		for _, i := range b.offered[v] {
			if i == own.c.Backend {
				continue
			}
			least := choose.Hard
			if own.set >= 0 {
				least = b.apartFor(place, own.set, int32(v), i)
			}
			for k := range b.alts[v] {
				if a := &b.alts[v][k]; own.set < 0 && a.set < 0 && a.c.Backend == i {
					least = min(least, place.Change([]int32{int32(v)}, []int32{int32(k)}))
				}
			}
			b.lost(b.nodes[v], i, own, least)
		}
	}
	return nil
}

// apartFor returns by how much the sum grows where a node of a set goes to backend i by itself, and the others of the set to where they
// are best by themselves. Nothing changes.
func (b *placing) apartFor(place *choose.Place, set, node int32, i int) int64 {
	vars := b.sets[set].vars
	before := make([]int32, len(vars))
	for k, v := range vars {
		before[k] = place.Choice()[v]
	}
	by := b.apart(place, set, func(v int32, a *alternative) bool { return v != node || a.c.Backend == i })
	for k, v := range vars {
		place.Set(v, before[k])
	}
	return by
}

// lost records that a node would cost more on backend i.
func (b *placing) lost(n *graph.Node, i int, own *alternative, by int64) {
	why := property.Because(property.Dearer, "it costs less on %s", b.s.names[own.c.Backend])
	switch ns := b.nanoseconds(by); {
	case by >= choose.Hard:
	case ns < 0.5:
		why = property.Because(property.Dearer, "it would cost as much as on %s", b.s.names[own.c.Backend])
	default:
		why = property.Because(property.Dearer, "%s more than on %s, with all else as it is", modelledTime(ns), b.s.names[own.c.Backend])
	}
	for _, name := range n.Provenance() {
		b.s.result.lost = append(b.s.result.lost, Rejection{Node: name, Backend: b.s.names[i], Reason: why})
	}
}

// modelledTime writes nanoseconds with three digits or so.
func modelledTime(ns float64) string {
	switch {
	case ns < 1e4:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e7:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	}
	return fmt.Sprintf("%.1f ms", ns/1e6)
}
