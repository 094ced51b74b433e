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
