//go:build ignore

package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// roundedFields are the fields of roundedParams, in order, of 8 bytes each.
var roundedFields = []string{"ldd", "lda", "pairs", "blocks", "groups"}

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
		k := &roundedDot{rows: rows, chains: 8 / rows}
		code += fmt.Sprintf("case %d:\n%s(p, dst, a, w, scale, zero, n)\n", rows, k.emit(f))
	}
	f.Serve("callRounded", asm.AVX512(), code+"}")
	f.Serve("callRound", asm.AVX512(), round(f)+"(dst, pairs, src, blocks, vectors)")
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
// Registers: DI integers, DX scales and sums, SI floats and R10 the place in them, CX blocks, R8 vectors of a block, AX those that are
// left. Vector 2 is the scale, 3 its inverse, 5 sums of integers.
func round(f *asm.File) string {
	k := f.Func("round", "round rounds blocks of vectors of 16 floats; both are above 0; see Kernels.Round.", asm.Typed("dst", "*byte"), asm.Typed("pairs", "*byte"),
		asm.Typed("src", "*float32"), asm.Int("blocks"), asm.Int("vectors"))
	for _, x := range [][2]string{{"dst", "DI"}, {"pairs", "DX"}, {"src", "SI"}, {"blocks", "CX"}, {"vectors", "R8"}} {
		k.Load(x[0], x[1])
	}
	for _, x := range []struct {
		bits uint32
		z    int
	}{{0x7fffffff, 31}, {math.Float32bits(roundedWhole), 30}, {math.Float32bits(127), 29}, {math.Float32bits(1), 28}} {
		k.I("MOVL $%#x, AX", x.bits)
		k.I("VPBROADCASTD AX, Z%d", x.z)
	}
	k.Loop("CX", func() {
		k.I("VPXORD Z0, Z0, Z0")
		k.I("MOVQ SI, R10")
		k.I("MOVQ R8, AX")
		k.Loop("AX", func() { // the bits of magnitudes are in their order, and NaN is above all
			k.I("VPANDD (R10), Z31, Z1")
			k.I("VPMAXUD Z1, Z0, Z0")
			k.I("ADDQ $64, R10")
		})
		lanes(k, "VPMAXUD", 0)
		k.I("VDIVSS X29, X0, X2")
		k.I("VDIVSS X2, X28, X3")
		k.I("VXORPS X4, X4, X4")
		k.I("VCMPSS $4, X4, X2, K1") // not 0
		k.I("KMOVW K1, AX")
		k.I("NEGL AX")
		k.I("KMOVW AX, K1")
		k.I("VBROADCASTSS.Z X3, K1, Z3")
		k.I("VPXORD Z5, Z5, Z5")
		k.I("MOVQ R8, AX")
		k.Loop("AX", func() { // the sum with a large number has no bits behind the point, and its lowest byte is the integer
			k.I("VMULPS (SI), Z3, Z4")
			k.I("VADDPS Z30, Z4, Z4")
			k.I("VPMOVDB Z4, (DI)")
			k.I("VPSLLD $24, Z4, Z4")
			k.I("VPSRAD $24, Z4, Z4")
			k.I("VPADDD Z4, Z5, Z5")
			k.I("ADDQ $64, SI")
			k.I("ADDQ $16, DI")
		})
		lanes(k, "VPADDD", 5)
		k.I("VCVTDQ2PS X5, X5")
		k.I("VMOVSS X2, (DX)")
		k.I("VMOVSS X5, 4(DX)")
		k.I("ADDQ $8, DX")
	})
	k.Ret()
	return "round"
}

// lanes brings the lanes of a vector together in its lowest one; vector 1 is overwritten.
func lanes(k *asm.Func, op string, z int) {
	k.I("VEXTRACTI64X4 $1, Z%d, Y1", z)
	k.I("%s Y1, Y%[2]d, Y%[2]d", op, z)
	k.I("VEXTRACTI128 $1, Y%d, X1", z)
	for _, shuffle := range []string{"", "$0x4e", "$0xb1"} {
		if shuffle != "" {
			k.I("VPSHUFD %s, X%d, X1", shuffle, z)
		}
		k.I("%s X1, X%[2]d, X%[2]d", op, z)
	}
}

// roundedDot is a kernel being written: products of some rows of integers with panels of weights.
//
// Registers: DI params, SI weights, DX the result, R10 scales, R11 zero points, R13 the place in the rows and R15 that in the fifth, R12
// scales and sums of the rows, R8 and R9 the distance of rows and three times that, CX panels, BX blocks, AX groups of a block. Vectors 0
// to 7 are the rows' results, 8 to 15 sums of integers, some for each row, so that instructions need not wait for each other.
type roundedDot struct {
	*asm.Func
	rows, chains int
}

