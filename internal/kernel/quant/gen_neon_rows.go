//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// neonRows writes the kernels of rows for NEON. Arguments are in general registers from 0 on, in their order.
func neonRows(f *asm.File) {
	neonWidens(f)
	neonFlips(f)
	neonInterleaves(f)
	neonQuantizes(f)
	neonDequantizes(f)
	neonColumns(f)
	neonChannelSums(f)
	neonExtents(f)
	neonRequantizes(f)
	neonScales(f)
	neonSubtracts(f)
	neonSums(f)
	neonLargers(f)
	neonTransposes(f)
}

// neonKinds writes a kernel for each kind of bytes, with the letter that says of which in names of instructions, and serves an entry with
// them.
func neonKinds(f *asm.File, entry, with, result string, write func(name, letter string)) {
	signed, unsigned := entry+"SignedNEON", entry+"UnsignedNEON"
	write(signed, "s")
	write(unsigned, "u")
	f.Serve(entry, asm.NEON(), fmt.Sprintf("if signed {\n%[1]s%[2]s%[4]s\n} else {\n%[1]s%[3]s%[4]s\n}", result, signed, unsigned, with))
}

func neonWidens(f *asm.File) {
	neonKinds(f, "widen", "(dst, odd, src, n)", "", func(name, letter string) {
		fn := f.Loaded(name, "widens n quads of bytes: elements 0 and 2 of each to dst, 1 and 3 behind an offset in bytes; n > 0.",
			pointer("dst", "int16"), asm.Int("odd"), pointer("src", "byte"), asm.Int("n"))
		fn.I("ADD R0, R1")
		for _, quads := range []int{4, 1} {
			move := map[int]string{4: "FMOVQ.P", 1: "FMOVS.P"}[quads]
			fn.While("R3", quads, func() {
				fn.I("%s %d(R2), F0", move, 4*quads)
				fn.VShift("shl.8h", 1, 0, 8)
				fn.VShift(letter+"shr.8h", 1, 1, 8)
				fn.VShift(letter+"shr.8h", 0, 0, 8)
				fn.I("%s F1, %d(R0)", move, 4*quads)
				fn.I("%s F0, %d(R1)", move, 4*quads)
			})
		}
		fn.Ret()
	})
}

func neonFlips(f *asm.File) {
	fn := f.Loaded("flipNEON", "writes the bytes of src with their upper bits turned around, n groups of 32; n > 0.",
		pointer("dst", "byte"), pointer("src", "byte"), asm.Int("n"))
	fn.I("VMOVI $128, V2.B16")
	fn.Loop("R2", func() {
		fn.I("FLDPQ.P 32(R1), (F0, F1)")
		fn.V("eor.16b", 0, 0, 2)
		fn.V("eor.16b", 1, 1, 2)
		fn.I("FSTPQ.P (F0, F1), 32(R0)")
	})
	fn.Ret()
	f.Serve("flip", asm.NEON(), "flipNEON(dst, src, n)")
}

func neonInterleaves(f *asm.File) {
	fn := f.Loaded("interleaveNEON", "puts the bytes of four rows side by side, n groups of 16, ldd bytes apart in dst; n > 0.",
		pointer("dst", "byte"), pointer("src", "byte"), asm.Int("n"), asm.Int("ldd"), asm.Int("lds"))
	fn.I("ADD R1, R4, R5")
	fn.I("ADD R5, R4, R6")
	fn.I("ADD R6, R4, R7")
	fn.Loop("R2", func() {
		for i, r := range []int{1, 5, 6, 7} {
			fn.I("FMOVQ.P 16(R%d), F%d", r, i)
		}
		fn.I("VST4 [V0.B16, V1.B16, V2.B16, V3.B16], (R0)")
		fn.I("ADD R3, R0")
	})
	fn.Ret()
	f.Serve("interleave", asm.NEON(), "interleaveNEON(dst, src, n, ldd, lds)")
}

// Vectors of levels.
const (
	neonScale = 28 + iota
	neonZero
	neonLo
	neonHi
)

// neonLevels loads the levels at a register.
func neonLevels(fn *asm.Func, at string) {
	for _, l := range []struct{ off, x int }{{offScale, neonScale}, {offZero, neonZero}, {offLo, neonLo}, {offHi, neonHi}} {
		fn.I("ADD $%d, %s, R16", l.off, at)
		fn.I("VLD1R (R16), [V%d.S4]", l.x)
	}
}

// neonBytes bounds the 16 floats in vectors 0 to 3, rounds them to even, adds the zero point and stores the lowest bytes at R0, which it
// moves on.
func neonBytes(fn *asm.Func) {
	for i := range 4 {
		fn.V("fmaxnm.4s", i, i, neonLo)
		fn.V("fmin.4s", i, i, neonHi)
		fn.V("fcvtns.4s", i, i)
		fn.V("add.4s", i, i, neonZero)
	}
	fn.V("xtn.4h", 4, 0)
	fn.V("xtn2.8h", 4, 1)
	fn.V("xtn.4h", 5, 2)
	fn.V("xtn2.8h", 5, 3)
	fn.V("xtn.8b", 6, 4)
	fn.V("xtn2.16b", 6, 5)
	fn.I("FMOVQ.P F6, 16(R0)")
}

