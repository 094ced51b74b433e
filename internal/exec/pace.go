package exec

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// leastSaved is how much of the time without other threads these have to save.
	leastSaved = 0.03
	// longestPaced is how long runs take at most that are compared with and without other threads.
	longestPaced = 4 * time.Millisecond
	// unpaced is how many runs go by first, while memory is touched, workers start, and the system finds them processors of their own.
	unpaced = 64
	// pacedBlock is how many runs in a row are of one kind, the first of which does not count: its operands lie in the caches of other threads.
	pacedBlock = 5
	// pacedBlocks is how many blocks there are of each kind, by turns.
	pacedBlocks = 3
	// pacedAgain is after how many runs the comparison is made again at first, as workers may have had no processor of their own yet, twice as many each time up to
	// pacedRarely.
	pacedAgain, pacedRarely = 64, 4096
)

// pace decides whether the loops of a plan's runs have other threads than the caller's. Those cost the way of operands between the caches of two cores, and of the
// wake-up: for runs of less than a millisecond often more than they bring, and how much differs by processor and by what else runs there. So some runs go
// without, and the faster kind stays. Results are the same, bit by bit.
type pace struct {
	mu    sync.Mutex
	runs  int  // that have begun since the last comparison began
	again int  // after how many the next one does
	alone bool // what is decided
	long  bool // runs take too long to compare
	took  [2][pacedBlocks * (pacedBlock - 1)]time.Duration
	noted [2]int // of those
}

// next begins a run, whose time may be taken or not: whether it goes without other threads, whether it is one of a comparison, and whether its time counts.
func (p *pace) next(timed bool) (alone, compared, counts bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.long || !timed {
		return p.alone && !p.long, false, false
	}
	i := p.runs - unpaced
	p.runs++
	switch {
	case i < 0:
		return p.alone, false, false
	case i < 2*pacedBlocks*pacedBlock:
		if i == 0 {
			p.noted = [2]int{} // runs of the last comparison may have failed
		}
		return i/pacedBlock%2 == 1, true, i%pacedBlock > 0
	case i >= max(p.again, pacedAgain):
		p.runs, p.again = unpaced, min(2*max(p.again, pacedAgain), pacedRarely)
	}
	return p.alone, false, false
}

// ended notes how long a run took that counts, and decides where it is the last.
func (p *pace) ended(alone bool, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.long = p.long || !alone && took > longestPaced
	kind := 0
	if alone {
		kind = 1
	}
	if n := p.noted[kind]; n < len(p.took[kind]) {
		p.took[kind][n] = took
		p.noted[kind]++
	}
	if min(p.noted[0], p.noted[1]) < len(p.took[0]) {
		return
	}
	for k := range p.took {
		slices.Sort(p.took[k][:])
	}
	middle := len(p.took[0]) / 2
	p.alone = float64(p.took[0][middle]) > (1-leastSaved)*float64(p.took[1][middle])
}

// paced is run, with other threads or without.
func (f *frame) paced(ctx context.Context) error {
	s := f.session
	if s.run.Threads() < 2 || len(s.m.main.lanes) > 1 {
		return f.run(ctx)
	}
	alone, compared, counts := f.s.pace.next(s.profile == nil && s.check == nil)
	if alone {
		s.run.Alone(compared) // workers that sleep would take some of the runs with them to wake up
	}
	if !counts {
		return f.run(ctx)
	}
	start := time.Now()
	err := f.run(ctx)
	if err == nil {
		f.s.pace.ended(alone, time.Since(start))
	}
	return err
}
