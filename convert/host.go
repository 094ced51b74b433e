package convert

import (
	"context"
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// hostConverter is the reorder between two described host layouts.
func hostConverter(from, to graph.Format) Converter {
	return Converter{
		Name: "host-reorder", From: from, To: to, Cost: hostCost(from.Layout, to.Layout), Spreads: true,
		Supports: func(dt tensor.DType, _ int) bool { return dt.Size() > 0 },
		Plan: func(dt tensor.DType, dims []int) (Move, error) {
			return PlanHost(from.Layout, to.Layout, dt, dims)
		},
	}
}

// PlanHost prepares the reorder of a tensor between two described layouts in host memory. Padding of the target is
// written as zeros. Packed dtypes and strings are not supported (tensor.ErrUnsupported). The Move checks the sizes of the
// storage that it is given (tensor.ErrShape), spreads its work over the workers, and stops with the context's error at the
// next chunk, some 100 KiB, or 1 MiB of a long copy, after ctx has ended. It allocates nothing. Storage need not be aligned; it must not overlap.
func PlanHost(from, to graph.Layout, dt tensor.DType, dims []int) (Move, error) {
	return planHost(isa.Host(), from, to, dt, dims)
}

// PlanStrided is PlanHost from a row-major tensor that has strides of its own, in elements, none below 0: gaps, transposed dims,
// dims that repeat. The source's storage is as long as its last element asks for.
func PlanStrided(strides []int, to graph.Layout, dt tensor.DType, dims []int) (Move, error) {
	size := dt.Size()
	if size == 0 {
		return nil, fmt.Errorf("%w: reorder of %v", tensor.ErrUnsupported, dt)
	}
	if len(strides) != len(dims) {
		return nil, fmt.Errorf("%w: %d strides for rank %d", tensor.ErrShape, len(strides), len(dims))
	}
	src, err := newStrided(graph.RowMajor, dims)
	if err != nil {
		return nil, err
	}
	dst, err := newStrided(to, dims)
	if err != nil {
		return nil, err
	}
	last := 0
	for i, s := range strides {
		n := max(dims[i]-1, 0)
		if s < 0 || n > 0 && s > (math.MaxInt64/64-last)/n {
			return nil, fmt.Errorf("%w: strides %v of %v", tensor.ErrShape, strides, dims)
		}
		last += s * n
	}
	for k := range src.axes {
		src.axes[k].stride = strides[src.axes[k].dim]
	}
	if src.elements > 0 {
		src.elements = last + 1
	}
	need := [2]int{src.elements * size, dst.elements * size}
	every, fast := genericReorder(src, dst, size), (*reorderer)(nil)
	if src.elements > 0 && dst.elements > 0 {
		fast = tableReorder(src, dst, size)
	}
	return moveOf(every, fast, need, size, fmt.Sprintf("%v%v", dt, dims)), nil
}

// planHost is PlanHost for a target.
func planHost(t isa.Target, from, to graph.Layout, dt tensor.DType, dims []int) (Move, error) {
	size := dt.Size()
	if size == 0 {
		return nil, fmt.Errorf("%w: reorder of %v", tensor.ErrUnsupported, dt)
	}
	src, err := newStrided(from, dims)
	if err != nil {
		return nil, err
	}
	dst, err := newStrided(to, dims)
	if err != nil {
		return nil, err
	}
	need := [2]int{src.elements * size, dst.elements * size}
	every, fast := copyReorder(&src, &dst, size), (*reorderer)(nil)
	if every == nil {
		every, fast = genericReorder(src, dst, size), fastReorder(t, src, dst, size)
	}
	return moveOf(every, fast, need, size, fmt.Sprintf("%v%v", dt, dims)), nil
}

// moveOf returns the Move of a reorder, and of a faster one, or nil, where storage is aligned. need are the bytes of source and
// target.
func moveOf(every, fast *reorderer, need [2]int, size int, what string) Move {
	return func(ctx context.Context, d, s *tensor.Tensor, x Exec) error {
		if len(s.Data)-s.Offset < need[0] || len(d.Data)-d.Offset < need[1] {
			return sizeError(d, s, need, what)
		}
		to, from := d.Data[d.Offset:d.Offset+need[1]], s.Data[s.Offset:s.Offset+need[0]]
		if fast != nil && (unalignedAccess || aligned(to, size) && aligned(from, size)) {
			return fast.run(ctx, to, from, x)
		}
		return every.run(ctx, to, from, x)
	}
}

// sizeError says what a reorder needs and has.
func sizeError(dst, src *tensor.Tensor, need [2]int, what string) error {
	return fmt.Errorf("%w: a reorder of %s needs a source of %d bytes, and has %d, and a destination of %d, and has %d",
		tensor.ErrShape, what, need[0], max(len(src.Data)-src.Offset, 0), need[1], max(len(dst.Data)-dst.Offset, 0))
}

// fastReorder returns a specialised reorder for the pair of layouts, or nil. It needs aligned storage where the processor
// does.
func fastReorder(t isa.Target, src, dst strided, size int) *reorderer {
	if src.elements == 0 || dst.elements == 0 {
		return nil
	}
	moves := map[int]tensor.DType{1: tensor.Uint8, 2: tensor.Float16} // whatever elements of their sizes are
	if e, ok := moves[size]; ok && t.Set != isa.Portable {
		if r := castReorder(t, &src, &dst, e, e); r != nil {
			return r
		}
	}
	if size == 4 {
		for _, plan := range []func(t isa.Target, src, dst *strided) *reorderer{activationReorder, volumeReorder, weightReorder, transposeReorder} {
			if r := plan(t, &src, &dst); r != nil {
				return r
			}
		}
	}
	return tableReorder(src, dst, size)
}

// strided is a described layout of concrete dims: physical axes from outermost to innermost, each a stride of a logical
// dim.
type strided struct {
	described graph.Dims
	dims      []int
	axes      []axis
	elements  int
}

// axis steps through dim by step logical elements, count times; stride is its distance in storage, in elements.
type axis struct{ dim, step, count, stride int }

func newStrided(l graph.Layout, dims []int) (strided, error) {
	d, err := l.Describe(len(dims))
	if err != nil {
		return strided{}, err
	}
	s := strided{described: d, dims: dims}
	if s.elements, err = l.PhysicalElements(dims); err != nil {
		return strided{}, err
	}
	inner := make([]int, len(dims)) // elements of a dim per step of its outer axis
	for i := range inner {
		inner[i] = 1
	}
	for _, b := range d.Blocks {
		inner[b.Dim] *= b.Size
	}
	for _, i := range d.Order {
		s.axes = append(s.axes, axis{dim: i, step: inner[i], count: (dims[i] + inner[i] - 1) / inner[i]})
	}
	for _, b := range d.Blocks {
		inner[b.Dim] /= b.Size
		s.axes = append(s.axes, axis{dim: b.Dim, step: inner[b.Dim], count: b.Size})
	}
	n := 1
	for k := len(s.axes) - 1; k >= 0; k-- {
		s.axes[k].stride = n
		n *= s.axes[k].count
	}
	return s, nil
}

// along returns the part of an element's offset that index i of a dim contributes; the offset is the sum over the dims.
func (s *strided) along(dim, i int) int {
	off := 0
	for _, a := range s.axes {
		if a.dim == dim {
			off += i / a.step % a.count * a.stride
		}
	}
	return off
}

// ordered reports whether the outer axes follow that order of dims and the blocks are those.
func (s *strided) ordered(order []int, blocks ...graph.Block) bool {
	if len(s.described.Order) != len(order) || len(s.described.Blocks) != len(blocks) {
		return false
	}
	for i, d := range s.described.Order {
		if d != order[i] {
			return false
		}
	}
	for i, b := range s.described.Blocks {
		if b != blocks[i] {
			return false
		}
	}
	return true
}

// inOrder returns the dims in their own order, with those named first in front.
func (s *strided) inOrder(first ...int) []int {
	order := append([]int(nil), first...)
	for i := range s.dims {
		if i >= len(first) {
			order = append(order, i)
		}
	}
	return order
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}
