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
	"github.com/carve-dev/carve/partition"
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

// measureSwitch returns what a group costs in addition where the groups before and behind it are cpu's and both have that many
// threads, in nanoseconds: the time of products that alternate between the two, less the times that each takes for its share of
// them where it has all, for each of c's groups. It is 0 for cpu itself, and where one thread is all there is.
func measureSwitch(c contestant, threads, rounds int) (float64, error) {
	if c.Name == switchedWith || threads < 2 {
		return 0, nil
	}
	g, err := matmuls()
	if err != nil {
		return 0, err
	}
	in, err := feeds(g)
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	var programs [3]*carve.Program // all c's, all cpu's, by turns
	for i := range programs {
		o := &carve.Options{Placement: carve.Priority, Strict: true, Threads: threads, MaxSessions: 1, Isolated: true,
			Backends: []backend.Config{{Name: c.Name, Options: c.options}, {Name: switchedWith}}}
		for k := range chained {
			if i == 1 || i == 2 && k%2 == 0 {
				o.Pins = append(o.Pins, partition.Pin{Node: fmt.Sprintf("v%d", k+1), Backend: switchedWith})
			}
		}
		if programs[i], err = carve.Compile(ctx, carve.FromGraph(g), o); err != nil {
			return 0, err
		}
		defer programs[i].Close()
	}
	var times [3][]time.Duration
	for range 20 * rounds {
		for i, p := range programs {
			begin := time.Now()
			if _, err := p.Run(ctx, in); err != nil {
				return 0, err
			}
			times[i] = append(times[i], time.Since(begin))
		}
	}
	var took [3]float64
	for i := range times {
		slices.Sort(times[i])
		took[i] = float64(times[i][len(times[i])/4].Nanoseconds())
	}
	const own = chained / 2 // of the nodes by turns
	return max(0, took[2]-(own*took[0]+(chained-own)*took[1])/chained) / own, nil
}

// switchedWith is the backend whose groups lie around those of others.
const switchedWith = "cpu"

// matmuls is a chain of products that two threads share.
func matmuls() (*graph.Graph, error) {
	text := fmt.Sprintf("graph {\n  opset %d\n  input %%v0: f32[192,192]\n  input %%w: f32[192,192]\n", opset)
	for i := range chained {
		text += fmt.Sprintf("  %%v%d = MatMul(%%v%d, %%w)\n", i+1, i)
	}
	return graph.Parse(text + fmt.Sprintf("  output %%v%d\n}\n", chained))
}
