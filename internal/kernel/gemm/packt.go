package gemm

import (
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// PackBT packs B[k, n] given by columns, src[n, k] with row stride lds ≥ k, into dst[PackedLen(k, n)] and zeroes the padding: the
// weights of a linear layer kept as [out, in], or the keys of one attention head. Slices that are too short panic.
func PackBT(t isa.Target, dst, src []float32, k, n, lds int) {
	PackBTPanels(t, dst, src, k, n, lds, 0, Panels(n))
}

// PackBTPanels packs panels lo to hi-1 of B only, at their places in dst; disjoint ranges may be packed at the same time.
// Each panel is the transpose of 16 rows of src.
func PackBTPanels(t isa.Target, dst, src []float32, k, n, lds, lo, hi int) {
	if k == 0 || lo >= hi {
		return
	}
	_, _ = at(dst, PackedLen(k, n)), at(src, extent(n, k, lds))
	for p := lo; p < hi; p++ {
		rows := min(Panel, n-p*Panel)
		panel := dst[p*k*Panel:][:k*Panel]
		if rows < Panel {
			clear(panel)
		}
		reorder.Transpose2D(t, panel, src[p*Panel*lds:], rows, k, lds, Panel)
	}
}
