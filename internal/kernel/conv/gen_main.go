//go:build ignore

// This program writes the assembly of package conv.
package main

import (
	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("conv",
		asm.Unit{Base: "tile_avx512", Generate: func(f *asm.File) {
			for _, k := range []kernel{
				{name: "dense512q1", kind: dense, lanes: 16, pixels: 14, group: 7, blocks: 1},
				{name: "dense512q2", kind: dense, lanes: 16, pixels: 14, group: 7, blocks: 2},
				{name: "dense512q3", kind: dense, lanes: 16, pixels: 9, group: 7, blocks: 3},
				{name: "depth512", kind: depth, lanes: 16, pixels: 14, group: 7, blocks: 1},
				{name: "max512", kind: maxPool, lanes: 16, pixels: 14, group: 7, blocks: 1},
				{name: "sum512", kind: sumPool, lanes: 16, pixels: 14, group: 7, blocks: 1},
			} {
				k.generate(f)
			}
			checkOffsets(f)
		}},
		asm.Unit{Base: "tile_avx2", Generate: func(f *asm.File) {
			for _, k := range []kernel{
				{name: "dense256q1", kind: dense, lanes: 8, pixels: 6, group: 3, blocks: 1},
				{name: "depth256", kind: depth, lanes: 8, pixels: 6, group: 3, blocks: 1},
				{name: "max256", kind: maxPool, lanes: 8, pixels: 6, group: 3, blocks: 1},
				{name: "sum256", kind: sumPool, lanes: 8, pixels: 6, group: 3, blocks: 1},
			} {
				k.generate(f)
			}
		}},
		asm.Unit{Base: "channel", Generate: generateChannel},
		asm.Unit{Base: "peak", Generate: generatePeak},
		asm.Unit{Base: "vendor", Generate: generateVendor},
	)
}

// generatePeak writes the register-only loops that benchmarks compare with.
func generatePeak(f *asm.File) {
	for _, w := range []asm.Width{16, 8} {
		name := map[asm.Width]string{16: "peak512", 8: "peak256"}[w]
		fn := f.Func(name, name+" makes n times 12 independent multiply-adds of whole registers; it is the peak that benchmarks compare with.", asm.Int("n"))
		fn.Load("n", "CX")
		for i := range 14 {
			fn.I("VXORPS %s, %s, %s", asm.Y(i), asm.Y(i), asm.Y(i))
		}
		fn.Loop("CX", func() {
			for i := range 12 {
				fn.I("VFMADD231PS %s, %s, %s", w.R(12), w.R(13), w.R(i))
			}
		})
		fn.Ret()
	}
}

// generateVendor writes the question for the maker and the model of the processor.
func generateVendor(f *asm.File) {
	fn := f.Func("signature", "signature returns EBX of CPUID leaf 0, which names the vendor, and EAX of leaf 1, the model.")
	fn.Result("vendor", "uint32")
	fn.Result("model", "uint32")
	for _, leaf := range []struct{ n, reg, result string }{{"0", "BX", "vendor"}, {"1", "AX", "model"}} {
		fn.I("MOVL $%s, AX", leaf.n)
		fn.I("XORL CX, CX")
		fn.I("CPUID")
		fn.I("MOVL %s, %s", leaf.reg, fn.Addr(leaf.result))
	}
	fn.Ret()
}
