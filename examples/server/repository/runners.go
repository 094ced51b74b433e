package repository

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// runners are threads that run models and do nothing else, as many as there are runs at a time.
//
// Linux gives each thread a share of the processors, and has one that wakes up go before others where it has had less than that. Go has any
// goroutine on any thread: one that has computed for a millisecond reads from a connection next, and waits for milliseconds then, as does
// each step of a request. Where runs have threads of their own, all others stay below their share.
type runners struct {
	mu   sync.Mutex
	idle []*runner
	over bool
}

// runner is one thread.
type runner struct{ jobs chan *job }

// job is a run.
type job struct {
	run      func()
	done     chan struct{} // has one token when it is
	panicked error
}

// do has a runner run, and returns when that is done. A panic is the caller's.
func (r *runners) do(run func()) {
	j := &job{run: run, done: make(chan struct{}, 1)}
	r.next() <- j
	<-j.done
	if j.panicked != nil {
		panic(j.panicked)
	}
}

// next returns what to give a job to.
func (r *runners) next() chan<- *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.idle); n > 0 {
		x := r.idle[n-1]
		r.idle = r.idle[:n-1]
		return x.jobs
	}
	x := &runner{jobs: make(chan *job, 1)}
	onThread(func() { x.serve(r) })
	return x.jobs
}

// rest reports whether a runner is to wait for more.
func (r *runners) rest(x *runner) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.idle = append(r.idle, x)
	}
	return !r.over
}

// close ends those that are idle now, and the others with their jobs.
func (r *runners) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, x := range r.idle {
		close(x.jobs)
	}
	r.idle = nil
}

// onThread has f run on a thread of its own, which ends with it. It is never the process's first one: that ends with the process alone, and its
// share of the processors is what others are told of the process's.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if !onFirstThread() {
			f()
			return
		}
		begun := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(begun)
			f()
		}()
		<-begun // on another thread, since this one is taken
		runtime.UnlockOSThread()
	}()
}

// serve does jobs until the runners are closed.
func (x *runner) serve(r *runners) {
	giveWay()
	for j := range x.jobs {
		j.do()
		more := r.rest(x) // before others are told, who may have the next job
		j.done <- struct{}{}
		if !more {
			return
		}
	}
}

func (j *job) do() {
	defer func() {
		if p := recover(); p != nil {
			j.panicked = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	j.run()
}
