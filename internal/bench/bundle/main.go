// Command bundle measures how long bundles of the model zoo take to open, and to open and run once, beside compiling the model and
// beside ONNX Runtime's creation of a session. For every model there are rounds in which a fresh process of each side, one
// after the other, opens and runs the model once; files are in the page cache. It prints the least times over the rounds,
// their ratios to ONNX Runtime's, the peaks of resident memory, and geometric means, as a Markdown table.
//
//	go run ./internal/bench/bundle -python PYTHON [-models resnet50,bert_base] [-threads 1] [-backend cpu] [-rounds 5]
//
// Inputs have their shapes when the bundle is made, so that opening has all plans made. PYTHON is an interpreter that has
// onnxruntime and numpy. The zoo and the weights are found as the tests find them (see internal/zootest).
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/clock"
	"github.com/carve-dev/carve/internal/zootest"
)

//go:embed ort_worker.py
var ortWorker []byte

// sample is what one process measured.
type sample struct {
	OpenMS  float64 `json:"open_ms"`
	FirstMS float64 `json:"first_ms"` // opening and the first run
	PeakMiB float64 `json:"peak_mib"`
}

// least keeps the smaller of each figure.
func (s *sample) least(o sample) {
	if s.OpenMS == 0 {
		*s = o
	}
	s.OpenMS, s.FirstMS, s.PeakMiB = min(s.OpenMS, o.OpenMS), min(s.FirstMS, o.FirstMS), min(s.PeakMiB, o.PeakMiB)
}

type bench struct {
	python, backends string
	threads, rounds  int
	dir, self        string
}

func main() {
	var b bench
	flag.StringVar(&b.python, "python", "python3", "Python interpreter that has onnxruntime")
	models := flag.String("models", "", "names, comma-separated; all by default")
	flag.IntVar(&b.threads, "threads", 1, "threads")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds")
	flag.StringVar(&b.backends, "backend", "cpu", "backends of carve, comma-separated")
	worker := flag.String("worker", "", "internal: open and run this model or bundle")
	feeds := flag.String("feeds", "", "internal: folder of inputs")
	flag.Parse()
	var err error
	if *worker != "" {
		err = b.work(*worker, *feeds)
	} else {
		err = b.measure(*models)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func (b *bench) measure(models string) (err error) {
	names := strings.Split(models, ",")
	if models == "" {
		if names, err = zootest.Names(); err != nil {
			return err
		}
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "carve-bundle"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := os.WriteFile(filepath.Join(b.dir, "ort_worker.py"), ortWorker, 0o600); err != nil {
		return err
	}
	fmt.Println("| model | open, ms | ONNX Runtime | ratio | open and run | ONNX Runtime | ratio | compile | peak, MiB | compiling | ratio |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	sums, worst := [3]float64{}, 0.0
	for _, name := range names {
		s, err := b.model(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		open, compiled, rival := &s[0], &s[1], &s[2]
		r := [3]float64{open.OpenMS / rival.OpenMS, open.FirstMS / rival.FirstMS, open.PeakMiB / compiled.PeakMiB}
		fmt.Printf("| %s | %.2f | %.2f | %.3f | %.1f | %.1f | %.3f | %.1f | %.0f | %.0f | %.2f |\n", name, open.OpenMS, rival.OpenMS, r[0], open.FirstMS,
			rival.FirstMS, r[1], compiled.OpenMS, open.PeakMiB, compiled.PeakMiB, r[2])
		for i := range sums {
			sums[i] += math.Log(r[i])
		}
		worst = max(worst, r[2])
	}
	n := float64(len(names))
	fmt.Printf("\ngeometric means: opening %.3f, opening and first run %.3f of ONNX Runtime's; peak memory %.2f of compiling, at most %.2f\n",
		math.Exp(sums[0]/n), math.Exp(sums[1]/n), math.Exp(sums[2]/n), worst)
	return nil
}

// model measures a bundle, the compilation, and ONNX Runtime, by turns.
func (b *bench) model(name string) (out [3]sample, err error) {
	path, err := zootest.Materialize(name)
	if err != nil {
		return out, err
	}
	folder := filepath.Join(b.dir, name)
	if err := writeFeeds(name, folder); err != nil {
		return out, err
	}
	file := filepath.Join(folder, name+".carve")
	if err := b.bundle(path, folder, file); err != nil {
		return out, err
	}
	defer os.Remove(file)
	if err := warm(file); err != nil {
		return out, err
	}
	common := []string{"-feeds", folder, "-threads", strconv.Itoa(b.threads), "-backend", b.backends}
	for range b.rounds {
		for i, args := range [][]string{
			append([]string{b.self, "-worker", file}, common...),
			append([]string{b.self, "-worker", path}, common...),
			{b.python, filepath.Join(b.dir, "ort_worker.py"), path, folder, strconv.Itoa(b.threads)},
		} {
			s, err := run(args)
			if err != nil {
				return out, err
			}
			out[i].least(s)
		}
	}
	return out, nil
}

// writeFeeds writes the inputs of the zoo's reference.
func writeFeeds(name, folder string) error {
	ref, err := zootest.ReadReference(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for i := range ref.Inputs {
		t, err := ref.Inputs[i].Tensor()
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(folder, ref.Inputs[i].Name+".npy"))
		if err != nil {
			return err
		}
		if err := errors.Join(tensor.WriteNPY(f, t), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// warm reads a file, which is in the page cache then.
func warm(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}

// run starts a process and reads its sample.
func run(args []string) (s sample, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		return s, fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, stderr.String())
	}
	return s, json.Unmarshal(b, &s)
}

// inputs reads the inputs in a folder.
func inputs(folder string) (feeds map[string]tensor.Value, shapes map[string][]int, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.npy"))
	if err != nil {
		return nil, nil, err
	}
	feeds, shapes = map[string]tensor.Value{}, map[string][]int{}
	for _, f := range files {
		t, err := tensor.ReadNPYFile(f)
		if err != nil {
			return nil, nil, err
		}
		name := strings.TrimSuffix(filepath.Base(f), ".npy")
		feeds[name], shapes[name] = t, t.Shape
	}
	return feeds, shapes, nil
}

func (b *bench) options(shapes map[string][]int) *carve.Options {
	o := &carve.Options{Threads: b.threads, Shapes: shapes}
	for _, name := range strings.Split(b.backends, ",") {
		o.Backends = append(o.Backends, backend.Config{Name: name})
	}
	return o
}

// bundle writes the bundle of a model.
func (b *bench) bundle(path, folder, file string) error {
	ctx := context.Background()
	_, shapes, err := inputs(folder)
	if err != nil {
		return err
	}
	m, err := carve.Open(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := carve.Compile(ctx, m, b.options(shapes))
	if err != nil {
		return err
	}
	defer p.Close()
	return p.SaveBundle(ctx, file, nil)
}

// work is the process that opens a model or a bundle and runs it once.
func (b *bench) work(path, folder string) error {
	ctx := context.Background()
	feeds, shapes, err := inputs(folder)
	if err != nil {
		return err
	}
	start := time.Now()
	m, err := carve.Open(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := carve.Compile(ctx, m, b.options(shapes))
	if err != nil {
		return err
	}
	defer p.Close()
	s := sample{OpenMS: ms(time.Since(start))}
	if _, err := p.Run(ctx, feeds); err != nil {
		return err
	}
	s.FirstMS = ms(time.Since(start))
	s.PeakMiB = clock.PeakMiB()
	return json.NewEncoder(os.Stdout).Encode(s)
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
