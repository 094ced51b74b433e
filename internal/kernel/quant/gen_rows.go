//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Offsets of the fields of levels.
const (
	offLo    = 0
	offHi    = 4
	offZero  = 8
	offScale = 12
)

// pointer is a parameter that points to elements of a type.
func pointer(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }

// served makes a kernel the answer of all sets.
func served(f *asm.File, entry, code string) {
	for _, s := range sets {
		f.Serve(entry, s, code)
	}
}

// rowKernels writes the kernels of rows: those of floats for each set, the others with AVX2's vectors.
func rowKernels(f *asm.File) {
	levelOffsets(f)
	widens(f)
	flips(f)
	looks(f)
	interleaves(f)
	quantizes(f)
	dequantizes(f)
	columnKernels(f)
	channelSums(f)
	twices(f)
	extents(f)
	requantizes(f)
	scales(f)
	subtracts(f)
	sumRows(f)
	largers(f)
	transposes(f)
	taps(f)
}

// levelOffsets emits Go source that does not compile where levels and this program disagree.
func levelOffsets(f *asm.File) {
	f.Import("unsafe")
	f.Go(fmt.Sprintf("// The offsets that the assembly assumes.\nvar (\n_ = [1]byte{}[unsafe.Offsetof(levels{}.lo)-%d]\n"+
		"_ = [1]byte{}[unsafe.Offsetof(levels{}.hi)-%d]\n_ = [1]byte{}[unsafe.Offsetof(levels{}.zero)-%d]\n"+
		"_ = [1]byte{}[unsafe.Offsetof(levels{}.scale)-%d]\n)\n", offLo, offHi, offZero, offScale))
}

// kinds are the two kinds of bytes, and what extends them.
var kinds = []struct{ name, words, numbers string }{{"Unsigned", "VPMOVZXBW", "VPMOVZXBD"}, {"Signed", "VPMOVSXBW", "VPMOVSXBD"}}

