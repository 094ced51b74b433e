package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/bench/clock"
)

// chained is how many operators a chain has.
const chained = 9

// chain is one of operators that nobody fuses.
func chain() (*graph.Graph, error) {
	text := fmt.Sprintf("graph {\n  opset %d\n  input %%v0: f32[4,16]\n", opset)
	for i := range chained {
		text += fmt.Sprintf("  %%v%d = Softmax(%%v%d)\n", i+1, i)
	}
	return graph.Parse(text + fmt.Sprintf("  output %%v%d\n}\n", chained))
}

// measureLaunch returns what a group costs beside its nodes, in nanoseconds: the time of a chain whose nodes are groups of
// their own, less that of the chain as one group, for each group.
func measureLaunch(c contestant, rounds int) (float64, error) {
	var programs [2]*carve.Program
	var times [2][]time.Duration
	ctx := context.Background()
	g, err := chain()
	if err != nil {
		return 0, err
	}
	in, err := feeds(g)
	if err != nil {
		return 0, err
	}
	for i, isolated := range []bool{false, true} {
		p, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Placement: carve.Priority, Backends: []backend.Config{{Name: c.Name, Options: c.options}},
			Strict: true, Threads: 1, MaxSessions: 1, Isolated: isolated})
		if err != nil {
			return 0, err
		}
		defer p.Close()
		programs[i] = p
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 100 * rounds {
		for i, p := range programs {
			clock.Touch(swept) // in a model what is launched was not used since the last run
			before, known := clock.Thread()
			begin := time.Now()
			if _, err := p.Run(ctx, in); err != nil {
				return 0, err
			}
			took := time.Since(begin)
			if after, _ := clock.Thread(); known {
				took = min(took, after-before)
			}
			times[i] = append(times[i], took)
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	// The lower quartiles: least times are chance where they are told apart by so little.
	apart := times[1][len(times[1])/4] - times[0][len(times[0])/4]
	return max(0, float64(apart.Nanoseconds())/(chained-1)), nil
}
