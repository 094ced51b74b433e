// Command zoo measures carve beside ONNX Runtime on the model zoo, in one run: for every model and number of threads,
// rounds in which a fresh process of each, one after the other, loads the model and runs it for some time. It prints
// medians over the rounds, their ratios, and geometric means, as a Markdown table, and writes all figures as JSON.
//
//	go run ./internal/bench/zoo -python PYTHON [-models resnet50,bert_base] [-threads 1,2] [-rounds 5] [-seconds 1] [-json FILE]
//
//	go run ./internal/bench/zoo -compare-order [-models …] [-threads …] [-seconds 1]
//
// PYTHON is an interpreter that has onnxruntime and numpy. Without it carve is measured alone. The zoo and the weights
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
	"github.com/carve-dev/carve/internal/zootest"
)

//go:embed ort_worker.py
var ortWorker []byte

// sample is what one process measured.
type sample struct {
	Version  string    `json:"version"`
	CreateMS float64   `json:"create_ms"`
	RunMS    []float64 `json:"run_ms"`
}

// row is a model at a number of threads: medians over rounds.
type row struct {
	Model       string  `json:"model"`
	Threads     int     `json:"threads"`
	Carve       float64 `json:"carve_ms"`
	ORT         float64 `json:"ort_ms"`
	Ratio       float64 `json:"ratio"`
	CarveCreate float64 `json:"carve_create_ms"`
	ORTCreate   float64 `json:"ort_create_ms"`
	CreateRatio float64 `json:"create_ratio"`
	Rounds      int     `json:"rounds"`
}

func main() {
	python := flag.String("python", "", "Python interpreter that has onnxruntime")
	models := flag.String("models", "", "names, comma-separated; all by default")
	threads := flag.String("threads", "1,2", "numbers of threads")
	rounds := flag.Int("rounds", 5, "rounds")
	seconds := flag.Float64("seconds", 1, "least seconds of runs per process")
	out := flag.String("json", "", "file for all figures")
	backends := flag.String("backend", "cpu", "backends of carve, comma-separated")
	worker := flag.String("worker", "", "internal: measure this model file")
	feeds := flag.String("feeds", "", "internal: folder of inputs")
	orders := flag.Bool("compare-order", false, "measure the model's order of execution against carve's instead")
	flag.Parse()
	var err error
	if *worker != "" {
		n, _ := strconv.Atoi(*threads)
		err = work(*worker, *feeds, *backends, n, *seconds)
	} else if *orders {
		err = compare(*models, *threads, *seconds)
	} else {
		err = measure(*python, *models, *threads, *backends, *rounds, *seconds, *out)
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

// compare is compareOrder with the flags' values.
func compare(models, threads string, seconds float64) error {
	names, err := selected(models)
	if err != nil {
		return err
	}
	var counts []int
	for _, t := range strings.Split(threads, ",") {
		n, err := strconv.Atoi(t)
		if err != nil {
			return err
		}
		counts = append(counts, n)
	}
	return compareOrder(names, counts, seconds)
}

func measure(python, models, threads, backends string, rounds int, seconds float64, out string) error {
	names, err := selected(models)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "carve-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "ort_worker.py")
	if err := os.WriteFile(script, ortWorker, 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var rows []row
	for _, t := range strings.Split(threads, ",") {
		n, err := strconv.Atoi(t)
		if err != nil {
			return err
		}
		for _, name := range names {
			path, folder, err := prepare(name, dir)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			var mine, theirs []sample
			for range rounds {
				s, err := run(self, "-worker", path, "-feeds", folder, "-threads", t, "-seconds", fmt.Sprint(seconds), "-backend", backends)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				mine = append(mine, s)
				if python == "" {
					continue
				}
				if s, err = run(python, script, path, folder, t, fmt.Sprint(seconds)); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				theirs = append(theirs, s)
			}
			r := row{Model: name, Threads: n, Rounds: rounds, Carve: overall(mine), ORT: overall(theirs),
				CarveCreate: creation(mine), ORTCreate: creation(theirs)}
			r.Ratio, r.CreateRatio = r.Carve/r.ORT, r.CarveCreate/r.ORTCreate
			rows = append(rows, r)
			fmt.Fprintf(os.Stderr, "%s @%d: %.3f ms, ONNX Runtime %.3f ms, ratio %.2f; create %.1f and %.1f ms\n",
				name, n, r.Carve, r.ORT, r.Ratio, r.CarveCreate, r.ORTCreate)
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
		start := time.Now()
		if _, err := p.Run(ctx, feeds); err != nil {
			return err
		}
		s.RunMS = append(s.RunMS, ms(time.Since(start)))
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

// overall returns the median over rounds of the rounds' medians.
func overall(ss []sample) float64 {
	var m []float64
	for _, s := range ss {
		m = append(m, median(s.RunMS))
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
	fmt.Println("| model | threads | carve ms | ONNX Runtime ms | ratio | carve create ms | ONNX Runtime create ms | ratio |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|")
	sum, sumCreate, n := map[int]float64{}, map[int]float64{}, map[int]int{}
	for _, r := range rows {
		fmt.Printf("| %s | %d | %.3f | %.3f | %.2f | %.1f | %.1f | %.2f |\n", r.Model, r.Threads, r.Carve, r.ORT, r.Ratio, r.CarveCreate, r.ORTCreate, r.CreateRatio)
		if r.Model != apart {
			sum[r.Threads] += math.Log(r.Ratio)
			sumCreate[r.Threads] += math.Log(r.CreateRatio)
			n[r.Threads]++
		}
	}
	for _, t := range slices.Sorted(maps.Keys(n)) {
		fmt.Printf("\nGeometric mean at %d threads, %d models without %s: run %.2f, create %.2f\n", t, n[t], apart,
			math.Exp(sum[t]/float64(n[t])), math.Exp(sumCreate[t]/float64(n[t])))
	}
}
