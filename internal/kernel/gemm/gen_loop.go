//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// peaks writes the register-only multiply-add loops that speeds are compared with.
func peaks(f *asm.File) {
	for _, s := range on("amd64") {
		n, name := s.fmaSums, "peak"+s.suffix
		fn := f.Func(name, fmt.Sprintf("%s runs n rounds of %d independent vector multiply-adds on registers; n > 0.", name, n), asm.Int("n"))
		fn.Load("n", "CX")
		for i := range n + 2 {
			fn.Clear(s.ISA, s.R(i))
		}
		fn.Loop("CX", func() {
			for i := range n {
				fn.I("VFMADD231PS %s, %s, %s", s.R(n), s.R(n+1), s.R(i))
			}
		})
		fn.Ret()
		f.Serve("fmaLoop", s.ISA, fmt.Sprintf("%s(n)\nreturn n * %d * %d * 2", name, n, s.Lanes))
	}
}

// packs writes the copy of rows of B into panels, with the vectors that every amd64 set has.
func packs(f *asm.File) {
	fn := f.Func("packPanels", "packPanels copies k rows of np full panels of 16 columns from src, whose rows are lds bytes apart,\n"+
		"to dst, whose panels are ldd bytes apart; k, np > 0.",
		asm.Ptr("dst"), asm.Ptr("src"), asm.Int("k"), asm.Int("np"), asm.Int("lds"), asm.Int("ldd"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("k", "CX")
	fn.Load("lds", "R8")
	fn.Load("ldd", "R9")
	fn.Loop("CX", func() {
		fn.Load("np", "DX")
		fn.I("MOVQ SI, AX")
		fn.I("MOVQ DI, BX")
		fn.Loop("DX", func() {
			fn.I("VMOVUPS (AX), Y0")
			fn.I("VMOVUPS 32(AX), Y1")
			fn.I("VMOVUPS Y0, (BX)")
			fn.I("VMOVUPS Y1, 32(BX)")
			fn.I("ADDQ $64, AX")
			fn.I("ADDQ R9, BX")
		})
		fn.I("ADDQ R8, SI")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
	for _, s := range on("amd64") {
		f.Serve("copyPanels", s.ISA, "packPanels(dst, src, k, np, 4*lds, 4*ldd)")
	}
}

// neonPeak is peaks for NEON.
func neonPeak(f *asm.File) {
	for _, s := range on("arm64") {
		n, name := s.fmaSums, "peak"+s.suffix
		fn := f.Func(name, fmt.Sprintf("%s runs n rounds of %d independent vector multiply-adds on registers; n > 0.", name, n), asm.Int("n"))
		fn.Load("n", "R0")
		for i := range n + 2 {
			fn.Clear(s.ISA, s.R(i))
		}
		fn.Loop("R0", func() {
			for i := range n {
				fn.VLane("fmla.4s", i, n, n+1, 0)
			}
		})
		fn.Ret()
		f.Serve("fmaLoop", s.ISA, fmt.Sprintf("%s(n)\nreturn n * %d * %d * 2", name, n, s.Lanes))
	}
}
