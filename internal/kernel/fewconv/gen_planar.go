//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// planarPixels is how many pixels a tile of a planar convolution has, by its results.
var planarPixels = [5]int{0, 96, 48, 32, 24}

// planarFields are those of a planarCall, in their order, each of eight bytes.
var planarFields = []string{"src", "w", "dst", "tiles", "channels", "rows", "taps", "srcRow", "srcJump", "srcTap", "wRow", "wResult", "dstPlane"}

// servePlanar has the kernels of planar tiles written, and answers for sets.
func servePlanar(f *asm.File, v asm.ISA, sets ...asm.ISA) {
	checkOffsets(f, "planarCall", planarFields)
	code := "switch results {\n"
	for r := 1; r < len(planarPixels); r++ {
		t := &planarTile{isa: v, results: r, vectors: planarPixels[r] / v.Lanes}
		t.emit(f)
		code += fmt.Sprintf("case %d:\n%s(c)\n", r, t.name)
	}
	for _, set := range sets {
		f.Serve("planarSums", set, code+"}\n")
	}
}

// planarTile is a kernel being written, in instructions of AVX2. Registers: R15 the call; R14 and R12 the tile's source and results, R13 how many tiles are left;
// BX and DX the source and weights of a row of a channel, SI and DI of a tap, AX, R11 and CX how many channels, rows and taps are left; R8 the distance of taps, R9
// and R10 once and three times that of the weights of results. Vectors: the sums of each result; then what is held of a tap, which is weights or the source, whichever are
// fewer, and what of the other is at hand.
type planarTile struct {
	asm.Body
	isa              asm.ISA
	name             string
	results, vectors int
}

func (t *planarTile) sum(r, v int) string { return t.isa.R(r*t.vectors + v) }

// free is the i-th register behind the sums.
func (t *planarTile) free(i int) string { return t.isa.R(t.results*t.vectors + i) }

func (t *planarTile) field(name, reg string) {
	t.I("MOVQ %d(R15), %s", offset(planarFields, name), reg)
}

func (t *planarTile) emit(f *asm.File) {
	t.name = fmt.Sprintf("planar%dx%d", t.results, t.vectors)
	fn := f.Func(t.name, fmt.Sprintf("%s computes tiles of %d results of %d pixels; all counts are above zero.", t.name, t.results, t.vectors*t.isa.Lanes), asm.Typed("c", "*planarCall"))
	t.Body = t.isa.Body(fn, 31, 30)
	t.Load("c", "R15")
	for _, x := range [][2]string{{"srcTap", "R8"}, {"wResult", "R9"}, {"dst", "R12"}, {"tiles", "R13"}, {"src", "R14"}} {
		t.field(x[0], x[1])
	}
	t.I("LEAQ (R9)(R9*2), R10")
	t.Loop("R13", func() {
		for i := range t.results * t.vectors {
			t.I("VXORPS %[1]s, %[1]s, %[1]s", t.isa.R(i))
		}
		t.I("MOVQ R14, BX")
		t.field("w", "DX")
		t.field("channels", "AX")
		t.Loop("AX", func() {
			t.field("rows", "R11")
			t.Loop("R11", func() {
				t.I("MOVQ BX, SI")
				t.I("MOVQ DX, DI")
				t.field("taps", "CX")
				for at := 0; at < 4*t.vectors*t.isa.Lanes; at += 64 { // what the next tile reads of the row
					t.I("PREFETCHT0 %d(BX)", 4*t.vectors*t.isa.Lanes+at)
				}
				t.Loop("CX", func() {
					t.tap()
					t.I("ADDQ R8, SI")
					t.I("ADDQ $4, DI")
				})
				t.I("ADDQ %d(R15), BX", offset(planarFields, "srcRow"))
				t.I("ADDQ %d(R15), DX", offset(planarFields, "wRow"))
			})
			t.I("ADDQ %d(R15), BX", offset(planarFields, "srcJump"))
		})
		t.I("MOVQ R12, SI")
		for r := range t.results {
			if r > 0 {
				t.I("ADDQ %d(R15), SI", offset(planarFields, "dstPlane"))
			}
			for v := range t.vectors {
				t.I("VMOVUPS %s, %d(SI)", t.sum(r, v), t.isa.Size()*v)
			}
		}
		t.I("ADDQ $%d, R12", t.isa.Size()*t.vectors)
		t.I("ADDQ $%d, R14", t.isa.Size()*t.vectors)
	})
	t.Ret()
}

// tap adds the products of a tap.
func (t *planarTile) tap() {
	weight := func(r int, to string) {
		t.I("VBROADCASTSS (DI)%s, %s", []string{"", "(R9*1)", "(R9*2)", "(R10*1)"}[r], to)
	}
	source := func(v int, to string) { t.I("VMOVUPS %d(SI), %s", t.isa.Size()*v, to) }
	add := func(r, v int, w, x string) { t.I("VFMADD231PS %s, %s, %s", x, w, t.sum(r, v)) }
	switch {
	case t.results == 1:
		weight(0, t.free(0))
		for v := range t.vectors {
			add(0, v, t.free(0), fmt.Sprintf("%d(SI)", t.isa.Size()*v))
		}
	case t.results <= t.vectors:
		for r := range t.results {
			weight(r, t.free(r))
		}
		for v := range t.vectors {
			source(v, t.free(t.results))
			for r := range t.results {
				add(r, v, t.free(r), t.free(t.results))
			}
		}
	default:
		for v := range t.vectors {
			source(v, t.free(v))
		}
		for r := range t.results {
			weight(r, t.free(t.vectors))
			for v := range t.vectors {
				add(r, v, t.free(t.vectors), t.free(v))
			}
		}
	}
}
