//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// neon writes the kernels for NEON.
func neon(f *asm.File) {
	code := "switch rows {\n"
	for _, rows := range []int{1, 4} {
		code += fmt.Sprintf("case %d:\n%s(dst, 4*ldd, a, 4*width, w, scale, zero, 4*step, blocks, groups, n)\n", rows, neonDot(f, rows))
	}
	f.Serve("callDot", asm.NEON(), code+"}")
	neonUnpack(f)
	f.Serve("unpack", asm.NEON(), "unpackNEON(dst, src, scale, zero, n)")
	roundedOffsets(f)
	code = "switch rows {\n"
	for _, rows := range []int{1, 4, 8} {
		k := &neonRounded{rows: rows}
		code += fmt.Sprintf("case %d:\n%s(p, dst, a, w, scale, zero, n)\n", rows, k.emit(f))
	}
	f.Serve("callRounded", asm.NEON(), code+"}")
}

// neonWeights makes the weights in the bytes at vector 24 floats: those of lower halves in vectors from 16 on, of upper ones from 20 on, less
// the zero points and times the scales in the vectors that are named for number i of four. Vector 30 has the bits of a half.
func neonWeights(fn *asm.Func, zero, scale func(i int) int) {
	fn.V("and.16b", 25, 24, 30)
	fn.VShift("ushr.16b", 26, 24, 4)
	for half := range 2 {
		x, bytes := 16+4*half, 25+half
		fn.V("uxtl.8h", x, bytes)
		fn.V("uxtl2.8h", x+2, bytes)
		for i := 0; i < 4; i += 2 {
			fn.V("uxtl2.4s", x+i+1, x+i)
			fn.V("uxtl.4s", x+i, x+i)
		}
		for i := range 4 {
			fn.V("ucvtf.4s", x+i, x+i)
			fn.V("fsub.4s", x+i, x+i, zero(i))
			fn.V("fmul.4s", x+i, x+i, scale(i))
		}
	}
}

// neonDot writes the kernel of some rows. Vectors 4·r to 4·r+3 are sums of row r: two of even places and two of odd ones.
//
// Registers: R0 the result, R1 how far its rows are apart, R2 rows of floats, R3 the same for these, R4 weights, R5 scales, R6 zero points,
// R7 how far these are apart, R8 blocks, R9 groups, R10 columns left; R11 and R12 count blocks and groups, R13 to R16 are places in rows.
func neonDot(f *asm.File, rows int) string {
	name := fmt.Sprintf("dot%d_NEON", rows)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	fn := f.Loaded(name, fmt.Sprintf("multiplies %d rows by n rows of weights; distances are in bytes.", rows), ptr("dst", "float32"), asm.Int("ldd"),
		ptr("a", "float32"), asm.Int("lda"), ptr("w", "byte"), ptr("scale", "float32"), ptr("zero", "float32"), asm.Int("step"), asm.Int("blocks"),
		asm.Int("groups"), asm.Int("n"))
	row := func(r int) string { return fmt.Sprintf("R%d", 13+r) }
	fn.I("VMOVI $15, V30.B16")
	fn.Loop("R10", func() {
		for i := range 4 * rows {
			fn.Clear(asm.NEON(), fmt.Sprint("V", i))
		}
		fn.I("MOVD R2, %s", row(0))
		for r := 1; r < rows; r++ {
			fn.I("ADD R3, %s, %s", row(r-1), row(r))
		}
		fn.I("MOVD R8, R11")
		fn.Loop("R11", func() {
			fn.I("VLD1R.P 4(R5), [V28.S4]")
			fn.I("VLD1R (R6), [V29.S4]")
			fn.I("ADD R7, R6")
			fn.I("MOVD R9, R12")
			fn.Loop("R12", func() {
				fn.I("FMOVQ.P 16(R4), F24")
				neonWeights(fn, func(int) int { return 29 }, func(int) int { return 28 })
				for r := range rows {
					for i := range 8 {
						x := 24 + i%4
						fn.I("FMOVQ %d(%s), F%d", 16*i, row(r), x)
						fn.V("fmla.4s", 4*r+i/4*2+i%2, x, 16+i)
					}
					fn.I("ADD $128, %s", row(r))
				}
			})
		})
		fn.I("MOVD R0, R11")
		for r := range rows {
			neonTotal(fn, 4*r, 4)
			fn.I("FMOVS F%d, (R11)", 4*r)
			fn.I("ADD R1, R11")
		}
		fn.I("ADD $4, R0")
	})
	fn.Ret()
	return name
}

