//go:build ignore

package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// bytesInOrder is a table of where four bytes of a vector's eight integers are after two vectors were packed with themselves.
const bytesInOrder = "bytesInOrder"

// roundBytes writes the kernel that rounds blocks to integers of one digit with AVX2, as round does with AVX-512, with the same results.
//
// Registers: DI integers, DX heads, SI floats and R10 the place in them, CX blocks, R8 vectors of a block, AX those that are left.
// Vector 0 is the greatest magnitude, 2 the scale, 3 its inverse, 4 to 7 floats and integers, 8 and 9 sums of integers, 10 and 11 are the
// numbers 127 and 1, 12 where bytes are, 13 the number whose sum with a float has no bits behind the point, 14 the bits of magnitudes, 15 the
// order of floats, which is the same in each eight of a vector.
func roundBytes(f *asm.File) {
	f.Data(bytesInOrder, 0, 4, 1, 5, 0, 4, 1, 5)
	const name = "roundBytes"
	k := f.Func(name, name+" rounds blocks of vectors of 16 floats to integers of one digit; both are above 0; see Kernels.Round.", asm.Typed("dst", "*byte"),
		asm.Typed("heads", "*byte"), asm.Typed("src", "*float32"), asm.Typed("order", "*int32"), asm.Int("blocks"), asm.Int("vectors"))
	for _, x := range [][2]string{{"dst", "DI"}, {"heads", "DX"}, {"src", "SI"}, {"order", "AX"}, {"blocks", "CX"}, {"vectors", "R8"}} {
		k.Load(x[0], x[1])
	}
	k.I("VMOVDQU (AX), Y15")
	for _, x := range []struct {
		bits uint32
		y    int
	}{{0x7fffffff, 14}, {math.Float32bits(roundedWhole), 13}, {math.Float32bits(1), 11}, {math.Float32bits(127), 10}} {
		k.I("MOVL $%#x, AX", x.bits)
		k.I("VMOVD AX, X%d", x.y)
		k.I("VPBROADCASTD X%[1]d, Y%[1]d", x.y)
	}
	k.I("VMOVDQU %s, Y12", asm.DataAt(bytesInOrder, 0))
	k.Loop("CX", func() {
		greatest(k)
		k.I("VDIVSS X10, X0, X2")
		k.I("VDIVSS X2, X11, X3")
		k.I("VXORPS X4, X4, X4")
		k.I("VCMPSS $4, X4, X2, X4") // not 0
		k.I("VANDPS X4, X3, X3")
		k.I("VBROADCASTSS X3, Y3")
		k.I("VPXOR Y8, Y8, Y8")
		k.I("VPXOR Y9, Y9, Y9")
		k.I("MOVQ R8, AX")
		k.Loop("AX", func() { roundVector(k) })
		k.I("VPADDD Y9, Y8, Y8")
		halfLanes(k, "VPADDD", 8)
		k.I("VPXOR X5, X5, X5")
		k.I("VPSUBD X8, X5, X5")
		k.I("VMOVSS X2, (DX)")
		k.I("VMOVSS X5, 4(DX)")
		k.I("ADDQ $8, DX")
	})
	k.Ret()
	f.Serve("callRound", asm.AVX2(), fmt.Sprintf("switch digits {\ncase 1:\n%s(dst, heads, src, order, blocks, vectors)\n}", name))
}

// greatest finds the greatest magnitude of a block: the bits of magnitudes are in their order, and NaN is above all.
func greatest(k *asm.Func) {
	k.I("VPXOR Y0, Y0, Y0")
	k.I("VPXOR Y1, Y1, Y1")
	k.I("MOVQ SI, R10")
	k.I("MOVQ R8, AX")
	k.Loop("AX", func() {
		for i := range 2 {
			k.I("VPAND %d(R10), Y14, Y%d", 32*i, 4+i)
			k.I("VPMAXUD Y%d, Y%[2]d, Y%[2]d", 4+i, i)
		}
		k.I("ADDQ $64, R10")
	})
	k.I("VPMAXUD Y1, Y0, Y0")
	halfLanes(k, "VPMAXUD", 0)
}

// roundVector rounds a vector: the sum with a large number has no bits behind the point, and its lowest byte is the integer.
func roundVector(k *asm.Func) {
	for i := range 2 {
		x := fmt.Sprintf("Y%d", 4+i)
		k.I("VPERMPS %d(SI), Y15, %s", 32*i, x)
		k.I("VMULPS Y3, %[1]s, %[1]s", x)
		k.I("VADDPS Y13, %[1]s, %[1]s", x)
		k.I("VPSLLD $24, %[1]s, %[1]s", x)
		k.I("VPSRAD $24, %[1]s, %[1]s", x)
		k.I("VPADDD %s, Y%[2]d, Y%[2]d", x, 8+i)
	}
	k.I("VPACKSSDW Y5, Y4, Y4")
	k.I("VPACKSSWB Y4, Y4, Y4")
	k.I("VPERMD Y4, Y12, Y4")
	k.I("VMOVDQU X4, (DI)")
	k.I("ADDQ $64, SI")
	k.I("ADDQ $16, DI")
}

// halfLanes is lanes for vectors of 32 bytes.
func halfLanes(k *asm.Func, op string, y int) {
	k.I("VEXTRACTI128 $1, Y%d, X1", y)
	for _, shuffle := range []string{"", "$0x4e", "$0xb1"} {
		if shuffle != "" {
			k.I("VPSHUFD %s, X%d, X1", shuffle, y)
		}
		k.I("%s X1, X%[2]d, X%[2]d", op, y)
	}
}
