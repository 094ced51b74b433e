package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

// compareOrder measures what the order of execution costs: for every model and number of threads, one process runs the
// program in the model's order and the one in carve's by turns, run by run, each round beginning with the other one. It
// prints the lower quartiles over all runs, which other load disturbs less than medians, their ratio, and the geometric
// mean of the ratios. Where both orders are the same, so are the programs, and the ratio is noise.
func compareOrder(names []string, threads []int, seconds float64) error {
	fmt.Println("| model | threads | model's order ms | carve's order ms | ratio | same order |")
	fmt.Println("|---|--:|--:|--:|--:|---|")
	for _, n := range threads {
		sum, worst := 0.0, 0.0
		for _, name := range names {
			kept, chosen, same, err := byTurns(name, n, seconds)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			ratio := chosen / kept
			sum += math.Log(ratio)
			worst = max(worst, ratio)
			fmt.Printf("| %s | %d | %.3f | %.3f | %.3f | %v |\n", name, n, kept, chosen, ratio, same)
		}
		fmt.Printf("\nGeometric mean at %d threads, %d models: %.4f, largest %.3f\n\n", n, len(names), math.Exp(sum/float64(len(names))), worst)
	}
	return nil
}

// byTurns returns the lower quartiles of a model's times in both orders, in ms, and whether the orders are the same.
func byTurns(name string, threads int, seconds float64) (kept, chosen float64, same bool, err error) {
	path, err := zootest.Materialize(name)
	if err != nil {
		return 0, 0, false, err
	}
	ref, err := zootest.ReadReference(name)
	if err != nil {
		return 0, 0, false, err
	}
	feeds, err := ref.Feeds()
	if err != nil {
		return 0, 0, false, err
	}
	ctx := context.Background()
	m, err := carve.Open(ctx, path)
	if err != nil {
		return 0, 0, false, err
	}
	defer m.Close()
	shapes := map[string][]int{}
	for _, in := range ref.Inputs {
		shapes[in.Name] = in.Dims
	}
	var programs [2]*carve.Program
	var labels [2]string
	for i := range programs {
		if programs[i], err = carve.Compile(ctx, m, &carve.Options{Threads: threads, KeepOrder: i == 0}); err != nil {
			return 0, 0, false, err
		}
		defer programs[i].Close()
		r, err := programs[i].Report(ctx, shapes)
		if err != nil {
			return 0, 0, false, err
		}
		for _, g := range r.Groups {
			labels[i] += fmt.Sprintln(g.Ops, g.Nodes)
		}
	}
	var times [2][]float64
	begin := time.Now()
	for round := 0; round < 10 || time.Since(begin).Seconds() < seconds; round++ {
		for k := range programs {
			i := (k + round) % 2
			d, err := once(ctx, programs[i], feeds)
			if err != nil {
				return 0, 0, false, err
			}
			if round >= 2 { // the first ones warm up
				times[i] = append(times[i], ms(d))
			}
		}
	}
	if len(times[0]) < 5 {
		fmt.Fprintf(os.Stderr, "%s: %d runs only\n", name, len(times[0]))
	}
	return quartile(times[0]), quartile(times[1]), labels[0] == labels[1], nil
}

func quartile(v []float64) float64 { return slices.Sorted(slices.Values(v))[(len(v)-1)/4] }

func once(ctx context.Context, p *carve.Program, feeds map[string]tensor.Value) (time.Duration, error) {
	start := time.Now()
	_, err := p.Run(ctx, feeds)
	return time.Since(start), err
}