// neonTotal adds so many vectors from x on, and their lanes, into the lowest lane of x.
func neonTotal(fn *asm.Func, x, n int) {
	for ; n > 1; n /= 2 {
		for i := range n / 2 {
			fn.V("fadd.4s", x+i, x+2*i, x+2*i+1)
		}
	}
	fn.V("faddp.4s", x, x, x)
	fn.V("faddp.4s", x, x, x)
}

// neonUnpack writes the kernel that makes floats of weights of 16 columns.
func neonUnpack(f *asm.File) {
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	fn := f.Loaded("unpackNEON", "writes two rows of 16 floats for each of n rows of bytes; n > 0.",
		ptr("dst", "float32"), ptr("src", "byte"), ptr("scale", "float32"), ptr("zero", "float32"), asm.Int("n"))
	const scale, zero = 0, 4
	for i := 0; i < 4; i += 2 {
		fn.I("FLDPQ %d(R2), (F%d, F%d)", 16*i, scale+i, scale+i+1)
		fn.I("FLDPQ %d(R3), (F%d, F%d)", 16*i, zero+i, zero+i+1)
	}
	fn.I("VMOVI $15, V30.B16")
	fn.Loop("R4", func() {
		fn.I("FMOVQ.P 16(R1), F24")
		neonWeights(fn, func(i int) int { return zero + i }, func(i int) int { return scale + i })
		for i := 0; i < 8; i += 2 {
			fn.I("FSTPQ.P (F%d, F%d), 32(R0)", 16+i, 17+i)
		}
	})
	fn.Ret()
}

// roundedFields are the fields of roundedParams, in order, of 8 bytes each.
var roundedFields = []string{"ldd", "lda", "index", "steps", "repeat", "blocks", "scaleStep", "zeroStep", "tail", "tailBlocks", "tailScale", "tailZero"}

func offsetOf(field string) int {
	for i, f := range roundedFields {
		if f == field {
			return 8 * i
		}
	}
	panic("no field " + field)
}

// roundedOffsets emits Go source that does not compile where roundedParams and this program disagree.
func roundedOffsets(f *asm.File) {
	f.Import("unsafe")
	src := "// The offsets that the assembly assumes.\nvar (\n"
	for _, field := range roundedFields {
		src += fmt.Sprintf("_ = [1]byte{}[unsafe.Offsetof(roundedParams{}.%s)-%d]\n", field, offsetOf(field))
	}
	f.Go(src + ")\n")
}

// neonRounded is a kernel being written: products of some rows of integers with n rows of weights, with SDOT. A vector of 128 weights is
// four parts, of four lanes each, which lie in one block.
//
// Registers: R0 params, R1 the result, R2 a, R3 weights, R4 scales, R5 zero points, R6 columns left, R7 steps left, R8 vectors of a step,
// R9 the numbers of scales, R10 distance of rows, R11 scratch, R12 lanes of a last vector, R13 and on places in rows. Vectors: 0 to 7
// sums, 8 to 15 products, 16 to 19 scales of the parts, 20 to 23 zero points, 30 the bits of a half.
type neonRounded struct {
	*asm.Func
	rows int
}

func (k *neonRounded) row(r int) string {
	return []string{"R13", "R14", "R15", "R16", "R17", "R19", "R20", "R21"}[r]
}

