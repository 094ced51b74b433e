//go:build ignore

// Command gen writes the kernels of package amx.
package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Offsets of the fields of call and Pair, in bytes.
const (
	offPairs    = 0
	offCount    = 8
	offFrom     = 16
	offLDA      = 24
	offLDS      = 32
	offLDC      = 40
	offSegments = 48
	offParts    = 56
	offBlocks   = 64
	offB        = 72
	offLDB      = 80
	offColumn   = 88
	offSteps    = 96
	offConfig   = 104
	offStepA    = 168
	offStepB    = 176
	offSkip     = 184

	offA     = 0 // of Pair, whose fields are of two tiles
	offStart = 16
	offC     = 32
	pairSize = 48
)

func main() {
	products := []struct {
		name string
		asm.TileProduct
	}{{"SignedUnsigned", asm.SignedUnsigned}, {"UnsignedSigned", asm.UnsignedSigned}, {"BFloat16", asm.BFloat16Tiles}}
	asm.Main("amx", asm.Table{Entries: []asm.Entry{{Name: "run", Doc: "runs the kernel of so many tiles of rows and panels at a time.",
		Params: "kind Kind, tiles, panels int, c *call", Portable: "genericRun(kind, tiles, panels, c)"},
		finishEntry}}, asm.Unit{Base: "tiles", Arch: "amd64", Generate: func(f *asm.File) {
		var code strings.Builder
		code.WriteString("switch kind {\n")
		for _, p := range products {
			fmt.Fprintf(&code, "case %s:\nswitch 2*tiles + panels {\n", p.name)
			for _, shape := range [][2]int{{1, 1}, {1, 2}, {2, 1}, {2, 2}} {
				k := kernel{tiles: shape[0], panels: shape[1], product: p.TileProduct}
				fmt.Fprintf(&code, "case %d:\n%s(c)\n", 2*k.tiles+k.panels, k.emit(f, p.name))
			}
			code.WriteString("}\n")
		}
		code.WriteString("}")
		f.Serve("run", asm.AVX512(), code.String())
		checkOffsets(f)
	}}, asm.Unit{Base: "finish", Arch: "amd64", Generate: finish})
}

// checkOffsets emits Go source that does not compile where call and this program disagree.
func checkOffsets(f *asm.File) {
	f.Import("unsafe")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		name string
		off  int
	}{{"call{}.pairs", offPairs}, {"call{}.count", offCount}, {"call{}.from", offFrom}, {"call{}.lda", offLDA}, {"call{}.lds", offLDS}, {"call{}.ldc", offLDC},
		{"call{}.segments", offSegments}, {"call{}.parts", offParts}, {"call{}.blocks", offBlocks}, {"call{}.b", offB}, {"call{}.ldb", offLDB},
		{"call{}.column", offColumn}, {"call{}.steps", offSteps}, {"call{}.config", offConfig},
		{"call{}.stepA", offStepA}, {"call{}.stepB", offStepB}, {"call{}.skip", offSkip}, {"Pair{}.A", offA}, {"Pair{}.Start", offStart}, {"Pair{}.C", offC}} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(%s)-%d]\n", c.name, c.off)
	}
	src += fmt.Sprintf("_ = [1]byte{}[unsafe.Sizeof(Pair{})-%d]\n", pairSize)
	f.Go(src + ")\n")
}

// kernel is one being written: of each pair in turn, the sums of one or two tiles of rows times one or two panels, and then the panels behind them.
//
// Registers: DI the call, AX the pair, DX its segments that are left and BX the next of them, CX blocks of the segment, R9 and R10 the tiles' places
// in A, SI the distance of rows, R11 and R12 the panels' places in B, R8 the distance of their rows, 64; R13 how far sums lie from a pair's first
// ones, R14 the next panel and R15 steps left. Tiles 0 to 3 have sums, 4 and 5 parts of A, 6 and 7 of B.
type kernel struct {
	*asm.Func
	tiles, panels int
	product       asm.TileProduct
}

func (k *kernel) emit(f *asm.File, product string) string {
	name := fmt.Sprintf("multiply%s_%dx%d", product, k.tiles, k.panels)
	k.Func = f.Func(name, fmt.Sprintf("%s multiplies %d tiles of rows by %d panels at a time. It changes what it is given.", name, k.tiles, k.panels), asm.Typed("c", "*call"))
	k.Load("c", "DI")
	k.I("LEAQ %d(DI), AX", offConfig)
	k.ConfigureTiles("AX")
	k.I("MOVQ $64, R8")
	k.I("MOVQ %d(DI), AX", offPairs)
	k.Label("pair")
	k.I("MOVQ %d(DI), R14", offB)
	k.I("MOVQ %d(DI), R15", offSteps)
	k.I("MOVQ %d(DI), R13", offColumn)
	k.Loop("R15", k.step)
	k.I("ADDQ $%d, AX", pairSize)
	k.I("DECQ %d(DI)", offCount)
	k.I("JNZ pair")
	k.ReleaseTiles()
	k.Ret()
	return name
}

// step computes the sums of some panels.
func (k *kernel) step() {
	k.I("MOVQ %d(DI), BX", offFrom)
	k.sums("%d(AX)(BX*1)", 0, offLDS, func(tile int) { k.LoadTile("R9", "SI", tile) })
	k.I("MOVQ %d(DI), SI", offLDA)
	k.I("MOVQ %d(DI), BX", offSegments)
	k.I("MOVQ %d(DI), DX", offParts)
	for p := range k.panels {
		k.I("MOVQ R14, R%d", 11+p)
		k.I("ADDQ %d(DI), R14", offLDB)
	}
	k.Loop("DX", func() {
		for t := range k.tiles {
			k.I("MOVQ (BX), R%d", 9+t)
			k.I("ADDQ %d(AX), R%d", offA+8*t, 9+t)
		}
		k.I("ADDQ $8, BX")
		k.I("MOVQ %d(DI), CX", offBlocks)
		k.Loop("CX", k.block)
		for p := range k.panels {
			k.I("ADDQ %d(DI), R%d", offSkip, 11+p)
		}
	})
	k.sums("%d(AX)", offC, offLDC, func(tile int) { k.StoreTile(tile, "R9", "SI") })
	k.I("ADDQ $%d, R13", 64*k.panels)
}

// sums emits what is done with each tile of sums, of which R9 and SI say where they lie in memory; place has the
// addresses of the tiles, off bytes from it and behind.
func (k *kernel) sums(place string, off, distance int, each func(tile int)) {
	k.I("MOVQ %d(DI), SI", distance)
	for t := range k.tiles {
		k.I("MOVQ "+place+", R9", off+8*t)
		k.I("ADDQ R13, R9")
		for p := range k.panels {
			if p > 0 {
				k.I("ADDQ $64, R9")
			}
			each(2*t + p)
		}
	}
}

// block emits the products of a block of k.
func (k *kernel) block() {
	for t := range k.tiles {
		k.LoadTile(fmt.Sprintf("R%d", 9+t), "SI", 4+t)
		for p := range k.panels {
			if t == 0 {
				k.LoadTile(fmt.Sprintf("R%d", 11+p), "R8", 6+p)
			}
			k.MultiplyTiles(k.product, 4+t, 6+p, 2*t+p)
		}
	}
	for t := range k.tiles {
		k.I("ADDQ %d(DI), R%d", offStepA, 9+t)
	}
	for p := range k.panels {
		k.I("ADDQ %d(DI), R%d", offStepB, 11+p)
	}
}
