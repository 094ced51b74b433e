package gemm

import (
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// PackPairs rounds B[k, n], given as rows with stride ldb ≥ n, to a type and packs it into dst[PackedLen(pairs.Words(k), n)] for a product
// of Spec.Pairs, padding zeroed. Slices that are too short panic.
func PackPairs(t isa.Target, y pairs.Type, dst []uint32, src []float32, k, n, ldb int) {
	PackPairsPanels(t, y, dst, src, k, n, ldb, 0, Panels(n))
}

// PackPairsPanels packs panels lo to hi-1 of B only, at their places in dst; disjoint ranges may be packed at the same time.
func PackPairsPanels(t isa.Target, y pairs.Type, dst []uint32, src []float32, k, n, ldb, lo, hi int) {
	size := pairs.Words(k) * Panel
	for p := lo; p < hi && k > 0; p++ {
		y.Across(t, dst[p*size:][:size], src[p*Panel:], k, min(Panel, n-p*Panel), ldb)
	}
}

// PackPairsT is PackPairs for B[k, n] given by columns, src[n, k] with row stride lds ≥ k.
func PackPairsT(t isa.Target, y pairs.Type, dst []uint32, src []float32, k, n, lds int) {
	PackPairsTPanels(t, y, dst, src, k, n, lds, 0, Panels(n))
}

// pairColumns is how many numbers of a row are rounded, or packed, at a time, in scratch memory on the stack.
const pairColumns = 128

// PackPairsTPanels packs panels lo to hi-1 of B only, at their places in dst; disjoint ranges may be packed at the same time.
func PackPairsTPanels(t isa.Target, y pairs.Type, dst []uint32, src []float32, k, n, lds, lo, hi int) {
	size := pairs.Words(k) * Panel
	if y == pairs.Float16 {
		var floats [Panel * pairColumns]float32
		for p := lo; p < hi; p++ {
			for from := 0; from < k; from += pairColumns {
				rows := min(pairColumns, k-from)
				PackBTPanels(t, floats[:rows*Panel], src[p*Panel*lds+from:], rows, min(Panel, n-p*Panel), lds, 0, 1)
				y.Across(t, dst[p*size+from/2*Panel:][:pairs.Words(rows)*Panel], floats[:rows*Panel], rows, Panel, Panel)
			}
		}
		return
	}
	var words [Panel * pairColumns / 2]uint32
	for p := lo; p < hi; p++ {
		panel, rows := dst[p*size:][:size], min(Panel, n-p*Panel)
		if rows < Panel {
			clear(panel)
		}
		for from := 0; from < k; from += pairColumns {
			cols := min(pairColumns, k-from)
			y.Matrix(t, words[:], src[p*Panel*lds+from:], rows, cols, lds)
			reorder.Transpose2D(t, pairs.Floats(panel[from/2*Panel:]), pairs.Floats(words[:]), rows, pairs.Words(cols), pairs.Words(cols), Panel)
		}
	}
}