func (k *roundedDot) emit(f *asm.File) string {
	name := fmt.Sprintf("rounded%d", k.rows)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	k.Func = f.Func(name, fmt.Sprintf("%s multiplies %d rounded rows by n panels of weights; n > 0; see roundedParams.", name, k.rows), ptr("p", "roundedParams"),
		ptr("dst", "float32"), ptr("a", "byte"), ptr("w", "byte"), ptr("scale", "float32"), ptr("zero", "float32"), asm.Int("n"))
	for _, x := range [][2]string{{"p", "DI"}, {"dst", "DX"}, {"w", "SI"}, {"scale", "R10"}, {"zero", "R11"}, {"n", "CX"}} {
		k.Load(x[0], x[1])
	}
	k.I("MOVQ %d(DI), R8", offsetOf("lda"))
	k.I("LEAQ (R8)(R8*2), R9")
	k.Loop("CX", k.panel)
	k.Ret()
	return name
}

// at returns the address off bytes behind a place in row r, that in the fifth being in another register.
func (k *roundedDot) at(first, fifth string, r, off int) string {
	if r >= 4 {
		first = fifth
	}
	return fmt.Sprintf("%d(%s)%s", off, first, []string{"", "(R8*1)", "(R8*2)", "(R9*1)"}[r%4])
}

func (k *roundedDot) panel() {
	for r := range k.rows {
		k.I("VPXORD %[1]s, %[1]s, %[1]s", asm.Z(r))
	}
	k.Load("a", "R13")
	if k.rows > 4 {
		k.I("LEAQ (R13)(R8*4), R15")
	}
	k.I("MOVQ %d(DI), R12", offsetOf("pairs"))
	k.I("MOVQ %d(DI), BX", offsetOf("blocks"))
	k.Loop("BX", func() {
		for i := range k.rows * k.chains {
			k.I("VPXORD %[1]s, %[1]s, %[1]s", asm.Z(8+i))
		}
		k.I("MOVQ %d(DI), AX", offsetOf("groups"))
		if k.chains > 1 {
			k.While("AX", k.chains, func() { k.groups(k.chains) })
		}
		k.While("AX", 1, func() { k.groups(1) })
		k.block()
	})
	k.I("MOVQ DX, R12")
	for r := range k.rows {
		k.I("VMOVUPS %s, (R12)", asm.Z(r))
		k.I("ADDQ %d(DI), R12", offsetOf("ldd"))
	}
	k.I("ADDQ $64, DX")
}

// groups emits the products of n groups of a block.
func (k *roundedDot) groups(n int) {
	for i := range n {
		k.I("VMOVDQU32 %d(SI), Z26", 64*i)
		for r := range k.rows {
			k.I("VPDPBUSD.BCST %s, Z26, %s", k.at("R13", "R15", r, 4*i), asm.Z(8+k.chains*r+i))
		}
	}
	k.I("ADDQ $%d, SI", 64*n)
	k.I("ADDQ $%d, R13", 4*n)
	if k.rows > 4 {
		k.I("ADDQ $%d, R15", 4*n)
	}
}

// block scales the sums of a block, and adds them to the results.
func (k *roundedDot) block() {
	k.I("VMOVUPS (R10), Z29")
	k.I("VMOVUPS (R11), Z28")
	if k.rows > 4 {
		k.I("LEAQ (R12)(R8*4), AX")
	}
	for r := range k.rows {
		x := asm.Z(8 + k.chains*r)
		for step := 1; step < k.chains; step *= 2 {
			for i := 0; i+step < k.chains; i += 2 * step {
				k.I("VPADDD %s, %s, %[2]s", asm.Z(8+k.chains*r+i+step), asm.Z(8+k.chains*r+i))
			}
		}
		k.I("VCVTDQ2PS %[1]s, %[1]s", x)
		k.I("VFNMADD231PS.BCST %s, Z28, %s", k.at("R12", "AX", r, 4), x)
		k.I("VMULPS.BCST %s, %[2]s, %[2]s", k.at("R12", "AX", r, 0), x)
		k.I("VFMADD231PS %s, Z29, %s", x, asm.Z(r))
	}
	k.I("ADDQ $8, R12")
	k.I("ADDQ $64, R10")
	k.I("ADDQ $64, R11")
}
