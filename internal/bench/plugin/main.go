// Command plugin measures what the interface of plugins costs, in one process and by turns, and prints the least times of many
// rounds as Markdown tables: a kernel of two inputs called through the interface and from Go, and models on the test
// accelerator, which runs carve's own kernels behind the interface, beside cpu.
//
//	go run ./internal/bench/plugin [-models resnet50,mobilenet_v2,bert_tiny] [-rounds 30]
//
// It needs Linux, gcc and the zoo (see internal/zootest), and builds the libraries itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/backend/plugin"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/paired"
	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/internal/zootest"
)

func main() {
	plugin.HostMain()
	models := flag.String("models", "bert_tiny,mobilenet_v2,resnet50", "models of the zoo, comma-separated")
	rounds := flag.Int("rounds", 30, "rounds of every model")
	flag.Parse()
	if err := measure(strings.Split(*models, ","), *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}

func measure(models []string, rounds int) error {
	dir, err := os.MkdirTemp("", "carve-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	add, acc := filepath.Join(dir, "add.so"), filepath.Join(dir, "accelerator.so")
	gcc := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-I", "backend/plugin", "-o", add, "backend/plugin/testdata/add.c")
	gotool := exec.Command("go", "build", "-buildmode=c-shared", "-o", acc, "./backend/plugin/testdata/accelerator")
	gotool.Env = append(os.Environ(), "CGO_ENABLED=1")
	for _, cmd := range []*exec.Cmd{gcc, gotool} {
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", cmd.Path, err)
		}
	}
	if err := calls(add); err != nil {
		return err
	}
	if err := processCalls(add); err != nil {
		return err
	}
	if err := zoo(acc, models, rounds); err != nil {
		return err
	}
	return processZoo(acc, models, rounds)
}

// turns returns the nanoseconds of a call of each function by round, in which each is called so many times.
func turns(rounds, times int, fns ...func() error) ([][]float64, error) {
	out := make([][]float64, len(fns))
	for r := range rounds {
		for k := range fns {
			i := (k + r) % len(fns)
			begin := time.Now()
			for range times {
				if err := fns[i](); err != nil {
					return nil, err
				}
			}
			out[i] = append(out[i], float64(time.Since(begin).Nanoseconds())/float64(times))
		}
	}
	return out, nil
}

// least returns the least time of a call of each function, measured by turns.
func least(rounds, times int, fns ...func() error) ([]time.Duration, error) {
	list, err := turns(rounds, times, fns...)
	out := make([]time.Duration, len(list))
	for i := range list {
		out[i] = time.Duration(slices.Min(list[i]))
	}
	return out, err
}

// middle is the median of times in nanoseconds.
func middle(times []float64) time.Duration { return time.Duration(paired.Median(slices.Clone(times))) }

// calls prints what a call of a kernel costs from Go and through the interface.
func calls(path string) error {
	fmt.Println("| elements | kernel called from Go | enqueue | more | allocations | enqueue, ctx can end | allocations |")
	fmt.Println("|---|---|---|---|---|---|---|")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, n := range []int{16, 1024, 16384} {
		x, err := newAdd(path, n)
		if err != nil {
			return err
		}
		through := func() error { return x.enqueue(context.Background()) }
		ending := func() error { return x.enqueue(ctx) }
		t, err := least(300, 1000, x.direct, through, ending)
		if err != nil {
			return err
		}
		fmt.Printf("| %d | %v | %v | %v | %v | %v | %v |\n", n, t[0], t[1], t[1]-t[0], allocations(1000, through), t[2], allocations(1000, ending))
		if err := x.exe.Close(); err != nil {
			return err
		}
	}
	return nil
}

// allocations returns how many there are in a call, on average over so many.
func allocations(times int, fn func() error) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		_ = fn() // it has been measured before
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(times)
}

// addition is the kernel of testdata/add.c, prepared for both ways.
type addition struct {
	exe   backend.Executable
	in    backend.Instance
	args  *backend.RunArgs
	frame *dl.Frame
	block *offheap.Block // that the frame lies in
}

