package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/internal/bench/clock"
)

// measured is what a way has shown, by rounds where it is compared with others: all ways run in each.
type measured struct {
	alone     []time.Duration // latencies of one caller
	many      []time.Duration // latencies of many
	steady    []time.Duration // latencies at 80 % of the rate
	late      []time.Duration // how much later than due each of these was sent, by the generator's own fault
	tails     []float64       // how many times the median the 99th percentile of these is, by round
	p50       []float64       // of one caller, in microseconds, by round
	rate      []float64       // requests a second of many callers, by round
	processor []float64       // microseconds of processor time a request, of both ends, by round
	kept      []float64       // requests a second at 80 %, of those that were due, by round
	busy      []float64       // which part of the processors' time both ends take meanwhile, by round
}

// warm is how often each way is asked before it is measured.
const warm = 20

// measure measures a subject and prints a table.
func (x *subject) measure(ctx context.Context, out io.Writer, set *settings) error {
	s, err := x.start(ctx, set)
	defer s.end()
	if err != nil {
		return err
	}
	if len(set.ways) > 0 {
		s.ways = slices.DeleteFunc(s.ways, func(w *way) bool { return w.name != bareLoop && !slices.Contains(set.ways, w.name) })
	}
	for _, w := range s.ways {
		for range warm {
			if err := w.ask(); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	for round := range set.rounds { // each begins with another way
		for i := range s.ways {
			w := s.ways[(round+i)%len(s.ways)]
			if err := w.round(set.length/time.Duration(set.rounds), set.callers); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	t := &table{x, s, set.callers, len(set.ways) == 0}
	t.print(out)
	return nil
}

// round is a turn of a way: one caller, then many, then many that ask for 80 % of what they have reached.
func (w *way) round(length time.Duration, callers int) error {
	for p := listen.PrepareProcess(); runtime.GOMAXPROCS(0) != p.Runs; time.Sleep(time.Millisecond) { // one caller finds them as usual
	}
	times, _, _, err := many(w.ask, length, 1)
	if err != nil {
		return err
	}
	w.alone = append(w.alone, times...)
	w.p50 = append(w.p50, micros(at(times, 50)))
	times, rate, processor, err := many(w.ask, length, callers)
	w.rate, w.processor = append(w.rate, rate), append(w.processor, processor)
	if err != nil || !w.paced {
		return err
	}
	w.many = append(w.many, times...)
	begin, used := time.Now(), clock.Process()
	times, late, kept, err := pace(w.ask, 0.8*rate, length, callers)
	w.busy = append(w.busy, (clock.Process()-used).Seconds()/time.Since(begin).Seconds()/float64(listen.PrepareProcess().Runs))
	w.steady, w.late, w.kept = append(w.steady, times...), append(w.late, late...), append(w.kept, kept)
	w.tails = append(w.tails, float64(at(times, 99))/float64(max(1, at(times, 50))))
	return err
}

// many has several callers ask, each again as soon as it is answered, and once at least. It returns latencies, requests a second, and microseconds of
// processor time a request.
func many(ask func() error, length time.Duration, callers int) (all []time.Duration, rate, processor float64, err error) {
	var group sync.WaitGroup
	times, errs := make([][]time.Duration, callers), make([]error, callers)
	begin, used := time.Now(), clock.Process()
	for i := range callers {
		group.Go(func() {
			for now := time.Now(); errs[i] == nil && (len(times[i]) == 0 || now.Sub(begin) < length); {
				errs[i] = ask()
				end := time.Now()
				times[i], now = append(times[i], end.Sub(now)), end
			}
		})
	}
	group.Wait()
	took, used := time.Since(begin), clock.Process()-used
	for i := range callers {
		if errs[i] != nil {
			return nil, 0, 0, errs[i]
		}
		all = append(all, times[i]...)
	}
	n := float64(len(all))
	return all, n / took.Seconds(), micros(used) / n, nil
}

// pace has several callers ask at a steady rate together. It returns latencies, how late requests were sent, and how much of the rate was
// kept. The time of a request that was due while all callers waited for answers begins when it was due, and that of another when it is
// sent: what timers are late then is this side's fault, and is what is returned beside them.
func pace(ask func() error, rate float64, length time.Duration, callers int) (all, late []time.Duration, kept float64, err error) {
	var group sync.WaitGroup
	var next atomic.Int64
	times, lates, errs := make([][]time.Duration, callers), make([][]time.Duration, callers), make([]error, callers)
	begin, step := time.Now(), time.Duration(1e9/rate)
	for i := range callers {
		group.Go(func() {
			for ended := time.Duration(0); errs[i] == nil; {
				due := time.Duration(next.Add(1)) * step
				if due >= length {
					return
				}
				time.Sleep(due - time.Since(begin))
				sent := time.Since(begin)
				errs[i] = ask()
				overdue := max(ended-due, 0)
				ended = time.Since(begin)
				times[i] = append(times[i], overdue+ended-sent)
				lates[i] = append(lates[i], sent-due-overdue)
			}
		})
	}
	group.Wait()
	took := time.Since(begin)
	for i := range callers {
		all, late, err = append(all, times[i]...), append(late, lates[i]...), errors.Join(err, errs[i])
	}
	return all, late, float64(len(all)) / (rate * took.Seconds()), err
}

// at returns a percentile; 0 where there are no times.
func at(times []time.Duration, percent float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Clone(times)
	slices.Sort(sorted)
	return sorted[min(int(float64(len(sorted))*percent/100), len(sorted)-1)]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
