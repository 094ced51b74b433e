package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/clock"
	"github.com/carve-dev/carve/internal/cost"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// contestant is a backend whose table is measured.
type contestant struct {
	Name    string // of the backend
	Set     string // of instructions: the section of its table
	options map[string]string
}

func (c contestant) String() string { return c.Name + "/" + c.Set }

// sample is one measured node.
type sample struct {
	Backend   string
	Set       string
	Threads   int
	Task      string
	Signature string
	Work      cost.Work
	Nanos     float64
	Cold      bool `json:",omitempty"` // the caches held its operands at most
}

// entry is a task that is compiled for one contestant.
type entry struct {
	sample
	program *carve.Program
	feeds   map[string]tensor.Value
	seen    [2]seen // by turns as in a model, caches cold, and right after itself
}

// seen are the times of an entry in one of two ways.
type seen struct {
	best   time.Duration   // of the node
	shares []time.Duration // of the thread's processor time, by run
}

// slowest is what one run of a task may take; a slower one is measured once.
const slowest = 100 * time.Millisecond

// leastNanos is the least time that is told apart: reading the clock takes as long.
const leastNanos = 50

// together is how many tasks are compiled and measured at one time, so that the rounds of each lie seconds apart: what else the
// machine does comes and goes.
const together = 16

// measureAll measures every task on every contestant, by turns: a few runs of each in each of the rounds. What a backend
// turns down, it has no sample of.
func measureAll(list []task, contestants []contestant, threads []int, rounds int) ([]sample, error) {
	var samples []sample
	parts := (len(list) + together - 1) / together
	for part := range parts {
		var entries []*entry
		for i := part; i < len(list); i += parts {
			for _, n := range threads {
				for _, c := range contestants {
					e, err := prepare(list[i], c, n)
					if err != nil {
						return nil, fmt.Errorf("%s on %s: %w", list[i], c, err)
					}
					if e != nil {
						entries = append(entries, e)
					}
				}
			}
		}
		for range rounds {
			for _, e := range entries {
				if err := e.round(); err != nil {
					return nil, fmt.Errorf("%s on %s: %w", e.Task, e.Backend, err)
				}
			}
		}
		for _, e := range entries {
			for k := range e.seen {
				e.Cold, e.Nanos = k == cold, max(float64(e.time(k).Nanoseconds()), leastNanos)
				samples = append(samples, e.sample)
			}
			if err := e.program.Close(); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(os.Stderr, "cost: %d of %d parts\n", part+1, parts)
	}
	return samples, nil
}

// prepare compiles a task for a contestant; nil where that does not run it, or by more than one node.
func prepare(t task, c contestant, threads int) (*entry, error) {
	g, err := t.graph()
	if err != nil {
		return nil, err
	}
	e := &entry{sample: sample{Backend: c.Name, Set: c.Set, Threads: threads, Task: t.String()}}
	for k := range e.seen {
		e.seen[k].best = math.MaxInt64
	}
	if e.feeds, err = feeds(g); err != nil {
		return nil, err
	}
	nodes := 0
	e.program, err = carve.Compile(context.Background(), carve.FromGraph(g), &carve.Options{Placement: carve.Priority,
		Backends: []backend.Config{{Name: c.Name, Options: c.options}}, Threads: threads, MaxSessions: 1,
		Dump: func(pass string, g *graph.Graph) {
			if pass != "choose-formats" {
				return
			}
			nodes = 0
			for n := range g.Nodes() {
				names := n.Provenance()
				if !slices.Contains(names, measured) || n.Backend != c.Name {
					continue
				}
				nodes++
				if slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, "b") && len(s) > 1 }) {
					nodes++ // it is part of a convolution
				}
				e.Work, e.Signature = cost.Measure(n), n.SigName
			}
		},
	})
	if err != nil {
		return nil, nil // the backend turns it down
	}
	if nodes != 1 {
		return nil, e.program.Close()
	}
	return e, nil
}

// Ways to measure an entry.
const (
	warm = iota
	cold
)

// round runs an entry for some milliseconds, with caches warm and cold, and keeps the least times of its node.
func (e *entry) round() error {
	runtime.LockOSThread() // whose time is read
	defer runtime.UnlockOSThread()
	for k := range e.seen {
		if best := e.seen[k].best; best != math.MaxInt64 && best > slowest {
			continue
		}
		for begin, runs := time.Now(), 0; runs < 3 || time.Since(begin) < 3*time.Millisecond; runs++ {
			took, err := e.run(k)
			if err != nil {
				return err
			}
			if took > slowest {
				break
			}
		}
	}
	return nil
}

// swept is as large as the caches that cores share, as far as one has a part of them; its first part is larger than those of a core.
var (
	swept  = make([]byte, 32<<20)
	ofCore = min(2*isa.Host().SecondCache(), len(swept))
)

// cool takes what the last run left in the caches out of them, and puts operands back: in a model the constants of a node, its
// instructions and what describes it were not used since the last run, and its operands were made shortly before. Warm, only
// the core's own caches lose them, so that threads need not be woken: how they share work is read from these runs.
func (e *entry) cool(way int) {
	if way == warm {
		clock.Touch(swept[:ofCore])
		return
	}
	clock.Touch(swept)
	for _, v := range e.feeds {
		if t, ok := v.(*tensor.Tensor); ok {
			clock.Touch(t.Data)
		}
	}
}

// run runs an entry once, notes its times, and returns that of its node.
func (e *entry) run(way int) (time.Duration, error) {
	e.cool(way)
	before, known := clock.Thread()
	begin := time.Now()
	_, p, err := e.program.RunProfiled(context.Background(), e.feeds)
	wall := time.Since(begin)
	if err != nil {
		return 0, err
	}
	sum := time.Duration(0)
	for _, s := range p.Spans {
		if s.Backend == e.Backend && slices.Contains(s.Nodes, measured) {
			sum += s.Time
		}
	}
	to := &e.seen[way]
	to.best = min(to.best, max(sum, 1))
	if after, _ := clock.Thread(); known && wall > 0 {
		to.shares = append(to.shares, time.Duration(float64(after-before)*float64(sum)/float64(wall)))
	}
	return sum, nil
}

// time returns the least time of the node. Long nodes are interrupted by other load in every run: on one thread it is at most
// the median of what the processor gave to the thread, in the node's part.
func (e *entry) time(way int) time.Duration {
	from := &e.seen[way]
	if e.Threads > 1 || len(from.shares) == 0 {
		return from.best
	}
	slices.Sort(from.shares)
	return min(from.best, max(from.shares[len(from.shares)/2], 1))
}
