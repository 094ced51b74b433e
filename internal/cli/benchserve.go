package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

// servingRounds is how many times bench measures callers at one time of each runner, by turns.
const servingRounds = 4

// servingReport is what callers at one time see of a program, or of a Batcher over it.
type servingReport struct {
	Runner    string  `json:"runner"` // "program" or "batcher"
	Callers   int     `json:"callers"`
	PerSecond float64 `json:"requests_per_second"`
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
	Requests  int     `json:"requests"`
	// PerRun is how many requests a run had, of a Batcher.
	PerRun float64 `json:"requests_per_run,omitempty"`
	Off    string  `json:"off,omitempty"` // why the Batcher does not batch
}

// openRows leaves the symbol of the first input's first dim open, which counts rows.
func openRows(j *job, o *carve.Options) {
	g := j.model.Graph()
	for _, v := range g.Inputs {
		if len(v.Type.Shape) == 0 {
			continue
		}
		if name, ok := v.Type.Shape[0].Symbol(); ok {
			delete(o.Dims, name)
			o.Shapes = nil
		}
		return
	}
}

// serve measures callers at one time, of the program and of a Batcher over it.
func (a *app) serve(ctx context.Context, j *job, f *benchFlags) ([]servingReport, error) {
	runners := []carve.Runner{j.program}
	reports := []servingReport{{Runner: "program", Callers: f.concurrency}}
	if f.batcher {
		b, err := carve.NewBatcher(j.program, &carve.BatchOptions{MaxBatch: f.maxBatch, Delay: f.delay})
		if err != nil {
			return nil, err
		}
		defer b.Close()
		runners = append(runners, b)
		reports = append(reports, servingReport{Runner: "batcher", Callers: f.concurrency, Off: b.Off()})
		defer func() { reports[1].perRun(b.Stats()) }()
	}
	p := a.progress("run", servingRounds*len(runners))
	defer p.end()
	times, spent := make([][]time.Duration, len(runners)), make([]time.Duration, len(runners))
	for range servingRounds {
		for i, r := range runners {
			start := time.Now()
			took, err := callers(ctx, r, f.concurrency, j.feeds, f.time/servingRounds)
			if err != nil {
				return nil, err
			}
			times[i], spent[i] = append(times[i], took...), spent[i]+time.Since(start)
			p.step()
		}
	}
	for i := range reports {
		slices.Sort(times[i])
		r := &reports[i]
		r.Requests, r.PerSecond = len(times[i]), float64(len(times[i]))/spent[i].Seconds()
		r.P50MS, r.P99MS = quantile(times[i], 0.5), quantile(times[i], 0.99)
	}
	return reports, nil
}

func (r *servingReport) perRun(n carve.BatchStats) {
	if n.Runs > 0 {
		r.PerRun = float64(n.Calls) / float64(n.Runs)
	}
}

// callers has n callers ask a runner for so long, and returns how long each call took.
func callers(ctx context.Context, r carve.Runner, n int, feeds map[string]tensor.Value, round time.Duration) ([]time.Duration, error) {
	times, errs := make([][]time.Duration, n), make([]error, n)
	var wg sync.WaitGroup
	begin := time.Now()
	for k := range n {
		wg.Go(func() {
			for len(times[k]) == 0 || time.Since(begin) < round {
				start := time.Now()
				if _, err := r.Run(ctx, feeds); err != nil {
					errs[k] = err
					return
				}
				times[k] = append(times[k], time.Since(start))
			}
		})
	}
	wg.Wait()
	return slices.Concat(times...), errors.Join(errs...)
}

// printServing prints a row for each runner.
func (a *app) printServing(list []servingReport) {
	if len(list) == 0 {
		return
	}
	t := newTable(a.stdout)
	row(t, fmt.Sprintf("%d callers", list[0].Callers), "requests/s", "p50 ms", "p99 ms", "requests a run")
	for _, r := range list {
		perRun := ""
		if r.PerRun > 0 {
			perRun = fmt.Sprintf("%.3g", r.PerRun)
		}
		row(t, r.Runner, fmt.Sprintf("%.4g", r.PerSecond), fmt.Sprintf("%.4g", r.P50MS), fmt.Sprintf("%.4g", r.P99MS), perRun)
	}
	t.Flush()
	for _, r := range list {
		if r.Off != "" {
			a.note("calls are not batched: %s", r.Off)
		}
	}
}
