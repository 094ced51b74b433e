package gpukernel_test

import (
	"fmt"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// A product with a bias and an activation is one kernel; its tile is chosen for the device.
func ExampleProduct() {
	h200 := gpukernel.NVIDIA(90, 132)
	plan, err := gpukernel.Product("dense", h200, gpukernel.ProductShape{
		M: 4096, N: 4096, K: 4096,
		A: gpukernel.Matrix{Type: gpukernel.BF16, Stride: 4096}, B: gpukernel.Matrix{Type: gpukernel.BF16, Stride: 4096},
		C:      gpukernel.Matrix{Type: gpukernel.BF16, Stride: 4096},
		Finish: []gpukernel.Step{{Op: gpukernel.AddColumn, Operand: gpukernel.F32}, {Op: gpukernel.Relu}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range plan.Launches {
		fmt.Println(l.Kernel.Name, l.Grid, "groups of", l.Kernel.Threads, "items")
	}
	// Output:
	// dense [512 1 1] groups of 256 items
}
