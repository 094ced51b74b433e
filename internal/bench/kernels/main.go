// Command kernels measures products and convolutions of cpu beside oneDNN (backend mkl) and ONNX Runtime, on one thread, by
// turns: for every operator there are rounds in which each side runs it for some milliseconds. It prints, as a Markdown table
// for each instruction set, the median time of an operator, its share of the multiply-adds that a loop in registers makes in the same
// rounds, with its interval of 95 % (a convolution counts its definition's, so that Winograd's algorithms may exceed 100 %), its share of the rate at which as many
// bytes as it reads and writes are moved in the same rounds, with its interval, the median of the paired ratios to each rival with its interval of 95 %,
// and whether it is at most 1.0 by the rule of comparison: an interval that lies above that as a whole, short of 92 % of the multiply-adds
// and of 90 % of the bytes, is not; "yes, bytes" says that one is, and that limit is reached. Behind the tables of several sets stands where
// another reaches less than 85 % of its multiply-adds, with the whole interval, and the first 90 % of its own.
//
//	go run ./internal/bench/kernels [-python PYTHON] [-rivals onnxruntime,openvino] [-isa avx512,avx2] [-set products|convolutions|all|rows] [-match 'TEXT|TEXT'] [-rounds 15] [-processor] [-option winograd=off]
//
// The set of rows is normalisations, softmax, functions of elements, reductions and attention as one unit, each on operands of its own, of which the limit is
// mostly that of bytes; there oneDNN has no column.
//
// A model has its operator up to four times, with weights or operands of its own; convolutions are a chain, so that
// what is changed of layouts at its ends is divided by four. With -isa avx2 oneDNN is held to that set by its variable ONEDNN_MAX_CPU_ISA, and
// so are OpenVINO's convolutions, which one of its own computes. What computes its products, and ONNX Runtime's, cannot be: those columns are for
// the processor's best. Without PYTHON, an interpreter that has the rivals and numpy, or without oneDNN, there are no columns of them, or empty
// ones.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/clock"
	"github.com/carve-dev/carve/internal/bench/paired"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/offheap"
)

// options of the command.
type options struct {
	python, rivals, sets, set, match, option string
	rounds                                   int
	processor, child                         bool
}

