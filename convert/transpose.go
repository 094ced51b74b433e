package convert

import (
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// transposeReorder is the move of 4-byte elements between layouts without padding that differ by one transposition of a
// batch of matrices: [batch, rows, cols] to [batch, cols, rows]. It returns nil for other pairs.
func transposeReorder(t isa.Target, src, dst *strided) *reorderer {
	spec, ok := transpositionSpec(src, dst)
	if !ok {
		return nil
	}
	return planReorder(t, spec)
}

func transpositionSpec(src, dst *strided) (reorder.Spec, bool) {
	batch, rows, cols, ok := transposition(src, dst)
	return reorder.Spec{N: batch, C: rows, HW: cols, From: reorder.NCHW, To: reorder.NHWC}, ok
}

// transposition finds the matrices: the axes that both begin with are the batch, the source's next axes, which the target
// ends with, the rows.
func transposition(src, dst *strided) (batch, rows, cols int, ok bool) {
	if src.elements != product(src.dims) || dst.elements != src.elements {
		return 0, 0, 0, false
	}
	a, b := src.merged(), dst.merged()
	if len(a) != len(b) {
		return 0, 0, 0, false
	}
	same := func(x, y axis) bool { return x.dim == y.dim && x.step == y.step && x.count == y.count }
	batch, rows, cols = 1, 1, 1
	for len(a) > 0 && same(a[0], b[0]) {
		batch *= a[0].count
		a, b = a[1:], b[1:]
	}
	for split := 1; split < len(a); split++ {
		match := true
		for i := range a {
			match = match && same(a[(i+split)%len(a)], b[i])
		}
		if !match {
			continue
		}
		for i, x := range a {
			if i < split {
				rows *= x.count
			} else {
				cols *= x.count
			}
		}
		return batch, rows, cols, true
	}
	return 0, 0, 0, false
}
