package mkl

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/carve-dev/carve/internal/dl"
)

// teams are the executors of a library, by the number of threads of a run.
type teams struct {
	mu sync.Mutex
	m  map[int]*team
}

// team runs groups on a number of threads. The library's worker threads belong to the thread that calls it, so that calls
// come from few, fixed threads: executors, locked to theirs. There are as many as processors allow, at least one, which
// also bounds the runs inside of the library at a time. They end with the last executable. A group whose primitives all
// have one thread has no workers: it runs on its caller's thread, within the same bound, and saves the hand-over.
type team struct {
	l       *library
	threads int
	refs    int
	turns   chan struct{} // held by each run inside of the library
	jobs    chan func()   // to the executors
	done    sync.WaitGroup
}

// acquire returns the team for that many threads, with its executors running.
func (t *teams) acquire(l *library, threads int) *team {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.m[threads]
	if m == nil {
		m = &team{l: l, threads: threads}
		if t.m == nil {
			t.m = map[int]*team{}
		}
		t.m[threads] = m
	}
	if m.refs++; m.refs > 1 {
		return m
	}
	most := max(runtime.GOMAXPROCS(0)/threads, 1)
	m.turns, m.jobs = make(chan struct{}, most), make(chan func())
	for range most {
		m.done.Add(1)
		go m.execute(m.jobs)
	}
	return m
}

// release gives a team back; the last one ends its executors and waits for them.
func (t *teams) release(m *team) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.refs--; m.refs > 0 {
		return
	}
	close(m.jobs)
	m.done.Wait()
}

// execute is an executor. Its thread is never given back to other goroutines: it ends with it, and its workers too.
func (m *team) execute(jobs <-chan func()) {
	runtime.LockOSThread()
	defer m.done.Done()
	if m.l.setThreads != 0 {
		dl.Call(m.l.setThreads, uintptr(m.threads))
	}
	for job := range jobs {
		job()
	}
}

// run executes a session's run and returns when it is over. Waiting for its turn ends with the run's context.
func (m *team) run(ctx context.Context, st *state) error {
	select {
	case m.turns <- struct{}{}:
	default:
		select {
		case m.turns <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if st.in.solo {
		runtime.LockOSThread()
		st.use(m.l, 1)
		st.guarded()
		runtime.UnlockOSThread()
	} else {
		m.jobs <- st.job
		<-st.over
	}
	<-m.turns
	return st.err
}

// create calls f on an executor, with the team's number of threads set. A primitive of several threads is created there:
// the library starts workers for some already then, and where all threads of GNU's OpenMP library together are more than
// the processors, none of them ever waits for the next primitive awake.
func (m *team) create(f func() error) error {
	over := make(chan error, 1)
	m.jobs <- func() { over <- f() }
	return <-over
}

// guarded runs the steps; a panic becomes the run's error.
func (st *state) guarded() {
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); ok {
				st.err = fmt.Errorf("%w: panic: %w", ErrStatus, err)
				return
			}
			st.err = fmt.Errorf("%w: panic: %v", ErrStatus, r)
		}
	}()
	st.err = st.steps()
}
