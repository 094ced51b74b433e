package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// ceilings measures what the device can do: bytes of a copy, and multiply-adds of float32 without memory.
func (b *bench) ceilings() error {
	const bytes = 2 << 30
	from, err := b.alloc(bytes)
	if err != nil {
		return err
	}
	to, err := b.alloc(bytes)
	if err != nil {
		return err
	}
	t, err := b.measure(func() error { return b.call("cuMemcpyDtoDAsync_v2", to, from, bytes, b.stream) })
	if err != nil {
		return err
	}
	b.copyRate = 2 * bytes / t
	b.free(from)
	b.free(to)
	fmt.Printf("copy %.2f TB/s, read and written\n", b.copyRate/1e12)

	// Sixteen independent chains keep the units busy.
	const chains, rounds = 16, 4096
	k := &gpukernel.Kernel{
		Name: "multiply_adds", Params: []gpukernel.Param{{Name: "c", Type: gpukernel.F32, Written: true}}, Threads: 256,
		Defines: []gpukernel.Define{{Name: "CHAINS", Value: fmt.Sprint(chains)}, {Name: "ROUNDS", Value: fmt.Sprint(rounds)}},
		Body: `{
	f32 v[CHAINS], x = (f32)ITEM * 1e-3f, y = (f32)GROUP(0) * 1e-6f;
	UNROLL for (int i = 0; i < CHAINS; i++) v[i] = (f32)i;
	for (int r = 0; r < ROUNDS; r++) {
		UNROLL for (int i = 0; i < CHAINS; i++) v[i] = fma_f32(v[i], x, y);
	}
	f32 s = 0.0f;
	UNROLL for (int i = 0; i < CHAINS; i++) s += v[i];
	c[GROUP(0) * THREADS + ITEM] = s;
}
`}
	groups := b.processors * 8
	c, err := b.alloc(int64(groups) * 1024)
	if err != nil {
		return err
	}
	defer b.free(c)
	plan := &gpukernel.Plan{Launches: []gpukernel.Launch{{Kernel: k, Grid: [3]int{groups, 1, 1}, Args: []gpukernel.Arg{{Buffer: "c"}}}}}
	steps, err := b.steps(plan, map[string]uintptr{"c": c})
	if err != nil {
		return err
	}
	if t, err = b.measure(func() error { return b.launch(steps[0]) }); err != nil {
		return err
	}
	b.fmaRate = 2 * chains * rounds * 256 * float64(groups) / t
	fmt.Printf("multiply-adds of float32 %.2f TFLOP/s\n", b.fmaRate/1e12)
	return nil
}
