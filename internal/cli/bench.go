package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/flops"
	"github.com/carve-dev/carve/internal/units"
)

type benchFlags struct {
	modelFlags
	json        bool
	batcher     bool
	concurrency int
	maxBatch    int
	delay       time.Duration
	time        time.Duration
}

// How long bench measures.
const (
	warmups   = 3
	benchRuns = 20
)

func (a *app) benchCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench MODEL",
		Short: "Measures how long a model takes to compile and to run",
		Long: fmt.Sprintf("bench compiles a model and runs it, after %d warm-up runs, at least %d times and for as long as --time says. Outputs go to\n"+
			"memory that is allocated once where their shapes are known before the run, and inputs that --in-place names lie in theirs.\n\n"+
			"compile_ms counts loading, compiling, packing weights and the first plan. gflop counts 2 per multiply-add of Conv,\n"+
			"ConvTranspose, MatMul, Gemm, LSTM, GRU and RNN in the model as its file says it, taps in padding included.\n\n"+
			"--concurrency N has N callers ask at one time, too, and with --batcher they ask a carve.Batcher as well, by turns, which runs\n"+
			"those that wait together: requests a second, and how long half and 99%% of them took. The first dim of inputs stays open then.\n\n",
			warmups, benchRuns) + defaultData + "\n\n" + overrideHelp,
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error { return a.bench(cmd.Context(), args[0], f) },
	}
	f.add(cmd, shaping|overriding|feeding|compiling)
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().IntVar(&f.concurrency, "concurrency", 0, "callers that ask at one time, `N`; with --batcher 16 where it is not given")
	cmd.Flags().BoolVar(&f.batcher, "batcher", false, "have callers at one time ask a Batcher, too")
	cmd.Flags().IntVar(&f.maxBatch, "max-batch", 0, "with --batcher: most rows of a run, `N`; 0 means 16")
	cmd.Flags().DurationVar(&f.delay, "batch-delay", 0, "with --batcher: how long a run waits for more callers, a `TIME` such as 500us")
	cmd.Flags().DurationVar(&f.time, "time", 3*time.Second, "run for at least this `TIME`, and as long for callers of each kind")
	return cmd
}

// benchReport is what bench prints, and its JSON. Where a figure is not known it is 0.
type benchReport struct {
	Model      string           `json:"model"`
	Backend    string           `json:"backend"`
	Threads    int              `json:"threads"`
	Dims       map[string]int64 `json:"dims"`
	CompileMS  float64          `json:"compile_ms"`
	MedianMS   float64          `json:"median_ms"`
	P10MS      float64          `json:"p10_ms"`
	P90MS      float64          `json:"p90_ms"`
	Runs       int              `json:"runs"`
	PeakRSS    int64            `json:"peak_rss_bytes"`
	Arena      int64            `json:"arena_bytes"`
	LowerBound int64            `json:"lower_bound_bytes"`
	GFLOP      float64          `json:"gflop"`
	GFLOPS     float64          `json:"gflops"`
	Serving    []servingReport  `json:"serving,omitempty"`
}

func (a *app) bench(ctx context.Context, path string, f *benchFlags) error {
	if f.concurrency < 0 || f.maxBatch < 0 || f.delay < 0 || f.time < 0 {
		return errors.New("--concurrency, --max-batch, --batch-delay and --time: must not be negative")
	}
	if !f.batcher && (f.maxBatch != 0 || f.delay != 0) {
		return errors.New("--max-batch and --batch-delay are for --batcher, which is missing")
	}
	var edit func(*job, *carve.Options)
	if f.batcher {
		edit, f.concurrency = openRows, cmp.Or(f.concurrency, 16)
	}
	j, err := a.compileFor(ctx, path, &f.modelFlags, edit)
	if err != nil {
		return err
	}
	defer j.close()
	j.binding.say(a)
	if err := complete(j.model.Graph(), j.binding, j.feeds); err != nil {
		return err
	}
	run, err := runner(j, j.inPlace)
	if err != nil {
		return err
	}
	times, err := a.measure(ctx, run, f.time)
	if err != nil {
		return err
	}
	r := &benchReport{Model: path, Backend: f.backendList(), Threads: f.threads, Dims: j.binding.report(), Runs: len(times),
		CompileMS: milliseconds(j.compiled), MedianMS: quantile(times, 0.5), P10MS: quantile(times, 0.1), P90MS: quantile(times, 0.9),
		PeakRSS: peakRSS()}
	switch {
	case r.Threads > 0:
	case f.hint == carve.ProfileThroughput.String():
		r.Threads = 1
	default:
		r.Threads = runtime.GOMAXPROCS(0)
	}
	plan, err := j.report(ctx)
	if err != nil {
		return err
	}
	for _, d := range plan.Devices {
		r.Arena += d.Arena
		r.LowerBound += d.LowerBound
	}
	g, err := concrete(j.model.Graph(), j.binding)
	if err != nil {
		return err
	}
	count, err := flops.Of(g, j.binding.values)
	if err != nil {
		return err
	}
	r.GFLOP = count.Total / 1e9
	if r.MedianMS > 0 {
		r.GFLOPS = r.GFLOP / r.MedianMS * 1e3
	}
	if f.concurrency > 0 {
		if r.Serving, err = a.serve(ctx, j, f); err != nil {
			return err
		}
	}
	if f.json {
		return writeJSON(a.stdout, r)
	}
	a.printBench(r)
	a.printServing(r.Serving)
	return nil
}

