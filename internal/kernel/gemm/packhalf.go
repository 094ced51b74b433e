package gemm

import (
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// PackHalfPanels rounds panels lo to hi-1 of B[k, n] to float16 and packs them, at their places in dst[PackedLen(k, n)], for a product of
// Spec.Half; padding is zero. B is given as rows with stride ldb ≥ n, or where transposed is set by columns with stride ldb ≥ k.
// Disjoint ranges may be packed at the same time. Slices that are too short panic.
func PackHalfPanels(t isa.Target, dst []uint16, src []float32, k, n, ldb int, transposed bool, lo, hi int) {
	const part = 64 // rows of a panel that are made in float32 first, in scratch memory on the stack
	var floats [part * Panel]float32
	for p := lo; p < hi; p++ {
		width := min(Panel, n-p*Panel)
		for from := 0; from < k; from += part {
			rows := min(part, k-from)
			if transposed {
				PackBTPanels(t, floats[:rows*Panel], src[p*Panel*ldb+from:], rows, width, ldb, 0, 1)
			} else {
				PackBPanels(t, floats[:rows*Panel], src[from*ldb+p*Panel:], rows, width, ldb, 0, 1)
			}
			reorder.ToHalf(t, dst[(p*k+from)*Panel:][:rows*Panel], floats[:rows*Panel], reorder.Float16)
		}
	}
}
