// Command zoo measures carve beside ONNX Runtime on the model zoo, in one run: for every model and number of threads,
// rounds in which a fresh process of each side, one after the other, loads the model and runs it for some time. It prints
// medians over the rounds, their ratios, and geometric means, as a Markdown table, and writes all figures as JSON.
//
//	go run ./internal/bench/zoo -python PYTHON [-models resnet50,bert_base] [-forms dynamic,qdq-unsigned] [-threads 1,2] [-backend 'cpu;mkl,cpu'] [-rounds 5] [-seconds 1] [-json FILE]
//
//	go run ./internal/bench/zoo -compare-order [-models …] [-threads …] [-seconds 1]
//
//	go run ./internal/bench/zoo -compare-placement [-tune 30s] [-models …] [-threads …] [-seconds 1]
//
// PYTHON is an interpreter that has onnxruntime, onnx and numpy. Without it carve is measured alone. Forms are ways in which
// ONNX Runtime's tools quantise a model before it is measured: dynamic, qdq, qdq-unsigned, qdq-channel and qoperator; or float16, bfloat16
// or float64, those of copies whose inputs and outputs stay float32. quantise.py says more. The zoo and the weights
// are found as the tests find them (see internal/zootest).
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
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

//go:embed ort_worker.py
var ortWorker []byte

// sample is what one process measured.
type sample struct {
	Version  string    `json:"version"`
	CreateMS float64   `json:"create_ms"`
	RunMS    []float64 `json:"run_ms"`
	CPUMS    []float64 `json:"cpu_ms"` // of the processor, all threads together
}

// figure is what one side needs for a model: medians over rounds, and their ratios to ONNX Runtime's.
type figure struct {
	Side        string  `json:"side"`
	RunMS       float64 `json:"run_ms"`
	CPUMS       float64 `json:"cpu_ms"`
	CreateMS    float64 `json:"create_ms"`
	Ratio       float64 `json:"ratio,omitempty"`
	CPURatio    float64 `json:"cpu_ratio,omitempty"`
	CreateRatio float64 `json:"create_ratio,omitempty"`
}

// row is a model at a number of threads. Its figures are those of carve, one for every list of backends, and ONNX
// Runtime's, which come last.
type row struct {
	Model   string   `json:"model"`
	Threads int      `json:"threads"`
	Rounds  int      `json:"rounds"`
	Figures []figure `json:"figures"`
}

// side is one of those that are compared.
type side struct {
	name    string
	measure func(path, feeds, threads string) (sample, error)
}

const rival = "ONNX Runtime"

