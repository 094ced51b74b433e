// Command gpu measures carve on graphics processors: what the device does at most, kernels as shares of that, with cuBLASLt and cuDNN beside
// them, and whole networks, with PyTorch and XLA beside them by turns. It is one file without cgo, which needs a C library of the system's to
// open the driver; NVRTC, cuBLASLt and cuDNN are used where they are found, the rivals where a Python that has them is named.
//
//	CGO_ENABLED=0 go build ./internal/bench/gpu
//	./gpu -python PYTHON -zoo FOLDER -time 9m -json gpu.json
//
// FOLDER has the zoo's models without their weights, which are made. Work is ordered by value, so that what is left when time is up is what matters
// least. Each measurement is done by a process of its own kind: what fails, ends or hangs has a row that says so, and the rest goes on. All results
// are compared with float64, kernels at elements drawn at random, networks in their first and last item. Times of kernels are the device's, of graphs
// that are replayed; times of networks are those of a run and the wait for its end, with inputs and results on the device. Rivals get the same file, with
// layer normalisation, GELU and attention as their own functions, and weights and inputs in the types of the precision: in f16 and bf16 everything
// that they compute is in these, while carve rounds what it multiplies.
//
// Without a graphics processor it runs on PoCL (-backends opencl), and over the driver that the specs build (-driver, -nvrtc, -cublas, -cudnn), at small sizes
// (-sizes small). For compute-sanitizer, kernels without networks:
//
//	compute-sanitizer --target-processes all --error-exitcode 9 ./gpu -sizes small -parts ceilings,products,rows,convolutions,attention -time 5m
//	compute-sanitizer --target-processes all --error-exitcode 9 ./gpu -parts models -models resnet50,bert_base -zoo FOLDER -batches 1 -turns 1 -turn 0
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/cuda"
	_ "github.com/carve-dev/carve/backend/opencl"
	_ "github.com/carve-dev/carve/backend/reference"
)

// What lists may have, and have by default, the most valuable first.
const (
	allBackends   = "cuda,opencl"
	allPrecisions = "f16,tf32,f32,bf16"
	allParts      = "ceilings,products,rows,convolutions,attention,models,rivals"
)

func main() {
	var c config
	flag.StringVar(&c.Driver, "driver", "", "path of the driver; the system's by default")
	flag.StringVar(&c.NVRTC, "nvrtc", "", "path of NVRTC; searched for by default, also among PYTHON's packages, as the next two are")
	flag.StringVar(&c.CUBLAS, "cublas", "", "path of cuBLASLt")
	flag.StringVar(&c.CUDNN, "cudnn", "", "path of cuDNN")
	flag.StringVar(&c.python, "python", "", "Python interpreter that has torch or jax, onnx and numpy; no rivals without")
	flag.StringVar(&c.rivalDevice, "rival-device", "cuda", "where rivals run: cuda or cpu")
	flag.StringVar(&c.compileMode, "compile-mode", "max-autotune", "mode of torch.compile")
	flag.StringVar(&c.zoo, "zoo", "", "folder of the zoo's models; ../shared/models beside the repository by default")
	models := flag.String("models", "resnet50,bert_base,vit_b_16,unet", "networks, comma-separated: names of the zoo, or files that end in .onnx")
	backends := flag.String("backends", allBackends, "carve's backends, comma-separated")
	precisions := flag.String("precisions", allPrecisions, "precisions, the most valuable first")
	batches := flag.String("batches", "32,1,128", "batches, the most valuable first")
	parts := flag.String("parts", allParts, "what is measured")
	flag.StringVar(&c.sizes, "sizes", "full", "of kernels: full or small")
	flag.IntVar(&c.tiles, "tiles", 1, "tiles to measure for each product, the best by the model first")
	flag.Float64Var(&c.seconds, "seconds", 0.05, "of device time for a measurement of a kernel, about")
	flag.IntVar(&c.turnCount, "turns", 15, "turns of sides on a network")
	flag.Float64Var(&c.turnSeconds, "turn", 0.1, "seconds of a turn, at least three runs")
	flag.DurationVar(&c.patience, "patience", 3*time.Minute, "for one answer, such as that a network is compiled")
	budget := flag.Duration("time", 9*time.Minute, "for everything")
	flag.StringVar(&c.keep, "keep", "", "folder of inputs, float64 results and what rivals compile, for the next time")
	flag.StringVar(&c.out, "json", "", "file for all figures")
	serving := flag.String("serve", "", "internal: settings of a process that measures")
	flag.Parse()
	var err error
	if *serving != "" {
		err = serve(*serving, os.Stdin)
	} else {
		c.models = split(*models)
		c.backends, err = among("backends", *backends, allBackends)
		if err == nil {
			c.precisions, err = among("precisions", *precisions, allPrecisions)
		}
		if err == nil {
			c.parts, err = among("parts", *parts, allParts)
		}
		if err == nil {
			c.batches, err = numbers(*batches)
		}
		if err == nil {
			err = measure(c, *budget)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpu:", err)
		os.Exit(1)
	}
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// among returns a flag's list, of which all has every name.
func among(flag, list, all string) ([]string, error) {
	names := split(list)
	for _, s := range names {
		if !slices.Contains(split(all), s) {
			return nil, fmt.Errorf("-%s: %q is none of %s", flag, s, all)
		}
	}
	return names, nil
}

func numbers(list string) (out []int, err error) {
	for _, s := range split(list) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-batches: %q is no number from 1 on", s)
		}
		out = append(out, n)
	}
	return out, nil
}

// measure does what there is time for, and prints what it found.
func measure(c config, budget time.Duration) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	dir, err := os.MkdirTemp("", "carve-gpu")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c.search(c.python)
	if c.keep != "" {
		if c.keep, err = filepath.Abs(c.keep); err != nil {
			return err
		}
	}
	r, err := newRun(c, dir)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.facts(ctx); err != nil {
		r.add(&row{Part: "device", Fault: faultOf(err)})
	}
	r.clocks("before")
	r.work(ctx, r.agenda(ctx))
	r.clocks("after")
	return r.finish()
}

// finish prints limits, which come last because they matter most, and writes the report.
func (r *run) finish() error {
	if err := r.write(); err != nil {
		return err
	}
	if n := len(r.report.Left); n > 0 {
		r.print(fmt.Sprintf("\nno time was left for %d: %.1500s", n, strings.Join(r.report.Left, "; ")))
	}
	r.print("")
	for _, name := range sortedKeys(r.report.Ceilings) {
		r.print(fmt.Sprintf("ceiling %-5s %.2f T/s", name, r.report.Ceilings[name]/1e12))
	}
	for _, j := range r.report.Limits {
		r.print(fmt.Sprintf("%-13s %s (%d of %d)", j.Verdict, j.What, j.Met, j.Rows))
		if j.Worst != "" {
			r.print("              least good: " + j.Worst)
		}
		for _, b := range j.Broken[:min(len(j.Broken), 12)] {
			r.print(fmt.Sprintf("              %.200s", b))
		}
		if n := len(j.Broken) - 12; n > 0 {
			r.print(fmt.Sprintf("              and %d more", n))
		}
	}
	return nil
}
