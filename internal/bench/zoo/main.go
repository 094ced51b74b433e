// Command zoo measures carve beside ONNX Runtime and OpenVINO on the model zoo, in one run: for every model and number of threads,
// rounds in which a fresh process of each side, one after the other, loads the model and runs it for some time. It prints
// medians over the rounds, the medians of the rounds' ratios to the rival whose median is least with their 95 % intervals, and geometric
// means of them, as Markdown tables, and writes all figures as JSON.
//
//	go run ./internal/bench/zoo -python PYTHON [-rivals onnxruntime,openvino] [-models resnet50,bert_base] [-forms dynamic,qdq-unsigned] [-threads 1,2] [-backend 'cpu;mkl,cpu'] [-rounds 5] [-seconds 1] [-json FILE]
//
//	go run ./internal/bench/zoo -compare-order [-models …] [-threads …] [-seconds 1]
//
//	go run ./internal/bench/zoo -compare-placement [-tune 30s] [-models …] [-threads …] [-seconds 1]
//
//	go run ./internal/bench/zoo -compare-options 'winograd=off;winograd=off,precision=bf16' [-models …] [-threads …] [-seconds 1]
//
// PYTHON is an interpreter that has the rivals, onnx and numpy. Without it carve is measured alone. Rivals are told to compute in
// float32, and OpenVINO gets the inputs' shapes before it compiles. A rival that does not run a model is left out of its row. Forms are ways in which
// ONNX Runtime's tools quantise a model before it is measured: dynamic, qdq, qdq-unsigned, qdq-channel and qoperator; or float16, bfloat16
// or float64, those of copies whose inputs and outputs stay float32. quantise.py says more. The zoo and the weights
// are found as the tests find them (see internal/zootest).
package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/clock"
	"github.com/carve-dev/carve/internal/zootest"
)

//go:embed *_worker.py measured.py
var workers embed.FS

// sample is what one process measured.
type sample struct {
	Version  string    `json:"version"`
	CreateMS float64   `json:"create_ms"`
	FirstMS  float64   `json:"first_ms"` // of the first run alone
	RunMS    []float64 `json:"run_ms"`
	CPUMS    []float64 `json:"cpu_ms"` // of the processor, all threads together
	PeakMiB  float64   `json:"peak_mib"`
}

// row is a model at a number of threads. Its figures are those of carve, one for every list of backends, and the rivals', which come last.
type row struct {
	Model   string   `json:"model"`
	Threads int      `json:"threads"`
	Rounds  int      `json:"rounds"`
	Figures []figure `json:"figures"`
}

// side is one of those that are compared.
type side struct {
	name    string
	rival   bool
	measure func(path, feeds, threads string) (sample, error)
}

// rivals are those that may be named, by the name of their Python package, with the script that measures them.
var rivals = map[string]struct{ name, script string }{
	"onnxruntime": {"ONNX Runtime", "ort_worker.py"},
	"openvino":    {"OpenVINO", "openvino_worker.py"},
}

func main() {
	python := flag.String("python", "", "Python interpreter that has the rivals")
	beside := flag.String("rivals", "onnxruntime", "who is measured beside carve, of onnxruntime and openvino, comma-separated")
	models := flag.String("models", "", "names, comma-separated; all by default")
	threads := flag.String("threads", "1,2", "numbers of threads")
	forms := flag.String("forms", "", "forms in which models are measured, comma-separated; as they are in the zoo by default")
	rounds := flag.Int("rounds", 5, "rounds")
	seconds := flag.Float64("seconds", 1, "least seconds of runs per process")
	out := flag.String("json", "", "file for all figures")
	backends := flag.String("backend", "cpu", "backends of carve, comma-separated; several lists, separated by semicolons, are measured side by side")
	worker := flag.String("worker", "", "internal: measure this model file")
	feeds := flag.String("feeds", "", "internal: folder of inputs")
	orders := flag.Bool("compare-order", false, "measure the model's order of execution against carve's instead")
	tune := flag.Duration("tune", 0, "with -compare-placement: tune each model for so long, and measure that too")
	placing := flag.Bool("compare-placement", false, "measure placements by cost against those by priority instead")
	options := flag.String("compare-options", "", "measure sets of options of backend cpu against the first instead: NAME=VALUE separated by commas, sets by semicolons")
	flag.Parse()
	var err error
	if *worker != "" {
		n, _ := strconv.Atoi(*threads)
		err = work(*worker, *feeds, *backends, n, *seconds)
	} else if *orders {
		err = compare(*models, *threads, func(names []string, counts []int) error { return compareOrder(names, counts, *seconds) }, false)
	} else if *options != "" {
		var sets []optionSet
		if sets, err = optionSets(*options); err == nil {
			err = compare(*models, *threads, func(names []string, counts []int) error { return compareOptions(names, counts, sets, *seconds) }, false)
		}
	} else if *placing {
		err = compare(*models, *threads, newComparison(*seconds, *tune).run, true)
	} else {
		err = measure(*python, *beside, *models, *forms, *threads, *backends, *rounds, *seconds, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "zoo:", err)
		os.Exit(1)
	}
}

// selected returns the models of a comma-separated list; all for "".
func selected(models string) ([]string, error) {
	if models != "" {
		return strings.Split(models, ","), nil
	}
	return zootest.Names()
}

// compare calls run with the models, and the nets made here where none are named, and the numbers of threads.
func compare(models, threads string, run func(names []string, counts []int) error, withNets bool) error {
	names, err := selected(models)
	if err != nil {
		return err
	}
	if withNets && models == "" {
		for _, n := range nets() {
			names = append(names, n.name)
		}
	}
	var counts []int
	for _, t := range strings.Split(threads, ",") {
		n, err := strconv.Atoi(t)
		if err != nil {
			return err
		}
		counts = append(counts, n)
	}
	return run(names, counts)
}

