//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// roundings writes the kernels that round rows of sums that lie in memory, as tiles of VNNI do in registers.
func roundings(f *asm.File) {
	code := "switch width {\n"
	for _, width := range []int{1, 2, 4} {
		r := &rounder{width: width}
		code += fmt.Sprintf("case %d:\n%s(p, sums, c, n)\n", width, r.emit(f))
	}
	f.Serve("roundRows", asm.AVX512(), code+"}")
}

// rounder is a kernel being written: of n rows, one below the other, width panels of sums become integers of 8 bits.
//
// Registers: AX limits, then left alone; BX sums and SI the distance of their rows, CX integers and R8 the distance of their rows, DX rows left. Vectors 16 to 19 are factors,
// 20 to 23 addends, 24 to 28 limits, 29 the order of the words of a row.
type rounder struct {
	*asm.Func
	width int
}

func (r *rounder) emit(f *asm.File) string {
	name := fmt.Sprintf("roundRows%d", 16*r.width)
	r.Func = f.Func(name, fmt.Sprintf("%s rounds n rows of %d sums; n > 0; see tileParams.", name, 16*r.width),
		asm.Typed("p", "*tileParams"), asm.Typed("sums", "*int32"), asm.Typed("c", "*byte"), asm.Int("n"))
	r.Load("p", "DI")
	r.I("MOVQ %d(DI), AX", offRounding)
	loadLimits(r.Func, "Z", 24)
	r.I("VMOVDQU32 %d(AX), Z29", offOrder)
	r.I("MOVQ %d(DI), SI", offFactors)
	r.I("MOVQ %d(DI), R8", offBias)
	r.I("KMOVQ %d(DI), K1", offColumns)
	for w := range r.width {
		r.I("VMOVUPS %d(SI), Z%d", 64*w, 16+w)
		r.I("VMOVUPS %d(R8), Z%d", 64*w, 20+w)
	}
	r.I("MOVQ %d(DI), SI", offLDS)
	r.I("MOVQ %d(DI), R8", offLDC)
	r.Load("sums", "BX")
	r.Load("c", "CX")
	r.Load("n", "DX")
	r.Loop("DX", r.row)
	r.Ret()
	return name
}

// row emits the rounding of a row.
func (r *rounder) row() {
	for w := range r.width {
		roundSums(r.Func, fmt.Sprintf("%d(BX)", 64*w), asm.Z(w), "Z24", asm.Z(16+w), asm.Z(20+w))
	}
	packBytes(r.Func, r.width, asm.Z)
	r.I("VMOVDQU8 Z0, K1, (CX)")
	r.I("ADDQ SI, BX")
	r.I("ADDQ R8, CX")
}
