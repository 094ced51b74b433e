package memplan

import "math"

// improve searches exactly for lower plans, or for one that fits the capacity,
// until it is proven that there is none or the budget is spent.
func (k *packer) improve() {
	m := newModel(k.p)
	if m == nil || k.opt.Steps < 0 {
		return
	}
	_, timed := k.ctx.Deadline()
	budget := k.opt.Steps
	switch {
	case budget > 0:
	case timed:
		budget = math.MaxInt64 / 4
	case k.opt.Capacity > 0:
		budget = DefaultSteps << 10
	default:
		budget = DefaultSteps
	}
	f := newPortfolio(m, k.opt.Threads, k.opt.Steps > 0 || !timed, k.h)
	if k.opt.Capacity > 0 {
		k.try(f, k.opt.Capacity, budget)
		return
	}
	k.descend(f, budget)
}

// try searches for a plan within capacity and reports what it came to.
func (k *packer) try(f *portfolio, capacity, steps int64) verdict {
	r := f.run(capacity, steps)
	k.nodes += r.nodes
	switch r.verdict {
	case solved:
		height := int64(0)
		for i, off := range r.offset {
			height = max(height, off+k.p.items[i].size)
		}
		k.accept(k.p, r.offset, height, "search")
	case infeasible:
		k.bound = max(k.bound, capacity+1)
	}
	return r.verdict
}

// descend lowers the height. It tries the lower bound first, which most
// instances meet, and then halves the range in which the least height may lie,
// with a budget per height that doubles from pass to pass.
func (k *packer) descend(f *portfolio, budget int64) {
	slice := max(1<<12, 16*int64(f.model.n))
	for !k.done() && !k.h.stopped() {
		left := func() int64 { return min(slice, budget-k.nodes) }
		if left() <= 0 {
			return
		}
		if k.try(f, k.bound, left()) != unknown {
			slice *= 2
			continue
		}
		tried := k.bound // nothing was found at or below it in this pass
		for k.best.Height-tried > f.model.grain && left() > 0 && !k.h.stopped() {
			middle := tried + (k.best.Height-tried)/2
			if k.try(f, middle, left()) != solved {
				tried = middle
			}
		}
		slice *= 2
	}
}
