//go:build ignore

package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// roundedFields are the fields of roundedParams, in order, of 8 bytes each.
var roundedFields = []string{"ldd", "lda", "index", "steps", "repeat", "blocks", "scaleStep", "zeroStep", "tail", "tailBlocks", "tailScale", "tailZero"}

// roundedWhole is so large that the sum with a float of at most 127 has no bits behind the point.
const roundedWhole = 3 << 22

func offsetOf(field string) int {
	for i, f := range roundedFields {
		if f == field {
			return 8 * i
		}
	}
	panic("no field " + field)
}

// rounded writes the kernels that multiply weights by integers of 8 bits, with VNNI.
func rounded(f *asm.File) {
	roundedOffsets(f)
	code := "switch rows {\n"
	for _, rows := range []int{1, 4, 8} {
		k := &roundedDot{rows: rows}
		code += fmt.Sprintf("case %d:\n%s(p, dst, a, w, scale, zero, n)\n", rows, k.emit(f))
	}
	f.Serve("callRounded", asm.AVX512(), code+"}")
	f.Serve("callRound", asm.AVX512(), round(f)+"(dst, src, blocks, groups)")
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

// round writes the kernel that rounds blocks, and returns its name.
//
// Registers: DI the vector in the rounded row and R9 the place of four lanes in it, SI floats, CX blocks, R8 groups of a block, AX those
// that are left. Vector 2 is the scale, 3 its inverse.
func round(f *asm.File) string {
	k := f.Func("round", "round rounds blocks of groups; both are above 0; see Kernels.Round.", asm.Typed("dst", "*byte"), asm.Typed("src", "*float32"),
		asm.Int("blocks"), asm.Int("groups"))
	for _, x := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"blocks", "CX"}, {"groups", "R8"}} {
		k.Load(x[0], x[1])
	}
	for _, x := range []struct {
		bits uint32
		z    int
	}{{0x7fffffff, 31}, {math.Float32bits(roundedWhole), 30}, {math.Float32bits(127), 29}, {math.Float32bits(1), 28}, {0x01010101, 27}} {
		k.I("MOVL $%#x, AX", x.bits)
		k.I("VPBROADCASTD AX, Z%d", x.z)
	}
	k.I("XORL R9, R9")
	k.Loop("CX", func() {
		k.I("VPXORD Z0, Z0, Z0")
		k.I("MOVQ SI, R10")
		k.I("MOVQ R8, AX")
		k.Loop("AX", func() { // the bits of magnitudes are in their order, and NaN is above all
			for i := range 2 {
				k.I("VPANDD %d(R10), Z31, Z1", 64*i)
				k.I("VPMAXUD Z1, Z0, Z0")
			}
			k.I("ADDQ $128, R10")
		})
		k.I("VEXTRACTI64X4 $1, Z0, Y1")
		k.I("VPMAXUD Y1, Y0, Y0")
		k.I("VEXTRACTI128 $1, Y0, X1")
		for _, shuffle := range []string{"", "VPSHUFD $0x4e, X0, X1", "VPSHUFD $0xb1, X0, X1"} {
			if shuffle != "" {
				k.I("%s", shuffle)
			}
			k.I("VPMAXUD X1, X0, X0")
		}
		k.I("VDIVSS X29, X0, X2")
		k.I("VDIVSS X2, X28, X3")
		k.I("VXORPS X4, X4, X4")
		k.I("VCMPSS $4, X4, X2, K1") // not 0
		k.I("KMOVW K1, AX")
		k.I("NEGL AX")
		k.I("KMOVW AX, K1")
		k.I("VBROADCASTSS.Z X3, K1, Z3")
		k.I("VBROADCASTSS X2, X2")
		k.I("MOVQ R8, AX")
		k.Loop("AX", func() { roundGroup(k) })
	})
	k.Ret()
	return "round"
}

// roundGroup rounds 32 floats, four lanes: the sum with a large number has no bits behind the point, and its lowest byte is the integer.
func roundGroup(k *asm.Func) {
	for i := range 2 {
		k.I("VMULPS %d(SI), Z3, Z%d", 64*i, 4+i)
		k.I("VADDPS Z30, Z%[1]d, Z%[1]d", 4+i)
		k.I("VPMOVDB Z%[1]d, X%[1]d", 4+i)
	}
	k.I("VINSERTI128 $1, X5, Y4, Y4")
	k.I("VPMOVWB Y4, X5")
	k.I("VPSRLW $8, Y4, Y4")
	k.I("VPMOVWB Y4, X6")
	k.I("VPXOR X7, X7, X7")
	for i := range 2 {
		k.I("VPDPBUSD X%d, X27, X7", 5+i)
		k.I("VMOVDQU X%d, %d(DI)(R9*1)", 5+i, 64*i)
	}
	k.I("VCVTDQ2PS X7, X7")
	k.I("VMOVUPS X2, 128(DI)(R9*1)")
	k.I("VMOVUPS X7, 192(DI)(R9*1)")
	k.I("ADDQ $128, SI")
	k.I("ADDQ $16, R9")
	next := k.NewLabel("next")
	k.I("CMPQ R9, $64")
	k.I("JNE %s", next)
	k.I("XORL R9, R9")
	k.I("ADDQ $256, DI")
	k.Label(next)
}

// roundedDot is a kernel being written: products of some rows of integers with n rows of weights.
//
// Registers: DI params, SI weights, DX the result, R10 scales, R11 zero points, R13 the place in the rows and R15 that in the fifth, R8 and R9 the distance of rows
// and three times that, CX columns, BX steps, AX vectors of a step. Vectors 0 to 7 are sums of floats; K1 are lanes of weights, K2 scales.
type roundedDot struct {
	*asm.Func
	rows int
}

