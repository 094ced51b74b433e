//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Offsets of the fields of weighParams.
const (
	offOffsets = 0
	offWeights = 8
	offPairs   = 16
	offFours   = 24
	offStep    = 32
	offTo      = 40
	offStart   = 48
	offFactor  = 56
	offAddend  = 64
	offBounds  = 72
)

// weighs writes the kernels of depthwise convolutions that round their sums, of 16, 32 and 64 channels: the bytes of four taps are
// interleaved, so that one product adds them, which puts the channels of each quarter of a vector in order over four vectors of sums;
// packing the results puts them back.
func weighs(f *asm.File) {
	for i, letter := range []string{"X", "Y", "Z"} {
		weigh(f, letter, 16<<i)
	}
	f.Serve("weigh", asm.AVX512(), "switch channels {\ncase 64:\nweigh64(p, a, dst, n)\ncase 32:\nweigh32(p, a, dst, n)\ndefault:\nweigh16(p, a, dst, n)\n}")
	f.Import("unsafe")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, c := range []struct {
		name string
		off  int
	}{{"offsets", offOffsets}, {"weights", offWeights}, {"pairs", offPairs}, {"fours", offFours}, {"step", offStep}, {"ldd", offTo},
		{"start", offStart}, {"factors", offFactor}, {"bias", offAddend}, {"rounding", offBounds}} {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(weighParams{}.%s)-%d]\n", c.name, c.off)
	}
	f.Go(src + ")\n")
}

// weigh writes a kernel.
//
// Registers: DI params, SI offsets, R8 weights, R12 the window, R13 the result, CX windows left, DX taps left; vectors 0 to 3 sums, 4 to
// 11 taps, 12 to 15 addends, 16 to 19 factors, 20 to 23 what sums begin with, 24 to 28 limits.
func weigh(f *asm.File, letter string, channels int) {
	name := fmt.Sprintf("weigh%d", channels)
	fn := f.Func(name, fmt.Sprintf("%s weighs n windows of %d channels; n > 0; see weighParams.", name, channels),
		pointer("p", "weighParams"), pointer("a", "byte"), pointer("dst", "byte"), asm.Int("n"))
	v := func(i int) string { return fmt.Sprintf("%s%d", letter, i) }
	fn.Load("p", "DI")
	fn.Load("a", "R12")
	fn.Load("dst", "R13")
	fn.Load("n", "CX")
	fn.I("MOVQ %d(DI), AX", offBounds)
	loadLimits(fn, letter, 24)
	for i, off := range []int{offAddend, offFactor, offStart} {
		fn.I("MOVQ %d(DI), AX", off)
		for j := range 4 {
			fn.I("VMOVDQU32 %d(AX), %s", channels*j, v(12+4*i+j))
		}
	}
	fn.Loop("CX", func() {
		fn.I("MOVQ %d(DI), SI", offOffsets)
		fn.I("MOVQ %d(DI), R8", offWeights)
		for j := range 4 {
			fn.I("VMOVDQA32 %s, %s", v(20+j), v(j))
		}
		fn.I("MOVQ %d(DI), DX", offFours)
		each(fn, "DX", func() { weighTaps(fn, v, channels, 4) })
		fn.I("MOVQ %d(DI), DX", offPairs)
		each(fn, "DX", func() { weighTaps(fn, v, channels, 2) })
		for j := range 4 {
			toNumbers(fn, v(j), v(24), v(16+j), v(12+j))
		}
		for j := 0; j < 4; j += 2 {
			fn.I("VPACKSSDW %s, %s, %s", v(j+1), v(j), v(j))
			fn.I("VPADDSW %s, %s, %s", v(25), v(j), v(j))
		}
		fn.I("VPACKSSWB %s, %s, %s", v(2), v(0), v(0))
		bound(fn, letter, 26, v(0))
		fn.I("VMOVDQU32 %s, (R13)", v(0))
		fn.I("ADDQ %d(DI), R12", offStep)
		fn.I("ADDQ %d(DI), R13", offTo)
	})
	fn.Ret()
}

// each emits a loop that may run no times.
func each(fn *asm.Func, count string, body func()) {
	end := fn.NewLabel("none")
	fn.I("TESTQ %s, %s", count, count)
	fn.I("JZ %s", end)
	fn.Loop(count, body)
	fn.Label(end)
}

// weighTaps emits four taps, or two of which the weights of another two are zeros.
func weighTaps(fn *asm.Func, v func(int) string, channels, taps int) {
	for t := range taps {
		at := fmt.Sprintf("R%d", 9+t%2)
		fn.I("MOVQ %d(SI), %s", 8*t, at)
		fn.I("VMOVDQU32 (R12)(%s*1), %s", at, v(4+t))
	}
	for t := 0; t < taps; t += 2 {
		fn.I("VPUNPCKLBW %s, %s, %s", v(5+t), v(4+t), v(8+t))
		fn.I("VPUNPCKHBW %s, %s, %s", v(5+t), v(4+t), v(9+t))
	}
	for j := range 4 {
		half := 8 + j/2
		kind := []string{"L", "H"}[j%2]
		fn.I("VPUNPCK%sWD %s, %s, %s", kind, v(half+taps-2), v(half), v(4+j))
	}
	for j := range 4 {
		fn.I("VPDPBUSD %d(R8), %s, %s", channels*j, v(4+j), v(j))
	}
	fn.I("ADDQ $%d, SI", 8*taps)
	fn.I("ADDQ $%d, R8", 4*channels)
}
