package memplan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// packer is one call of Pack.
type packer struct {
	ctx  context.Context
	h    halt
	bufs []Buffer
	opt  Options

	p     *problem
	bound int64 // lower bound so far
	best  Plan  // Offsets is nil until there is one
	nodes int64
}

func newPacker(ctx context.Context, bufs []Buffer, opt Options) *packer {
	return &packer{ctx: ctx, h: newHalt(ctx), bufs: bufs, opt: opt}
}

func (k *packer) run() (Plan, error) {
	if k.h.stopped() {
		return k.result()
	}
	k.p = newProblem(k.bufs, true, k.h)
	if k.p == nil {
		return k.result()
	}
	k.bound = k.p.bound
	if k.p.endless {
		return Plan{LowerBound: k.bound}, fmt.Errorf("%w: more than 2^63-1 bytes are alive at one time", ErrInfeasible)
	}
	if k.opt.Capacity > 0 && k.bound > k.opt.Capacity {
		return k.result()
	}
	if k.alike() {
		return k.result()
	}
	k.heuristics(k.p)
	if k.p.merged && !k.done() {
		// Buffers put together may have been better apart.
		if apart := newProblem(k.bufs, false, k.h); apart != nil {
			k.heuristics(apart)
		}
	}
	if !k.done() {
		k.improve()
	}
	return k.result()
}

// goal is the height at which nothing is left to do.
func (k *packer) goal() int64 { return max(k.bound, k.opt.Capacity) }

// done reports whether the best plan is good enough.
func (k *packer) done() bool { return k.best.Offsets != nil && k.best.Height <= k.goal() }

// ceiling is the greatest height at which a new plan is of use.
func (k *packer) ceiling() int64 {
	if k.best.Offsets == nil {
		return math.MaxInt64
	}
	return k.best.Height - 1
}

// accept keeps a layout of p that is lower than the best plan.
func (k *packer) accept(p *problem, offset []int64, height int64, method string) {
	if k.best.Offsets == nil || height < k.best.Height {
		k.best = Plan{Offsets: p.offsets(offset), Height: height, Method: method}
	}
}

// searches reports whether search comes after heuristics.
func (k *packer) searches() bool { return k.opt.Steps >= 0 }

// manyItems is how many items a tactic must have for a thread of its own.
const manyItems = 4096

// heuristics runs the tactics and keeps the lowest plan, ties going to the
// earlier one. It stops when one meets the goal.
func (k *packer) heuristics(p *problem) {
	list := tacticsFor(p)
	if k.opt.Threads == 1 || len(p.items) < manyItems {
		g := newGreedy(p)
		for i, t := range list {
			if i == promoteAfter {
				k.promote(p, g)
			}
			if k.done() || k.h.stopped() {
				return
			}
			if height, ok := t.run(g, k.ceiling(), k.h); ok {
				k.accept(p, g.offs, height, t.name)
			}
		}
		return
	}
	type outcome struct {
		offs   []int64
		height int64
		ok     bool
	}
	out := make([]outcome, len(list))
	ceiling, goal := k.ceiling(), k.goal()
	var next, first atomic.Int64 // first: least number of a tactic that meets the goal
	first.Store(int64(len(list)))
	var wg sync.WaitGroup
	for range min(k.opt.Threads, len(list)) {
		wg.Go(func() {
			g := newGreedy(p)
			for {
				i := next.Add(1) - 1
				if i >= int64(len(list)) {
					return
				}
				h := k.h.orWhen(func() bool { return first.Load() < i })
				if h.stopped() {
					return
				}
				o := &out[i]
				if o.height, o.ok = list[i].run(g, ceiling, h); o.ok {
					o.offs = slices.Clone(g.offs)
				}
				for o.ok && o.height <= goal {
					if f := first.Load(); f <= i || first.CompareAndSwap(f, i) {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	for i, o := range out {
		if o.ok && int64(i) <= first.Load() {
			k.accept(p, o.offs, o.height, list[i].name)
		}
	}
}

// result returns what Pack returns.
func (k *packer) result() (Plan, error) {
	plan := k.best
	plan.LowerBound = k.bound
	plan.Nodes = k.nodes
	plan.Optimal = plan.Offsets != nil && plan.Height <= k.bound
	if plan.Offsets != nil && (k.opt.Capacity == 0 || plan.Height <= k.opt.Capacity) {
		return plan, nil
	}
	if k.opt.Capacity > 0 && k.bound > k.opt.Capacity {
		return plan, fmt.Errorf("%w: the height is at least %d, the capacity %d", ErrInfeasible, k.bound, k.opt.Capacity)
	}
	err := ErrNoPlan
	if c := k.opt.Capacity; c > 0 && plan.Offsets != nil {
		err = fmt.Errorf("%w: the height is from %d to %d, the capacity %d", ErrNoPlan, k.bound, plan.Height, c)
	} else if c > 0 {
		err = fmt.Errorf("%w: the height is at least %d, the capacity %d", ErrNoPlan, k.bound, c)
	}
	if cause := context.Cause(k.ctx); cause != nil && k.h.stopped() {
		return plan, errors.Join(err, cause)
	}
	return plan, err
}
