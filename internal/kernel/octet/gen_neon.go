//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// neon writes the kernels for NEON. A vector has four columns: those of a panel come in quarters, one after the other.
func neon(f *asm.File) {
	code := "switch rows {\n"
	for _, rows := range []int{1, 4} {
		code += fmt.Sprintf("case %d:\n%s(dst, 4*ldd, a, 4*lda, w, scale, zero, blocks, groups, n)\n", rows, neonDot(f, rows))
	}
	f.Serve("callDot", asm.NEON(), code+"}")
	neonUnpack(f)
	f.Serve("unpack", asm.NEON(), "unpackNEON(dst, src, scale, zero, n)")
	roundedOffsets(f)
	code = "switch [3]int{bits, digits, rows} {\n"
	for _, rows := range []int{1, 4, 8} {
		k := &neonRounded{rows: rows}
		code += fmt.Sprintf("case [3]int{8, 1, %d}:\n%s(p, dst, a, w, scale, zero, n)\n", rows, k.emit(f))
	}
	f.Serve("callRounded", asm.NEON(), code+"}")
}

// neonByte has vector 30 be the bits of a lane's lowest byte.
func neonByte(fn *asm.Func) {
	fn.I("VMOVI $255, V30.B16")
	fn.VShift("ushr.4s", 30, 30, 24)
}

// neonZeros loads four zero points as floats.
func neonZeros(fn *asm.Func, at string, x int) {
	fn.I("FMOVS %s, F%d", at, x)
	fn.V("uxtl.8h", x, x)
	fn.V("uxtl.4s", x, x)
	fn.V("ucvtf.4s", x, x)
}

// neonWeights makes the bytes of vector 24 floats, less zero points: byte i of each lane in vector 20+i.
func neonWeights(fn *asm.Func, zero int) {
	for i := range 4 {
		x := 20 + i
		if i > 0 {
			fn.VShift("ushr.4s", x, 24, 8*i)
		}
		if i < 3 {
			fn.V("and.16b", x, map[bool]int{true: x, false: 24}[i > 0], 30)
		}
		fn.V("ucvtf.4s", x, x)
		fn.V("fsub.4s", x, x, zero)
	}
}

// neonDot writes the kernel of some rows. Vectors from 0 on are the rows' results, from 4 on the sums of a block, four for each row.
//
// Registers: R0 the result, R1 how far its rows are apart, R2 rows of floats, R3 the same for these, R4 weights, R5 scales, R6 zero points,
// R7 blocks, R8 groups, R9 panels left, R10 quarters left; R11 and R12 count blocks and groups, R13 to R16 are places in rows, R17, R19 and
// R20 those in weights, scales and zero points.
func neonDot(f *asm.File, rows int) string {
	name := fmt.Sprintf("dot%d_NEON", rows)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	fn := f.Loaded(name, fmt.Sprintf("multiplies %d rows by n panels of weights; distances are in bytes.", rows), ptr("dst", "float32"), asm.Int("ldd"),
		ptr("a", "float32"), asm.Int("lda"), ptr("w", "byte"), ptr("scale", "float32"), ptr("zero", "byte"), asm.Int("blocks"),
		asm.Int("groups"), asm.Int("n"))
	neonByte(fn)
	fn.Loop("R9", func() {
		fn.I("MOVD $4, R10")
		fn.Loop("R10", func() { neonColumns(fn, rows) })
		fn.I("SUB $48, R17, R4")
		fn.I("SUB $48, R19, R5")
		fn.I("SUB $12, R20, R6")
	})
	fn.Ret()
	return name
}

func neonColumns(fn *asm.Func, rows int) {
	row := func(r int) string { return fmt.Sprintf("R%d", 13+r) }
	for r := range rows {
		fn.Clear(asm.NEON(), fmt.Sprint("V", r))
	}
	fn.I("MOVD R2, %s", row(0))
	for r := 1; r < rows; r++ {
		fn.I("ADD R3, %s, %s", row(r-1), row(r))
	}
	for i, r := range []string{"R4", "R5", "R6"} {
		fn.I("MOVD %s, %s", r, []string{"R17", "R19", "R20"}[i])
	}
	fn.I("MOVD R7, R11")
	fn.Loop("R11", func() {
		fn.I("FMOVQ (R19), F28")
		neonZeros(fn, "(R20)", 29)
		fn.I("ADD $64, R19")
		fn.I("ADD $16, R20")
		for i := range 4 * rows {
			fn.Clear(asm.NEON(), fmt.Sprint("V", 4+i))
		}
		fn.I("MOVD R8, R12")
		fn.Loop("R12", func() {
			fn.I("FMOVQ (R17), F24")
			fn.I("ADD $64, R17")
			neonWeights(fn, 29)
			for r := range rows {
				fn.I("FMOVQ.P 16(%s), F%d", row(r), 25+r%2)
				for i := range 4 {
					fn.VLane("fmla.4s", 4+4*r+i, 20+i, 25+r%2, i)
				}
			}
		})
		for r := range rows {
			x := 4 + 4*r
			fn.V("fadd.4s", x, x, x+1)
			fn.V("fadd.4s", x+2, x+2, x+3)
			fn.V("fadd.4s", x, x, x+2)
			fn.V("fmla.4s", r, x, 28)
		}
	})
	fn.I("MOVD R0, R11")
	for r := range rows {
		fn.I("FMOVQ F%d, (R11)", r)
		fn.I("ADD R1, R11")
	}
	for _, r := range []string{"R0", "R4", "R5"} {
		fn.I("ADD $16, %s", r)
	}
	fn.I("ADD $4, R6")
}

