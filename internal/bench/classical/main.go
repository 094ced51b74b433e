// Command classical measures carve beside ONNX Runtime on classical models, trees, linear models, support vector machines, or on models that it is given. Both run
// in this process, ONNX Runtime through its C interface, by turns, each into results that it was given, but for sequences of maps, which each makes; it prints medians of rounds in
// microseconds, and the median ratio with its interval of 95 %, as a Markdown table.
//
//	go run ./internal/bench/classical -python PYTHON [-models REGEXP] [-folder FOLDER] [-rows 1,1000] [-threads 1,2] [-rounds 15] [-millis 20] [-processor] [-isa avx2]
//
// It makes models, or takes those of FOLDER: NAME/model.onnx, with operands of each number of rows as x_ROWS.npy, or of several
// inputs as x_ROWS_INPUT.npy. A model that fails, or whose results differ, is named at the end.
// PYTHON is an interpreter that has onnxruntime, skl2onnx, onnxmltools, lightgbm and xgboost; the library is onnxruntime's.
//
// With -networks the models are networks with random weights in their place, of one row, which PyTorch exports: architectures of timm
// with the side of their images, and types of model of transformers with a number of tokens, by either exporter; FOLDER keeps them where it is given. PYTHON has torch,
// timm and transformers besides, and onnxscript for +dynamo.
//
//	go run ./internal/bench/classical -networks 'convnextv2_atto@160 regnety_004+dynamo transformers:bert@64' -python PYTHON -rows 1
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/clock"
	"github.com/carve-dev/carve/internal/bench/paired"
)

//go:embed models.py
var script string

//go:embed networks.py
var networksScript string

type settings struct {
	threads, rows []int

	rounds int
	each   time.Duration // of each side in a round
	isa    string        // of cpu, "" for that of the machine
	now    func() time.Duration
}

func main() {
	python := flag.String("python", "python3", "Python interpreter that has onnxruntime and the converters")
	only := flag.String("models", "", "regular expression of the models to measure")
	folder := flag.String("folder", "", "folder of models in place of those that are made")
	networks := flag.String("networks", "", "networks to export and measure, as NAME[@SIZE][+dynamo] with spaces between; NAME is an architecture of timm or transformers:TYPE")
	threads := flag.String("threads", "1,2", "numbers of threads")
	rounds := flag.Int("rounds", 15, "rounds")
	millis := flag.Int("millis", 20, "milliseconds of each side in a round")
	processor := flag.Bool("processor", false, "count the process's processor time in place of the wall clock's, which others on the machine disturb less")
	rows := flag.String("rows", "1,1000", "numbers of rows")
	isa := flag.String("isa", "", "instruction set of carve's kernels, such as avx2; the machine's by default")
	flag.Parse()
	start := time.Now()
	s := settings{rounds: *rounds, each: time.Duration(*millis) * time.Millisecond, isa: *isa, now: func() time.Duration { return time.Since(start) }}
	err := errors.Join(numbers(&s.threads, *threads), numbers(&s.rows, *rows))
	if *processor {
		s.now = clock.Process
	}
	if err == nil {
		err = measure(*python, *folder, *only, strings.Fields(*networks), s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "classical:", err)
		os.Exit(1)
	}
}

// numbers reads a list of whole numbers.
func numbers(list *[]int, text string) error {
	for _, t := range strings.Split(text, ",") {
		n, err := strconv.Atoi(t)
		if err != nil {
			return err
		}
		*list = append(*list, n)
	}
	return nil
}

func measure(python, folder, only string, networks []string, s settings) error {
	want, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	found, err := exec.Command(python, "-c", "import glob, os, onnxruntime as o; print(glob.glob(os.path.join(os.path.dirname(o.__file__), 'capi', 'libonnxruntime.so.*'))[0])").Output()
	if err != nil {
		return err
	}
	lib, err := openLibrary(strings.TrimSpace(string(found)))
	if err != nil {
		return err
	}
	makes := folder == "" || len(networks) > 0
	if folder == "" {
		if folder, err = os.MkdirTemp("", "carve-bench"); err != nil {
			return err
		}
		defer os.RemoveAll(folder)
	}
	if makes {
		if err := makeModels(python, folder, networks); err != nil {
			return err
		}
	}
	models, err := filepath.Glob(filepath.Join(folder, "*", "model.onnx"))
	if err != nil {
		return err
	}
	fmt.Println("| model | rows | threads | carve µs | ONNX Runtime µs | ratio |\n|---|--:|--:|--:|--:|--:|")
	var failed error
	for _, n := range s.threads {
		for _, path := range models {
			name := filepath.Base(filepath.Dir(path))
			if !want.MatchString(name) {
				continue
			}
			for _, rows := range s.rows {
				if err := compare(lib, path, name, n, rows, s); err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s, %d rows: %w", name, rows, err))
				}
			}
		}
	}
	return failed
}

// makeModels has Python write models to a folder, and says which networks it cannot export.
func makeModels(python, folder string, networks []string) error {
	args := []string{"-c", script, folder}
	if len(networks) > 0 {
		args = append([]string{"-c", networksScript, folder}, networks...)
	}
	c := exec.Command(python, args...)
	var problems strings.Builder
	c.Stdout, c.Stderr = os.Stderr, &problems
	if err := c.Run(); err != nil {
		return fmt.Errorf("the script that makes models: %w: %s", err, problems.String())
	}
	return nil
}

