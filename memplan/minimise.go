package memplan

import "math"

// budget returns the steps of search that the options allow.
func (k *packer) budget() int64 {
	_, timed := k.ctx.Deadline()
	switch {
	case k.opt.Steps != 0:
		return max(k.opt.Steps, 0)
	case timed:
		return math.MaxInt64 / 4
	case k.opt.Capacity > 0:
		return DefaultSteps << 10
	}
	return DefaultSteps
}

// improve searches for lower plans, or for one that fits the capacity, until
// it is proven that there is none or the budget is spent.
func (k *packer) improve() {
	budget := k.budget()
	if budget == 0 {
		return
	}
	local := newLocalSearch(k, k.p)
	m := newModel(k.p, k.h)
	if m == nil {
		local.run(budget)
		return
	}
	_, timed := k.ctx.Deadline()
	f := newPortfolio(m, k.opt.Threads, k.opt.Steps > 0 || !timed, k.h)
	if k.opt.Capacity > 0 {
		k.try(f, k.opt.Capacity, budget)
		return
	}
	k.descend(f, local, budget)
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

// localItems is how many items an instance must have for local search to be of
// use beside exact search.
const localItems = 1500

// halvings is how often a pass of descend halves the range of heights.
const halvings = 4

// descend lowers the height. It tries the lower bound first, which most
// instances meet, and then halves the range in which the least height may lie,
// with budgets that double from pass to pass. Of large instances local search
// gets a share.
func (k *packer) descend(f *portfolio, local *localSearch, budget int64) {
	slice := max(1<<12, 8*int64(f.model.n))
	spend := func(height, steps int64) verdict {
		return k.try(f, height, min(steps, budget-k.nodes))
	}
	for !k.done() && k.nodes < budget && !k.h.stopped() {
		if spend(k.bound, 2*slice) == unknown {
			low := k.bound // nothing at or below it was found in this pass
			for i := 0; i < halvings && k.best.Height-low > f.model.grain && k.nodes < budget; i++ {
				middle := low + (k.best.Height-low)/2
				if spend(middle, slice) != solved {
					low = middle
				}
			}
			if len(k.p.items) >= localItems {
				local.run(min(slice, budget-k.nodes))
			}
		}
		slice *= 2
	}
}