// runner returns a function that runs the program once: into memory of its own where inputs and outputs are tensors of
// known shape, with the inputs in the places of outputs that they are paired with.
func runner(j *job, inPlace map[string]string) (func(ctx context.Context) error, error) {
	anew := func(ctx context.Context) error {
		_, err := j.program.Run(ctx, j.feeds)
		return err
	}
	var in, out []*tensor.Tensor
	made := map[string]*tensor.Tensor{}
	for _, p := range j.program.Outputs() {
		dims, err := p.Type.Shape.Eval(j.binding.values, nil)
		if err != nil || !p.Type.IsTensor() || p.Type.DType == tensor.String {
			return anew, nil
		}
		t, err := tensor.New(p.Type.DType, dims...)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", p.Name, err)
		}
		out, made[p.Name] = append(out, t), t
	}
	for _, p := range j.program.Inputs() {
		t, ok := j.feeds[p.Name].(*tensor.Tensor)
		if !ok {
			return anew, nil
		}
		if y := made[inPlace[p.Name]]; y != nil {
			var err error
			if t, err = within(y, t); err != nil {
				return nil, fmt.Errorf("input %q in the place of output %q: %w", p.Name, inPlace[p.Name], err)
			}
		}
		in = append(in, t)
	}
	return func(ctx context.Context) error { return j.program.RunInto(ctx, in, out) }, nil
}

// within returns the part of y of t's shape, which begins where y does, with what t holds.
func within(y, t *tensor.Tensor) (part *tensor.Tensor, err error) {
	if part = y; len(y.Shape) != len(t.Shape) {
		return nil, fmt.Errorf("%v is no part of %v", t, y)
	}
	axis := 0
	for k, n := range t.Shape {
		if n != y.Shape[k] {
			if part, err = part.Slice(k, 0, n); err != nil {
				return nil, err
			}
			axis = k
		}
	}
	size := t.DType.Size()
	row, wide := size, size
	for k := axis; k < len(t.Shape); k++ {
		row, wide = row*t.Shape[k], wide*y.Shape[k]
	}
	for from, at := t.Bytes(), 0; len(from) >= row && row > 0; from, at = from[row:], at+wide {
		copy(y.Bytes()[at:], from[:row])
	}
	return part, nil
}

// measure runs for at least so long, and returns the sorted times.
func (a *app) measure(ctx context.Context, run func(context.Context) error, least time.Duration) ([]time.Duration, error) {
	for range warmups {
		if err := run(ctx); err != nil {
			return nil, err
		}
	}
	p := a.progress("run", benchRuns)
	defer p.end()
	var times []time.Duration
	for begin := time.Now(); len(times) < benchRuns || time.Since(begin) < least; {
		start := time.Now()
		if err := run(ctx); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
		p.step()
	}
	slices.Sort(times)
	return times, nil
}

// quantile returns a quantile of sorted times in milliseconds.
func quantile(times []time.Duration, q float64) float64 {
	return milliseconds(times[min(len(times)-1, int(q*float64(len(times))))])
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// peakRSS returns the most physical memory that this process has had, in bytes; 0 where the system does not tell.
func peakRSS() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}

func (a *app) printBench(r *benchReport) {
	t := newTable(a.stdout)
	row(t, "backend", r.Backend)
	row(t, "threads", r.Threads)
	row(t, "compile", fmt.Sprintf("%.4g ms", r.CompileMS))
	row(t, "run", fmt.Sprintf("%.4g ms (10%%: %.4g, 90%%: %.4g; %s)", r.MedianMS, r.P10MS, r.P90MS, counted(r.Runs, "run")))
	row(t, "speed", fmt.Sprintf("%.4g GFLOP/s of %.4g GFLOP", r.GFLOPS, r.GFLOP))
	row(t, "arena", fmt.Sprintf("%s (lower bound %s)", units.Bytes(r.Arena), units.Bytes(r.LowerBound)))
	if r.PeakRSS > 0 {
		row(t, "peak RSS", units.Bytes(r.PeakRSS))
	}
	t.Flush()
}
