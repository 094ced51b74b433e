package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/clock"
	"github.com/carve-dev/carve/internal/bench/paired"
	"github.com/carve-dev/carve/internal/zootest"
)

// placed is one way to place a model's nodes.
type placed struct {
	name      string
	backends  []string
	placement carve.Placement
}

// comparison is what -compare-placement does.
type comparison struct {
	seconds    float64
	tune       time.Duration // of every model, 0: without
	cache      string        // the folder of its measurements
	placements []placed      // the third is modelled; all but the first two are compared with the better of these
}

// newComparison returns one that tunes every model for so long.
func newComparison(seconds float64, tune time.Duration) *comparison {
	c := &comparison{seconds: seconds, tune: tune, placements: []placed{
		{"cpu", []string{"cpu"}, carve.Priority},
		{"mkl,cpu", []string{"mkl", "cpu"}, carve.Priority},
		{"modelled", []string{"mkl", "cpu"}, carve.Modelled},
	}}
	if tune > 0 {
		c.placements = append(c.placements, placed{"tuned", []string{"mkl", "cpu"}, carve.Measured})
	}
	return c
}

// subject is a model with inputs.
type subject struct {
	model *carve.Model
	feeds map[string]tensor.Value
}

// open opens a model of the zoo, or of the nets that are made here.
func open(ctx context.Context, name string) (*subject, error) {
	if i := slices.IndexFunc(nets(), func(n net) bool { return n.name == name }); i >= 0 {
		return nets()[i].subject()
	}
	path, err := zootest.Materialize(name)
	if err != nil {
		return nil, err
	}
	ref, err := zootest.ReadReference(name)
	if err != nil {
		return nil, err
	}
	s := &subject{}
	if s.feeds, err = ref.Feeds(); err != nil {
		return nil, err
	}
	s.model, err = carve.Open(ctx, path)
	return s, err
}

// shapes returns those of the inputs.
func (s *subject) shapes() map[string][]int {
	m := map[string][]int{}
	for name, v := range s.feeds {
		if t, ok := v.(*tensor.Tensor); ok {
			m[name] = t.Shape
		}
	}
	return m
}

// run measures what the choice of backends is worth: for every model and number of threads, one process runs the program of each
// placement by turns, run by run, each round in another order, since a program may find the threads of the one before it awake. It
// prints medians, the paired ratios of each placement behind the first two to the better of these, with their intervals, and the
// geometric mean of the ratios.
func (c *comparison) run(names []string, threads []int) error {
	if c.tune > 0 {
		dir, err := os.MkdirTemp("", "carve-tuned")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		c.cache = dir
	}
	for _, n := range threads {
		fmt.Print("\n| model | threads |")
		for i, p := range c.placements {
			if fmt.Printf(" %s ms |", p.name); i >= 2 {
				fmt.Print(" ratio |")
			}
		}
		fmt.Print(" nodes on backends | modelled ms | choosing ms | gap % |")
		columns := strings.Repeat("--:|", 2*len(c.placements)-2) + "---|--:|--:|--:|"
		if c.tune > 0 {
			fmt.Print(" tuned: ms |")
			columns += "---|"
		}
		fmt.Print("\n|---|--:|", columns, "\n")
		sums, worst := make([]float64, len(c.placements)), make([]paired.Ratio, len(c.placements))
		for _, name := range names {
			runs, about, err := c.inTurns(name, n)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			best := 0
			if paired.Of(runs[1], runs[0]).Median < 1 {
				best = 1
			}
			fmt.Printf("| %s | %d |", name, n)
			for i, t := range runs {
				ratio := paired.Of(t, runs[best])
				if fmt.Printf(" %.3f |", paired.Median(slices.Clone(t))); i >= 2 {
					sums[i] += math.Log(ratio.Median)
					if ratio.Low > worst[i].Low {
						worst[i] = ratio
					}
					fmt.Printf(" %v |", ratio)
				}
			}
			fmt.Printf(" %s |\n", about)
		}
		for i, p := range c.placements[2:] {
			fmt.Printf("\n%s at %d threads, %d models: geometric mean %.3f of the better of %s and %s, largest %v\n",
				p.name, n, len(names), math.Exp(sums[i+2]/float64(len(names))), c.placements[0].name, c.placements[1].name, worst[i+2])
		}
	}
	return nil
}

// rounds is the least number of rounds that count.
const rounds = 15

