package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// attentionTasks are attentions of each size, in two types.
func (b *bench) attentionTasks(s sizes) []task {
	var list []task
	for _, t := range []gpukernel.Type{gpukernel.F32, gpukernel.BF16} {
		for _, size := range s.attention {
			list = append(list, b.attention(t, size[0], size[1], size[2], size[3]))
		}
	}
	return list
}

func (b *bench) attention(t gpukernel.Type, batch, heads, sequence, depth int) task {
	rows := gpukernel.Matrix{Type: t, Stride: heads * depth, Batch0: sequence * heads * depth, Batch1: depth}
	scale := float32(1 / math.Sqrt(float64(depth)))
	n := batch * sequence * heads * depth
	tolerance := 1e-5
	if t != gpukernel.F32 {
		tolerance = 8e-3
	}
	return task{
		taskName: taskName{Part: attentionPart, Name: fmt.Sprintf("%d×%d heads, %d×%d", batch, heads, sequence, depth), Side: "carve", Precision: string(t)},
		inputs:   map[string]operand{"q": {t, n}, "k": {t, n}, "v": {t, n}}, result: "c", out: operand{t, n},
		operations: 4 * float64(n) * float64(sequence), bytes: 4 * float64(n*t.Size()), tolerance: tolerance,
		plan: func() (*gpukernel.Plan, error) {
			return gpukernel.Attention("attention", b.device, gpukernel.AttentionShape{
				Batch: batch, Heads: heads, Queries: sequence, Keys: sequence, Depth: depth, Width: depth, Q: rows, K: rows, V: rows, C: rows, Scale: scale,
			})
		},
		want: func(in map[string][]byte, i int) float64 {
			width := heads * depth
			column, query := i%width, i/width
			first, head := query/sequence*sequence, column/depth*depth
			var sum, total float64
			for key := range sequence {
				product := 0.0
				for d := range depth {
					product += element(in["q"], t, query*width+head+d) * element(in["k"], t, (first+key)*width+head+d)
				}
				e := math.Exp(product * float64(scale))
				sum, total = sum+e, total+e*element(in["v"], t, (first+key)*width+column)
			}
			return total / sum
		},
	}
}
