package gemm

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Panel is the number of columns of a panel of packed B.
const Panel = 16

// Panels returns the number of panels of n columns.
func Panels(n int) int { return (n + Panel - 1) / Panel }

// PackedLen returns the number of elements of a packed B[k, n].
func PackedLen(k, n int) int { return Panels(n) * k * Panel }

// packRows is how many rows are copied before the next panels are: reads stay in few pages, writes in few streams.
const (
	packRows   = 64
	packPanelN = 8
)

// PackB packs B[k, n], given as rows with stride ldb, which may overlap, into dst[PackedLen(k, n)] and zeroes the padding. It runs at
// memory bandwidth. Slices that are too short panic.
func PackB(t isa.Target, dst, src []float32, k, n, ldb int) {
	PackBPanels(t, dst, src, k, n, ldb, 0, Panels(n))
}

// PackBPanels packs panels lo to hi-1 of B only, at their places in dst; disjoint ranges may be packed at the same time.
// Any range will do: the work is divided inside into short calls of assembly.
func PackBPanels(t isa.Target, dst, src []float32, k, n, ldb, lo, hi int) {
	if k == 0 || lo >= hi {
		return
	}
	d, s := (*float32)(at(dst, PackedLen(k, n))), (*float32)(at(src, extent(k, n, ldb)))
	full := min(hi, n/Panel)
	for p := lo; p < full; p += packPanelN {
		np := min(packPanelN, full-p)
		for r := 0; r < k; r += packRows {
			copyPanels(t.Set, advance(d, (p*k+r)*Panel), advance(s, r*ldb+p*Panel), min(packRows, k-r), np, ldb, k*Panel)
		}
	}
	if hi > n/Panel && n%Panel != 0 {
		w := n % Panel
		p := n / Panel
		for r := range k {
			row := dst[(p*k+r)*Panel:][:Panel]
			copy(row, src[r*ldb+p*Panel:][:w])
			clear(row[w:])
		}
	}
}

// genericPanels is the portable version of copyPanels.
func genericPanels(dst, src *float32, k, np, lds, ldd int) {
	for r := range k {
		for p := range np {
			*(*[Panel]float32)(unsafe.Pointer(advance(dst, r*Panel+p*ldd))) = *(*[Panel]float32)(unsafe.Pointer(advance(src, r*lds+p*Panel)))
		}
	}
}
