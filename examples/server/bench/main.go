// Command bench measures what a server adds to a bare loop over the Program, all in one run on the same cores and by turns: the
// Program alone, a loop that only computes, a loopback round trip of as many bytes, an echo by grpc-go of the same messages, HTTP in binary
// and gRPC, of one caller and of many, and at 80 % of what each has reached. Limits are printed beside what they are compared with.
//
//	go run -C examples/server ./bench
//	go run -C examples/server ./bench --large /path/to/mobilenet_v2.onnx
//	go run -C examples/server ./bench --apart
//	go run -C examples/server ./bench --overload 30m
//
// With --apart it asks a server in a process of its own for 80 % of what that can do: see README.md.
// With --overload it asks a server, in a process of its own, for half as much again as that can do: its memory over time, how
// soon requests are turned down, and whether each answer is that to its request.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing/fstest"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/examples/server/repository"
)

func main() {
	runtime.MemProfileRate = 0 // as the server has it
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the command's flags.
type settings struct {
	small    string
	large    string
	callers  int
	length   time.Duration
	overload time.Duration
	threads  int
	only     string
	ways     []string
	rounds   int
	profile  string
	apart    bool
	child    bool
}

func run(ctx context.Context, out io.Writer, args []string) error {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&s.small, "small", "../quickstart/digits.onnx", "`file` of a model with inputs below 4 kB, whose rows can be batched")
	f.StringVar(&s.large, "large", "", "`file` of a model with large inputs, such as mobilenet_v2; by default one that does nothing but take 602,112 bytes")
	f.IntVar(&s.callers, "callers", 16, "callers at a time, for throughput")
	f.IntVar(&s.threads, "threads", 1, "most threads of one run")
	f.DurationVar(&s.length, "time", 2*time.Second, "how long to measure each number")
	f.StringVar(&s.only, "only", "", "measure only subjects with `text` in their name: small, batched, large")
	f.StringVar(&s.profile, "profile", "", "write a profile of the processor's time to a `file`: of one way with --way, of the server with --overload")
	f.Func("way", "measure only the way of this `name`, and the bare loop; several are compared with the first", func(name string) error {
		s.ways = append(s.ways, name)
		return nil
	})
	f.IntVar(&s.rounds, "rounds", 15, "how often each way has its turn within -time")
	f.DurationVar(&s.overload, "overload", 0, "ask for 150 % of what a server can do for so long, and nothing else")
	f.BoolVar(&s.apart, "apart", false, "measure latencies at 80 % of what a server in a process of its own can do, and nothing else")
	f.BoolVar(&s.child, "serve", false, "be the server of --overload or --apart, until standard input ends")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case s.rounds < 1:
		return errors.New("-rounds is less than 1")
	case s.overload > 0:
		return overload(ctx, out, &s)
	}
	if s.profile != "" {
		to, err := os.Create(s.profile)
		if err != nil {
			return err
		}
		defer to.Close()
		if err := pprof.StartCPUProfile(to); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	switch {
	case s.child:
		return serveChild(ctx, out, os.Stdin, &s)
	case s.apart:
		return apart(ctx, out, &s)
	}
	for _, sub := range subjects(&s) {
		if !strings.Contains(sub.name, s.only) {
			continue
		}
		if err := sub.measure(ctx, out, &s); err != nil {
			return fmt.Errorf("%s: %w", sub.name, err)
		}
	}
	return nil
}

// repository returns the settings of a repository as the server has them.
func (s *settings) repository() repository.Options {
	p := listen.PrepareProcess()
	return repository.Options{Runs: p.Runs, Crowded: p.Crowded, Compile: carve.Options{Threads: s.threads}}
}

// subject is a model as it is served, and what is asked of it.
type subject struct {
	name    string
	file    string // "" for a model that takes 602,112 bytes
	batch   int    // rows of a run; 0 for no Batcher
	judges  func(*table) []verdict
	ceiling bool // what a server of no cost would reach is measured, too
}

func subjects(s *settings) []subject {
	return []subject{
		{"small", s.small, 0, (*table).small, false},
		{"batched", s.small, 16, (*table).batched, true},
		{"large", s.large, 0, (*table).large, s.large != ""}, // else there is no work to compare with
	}
}

// open returns a repository of the subject's model, and its name there.
func (x *subject) open(ctx context.Context, s *settings) (*repository.Repository, string, error) {
	o := s.repository()
	o.Batch = x.batch
	if x.file == "" {
		r, err := taker(ctx, 602112/4, o)
		return r, "first", err
	}
	// A folder with this model alone: what lies beside it is not to be loaded.
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	name := strings.TrimSuffix(filepath.Base(x.file), filepath.Ext(x.file))
	if err := place(x.file, filepath.Join(dir, name, "1")); err != nil {
		return nil, "", err
	}
	r, err := repository.OpenDir(ctx, dir, o)
	return r, name, err
}

// place copies a model into a folder as model.onnx, with the files beside it that have its name: its weights.
func place(file, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	stem := strings.TrimSuffix(file, filepath.Ext(file))
	found, err := filepath.Glob(stem + ".*")
	if err != nil {
		return err
	}
	for _, at := range append(found, file) {
		b, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		name := filepath.Base(at)
		if at == file {
			name = "model.onnx"
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// taker returns a repository of the model first, whose output is the first of so many numbers.
func taker(ctx context.Context, n int, o repository.Options) (*repository.Repository, error) {
	b, err := modeltest.Encode(fmt.Sprintf("graph \"first\" {\n  opset 17\n  input %%x: f32[%d]\n  const %%k = i64[1]{0}\n  %%y: f32[1] = Gather(%%x, %%k)\n  output %%y\n}", n))
	if err != nil {
		return nil, err
	}
	return repository.Open(ctx, fstest.MapFS{"first.onnx": {Data: b, ModTime: time.Now()}}, o)
}
