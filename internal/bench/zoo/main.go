// Command zoo measures carve beside ONNX Runtime and OpenVINO on the model zoo, in one run: for every model and number of threads,
// rounds in which a fresh process of each side, one after the other, loads the model and runs it for some time. It prints
// medians over the rounds, the medians of the rounds' ratios to the rival whose median is least with their 95 % intervals, and geometric
// means of them, as Markdown tables, and writes all figures as JSON. With -turns the processes of a round stay, and run by turns so many times.
//
//	go run ./internal/bench/zoo -python PYTHON [-rivals onnxruntime,openvino] [-models resnet50,bert_base] [-forms dynamic,qdq-unsigned] [-threads 1,2] [-backend 'cpu;mkl,cpu'] [-rounds 5] [-turns 15] [-seconds 1] [-into] [-keep FOLDER] [-json FILE]
//
//	go run ./internal/bench/zoo -python PYTHON -models A.onnx,B.onnx [-inputs FOLDER] [-dims batch=1,length=128] …
//
//	go run ./internal/bench/zoo -compare-order [-models …] [-threads …] [-seconds 1]
//
//	go run ./internal/bench/zoo -compare-placement [-tune 30s] [-models …] [-threads …] [-seconds 1]
//
//	go run ./internal/bench/zoo -compare-options 'winograd=off;winograd=off,precision=bf16' [-models …] [-threads …] [-seconds 1]
//
// PYTHON is an interpreter that has the rivals, onnx and numpy. Without it carve is measured alone. Rivals are told to compute in
// float32, and OpenVINO gets the inputs' shapes before it compiles. A rival that does not run a model is left out of its row. Forms are ways in which
// ONNX Runtime's tools quantise or optimise a model before it is measured, such as dynamic, qdq, qoperator, nbits4, all, or qdq+all; or float16, bfloat16
// or float64, those of copies whose inputs and outputs stay float32. quantise.py lists them; with -keep they are written once. The zoo and the weights
// are found as the tests find them (see internal/zootest); a name that ends in .onnx is a file, with its inputs as NAME.npy in a folder of the
// file's name without that, beside it or in the folder of -inputs. Where there is no such folder, inputs are made, whose open dims are 1 or what
// -dims says. With -into carve writes results to memory that is allocated once, as OpenVINO does; ONNX Runtime makes new ones in every run.
package main

import (
	"cmp"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/internal/zootest"
)

//go:embed *_worker.py measured.py
var workers embed.FS

// into is said to the processes that measure carve.
var into = flag.Bool("into", false, "have carve write results to memory that is allocated once, as OpenVINO does")

// row is a model at a number of threads. Its figures are those of carve, one for every list of backends, and the rivals', which come last.
type row struct {
	Model   string   `json:"model"`
	Threads int      `json:"threads"`
	Rounds  int      `json:"rounds"`
	Turns   int      `json:"turns"` // of each round
	Figures []figure `json:"figures"`
}

// side is one of those that are compared.
type side struct {
	name  string
	rival bool
	start func(path, feeds, threads string) (*process, error)
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
	turns := flag.Int("turns", 1, "turns of the processes of a round")
	seconds := flag.Float64("seconds", 1, "least seconds of runs per process")
	folder := flag.String("inputs", "", "folder of folders of inputs of models that are files; beside the files by default")
	dims := flag.String("dims", "", "open dims of inputs that are made, NAME=NUMBER, comma-separated; 1 by default")
	keep := flag.String("keep", "", "folder in which inputs and forms are kept for the next time")
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
		err = work(*worker, *feeds, *backends, n, *turns, *seconds)
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
		in := inputs{folder: *folder}
		if in.open, err = bindings(*dims); err == nil {
			err = measure(*python, *beside, *models, *forms, *threads, *backends, *keep, in, *rounds, *turns, *seconds, *out)
		}
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

func measure(python, beside, models, forms, threads, backends, keep string, in inputs, rounds, turns int, seconds float64, out string) error {
	names, err := selected(models)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "carve-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sides, err := contenders(python, beside, backends, dir, strconv.Itoa(turns), fmt.Sprint(seconds))
	if err != nil {
		return err
	}
	if keep != "" {
		if err := os.MkdirAll(keep, 0o755); err != nil {
			return err
		}
	}
	list, err := entrants(names, forms, python, cmp.Or(keep, dir), in)
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
			r, err := compete(sides, m, t, rounds, turns)
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
func compete(sides []side, m entrant, threads string, rounds, turns int) (row, error) {
	samples, failed := make([][]sample, len(sides)), make([]bool, len(sides))
	for range rounds {
		round, err := oneRound(sides, failed, m, threads, turns)
		if err != nil {
			return row{}, err
		}
		for i := range sides {
			if samples[i] = append(samples[i], round[i]); failed[i] {
				samples[i] = nil
			}
		}
	}
	return row{Model: m.name, Rounds: rounds, Turns: turns, Figures: figures(sides, samples)}, nil
}

// oneRound starts a process of each side that has not failed, one after the other, and lets them take turns. Rivals may fail.
func oneRound(sides []side, failed []bool, m entrant, threads string, turns int) ([]sample, error) {
	round, running := make([]sample, len(sides)), make([]*process, len(sides))
	for turn := range 1 + turns {
		for i, s := range sides {
			if failed[i] {
				continue
			}
			var err error
			if turn == 0 {
				if running[i], err = s.start(m.path, m.feeds, threads); err == nil {
					defer running[i].stop()
					round[i] = running[i].began
				}
			} else {
				err = running[i].turn(&round[i])
			}
			if err != nil && !s.rival {
				return nil, err
			} else if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %s: %v\n", m.name, s.name, err)
				failed[i] = true
			}
		}
	}
	return round, nil
}

// contenders returns carve with each list of backends, and the rivals where there is a Python for them.
func contenders(python, beside, backends, dir, turns, seconds string) ([]side, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var sides []side
	for _, list := range strings.Split(backends, ";") {
		sides = append(sides, side{name: list, start: func(path, feeds, threads string) (*process, error) {
			return start(self, "-worker", path, "-feeds", feeds, "-threads", threads, "-turns", turns, "-seconds", seconds, "-backend", list, fmt.Sprintf("-into=%t", *into))
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
		sides = append(sides, side{name: r.name, rival: true, start: func(path, feeds, threads string) (*process, error) {
			return start(python, filepath.Join(dir, "workers", r.script), path, feeds, threads, turns, seconds)
		}})
	}
	return sides, nil
}

// prepare returns a model's path and the folder of its inputs: those of a file, or of the zoo, for which it writes weights and inputs.
func prepare(name, dir string, in inputs) (path, folder string, err error) {
	if strings.HasSuffix(name, ".onnx") {
		folder, err = in.of(name, dir)
		return name, folder, err
	}
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
		if err := write(filepath.Join(folder, ref.Inputs[i].Name+".npy"), t); err != nil {
			return "", "", err
		}
	}
	return path, folder, nil
}
