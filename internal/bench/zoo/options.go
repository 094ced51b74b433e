package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/paired"
)

// optionSet is options that backend cpu is opened with.
type optionSet struct {
	name    string
	options map[string]string
}

// optionSets reads sets that are separated by semicolons, each of NAME=VALUE separated by commas; one may be empty.
func optionSets(text string) (list []optionSet, err error) {
	for _, one := range strings.Split(text, ";") {
		s := optionSet{name: cmp.Or(one, "no options"), options: map[string]string{}}
		for _, o := range strings.FieldsFunc(one, func(r rune) bool { return r == ',' }) {
			name, value, ok := strings.Cut(o, "=")
			if !ok {
				return nil, fmt.Errorf("option %q is not NAME=VALUE", o)
			}
			s.options[name] = value
		}
		list = append(list, s)
	}
	if len(list) < 2 {
		return nil, fmt.Errorf("one set of options %q, nothing to compare", text)
	}
	return list, nil
}

// compareOptions measures what options of backend cpu cost: for every model and number of threads, one process runs the programs of all
// sets by turns, run by run, each round in another order. It prints medians, the paired ratios to the first set with their intervals, how far
// results lie from those of the first set, and geometric means of the ratios.
func compareOptions(names []string, threads []int, sets []optionSet, seconds float64) error {
	for _, n := range threads {
		fmt.Printf("\n| model | threads | %s ms |", sets[0].name)
		for _, s := range sets[1:] {
			fmt.Printf(" %s ms | ratio | farthest σ | error |", s.name)
		}
		fmt.Print("\n|---|--:|--:|", strings.Repeat("--:|--:|--:|--:|", len(sets)-1), "\n")
		sums := make([]float64, len(sets))
		for _, name := range names {
			runs, differences, err := setsInTurns(name, n, sets, seconds)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Printf("| %s | %d |", name, n)
			for i, t := range runs {
				if fmt.Printf(" %.3f |", paired.Median(slices.Clone(t))); i > 0 {
					ratio := paired.Of(t, runs[0])
					sums[i] += math.Log(ratio.Median)
					fmt.Printf(" %v | %.2g | %.2g%s |", ratio, differences[i].farthest, differences[i].relative, differences[i].note())
				}
			}
			fmt.Println()
		}
		for i, s := range sets[1:] {
			fmt.Printf("\n%s at %d threads, %d models: geometric mean %.3f of %s\n", s.name, n, len(names), math.Exp(sums[i+1]/float64(len(names))), sets[0].name)
		}
	}
	return nil
}

// setsInTurns returns a model's times in ms by set and round, and how far the results of each set lie from those of the first.
func setsInTurns(name string, threads int, sets []optionSet, seconds float64) (runs [][]float64, list []difference, err error) {
	ctx := context.Background()
	s, err := open(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	defer s.model.Close()
	programs, results := make([]*carve.Program, len(sets)), make([]map[string]tensor.Value, len(sets))
	runs, list = make([][]float64, len(sets)), make([]difference, len(sets))
	for i, set := range sets {
		o := &carve.Options{Threads: threads, MaxSessions: 1, Backends: []backend.Config{{Name: "cpu", Options: set.options}, {Name: "reference"}}, Strict: true}
		if programs[i], err = carve.Compile(ctx, s.model, o); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", set.name, err)
		}
		defer programs[i].Close()
		if results[i], err = programs[i].Run(ctx, s.feeds); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", set.name, err)
		}
		list[i] = differ(results[i], results[0])
	}
	begin, turns := time.Now(), rand.New(rand.NewPCG(1, uint64(threads)))
	for round := 0; round < rounds+2 || time.Since(begin).Seconds() < seconds; round++ {
		for _, i := range turns.Perm(len(programs)) {
			d, err := taken(ctx, programs[i], s.feeds, threads)
			if err != nil {
				return nil, nil, err
			}
			if round >= 2 { // the first ones warm up
				runs[i] = append(runs[i], ms(d))
			}
		}
	}
	return runs, list, nil
}

// difference is how far results lie from others: of all outputs that are floats the largest.
type difference struct {
	farthest float64 // the largest distance of an element, in standard deviations of its output
	relative float64 // the root of the squares of the distances by that of the elements
	others   int     // elements of other types that differ, or outputs of another shape
}

func (d difference) note() string {
	if d.others == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d integers", d.others)
}

// differ compares results with the ones wanted.
func differ(got, want map[string]tensor.Value) (d difference) {
	for name, w := range want {
		x, ok1 := got[name].(*tensor.Tensor)
		y, ok2 := w.(*tensor.Tensor)
		switch {
		case !ok1 || !ok2:
		case !slices.Equal(x.Shape, y.Shape):
			d.others++
		case y.DType == tensor.Float32:
			d.floats(tensor.Of[float32](x), tensor.Of[float32](y))
		case y.DType == tensor.Int64:
			a := tensor.Of[int64](x)
			for i, v := range tensor.Of[int64](y) {
				if a[i] != v {
					d.others++
				}
			}
		}
	}
	return d
}

// floats compares an output.
func (d *difference) floats(got, want []float32) {
	var sum, squares, distance, farthest float64
	for i, w := range want {
		away := math.Abs(float64(got[i]) - float64(w))
		sum, squares = sum+float64(w), squares+float64(w)*float64(w)
		distance, farthest = distance+away*away, max(farthest, away)
	}
	n := float64(len(want))
	if deviation := math.Sqrt(max(squares/n-sum/n*sum/n, 0)); n > 0 && farthest > 0 {
		d.farthest, d.relative = max(d.farthest, farthest/deviation), max(d.relative, math.Sqrt(distance/squares))
	}
}
