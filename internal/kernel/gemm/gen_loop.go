//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// peaks writes the register-only multiply-add loops that speeds are compared with.
func peaks(f *asm.File) {
	for _, w := range []asm.Width{16, 8} {
		n := map[asm.Width]int{16: 24, 8: 12}[w]
		name := map[asm.Width]string{16: "peak512", 8: "peak2"}[w]
		fn := f.Func(name, fmt.Sprintf("%s runs n rounds of %d independent vector multiply-adds on registers; n > 0.", name, n), asm.Int("n"))
		fn.Load("n", "CX")
		for i := range n + 2 {
			x := w.R(i)
			if w == 16 {
				fn.I("VPXORD %s, %s, %s", x, x, x)
			} else {
				fn.I("VXORPS %s, %s, %s", x, x, x)
			}
		}
		fn.Loop("CX", func() {
			for i := range n {
				fn.I("VFMADD231PS %s, %s, %s", w.R(n), w.R(n+1), w.R(i))
			}
		})
		fn.Ret()
	}
}

// packs writes the copy of rows of B into panels.
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
}
