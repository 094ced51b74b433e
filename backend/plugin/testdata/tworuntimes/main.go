// Command tworuntimes opens a plugin that has a Go runtime of its own, and shows that the program's own still does what it
// needs signals for: goroutines that do not stop by themselves are interrupted, faults become panics, the collector ends.
//
//	CGO_ENABLED=0 go run ./backend/plugin/testdata/tworuntimes accelerator.so
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

func main() {
	if err := try(os.Args[1]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ok")
}

func try(path string) error {
	g, err := graph.Parse("graph \"relu\" {\n  opset 17\n  input %x: f32[N,64]\n  %e = Exp(%x)\n  %y = Relu(%e)\n  output %y\n}\n")
	if err != nil {
		return err
	}
	m := carve.FromGraph(g)
	defer m.Close()
	p, err := carve.Compile(context.Background(), m, &carve.Options{Backends: []backend.Config{{Name: "accelerator"}}, Plugins: []string{path}, Strict: true})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := runs(p); err != nil {
		return err
	}
	if err := interrupted(); err != nil {
		return err
	}
	return faults(p)
}

// runs has several goroutines run the plugin while both collectors are at work.
func runs(p *carve.Program) error {
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for k := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			x := tensor.From(make([]float32, 64*(k+1)), k+1, 64)
			for range 100 {
				out, err := p.Run(context.Background(), map[string]tensor.Value{"x": x})
				if err == nil && tensor.Of[float32](out["y"].(*tensor.Tensor))[0] != 1 {
					err = fmt.Errorf("a result is %v", out["y"])
				}
				if err != nil {
					errs <- err
					return
				}
				if k == 0 {
					runtime.GC()
				}
			}
		}()
	}
	wg.Wait()
	close(errs)
	return <-errs
}

var spin atomic.Bool

// interrupted collects garbage while a goroutine runs a loop without calls: the collector has to stop it by a signal.
func interrupted() error {
	spin.Store(true)
	go func() {
		n := 0
		for spin.Load() { // an atomic load is no place to stop at
			n++
		}
	}()
	over := make(chan bool)
	go func() {
		for range 5 {
			runtime.GC()
		}
		close(over)
	}()
	defer spin.Store(false)
	select {
	case <-over:
		return nil
	case <-time.After(10 * time.Second):
		return fmt.Errorf("the collector waits for a goroutine that no signal reaches")
	}
}

// faults has nil dereferenced, on goroutines that call the plugin between.
func faults(p *carve.Program) error {
	for range 20 {
		if _, err := p.Run(context.Background(), map[string]tensor.Value{"x": tensor.From(make([]float32, 64), 1, 64)}); err != nil {
			return err
		}
		if !recovered() {
			return fmt.Errorf("a fault is no panic")
		}
	}
	return nil
}

func recovered() (ok bool) {
	defer func() { ok = recover() != nil }()
	var p *struct{ pad, x int }
	runtime.KeepAlive(p.x)
	return false
}
