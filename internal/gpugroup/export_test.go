package gpugroup

import (
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// CastsTo is castsTo.
func CastsTo(t gpukernel.Type) []tensor.DType { return castsTo(t) }

// Reorders is reorders.
func (d *Device) Reorders(on Reorderer, cost convert.Cost) []convert.Converter {
	return d.reorders(on, Costs{Reorder: cost, Within: cost})
}

// BatchOf is batchOf, as numbers: size, and what A, B and C advance by.
func BatchOf(a, b []int) [][4]int {
	var list [][4]int
	for _, d := range batchOf(a, b) {
		list = append(list, [4]int{d.size, d.a, d.b, d.c})
	}
	return list
}
