//go:build ignore

// This program writes the assembly of package conv.
package main

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("conv", asm.Table{Entries: entries, Sources: map[string][]byte{"portable_rows.go": generatePortableRows()}},
		asm.Unit{Base: "tile_avx512", Arch: "amd64", Generate: func(f *asm.File) {
			laneTables(f)
			for _, k := range kernels512 {
				k.generate(f)
			}
			checkOffsets(f)
			serve(f, asm.AVX512(), slices.Concat(kernels512, pairs512, []kernel{kernels256[1].when("half"), kernels256[2], kernels256[0].when("split")}))
		}},
		asm.Unit{Base: "pairs_avx512", Arch: "amd64", Generate: func(f *asm.File) {
			for _, k := range pairs512 {
				k.generate(f)
			}
		}},
		asm.Unit{Base: "tile_avx2", Arch: "amd64", Generate: func(f *asm.File) {
			for _, k := range kernels256 {
				k.generate(f)
			}
			serve(f, asm.AVX2(), kernels256)
		}},
		asm.Unit{Base: "neon", Arch: "arm64", Generate: generateNEON},
		asm.Unit{Base: "pairs", Arch: "arm64", Generate: func(f *asm.File) {
			for _, k := range pairsNEON {
				(&neonKernel{k}).generate(f)
			}
		}},
		asm.Unit{Base: "channel", Arch: "amd64", Generate: generateChannel},
		asm.Unit{Base: "peak", Arch: "amd64", Generate: generatePeak},
	)
}

// entries are what plans call.
var entries = []asm.Entry{
	{Name: "kernelOf", Doc: "returns the kernel for tiles of that many output channel blocks or of half of the last, where wide vectors are computed in halves (split), for rows that fill tiles of 14 pixels (wide).",
		Params: "k kind, blocks int, half, split, wide bool", Result: "tileKernel", Portable: "return portableKernel(k)"},
	{Name: "mostBlocks", Doc: "returns the highest number of output channel blocks of a dense tile.", Result: "int", Portable: "return 1"},
	{Name: "runKernel", Doc: "computes the tiles of a call with a kernel that kernelOf returned for this set.",
		Params: "id kernelID, c *tileCall", Portable: "runPortable(id, c)"},
	{Name: "reducePixels", Doc: "reduces n pixels of a channel block to their maximum or sum, times scale.",
		Params: "maximum bool, dst, src *float32, n int, scale float32", Portable: "portableReduce(maximum, dst, src, n, scale)"},
	{Name: "losesNaN", Doc: "reports whether n pixels of a channel block, at least 1, have a NaN that maxima of this set forget.",
		Params: "src *float32, n int", Result: "bool", Portable: "return false"},
	{Name: "linearRow", Doc: "interpolates a row between two rows.",
		Params: "dst, a, b *float32, at *int32, wx *float32, wy float32, n int", Portable: "portableLinear(dst, a, b, at, wx, wy, n)"},
}

// kernels512, pairs512 and kernels256 are the tile kernels. To add a tile, describe it here and generate anew: its code, the table of
// its bodies, where each lies in that, and its case in what plans choose from (kernelOf) come together.
var (
	kernels512 = []kernel{
		{name: "dense512q1", kind: dense, isa: asm.AVX512(), pixels: 14, group: 7, blocks: 1},
		{name: "dense512q2", kind: dense, isa: asm.AVX512(), pixels: 14, group: 7, blocks: 2},
		{name: "dense512q3", kind: dense, isa: asm.AVX512(), pixels: 9, group: 7, blocks: 3},
		{name: "depth512", kind: depth, isa: asm.AVX512(), pixels: 14, group: 7, blocks: 1},
		{name: "lanes512", kind: lanes, isa: asm.AVX512(), pixels: 14, group: 7, blocks: 1},
		{name: "max512", kind: maxPool, isa: asm.AVX512(), pixels: 14, group: 7, blocks: 1},
		{name: "sum512", kind: sumPool, isa: asm.AVX512(), pixels: 14, group: 7, blocks: 1},
	}
	pairs512 = []kernel{
		{name: "pairs512q1", kind: pairs, isa: asm.AVX512(), pixels: 14, group: 7, blocks: 1},
		{name: "pairs512q2", kind: pairs, isa: asm.AVX512(), pixels: 14, group: 7, blocks: 2},
		{name: "pairs512q3", kind: pairs, isa: asm.AVX512(), pixels: 9, group: 7, blocks: 3},
	}
	kernels256 = []kernel{
		{name: "dense256q1", kind: dense, isa: asm.AVX2(), pixels: 6, group: 3, blocks: 1},
		{name: "dense256w", kind: dense, isa: asm.AVX2(), pixels: 14, group: 7, blocks: 1, passes: true, only: "half"},
		{name: "dense256h", kind: dense, isa: asm.AVX2(), pixels: 4, group: 2, blocks: 2, lower: true, only: "half"},
		{name: "depth256", kind: depth, isa: asm.AVX2(), pixels: 10, group: 5, blocks: 1, passes: true},
		{name: "depth256w", kind: depth, isa: asm.AVX2(), pixels: 14, group: 7, blocks: 1, passes: true, only: "wide"},
		{name: "lanes256", kind: lanes, isa: asm.AVX2(), pixels: 6, group: 3, blocks: 1},
		{name: "max256", kind: maxPool, isa: asm.AVX2(), pixels: 6, group: 3, blocks: 1},
		{name: "sum256", kind: sumPool, isa: asm.AVX2(), pixels: 6, group: 3, blocks: 1},
	}
)

// generatePeak writes the register-only loops that benchmarks compare with.
func generatePeak(f *asm.File) {
	for _, isa := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
		name := fmt.Sprint("peak", 8*isa.Size())
		fn := f.Func(name, name+" makes n times 12 independent multiply-adds of whole registers; it is the peak that benchmarks compare with.", asm.Int("n"))
		fn.Load("n", "CX")
		for i := range 14 {
			fn.I("VXORPS %s, %s, %s", asm.Y(i), asm.Y(i), asm.Y(i))
		}
		fn.Loop("CX", func() {
			for i := range 12 {
				fn.I("VFMADD231PS %s, %s, %s", isa.R(12), isa.R(13), isa.R(i))
			}
		})
		fn.Ret()
	}
}