// inTurns returns a model's times in ms, by placement and round, and what the modelled one came to.
func (c *comparison) inTurns(name string, threads int) (runs [][]float64, about string, err error) {
	ctx := context.Background()
	s, err := open(ctx, name)
	if err != nil {
		return nil, "", err
	}
	defer s.model.Close()
	choosing := make([]time.Duration, len(c.placements))
	programs, runs := make([]*carve.Program, len(c.placements)), make([][]float64, len(c.placements))
	for i, p := range c.placements {
		if programs[i], choosing[i], err = c.compile(ctx, s, p, threads); err != nil {
			return nil, "", fmt.Errorf("%s: %w", p.name, err)
		}
		defer programs[i].Close()
	}
	begin, turns := time.Now(), rand.New(rand.NewPCG(1, uint64(threads)))
	for round := 0; round < rounds+2 || time.Since(begin).Seconds() < c.seconds; round++ {
		for _, i := range turns.Perm(len(programs)) {
			d, err := taken(ctx, programs[i], s.feeds, threads)
			if err != nil {
				return nil, "", err
			}
			if round >= 2 { // the first ones warm up
				runs[i] = append(runs[i], ms(d))
			}
		}
	}
	about, err = placement(ctx, programs[2], s, choosing[2])
	if err == nil && c.tune > 0 {
		var chosen string
		chosen, err = tuned(ctx, programs[3], s)
		about += " | " + chosen
	}
	return runs, about, err
}

// taken runs a program and returns the time that it took: on one thread what the processor gave to that, where it is known.
func taken(ctx context.Context, p *carve.Program, feeds map[string]tensor.Value, threads int) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, known := clock.Thread()
	d, err := once(ctx, p, feeds)
	if after, _ := clock.Thread(); known && threads == 1 {
		d = min(d, after-before)
	}
	return d, err
}

// compile compiles a model for a placement, and tells how long choosing took, in processor time where that is known. A backend
// that is unavailable is an error.
func (c *comparison) compile(ctx context.Context, s *subject, p placed, threads int) (*carve.Program, time.Duration, error) {
	var choosing time.Duration
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := time.Now()
	now := func() time.Duration {
		if t, ok := clock.Thread(); ok {
			return t
		}
		return time.Since(start)
	}
	began := time.Duration(-1) // the choice
	o := &carve.Options{Threads: threads, Placement: p.placement, MaxSessions: 1, Cache: c.cache}
	o.Observer = func(r carve.Progress) {
		switch {
		case r.Pass == "assign":
			began = now()
		case began >= 0:
			choosing, began = choosing+now()-began, -1
		}
	}
	for _, b := range p.backends {
		config := backend.Config{Name: b}
		opened, err := backend.Open(config)
		if err != nil {
			return nil, 0, err
		}
		if err := opened.Close(); err != nil {
			return nil, 0, err
		}
		o.Backends = append(o.Backends, config)
	}
	if p.placement == carve.Measured {
		t := &carve.TuneOptions{Options: o, Time: c.tune, Shapes: s.shapes(), Inputs: s.feeds}
		if _, err := carve.Tune(ctx, s.model, t); err != nil {
			return nil, 0, err
		}
	}
	program, err := carve.Compile(ctx, s.model, o)
	return program, choosing, err
}

// tuned says what tuning chose, and how long what it compared took.
func tuned(ctx context.Context, p *carve.Program, s *subject) (string, error) {
	r, err := p.Report(ctx, s.shapes())
	if err != nil || r.Tuned == nil {
		return "", err
	}
	list := make([]string, len(r.Tuned.Runs))
	for i, x := range r.Tuned.Runs {
		list[i] = fmt.Sprintf("%s %.3f±%.3f", x.Choice, x.Nanoseconds/1e6, x.Noise/1e6)
	}
	return strings.Join(list, ", "), nil
}

// placement says where the nodes of a program are, and what was modelled.
func placement(ctx context.Context, p *carve.Program, s *subject, choosing time.Duration) (string, error) {
	r, err := p.Report(ctx, s.shapes())
	if err != nil {
		return "", err
	}
	nodes, groups := map[string]int{}, map[string]int{}
	var order []string
	for _, g := range r.Groups {
		if !slices.Contains(order, g.Backend) {
			order = append(order, g.Backend)
		}
		nodes[g.Backend] += len(g.Nodes)
		groups[g.Backend]++
	}
	slices.Sort(order)
	for i, b := range order {
		order[i] = fmt.Sprintf("%s %d in %d", b, nodes[b], groups[b])
	}
	about := strings.Join(order, ", ")
	if pl := r.Placement; pl != nil {
		about += fmt.Sprintf(" | %.3f | %.1f | %.3f", pl.Nanoseconds/1e6, ms(choosing), 100*(pl.Nanoseconds/pl.Bound-1))
	}
	return about, nil
}