func (k *roundedDot) emit(f *asm.File) string {
	name := fmt.Sprintf("rounded%d", k.rows)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	k.Func = f.Func(name, fmt.Sprintf("%s multiplies %d rounded rows by n rows of weights; n > 0; see roundedParams.", name, k.rows), ptr("p", "roundedParams"),
		ptr("dst", "float32"), ptr("a", "byte"), ptr("w", "byte"), ptr("scale", "float32"), ptr("zero", "float32"), asm.Int("n"))
	for _, x := range [][2]string{{"p", "DI"}, {"dst", "DX"}, {"w", "SI"}, {"scale", "R10"}, {"zero", "R11"}, {"n", "CX"}} {
		k.Load(x[0], x[1])
	}
	k.I("MOVQ %d(DI), R8", offsetOf("lda"))
	k.I("LEAQ (R8)(R8*2), R9")
	k.I("MOVQ %d(DI), AX", offsetOf("index"))
	k.I("VMOVDQU32 (AX), Z31")
	k.I("MOVL $0x0f0f0f0f, AX")
	k.I("VPBROADCASTD AX, Z30")
	k.Loop("CX", k.column)
	k.Ret()
	return name
}

func (k *roundedDot) column() {
	for r := range k.rows {
		k.I("VPXORD %[1]s, %[1]s, %[1]s", asm.Z(r))
	}
	k.Load("a", "R13")
	if k.rows > 4 {
		k.I("LEAQ (R13)(R8*4), R15")
	}
	k.I("MOVQ %d(DI), BX", offsetOf("steps"))
	tail, end := k.NewLabel("tail"), k.NewLabel("column")
	k.I("TESTQ BX, BX")
	k.I("JZ %s", tail)
	k.scales("blocks")
	k.Loop("BX", func() {
		k.parameters("scaleStep", "zeroStep")
		k.I("MOVQ %d(DI), AX", offsetOf("repeat"))
		k.Loop("AX", func() {
			k.I("PREFETCHT0 %d(SI)", prefetched)
			k.I("VMOVDQU32 (SI), Z26")
			k.vector()
			k.I("ADDQ $64, SI")
		})
	})
	k.Label(tail)
	k.I("MOVQ %d(DI), AX", offsetOf("tail"))
	k.I("TESTQ AX, AX")
	k.I("JZ %s", end)
	k.I("KMOVW AX, K1")
	k.scales("tailBlocks")
	k.parameters("tailScale", "tailZero")
	k.I("VMOVDQU32.Z (SI), K1, Z26")
	k.vector()
	k.I("POPCNTQ AX, AX") // a lane is four bytes
	k.I("LEAQ (SI)(AX*4), SI")
	k.Label(end)
	k.finish()
}

// scales has K2 be the scales of a step.
func (k *roundedDot) scales(field string) {
	k.I("MOVQ %d(DI), R12", offsetOf(field))
	k.I("KMOVW R12, K2")
}

// parameters loads scales and zero points of a step, for each lane, to vectors 29 and 28.
func (k *roundedDot) parameters(scale, zero string) {
	k.I("VMOVUPS.Z (R10), K2, X29")
	k.I("VMOVUPS.Z (R11), K2, X28")
	k.I("VPERMPS Z29, Z31, Z29")
	k.I("VPERMPS Z28, Z31, Z28")
	k.I("ADDQ %d(DI), R10", offsetOf(scale))
	k.I("ADDQ %d(DI), R11", offsetOf(zero))
}

// prefetched is how far ahead weights are asked for, in bytes: a row of products is made faster than they come.
const prefetched = 1024

// vector emits 128 products of each row with the weights in vector 26.
func (k *roundedDot) vector() {
	k.I("VPSRLD $4, Z26, Z27")
	k.I("VPANDD Z30, Z26, Z26")
	k.I("VPANDD Z30, Z27, Z27")
	for r := range k.rows {
		at := []string{"(R13)", "(R13)(R8*1)", "(R13)(R8*2)", "(R13)(R9*1)", "(R15)", "(R15)(R8*1)", "(R15)(R8*2)", "(R15)(R9*1)"}[r]
		x := asm.Z(8 + r)
		k.I("VPXORD %[1]s, %[1]s, %[1]s", x)
		k.I("VPDPBUSD %s, Z26, %s", at, x)
		k.I("VPDPBUSD 64%s, Z27, %s", at, x)
		k.I("VCVTDQ2PS %[1]s, %[1]s", x)
		k.I("VFNMADD231PS 192%s, Z28, %s", at, x)
		k.I("VMULPS 128%s, %[2]s, %[2]s", at, x)
		k.I("VFMADD231PS %s, Z29, %s", x, asm.Z(r))
	}
	k.I("ADDQ $256, R13")
	if k.rows > 4 {
		k.I("ADDQ $256, R15")
	}
}

// finish adds the lanes of each row's sums and stores them.
func (k *roundedDot) finish() {
	k.I("MOVQ DX, R12")
	for r := range k.rows {
		k.I("VEXTRACTF32X8 $1, Z%d, Y26", r)
		k.I("VADDPS Y26, Y%[1]d, Y%[1]d", r)
		k.I("VEXTRACTF32X4 $1, Y%d, X26", r)
		k.I("VADDPS X26, X%[1]d, X%[1]d", r)
		k.I("VHADDPS X%[1]d, X%[1]d, X%[1]d", r)
		k.I("VHADDPS X%[1]d, X%[1]d, X%[1]d", r)
		k.I("VMOVSS X%d, (R12)", r)
		k.I("ADDQ %d(DI), R12", offsetOf("ldd"))
	}
	k.I("ADDQ $4, DX")
}
