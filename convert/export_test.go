package convert

import (
	"context"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// PlanGeneric is PlanHost by the definition alone, and by the kernel for any pair of layouts where table is set.
func PlanGeneric(from, to graph.Layout, dt tensor.DType, dims []int, table bool) (Move, error) {
	src, err := newStrided(from, dims)
	if err != nil {
		return nil, err
	}
	dst, err := newStrided(to, dims)
	if err != nil {
		return nil, err
	}
	r := genericReorder(src, dst, dt.Size())
	if table && dst.elements > 0 {
		r = tableReorder(src, dst, dt.Size())
	}
	return func(ctx context.Context, d, s *tensor.Tensor, x Exec) error {
		return r.run(ctx, d.Data, s.Data, x)
	}, nil
}

// PlanHostFor is PlanHost for a target that may not be the host's best.
func PlanHostFor(t isa.Target, from, to graph.Layout, dt tensor.DType, dims []int) (Move, error) {
	return planHost(t, from, to, dt, dims)
}
