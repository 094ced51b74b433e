package memplan

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// verdict is the outcome of a search within a capacity.
type verdict int

const (
	unknown    verdict = iota // steps or time ran out
	solved                    // offsets were found
	infeasible                // all possibilities are exhausted
)

// portfolio searches a model with many short runs in different styles and
// orders, as hard instances are easy for some run: search has a heavy tail.
// Run number i is a function of the model, the capacity and i. Threads take
// runs in turn; the first run in number that decides is the answer, so that
// it does not depend on the number of threads.
type portfolio struct {
	model   *model
	orders  [][][]float64
	halt    halt
	threads int
	strict  bool // wait for runs of lower number; else the first in time wins
	runs    int  // number of the next run
	idle    []*search
}

func newPortfolio(m *model, threads int, strict bool, h halt) *portfolio {
	return &portfolio{model: m, orders: m.traits().orders(), halt: h, threads: threads, strict: strict}
}

// styles are taken in turn by runs.
var styles = []style{
	{weighted, true},
	{fewestFirst, false},
	{fewestFirst, true},
	{weighted, false},
	{weighted, true},
	{leastSlack, true},
}

// fewItems is up to how many items runs are long from the start: most
// instances that are not solved at once have no plan then.
const fewItems = 24

// limit is the step limit of run i: what a dive to a plan without failures
// takes, and an allowance that grows so slowly that the tail of long runs does
// not starve the many short ones, and fast enough to exhaust instances that
// have no plan.
func (f *portfolio) limit(i int) int64 {
	spare := max(400, int64(f.model.n))
	if f.model.n <= fewItems {
		spare = 1 << 13
	}
	for ; i >= 8 && spare < 1<<40; i -= 8 {
		spare += spare / 4
	}
	return int64(f.model.n) + spare
}

// prepare readies s for run i.
func (f *portfolio) prepare(s *search, i int, capacity int64) {
	s.reset(capacity)
	r := rand.New(rand.NewPCG(uint64(i), 0x6d656d706c616e))
	k, noise := i, 0.0
	if i >= len(f.orders) {
		k = r.IntN(len(f.orders))
		noise = [...]float64{0.1, 0.3, 1}[r.IntN(3)]
	}
	s.sorter.rankItems(s.rank, f.orders[k], noise, r, s.halt)
	s.style = styles[i%len(styles)]
}

// none is the number of no run.
const none = math.MaxInt32

// result is what a run of runs ends with.
type result struct {
	verdict verdict
	offset  []int64 // in bytes, per item
	nodes   int64
}

// tally is what the threads of one portfolio share.
type tally struct {
	sync.Mutex
	from, next int   // number of the first run, and of the next
	first      int   // least number of a deciding run
	reserved   int64 // limits of the runs handed out
	nodes      []int64
	best       result
	winner     atomic.Int64 // first, for polling
}

// run searches for a plan within capacity, in bytes, for at most steps nodes.
func (f *portfolio) run(capacity, steps int64) result {
	t := &tally{from: f.runs, next: f.runs, first: none}
	t.winner.Store(none)
	threads := max(1, f.threads)
	for len(f.idle) < threads {
		f.idle = append(f.idle, newSearch(f.model, f.halt))
	}
	if threads == 1 {
		f.work(t, f.idle[0], capacity, steps)
	} else {
		var wg sync.WaitGroup
		for _, s := range f.idle[:threads] {
			wg.Go(func() { f.work(t, s, capacity, steps) })
		}
		wg.Wait()
	}
	f.runs = t.next
	if t.first != none {
		f.runs = t.first + 1
	}
	for _, n := range t.nodes[:f.runs-t.from] {
		t.best.nodes += n
	}
	return t.best
}

// work takes runs until one has decided or the steps are spent.
func (f *portfolio) work(t *tally, s *search, capacity, steps int64) {
	for {
		t.Lock()
		i := t.next
		left := steps - t.reserved
		if i > t.first || left <= 0 || f.halt.stopped() {
			t.Unlock()
			return
		}
		limit := min(f.limit(i), left)
		t.next++
		t.reserved += limit
		t.nodes = append(t.nodes, 0)
		t.Unlock()

		s.limit = limit
		s.halt = f.halt.orWhen(func() bool {
			w := t.winner.Load()
			return w < int64(i) || !f.strict && w != none
		})
		f.prepare(s, i, capacity)
		found := s.solve(0, s.sections)

		t.Lock()
		t.nodes[i-t.from] = min(s.nodes, limit)
		if (found || !s.abort) && i < t.first && (f.strict || t.best.verdict == unknown) {
			t.first = i
			t.winner.Store(int64(i))
			t.best.verdict = infeasible
			if found {
				t.best.verdict, t.best.offset = solved, s.offsets()
			}
		}
		t.Unlock()
	}
}

// offsets returns the offsets found, in bytes.
func (s *search) offsets() []int64 {
	out := make([]int64, s.n)
	for i, v := range s.low {
		out[i] = v * s.unit
	}
	return out
}
