// Command rivals compares the server with ONNX Runtime behind Python's MLServer and KServe's server, on the same machine and by turns:
// time from the start of the process to the first answer, resident memory, and requests a second, p50, p99 and processor time of one
// caller and of several, over HTTP in JSON, which all of them speak, and over gRPC.
//
//	go run -C examples/server ./bench/rivals -venv /path/to/folder
//
// The folder has a Python environment for each of the two, made there where they are not yet (some 600 MB).
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

//go:embed mlserver_model.py
var mlserverModel []byte

//go:embed kserve_model.py
var kserveModel []byte

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	f := flag.NewFlagSet("rivals", flag.ContinueOnError)
	venv := f.String("venv", "", "`folder` of Python environments")
	model := f.String("model", "../quickstart/digits.onnx", "`file` of a model with one float32 input")
	input := f.String("input", "image", "`name` of its input")
	shape := f.String("shape", "1,1,8,8", "its `dims`")
	callers := f.Int("callers", 16, "callers at a time, for throughput")
	length := f.Duration("time", 5*time.Second, "how long to measure each server in each way")
	starts := f.Int("starts", 3, "how often to start each server; the median counts")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *venv == "" {
		return errors.New("-venv is needed: a folder for Python environments")
	}
	dir, err := os.MkdirTemp("", "rivals")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file, err := filepath.Abs(*model)
	if err != nil {
		return err
	}
	q, err := newQuestion(*input, *shape)
	if err != nil {
		return err
	}
	servers, err := prepare(ctx, dir, *venv, file)
	if err != nil {
		return err
	}
	for _, s := range servers {
		defer s.stop()
		for range *starts {
			s.stop()
			if err := s.start(ctx, q); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	if err := agree(servers, q); err != nil {
		return err
	}
	ways := []way{{"HTTP, JSON", 1, overHTTP}, {"HTTP, JSON", *callers, overHTTP}, {"gRPC", 1, overGRPC}, {"gRPC", *callers, overGRPC}}
	results, err := measure(servers, ways, q, *length)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-32s %14s %14s\n", "", "start", "resident")
	for _, s := range servers {
		slices.Sort(s.starts)
		fmt.Fprintf(out, "%-32s %14v %11.0f MB\n", s.name, s.starts[len(s.starts)/2].Round(time.Millisecond), float64(s.resident())/1e6)
	}
	for i, w := range ways {
		fmt.Fprintf(out, "\n%-32s %14s %14s %14s %18s\n", fmt.Sprintf("%s, %d callers", w.name, w.callers), "requests/s", "p50", "p99", "processor/request")
		for k, s := range servers {
			r := results[i][k]
			fmt.Fprintf(out, "%-32s %14.0f %14v %14v %18v\n", s.name, r.rate(), r.percentile(50), r.percentile(99), r.processor())
		}
	}
	return nil
}
