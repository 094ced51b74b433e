// Command generate measures decoders, and encoders of open length, beside ONNX Runtime: for each model there are rounds in which a
// fresh process of either side, one after the other, runs it. It prints the least times over the rounds and their ratios as a Markdown
// table.
//
//	go run ./internal/bench/generate -python PYTHON [-tokens 64] [-prompt 8] [-lengths 20] [-threads 1] [-rounds 5] [-runs 10] MODEL.onnx...
//
// A model with inputs whose names begin with "past" is a decoder: both sides decode greedily, carve with the caches in one place
// (Options.InPlace), ONNX Runtime with OrtValues bound to inputs and outputs; times are those of a token behind the prompt, and of
// the prompt. `go run ./examples/generate -write FILE` makes one. Any other model is an encoder of token numbers [batch, length]: it is run at so many
// lengths in a row, from 8 on, each longer than the one before by 5; times are those of later passes over all lengths, and of the first.
//
// PYTHON is an interpreter that has onnxruntime and numpy.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed worker.py
var worker []byte

// sample is what a process measured.
type sample struct {
	Version string  `json:"version"`
	Steady  float64 `json:"steady_ms"` // of a token, or of a pass
	First   float64 `json:"first_ms"`  // of the prompt, or of the first pass
	Tokens  []int   `json:"tokens"`
}

type bench struct {
	python                                        string
	tokens, prompt, lengths, threads, rounds, run int
}

func main() {
	var b bench
	flag.StringVar(&b.python, "python", "python3", "Python interpreter that has onnxruntime")
	flag.IntVar(&b.tokens, "tokens", 64, "tokens to decode")
	flag.IntVar(&b.prompt, "prompt", 8, "tokens of the prompt")
	flag.IntVar(&b.lengths, "lengths", 20, "lengths of an encoder")
	flag.IntVar(&b.threads, "threads", 1, "threads")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds")
	flag.IntVar(&b.run, "runs", 10, "runs of a process")
	inner := flag.String("worker", "", "internal: run this model")
	flag.Parse()
	var err error
	if *inner != "" {
		err = b.work(context.Background(), *inner)
	} else {
		err = b.measure(flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func (b *bench) measure(models []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "carve-generate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "worker.py")
	if err := os.WriteFile(script, worker, 0o600); err != nil {
		return err
	}
	args := []string{strconv.Itoa(b.threads), strconv.Itoa(b.tokens), strconv.Itoa(b.prompt), strconv.Itoa(b.run), list(b.sentences())}
	fmt.Println("| model | carve ms | ONNX Runtime ms | ratio | first: carve ms | ONNX Runtime ms | ratio | same tokens |\n|---|---:|---:|---:|---:|---:|---:|---|")
	for _, m := range models {
		var own, other sample
		for range b.rounds {
			if err := least(&own, exec.Command(self, slices.Concat(os.Args[1:len(os.Args)-len(models)], []string{"-worker", m})...)); err != nil {
				return err
			}
			if err := least(&other, exec.Command(b.python, slices.Concat([]string{script, m}, args)...)); err != nil {
				return err
			}
		}
		fmt.Printf("| %s | %.3f | %.3f | %.2f | %.3f | %.3f | %.2f | %v |\n", strings.TrimSuffix(filepath.Base(m), ".onnx"), own.Steady, other.Steady,
			own.Steady/other.Steady, own.First, other.First, own.First/other.First, slices.Equal(own.Tokens, other.Tokens))
	}
	return nil
}

// sentences returns the lengths of an encoder.
func (b *bench) sentences() []int {
	out := make([]int, b.lengths)
	for i := range out {
		out[i] = 8 + 5*i
	}
	return out
}

func list(x []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(x), " ", ","), "[]") }

// least runs a process and takes its times where they are less.
func least(s *sample, c *exec.Cmd) error {
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return fmt.Errorf("%v: %w", c.Args, err)
	}
	var x sample
	if err := json.Unmarshal(out, &x); err != nil {
		return err
	}
	if s.Version == "" {
		*s = x
	}
	s.Steady, s.First = min(s.Steady, x.Steady), min(s.First, x.First)
	return nil
}
