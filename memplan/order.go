package memplan

import "math"

// rule is an order of placing items.
type rule struct {
	name string
	key  func(p *problem, it *item) uint64 // items with smaller keys first
	tie  func(p *problem, it *item) uint64 // decides between equal keys; nil: the number does
}

// sectionsOf is the number of sections that an item spans, gaps included.
func sectionsOf(it *item) float64 { return float64(it.last - it.first) }

func bySizeKey(_ *problem, it *item) uint64     { return descending(it.size) }
func byBirthKey(_ *problem, it *item) uint64    { return ascending(int64(it.first)) }
func byDurationKey(_ *problem, it *item) uint64 { return descendingFloat(sectionsOf(it)) }
func byAreaKey(_ *problem, it *item) uint64 {
	return descendingFloat(float64(it.size) * sectionsOf(it))
}

var (
	sizeFirst     = rule{name: "size", key: bySizeKey}
	areaFirst     = rule{name: "area", key: byAreaKey}
	birthFirst    = rule{name: "birth", key: byBirthKey}
	durationFirst = rule{name: "duration", key: byDurationKey}

	sizeThenBirth    = rule{name: "size,birth", key: bySizeKey, tie: byBirthKey}
	sizeThenDuration = rule{name: "size,duration", key: bySizeKey, tie: byDurationKey}
)

// tactic is a heuristic: it fills g.offs with offsets for the items of g.p and
// returns the height, or false when that would exceed ceiling or h ended.
type tactic struct {
	name string
	run  func(g *greedy, ceiling int64, h halt) (int64, bool)
}

// inOrder is the tactic of placing items greedily in the order of r.
func inOrder(r rule, f fit) tactic {
	name := r.name + "/best-fit"
	if f == firstFit {
		name = r.name + "/first-fit"
	}
	return tactic{name, func(g *greedy, ceiling int64, h halt) (int64, bool) {
		order, ok := g.order(r, h)
		if !ok {
			return 0, false
		}
		return g.place(order, f, ceiling, h)
	}}
}

// tactics are tried in this order until one meets the lower bound.
var tactics = []tactic{
	{"birth/both-ends", bothEnds},
	inOrder(sizeFirst, bestFit),
	inOrder(areaFirst, firstFit),
	inOrder(birthFirst, bestFit),
	inOrder(sizeFirst, firstFit),
	inOrder(durationFirst, firstFit),
	inOrder(sizeThenDuration, bestFit),
	inOrder(sizeThenDuration, firstFit),
	inOrder(sizeThenBirth, bestFit),
	inOrder(sizeThenBirth, firstFit),
}

// tacticsFor returns the tactics that p is worth before any search: as many as
// take half a second together, by an estimate, and at least the first two.
func tacticsFor(p *problem) []tactic {
	const patience, perItem, perDepth = 5e8, 700, 120 // nanoseconds
	one := float64(len(p.items)) * (perItem + perDepth*math.Sqrt(p.alive()))
	return tactics[:min(len(tactics), max(2, 1+int(patience/max(one, 1))))]
}

// order returns the items as r has them, or false when h ended.
func (g *greedy) order(r rule, h halt) ([]int32, bool) {
	if r.tie == nil {
		return g.sorted(r.key, nil, h)
	}
	first, ok := g.sorted(r.tie, nil, h)
	if !ok {
		return nil, false
	}
	return g.sorted(r.key, first, h)
}

// sorted returns the items, or those of list in its order, sorted stably by
// key, or false when h ended.
func (g *greedy) sorted(key func(*problem, *item) uint64, list []int32, h halt) ([]int32, bool) {
	keys := g.keys
	for i := range g.p.items {
		at := i
		if list != nil {
			at = int(list[i])
		}
		keys[i] = key(g.p, &g.p.items[at])
		if i&chunkMask == 0 && h.stopped() {
			return nil, false
		}
	}
	out, ok := g.sorter.sort(keys, h)
	if ok && list != nil {
		for k, i := range out {
			out[k] = list[i]
		}
	}
	return out, ok
}
