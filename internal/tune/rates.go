package tune

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Serving is a program with so many sessions of so many threads each.
type Serving struct {
	Sessions, Threads int
	Run               func(ctx context.Context) error // safe for concurrent use
}

// Rate is how many runs a second a Serving has ended.
type Rate struct {
	Sessions, Threads int
	PerSecond         float64
}

// How Rates measures: so many rounds at least, each of so long.
const (
	rateRounds    = 3
	shortestRound = 20 * time.Millisecond
	longestRound  = 500 * time.Millisecond
)

// Rates has so many callers ask each of list at one time, by turns, until the deadline, and returns the best round of each, the
// highest rate first; of equal ones the first in the list.
func Rates(ctx context.Context, list []Serving, callers int, deadline time.Time) ([]Rate, error) {
	round := time.Until(deadline) / time.Duration(rateRounds*max(len(list), 1))
	round = max(shortestRound, min(round, longestRound))
	out := make([]Rate, len(list))
	for i, s := range list {
		out[i] = Rate{Sessions: s.Sessions, Threads: s.Threads}
		if _, err := rate(ctx, s.Run, callers, 0); err != nil { // once each, for plans and memory
			return nil, err
		}
	}
	for n := 0; n < rateRounds || time.Now().Before(deadline); n++ {
		for i, s := range list {
			r, err := rate(ctx, s.Run, callers, round)
			if err != nil {
				return nil, err
			}
			out[i].PerSecond = max(out[i].PerSecond, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Rate) int { return cmp.Compare(b.PerSecond, a.PerSecond) })
	return out, nil
}

// rate has callers run for so long, and returns runs a second.
func rate(ctx context.Context, run func(context.Context) error, callers int, round time.Duration) (float64, error) {
	var wg sync.WaitGroup
	var runs atomic.Int64
	errs := make([]error, callers)
	start := time.Now()
	for k := range callers {
		wg.Go(func() {
			for {
				if errs[k] = run(ctx); errs[k] != nil {
					return
				}
				if runs.Add(1); time.Since(start) >= round {
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(runs.Load()) / time.Since(start).Seconds(), cmp.Or(errs...)
}

// Text returns the rate's numbers of sessions and threads, for ParseServing.
func (r Rate) Text() string { return fmt.Sprintf("sessions %d threads %d", r.Sessions, r.Threads) }

// ParseServing reads Rate.Text.
func ParseServing(text string) (sessions, threads int, err error) {
	if _, err = fmt.Sscanf(text, "sessions %d threads %d", &sessions, &threads); err == nil && (sessions < 1 || threads < 1) {
		err = fmt.Errorf("%d sessions of %d threads", sessions, threads)
	}
	return sessions, threads, err
}
