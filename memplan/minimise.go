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
		return DefaultSteps << 11
	}
	return DefaultSteps
}

// descent lowers the height of the best plan, or looks for one that fits the
// capacity.
type descent struct {
	k      *packer
	budget int64 // of steps, for the whole call
	runs   *portfolio
	local  *localSearch
	reach  int64 // exact search has proven that it finds nothing lower
}

// localItems is how many items an instance must have for local search to be of
// use beside exact search.
const localItems = 1500

// maxShort is how many tries of a pass may run out of steps.
const maxShort = 3

// improve searches for lower plans, or for one that fits the capacity, until
// it is proven that there is none or the budget is spent.
func (k *packer) improve() {
	d := &descent{k: k, budget: k.budget(), reach: k.bound}
	if d.budget == 0 {
		return
	}
	d.local = newLocalSearch(k, k.p)
	m := newModel(k.p, k.h)
	if m == nil {
		d.local.run(d.budget)
		return
	}
	_, timed := k.ctx.Deadline()
	d.runs = newPortfolio(m, k.opt.Threads, k.opt.Steps > 0 || !timed, k.h)
	for steps := max(1<<10, 2*int64(m.n)); !d.over(); {
		if d.pass(steps) && steps < 1<<40 {
			steps *= 2
		}
	}
	if !m.exact {
		d.local.run(d.budget - k.nodes)
	}
}

// over reports whether exact search has nothing left to do.
func (d *descent) over() bool {
	k := d.k
	return k.done() || k.nodes >= d.budget || k.h.stopped() || d.goal() > k.ceiling() ||
		k.opt.Capacity > 0 && d.reach > k.opt.Capacity
}

// goal is the height to try first.
func (d *descent) goal() int64 { return max(d.reach, d.k.opt.Capacity) }

// pass tries the goal, which most instances meet, and then, where the height
// is to be as low as possible, halves the range in which the least height may
// lie, each time with the given number of steps. Large instances and those
// that exact search sees only in part get a share of local search. It reports
// whether tries ran out of steps.
func (d *descent) pass(steps int64) bool {
	k := d.k
	low, short := d.goal(), 0
	for at := low; ; {
		v := d.try(at, steps)
		if v == unknown {
			short++
		}
		if v != solved {
			low = max(at, d.reach)
		}
		if k.opt.Capacity > 0 || short >= maxShort || d.over() || k.best.Height-low <= d.runs.model.unit {
			break
		}
		at = low + (k.best.Height-low)/2
	}
	if short > 0 && (len(k.p.items) >= localItems || !d.runs.model.exact) {
		d.local.run(min(steps, d.budget-k.nodes))
	}
	return short > 0
}

// try searches for a plan within capacity and reports what it came to.
func (d *descent) try(capacity, steps int64) verdict {
	k := d.k
	r := d.runs.run(capacity, min(steps, d.budget-k.nodes))
	k.nodes += r.nodes
	switch r.verdict {
	case solved:
		k.accept(k.p, r.offset, k.p.height(r.offset), "search")
	case infeasible:
		d.reach = max(d.reach, d.runs.model.above(capacity))
		if d.runs.model.exact {
			k.bound = d.reach
		}
	case unknown:
	}
	return r.verdict
}