// operands reads what a folder has for the inputs of a program.
func operands(folder string, rows int, inputs []carve.Port) ([]tensor.Named, error) {
	out := make([]tensor.Named, len(inputs))
	for i, in := range inputs {
		file := fmt.Sprintf("x_%d.npy", rows)
		if len(inputs) > 1 {
			file = fmt.Sprintf("x_%d_%s.npy", rows, in.Name)
		}
		x, err := tensor.ReadNPYFile(filepath.Join(folder, file))
		if err != nil {
			return nil, err
		}
		out[i] = tensor.Named{Name: in.Name, Tensor: x}
	}
	return out, nil
}

// results returns the outputs of a first run, nil for those that are no tensors, the places of a rival's, and whether all are tensors.
func results(p *carve.Program, first map[string]tensor.Value) (ours []*tensor.Tensor, theirs []tensor.Named, plain bool, err error) {
	plain = true
	for _, o := range p.Outputs() {
		t, ok := first[o.Name].(*tensor.Tensor)
		own := tensor.Named{Name: o.Name}
		if ok {
			if own.Tensor, err = tensor.New(t.DType, t.Shape...); err != nil {
				return nil, nil, false, err
			}
		}
		ours, theirs, plain = append(ours, t), append(theirs, own), plain && ok
	}
	return ours, theirs, plain, nil
}

// side is one of those that are compared.
type side func() error

func compare(lib *library, path, name string, threads, rows int, s settings) error {
	ctx := context.Background()
	m, err := carve.Open(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	config := backend.Config{Name: "cpu"}
	if s.isa != "" {
		config.Options = map[string]string{"isa": s.isa}
	}
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{config}, Threads: threads})
	if err != nil {
		return err
	}
	defer p.Close()
	x, err := operands(filepath.Dir(path), rows, p.Inputs())
	if err != nil {
		return err
	}
	feeds, inputs := map[string]tensor.Value{}, make([]*tensor.Tensor, len(x))
	for i, in := range x {
		feeds[in.Name], inputs[i] = in.Tensor, in.Tensor
	}
	first, err := p.Run(ctx, feeds)
	if err != nil {
		return err
	}
	ours, theirs, plain, err := results(p, first)
	if err != nil {
		return err
	}
	session, err := p.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	other, err := lib.load(path, threads, x, theirs)
	if err != nil {
		return err
	}
	sides := [2]side{func() error { return session.RunInto(ctx, inputs, ours) }, other.run}
	if !plain {
		sides[0] = func() error { _, err := session.Run(ctx, feeds); return err }
	}
	if err := errors.Join(sides[0](), sides[1]()); err != nil {
		return err
	}
	for i, y := range theirs {
		if y.Tensor == nil || y.Tensor.DType == tensor.String {
			continue // maps, and labels that are looked up behind numbers
		}
		if err := agree(ours[i], y.Tensor); err != nil {
			return fmt.Errorf("%s: %w", y.Name, err)
		}
	}
	var times [2][]float64
	for range s.rounds {
		for i, run := range sides {
			time.Sleep(settle)
			us, err := s.clocked(run)
			if err != nil {
				return err
			}
			times[i] = append(times[i], us)
		}
	}
	r := paired.Of(times[0], times[1])
	fmt.Printf("| %s | %d | %d | %.1f | %.1f | %v |\n", name, rows, threads, paired.Median(times[0]), paired.Median(times[1]), r)
	return nil
}

// settle is how long a side waits until threads of the other have stopped to look for work: ONNX Runtime's do so for 60 ms on an AMD EPYC of Zen 2.
const settle = 100 * time.Millisecond

// clocked returns the microseconds of a run, of as many as take so long.
func (s settings) clocked(run side) (float64, error) {
	n, start := 0, s.now()
	for batch := 1; s.now()-start < s.each; batch *= 2 {
		for range batch {
			if err := run(); err != nil {
				return 0, err
			}
		}
		n += batch
	}
	return float64((s.now() - start).Nanoseconds()) / 1e3 / float64(n), nil
}

// agree says where results differ by more than a thousandth, of a number or of the deviation of all, as float32 leaves it of a deep network:
// a class in a hundred may, where scores are as good as equal.
func agree(a, b *tensor.Tensor) error {
	x, y := make([]float64, a.Len()), make([]float64, b.Len())
	if err := errors.Join(tensor.Decode(x, a), tensor.Decode(y, b)); err != nil {
		return err
	}
	off, least := 0, 1e-4
	if d := stat.StdDev(y, nil); d > 0 && !math.IsInf(d, 0) { // not where some are no numbers
		least = max(least, 1e-3*d)
	}
	for i := range x {
		if !(math.Abs(x[i]-y[i]) <= 1e-3*math.Abs(y[i])+least) && x[i] != y[i] { // NaN differs
			off++
		}
	}
	if off > len(x)/100 {
		return fmt.Errorf("%d of %d numbers differ", off, len(x))
	}
	return nil
}
