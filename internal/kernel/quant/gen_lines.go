//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Offsets of the fields of lineParams.
const (
	offLineOffsets  = 0
	offLinePairs    = 8
	offLineStep     = 16
	offLineTo       = 24
	offLineRecord   = 32
	offLineBlock    = 40
	offLineRounding = 48
)

// lines writes the kernels of depthwise convolutions that multiply words in pairs, with AVX2: what puts pixels side by side, and what weighs them and rounds
// the sums.
func lines(f *asm.File) {
	for _, k := range kinds {
		pairLine(f, k.name, k.words)
	}
	served(f, "pairLine", "if signed {\npairLineSigned(dst, src, n, step, other, blocks, ldd)\n} else {\npairLineUnsigned(dst, src, n, step, other, blocks, ldd)\n}")
	weighLines(f)
	f.Serve("weighLines", asm.AVX2(), "weighLines16(p, a, record, dst, n, blocks)")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		name string
		off  int
	}{{"offsets", offLineOffsets}, {"pairs", offLinePairs}, {"step", offLineStep}, {"ldd", offLineTo}, {"record", offLineRecord}, {"block", offLineBlock},
		{"rounding", offLineRounding}} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(lineParams{}.%s)-%d]\n", c.name, c.off)
	}
	f.Go(src + ")\n")
}

// pairLine writes what puts pixels side by side.
func pairLine(f *asm.File, kind, words string) {
	name := "pairLine" + kind
	fn := f.Func(name, name+" puts 16 channels of n pixels and of others, other bytes behind them, side by side as words; n > 0. Pixels are step bytes apart. Of more blocks it is the next 16 channels, and ldd bytes behind.",
		pointer("dst", "int16"), pointer("src", "byte"), asm.Int("n"), asm.Int("step"), asm.Int("other"), asm.Int("blocks"), asm.Int("ldd"))
	for _, x := range [][2]string{{"dst", "R12"}, {"src", "R13"}, {"step", "R8"}, {"other", "R9"}, {"blocks", "R10"}, {"ldd", "R11"}} {
		fn.Load(x[0], x[1])
	}
	fn.Loop("R10", func() {
		fn.I("MOVQ R12, DI")
		fn.I("MOVQ R13, SI")
		fn.Load("n", "CX")
		fn.Loop("CX", func() {
			fn.I("%s (SI), Y0", words)
			fn.I("%s (SI)(R9*1), Y1", words)
			fn.I("VPUNPCKLWD Y1, Y0, Y2")
			fn.I("VPUNPCKHWD Y1, Y0, Y3")
			fn.I("VMOVDQU Y2, (DI)")
			fn.I("VMOVDQU Y3, 32(DI)")
			fn.I("ADDQ R8, SI")
			fn.I("ADDQ $64, DI")
		})
		fn.I("ADDQ R11, R12")
		fn.I("ADDQ $16, R13")
	})
	fn.Ret()
}

// weighLines writes the kernel that weighs lines, of four windows at a time and of what is left one by one.
//
// Registers: DI params, SI offsets, AX the block's record and R8 its weights, R9 an offset, R10 the distance of windows, R11 limits, R12 to R15 windows, BX
// results, CX windows left, DX pairs left. Vectors 0 to 7 are sums, two a window, 8 and 9 weights, 10 and 11 products, 12 to 15 limits.
func weighLines(f *asm.File) {
	fn := f.Func("weighLines16", "weighLines16 weighs n windows of so many blocks of 16 channels of lines; n, blocks > 0; see lineParams.",
		pointer("p", "lineParams"), pointer("a", "int16"), pointer("record", "int32"), pointer("dst", "byte"), asm.Int("n"), asm.Int("blocks"))
	fn.Load("p", "DI")
	fn.Load("record", "AX")
	fn.I("MOVQ %d(DI), R10", offLineStep)
	fn.I("MOVQ %d(DI), R11", offLineRounding)
	fn.I("VBROADCASTSS %d(R11), Y12", offTop)
	fn.I("VPBROADCASTW %d(R11), Y13", offMiddle)
	fn.I("VPBROADCASTB %d(R11), Y14", offLeast)
	fn.I("VPBROADCASTB %d(R11), Y15", offMost)
	fn.Label("block")
	fn.Load("a", "R12")
	fn.Load("dst", "BX")
	fn.Load("n", "CX")
	fn.While("CX", 4, func() {
		fn.I("LEAQ (R12)(R10*1), R13")
		fn.I("LEAQ (R12)(R10*2), R14")
		fn.I("LEAQ (R13)(R10*2), R15")
		weighWindows(fn, 4)
		fn.I("LEAQ (R12)(R10*4), R12")
	})
	end := fn.NewLabel("end")
	fn.I("TESTQ CX, CX")
	fn.I("JZ %s", end)
	fn.Loop("CX", func() {
		weighWindows(fn, 1)
		fn.I("ADDQ R10, R12")
	})
	fn.Label(end)
	fn.I("ADDQ %d(DI), AX", offLineRecord)
	fn.I("MOVQ %d(DI), R9", offLineBlock)
	fn.I("ADDQ R9, %s", fn.Addr("a"))
	fn.I("ADDQ $16, %s", fn.Addr("dst"))
	fn.I("DECQ %s", fn.Addr("blocks"))
	fn.I("JNZ block")
	fn.Ret()
}