func main() {
	var o options
	flag.StringVar(&o.python, "python", "", "Python interpreter that has onnxruntime")
	flag.StringVar(&o.rivals, "rivals", "onnxruntime", "onnxruntime, openvino or both, comma-separated")
	flag.StringVar(&o.sets, "isa", isa.Host().String(), "instruction sets of cpu, comma-separated")
	flag.StringVar(&o.set, "set", "all", "products, convolutions, all of these, or rows: normalisations, softmax, functions of elements, reductions and attention")
	flag.StringVar(&o.match, "match", "", "measure only rows whose name contains one of these, with | between them")
	flag.StringVar(&o.option, "option", "", "option of cpu, KEY=VALUE")
	flag.IntVar(&o.rounds, "rounds", 15, "rounds")
	flag.BoolVar(&o.processor, "processor", false, "measure processor time, which other load disturbs less, in place of time that passes")
	flag.BoolVar(&o.child, "child", false, "internal: measure the one instruction set named")
	flag.Parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

// run measures each instruction set in a process of its own, whose environment holds oneDNN to it.
func (o *options) run() error {
	if o.child {
		return o.measure()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var widest map[string]paired.Ratio
	for _, set := range strings.Split(o.sets, ",") {
		if _, err := isa.Named(set); err != nil {
			return err
		}
		var table bytes.Buffer
		cmd := exec.Command(self, append(os.Args[1:], "-child", "-isa", set)...)
		cmd.Stdout, cmd.Stderr, cmd.Env = io.MultiWriter(os.Stdout, &table), os.Stderr, os.Environ()
		if set == isa.AVX2.String() {
			cmd.Env = append(cmd.Env, "ONEDNN_MAX_CPU_ISA=AVX2", "DNNL_MAX_CPU_ISA=AVX2")
		}
		if err := cmd.Run(); err != nil {
			return err
		}
		if shares := peaksOf(table.String()); widest == nil {
			widest = shares
		} else {
			fmt.Printf("\nbehind: %s\n", strings.Join(behind(widest, shares), ", "))
		}
	}
	return nil
}

func (o *options) tasks() (list []task, err error) {
	if o.set == "products" || o.set == "all" {
		list = append(list, products()...)
	}
	if o.set == "convolutions" || o.set == "all" {
		list = append(list, convolutions()...)
	}
	if o.set == "rows" {
		list = overRows()
	}
	if list == nil {
		return nil, fmt.Errorf("there is no set %q", o.set)
	}
	return list, nil
}

// measure prints the table of one instruction set.
func (o *options) measure() error {
	target, err := isa.Named(o.sets)
	if err != nil {
		return err
	}
	list, err := o.tasks()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "carve-kernels")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var workers []*worker
	fmt.Printf("\n%v, one thread\n\n| operator | µs | %% of peak | %% of bytes | oneDNN µs | cpu / oneDNN |", target)
	if o.python != "" {
		for _, rival := range strings.Split(o.rivals, ",") {
			w, err := startWorker(o.python, dir, rival, o.processor)
			if err != nil {
				return err
			}
			defer w.close()
			workers = append(workers, w)
			fmt.Printf(" %s µs | cpu / it |", w.name)
		}
	}
	fmt.Printf(" met |\n|---|--:|--:|--:|--:|--:|%s---|\n", strings.Repeat("--:|--:|", len(workers)))
	for _, t := range list {
		if !slices.ContainsFunc(strings.Split(o.match, "|"), func(text string) bool { return strings.Contains(t.name, text) }) {
			continue
		}
		if err := o.row(t, target, dir, workers); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// side is one of those that are compared.
type side struct {
	run   func(n int) (time.Duration, error) // n runs
	count int                                // runs of a round
	times []float64                          // µs of a run, by rounds
}

// row measures a task and prints its row.
func (o *options) row(t task, target isa.Target, dir string, workers []*worker) error {
	ctx := context.Background()
	g, err := t.graph()
	if err != nil {
		return err
	}
	values, err := feeds(g)
	if err != nil {
		return err
	}
	path := dir + "/model.onnx"
	if err := onnx.Save(ctx, path, &onnx.Model{Graph: g, Opsets: g.Opsets, IRVersion: 8}, nil); err != nil {
		return err
	}
	own := backend.Config{Name: "cpu", Options: map[string]string{"isa": target.String()}}
	if k, v, ok := strings.Cut(o.option, "="); ok {
		own.Options[k] = v
	}
	sides := make([]*side, 2, 2+len(workers))
	configs := []backend.Config{own, {Name: "mkl"}}
	if t.unit {
		configs = configs[:1]
	}
	for i, c := range configs {
		p, err := open(ctx, path, c)
		if i > 0 && errors.Is(err, backend.ErrUnavailable) {
			continue
		}
		if err != nil {
			return err
		}
		defer p.close()
		if err := p.first(ctx, values); err != nil {
			return err
		}
		sides[i] = &side{run: func(n int) (time.Duration, error) { return o.timed(func() error { return p.run(ctx, n) }) }}
	}
	for _, w := range workers {
		if err := w.load(path); err != nil {
			return err
		}
		sides = append(sides, &side{run: w.run})
	}
	moved, err := trafficOf(g, t.unit)
	if err != nil {
		return err
	}
	parts := 1
	if t.unit {
		parts = copies
	}
	mover, free, err := moved.side(o, parts)
	defer free()
	if err != nil {
		return err
	}
	peak := &side{run: func(n int) (time.Duration, error) { return o.multiplyAdds(target, n*int(t.flops)), nil }}
	if err := o.byTurns(append([]*side{mover, peak}, sides...)); err != nil {
		return err
	}
	print(t, sides, paired.Of(peak.times, sides[0].times), paired.Of(mover.times, sides[0].times))
	return nil
}

// multiplyAdds returns what a loop in registers takes for so many floating-point operations, by the clock that the other sides have.
func (o *options) multiplyAdds(target isa.Target, flops int) time.Duration {
	perRound := gemm.MultiplyAdds(target, 1)
	rounds := max(1, flops/perRound)
	d, _ := o.timed(func() error { gemm.MultiplyAdds(target, rounds); return nil }) // which cannot fail
	return time.Duration(float64(d) * float64(flops) / float64(rounds*perRound))
}

// timed returns what a function takes, of time or, where options say so, of the processor's.
func (o *options) timed(f func() error) (time.Duration, error) {
	start, begin := time.Now(), clock.Process()
	err := f()
	if o.processor {
		return clock.Process() - begin, err
	}
	return time.Since(start), err
}

// roundTime is how long a side runs in a round.
const roundTime = 4 * time.Millisecond

// byTurns runs the sides by turns.
func (o *options) byTurns(sides []*side) error {
	for _, s := range sides {
		if s == nil {
			continue
		}
		least := time.Hour
		for range 5 {
			d, err := s.run(1)
			if err != nil {
				return err
			}
			least = min(least, d)
		}
		s.count = int(max(1, min(1000, roundTime/max(least, 1))))
	}
	for r := range o.rounds {
		for i := range sides {
			s := sides[(i+r)%len(sides)]
			if s == nil {
				continue
			}
			d, err := s.run(s.count)
			if err != nil {
				return err
			}
			s.times = append(s.times, float64(d.Nanoseconds())/1e3/float64(s.count))
		}
	}
	return nil
}

// print writes a row, with the shares of the peak and of the rate at which as many bytes are moved.
func print(t task, sides []*side, peak, memory paired.Ratio) {
	n := float64(len(t.nodes))
	if t.unit {
		n = copies
	}
	median := func(s *side) float64 { return paired.Median(append([]float64(nil), s.times...)) }
	own := median(sides[0])
	fmt.Printf("| %s | %.1f | %.0f (%.0f–%.0f) | %.0f (%.0f–%.0f) |", t.name, own/n, 100*peak.Median, 100*peak.Low, 100*peak.High,
		100*memory.Median, 100*memory.Low, 100*memory.High)
	var ratios []paired.Ratio
	for _, s := range sides[1:] {
		if s == nil {
			fmt.Print(" | |")
			continue
		}
		r := paired.Of(sides[0].times, s.times)
		ratios = append(ratios, r)
		fmt.Printf(" %.1f | %v |", median(s)/n, r)
	}
	fmt.Printf(" %s |\n", limits{peak.Median, memory.Median}.met(ratios))
}

// program is a model compiled for one backend.
type program struct {
	model *carve.Model
	*carve.Program
	in, out []*tensor.Tensor
	memory  []*offheap.Block
}

func open(ctx context.Context, path string, c backend.Config) (*program, error) {
	b, err := backend.Open(c) // one that is not there would leave its place to another
	if err != nil {
		return nil, err
	}
	if err := b.Close(); err != nil {
		return nil, err
	}
	m, err := carve.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{c}, Threads: 1, Placement: carve.Priority})
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &program{model: m, Program: p}, nil
}

func (p *program) close() error {
	err := errors.Join(p.Close(), p.model.Close())
	for _, b := range p.memory {
		err = errors.Join(err, b.Free())
	}
	return err
}

// own returns a tensor of the same elements in memory of its own, on large pages where the system gives them, as arrays of numpy are, and the memory
// of what is copied for comparison.
func (p *program) own(t *tensor.Tensor) (*tensor.Tensor, error) {
	b, err := offheap.Alloc(len(t.Data), 64)
	if err != nil {
		return nil, err
	}
	p.memory = append(p.memory, b)
	copy(b.Bytes(), t.Data)
	c := *t
	c.Data = b.Bytes()
	return &c, nil
}

// first runs the model once, and keeps its operands and results for other runs.
func (p *program) first(ctx context.Context, values map[string]tensor.Value) error {
	results, err := p.Run(ctx, values)
	if err != nil {
		return err
	}
	for _, port := range p.Inputs() {
		t, err := p.own(values[port.Name].(*tensor.Tensor))
		if err != nil {
			return err
		}
		p.in = append(p.in, t)
	}
	for _, port := range p.Outputs() {
		t, err := p.own(results[port.Name].(*tensor.Tensor))
		if err != nil {
			return err
		}
		p.out = append(p.out, t)
	}
	return nil
}

// run runs the model n times, into the same memory.
func (p *program) run(ctx context.Context, n int) error {
	for range n {
		if err := p.RunInto(ctx, p.in, p.out); err != nil {
			return err
		}
	}
	return nil
}
