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
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/clock"
)

// lateChain is how many products the chain has whose rows depend on data.
const lateChain = 4

// picked multiplies the rows of x whose mark is above 0: their number depends on data. The products are large by assumption, so that
// every backend takes them.
func picked() (*graph.Graph, error) {
	const wide = 2048
	text := fmt.Sprintf("graph {\n  opset %d\n  input %%x: f32[N,8]\n  input %%mark: f32[N]\n  const %%zero = f32[]{0}\n  const %%first = i64[]{0}\n", opset)
	for _, w := range []struct {
		name       string
		rows, cols int
	}{{"in", 8, wide}, {"w", wide, wide}, {"out", wide, 8}} {
		text += fmt.Sprintf("  const %%s_%s = i64[2]{%d, %d}\n  %%%s = ConstantOfShape(%%s_%s)\n", w.name, w.rows, w.cols, w.name, w.name)
	}
	text += "  %m = Greater(%mark, %zero)\n  %i = NonZero(%m)\n  %j = Gather(%i, %first; axis=0)\n  %rows = Gather(%x, %j; axis=0)\n  %v0 = MatMul(%rows, %in)\n"
	for i := range lateChain {
		text += fmt.Sprintf("  %%v%d = MatMul(%%v%d, %%w) \"late%d\"\n", i+1, i, i)
	}
	return graph.Parse(text + fmt.Sprintf("  %%y = MatMul(%%v%d, %%out)\n  output %%y\n}\n", lateChain))
}

// measureLate returns what a node whose shapes depend on data costs in a run that finds other shapes than those before it, beyond what
// cpu pays for that, in nanoseconds: the time of a run that finds a number of rows for the first time, less that of the next one, which
// finds it again, for each of c's products. It is 0 for cpu itself, and for plain kernels, which make nothing.
func measureLate(c contestant, rounds int) (float64, error) {
	if c.Name == switchedWith || c.Set == plain {
		return 0, nil
	}
	own, nodes, err := firstRuns(c, rounds)
	if err != nil || nodes == 0 {
		return 0, err
	}
	base, _, err := firstRuns(contestant{Name: switchedWith}, rounds)
	if err != nil {
		return 0, err
	}
	return max(0, own-base) / float64(nodes), nil
}

// firstRuns returns by how much the first run of a number of rows takes longer than the second, in nanoseconds: the median over numbers;
// and how many of the products are c's.
func firstRuns(c contestant, rounds int) (ns float64, nodes int, err error) {
	g, err := picked()
	if err != nil {
		return 0, 0, err
	}
	ctx := context.Background()
	o := &carve.Options{Placement: carve.Priority, Threads: 1, MaxSessions: 1, Backends: []backend.Config{{Name: c.Name, Options: c.options}}}
	if c.Name != switchedWith {
		o.Backends = append(o.Backends, backend.Config{Name: switchedWith})
	}
	p, err := carve.Compile(ctx, carve.FromGraph(g), o)
	if err != nil {
		return 0, 0, err
	}
	defer p.Close()
	if nodes, err = lateNodes(ctx, p, c.Name); err != nil {
		return 0, 0, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var apart []float64
	for rows := 1; rows <= 12*rounds; rows++ {
		x, mark := tensor.From(slices.Repeat([]float32{0.01}, rows*8), rows, 8), tensor.From(slices.Repeat([]float32{1}, rows), rows)
		var took [2]time.Duration
		for i := range took {
			clock.Touch(swept)
			before, known := clock.Thread()
			begin := time.Now()
			if _, err := p.Run(ctx, map[string]tensor.Value{"x": x, "mark": mark}); err != nil {
				return 0, 0, err
			}
			took[i] = time.Since(begin)
			if after, _ := clock.Thread(); known {
				took[i] = min(took[i], after-before)
			}
		}
		if rows > 2 { // the first ones take memory
			apart = append(apart, float64((took[0] - took[1]).Nanoseconds()))
		}
	}
	slices.Sort(apart)
	return apart[len(apart)/2], nodes, nil
}

// lateNodes returns how many of the products of the chain a backend has.
func lateNodes(ctx context.Context, p *carve.Program, name string) (count int, err error) {
	r, err := p.Report(ctx, map[string][]int{"x": {1, 8}, "mark": {1}})
	if err != nil {
		return 0, err
	}
	for _, x := range r.Groups {
		for i := range lateChain {
			if x.Backend == name && slices.Contains(x.Nodes, fmt.Sprintf("late%d", i)) {
				count++
			}
		}
	}
	return count, nil
}
