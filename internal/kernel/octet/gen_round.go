//go:build ignore

package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// roundedWhole is so large that the sum with a float of at most 127 has no bits behind the point.
const roundedWhole = 3 << 22

// What the greatest magnitude of a block becomes with three digits, and the least that it is taken to be, as the package has them.
const (
	roundedMost3  = 0x7f7f00
	roundedLeast3 = 0x1p-100
)

// broadcast has every lane of a vector be a number.
func broadcast(k *asm.Func, bits uint32, z int) {
	k.I("MOVL $%#x, AX", bits)
	k.I("VPBROADCASTD AX, Z%d", z)
}

func broadcastFloat(k *asm.Func, x float32, z int) { broadcast(k, math.Float32bits(x), z) }

// round writes the kernel that rounds blocks to integers of some digits, and returns its name.
//
// Registers: DI integers, DX heads, SI floats and R10 the place in them, CX blocks, R8 vectors of a block, AX those that are left.
// Vector 0 is the greatest magnitude, 2 the scale, 3 its inverse, from 8 on sums of digits, 27 the order of floats in a vector.
func round(f *asm.File, digits int) string {
	name := fmt.Sprintf("round%d", digits)
	k := f.Func(name, fmt.Sprintf("%s rounds blocks of vectors of 16 floats to integers of %d digits; both are above 0; see Kernels.Round.", name, digits), asm.Typed("dst", "*byte"),
		asm.Typed("heads", "*byte"), asm.Typed("src", "*float32"), asm.Typed("order", "*int32"), asm.Int("blocks"), asm.Int("vectors"))
	for _, x := range [][2]string{{"dst", "DI"}, {"heads", "DX"}, {"src", "SI"}, {"order", "AX"}, {"blocks", "CX"}, {"vectors", "R8"}} {
		k.Load(x[0], x[1])
	}
	k.I("VMOVDQU32 (AX), Z27")
	broadcast(k, 0x7fffffff, 31)
	broadcastFloat(k, 1, 28)
	vector := oneDigit
	if digits == 3 {
		vector = threeDigits
		broadcastFloat(k, roundedMost3, 29)
		broadcastFloat(k, roundedLeast3, 26)
		broadcast(k, 0x01010101, 30)
		broadcast(k, 128, 25)
	} else {
		broadcastFloat(k, roundedWhole, 30)
		broadcastFloat(k, 127, 29)
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
		scale(k, digits)
		for d := range digits {
			k.I("VPXORD Z%[1]d, Z%[1]d, Z%[1]d", 8+d)
		}
		k.I("MOVQ R8, AX")
		k.Loop("AX", func() {
			k.I("VPERMPS (SI), Z27, Z4")
			k.I("VMULPS Z3, Z4, Z4")
			vector(k)
			k.I("ADDQ $64, SI")
			k.I("ADDQ $%d, DI", 16*digits)
		})
		head(k, digits)
	})
	k.Ret()
	return name
}

// scale makes the greatest magnitude, in vector 0, the greatest integer: vectors 2 and 3.
func scale(k *asm.Func, digits int) {
	if digits == 3 {
		k.I("VPMAXUD X26, X0, X0")
		k.I("VDIVSS X29, X0, X2")
		k.I("VDIVSS X2, X28, X3")
		k.I("VBROADCASTSS X3, Z3")
		return
	}
	k.I("VDIVSS X29, X0, X2")
	k.I("VDIVSS X2, X28, X3")
	k.I("VXORPS X4, X4, X4")
	k.I("VCMPSS $4, X4, X2, K1") // not 0
	k.I("KMOVW K1, AX")
	k.I("NEGL AX")
	k.I("KMOVW AX, K1")
	k.I("VBROADCASTSS.Z X3, K1, Z3")
}

// oneDigit rounds a vector: the sum with a large number has no bits behind the point, and its lowest byte is the integer.
func oneDigit(k *asm.Func) {
	k.I("VADDPS Z30, Z4, Z4")
	k.I("VPMOVDB Z4, (DI)")
	k.I("VPSLLD $24, Z4, Z4")
	k.I("VPSRAD $24, Z4, Z4")
	k.I("VPADDD Z4, Z8, Z8")
}

// threeDigits rounds a vector. Each digit is the lowest byte, with a sign, of what is left.
func threeDigits(k *asm.Func) {
	k.I("VCVTPS2DQ Z4, Z4")
	for d := range 3 {
		k.I("VPMOVDB Z4, X5")
		k.I("VMOVDQU X5, %d(DI)", 16*d)
		k.I("VPDPBUSD X5, X30, X%d", 8+d)
		if d < 2 {
			k.I("VPADDD Z25, Z4, Z4")
			k.I("VPSRAD $8, Z4, Z4")
		}
	}
}

// head writes the scale of a block and the sums of its digits, less than zero where these are above.
func head(k *asm.Func, digits int) {
	k.I("VPXOR X5, X5, X5")
	if digits == 1 {
		lanes(k, "VPADDD", 8)
		k.I("VPSUBD X8, X5, X5")
		k.I("VMOVSS X2, (DX)")
		k.I("VMOVSS X5, 4(DX)")
		k.I("ADDQ $8, DX")
		return
	}
	k.I("VPSLLD $8, X10, X10") // the upper two digits as one number
	k.I("VPADDD X10, X9, X9")
	k.I("VPHADDD X9, X5, X6")
	k.I("VPHADDD X5, X8, X7")
	k.I("VPHADDD X7, X6, X6")
	k.I("VPSUBD X6, X5, X5")
	k.I("VMOVSS X2, X5, X5")
	k.I("VMOVDQU X5, (DX)")
	k.I("ADDQ $16, DX")
}

// lanes brings the lanes of a vector together in its lowest one; vector 1 is overwritten.
func lanes(k *asm.Func, op string, z int) {
	k.I("VEXTRACTI64X4 $1, Z%d, Y1", z)
	k.I("%s Y1, Y%[2]d, Y%[2]d", op, z)
	halfLanes(k, op, z)
}