func neonQuantizes(f *asm.File) {
	fn := f.Loaded("quantizeNEON", "rounds src/scale, adds the zero point and bounds it, for n groups of 16; n > 0. NaN becomes the least.",
		pointer("dst", "byte"), asm.Ptr("src"), pointer("l", "levels"), asm.Int("n"))
	neonLevels(fn, "R2")
	fn.Loop("R3", func() {
		fn.I("FLDPQ.P 32(R1), (F0, F1)")
		fn.I("FLDPQ.P 32(R1), (F2, F3)")
		for i := range 4 {
			fn.V("fdiv.4s", i, i, neonScale)
		}
		neonBytes(fn)
	})
	fn.Ret()
	f.Serve("quantize", asm.NEON(), "quantizeNEON(dst, src, l, n)")
}

func neonDequantizes(f *asm.File) {
	neonKinds(f, "dequantize", "(dst, src, l, n)", "", func(name, letter string) {
		fn := f.Loaded(name, "writes (src - zero)*scale for n groups of 16; n > 0.", asm.Ptr("dst"), pointer("src", "byte"), pointer("l", "levels"), asm.Int("n"))
		neonLevels(fn, "R2")
		fn.Loop("R3", func() {
			fn.I("FMOVQ.P 16(R1), F4")
			fn.V(letter+"xtl.8h", 5, 4)
			fn.V(letter+"xtl2.8h", 6, 4)
			for i := range 4 {
				fn.V(letter+[]string{"xtl.4s", "xtl2.4s"}[i%2], i, 5+i/2)
				fn.V("sub.4s", i, i, neonZero)
				fn.V("scvtf.4s", i, i)
				fn.V("fmul.4s", i, i, neonScale)
			}
			fn.I("FSTPQ.P (F0, F1), 32(R0)")
			fn.I("FSTPQ.P (F2, F3), 32(R0)")
		})
		fn.Ret()
	})
}

func neonExtents(f *asm.File) {
	fn := f.Loaded("extentNEON", "widens the extremes at dst by n groups of 8 elements of src; n > 0.", pointer("dst", "extremes"), asm.Ptr("src"), asm.Int("n"))
	for i := range 3 {
		fn.I("FLDPQ %d(R0), (F%d, F%d)", 32*i, 2*i, 2*i+1)
	}
	fn.V("mvn.16b", 4, 4) // of what was a number
	fn.V("mvn.16b", 5, 5)
	fn.Loop("R2", func() {
		fn.I("FLDPQ.P 32(R1), (F6, F7)")
		for i := range 2 {
			fn.V("fmin.4s", i, i, 6+i)
			fn.V("fmax.4s", 2+i, 2+i, 6+i)
			fn.V("fcmeq.4s", 8+i, 6+i, 6+i)
			fn.V("and.16b", 4+i, 4+i, 8+i)
		}
	})
	fn.V("mvn.16b", 4, 4)
	fn.V("mvn.16b", 5, 5)
	for i := range 3 {
		fn.I("FSTPQ (F%d, F%d), %d(R0)", 2*i, 2*i+1, 32*i)
	}
	fn.Ret()
	f.Serve("extent", asm.NEON(), "extentNEON(dst, src, n)")
}

// neonSumRow emits a row of sums after the other, for arguments as sumRowArgs: body makes sixteen results of the floats in vectors 0 to 3 and
// moves R0 on.
func neonSumRow(fn *asm.Func, body func()) {
	fn.Loop("R6", func() {
		for i, r := range []int{0, 1} { // of dst and sums
			fn.I("MOVD R%d, R%d", r, 19+i)
		}
		for i, arg := range []string{"scale", "bias"} {
			fn.Load(arg, fmt.Sprintf("R%d", 2+i))
		}
		fn.Load("n", "R5")
		fn.Loop("R5", func() {
			for half := range 2 {
				fn.I("FLDPQ.P 32(R1), (F%d, F%d)", 2*half, 2*half+1)
				for i, r := range []int{2, 3} {
					fn.I("FLDPQ.P 32(R%d), (F%d, F%d)", r, 8+2*i, 9+2*i)
				}
				for i := range 2 {
					x := 2*half + i
					fn.V("scvtf.4s", x, x)
					fn.V("fmul.4s", x, x, 8+i)
					fn.V("fadd.4s", x, x, 10+i)
				}
			}
			body()
		})
		fn.I("ADD R7, R19, R0")
		fn.I("ADD R8, R20, R1")
	})
}

