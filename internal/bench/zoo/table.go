package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/internal/bench/paired"
)

// figure is what one side needs for a model: medians over rounds, by quantity, and of carve the ratios to the rival's whose median is least.
type figure struct {
	Side   string                  `json:"side"`
	Rival  bool                    `json:"rival,omitempty"`
	Median map[string]float64      `json:"median"` // none where the side does not run the model
	Ratio  map[string]paired.Ratio `json:"ratio,omitempty"`
}

// quantity is something that a process measured: once, or in each of its turns.
type quantity struct {
	name, head string // in JSON, and over a column
	format     string
	of         func(s sample) []float64
}

// quantities are what is compared; the first has a table of its own.
var quantities = []quantity{
	{"run_ms", "ms", "%.3f", func(s sample) []float64 { return s.each(func(t turn) []float64 { return t.RunMS }) }},
	{"cpu_ms", "processor ms", "%.3f", func(s sample) []float64 { return s.each(func(t turn) []float64 { return t.CPUMS }) }},
	{"create_ms", "create ms", "%.1f", func(s sample) []float64 { return []float64{s.CreateMS} }},
	{"first_ms", "create and first run ms", "%.1f", func(s sample) []float64 { return []float64{s.CreateMS + s.FirstMS} }},
	{"peak_mib", "peak MiB", "%.0f", func(s sample) []float64 { return []float64{s.PeakMiB} }},
}

// each returns the median of every turn.
func (s sample) each(of func(turn) []float64) (out []float64) {
	for _, t := range s.Turns {
		out = append(out, median(of(t)))
	}
	return out
}

// median returns the median of v, which it leaves as it is; NaN of none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return paired.Median(slices.Clone(v))
}

// figures compares the samples of the sides, by side and round; turns count as rounds.
func figures(sides []side, samples [][]sample) []figure {
	out := make([]figure, len(sides))
	for i, s := range sides {
		out[i] = figure{Side: s.name, Rival: s.rival, Median: map[string]float64{}, Ratio: map[string]paired.Ratio{}}
	}
	for _, q := range quantities {
		rounds := make([][]float64, len(sides))
		best := -1
		for i, s := range sides {
			for _, x := range samples[i] {
				rounds[i] = append(rounds[i], q.of(x)...)
			}
			m := median(rounds[i])
			if !(m > 0) {
				continue // it does not run the model, or the system does not tell
			}
			out[i].Median[q.name] = m
			if s.rival && (best < 0 || m < out[best].Median[q.name]) {
				best = i
			}
		}
		for i, s := range sides {
			if !s.rival && best >= 0 && out[i].Median[q.name] > 0 {
				out[i].Ratio[q.name] = paired.Of(rounds[i], rounds[best])
			}
		}
	}
	return out
}

// apart is the model whose time is nearly all one operator; means leave it out.
const apart = "ssdlite320_mobilenet_v3_large"

// table prints the figures: run times first, then everything else.
func table(rows []row) {
	if len(rows) == 0 {
		return
	}
	columns(rows, quantities[:1])
	fmt.Println()
	columns(rows, quantities[1:])
	for _, q := range quantities {
		means(rows, q)
	}
}

// columns prints a table of some quantities.
func columns(rows []row, list []quantity) {
	head := []string{"model", "threads"}
	for _, q := range list {
		for _, f := range rows[0].Figures {
			head = append(head, f.Side+" "+q.head)
			if !f.Rival {
				head = append(head, "ratio")
			}
		}
	}
	line(head)
	fmt.Println("|---|" + strings.Repeat("--:|", len(head)-1))
	for _, r := range rows {
		cells := []string{r.Model, strconv.Itoa(r.Threads)}
		for _, q := range list {
			for _, f := range r.Figures {
				cells = append(cells, f.cell(q))
				if !f.Rival {
					cells = append(cells, f.ratio(q))
				}
			}
		}
		line(cells)
	}
}

func (f *figure) cell(q quantity) string {
	if m, ok := f.Median[q.name]; ok {
		return fmt.Sprintf(q.format, m)
	}
	return "–"
}

func (f *figure) ratio(q quantity) string {
	if r, ok := f.Ratio[q.name]; ok {
		return r.String()
	}
	return "–"
}

func line(cells []string) { fmt.Println("| " + strings.Join(cells, " | ") + " |") }

// means prints the geometric means of the ratios of a quantity, and the largest of them.
func means(rows []row, q quantity) {
	for i, f := range rows[0].Figures {
		byThreads := map[int][]row{}
		for _, r := range rows {
			if _, ok := r.Figures[i].Ratio[q.name]; ok && r.Model != apart {
				byThreads[r.Threads] = append(byThreads[r.Threads], r)
			}
		}
		for _, t := range slices.Sorted(maps.Keys(byThreads)) {
			sum, worst, at := 0.0, 0.0, ""
			for _, r := range byThreads[t] {
				x := r.Figures[i].Ratio[q.name].Median
				sum += math.Log(x)
				if x > worst {
					worst, at = x, r.Model
				}
			}
			n := len(byThreads[t])
			fmt.Printf("\n%s at %d threads, %d models without %s: %s, geometric mean of the ratios %.3f, largest %.3f (%s)\n",
				f.Side, t, n, apart, q.head, math.Exp(sum/float64(n)), worst, at)
		}
	}
}
