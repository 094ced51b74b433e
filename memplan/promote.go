package memplan

import "math"

// promoteAfter is how many tactics are tried first.
const promoteAfter = 6

// promoteRounds is how many times one order is changed at most.
const promoteRounds = 40

// promoteStarts are the orders that promotion begins with.
var promoteStarts = []struct {
	rule rule
	fit  fit
}{
	{sizeFirst, firstFit}, {birthFirst, bestFit}, {areaFirst, firstFit}, {durationFirst, firstFit},
}

// promotions returns how often the items of p can be placed in half a
// millisecond, by an estimate.
func promotions(p *problem) int {
	const patience, perItem, perPair = 5e5, 40, 10 // nanoseconds
	return int(patience / (float64(len(p.items)+1) * (perItem + perPair*p.alive())))
}

// promote looks for plans below the best one, where that is close to the goal
// already or no search comes after. It places the items in one order after the
// other. Each time, those that end above the goal are drawn forward, to a
// quarter of their positions, and all is placed anew.
func (k *packer) promote(p *problem, g *greedy) {
	rounds := promotions(p)
	if k.done() || k.best.Offsets == nil || rounds < 2 || k.searches() && k.best.Height-k.goal() > k.goal()/8 {
		return
	}
	for _, from := range promoteStarts {
		if rounds == 0 {
			return
		}
		order, ok := g.order(from.rule, k.h)
		if !ok {
			return
		}
		for range min(rounds, promoteRounds) {
			rounds--
			if height, ok := g.place(order, from.fit, math.MaxInt64, k.h); ok {
				k.accept(p, g.offs, height, inOrder(from.rule, from.fit).name+", promoting")
			}
			if k.done() || k.h.stopped() {
				return
			}
			for at, i := range order {
				if g.offs[i]+p.items[i].size > k.goal() {
					copy(order[at/4+1:], order[at/4:at])
					order[at/4] = i
				}
			}
		}
	}
}
