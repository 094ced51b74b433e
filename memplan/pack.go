package memplan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
)

// Pack chooses an offset for every buffer. With a capacity it returns a plan
// that fits; without one it makes the height as small as it can. It tries
// heuristics first, and searches only when none of them meets the lower bound
// (or the capacity).
//
// Errors: *InputError for faulty buffers or options; ErrInfeasible when it is
// proven that no plan fits; ErrNoPlan when time or steps ran out before a plan
// was found. With ErrNoPlan the returned Plan holds what is known: the lower
// bound, the steps spent, and the lowest plan, which is valid but higher than
// the capacity, where there is one.
//
// When ctx ends, Pack stops within milliseconds with the best plan so far.
//
// Exact search proves optimality and infeasibility for buffers without gaps
// and fixed offsets that do not share space. Buffers with gaps, and buffers of
// different sizes put together because they share, are searched as if they took
// the rectangle around them, and instances with fixed offsets and very large
// ones are left to heuristics and local search: for all of those Plan.Optimal
// is true only where the height meets the lower bound.
//
// Pack reads bufs and keeps no reference to them. It is safe for concurrent
// use.
func Pack(ctx context.Context, bufs []Buffer, o *Options) (Plan, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	if err := checkOptions(&opt); err != nil {
		return Plan{}, err
	}
	if err := checkInput(bufs); err != nil {
		return Plan{}, err
	}
	if opt.Like != nil && len(opt.Like) != len(bufs) {
		return Plan{}, &InputError{Buffer: -1, Field: "like", Reason: fmt.Sprintf("it has %d offsets for %d buffers", len(opt.Like), len(bufs))}
	}
	if opt.Threads == 0 {
		opt.Threads = runtime.GOMAXPROCS(0)
	}
	return newPacker(ctx, bufs, opt).run()
}

// Greedy packs bufs by heuristics alone, with the least height that they
// find. It is Pack with Options.Steps below zero, and as deterministic.
// Cost O(n log n) set operations per heuristic; a few hundred buffers take
// well under a millisecond.
func Greedy(bufs []Buffer) (Plan, error) {
	return Pack(context.Background(), bufs, &Options{Steps: -1})
}

// checkInput checks the buffers alone and the fixed ones against each other.
func checkInput(bufs []Buffer) error {
	if len(bufs) > math.MaxInt32/4 {
		return &InputError{Buffer: -1, Reason: fmt.Sprintf("%d buffers, which may be %d", len(bufs), math.MaxInt32/4)}
	}
	if err := checkBuffers(bufs); err != nil {
		return err
	}
	return checkFixed(bufs)
}

// checkFixed returns ErrInfeasible, wrapped, when fixed buffers collide.
func checkFixed(bufs []Buffer) error {
	if !slices.ContainsFunc(bufs, func(b Buffer) bool { return b.Fixed }) {
		return nil
	}
	var fixed []Buffer
	var index []int
	at := make(map[int]int)
	for i := range bufs {
		if bufs[i].Fixed {
			at[i] = len(fixed)
			fixed, index = append(fixed, bufs[i]), append(index, i)
		}
	}
	offsets := make([]int64, len(fixed))
	for k := range fixed {
		offsets[k] = fixed[k].Offset
		var kept []int
		for _, j := range fixed[k].Share {
			if f, ok := at[j]; ok {
				kept = append(kept, f)
			}
		}
		fixed[k].Share = kept
	}
	var c *ConflictError
	if err := Verify(fixed, offsets, 0); errors.As(err, &c) && c.B >= 0 {
		return fmt.Errorf("%w: fixed buffers %d and %d %s", ErrInfeasible, index[c.A], index[c.B], c.Reason)
	}
	return nil
}