func (k *neonRounded) emit(f *asm.File) string {
	name := fmt.Sprintf("rounded%d", k.rows)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	k.Func = f.Loaded(name, fmt.Sprintf("multiplies %d rounded rows by n rows of weights; n > 0; see roundedParams.", k.rows), ptr("p", "roundedParams"),
		ptr("dst", "float32"), ptr("a", "byte"), ptr("w", "byte"), ptr("scale", "float32"), ptr("zero", "float32"), asm.Int("n"))
	k.I("MOVD %d(R0), R10", offsetOf("lda"))
	k.I("MOVD %d(R0), R9", offsetOf("index"))
	k.I("VMOVI $15, V30.B16")
	k.Loop("R6", k.column)
	k.Ret()
	return name
}

func (k *neonRounded) column() {
	for r := range k.rows {
		k.Clear(asm.NEON(), fmt.Sprint("V", r))
	}
	k.I("MOVD R2, %s", k.row(0))
	for r := 1; r < k.rows; r++ {
		k.I("ADD R10, %s, %s", k.row(r-1), k.row(r))
	}
	k.I("MOVD %d(R0), R7", offsetOf("steps"))
	k.While("R7", 1, func() {
		for part := range 4 {
			k.parameters(part)
		}
		k.next("scaleStep", "zeroStep")
		k.I("MOVD %d(R0), R8", offsetOf("repeat"))
		k.Loop("R8", func() {
			for part := range 4 {
				k.part(part)
			}
			for r := range k.rows {
				k.I("ADD $256, %s", k.row(r))
			}
		})
	})
	end := k.NewLabel("column")
	k.I("MOVD %d(R0), R12", offsetOf("tail"))
	k.I("CBZ R12, %s", end)
	last := k.NewLabel("last")
	for part := range 3 {
		k.I("TBZ $%d, R12, %s", 4*part, last)
		k.parameters(part)
		k.part(part)
	}
	k.Label(last)
	k.next("tailScale", "tailZero")
	k.Label(end)
	k.finish()
}

// parameters loads the scale and the zero point of a part.
func (k *neonRounded) parameters(part int) {
	k.I("MOVW %d(R9), R11", 16*part)
	k.I("ADD R11<<2, R4, R22")
	k.I("ADD R11<<2, R5, R11")
	k.I("VLD1R (R22), [V%d.S4]", 16+part)
	k.I("VLD1R (R11), [V%d.S4]", 20+part)
}

// next moves on to the scales and zero points behind those of a step.
func (k *neonRounded) next(scale, zero string) {
	k.I("MOVD %d(R0), R11", offsetOf(scale))
	k.I("ADD R11, R4")
	k.I("MOVD %d(R0), R11", offsetOf(zero))
	k.I("ADD R11, R5")
}

// part emits 32 products of each row with the next weights.
func (k *neonRounded) part(part int) {
	k.I("FMOVQ.P 16(R3), F24")
	k.VShift("ushr.16b", 25, 24, 4)
	k.V("and.16b", 24, 24, 30)
	for r := range k.rows {
		x := 8 + r
		load := func(off, x int) { k.I("FMOVQ %d(%s), F%d", off+16*part, k.row(r), x) }
		k.I("VMOVI $0, V%d.B16", x) // an exclusive or would wait for what was there
		load(0, 27)
		k.V("sdot.4s", x, 27, 24)
		load(64, 28)
		k.V("sdot.4s", x, 28, 25)
		k.V("scvtf.4s", x, x)
		load(192, 27)
		k.V("fmls.4s", x, 27, 20+part)
		load(128, 28)
		k.V("fmul.4s", x, x, 28)
		k.V("fmla.4s", r, x, 16+part)
	}
}

// finish adds the lanes of each row's sums and stores them.
func (k *neonRounded) finish() {
	k.I("MOVD %d(R0), R11", offsetOf("ldd"))
	k.I("MOVD R1, R12")
	for r := range k.rows {
		neonTotal(k.Func, r, 1)
		k.I("FMOVS F%d, (R12)", r)
		k.I("ADD R11, R12")
	}
	k.I("ADD $4, R1")
}
