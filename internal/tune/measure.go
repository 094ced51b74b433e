package tune

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/carve-dev/carve/internal/measurements"
)

// Subject is something that runs, and that is measured.
type Subject interface {
	// Run runs it once, and returns how long that took of what is to be measured.
	Run(ctx context.Context) (time.Duration, error)
	// Close frees it.
	Close() error
}

const (
	fewestRounds = 4
	mostRounds   = 12
	// wholeRounds is mostRounds of whole programs, which run once in each, and manyRounds that of those of which all rounds take no more
	// than roundsTime.
	wholeRounds = 40
	manyRounds  = 400
	roundsTime  = 300 * time.Millisecond
	// roundTime is how long something short runs in a round, and roundRuns how often at least.
	roundTime = 1500 * time.Microsecond
	roundRuns = 2
	// near is how close rivals are that are told apart with more rounds, in parts of the better one.
	near = 0.03
	// together is how many subjects there are at one time: rounds of each lie apart, since what else a machine does comes and goes.
	together = 12
	// grace is how long a first run may take beyond a deadline, or beyond ten times the best of its rivals.
	grace = time.Second
	// leastNanos is what reading the clock takes.
	leastNanos = 20
)

// hopeless is how many times as long as the best of its rivals a candidate takes that is measured no further, by rounds: what else the
// machine does may have met all of the first ones. Of whole programs those that are close need the time, the more so where a run is
// slow, which little disturbs.
var (
	hopeless          = []float64{25, 25, 2.5}
	hopelessWhole     = []float64{100, 25, 4, 2, 1.5, 1.25}
	hopelessSlowWhole = []float64{4, 1.6, 1.25}
)

// slow is how long a whole program runs that little disturbs.
const slow = 100 * time.Millisecond

// swept is larger than the caches of a core, and smaller than what cores share. It is an array, which takes no memory before it is written
// to: a slice would be half of what Go's heap holds before its first collection, in every process.
var swept [2 << 20]byte

// cool takes what the last run left in the core's own caches out of them: in a model, constants and instructions of a node were not
// used since the last run.
func cool() {
	for i := 0; i < len(swept); i += 64 {
		swept[i]++
	}
}

// series is the measurement of one subject.
type series struct {
	subject Subject
	rounds  []float64 // least nanoseconds of each
	runs    int
	err     error
	over    bool
	lost    bool // over before its rivals
}

// least returns the least time.
func (s *series) least() float64 {
	if len(s.rounds) == 0 {
		return math.Inf(1)
	}
	return slices.Min(s.rounds)
}

// noise returns the standard error of the least time, as far as the lower half of the rounds tells.
func (s *series) noise() float64 {
	low := slices.Clone(s.rounds)
	slices.Sort(low)
	low = low[:(len(low)+1)/2]
	if len(low) < 2 {
		return 0
	}
	sum := 0.0
	for _, x := range low {
		sum += (x - low[0]) * (x - low[0])
	}
	return math.Sqrt(sum / float64(len(low)-1) / float64(len(low)))
}

// round runs a subject some times; once where a run takes so long.
func (s *series) round(ctx context.Context, cold bool, once time.Duration) {
	best := math.Inf(1)
	for begin, n := time.Now(), 0; n < roundRuns || time.Since(begin) < roundTime && n < 64; n++ {
		if cold {
			cool()
		}
		d, err := s.subject.Run(ctx)
		if err != nil {
			s.err, s.over = err, true
			return
		}
		s.runs++
		best = min(best, max(float64(d.Nanoseconds()), leastNanos))
		if d > once {
			break
		}
	}
	s.rounds = append(s.rounds, best)
}

// contest measures rivals by turns.
type contest struct {
	list     []*series
	most     int           // rounds
	cold     bool          // caches are emptied before each run
	once     time.Duration // how long something runs that is run once in a round
	hopeless []float64
	usual    bool // the lower quartile of the rounds counts, in place of the least
}

// takes returns what counts of a series.
func (c *contest) takes(s *series) float64 {
	if !c.usual || len(s.rounds) == 0 {
		return s.least()
	}
	sorted := slices.Sorted(slices.Values(s.rounds))
	return sorted[(len(sorted)-1)/4]
}

// compare orders by what counts, those behind that lost before others had all rounds.
func (c *contest) compare(a, b *series) int {
	if a.lost != b.lost {
		if a.lost {
			return 1
		}
		return -1
	}
	return cmp.Compare(c.takes(a), c.takes(b))
}

// turn gives each rival a round that still needs one. It reports whether one did.
func (c *contest) turn(ctx context.Context, round int) bool {
	some := false
	for _, s := range c.list {
		if s.over {
			continue
		}
		some = true
		if s.round(ctx, c.cold, c.once); ctx.Err() != nil {
			return false
		}
	}
	c.decide(round + 1)
	return some
}

// decide ends what has lost, and all where enough is known after that many rounds.
func (c *contest) decide(rounds int) {
	order := slices.Clone(c.list)
	slices.SortStableFunc(order, c.compare)
	best := order[0]
	unsure := false
	for _, s := range order[1:] {
		if s.over {
			continue
		}
		if times := c.takes(s) / c.takes(best); times > c.hopeless[min(rounds, len(c.hopeless))-1] {
			s.over, s.lost = true, true
			continue
		}
		apart := c.takes(s) - c.takes(best)
		closeBy := apart < max(2*(s.noise()+best.noise()), near*c.takes(best))
		s.over = rounds >= fewestRounds && !closeBy
		s.lost = s.over
		unsure = unsure || !s.over
	}
	if rounds >= c.most || rounds >= fewestRounds && !unsure {
		for _, s := range order {
			s.over = true
		}
	}
}