func flips(f *asm.File) {
	fn := f.Func("flip2", "flip2 writes the bytes of src with their upper bits turned around, n groups of 32; n > 0.",
		pointer("dst", "byte"), pointer("src", "byte"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("n", "CX")
	fn.I("MOVL $0x80808080, AX")
	fn.I("MOVQ AX, X1")
	fn.I("VPBROADCASTD X1, Y1")
	fn.Loop("CX", func() {
		fn.I("VPXOR (SI), Y1, Y0")
		fn.I("VMOVDQU Y0, (DI)")
		fn.I("ADDQ $32, SI")
		fn.I("ADDQ $32, DI")
	})
	fn.Ret()
	served(f, "flip", "flip2(dst, src, n)")
}

// looks writes the kernel of tables: VPERMI2B chooses by seven bits in either half of the table, and the eighth says which half counts.
func looks(f *asm.File) {
	fn := f.Func("lookVBMI", "lookVBMI writes what a table has for the bytes of src, n groups of 64; n > 0.",
		pointer("dst", "byte"), pointer("src", "byte"), pointer("table", "[256]byte"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("table", "BX")
	fn.Load("n", "CX")
	for i := range 4 {
		fn.I("VMOVDQU64 %d(BX), Z%d", 64*i, 4+i)
	}
	fn.Loop("CX", func() {
		fn.I("VMOVDQU64 (SI), Z0")
		fn.I("VPMOVB2M Z0, K1")
		fn.I("VMOVDQA64 Z0, Z1")
		fn.I("VPERMI2B Z5, Z4, Z0")
		fn.I("VPERMI2B Z7, Z6, Z1")
		fn.I("VPBLENDMB Z1, Z0, K1, Z0")
		fn.I("VMOVDQU64 Z0, (DI)")
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
	lookShuffled(f)
	f.Serve("look", asm.AVX512(), "if permutes {\nlookVBMI(dst, src, table, n)\n} else {\nlook2(dst, src, table, n)\n}")
	f.Serve("look", asm.AVX2(), "look2(dst, src, table, n)")
}

// lookShuffled writes the kernel of tables for AVX2. VPSHUFB chooses among 16 bytes, by four bits, and has 0 where the upper bit is set. So
// 16 is taken from the places again and again, until they are negative, and what is chosen from the table's next 16 bytes, each less the
// byte in front of it in the sense of an exclusive or, is added in that sense. That is done for either half of the table.
func lookShuffled(f *asm.File) {
	words := make([]uint32, 16)
	for i := range words {
		words[i] = 0x10101010 << (i / 8 * 3)
	}
	f.Data("sixteens", words...) // and upper bits
	fn := f.Func("look2", "look2 writes what a table has for the bytes of src, n groups of 64; n > 0.",
		pointer("dst", "byte"), pointer("src", "byte"), pointer("table", "[256]byte"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("table", "BX")
	fn.Load("n", "CX")
	fn.I("VMOVDQU %s, Y15", asm.DataAt("sixteens", 0))
	fn.I("VMOVDQU %s, Y14", asm.DataAt("sixteens", 32))
	fn.Loop("CX", func() {
		for half := range 2 {
			for v := range 2 {
				fn.I("VMOVDQU %d(SI), Y%d", 32*v, v)
				if half > 0 {
					fn.I("VPXOR Y14, Y%[1]d, Y%[1]d", v)
				}
			}
			for i := range 8 {
				chosen := "Y6"
				fn.I("VBROADCASTI128 %d(BX), Y%d", 16*(8*half+i), 4+i%2)
				if i == 0 {
					chosen = "Y4"
				} else {
					fn.I("VPXOR Y4, Y5, Y6")
				}
				for v := range 2 {
					if half+i == 0 {
						fn.I("VPSHUFB Y%d, %s, Y%d", v, chosen, 2+v)
					} else {
						fn.I("VPSHUFB Y%d, %s, Y%d", v, chosen, 7+v)
						fn.I("VPXOR Y%d, Y%[2]d, Y%[2]d", 7+v, 2+v)
					}
					if i < 7 {
						fn.I("VPSUBSB Y15, Y%[1]d, Y%[1]d", v)
					}
				}
			}
		}
		fn.I("VMOVDQU Y2, (DI)")
		fn.I("VMOVDQU Y3, 32(DI)")
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
}

func interleaves(f *asm.File) {
	fn := f.Func("interleave2", "interleave2 puts the bytes of four rows side by side, n groups of 16, ldd bytes apart in dst; n > 0.",
		pointer("dst", "byte"), pointer("src", "byte"), asm.Int("n"), asm.Int("ldd"), asm.Int("lds"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("n", "CX")
	fn.Load("ldd", "BX")
	fn.Load("lds", "R8")
	fn.I("LEAQ (R8)(R8*2), R9")
	fn.Loop("CX", func() {
		for i, at := range []string{"(SI)", "(SI)(R8*1)", "(SI)(R8*2)", "(SI)(R9*1)"} {
			fn.I("VMOVDQU %s, X%d", at, i)
		}
		for i := range 2 {
			fn.I("VPUNPCKLBW X%d, X%d, X%d", 2*i+1, 2*i, 4+2*i)
			fn.I("VPUNPCKHBW X%d, X%d, X%d", 2*i+1, 2*i, 5+2*i)
		}
		for i := range 2 {
			fn.I("VPUNPCKLWD X%d, X%d, X8", 6+i, 4+i)
			fn.I("VPUNPCKHWD X%d, X%d, X9", 6+i, 4+i)
			fn.I("VMOVDQU X8, %d(DI)", 32*i)
			fn.I("VMOVDQU X9, %d(DI)", 32*i+16)
		}
		fn.I("ADDQ $16, SI")
		fn.I("ADDQ BX, DI")
	})
	fn.Ret()
	served(f, "interleave", "interleave2(dst, src, n, ldd, lds)")
}

// loadLevels loads the levels at a register: the scale to vector 12, the zero point to 13, the limits to 14 and 15.
func loadLevels(fn *asm.Func, v asm.ISA, at string) {
	fn.I("VBROADCASTSS %d(%s), %s", offScale, at, v.R(12))
	fn.I("VPBROADCASTD %d(%s), %s", offZero, at, v.R(13))
	fn.I("VBROADCASTSS %d(%s), %s", offLo, at, v.R(14))
	fn.I("VBROADCASTSS %d(%s), %s", offHi, at, v.R(15))
}

// bytesMask loads to vector 11 of AVX2 words of 255.
func bytesMask(fn *asm.Func, v asm.ISA) {
	if !v.Masks {
		fn.I("VPCMPEQD Y11, Y11, Y11")
		fn.I("VPSRLW $8, Y11, Y11")
	}
}

// bytesVectors is the number of vectors of floats that make 16 bytes: vectors 0, or 0 and 1.
func bytesVectors(v asm.ISA) int { return 16 / v.Lanes }

// storeBytes bounds the 16 floats in vectors 0 and on, rounds them to even, adds the zero point and stores the lowest bytes at DI.
func storeBytes(fn *asm.Func, v asm.ISA) {
	for i := range bytesVectors(v) {
		x := v.R(i)
		fn.I("VMAXPS %s, %s, %s", v.R(14), x, x)
		fn.I("VMINPS %s, %s, %s", v.R(15), x, x)
		fn.I("VCVTPS2DQ %s, %s", x, x)
		fn.I("VPADDD %s, %s, %s", v.R(13), x, x)
	}
	if v.Masks {
		fn.I("VPMOVDB Z0, X0")
		fn.I("VMOVDQU X0, (DI)")
		return
	}
	fn.I("VPACKSSDW Y1, Y0, Y0")
	fn.I("VPERMQ $0xd8, Y0, Y0")
	fn.I("VPAND Y11, Y0, Y0")
	fn.I("VEXTRACTI128 $1, Y0, X1")
	fn.I("VPACKUSWB X1, X0, X0")
	fn.I("VMOVDQU X0, (DI)")
}

// named returns the name of a kernel of floats for a set.
func named(name string, v asm.ISA) string {
	if v.Masks {
		return name + "512"
	}
	return name + "2"
}

func quantizes(f *asm.File) {
	for _, v := range sets {
		name := named("quantize", v)
		fn := f.Func(name, name+" rounds src/scale, adds the zero point and bounds it, for n groups of 16; n > 0. NaN becomes the least.",
			pointer("dst", "byte"), asm.Ptr("src"), pointer("l", "levels"), asm.Int("n"))
		fn.Load("dst", "DI")
		fn.Load("src", "SI")
		fn.Load("l", "BX")
		fn.Load("n", "CX")
		loadLevels(fn, v, "BX")
		bytesMask(fn, v)
		fn.Loop("CX", func() {
			for i := range bytesVectors(v) {
				x := v.R(i)
				fn.I("VMOVUPS %d(SI), %s", v.Size()*i, x)
				fn.I("VDIVPS %s, %s, %s", v.R(12), x, x)
			}
			storeBytes(fn, v)
			fn.I("ADDQ $64, SI")
			fn.I("ADDQ $16, DI")
		})
		fn.Ret()
		f.Serve("quantize", v, name+"(dst, src, l, n)")
	}
}

func dequantizes(f *asm.File) {
	for _, v := range sets {
		for _, k := range kinds {
			name := named("dequantize"+k.name, v)
			fn := f.Func(name, name+" writes (src - zero)*scale for n groups of 16; n > 0.",
				asm.Ptr("dst"), pointer("src", "byte"), pointer("l", "levels"), asm.Int("n"))
			fn.Load("dst", "DI")
			fn.Load("src", "SI")
			fn.Load("l", "BX")
			fn.Load("n", "CX")
			loadLevels(fn, v, "BX")
			fn.Loop("CX", func() {
				for i := range bytesVectors(v) {
					x := v.R(i)
					fn.I("%s %d(SI), %s", k.numbers, v.Lanes*i, x)
					fn.I("VPSUBD %s, %s, %s", v.R(13), x, x)
					fn.I("VCVTDQ2PS %s, %s", x, x)
					fn.I("VMULPS %s, %s, %s", v.R(12), x, x)
					fn.I("VMOVUPS %s, %d(DI)", x, v.Size()*i)
				}
				fn.I("ADDQ $16, SI")
				fn.I("ADDQ $64, DI")
			})
			fn.Ret()
		}
		const with = "(dst, src, l, n)"
		f.Serve("dequantize", v, "if signed {\n"+named("dequantizeSigned", v)+with+"\n} else {\n"+named("dequantizeUnsigned", v)+with+"\n}")
	}
}

func extents(f *asm.File) {
	fn := f.Func("extent2", "extent2 widens the extremes at dst by n groups of 8 elements of src; n > 0.",
		pointer("dst", "extremes"), asm.Ptr("src"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("n", "CX")
	for i := range 3 {
		fn.I("VMOVUPS %d(DI), Y%d", 32*i, i)
	}
	fn.Loop("CX", func() {
		fn.I("VMOVUPS (SI), Y3")
		fn.I("VMINPS Y3, Y0, Y0")
		fn.I("VMAXPS Y3, Y1, Y1")
		fn.I("VCMPPS $3, Y3, Y3, Y4")
		fn.I("VORPS Y4, Y2, Y2")
		fn.I("ADDQ $32, SI")
	})
	for i := range 3 {
		fn.I("VMOVUPS Y%d, %d(DI)", i, 32*i)
	}
	fn.Ret()
	served(f, "extent", "extent2(dst, src, n)")
}

// sumRowArgs are the arguments of kernels of rows of sums; sumRow loads them and emits a row after the other: ldd and lds are the
// bytes between rows, and body does 16 columns and moves DI on.
var sumRowArgs = []asm.Arg{pointer("sums", "int32"), asm.Ptr("scale"), asm.Ptr("bias"), pointer("l", "levels"),
	asm.Int("n"), asm.Int("rows"), asm.Int("ldd"), asm.Int("lds")}

func sumRow(fn *asm.Func, body func()) {
	fn.Load("dst", "R9")
	fn.Load("sums", "R10")
	fn.Load("rows", "R11")
	fn.Load("ldd", "R12")
	fn.Load("lds", "R13")
	fn.Loop("R11", func() {
		fn.I("MOVQ R9, DI")
		fn.I("MOVQ R10, SI")
		fn.Load("scale", "AX")
		fn.Load("bias", "R8")
		fn.Load("n", "CX")
		fn.Loop("CX", func() {
			body()
			for _, r := range []string{"SI", "AX", "R8"} {
				fn.I("ADDQ $64, %s", r)
			}
		})
		fn.I("ADDQ R12, R9")
		fn.I("ADDQ R13, R10")
	})
}

// scaled makes floats of the sums of vector i of a group.
func scaled(fn *asm.Func, v asm.ISA, i int) {
	x, at := v.R(i), v.Size()*i
	fn.I("VCVTDQ2PS %d(SI), %s", at, x)
	fn.I("VMULPS %d(AX), %s, %s", at, x, x)
	fn.I("VADDPS %d(R8), %s, %s", at, x, x)
}

func requantizes(f *asm.File) {
	v := asm.AVX512()
	name := named("requantize", v)
	fn := f.Func(name, name+" rounds sums*scale + bias, adds the zero point and bounds it; rows, n > 0.",
		append([]asm.Arg{pointer("dst", "byte")}, sumRowArgs...)...)
	fn.Load("l", "BX")
	loadLevels(fn, v, "BX")
	sumRow(fn, func() {
		scaled(fn, v, 0)
		storeBytes(fn, v)
		fn.I("ADDQ $16, DI")
	})
	fn.Ret()
	for _, v := range sets {
		f.Serve("requantize", v, named("requantize", v)+"(dst, sums, scale, bias, l, n, rows, ldd, 4*lds)")
	}
	requantizeWords(f)
}

// requantizeWords writes requantize for AVX2, of 16 columns after the other, two rows at a time, and a last one alone. Floats are bounded by the upper limit alone, so that
// integers of 32 bits hold them, and words by the lower one. What is less than integers are becomes the least of them, and NaN too.
//
// Registers: BX sums and CX integers of 16 columns, SI and DI those of a row, AX factors, R8 addends, R9 columns left, R11 rows left, R12 and R13 the distances of rows. Vectors 0 to 3
// are sums, 4 and 5 factors, 6 and 7 addends, 10 the order in which quarters of words become bytes, 11 words of 255, 13 the zero point and 14 the lower limit in
// words, 15 the upper one, less the zero point, in floats.
func requantizeWords(f *asm.File) {
	f.Data("quartersInOrder", 0, 4, 1, 5, 2, 6, 3, 7)
	fn := f.Func("requantize2", "requantize2 rounds sums*scale + bias, adds the zero point and bounds it; rows, n > 0.",
		append([]asm.Arg{pointer("dst", "byte")}, sumRowArgs...)...)
	v := asm.AVX2()
	for _, a := range [][2]string{{"l", "BX"}, {"dst", "CX"}, {"scale", "AX"}, {"bias", "R8"}, {"n", "R9"}, {"ldd", "R12"}, {"lds", "R13"}} {
		fn.Load(a[0], a[1])
	}
	loadLevels(fn, v, "BX")
	fn.Load("sums", "BX")
	bytesMask(fn, v)
	fn.I("VCVTPS2DQ Y14, Y14")
	fn.I("VPADDD Y13, Y14, Y14")
	fn.I("VPACKSSDW Y13, Y13, Y13")
	fn.I("VPACKSSDW Y14, Y14, Y14")
	fn.I("VMOVDQU %s, Y10", asm.DataAt("quartersInOrder", 0))
	words := func(to int, offset string) { // of a row
		for j := range 2 {
			fn.I("VCVTDQ2PS %d(SI)%s, Y%d", 32*j, offset, to+j)
			fn.I("VMULPS Y%d, Y%[2]d, Y%[2]d", 4+j, to+j)
			fn.I("VADDPS Y%d, Y%[2]d, Y%[2]d", 6+j, to+j)
			fn.I("VMINPS Y%[1]d, Y15, Y%[1]d", to+j)
			fn.I("VCVTPS2DQ Y%[1]d, Y%[1]d", to+j)
		}
		fn.I("VPACKSSDW Y%d, Y%[2]d, Y%[2]d", to+1, to)
		fn.I("VPADDSW Y13, Y%[1]d, Y%[1]d", to)
		fn.I("VPMAXSW Y14, Y%[1]d, Y%[1]d", to)
		fn.I("VPAND Y11, Y%[1]d, Y%[1]d", to)
	}
	fn.Loop("R9", func() {
		for j := range 2 {
			fn.I("VMOVUPS %d(AX), Y%d", 32*j, 4+j)
			fn.I("VMOVUPS %d(R8), Y%d", 32*j, 6+j)
		}
		fn.I("MOVQ BX, SI")
		fn.I("MOVQ CX, DI")
		fn.Load("rows", "R11")
		fn.While("R11", 2, func() {
			words(0, "")
			words(2, "(R13*1)")
			fn.I("VPACKUSWB Y2, Y0, Y0")
			fn.I("VPERMD Y0, Y10, Y0")
			fn.I("VMOVDQU X0, (DI)")
			fn.I("VEXTRACTI128 $1, Y0, (DI)(R12*1)")
			fn.I("LEAQ (SI)(R13*2), SI")
			fn.I("LEAQ (DI)(R12*2), DI")
		})
		last := fn.NewLabel("last")
		fn.I("TESTQ R11, R11")
		fn.I("JZ %s", last)
		words(0, "")
		fn.I("VPACKUSWB Y0, Y0, Y0")
		fn.I("VPERMD Y0, Y10, Y0")
		fn.I("VMOVDQU X0, (DI)")
		fn.Label(last)
		for _, r := range []string{"BX", "AX", "R8"} {
			fn.I("ADDQ $64, %s", r)
		}
		fn.I("ADDQ $16, CX")
	})
	fn.Ret()
}

func scales(f *asm.File) {
	for _, v := range sets {
		name := named("scale", v)
		fn := f.Func(name, name+" writes float32(sums)*scale + bias; rows, n > 0. l is not looked at.",
			append([]asm.Arg{asm.Ptr("dst")}, sumRowArgs...)...)
		sumRow(fn, func() {
			for i := range bytesVectors(v) {
				scaled(fn, v, i)
				fn.I("VMOVUPS %s, %d(DI)", v.R(i), v.Size()*i)
			}
			fn.I("ADDQ $64, DI")
		})
		fn.Ret()
		f.Serve("scale", v, name+"(dst, sums, scale, bias, nil, n, rows, 4*ldd, 4*lds)")
	}
}

func largers(f *asm.File) {
	for i, k := range kinds {
		name := "larger" + k.name
		fn := f.Func(name, name+" writes the larger of a and b for n groups of 16; n > 0.",
			pointer("dst", "byte"), pointer("a", "byte"), pointer("b", "byte"), asm.Int("n"))
		fn.Load("dst", "DI")
		fn.Load("a", "SI")
		fn.Load("b", "DX")
		fn.Load("n", "CX")
		fn.Loop("CX", func() {
			fn.I("VMOVDQU (SI), X0")
			fn.I("%s (DX), X0, X0", []string{"VPMAXUB", "VPMAXSB"}[i])
			fn.I("VMOVDQU X0, (DI)")
			for _, r := range []string{"SI", "DX", "DI"} {
				fn.I("ADDQ $16, %s", r)
			}
		})
		fn.Ret()
	}
	served(f, "larger", "if signed {\nlargerSigned(dst, a, b, n)\n} else {\nlargerUnsigned(dst, a, b, n)\n}")
}

func subtracts(f *asm.File) {
	fn := f.Func("subtract2", "subtract2 takes times*what from sums, for n groups of 8; n > 0.",
		pointer("sums", "int32"), pointer("what", "int32"), asm.Int("times"), asm.Int("n"))
	fn.Load("sums", "DI")
	fn.Load("what", "SI")
	fn.Load("n", "CX")
	fn.I("VPBROADCASTD %s, Y1", fn.Addr("times"))
	fn.Loop("CX", func() {
		fn.I("VPMULLD (SI), Y1, Y0")
		fn.I("VMOVDQU (DI), Y2")
		fn.I("VPSUBD Y0, Y2, Y2")
		fn.I("VMOVDQU Y2, (DI)")
		fn.I("ADDQ $32, SI")
		fn.I("ADDQ $32, DI")
	})
	fn.Ret()
	served(f, "subtract", "subtract2(sums, what, times, n)")
}

func sumRows(f *asm.File) {
	for _, k := range kinds {
		name := "sum" + k.name
		fn := f.Func(name, name+" returns the sum of n groups of 16 elements; n > 0.", pointer("src", "byte"), asm.Int("n"))
		fn.Result("ret", "int32")
		fn.Load("src", "SI")
		fn.Load("n", "CX")
		fn.I("VPXOR Y0, Y0, Y0")
		fn.I("VPCMPEQD Y1, Y1, Y1")
		fn.I("VPSRLW $15, Y1, Y1") // ones
		fn.Loop("CX", func() {
			fn.I("%s (SI), Y2", k.words)
			fn.I("VPMADDWD Y2, Y1, Y2")
			fn.I("VPADDD Y2, Y0, Y0")
			fn.I("ADDQ $16, SI")
		})
		fn.I("VEXTRACTI128 $1, Y0, X1")
		fn.I("VPADDD X1, X0, X0")
		fn.I("VPHADDD X0, X0, X0")
		fn.I("VPHADDD X0, X0, X0")
		fn.I("VMOVD X0, AX")
		fn.I("MOVL AX, %s", fn.Addr("ret"))
		fn.Ret()
	}
	served(f, "sum", "if signed {\nreturn sumSigned(src, n)\n}\nreturn sumUnsigned(src, n)")
}

// transposes writes the transposition of 16 rows of 16 bytes. Each register has row i in its lower half and row i+8 in the upper;
// interleaving bytes, words and doublewords makes columns of 8 of the halves, which are then put one behind the other.
func transposes(f *asm.File) {
	fn := f.Func("transpose2", "transpose2 transposes n blocks of 16 x 16 bytes that lie side by side in src, below each other in dst; n > 0.",
		pointer("dst", "byte"), pointer("src", "byte"), asm.Int("ldd"), asm.Int("lds"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("ldd", "R8")
	fn.Load("lds", "R9")
	fn.Load("n", "CX")
	interleave := func(kind string, a, b, lo, hi int) {
		fn.I("VPUNPCKL%s Y%d, Y%d, Y%d", kind, b, a, lo)
		fn.I("VPUNPCKH%s Y%d, Y%d, Y%d", kind, b, a, hi)
	}
	fn.Loop("CX", func() {
		fn.I("MOVQ SI, AX")
		fn.I("LEAQ (SI)(R9*8), BX")
		for i := range 8 {
			fn.I("VMOVDQU (AX), X%d", i)
			fn.I("VINSERTI128 $1, (BX), Y%d, Y%d", i, i)
			fn.I("ADDQ R9, AX")
			fn.I("ADDQ R9, BX")
		}
		for i := range 4 {
			interleave("BW", 2*i, 2*i+1, 8+2*i, 9+2*i)
		}
		for half := range 2 {
			interleave("WD", 8+4*half, 10+4*half, 4*half, 4*half+1)
			interleave("WD", 9+4*half, 11+4*half, 4*half+2, 4*half+3)
		}
		for i := range 4 {
			interleave("DQ", i, 4+i, 8+2*i, 9+2*i)
		}
		for i := range 8 {
			fn.I("VPERMQ $0xd8, Y%d, Y%d", 8+i, 8+i)
			fn.I("VMOVDQU X%d, (DI)", 8+i)
			fn.I("ADDQ R8, DI")
			fn.I("VEXTRACTI128 $1, Y%d, (DI)", 8+i)
			fn.I("ADDQ R8, DI")
		}
		fn.I("ADDQ $16, SI")
	})
	fn.Ret()
	served(f, "transpose", "transpose2(dst, src, ldd, lds, n)")
}