func main() {
	python := flag.String("python", "", "Python interpreter that has onnxruntime")
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
	flag.Parse()
	var err error
	if *worker != "" {
		n, _ := strconv.Atoi(*threads)
		err = work(*worker, *feeds, *backends, n, *seconds)
	} else if *orders {
		err = compare(*models, *threads, func(names []string, counts []int) error { return compareOrder(names, counts, *seconds) }, false)
	} else if *placing {
		err = compare(*models, *threads, newComparison(*seconds, *tune).run, true)
	} else {
		err = measure(*python, *models, *forms, *threads, *backends, *rounds, *seconds, *out)
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

func measure(python, models, forms, threads, backends string, rounds int, seconds float64, out string) error {
	names, err := selected(models)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "carve-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sides, err := contenders(python, backends, dir, fmt.Sprint(seconds))
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
			samples := make([][]sample, len(sides))
			for range rounds {
				for i, s := range sides {
					one, err := s.measure(m.path, m.feeds, t)
					if err != nil {
						return fmt.Errorf("%s: %w", m.name, err)
					}
					samples[i] = append(samples[i], one)
				}
			}
			r := row{Model: m.name, Threads: n, Rounds: rounds}
			for i, s := range sides {
				r.Figures = append(r.Figures, figure{Side: s.name, RunMS: overall(samples[i], runs), CPUMS: overall(samples[i], processor), CreateMS: creation(samples[i])})
			}
			if last := r.Figures[len(r.Figures)-1]; last.Side == rival {
				for i := range r.Figures[:len(r.Figures)-1] {
					f := &r.Figures[i]
					f.Ratio, f.CPURatio, f.CreateRatio = f.RunMS/last.RunMS, f.CPUMS/last.CPUMS, f.CreateMS/last.CreateMS
				}
			}
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

// contenders returns carve with each list of backends, and ONNX Runtime where there is a Python for it.
func contenders(python, backends, dir, seconds string) ([]side, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var sides []side
	for _, list := range strings.Split(backends, ";") {
		sides = append(sides, side{list, func(path, feeds, threads string) (sample, error) {
			return run(self, "-worker", path, "-feeds", feeds, "-threads", threads, "-seconds", seconds, "-backend", list)
		}})
	}
	if python == "" {
		return sides, nil
	}
	script := filepath.Join(dir, "ort_worker.py")
	if err := os.WriteFile(script, ortWorker, 0o600); err != nil {
		return nil, err
	}
	return append(sides, side{rival, func(path, feeds, threads string) (sample, error) {
		return run(python, script, path, feeds, threads, seconds)
	}}), nil
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
	for range 3 {
		if _, err := p.Run(ctx, feeds); err != nil {
			return err
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
	return json.NewEncoder(os.Stdout).Encode(s)
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func runs(s sample) []float64      { return s.RunMS }
func processor(s sample) []float64 { return s.CPUMS }

// overall returns the median over rounds of the rounds' medians.
func overall(ss []sample, of func(sample) []float64) float64 {
	var m []float64
	for _, s := range ss {
		m = append(m, median(of(s)))
	}
	return median(m)
}

func creation(ss []sample) float64 {
	var m []float64
	for _, s := range ss {
		m = append(m, s.CreateMS)
	}
	return median(m)
}

// apart is the model whose time is nearly all one operator; means leave it out.
const apart = "ssdlite320_mobilenet_v3_large"

func table(rows []row) {
	if len(rows) == 0 {
		return
	}
	head := []string{"model", "threads"}
	for _, what := range []string{"", " processor", " create"} {
		for _, f := range rows[0].Figures {
			head = append(head, f.Side+what+" ms")
			if f.Side != rival {
				head = append(head, "ratio")
			}
		}
	}
	line(head)
	fmt.Println("|---|" + strings.Repeat("--:|", len(head)-1))
	for _, r := range rows {
		cells := []string{r.Model, strconv.Itoa(r.Threads)}
		for _, f := range r.Figures {
			cells = append(cells, fmt.Sprintf("%.3f", f.RunMS))
			if f.Side != rival {
				cells = append(cells, fmt.Sprintf("%.2f", f.Ratio))
			}
		}
		for _, f := range r.Figures {
			cells = append(cells, fmt.Sprintf("%.3f", f.CPUMS))
			if f.Side != rival {
				cells = append(cells, fmt.Sprintf("%.2f", f.CPURatio))
			}
		}
		for _, f := range r.Figures {
			cells = append(cells, fmt.Sprintf("%.1f", f.CreateMS))
			if f.Side != rival {
				cells = append(cells, fmt.Sprintf("%.2f", f.CreateRatio))
			}
		}
		line(cells)
	}
	means(rows)
}

func line(cells []string) { fmt.Println("| " + strings.Join(cells, " | ") + " |") }

// means prints the geometric means of the ratios, and the largest of them.
func means(rows []row) {
	for i, f := range rows[0].Figures {
		if f.Side == rival || f.Ratio == 0 {
			continue
		}
		byThreads := map[int][]figure{}
		for _, r := range rows {
			if r.Model != apart {
				byThreads[r.Threads] = append(byThreads[r.Threads], r.Figures[i])
			}
		}
		for _, t := range slices.Sorted(maps.Keys(byThreads)) {
			var runs, cpu, creates, worst, worstCreate float64
			for _, f := range byThreads[t] {
				runs += math.Log(f.Ratio)
				cpu += math.Log(f.CPURatio)
				creates += math.Log(f.CreateRatio)
				worst, worstCreate = max(worst, f.Ratio), max(worstCreate, f.CreateRatio)
			}
			n := float64(len(byThreads[t]))
			fmt.Printf("\n%s at %d threads, %.0f models without %s: geometric mean of run %.2f (largest %.2f), of the processor's time %.2f, of create %.2f (largest %.2f)\n",
				f.Side, t, n, apart, math.Exp(runs/n), worst, math.Exp(cpu/n), math.Exp(creates/n), worstCreate)
		}
	}
}
