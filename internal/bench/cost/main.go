// Command cost measures the constants by which package internal/cost models the time of nodes, and checks the model.
//
//	go run ./internal/bench/cost [-backends 'cpu;cpu:isa=portable;mkl;reference'] [-threads 1,2] [-rounds 5] [-write] [-samples FILE] [-match TEXT,TEXT]
//
//	go run ./internal/bench/cost -groups [-backends mkl] [-threads 1,2] [-rounds 5] [-write]
//
//	go run ./internal/bench/cost -check [-models resnet50,bert_base] [-backends 'cpu;mkl'] [-threads 1]
//
// It runs operators of every class at shapes of real models and others, on each backend alone, by turns: in every round each
// of them runs for some milliseconds, and the least time of all rounds counts, which other load disturbs least. From these it
// fits the laws of each class, prints how far they are from what was measured, and with -write puts the tables into
// backend/NAME/efficiency.txt, into the section of this class of processors (isa.Target.Class); others stay as they are. It takes some ten minutes.
//
// With -match it measures only tasks whose names contain one of these texts: the laws of their classes are new, others stay those of the table.
// All products and convolutions of integers, after a change of their kernels:
//
//	go run ./internal/bench/cost -match 'QLinear,Integer(' -backends 'cpu;mkl' -write
//
// With -groups it measures, within seconds, what groups cost beside their nodes: launches, switches between backends on several threads,
// and primitives for shapes that depend on data. The laws of the tables stay.
//
// With -check it compares modelled and profiled times of the nodes of the zoo, or of model files, such as quantised forms that
// internal/bench/zoo kept (-keep).
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/reference"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/cost"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// cacheBytes is how much a node's operands and results may take before they count as coming from memory: a part of the cache
// that cores share, on server processors of the last years. Package convert counts as much of a tensor and its copy.
const cacheBytes = 8 << 20

// plain is the set of a backend whose kernels are the same everywhere.
const plain = "any"

func main() {
	backends := flag.String("backends", "cpu;cpu:isa=portable;mkl;reference", "backends with options, separated by semicolons")
	threads := flag.String("threads", "1,2", "numbers of threads, comma-separated")
	rounds := flag.Int("rounds", 5, "rounds, of which the least times are taken")
	write := flag.Bool("write", false, "write the tables")
	file := flag.String("samples", "", "file of samples: read where it is there, written where not")
	match := flag.String("match", "", "measure only tasks whose name contains one of these texts, comma-separated")
	groups := flag.Bool("groups", false, "measure only what groups cost beside their nodes: the laws stay those of the tables")
	check := flag.Bool("check", false, "compare with profiles of the zoo")
	models := flag.String("models", "", "with -check: names, or paths of files that end in .onnx, comma-separated; names of every kind by default")
	flag.Parse()
	err := run(*backends, *threads, *rounds, *write, *groups, *file, *match, *check, *models)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

func run(backends, threads string, rounds int, write, groups bool, file, match string, check bool, models string) error {
	contestants, err := contestantsOf(backends)
	if err != nil {
		return err
	}
	var counts []int
	for _, text := range strings.Split(threads, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("bad number of threads %q", text)
		}
		counts = append(counts, n)
	}
	if check {
		return checkZoo(models, contestants, counts[0], rounds)
	}
	var samples []sample
	if !groups {
		var list []task
		for _, t := range tasks() {
			if slices.ContainsFunc(strings.Split(match, ","), func(text string) bool { return strings.Contains(t.String(), text) }) {
				list = append(list, t)
			}
		}
		if samples, err = samplesOf(file, list, contestants, counts, rounds); err != nil {
			return err
		}
	}
	for _, c := range contestants {
		own := sorted(samples, c)
		e, err := efficiency(c, own, slices.Max(counts), rounds, groups, match != "")
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		summary(c, e, own)
		if write {
			if err := writeTable(c, e, slices.Max(counts)); err != nil {
				return err
			}
		}
	}
	return nil
}

// efficiency returns what a contestant achieves: the laws that its samples fit, or those of its table, and what groups cost. Where samples are of
// some classes alone the rest is what its table says.
func efficiency(c contestant, samples []sample, threads, rounds int, known, some bool) (*backend.Efficiency, error) {
	if some {
		e, err := readTable(c)
		if err != nil {
			return nil, err
		}
		for class, l := range fit(samples, e.Launch, e.Cache).Laws {
			if class != cost.Other {
				e.Laws[class] = l
			}
		}
		return e, nil
	}
	launch, err := measureLaunch(c, rounds)
	if err != nil {
		return nil, err
	}
	var e *backend.Efficiency
	if known {
		if e, err = readTable(c); err != nil {
			return nil, err
		}
		e.Launch = launch
	} else {
		e = fit(samples, launch, cacheBytes)
	}
	if e.Switch, err = measureSwitch(c, threads, rounds); err != nil {
		return nil, err
	}
	e.Late, err = measureLate(c, rounds)
	return e, err
}

// readTable returns what a contestant's table says of it.
func readTable(c contestant) (*backend.Efficiency, error) {
	b, err := os.ReadFile(tablePath(c))
	if err != nil {
		return nil, err
	}
	sets, err := backend.ParseEfficiencies(string(b))
	if err != nil {
		return nil, err
	}
	if sets[c.Set] == nil {
		return nil, fmt.Errorf("its table has no set %s", c.Set)
	}
	return sets[c.Set], nil
}

// tablePath is the file of a contestant's table.
func tablePath(c contestant) string { return filepath.Join("backend", c.Name, "efficiency.txt") }

