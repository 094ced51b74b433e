//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Offsets of the fields of addParams.
const (
	offScaleA  = 0
	offScaleB  = 4
	offResult  = 8
	offInverse = 12
	offZeroA   = 16
	offZeroB   = 20
	offBound   = 24
)

// adds writes the kernels that add integers of 8 bits as floats. The quotient by the result's scale is a product by its inverse and what
// that leaves.
func adds(f *asm.File) {
	for _, k := range kinds {
		fn := f.Func("add"+k.name, "add"+k.name+" adds n groups of 64 integers; n > 0; see addParams.",
			pointer("p", "addParams"), pointer("dst", "byte"), pointer("a", "byte"), pointer("b", "byte"), asm.Int("n"))
		fn.Load("p", "BX")
		fn.Load("dst", "DI")
		fn.Load("a", "SI")
		fn.Load("b", "DX")
		fn.Load("n", "CX")
		for i, off := range []int{offScaleA, offScaleB, offResult, offInverse} {
			fn.I("VBROADCASTSS %d(BX), Z%d", off, 16+i)
		}
		fn.I("VPBROADCASTD %d(BX), Z20", offZeroA)
		fn.I("VPBROADCASTD %d(BX), Z21", offZeroB)
		fn.I("LEAQ %d(BX), AX", offBound)
		loadLimits(fn, "Z", 24)
		fn.I("VMOVDQU32 %d(AX), Z29", offOrder)
		fn.Loop("CX", func() {
			for i := range 4 {
				for j, at := range []string{"SI", "DX"} {
					x := asm.Z(4*j + i)
					fn.I("%s %d(%s), %s", k.numbers, 16*i, at, x)
					fn.I("VPSUBD Z%d, %s, %s", 20+j, x, x)
					fn.I("VCVTDQ2PS %s, %s", x, x)
					fn.I("VMULPS Z%d, %s, %s", 16+j, x, x)
				}
				x, q := asm.Z(i), asm.Z(4+i)
				fn.I("VADDPS %s, %s, %s", q, x, x)
				fn.I("VMULPS Z19, %s, %s", x, q)
				fn.I("VFNMADD231PS Z18, %s, %s", q, x)
				fn.I("VFMADD231PS Z19, %s, %s", x, q)
				fn.I("VCVTPS2DQ %s, %s", q, q)
			}
			for i := 4; i < 8; i += 2 {
				fn.I("VPACKSSDW Z%d, Z%d, Z%d", i+1, i, i)
				fn.I("VPADDSW Z25, Z%d, Z%d", i, i)
			}
			fn.I("VPACKSSWB Z6, Z4, Z4")
			bound(fn, "Z", 26, "Z4")
			fn.I("VPERMD Z4, Z29, Z4")
			fn.I("VMOVDQU32 Z4, (DI)")
			for _, r := range []string{"SI", "DX", "DI"} {
				fn.I("ADDQ $64, %s", r)
			}
		})
		fn.Ret()
	}
	f.Serve("add", asm.AVX512(), "if signed {\naddSigned(p, dst, a, b, n)\n} else {\naddUnsigned(p, dst, a, b, n)\n}")
	f.Import("unsafe")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		name string
		off  int
	}{{"scales", offScaleA}, {"scale", offResult}, {"inverse", offInverse}, {"zeros", offZeroA}, {"limits", offBound}} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(addParams{}.%s)-%d]\n", c.name, c.off)
	}
	f.Go(src + ")\n")
}