func newAdd(path string, n int) (*addition, error) {
	l, err := plugin.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := l.Open("add", nil)
	if err != nil {
		return nil, err
	}
	g, err := graph.Parse(fmt.Sprintf("graph {\n  opset 17\n  input %%a: f32[%d]\n  input %%b: f32[%d]\n  %%y = Add(%%a, %%b)\n  output %%y\n}\n", n, n))
	if err == nil {
		err = graph.InferGraph(g)
	}
	if err != nil {
		return nil, err
	}
	x := &addition{args: &backend.RunArgs{}}
	ctx := context.Background()
	if x.exe, err = b.Compile(ctx, g, backend.CompileOptions{Threads: 1}); err != nil {
		return nil, err
	}
	if x.in, err = x.exe.Specialize(ctx, nil); err != nil {
		return nil, err
	}
	if x.args.Stream, err = device.Host.NewStream(); err != nil {
		return nil, err
	}
	tensors := make([]*tensor.Tensor, 3)
	for i := range tensors {
		if tensors[i], err = tensor.New(tensor.Float32, n); err != nil {
			return nil, err
		}
	}
	x.args.Inputs, x.args.Outputs = tensors[:2], tensors[2:]
	lib, err := dl.Open(path)
	if err != nil {
		return nil, err
	}
	kernel, err := lib.Symbol("add_kernel")
	if err != nil {
		return nil, err
	}
	block, err := offheap.Alloc(int(unsafe.Sizeof(dl.Frame{})), 0)
	if err != nil {
		return nil, err
	}
	x.block, x.frame = block, (*dl.Frame)(unsafe.Pointer(unsafe.SliceData(block.Bytes())))
	at := func(t *tensor.Tensor) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(t.Data))) }
	*x.frame = dl.Frame{Fn: kernel, Args: [dl.FrameArgs]uintptr{at(tensors[0]), at(tensors[1]), at(tensors[2]), uintptr(n)}}
	return x, x.enqueue(ctx)
}

// direct calls the kernel from Go.
func (x *addition) direct() error {
	dl.Invoke(x.frame)
	return nil
}

// enqueue calls it through the interface.
func (x *addition) enqueue(ctx context.Context) error {
	e, err := x.in.Enqueue(ctx, x.args)
	if err == nil && e != nil {
		err = errors.New("there is an event")
	}
	return err
}

// zoo prints how long models take on cpu, and on the accelerator with queues and without, at one thread.
func zoo(path string, models []string, rounds int) error {
	fmt.Println("\n| model | cpu | accelerator, queues | ratio | accelerator, synchronous | ratio | allocations |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, name := range models {
		err := model(path, name, rounds)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: %w", name, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func model(path, name string, rounds int) error {
	t, allocated, err := timed(path, name, rounds, []backend.Config{{Name: "cpu"}, {Name: "accelerator"},
		{Name: "accelerator", Options: map[string]string{"synchronous": "true"}}})
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %v | %v | %v | %v | %v | %v |\n", name, middle(t[0]), middle(t[1]), paired.Of(t[1], t[0]), middle(t[2]), paired.Of(t[2], t[0]), allocated[1])
	return nil
}

// timed returns the nanoseconds of a run of a model of the zoo by round, for backends, each with cpu and the oracle behind it, at
// one thread and by turns, and the allocations of a run.
func timed(path, name string, rounds int, backends []backend.Config) (t [][]float64, allocated []float64, err error) {
	ctx := context.Background()
	ref, err := zootest.ReadReference(name)
	if err != nil {
		return nil, nil, err
	}
	feeds, err := ref.Feeds()
	if err != nil {
		return nil, nil, err
	}
	file, err := zootest.Materialize(name)
	if err != nil {
		return nil, nil, err
	}
	m, err := carve.Open(ctx, file)
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	var runs []func() error
	for _, c := range backends {
		list := []backend.Config{c, {Name: "cpu"}, {Name: "reference"}}
		if c.Name == "cpu" {
			list = list[1:]
		}
		p, err := carve.Compile(ctx, m, &carve.Options{Backends: list, Plugins: []string{path}, Placement: carve.Priority, Threads: 1, Strict: true})
		if err != nil {
			return nil, nil, err
		}
		defer p.Close()
		run, err := runner(ctx, p, feeds)
		if err != nil {
			return nil, nil, err
		}
		runs = append(runs, run)
	}
	warm, err := least(3, 2, runs...) // caches, clocks, pages
	if err != nil {
		return nil, nil, err
	}
	times := max(1, int(20*time.Millisecond/warm[0]))
	if t, err = turns(rounds, times, runs...); err != nil {
		return nil, nil, err
	}
	for _, run := range runs {
		allocated = append(allocated, allocations(10, run))
	}
	return t, allocated, nil
}

// runner returns a run of a program into outputs of its own.
func runner(ctx context.Context, p *carve.Program, feeds map[string]tensor.Value) (func() error, error) {
	res, err := p.Run(ctx, feeds)
	if err != nil {
		return nil, err
	}
	var in, out []*tensor.Tensor
	for _, port := range p.Inputs() {
		in = append(in, feeds[port.Name].(*tensor.Tensor))
	}
	for _, port := range p.Outputs() {
		r := res[port.Name].(*tensor.Tensor)
		t, err := tensor.New(r.DType, r.Shape...)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return func() error { return p.RunInto(ctx, in, out) }, nil
}