func measure(python, beside, models, forms, threads, backends string, rounds int, seconds float64, out string) error {
	names, err := selected(models)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "carve-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sides, err := contenders(python, beside, backends, dir, fmt.Sprint(seconds))
	if err != nil {
		return err
	}
	list, err := entrants(names, forms, python, dir)
	if err != nil {
		return err
	}
	var rows []row
	for _, t := range strings.Split(threads, ",") {
		n, err := strconv.Atoi(t)
		if err != nil {
			return err
		}
		for _, m := range list {
			r, err := compete(sides, m, t, rounds)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			r.Threads = n
			rows = append(rows, r)
			fmt.Fprintf(os.Stderr, "%s @%d: %+v\n", m.name, n, r.Figures)
		}
	}
	table(rows)
	if out == "" {
		return nil
	}
	b, err := json.MarshalIndent(rows, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(b, '\n'), 0o644)
}

// compete measures a model on all sides by turns.
func compete(sides []side, m entrant, threads string, rounds int) (row, error) {
	samples, failed := make([][]sample, len(sides)), make([]error, len(sides))
	for range rounds {
		for i, s := range sides {
			if failed[i] != nil {
				continue
			}
			one, err := s.measure(m.path, m.feeds, threads)
			if err != nil && !s.rival {
				return row{}, err
			} else if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %s: %v\n", m.name, s.name, err)
				samples[i], failed[i] = nil, err
				continue
			}
			samples[i] = append(samples[i], one)
		}
	}
	return row{Model: m.name, Rounds: rounds, Figures: figures(sides, samples)}, nil
}

// contenders returns carve with each list of backends, and the rivals where there is a Python for them.
func contenders(python, beside, backends, dir, seconds string) ([]side, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var sides []side
	for _, list := range strings.Split(backends, ";") {
		sides = append(sides, side{name: list, measure: func(path, feeds, threads string) (sample, error) {
			return run(self, "-worker", path, "-feeds", feeds, "-threads", threads, "-seconds", seconds, "-backend", list)
		}})
	}
	if python == "" {
		return sides, nil
	}
	if err := os.CopyFS(filepath.Join(dir, "workers"), workers); err != nil {
		return nil, err
	}
	for _, name := range strings.Split(beside, ",") {
		r, ok := rivals[name]
		if !ok {
			return nil, fmt.Errorf("rival %q is none of %s", name, strings.Join(slices.Sorted(maps.Keys(rivals)), ", "))
		}
		sides = append(sides, side{name: r.name, rival: true, measure: func(path, feeds, threads string) (sample, error) {
			return run(python, filepath.Join(dir, "workers", r.script), path, feeds, threads, seconds)
		}})
	}
	return sides, nil
}

// prepare writes a model's weights and inputs.
func prepare(name, dir string) (path, folder string, err error) {
	if path, err = zootest.Materialize(name); err != nil {
		return "", "", err
	}
	ref, err := zootest.ReadReference(name)
	if err != nil {
		return "", "", err
	}
	folder = filepath.Join(dir, name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", "", err
	}
	for i := range ref.Inputs {
		t, err := ref.Inputs[i].Tensor()
		if err != nil {
			return "", "", err
		}
		f, err := os.Create(filepath.Join(folder, ref.Inputs[i].Name+".npy"))
		if err != nil {
			return "", "", err
		}
		err = errors.Join(tensor.WriteNPY(f, t), f.Close())
		if err != nil {
			return "", "", err
		}
	}
	return path, folder, nil
}

// run starts a process and reads its sample.
func run(name string, args ...string) (sample, error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, stderr.String())
	}
	var s sample
	return s, json.Unmarshal(b, &s)
}

// work is the process that measures carve: it loads, compiles and specialises a model, and runs it.
func work(path, folder, backends string, threads int, seconds float64) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.npy"))
	if err != nil {
		return err
	}
	feeds, shapes := map[string]tensor.Value{}, map[string][]int{}
	for _, f := range files {
		t, err := tensor.ReadNPYFile(f)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(f), ".npy")
		feeds[name], shapes[name] = t, t.Shape
	}
	var list []backend.Config
	for _, b := range strings.Split(backends, ",") {
		list = append(list, backend.Config{Name: b})
	}
	for _, c := range list {
		b, err := backend.Open(c) // an unavailable one would leave its place to others
		if err != nil {
			return err
		}
		if err := b.Close(); err != nil {
			return err
		}
	}
	ctx := context.Background()
	start := time.Now()
	m, err := carve.Open(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: list, Threads: threads})
	if err != nil {
		return err
	}
	defer p.Close()
	if _, err := p.Report(ctx, shapes); err != nil { // makes the first specialisation
		return err
	}
	s := sample{CreateMS: ms(time.Since(start))}
	for i := range 3 {
		start := time.Now()
		if _, err := p.Run(ctx, feeds); err != nil {
			return err
		}
		if i == 0 {
			s.FirstMS = ms(time.Since(start))
		}
	}
	begin := time.Now()
	for len(s.RunMS) < 20 || time.Since(begin).Seconds() < seconds {
		start, cpu := time.Now(), clock.Process()
		if _, err := p.Run(ctx, feeds); err != nil {
			return err
		}
		s.RunMS, s.CPUMS = append(s.RunMS, ms(time.Since(start))), append(s.CPUMS, ms(clock.Process()-cpu))
		if len(s.RunMS) >= 5 && time.Since(begin).Seconds() > 4*seconds {
			break
		}
	}
	s.PeakMiB = clock.PeakMiB()
	return json.NewEncoder(os.Stdout).Encode(s)
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
