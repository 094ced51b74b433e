package repository

import (
	"context"
	"slices"
	"time"

	"github.com/carve-dev/carve"
)

// wait is the context of a request in a Batcher, and how long it has waited there.
type wait struct {
	context.Context
	rank   int
	queued time.Duration
}

// waitKey is the key under which a wait has itself.
type waitKey struct{}

// Value implements context.Context.
func (w *wait) Value(key any) any {
	if key == (waitKey{}) {
		return w
	}
	return w.Context.Value(key)
}

// mostJoined bounds the rows of a run of several requests: max_batch_size is often only a number that is large enough, and rows are added up to
// the next bucket. A request of more rows runs alone.
const mostJoined = 1 << 12

// batch gives a version a Batcher where its configuration, or the repository's options, ask for one. Models whose rows cannot be told
// apart run without.
func (r *Repository) batch(ctx context.Context, v *Version) error {
	b, rows := v.batching, v.Config.MaxBatch()
	switch {
	case v.Sequences != nil:
		return nil
	case b != nil && rows > 0:
	case b == nil && rows == 0 && r.o.Batch > 0:
		b, rows = &Batching{}, r.o.Batch
	default:
		return nil
	}
	rows = min(rows, mostJoined)
	o := &carve.BatchOptions{
		MaxBatch: rows, Delay: b.Delay, Timeout: b.Timeout, MaxWaiting: r.o.Queue, Buckets: buckets(rows, b.Preferred), Sessions: v.Config.Instances(),
		Observer: carve.BatchObserver{
			Ran: func(b carve.BatchRun) { v.ran(b.Took) },
			Answered: func(ctx context.Context, a carve.BatchAnswer) {
				if w, ok := ctx.Value(waitKey{}).(*wait); ok {
					w.queued = a.Queued
				}
			},
		},
	}
	if v.turns != nil {
		o.Turns, o.Do = v.turns, v.turns.do
	}
	if b.Queue > 0 {
		o.MaxWaiting = b.Queue
	}
	var err error
	if v.batcher, err = carve.NewBatcher(v.program, o); err != nil {
		return err
	}
	if why := v.batcher.Off(); why != "" {
		r.o.Logger.WarnContext(ctx, "requests of a model are not batched", "model", v.Name, "version", v.Number, "reason", why)
		err = v.batcher.Close()
		v.batcher = nil
	}
	return err
}

// buckets returns powers of 2 up to the most rows, and the preferred sizes among them, at most 16 in all: plans are kept for so many.
func buckets(most int, preferred []int) []int {
	out := []int{most}
	for _, n := range preferred {
		if n > 0 && n < most && !slices.Contains(out, n) && len(out) < 8 {
			out = append(out, n)
		}
	}
	for n := 1; n < most && len(out) < 16; n *= 2 {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
