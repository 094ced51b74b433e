package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// precision is how products are computed, and its name in the table.
type precision struct {
	name      string
	operand   gpukernel.Type
	result    gpukernel.Type
	rounds    gpukernel.Precision
	tolerance float64 // of ‖c − reference‖ / ‖reference‖
}

func precisions() []precision {
	return []precision{
		{"f32", gpukernel.F32, gpukernel.F32, gpukernel.Exact, 1e-5},
		{"tf32", gpukernel.F32, gpukernel.F32, gpukernel.TF32, 1e-3},
		{"f16", gpukernel.F16, gpukernel.F16, gpukernel.Exact, 1e-3},
		{"bf16", gpukernel.BF16, gpukernel.BF16, gpukernel.Exact, 8e-3},
	}
}

// productTasks are products of squares and of transformers, by our kernel and by the library; further tiles come last.
func (b *bench) productTasks(s sizes, tiles int) []task {
	var list []task
	add := func(rank float64, size [3]int) {
		for _, p := range precisions() {
			ours, theirs := b.product(p, size, 0), b.product(p, size, -1)
			ours.Rank, theirs.Rank = rank, rank
			list = append(list, theirs, ours)
			for i := 1; i < tiles; i++ {
				t := b.product(p, size, i)
				t.Rank = 100 + rank
				list = append(list, t)
			}
		}
	}
	for i, n := range s.squares {
		add(min(float64(i), 1), [3]int{n, n, n})
	}
	for i, size := range s.products {
		add(3+float64(i/4), size)
	}
	return list
}

// product is one of our kernel with a tile, the best by the model first, or of the library where that is negative.
func (b *bench) product(p precision, size [3]int, tile int) task {
	m, n, depth := size[0], size[1], size[2]
	shape := gpukernel.ProductShape{
		M: m, N: n, K: depth, Precision: p.rounds, A: gpukernel.Matrix{Type: p.operand, Stride: depth}, B: gpukernel.Matrix{Type: p.operand, Stride: n},
		C: gpukernel.Matrix{Type: p.result, Stride: n},
	}
	t := task{
		taskName: taskName{Part: productPart, Name: fmt.Sprintf("%d×%d×%d", m, n, depth), Side: "carve", Precision: p.name, Rows: m},
		inputs:   map[string]operand{"a": {p.operand, m * depth}, "b": {p.operand, depth * n}}, result: "c", out: operand{p.result, m * n}, tolerance: p.tolerance,
		operations: 2 * float64(m) * float64(n) * float64(depth), bytes: float64((m*depth+depth*n)*p.operand.Size() + m*n*p.result.Size()),
		want: func(in map[string][]byte, i int) float64 {
			row, column, sum := i/n, i%n, 0.0
			for d := range depth {
				sum += element(in["a"], p.operand, row*depth+d) * element(in["b"], p.operand, d*n+column)
			}
			return sum
		},
	}
	if tile < 0 {
		t.Side, t.library = blasName, b.byProducts(shape)
		return t
	}
	tiles, err := gpukernel.Tiles(b.device, shape)
	if err == nil && tile >= len(tiles) {
		err = fmt.Errorf("%w: %d tiles", gpukernel.ErrUnsupported, len(tiles))
	}
	if err == nil {
		shape.Tile, t.tile = tiles[tile].Name(), tiles[tile].String()
	}
	if tile > 0 {
		t.Side = fmt.Sprintf("carve, tile %d", tile)
	}
	t.plan = func() (*gpukernel.Plan, error) {
		if err != nil {
			return nil, err
		}
		return gpukernel.Product("product", b.device, shape)
	}
	return t
}
