package convert

import (
	"context"
	"fmt"
	"sync"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// hostConverter is the reorder between two described host layouts.
func hostConverter(from, to graph.Format) Converter {
	return Converter{
		Name: "host-reorder", From: from, To: to, Cost: HostCost,
		Supports: func(dt tensor.DType, _ int) bool { return dt.Size() > 0 },
		Plan: func(dt tensor.DType, dims []int) (Move, error) {
			return PlanHost(from.Layout, to.Layout, dt, dims)
		},
	}
}

// PlanHost prepares the reorder of a tensor between two described layouts in host memory. Padding of the target is
// written as zeros. Packed dtypes and strings are not supported (tensor.ErrUnsupported). The Move checks the sizes of the
// storage that it is given.
func PlanHost(from, to graph.Layout, dt tensor.DType, dims []int) (Move, error) {
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
	run := fastReorder(src, dst, size, dims)
	if run == nil {
		run = genericReorder(src, dst, size, dims)
	}
	return func(_ context.Context, d, s *tensor.Tensor, st device.Stream) error {
		if len(s.Data)-s.Offset < need[0] || len(d.Data)-d.Offset < need[1] {
			return fmt.Errorf("%w: reorder of %v %v from %d to %d bytes", tensor.ErrShape, dt, dims, len(s.Data)-s.Offset, len(d.Data)-d.Offset)
		}
		run(d.Data[d.Offset:d.Offset+need[1]], s.Data[s.Offset:s.Offset+need[0]], st)
		return nil
	}, nil
}

// reorderFunc moves whole storages.
type reorderFunc func(dst, src []byte, s device.Stream)

// strided is a described layout of concrete dims: physical axes from outermost to innermost, each a stride of a logical
// dim.
type strided struct {
	layout   graph.Layout
	axes     []axis
	elements int
}

// axis steps through dim by step logical elements, count times; stride is its distance in storage, in elements.
type axis struct{ dim, step, count, stride int }

func newStrided(l graph.Layout, dims []int) (strided, error) {
	d, err := l.Describe(len(dims))
	if err != nil {
		return strided{}, err
	}
	s := strided{layout: l}
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

// offset returns the element offset of a logical index.
func (s *strided) offset(idx []int) int {
	off := 0
	for _, a := range s.axes {
		off += idx[a.dim] / a.step % a.count * a.stride
	}
	return off
}

// genericReorder walks the target's storage in order and fetches every element; it handles every pair of layouts.
func genericReorder(src, dst strided, size int, dims []int) reorderFunc {
	rows := 1 // all but the innermost axis
	inner := axis{count: 1}
	if len(dst.axes) > 0 {
		inner = dst.axes[len(dst.axes)-1]
		rows = dst.elements / max(inner.count, 1)
	}
	if dst.elements == 0 {
		return func([]byte, []byte, device.Stream) {}
	}
	scratch := sync.Pool{New: func() any { s := make([]int, len(dims)); return &s }}
	body := func(d, s []byte, lo, hi int) {
		p := scratch.Get().(*[]int)
		defer scratch.Put(p)
		idx := *p
		for r := lo; r < hi; r++ {
			clear(idx)
			rest := r * inner.count
			for _, a := range dst.axes {
				idx[a.dim] += rest / a.stride * a.step
				rest %= a.stride
			}
			at := r * inner.count * size
			inside := true
			for i, x := range idx {
				inside = inside && x < dims[i]
			}
			for j := 0; j < inner.count; j++ {
				if inside && (len(dims) == 0 || idx[inner.dim] < dims[inner.dim]) {
					o := src.offset(idx) * size
					copy(d[at:at+size], s[o:o+size])
				} else {
					clear(d[at : at+size])
				}
				at += size
				if len(dims) > 0 {
					idx[inner.dim] += inner.step
				}
			}
		}
	}
	return func(d, s []byte, st device.Stream) {
		if st == nil || dst.elements*size < 1<<15 {
			body(d, s, 0, rows)
			return
		}
		st.Parallel(rows, func(lo, hi int) { body(d, s, lo, hi) })
	}
}
