package convert

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// PlanHostCast is PlanHost for a reorder that changes the element type in the same step, as converters do to layouts in which a
// backend keeps values in elements of its own (see the example). It casts by the rules of tensor.Convert, but
// that a signalling NaN may become a quiet one. There are kernels between Float32 and Float16, BFloat16, Uint8 and Int8, for
// equal layouts, transpositions, and NCHW, NHWC, NCHW16c and NCHW8c; for anything else the Move converts to memory of its own
// before it reorders. Packed dtypes and strings are not supported (tensor.ErrUnsupported).
func PlanHostCast(from, to graph.Layout, src, dst tensor.DType, dims []int) (Move, error) {
	if src == dst {
		return PlanHost(from, to, src, dims)
	}
	if src.Size() == 0 || dst.Size() == 0 {
		return nil, fmt.Errorf("%w: cast of %v to %v", tensor.ErrUnsupported, src, dst)
	}
	a, err := newStrided(from, dims)
	if err != nil {
		return nil, err
	}
	b, err := newStrided(to, dims)
	if err != nil {
		return nil, err
	}
	slow, err := castFirst(&a, from, to, src, dst, dims)
	if err != nil {
		return nil, err
	}
	fast := castReorder(isa.Host(), &a, &b, src, dst)
	need := [2]int{a.elements * src.Size(), b.elements * dst.Size()}
	return func(ctx context.Context, d, s *tensor.Tensor, x Exec) error {
		if len(s.Data)-s.Offset < need[0] || len(d.Data)-d.Offset < need[1] {
			return sizeError(d, s, need, fmt.Sprintf("%v%v to %v", src, dims, dst))
		}
		target, source := d.Data[d.Offset:d.Offset+need[1]], s.Data[s.Offset:s.Offset+need[0]]
		if fast != nil && (unalignedAccess || aligned(target, dst.Size()) && aligned(source, src.Size())) {
			return fast.run(ctx, target, source, x)
		}
		return slow(ctx, target, source, x)
	}, nil
}

// castFirst converts the source's storage as it lies, padding included, and reorders the result.
func castFirst(a *strided, from, to graph.Layout, src, dst tensor.DType, dims []int) (func(ctx context.Context, d, s []byte, x Exec) error, error) {
	move, err := PlanHost(from, to, dst, dims)
	if err != nil {
		return nil, err
	}
	flat := []int{a.elements}
	return func(ctx context.Context, d, s []byte, x Exec) error {
		t, err := tensor.Convert(&tensor.Tensor{DType: src, Shape: flat, Data: s}, dst, nil)
		if err != nil {
			return err
		}
		return move(ctx, &tensor.Tensor{DType: dst, Shape: dims, Data: d}, t, x)
	}, nil
}

// castElements are the kernels' names of element types.
var castElements = map[tensor.DType]reorder.Element{tensor.Float32: reorder.Float32, tensor.Float16: reorder.Float16, tensor.BFloat16: reorder.BFloat16,
	tensor.Uint8: reorder.Uint8, tensor.Int8: reorder.Int8}

// castReorder is the move by a kernel, nil where there is none.
func castReorder(t isa.Target, src, dst *strided, from, to tensor.DType) *reorderer {
	a, ok1 := castElements[from]
	b, ok2 := castElements[to]
	if !ok1 || !ok2 || src.elements == 0 || dst.elements == 0 {
		return nil
	}
	spec, ok := reorder.Spec{N: 1, C: 1, HW: dst.elements}, dst.ordered(src.described.Order, src.described.Blocks...) || sameOrder(src, dst)
	if ok && dst.elements%16 == 0 { // in long rows
		spec = reorder.Spec{N: 1, C: 16, HW: dst.elements / 16, From: reorder.NCHW16c, To: reorder.NCHW16c}
	}
	if !ok {
		spec, ok = activationSpec(src, dst)
	}
	if !ok {
		spec, ok = transpositionSpec(src, dst)
	}
	if !ok {
		return nil
	}
	c, err := reorder.NewCast(t, spec, a, b)
	if err != nil {
		return nil
	}
	return newReorderer(c.Chunks(), to.Size()*dst.elements/c.Chunks(), func(d, s []byte, lo, hi int) {
		if err := c.Run(lo, hi, d, s); err != nil {
			panic(err) // sizes were checked
		}
	})
}
