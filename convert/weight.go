package convert

import (
	"sync"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// maxTaps is the largest kernel of a convolution whose weights have a packer.
const maxTaps = 1 << 10

// weightReorder packs row-major weights of 4-byte elements for the embedded kernels: OIHW as [O/16][I/16][H][W][16i][16o] or
// [O/16][I][H][W][16o], IOHW as [O/16][I/16][H][W][16i][16o], OIDHW as [D][O/16][I/16][H][W][16i][16o], and matrices as panels of 16
// columns. It returns nil for other pairs.
func weightReorder(t isa.Target, src, dst *strided) *reorderer {
	rank := len(dst.dims)
	if rank < 1 || !src.ordered(src.inOrder()) {
		return nil
	}
	rows, cols := graph.Block{Dim: 0, Size: gemm.Panel}, graph.Block{Dim: 1, Size: gemm.Panel}
	switch {
	case dst.ordered(dst.inOrder(), rows): // panels of dim 0; the rest is one row
		return panelReorder(t, dst, product(dst.dims[1:]), dst.dims[0], 1, gemm.PackBTPanels)
	case rank == 2 && dst.ordered([]int{1, 0}, cols):
		return panelReorder(t, dst, dst.dims[0], dst.dims[1], rowPanels, gemm.PackBPanels)
	case rank >= 2 && dst.ordered(dst.inOrder(), cols, rows):
		return convReorder(t, dst, dst.dims[0], dst.dims[1], false)
	case rank >= 2 && dst.ordered(dst.inOrder(1, 0), rows, cols):
		return convReorder(t, dst, dst.dims[1], dst.dims[0], true)
	case rank == 5 && dst.ordered([]int{2, 0, 1, 3, 4}, cols, rows):
		return depthReorder(t, dst)
	}
	return nil
}

// rowPanels is how many panels are packed together from rows, so that enough of each row is read at a time.
const rowPanels = 8

// panelReorder packs B[k, n], some panels at least at a time. A packer of columns reads rows of k elements, one of rows
// reads rows of n.
func panelReorder(t isa.Target, dst *strided, k, n, least int, pack func(t isa.Target, dst, src []float32, k, n, ld, lo, hi int)) *reorderer {
	ld, panels := product(dst.dims[1:]), gemm.Panels(n)
	return newReorderer((panels+least-1)/least, 4*gemm.Panel*k*least, func(d, s []byte, lo, hi int) {
		pack(t, elements[float32](d), elements[float32](s), k, n, ld, lo*least, min(hi*least, panels))
	})
}

// convReorder packs the weights of a convolution without groups, or transposed convolution, of oc outputs and ic inputs.
func convReorder(t isa.Target, dst *strided, oc, ic int, transposed bool) *reorderer {
	p := weightsOf(t, dst, oc, ic, transposed)
	if p == nil {
		return nil
	}
	return newReorderer(p.PackChunks(), 4*dst.elements/p.PackChunks(), func(d, s []byte, lo, hi int) {
		if err := p.PackWeights(elements[float32](d), s, lo, hi); err != nil {
			panic(err) // sizes were checked
		}
	})
}

// depthReorder packs the weights of a convolution over three axes, of which each step along the first is one over two: a block of
// channels of all taps at a time, whose parts are copied to where their steps are.
func depthReorder(t isa.Target, dst *strided) *reorderer {
	p := weightsOf(t, dst, dst.dims[0], dst.dims[1], false)
	if p == nil {
		return nil
	}
	steps, chunks := dst.dims[2], p.PackChunks()
	block := dst.elements / chunks
	part := block / steps
	scratch := sync.Pool{New: func() any { return new(make([]float32, block)) }}
	return newReorderer(chunks, 4*block, func(d, s []byte, lo, hi int) {
		packed := scratch.Get().(*[]float32)
		to := elements[float32](d)
		for i := lo; i < hi; i++ {
			if err := p.PackBlock(*packed, s, i); err != nil {
				panic(err) // sizes were checked
			}
			for k := range steps {
				copy(to[(k*chunks+i)*part:][:part], (*packed)[k*part:])
			}
		}
		scratch.Put(packed)
	})
}

// weightsOf returns a convolution over one axis whose weights are packed as those of dst, in blocks of channels, or nil.
func weightsOf(t isa.Target, dst *strided, oc, ic int, transposed bool) *conv.Plan {
	taps := product(dst.dims[2:])
	if taps > maxTaps {
		return nil
	}
	p, err := conv.NewConv(t, conv.Spec{N: 1, C: ic, OC: oc, Map: conv.Map{H: 1, W: taps, Kernel: [2]int{1, taps}}, Transposed: transposed})
	if err != nil || p.WeightFloats() != dst.elements {
		return nil
	}
	return p
}
