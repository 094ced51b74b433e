// Command operator compares an operator that a plugin brings with a built-in one that does the same: runs of Neg, whose kernel
// is carve's, and of an operator whose kernel is C, by turns in one process on one thread, for some sizes. It prints the least
// time of each, their ratio, and the allocations of a run.
//
//	go run ./internal/bench/plugin/operator [-rounds 300]
//
// Run it in the repository; it needs gcc. Exit code 1 where the plugin's takes more than 1.05 times as long at a size whose
// built-in kernel takes 5 to 20 µs, or where a run allocates.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/carve-dev/carve"
	_ "github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// most is how much longer the plugin's operator may take.
const most = 1.05

func main() {
	rounds := flag.Int("rounds", 300, "turns of each operator for each size")
	flag.Parse()
	ok, err := compare(context.Background(), *rounds)
	if err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func compare(ctx context.Context, rounds int) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "carve-bench-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	library := filepath.Join(dir, "negate.so")
	text, err := exec.CommandContext(ctx, "gcc", "-O3", "-march=native", "-shared", "-fPIC", "-I", "backend/plugin", "-o", library,
		"internal/bench/plugin/operator/testdata/negate.c").CombinedOutput()
	if err != nil {
		return false, fmt.Errorf("gcc: %w\n%s", err, text)
	}
	fmt.Printf("%9s  %11s  %11s  %6s  %s\n", "elements", "built-in", "plugin's", "ratio", "allocations")
	ok = true
	for _, n := range []int{1, 1 << 10, 1 << 14, 1 << 16, 1 << 17} {
		own, err := load(ctx, "Neg(%x)", n, library)
		if err != nil {
			return false, err
		}
		brought, err := load(ctx, "bench::Negate(%x)", n, library)
		if err != nil {
			return false, err
		}
		a, b, err := turns(ctx, own, brought, rounds)
		if err != nil {
			return false, err
		}
		allocations := testing.AllocsPerRun(100, func() { err = brought.run(ctx) })
		if err != nil {
			return false, err
		}
		ratio := float64(b) / float64(a)
		fmt.Printf("%9d  %11v  %11v  %6.3f  %g\n", n, a, b, ratio, allocations)
		ok = ok && allocations == 0 && (a < 5*time.Microsecond || a > 20*time.Microsecond || ratio <= most)
		if err := own.close(); err != nil {
			return false, err
		}
		if err := brought.close(); err != nil {
			return false, err
		}
	}
	return ok, nil
}

// turns returns the least time of a run of each of two programs, which take turns.
func turns(ctx context.Context, x, y *program, rounds int) (a, b time.Duration, err error) {
	a, b = time.Hour, time.Hour
	for range rounds {
		for _, p := range []struct {
			*program
			least *time.Duration
		}{{x, &a}, {y, &b}} {
			const runs = 20
			start := time.Now()
			for range runs {
				if err := p.run(ctx); err != nil {
					return 0, 0, err
				}
			}
			*p.least = min(*p.least, time.Since(start)/runs)
		}
	}
	return a, b, nil
}

// program is a model of one operator, ready to run.
type program struct {
	model   *carve.Model
	program *carve.Program
	session *carve.Session
	in, out []*tensor.Tensor
}

func load(ctx context.Context, call string, n int, library string) (*program, error) {
	g, err := graph.Parse(fmt.Sprintf("graph {\n  opset 17\n  opset \"bench\" 1\n  input %%x: f32[%d]\n  %%y = %s\n  output %%y\n}\n", n, call))
	if err != nil {
		return nil, err
	}
	p := &program{model: carve.FromGraph(g)}
	if p.program, err = carve.Compile(ctx, p.model, &carve.Options{Plugins: []string{library}, Threads: 1}); err != nil {
		return nil, err
	}
	if p.session, err = p.program.NewSession(); err != nil {
		return nil, err
	}
	for _, list := range []*[]*tensor.Tensor{&p.in, &p.out} {
		t, err := tensor.New(tensor.Float32, n)
		if err != nil {
			return nil, err
		}
		*list = []*tensor.Tensor{t}
	}
	return p, p.run(ctx)
}

func (p *program) run(ctx context.Context) error { return p.session.RunInto(ctx, p.in, p.out) }

func (p *program) close() error {
	err := p.session.Close()
	if e := p.program.Close(); err == nil {
		err = e
	}
	if e := p.model.Close(); err == nil {
		err = e
	}
	return err
}
