package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/paired"
)

// processCalls prints what an enqueue costs in this process and in one of the plugin's own, with operands that lie in the
// memory that both share, and with others.
func processCalls(path string) error {
	fmt.Println("\n| elements | enqueue | out of process | operands copied |")
	fmt.Println("|---|---|---|---|")
	near, err := plugin.Open(path)
	if err != nil {
		return err
	}
	far, err := plugin.OpenOutOfProcess(path, nil)
	if err != nil {
		return err
	}
	a, err := near.Open("add", nil)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := far.Open("add", nil)
	if err != nil {
		return err
	}
	defer b.Close()
	for _, n := range []int{16, 1024, 16384} {
		var fns []func() error
		var ends []backend.Executable
		for _, x := range []struct {
			b    *plugin.Backend
			from device.Allocator
		}{{a, device.Host}, {b, b.Shared()}, {b, device.Host}} {
			exe, fn, err := enqueuer(x.b, x.from, n)
			if err != nil {
				return err
			}
			fns, ends = append(fns, fn), append(ends, exe)
		}
		t, err := least(300, 100, fns...)
		if err != nil {
			return err
		}
		fmt.Printf("| %d | %v | %v | %v |\n", n, t[0], t[1], t[2])
		for _, exe := range ends {
			if err := exe.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// enqueuer returns a run of an addition of n elements, in memory of an allocator that is kept until the process ends.
func enqueuer(b *plugin.Backend, from device.Allocator, n int) (backend.Executable, func() error, error) {
	g, err := graph.Parse(fmt.Sprintf("graph {\n  opset 17\n  input %%a: f32[%d]\n  input %%b: f32[%d]\n  %%y = Add(%%a, %%b)\n  output %%y\n}\n", n, n))
	if err == nil {
		err = graph.InferGraph(g)
	}
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	exe, err := b.Compile(ctx, g, backend.CompileOptions{Threads: 1})
	if err != nil {
		return nil, nil, err
	}
	in, err := exe.Specialize(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	tensors := make([]*tensor.Tensor, 3)
	for i := range tensors {
		m, err := from.Alloc(int64(4 * n))
		if err != nil {
			return nil, nil, err
		}
		tensors[i] = &tensor.Tensor{DType: tensor.Float32, Shape: []int{n}, Data: m.Data[:4*n]}
	}
	args := &backend.RunArgs{Inputs: tensors[:2], Outputs: tensors[2:], Stream: device.HostStream{}}
	run := func() error {
		e, err := in.Enqueue(ctx, args)
		if err == nil && e != nil {
			err = errors.New("there is an event")
		}
		return err
	}
	return exe, run, run()
}

// processZoo prints how long models take on the accelerator in this process and in one of its own, at one thread.
func processZoo(path string, models []string, rounds int) error {
	fmt.Println("\n| model | cpu | accelerator | out of process | ratio | ratio to cpu |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, name := range models {
		if err := processModel(path, name, rounds); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func processModel(path, name string, rounds int) error {
	t, _, err := timed(path, name, rounds, []backend.Config{{Name: "cpu"}, {Name: "accelerator"},
		{Name: "accelerator", Options: map[string]string{backend.OutOfProcess: "true"}}})
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %v | %v | %v | %v | %v |\n", name, middle(t[0]), middle(t[1]), middle(t[2]), paired.Of(t[2], t[1]), paired.Of(t[2], t[0]))
	return nil
}
