// Command mxnet measures carve beside MXNet on Gluon's models with random weights, in one run: for every model and number of
// threads, rounds in which a fresh process of each side, one after the other, loads the model, runs it once, and then runs it for
// some time. It prints medians over the rounds, the ratios round by round with their intervals, and geometric means, as a Markdown
// table.
//
//	go run ./internal/bench/mxnet -python PYTHON [-models resnet50_v1,lstm_lm|few] [-threads 1,2] [-backend cpu] [-rounds 5] [-seconds 1] [-dir DIR] [-processor]
//
// -models few is one model of each family. With -dir models are made once, in that folder, and stay there: -rounds 0 only makes them.
// With -processor the time of the processor counts, of all threads: on a machine that others use too, say, with one thread.
//
// PYTHON is an interpreter that has mxnet 1.9.1. What MXNet does by default stays: oneDNN, and its fusions, which binding applies.
// Both sides load files from the system's cache.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/paired"
	"github.com/carve-dev/carve/internal/mxnettest"
)

// options are what the flags say.
type options struct {
	python           mxnettest.Python
	models, backends string
	dir, clock       string
	threads          []int
	rounds           int
	seconds          float64
}

func main() {
	python := flag.String("python", "", "Python interpreter that has mxnet 1.9.1")
	models := flag.String("models", "", "names, comma-separated, or few for one of each family; all by default")
	dir := flag.String("dir", "", "folder in which models are made, and kept for the next time; a temporary one by default")
	threads := flag.String("threads", "1,2", "numbers of threads")
	backends := flag.String("backend", "cpu", "backends of carve, comma-separated")
	rounds := flag.Int("rounds", 5, "rounds")
	seconds := flag.Float64("seconds", 1, "least seconds of runs per process")
	processor := flag.Bool("processor", false, "count the processor's time, of all threads")
	worker := flag.String("worker", "", "internal: measure the model of this prefix")
	flag.Parse()
	o := options{python: mxnettest.Python(*python), models: *models, backends: *backends, rounds: *rounds, seconds: *seconds, dir: *dir, clock: "wall"}
	if *processor {
		o.clock = "processor"
	}
	err := o.count(*threads)
	switch {
	case err != nil:
	case *worker != "":
		err = o.work(*worker)
	case *python == "" || *rounds < 1 && *dir == "":
		err = errors.New("-python PYTHON and at least one round are needed")
	default:
		err = o.measure(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mxnet:", err)
		os.Exit(1)
	}
}

// count reads the numbers of threads.
func (o *options) count(list string) error {
	for _, t := range strings.Split(list, ",") {
		n, err := strconv.Atoi(t)
		if err != nil {
			return err
		}
		o.threads = append(o.threads, n)
	}
	return nil
}

// few are models of which each stands for its family.
var few = []string{"resnet18_v1", "resnet50_v2", "vgg11", "vgg16_bn", "alexnet", "densenet121", "squeezenet1.1", "inceptionv3", "mobilenet1.0",
	"mobilenetv2_1.0", "mobilenetv3", "ssd_resnet18", "ssd_mobilenet", "ssd_vgg16", "lstm_lm", "gru_lm", "transformer"}

// ratios are those of a model at a number of threads, carve's times by MXNet's.
type ratios struct{ run, create paired.Ratio }

func (o *options) measure(ctx context.Context) error {
	names := strings.Split(o.models, ",")
	switch o.models {
	case "":
		var err error
		if names, err = o.python.ModelNames(ctx); err != nil {
			return err
		}
	case "few":
		names = few
	}
	fmt.Println("| model | threads | carve ms | MXNet ms | ratio | carve, first result ms | MXNet ms | ratio |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|")
	found := make(map[int][]ratios)
	for _, name := range names {
		if err := o.model(ctx, name, found); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, n := range o.threads {
		if o.rounds < 1 {
			break
		}
		var run, create, slowest, slowestCreate float64
		for _, r := range found[n] {
			run += math.Log(r.run.Median)
			create += math.Log(r.create.Median)
			slowest, slowestCreate = max(slowest, r.run.Median), max(slowestCreate, r.create.Median)
		}
		k := float64(len(found[n]))
		fmt.Printf("\n%d threads, %.0f models: geometric mean of runs %.3f (largest %.2f), to the first result %.3f (largest %.2f)\n",
			n, k, math.Exp(run/k), slowest, math.Exp(create/k), slowestCreate)
	}
	return nil
}

// files makes a model, where it is not there from another time, and returns its folder and what takes that away.
func (o *options) files(ctx context.Context, name string) (dir string, remove func(), err error) {
	if o.dir != "" {
		if _, err := os.Stat(filepath.Join(o.dir, name+"-outputs.npz")); err == nil {
			return o.dir, func() {}, nil
		}
		return o.dir, func() {}, o.python.Model(ctx, o.dir, name, 1)
	}
	if dir, err = os.MkdirTemp("", "carve-bench"); err != nil {
		return "", nil, err
	}
	return dir, func() { os.RemoveAll(dir) }, o.python.Model(ctx, dir, name, 1)
}

// model measures one model at every number of threads.
func (o *options) model(ctx context.Context, name string, found map[int][]ratios) error {
	dir, remove, err := o.files(ctx, name)
	if err != nil {
		return err
	}
	defer remove()
	if o.rounds < 1 {
		return nil
	}
	for _, n := range o.threads {
		var run, create [2][]float64
		for round := range o.rounds {
			for k := range 2 {
				side := (k + round) % 2 // each begins in turn
				t, err := o.turn(ctx, side, dir, name, n)
				if err != nil {
					return err
				}
				run[side] = append(run[side], paired.Median(t.RunMS))
				create[side] = append(create[side], t.CreateMS)
			}
		}
		r := ratios{paired.Of(run[0], run[1]), paired.Of(create[0], create[1])}
		found[n] = append(found[n], r)
		fmt.Printf("| %s | %d | %.3f | %.3f | %v | %.1f | %.1f | %v |\n", name, n, paired.Median(run[0]), paired.Median(run[1]), r.run,
			paired.Median(create[0]), paired.Median(create[1]), r.create)
	}
	return nil
}

// turn measures in a process of its own: carve for side 0, MXNet for side 1.
func (o *options) turn(ctx context.Context, side int, dir, name string, threads int) (*mxnettest.Timing, error) {
	if side == 1 {
		return o.python.Measure(ctx, dir, name, threads, o.seconds, o.clock)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-worker", filepath.Join(dir, name), "-threads", strconv.Itoa(threads), "-seconds",
		fmt.Sprint(o.seconds), "-backend", o.backends, "-processor="+strconv.FormatBool(o.clock == "processor"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	var t mxnettest.Timing
	return &t, json.Unmarshal(b, &t)
}

// began is when the process did.
var began = time.Now()

// now returns milliseconds by the clock that counts.
func (o *options) now() float64 {
	if o.clock == "processor" {
		return float64(processorTime().Nanoseconds()) / 1e6
	}
	return float64(time.Since(began).Nanoseconds()) / 1e6
}

// work is the process that measures carve: it loads, compiles and runs a model.
func (o *options) work(prefix string) error {
	inputs, err := tensor.ReadNPZFile(prefix+"-inputs.npz", nil)
	if err != nil {
		return err
	}
	feeds, shapes := map[string]tensor.Value{}, map[string][]int{}
	for _, x := range inputs {
		feeds[x.Name], shapes[x.Name] = x.Tensor, x.Tensor.Shape
	}
	var list []backend.Config
	for _, b := range strings.Split(o.backends, ",") {
		list = append(list, backend.Config{Name: b})
	}
	ctx := context.Background()
	start := o.now()
	s, err := mxnet.Load(ctx, prefix+"-symbol.json", &mxnet.Options{Shapes: shapes})
	if err != nil {
		return err
	}
	m := carve.FromMXNet(s)
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: list, Threads: o.threads[0]})
	if err != nil {
		return err
	}
	defer p.Close()
	once := func() (float64, error) {
		start := o.now()
		_, err := p.Run(ctx, feeds)
		return o.now() - start, err
	}
	if _, err := once(); err != nil {
		return err
	}
	t := mxnettest.Timing{CreateMS: o.now() - start}
	for range 3 {
		if _, err := once(); err != nil {
			return err
		}
	}
	begin := time.Now()
	for len(t.RunMS) < 20 || time.Since(begin).Seconds() < o.seconds {
		d, err := once()
		if err != nil {
			return err
		}
		t.RunMS = append(t.RunMS, d)
		if len(t.RunMS) >= 5 && time.Since(begin).Seconds() > 4*o.seconds {
			break
		}
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}
