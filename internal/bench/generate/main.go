// Command generate measures decoders, and encoders of open length, beside ONNX Runtime: for each model there are rounds in which a
// fresh process of either side, one after the other, runs it. It prints medians over the rounds, and the medians of the rounds' ratios
// with their 95 % intervals, as a Markdown table.
//
//	go run ./internal/bench/generate -python PYTHON [-tokens 64] [-prompt 8] [-lengths 20] [-threads 1] [-backend mkl,cpu] [-rounds 15] [-runs 3] [-head 64 [-growing]] [-bits 4 [-block 32] [-accuracy 4] [-asymmetric]] MODEL.onnx...
//
// A model with inputs whose names begin with "past" is a decoder: both sides decode greedily, carve with the caches in one place
// (Options.InPlace), ONNX Runtime with OrtValues bound to inputs and outputs; times are those of a token behind the prompt, and of
// the prompt. `go run ./examples/generate -write FILE` makes one. Any other model is an encoder of token numbers [batch, length]: it is run at so many
// lengths in a row, from 8 on, each longer than the one before by 5; times are those of later passes over all lengths, and of the first.
//
// With -head the caches have a head's size that their inputs do not tell, and are as long as they will be from the beginning, as ONNX Runtime's
// model builder makes decoders of GroupQueryAttention; with -growing too they grow, as in its decoders of other attention.
//
// With -bits, ONNX Runtime's quantiser first makes MatMulNBits of products with constant matrices.
//
// PYTHON is an interpreter that has onnxruntime and numpy, and for -bits onnx_ir.
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

	"github.com/carve-dev/carve/internal/bench/paired"
)

//go:embed worker.py
var worker []byte

// sample is what a process measured.
type sample struct {
	Version string  `json:"version"`
	Steady  float64 `json:"steady_ms"` // of a token, or of a pass: the median of the process's runs
	First   float64 `json:"first_ms"`  // of the prompt, the median of the runs, or of the first pass
	Tokens  []int   `json:"tokens"`
}

type bench struct {
	python, backend                               string
	tokens, prompt, lengths, threads, rounds, run int
	head                                          int
	bits, block, accuracy                         int
	asymmetric, growing                           bool
}

func main() {
	var b bench
	flag.StringVar(&b.python, "python", "python3", "Python interpreter that has onnxruntime")
	flag.StringVar(&b.backend, "backend", "cpu", "backends of carve, comma-separated; of several, each node is on the one that takes least by cost")
	flag.IntVar(&b.tokens, "tokens", 64, "tokens to decode")
	flag.IntVar(&b.prompt, "prompt", 8, "tokens of the prompt")
	flag.IntVar(&b.lengths, "lengths", 20, "lengths of an encoder")
	flag.IntVar(&b.threads, "threads", 1, "threads")
	flag.IntVar(&b.rounds, "rounds", 15, "rounds")
	flag.IntVar(&b.run, "runs", 3, "runs of a process")
	flag.IntVar(&b.head, "head", 0, "size of a head, where the inputs of the caches do not tell it: such caches are of all rows there will be")
	flag.IntVar(&b.bits, "bits", 0, "bits of the weights of products, 4 or 8; 0 leaves them as they are")
	flag.IntVar(&b.block, "block", 32, "with -bits: weights that share a scale")
	flag.IntVar(&b.accuracy, "accuracy", 0, "with -bits: accuracy_level of the products, 4 for activations of 8 bits")
	flag.BoolVar(&b.asymmetric, "asymmetric", false, "with -bits: blocks have zero points")
	flag.BoolVar(&b.growing, "growing", false, "with -head: caches begin empty and grow")
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
	args := []string{strconv.Itoa(b.threads), strconv.Itoa(b.tokens), strconv.Itoa(b.prompt), strconv.Itoa(b.run), strconv.Itoa(b.head), strconv.FormatBool(b.growing), list(b.sentences())}
	fmt.Println("| model | carve ms | ONNX Runtime ms | ratio | first: carve ms | ONNX Runtime ms | ratio | same tokens |\n|---|---:|---:|---:|---:|---:|---:|---|")
	for _, m := range models {
		name := strings.TrimSuffix(filepath.Base(m), ".onnx")
		if b.bits != 0 {
			if m, err = b.quantised(script, m, dir); err != nil {
				return err
			}
		}
		var steady, first [2][]float64
		var tokens [2][]int
		for range b.rounds {
			for i, c := range []*exec.Cmd{
				exec.Command(self, slices.Concat(os.Args[1:len(os.Args)-len(models)], []string{"-worker", m})...),
				exec.Command(b.python, slices.Concat([]string{script, m}, args)...),
			} {
				s, err := run(c)
				if err != nil {
					return err
				}
				steady[i], first[i], tokens[i] = append(steady[i], s.Steady), append(first[i], s.First), s.Tokens
			}
		}
		fmt.Printf("| %s |%s%s %v |\n", name, columns(steady), columns(first), slices.Equal(tokens[0], tokens[1]))
	}
	return nil
}

// columns returns the medians of both sides, and their ratio.
func columns(ms [2][]float64) string {
	ratio := paired.Of(ms[0], ms[1])
	return fmt.Sprintf(" %.3f | %.3f | %v |", paired.Median(ms[0]), paired.Median(ms[1]), ratio)
}

// quantised writes a model with weights of fewer bits, and returns its path.
func (b *bench) quantised(script, path, dir string) (string, error) {
	out := filepath.Join(dir, filepath.Base(path))
	c := exec.Command(b.python, script, "quantise", path, out, strconv.Itoa(b.bits), strconv.Itoa(b.block), strconv.Itoa(b.accuracy), strconv.FormatBool(b.asymmetric))
	if text, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", path, err, text)
	}
	return out, nil
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

// run runs a process and reads its times.
func run(c *exec.Cmd) (s sample, err error) {
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return s, fmt.Errorf("%v: %w", c.Args, err)
	}
	return s, json.Unmarshal(out, &s)
}
