// Command loop measures models with loops beside ONNX Runtime: for each there are rounds in which a fresh process of either
// side, one after the other, runs the model several times. It prints the least times over the rounds and their ratio as a
// Markdown table, and what carve converts and copies, by a profile of a run.
//
//	go run ./internal/bench/loop -python PYTHON [-trips 1000] [-threads 1] [-backend cpu] [-rounds 5] [-runs 10]
//
// PYTHON is an interpreter that has onnxruntime and numpy.
package main

import (
	"bytes"
	"context"
	_ "embed"
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
	_ "github.com/carve-dev/carve/backend/mkl"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

//go:embed ort_worker.py
var ortWorker []byte

// sample is what one process measured.
type sample struct {
	Version  string  `json:"version"`
	RunMS    float64 `json:"run_ms"`
	Converts int     `json:"converts"`
	Copies   int     `json:"copies"`
}

type bench struct {
	python, backends             string
	trips, threads, rounds, runs int
	dir, self                    string
}

func main() {
	var b bench
	flag.StringVar(&b.python, "python", "python3", "Python interpreter that has onnxruntime")
	flag.IntVar(&b.trips, "trips", 1000, "iterations")
	flag.IntVar(&b.threads, "threads", 1, "threads")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds")
	flag.IntVar(&b.runs, "runs", 10, "runs of a process")
	flag.StringVar(&b.backends, "backend", "cpu", "backends of carve, comma-separated")
	worker := flag.String("worker", "", "internal: run this model")
	feeds := flag.String("feeds", "", "internal: folder of inputs")
	flag.Parse()
	var err error
	if *worker != "" {
		err = b.work(*worker, *feeds)
	} else {
		err = b.measure()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "loop:", err)
		os.Exit(1)
	}
}

func (b *bench) measure() (err error) {
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "carve-loop"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	script := filepath.Join(b.dir, "ort_worker.py")
	if err := os.WriteFile(script, ortWorker, 0o600); err != nil {
		return err
	}
	fmt.Printf("%d iterations, %d threads, %s\n\n", b.trips, b.threads, b.backends)
	fmt.Println("| model | carve, ms | ONNX Runtime, ms | ratio | conversions in a run | copies |")
	fmt.Println("|---|--:|--:|--:|--:|--:|")
	sum, list := 0.0, nets(b.trips)
	for _, n := range list {
		path, folder, err := b.write(&n)
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		own, rival := sample{RunMS: math.Inf(1)}, sample{RunMS: math.Inf(1)}
		threads, runs := strconv.Itoa(b.threads), strconv.Itoa(b.runs)
		for range b.rounds {
			s, err := run(b.self, "-worker", path, "-feeds", folder, "-threads", threads, "-runs", runs, "-backend", b.backends)
			if err != nil {
				return err
			}
			if s.RunMS < own.RunMS {
				own = s
			}
			if s, err = run(b.python, script, path, folder, threads, runs); err != nil {
				return err
			}
			if s.RunMS < rival.RunMS {
				rival = s
			}
		}
		ratio := own.RunMS / rival.RunMS
		sum += math.Log(ratio)
		fmt.Printf("| %s | %.2f | %.2f | %.2f | %d | %d |\n", n.name, own.RunMS, rival.RunMS, ratio, own.Converts, own.Copies)
	}
	fmt.Printf("\ngeometric mean %.2f\n", math.Exp(sum/float64(len(list))))
	return nil
}

// write writes a model and its inputs.
func (b *bench) write(n *net) (path, folder string, err error) {
	g, err := graph.Parse(n.text)
	if err != nil {
		return "", "", err
	}
	if _, err := graph.InferModel(g); err != nil {
		return "", "", err
	}
	folder = filepath.Join(b.dir, strings.ReplaceAll(n.name, " ", "-"))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", "", err
	}
	path = filepath.Join(folder, "model.onnx")
	if err := onnx.Save(context.Background(), path, &onnx.Model{Graph: g}, nil); err != nil {
		return "", "", err
	}
	for name, t := range n.feeds {
		f, err := os.Create(filepath.Join(folder, name+".npy"))
		if err != nil {
			return "", "", err
		}
		if err := errors.Join(tensor.WriteNPY(f, t), f.Close()); err != nil {
			return "", "", err
		}
	}
	return path, folder, nil
}

// run starts a process and reads its sample.
func run(name string, args ...string) (s sample, err error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return s, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, stderr.String())
	}
	return s, json.Unmarshal(out, &s)
}

// work is the process that measures carve.
func (b *bench) work(path, folder string) error {
	ctx := context.Background()
	m, err := carve.Open(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	o := &carve.Options{Threads: b.threads}
	for _, name := range strings.Split(b.backends, ",") {
		o.Backends = append(o.Backends, backend.Config{Name: name})
	}
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		return err
	}
	defer p.Close()
	feeds := map[string]tensor.Value{}
	for _, port := range p.Inputs() {
		t, err := tensor.ReadNPYFile(filepath.Join(folder, port.Name+".npy"))
		if err != nil {
			return err
		}
		feeds[port.Name] = t
	}
	s := sample{RunMS: math.Inf(1)}
	_, profile, err := p.RunProfiled(ctx, feeds)
	if err != nil {
		return err
	}
	for _, x := range profile.Spans {
		switch x.Op {
		case "Convert":
			s.Converts++
		case "Copy":
			s.Copies++
		}
	}
	for range b.runs {
		start := time.Now()
		if _, err := p.Run(ctx, feeds); err != nil {
			return err
		}
		s.RunMS = min(s.RunMS, float64(time.Since(start).Nanoseconds())/1e6)
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}