func neonRequantizes(f *asm.File) {
	fn := f.Loaded("requantizeNEON", "rounds sums*scale + bias, adds the zero point and bounds it; rows, n > 0.",
		append([]asm.Arg{pointer("dst", "byte")}, sumRowArgs...)...)
	neonLevels(fn, "R4")
	neonSumRow(fn, func() { neonBytes(fn) })
	fn.Ret()
	f.Serve("requantize", asm.NEON(), "requantizeNEON(dst, sums, scale, bias, l, n, rows, ldd, 4*lds)")
}

func neonScales(f *asm.File) {
	fn := f.Loaded("scaleNEON", "writes float32sums*scale + bias; rows, n > 0. l is not looked at.",
		append([]asm.Arg{asm.Ptr("dst")}, sumRowArgs...)...)
	neonSumRow(fn, func() {
		fn.I("FSTPQ.P (F0, F1), 32(R0)")
		fn.I("FSTPQ.P (F2, F3), 32(R0)")
	})
	fn.Ret()
	f.Serve("scale", asm.NEON(), "scaleNEON(dst, sums, scale, bias, nil, n, rows, 4*ldd, 4*lds)")
}

func neonSubtracts(f *asm.File) {
	fn := f.Loaded("subtractNEON", "takes times*what from sums, for n groups of 8; n > 0.",
		pointer("sums", "int32"), pointer("what", "int32"), asm.Int("times"), asm.Int("n"))
	fn.I("VDUP R2, V4.S4")
	fn.Loop("R3", func() {
		fn.I("FLDPQ (R0), (F0, F1)")
		fn.I("FLDPQ.P 32(R1), (F2, F3)")
		fn.V("mls.4s", 0, 2, 4)
		fn.V("mls.4s", 1, 3, 4)
		fn.I("FSTPQ.P (F0, F1), 32(R0)")
	})
	fn.Ret()
	f.Serve("subtract", asm.NEON(), "subtractNEON(sums, what, times, n)")
}

func neonSums(f *asm.File) {
	neonKinds(f, "sum", "(src, n)", "return ", func(name, letter string) {
		fn := f.Func(name, name+" returns the sum of n groups of 16 elements; n > 0.", pointer("src", "byte"), asm.Int("n"))
		fn.Result("ret", "int32")
		fn.Load("src", "R0")
		fn.Load("n", "R1")
		fn.Clear(asm.NEON(), "V0")
		fn.Loop("R1", func() {
			fn.I("FMOVQ.P 16(R0), F1")
			fn.V(letter+"addlp.8h", 1, 1)
			fn.V(letter+"adalp.4s", 0, 1)
		})
		fn.I("VADDV V0.S4, V0")
		fn.I("FMOVS F0, %s", fn.Addr("ret"))
		fn.Ret()
	})
}

func neonLargers(f *asm.File) {
	neonKinds(f, "larger", "(dst, a, b, n)", "", func(name, letter string) {
		fn := f.Loaded(name, "writes the larger of a and b for n groups of 16; n > 0.", pointer("dst", "byte"), pointer("a", "byte"), pointer("b", "byte"), asm.Int("n"))
		fn.Loop("R3", func() {
			fn.I("FMOVQ.P 16(R1), F0")
			fn.I("FMOVQ.P 16(R2), F1")
			fn.V(letter+"max.16b", 0, 0, 1)
			fn.I("FMOVQ.P F0, 16(R0)")
		})
		fn.Ret()
	})
}

// neonTransposes writes the transposition of 16 rows of 16 bytes: in four steps, squares of 1, 2, 4 and 8 bytes beside the diagonals of
// larger ones change places, from registers 0 to 15 to 16 to 31 and back.
func neonTransposes(f *asm.File) {
	fn := f.Loaded("transposeNEON", "transposes n blocks of 16 x 16 bytes that lie side by side in src, below each other in dst; n > 0.",
		pointer("dst", "byte"), pointer("src", "byte"), asm.Int("ldd"), asm.Int("lds"), asm.Int("n"))
	fn.Loop("R4", func() {
		fn.I("MOVD R1, R5")
		for i := range 16 {
			fn.I("FMOVQ (R5), F%d", i)
			fn.I("ADD R3, R5")
		}
		from := 0
		for step, lanes := range []string{"16b", "8h", "4s", "2d"} {
			apart := 1 << step
			for i := range 16 {
				if i&apart == 0 {
					fn.V("trn1."+lanes, 16-from+i, from+i, from+i+apart)
					fn.V("trn2."+lanes, 16-from+i+apart, from+i, from+i+apart)
				}
			}
			from = 16 - from
		}
		for i := range 16 {
			fn.I("FMOVQ F%d, (R0)", i)
			fn.I("ADD R2, R0")
		}
		fn.I("ADD $16, R1")
	})
	fn.Ret()
	f.Serve("transpose", asm.NEON(), "transposeNEON(dst, src, ldd, lds, n)")
}
