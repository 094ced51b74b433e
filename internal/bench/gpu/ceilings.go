package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// Parts of what is measured.
const (
	ceilingPart     = "ceilings"
	productPart     = "products"
	rowPart         = "rows"
	convolutionPart = "convolutions"
	attentionPart   = "attention"
	modelPart       = "models"
)

// Names of ceilings that no product tells.
const (
	copying      = "copy"
	multiplyAdds = "multiply-adds"
)

// ceilingTasks are what the device can do without anybody's kernels: a copy of the driver's, and multiply-adds of float32 without memory.
func (b *bench) ceilingTasks(s sizes) []task {
	n := s.copied
	return []task{
		{
			taskName: taskName{Part: ceilingPart, Name: copying, Side: "driver", Precision: "f32"}, copies: "x", inputs: map[string]operand{"x": {gpukernel.F32, n}}, result: "y",
			out: operand{gpukernel.F32, n}, bytes: 8 * float64(n), tolerance: 1e-30,
			want: func(in map[string][]byte, i int) float64 { return element(in["x"], gpukernel.F32, i) },
		},
		b.multiplyAdds(s.rounds),
	}
}

// multiplyAdds is chains of multiply-adds, sixteen of which keep the units busy.
func (b *bench) multiplyAdds(rounds int) task {
	const chains, threads = 16, 256
	groups := b.processors * 8
	k := &gpukernel.Kernel{
		Name: "multiply_adds", Params: []gpukernel.Param{{Name: "c", Type: gpukernel.F32, Written: true}}, Threads: threads,
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
	return task{
		taskName: taskName{Part: ceilingPart, Name: multiplyAdds, Side: "carve", Precision: "f32"}, result: "c", out: operand{gpukernel.F32, groups * threads},
		operations: 2 * chains * float64(rounds) * threads * float64(groups),
		plan: func() (*gpukernel.Plan, error) {
			return &gpukernel.Plan{Launches: []gpukernel.Launch{{Kernel: k, Grid: [3]int{groups, 1, 1}, Args: []gpukernel.Arg{{Buffer: "c"}}}}}, nil
		},
	}
}