// weighWindows emits the sums of some windows, rounded and stored.
func weighWindows(fn *asm.Func, windows int) {
	for j := range 2 {
		fn.I("VMOVDQU %d(AX), Y%d", 32*j, j)
		for w := 1; w < windows; w++ {
			fn.I("VMOVDQA Y%d, Y%d", j, 2*w+j)
		}
	}
	fn.I("MOVQ %d(DI), SI", offLineOffsets)
	fn.I("LEAQ 192(AX), R8")
	fn.I("MOVQ %d(DI), DX", offLinePairs)
	fn.Loop("DX", func() {
		fn.I("MOVQ (SI), R9")
		fn.I("VMOVDQU (R8), Y8")
		fn.I("VMOVDQU 32(R8), Y9")
		for w := range windows {
			for j := range 2 {
				fn.I("VPMADDWD %d(R%d)(R9*2), Y%d, Y%d", 32*j, 12+w, 8+j, 10+j)
				fn.I("VPADDD Y%d, Y%[2]d, Y%[2]d", 10+j, 2*w+j)
			}
		}
		fn.I("ADDQ $8, SI")
		fn.I("ADDQ $64, R8")
	})
	for j := range 2 {
		fn.I("VMOVUPS %d(AX), Y%d", 64+32*j, 8+j)
		fn.I("VMOVUPS %d(AX), Y%d", 128+32*j, 10+j)
	}
	plain, rounded := fn.NewLabel("plain"), fn.NewLabel("rounded")
	fn.I("CMPB %d(R11), $0", offPlain)
	fn.I("JNE %s", plain)
	for i := range 2 * windows {
		toNumbers(fn, fmt.Sprintf("Y%d", i), "Y12", fmt.Sprintf("Y%d", 8+i%2), fmt.Sprintf("Y%d", 10+i%2))
	}
	fn.I("JMP %s", rounded)
	fn.Label(plain)
	for i := range 2 * windows {
		plainNumbers(fn, fmt.Sprintf("Y%d", i), fmt.Sprintf("Y%d", 8+i%2))
	}
	fn.Label(rounded)
	for w := range windows {
		fn.I("VPACKSSDW Y%d, Y%[2]d, Y%[2]d", 2*w+1, 2*w)
		fn.I("VPADDSW Y13, Y%[1]d, Y%[1]d", 2*w)
	}
	fn.I("VPBROADCASTB %d(R11), Y11", offTurn)
	for w := 0; w < windows; w += 2 {
		fn.I("VPACKSSWB Y%d, Y%[2]d, Y%[2]d", min(2*w+2, 2*windows-2), 2*w)
		boundBytes(fn, 2*w, 14, 15, 11)
		fn.I("VPERMQ $0xd8, Y%[1]d, Y%[1]d", 2*w)
		fn.I("VMOVDQU X%d, (BX)", 2*w)
		fn.I("ADDQ %d(DI), BX", offLineTo)
		if w+1 < windows {
			fn.I("VEXTRACTI128 $1, Y%d, (BX)", 2*w)
			fn.I("ADDQ %d(DI), BX", offLineTo)
		}
	}
}

// boundBytes bounds the bytes of vector x of AVX2, and turns them, by vectors of limits.
func boundBytes(fn *asm.Func, x, least, most, turn int) {
	fn.I("VPMAXSB Y%d, Y%[2]d, Y%[2]d", least, x)
	fn.I("VPMINSB Y%d, Y%[2]d, Y%[2]d", most, x)
	fn.I("VPXOR Y%d, Y%[2]d, Y%[2]d", turn, x)
}