// Measuring is how tasks are measured.
type Measuring struct {
	// Make compiles a task. An error turns it down: it is left out.
	Make func(ctx context.Context, t *Task) (Subject, error)
	// Keep keeps a result, and returns the one that counts.
	Keep func(k measurements.Key, e measurements.Entry) (measurements.Entry, error)
	// Deadline is when no more is begun.
	Deadline time.Time
	// Progress is told before tasks begin, and in the end, of those that are done.
	Progress func(done int, next *Task)
	// Failed is told of tasks that are left out.
	Failed func(t *Task, err error)
}

// Measure measures tasks, which are as Tasks returns them, and keeps each result as soon as it is known. It returns how many are
// done, turned down ones included: fewer than all where the deadline ended it. The error is ctx's, or that of Keep.
func Measure(ctx context.Context, tasks []*Task, m *Measuring) (done int, err error) {
	for done < len(tasks) {
		end := done + 1
		for end < len(tasks) && (end < done+together || tasks[end].rivals == tasks[end-1].rivals) {
			end++
		}
		if ctx.Err() != nil || !time.Now().Before(m.Deadline) {
			break
		}
		m.Progress(done, tasks[done])
		if err := m.batch(ctx, tasks[done:end]); err != nil {
			return done, err
		}
		done = end
	}
	m.Progress(done, nil)
	return done, ctx.Err()
}

// batch measures some tasks, whose rivals are among them.
func (m *Measuring) batch(ctx context.Context, tasks []*Task) error {
	all := make([]*series, len(tasks))
	defer func() {
		for _, s := range all {
			if s != nil && s.subject != nil {
				_ = s.subject.Close() // it has been measured
			}
		}
	}()
	contests := map[string]*contest{}
	var order []*contest
	for i, t := range tasks {
		all[i] = &series{}
		s := all[i]
		if s.subject, s.err = m.Make(ctx, t); s.err == nil {
			_, s.err = warm(ctx, s.subject, time.Until(m.Deadline)+grace)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.err != nil {
			continue
		}
		c := contests[t.rivals]
		if c == nil {
			c = &contest{most: mostRounds, cold: true, once: 100 * time.Millisecond, hopeless: hopeless}
			contests[t.rivals] = c
			order = append(order, c)
		}
		c.list = append(c.list, s)
	}
	for round, more := 0, true; more && ctx.Err() == nil; round++ {
		more = false
		for _, c := range order {
			more = c.turn(ctx, round) || more
		}
	}
	for i, t := range tasks {
		if err := m.keep(t, all[i]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// warm runs a subject for the first time, for at most that long.
func warm(ctx context.Context, s Subject, most time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return s.Run(ctx)
}

// keep keeps what was measured of a task.
func (m *Measuring) keep(t *Task, s *series) error {
	if s.err != nil {
		m.Failed(t, s.err)
		return nil
	}
	if len(s.rounds) == 0 {
		return nil
	}
	e, err := m.Keep(t.Key, measurements.Entry{Nanos: s.least(), Noise: s.noise(), Runs: s.runs})
	if err != nil {
		return err
	}
	t.result, t.measured = e, true
	return nil
}

// Whole is a program that competes as one.
type Whole struct {
	Name    string
	Subject Subject
}

// Race runs wholes by turns, run by run, and returns how long each takes, the lower quartile of its runs, the fastest first; of equals
// the first that was given. Those that were given up come behind those that were not. Those that fail or take very much longer than
// those before are left out, and told to failed. It ends when the fastest is known, or soon after the deadline, but what is close runs
// three rounds. The error is ctx's.
func Race(ctx context.Context, list []Whole, deadline time.Time, failed func(name string, err error)) ([]Run, error) {
	c, names := &contest{hopeless: hopelessWhole, usual: true}, map[*series]string{}
	best, quickest := time.Duration(math.MaxInt64)/16, time.Duration(math.MaxInt64)
	for i, w := range list {
		s := &series{subject: w.Subject}
		c.list = append(c.list, s)
		left := max(0, time.Until(deadline))
		if quickest < math.MaxInt64 {
			left = max(left, 3*best)
		}
		most := min(10*best, left) + grace
		if i == len(list)-1 && best == math.MaxInt64/16 {
			most = math.MaxInt64 // the others took too long
		}
		start := time.Now()
		var took time.Duration
		if took, s.err = warm(ctx, w.Subject, most); s.err == nil {
			best, quickest = min(best, time.Since(start)), min(quickest, took)
		} else {
			s.over = true
		}
	}
	c.most = min(max(wholeRounds, int(roundsTime/max(quickest, 1))), manyRounds)
	if quickest > slow {
		c.hopeless = hopelessSlowWhole
	}
	for round := 0; ctx.Err() == nil && (round < 3 || time.Now().Before(deadline)); round++ {
		if !c.turn(ctx, round) {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for i, s := range c.list {
		if s.err != nil {
			failed(list[i].Name, s.err)
		}
		names[s] = list[i].Name
	}
	slices.SortStableFunc(c.list, c.compare)
	var runs []Run
	for _, s := range c.list {
		if s.err == nil {
			runs = append(runs, Run{Whole: names[s], Nanos: c.takes(s), Noise: s.noise()})
		}
	}
	return runs, nil
}