// neonUnpack writes the kernel that makes floats of a panel's weights.
func neonUnpack(f *asm.File) {
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	fn := f.Loaded("unpackNEON", "writes four rows of 16 floats for each of n groups; n > 0.",
		ptr("dst", "float32"), ptr("src", "byte"), ptr("scale", "float32"), ptr("zero", "byte"), asm.Int("n"))
	const scale, zero = 0, 4
	for i := 0; i < 4; i += 2 {
		fn.I("FLDPQ %d(R2), (F%d, F%d)", 16*i, scale+i, scale+i+1)
	}
	for i := range 4 {
		neonZeros(fn, fmt.Sprintf("%d(R3)", 4*i), zero+i)
	}
	neonByte(fn)
	fn.Loop("R4", func() {
		for quarter := range 4 {
			fn.I("FMOVQ.P 16(R1), F24")
			neonWeights(fn, zero+quarter)
			for i := range 4 {
				fn.V("fmul.4s", 20+i, 20+i, scale+quarter)
				fn.I("FMOVQ F%d, %d(R0)", 20+i, 64*i+16*quarter)
			}
		}
		fn.I("ADD $256, R0")
	})
	fn.Ret()
}

// neonRounded is a kernel being written: products of some rows of integers with panels of weights, with SDOT, for which weights and zero
// points are moved by 128.
//
// Registers: R0 params, R1 the result, R2 a, R3 weights, R4 scales, R5 zero points, R6 panels left, R7 distance of rows, R8 quarters left, R9
// blocks left, R10 groups left, R11, R12 and R22 places in weights, scales and zero points, R23 in the heads of the first row, R24
// and R25 scratch, R13 and on places in rows. Vectors: 0 to 7 results, 8 to 15 sums of integers, 30 the sign of a byte, 31 is 128.
type neonRounded struct {
	*asm.Func
	rows int
}

func (k *neonRounded) row(r int) string {
	return []string{"R13", "R14", "R15", "R16", "R17", "R19", "R20", "R21"}[r]
}

func (k *neonRounded) emit(f *asm.File) string {
	name := fmt.Sprintf("rounded8_1x%d", k.rows)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	k.Func = f.Loaded(name, fmt.Sprintf("multiplies %d rounded rows by n panels of weights; n > 0; see roundedParams.", k.rows), ptr("p", "roundedParams"),
		ptr("dst", "float32"), ptr("a", "byte"), ptr("w", "byte"), ptr("scale", "float32"), ptr("zero", "byte"), asm.Int("n"))
	k.I("MOVD %d(R0), R7", offsetOf("lda"))
	k.I("VMOVI $128, V30.B16")
	k.VShift("ushr.4s", 31, 30, 24)
	k.V("ucvtf.4s", 31, 31)
	k.Loop("R6", func() {
		k.I("MOVD $4, R8")
		k.Loop("R8", k.columns)
		k.I("SUB $48, R11, R3")
		k.I("SUB $48, R12, R4")
		k.I("SUB $12, R22, R5")
	})
	k.Ret()
	return name
}

func (k *neonRounded) columns() {
	for r := range k.rows {
		k.Clear(asm.NEON(), fmt.Sprint("V", r))
	}
	k.I("MOVD R2, %s", k.row(0))
	for r := 1; r < k.rows; r++ {
		k.I("ADD R7, %s, %s", k.row(r-1), k.row(r))
	}
	for i, r := range []string{"R3", "R4", "R5"} {
		k.I("MOVD %s, %s", r, []string{"R11", "R12", "R22"}[i])
	}
	k.I("MOVD %d(R0), R23", offsetOf("heads"))
	k.I("MOVD %d(R0), R9", offsetOf("blocks"))
	k.Loop("R9", func() {
		for r := range k.rows {
			k.I("VMOVI $0, V%d.B16", 8+r) // an exclusive or would wait for what was there
		}
		k.I("MOVD %d(R0), R10", offsetOf("groups"))
		k.Loop("R10", func() {
			k.I("FMOVQ (R11), F24")
			k.I("ADD $64, R11")
			k.V("eor.16b", 24, 24, 30)
			for r := range k.rows {
				k.I("VLD1R.P 4(%s), [V%d.S4]", k.row(r), 25+r%2)
				k.V("sdot.4s", 8+r, 24, 25+r%2)
			}
		})
		k.block()
	})
	k.I("MOVD %d(R0), R24", offsetOf("ldd"))
	k.I("MOVD R1, R25")
	for r := range k.rows {
		k.I("FMOVQ F%d, (R25)", r)
		k.I("ADD R24, R25")
	}
	for _, r := range []string{"R1", "R3", "R4"} {
		k.I("ADD $16, %s", r)
	}
	k.I("ADD $4, R5")
}

// block scales the sums of a block, and adds them to the results.
func (k *neonRounded) block() {
	k.I("FMOVQ (R12), F28")
	neonZeros(k.Func, "(R22)", 29)
	k.V("fsub.4s", 29, 29, 31)
	k.I("MOVD R23, R24")
	for r := range k.rows {
		x := 8 + r
		k.I("ADD $4, R24, R25")
		k.I("VLD1R (R24), [V25.S4]")
		k.I("VLD1R (R25), [V26.S4]")
		k.I("ADD R7, R24")
		k.V("scvtf.4s", x, x)
		k.V("scvtf.4s", 26, 26)
		k.V("fmla.4s", x, 26, 29)
		k.V("fmul.4s", x, x, 25)
		k.V("fmla.4s", r, x, 28)
	}
	k.I("ADD $8, R23")
	k.I("ADD $64, R12")
	k.I("ADD $16, R22")
}
