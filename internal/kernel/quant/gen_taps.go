//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// taps writes the kernels of depthwise convolutions: two taps of 16 channels are interleaved, so that one product adds them. With
// VNNI that instruction adds it to the sums too.
func taps(f *asm.File) {
	call := func(set string) string {
		const with = "(p, a, rows, w, start, c, n)"
		return "if signed {\ntapsSigned" + set + with + "\n} else {\ntapsUnsigned" + set + with + "\n}"
	}
	for _, k := range kinds {
		tap(f, "taps"+k.name+"2", k.words, func(fn *asm.Func, off int, x, sum string) {
			fn.I("VPMADDWD %d(AX), %s, %s", off, x, x)
			fn.I("VPADDD %s, %s, %s", x, sum, sum)
		})
		tap(f, "taps"+k.name+"VNNI", k.words, func(fn *asm.Func, off int, x, sum string) {
			fn.I("VPDPWSSD %d(AX), %s, %s", off, x, sum)
		})
	}
	f.Serve("callTaps", asm.AVX512(), "if by == vnni {\n"+call("VNNI")+"\n} else {\n"+call("2")+"\n}")
	f.Serve("callTaps", asm.AVX2(), call("2"))
}

// tap writes a kernel whose products of weights, at an offset from AX, and vector x are added to a vector of sums by multiply. Pixels
// are taken two at a time, and a last one alone.
func tap(f *asm.File, name, widen string, multiply func(fn *asm.Func, off int, x, sum string)) {
	fn := f.Func(name, name+" sums taps of n pixels of 16 channels; n > 0; see tileParams.",
		pointer("p", "tileParams"), pointer("a", "byte"), pointer("rows", "int"), pointer("w", "int16"), pointer("start", "int32"),
		pointer("c", "int32"), asm.Int("n"))
	fn.Load("p", "DI")
	fn.Load("rows", "SI")
	fn.Load("c", "R15")
	fn.Load("n", "CX")
	fn.Load("start", "R10")
	fn.While("CX", 2, func() { tapPixels(fn, 2, widen, multiply) })
	end := fn.NewLabel("end")
	fn.I("TESTQ CX, CX")
	fn.I("JZ %s", end)
	tapPixels(fn, 1, widen, multiply)
	fn.Label(end)
	fn.Ret()
}

// tapPixels emits the taps of one or two pixels, whose addresses are BX and R11 and whose sums vectors 0 and 1, 2 and 3.
func tapPixels(fn *asm.Func, pixels int, widen string, multiply func(fn *asm.Func, off int, x, sum string)) {
	base := []string{"BX", "R11"}[:pixels]
	for i, r := range base {
		fn.Load("a", r)
		fn.I("ADDQ %d(SI), %s", 8*i, r)
		fn.I("VPXOR Y%d, Y%d, Y%d", 2*i, 2*i, 2*i)
		fn.I("VPXOR Y%d, Y%d, Y%d", 2*i+1, 2*i+1, 2*i+1)
	}
	fn.I("ADDQ $%d, SI", 8*pixels)
	fn.Load("w", "AX")
	fn.I("MOVQ %d(DI), R14", offSegments)
	fn.I("MOVQ %d(DI), DX", offCount)
	fn.Loop("DX", func() {
		fn.I("MOVQ (R14), R8")
		fn.I("MOVQ 8(R14), R9")
		for i, r := range base {
			y := 4 + 4*i
			fn.I("%s (%s)(R8*1), Y%d", widen, r, y)
			fn.I("%s (%s)(R9*1), Y%d", widen, r, y+1)
			fn.I("VPUNPCKLWD Y%d, Y%d, Y%d", y+1, y, y+2)
			fn.I("VPUNPCKHWD Y%d, Y%d, Y%d", y+1, y, y+3)
			multiply(fn, 0, fmt.Sprintf("Y%d", y+2), fmt.Sprintf("Y%d", 2*i))
			multiply(fn, 32, fmt.Sprintf("Y%d", y+3), fmt.Sprintf("Y%d", 2*i+1))
		}
		fn.I("ADDQ $16, R14")
		fn.I("ADDQ $64, AX")
	})
	for i := range base {
		fn.I("VPERM2I128 $0x20, Y%d, Y%d, Y4", 2*i+1, 2*i)
		fn.I("VPERM2I128 $0x31, Y%d, Y%d, Y5", 2*i+1, 2*i)
		fn.I("VPADDD (R10), Y4, Y4")
		fn.I("VPADDD 32(R10), Y5, Y5")
		fn.I("VMOVDQU Y4, (R15)")
		fn.I("VMOVDQU Y5, 32(R15)")
		fn.I("ADDQ %d(DI), R15", offLDC)
	}
}