// contestantsOf reads "cpu;cpu:isa=portable;mkl". Those that are unavailable here are left out.
func contestantsOf(text string) (list []contestant, err error) {
	for _, s := range strings.Split(text, ";") {
		name, options, _ := strings.Cut(s, ":")
		c := contestant{Name: name, Set: isa.Host().Class(), options: map[string]string{}}
		if options != "" {
			for _, o := range strings.Split(options, ",") {
				k, v, _ := strings.Cut(o, "=")
				if c.options[k] = v; k == "isa" {
					t, err := isa.Named(v)
					if err != nil {
						return nil, err
					}
					c.Set = t.Class()
				}
			}
		}
		b, err := backend.Open(backend.Config{Name: name, Options: c.options})
		if err != nil {
			fmt.Fprintln(os.Stderr, "cost: without", s+":", err)
			continue
		}
		if b.Info().Oracle {
			c.Set = plain
		}
		if err := b.Close(); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// samplesOf reads samples, or measures and writes them.
func samplesOf(file string, list []task, contestants []contestant, threads []int, rounds int) (samples []sample, err error) {
	if file != "" {
		if b, err := os.ReadFile(file); err == nil {
			if err := json.Unmarshal(b, &samples); err != nil {
				return nil, err
			}
			return samples, classAnew(samples)
		}
	}
	begin := time.Now()
	if samples, err = measureAll(list, contestants, threads, rounds); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "cost: %d samples in %.0f s\n", len(samples), time.Since(begin).Seconds())
	if file == "" {
		return samples, nil
	}
	b, err := json.MarshalIndent(samples, "", " ")
	if err != nil {
		return nil, err
	}
	return samples, os.WriteFile(file, append(b, '\n'), 0o644)
}

// classAnew counts the work of samples as it is counted now: of those that were measured as they stand in their tasks.
func classAnew(samples []sample) error {
	works := map[string]cost.Work{}
	for _, t := range tasks() {
		g, err := t.graph()
		if err != nil {
			return err
		}
		for n := range g.Nodes() {
			if n.Name == measured {
				works[t.String()] = cost.Measure(n)
			}
		}
	}
	for i := range samples {
		s := &samples[i]
		was, _, _ := strings.Cut(s.Work.Class, "-")
		if w, ok := works[s.Task]; ok && len(s.Work.Parts) == 0 && (w.Class == was || strings.HasPrefix(w.Class, was+"-")) {
			s.Work = w
		}
	}
	return nil
}

// summary prints how far the laws are from what they were fitted to.
func summary(c contestant, e *backend.Efficiency, samples []sample) {
	fmt.Printf("\n%s: launch %.0f ns, switch %.0f ns, late %.0f ns, sync %.0f ns\n\n| class | samples | geometric mean | worst | worst at | measured µs |\n|---|--:|--:|--:|---|--:|\n", c, e.Launch, e.Switch, e.Late, e.Sync)
	all := deviations(e, samples)
	for _, class := range slices.Sorted(maps.Keys(all)) {
		d := all[class]
		if class == "" {
			class = "all"
		}
		fmt.Printf("| %s | %d | %.2f | %.2f | %s at %d, %s | %.1f |\n", class, d.count, d.mean, d.worst, d.at.Task, d.at.Threads, d.at.Signature, d.at.Nanos/1e3)
	}
}

// fileHead is the beginning of a backend's file.
const fileHead = "# Coefficients of the cost model in nanoseconds: see backend.ParseEfficiencies and internal/cost.\n" +
	"# Written by go run ./internal/bench/cost -write, to be run again when kernels change.\n"

// writeTable puts a section, and those that are derived from it, into a backend's file.
func writeTable(c contestant, e *backend.Efficiency, threads int) error {
	path := tablePath(c)
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	b, err := backend.Open(backend.Config{Name: c.Name, Options: c.options})
	if err != nil {
		return err
	}
	defer b.Close()
	info := b.Info()
	on := fmt.Sprintf("on 1 to %d threads", threads)
	if threads == 1 {
		on = "on one thread; sync and serial are assumed"
	}
	text := replaceSection(string(old), c.Set, fmt.Sprintf("# Measured: %s %s, %s, %s.\n%s", info.Name, info.Version, info.Processor, on, e.Text(c.Set)))
	sets, err := backend.ParseEfficiencies(text)
	if err != nil {
		return err
	}
	for _, d := range derivations(c.Name) {
		if isMeasured(text, d.set) || sets["avx2"] == nil || c.Name == "cpu" && sets["portable"] == nil {
			continue
		}
		text = replaceSection(text, d.set, fmt.Sprintf("# Derived from %s, not measured: %s.\n%s", d.of, d.rule, d.make(sets).Text(d.set)))
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// isMeasured reports whether a file's section is of measurements.
func isMeasured(text, set string) bool {
	for _, part := range strings.Split(text, "\n\n") {
		if strings.Contains("\n"+part, "\nset "+set+" ") {
			return strings.HasPrefix(strings.TrimSpace(part), "# Measured")
		}
	}
	return false
}

// replaceSection returns a file's text with a section replaced, or added at the end.
func replaceSection(old, set, section string) string {
	if strings.TrimSpace(old) == "" {
		old = fileHead
	}
	parts := strings.Split(strings.TrimSpace(old), "\n\n")
	for i, part := range parts {
		if strings.Contains("\n"+part, "\nset "+set+" ") {
			parts[i] = strings.TrimSpace(section)
			return strings.Join(parts, "\n\n") + "\n"
		}
	}
	return strings.Join(append(parts, strings.TrimSpace(section)), "\n\n") + "\n"
}
