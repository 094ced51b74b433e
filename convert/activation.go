package convert

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// activationReorder is the move of 4-byte elements between NCHW, NHWC, NCHW16c and NCHW8c with any number of spatial dims; nil for
// other pairs.
func activationReorder(t isa.Target, src, dst *strided) *reorderer {
	spec, ok := activationSpec(src, dst)
	if !ok {
		return nil
	}
	return planReorder(t, spec)
}

func activationSpec(src, dst *strided) (reorder.Spec, bool) {
	from, ok1 := src.activation()
	to, ok2 := dst.activation()
	if !ok1 || !ok2 {
		return reorder.Spec{}, false
	}
	return reorder.Spec{N: src.dims[0], C: src.dims[1], HW: product(src.dims[2:]), From: from, To: to}, true
}

// volumeReorder is the move of 4-byte elements between a row-major tensor of three spatial dims and one whose slices are in NCHW16c; nil for other pairs.
func volumeReorder(t isa.Target, src, dst *strided) *reorderer {
	if len(src.dims) != 5 {
		return nil
	}
	rows, blocks := src, dst
	if !src.ordered(src.inOrder()) {
		rows, blocks = dst, src
	}
	if !rows.ordered(rows.inOrder()) || !blocks.ordered([]int{0, 2, 1, 3, 4}, graph.Block{Dim: 1, Size: 16}) {
		return nil
	}
	d := src.dims
	v, err := reorder.NewVolume(t, d[0], d[1], d[2], d[3]*d[4], blocks == dst)
	if err != nil {
		return nil
	}
	return newReorderer(v.Chunks(), 4*dst.elements/v.Chunks(), func(d, s []byte, lo, hi int) {
		if err := v.Run(lo, hi, elements[float32](d), elements[float32](s)); err != nil {
			panic(err) // sizes were checked
		}
	})
}

// planReorder is the reorder that the kernels make of a spec, nil where they cannot.
func planReorder(t isa.Target, spec reorder.Spec) *reorderer {
	p, err := reorder.New(t, spec)
	if err != nil {
		return nil
	}
	return newReorderer(p.Chunks(), 4*spec.N*spec.To.Floats(spec.C, spec.HW)/p.Chunks(), func(d, s []byte, lo, hi int) {
		if err := p.Run(lo, hi, elements[float32](d), elements[float32](s)); err != nil {
			panic(err) // sizes were checked
		}
	})
}

// activation returns the kernel's name of a layout.
func (s *strided) activation() (reorder.Layout, bool) {
	if len(s.dims) < 2 {
		return 0, false
	}
	last := append([]int{0}, s.inOrder()[2:]...)
	switch {
	case s.ordered(s.inOrder()):
		return reorder.NCHW, true
	case s.ordered(s.inOrder(), graph.Block{Dim: 1, Size: 16}):
		return reorder.NCHW16c, true
	case s.ordered(s.inOrder(), graph.Block{Dim: 1, Size: 8}):
		return reorder.NCHW8c, true
	case s.ordered(append(last, 1)):
		return reorder.NHWC, true
	}
	return 0, false
}
