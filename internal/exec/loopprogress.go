package exec

import (
	"math"
	"time"
)

// loopProgress tells Env.Observe how far a loop of a run is, as soon as it takes long; of loops in each other it is
// the outer one.
type loopProgress struct {
	s     *Session
	st    *Step
	total int // 0 where it is not known
	begun time.Time
	told  time.Time
}

// tellEvery is the time between two reports, and before the first.
const tellEvery = 100 * time.Millisecond

// beginLoop begins the reports of a loop of at most total iterations; a negative number is not known. End it.
func (s *Session) beginLoop(st *Step, total int64) loopProgress {
	s.loops++
	now := time.Now()
	l := loopProgress{s: s, st: st, begun: now, told: now}
	if total > 0 && total <= math.MaxInt32 { // a larger bound stands for none
		l.total = int(total)
	}
	return l
}

// step says that so many iterations are done.
func (l *loopProgress) step(done int64) {
	if l.s.loops > 1 || l.s.m.env.Observe == nil {
		return
	}
	now := time.Now()
	if now.Sub(l.told) < tellEvery {
		return
	}
	l.told = now
	m := l.s.m
	m.observing.Lock()
	defer m.observing.Unlock()
	m.env.Observe(l.st.Node.Label(), int(done), l.total, now.Sub(l.begun))
}

func (l *loopProgress) end() { l.s.loops-- }
