package asm_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

var _ = Describe("Retarget", func() {
	write := func(lines ...string) string {
		f := asm.New("p", "arm64")
		fn := f.Func("f", "f does.", asm.Int("n"))
		r := asm.OnNEON(fn, 30, 31)
		for _, l := range lines {
			r.I(l)
		}
		return string(f.Text())
	}

	DescribeTable("says an instruction in NEON's", func(avx string, want ...string) {
		text := write(avx)
		for _, w := range want {
			Expect(text).To(ContainSubstring("\t" + w + "\n"))
		}
	},
		Entry("sum", "VADDPS V1, V2, V3", "WORD $0x4e21d443"),                                // fadd v3.4s, v2.4s, v1.4s
		Entry("difference", "VSUBPS V1, V2, V3", "WORD $0x4ea1d443"),                         // fsub v3.4s, v2.4s, v1.4s
		Entry("product into a sum", "VFMADD231PS V1, V2, V3", "WORD $0x4e21cc43"),            // fmla v3.4s, v2.4s, v1.4s
		Entry("product out of a sum", "VFNMADD231PS V1, V2, V3", "WORD $0x4ea1cc43"),         // fmls v3.4s, v2.4s, v1.4s
		Entry("product into a sum of float64", "VFMADD231PD V1, V2, V3", "WORD $0x4e61cc43"), // fmla v3.2d, v2.2d, v1.2d
		Entry("rounding of float64", "VROUNDPD $8, V1, V2", "WORD $0x4e618822"),              // frintn v2.2d, v1.2d
		Entry("number of float64", "VBROADCASTSD (SI), V2", "FMOVD (R1), F2", "VDUP V2.D[0], V2.D2"),
		Entry("square root", "VSQRTPS V1, V2", "WORD $0x6ea1f822"),                                   // fsqrt v2.4s, v1.4s
		Entry("shift to the right", "VPSRAD $1, V1, V2", "WORD $0x4f3f0422"),                         // sshr v2.4s, v1.4s, #1
		Entry("shift to the left", "VPSLLD $23, V1, V2", "WORD $0x4f375422"),                         // shl v2.4s, v1.4s, #23
		Entry("comparison", "VCMPPS $1, V1, V2, V3", "WORD $0x6ea2e423"),                             // fcmgt v3.4s, v1.4s, v2.4s
		Entry("comparison of doubles", "VCMPPD $1, V1, V2, V3", "WORD $0x6ee2e423"),                  // fcmgt v3.2d, v1.2d, v2.2d
		Entry("operand in memory", "VADDPS 16(SI), V2, V3", "FMOVQ 16(R1), F30", "WORD $0x4e3ed443"), // by way of a register
		Entry("index", "VMOVUPS 16(R8)(R10*2), V2", "ADD R4<<1, R2, R25", "FMOVQ 16(R25), F2"),       // added first
		Entry("sum in the place of a factor", "VFMADD213PS V1, V2, V3", "VMOV V1.B16, V31.B16", "VMOV V31.B16, V3.B16"),
		Entry("count in memory", "DECQ 8(DI)", "MOVD 8(R0), R25", "SUBS $1, R25, R25", "MOVD R25, 8(R0)"),
		Entry("jump", "JZ end", "BEQ end"),
	)

	DescribeTable("panics at what it cannot say", func(avx string) { Expect(func() { write(avx) }).To(Panic()) },
		Entry("an instruction that it does not know", "VPERMPS V1, V2, V3"),
		Entry("a register that stands for none", "MOVQ R28, DI"),
		Entry("a blend of three registers", "VBLENDVPS V1, V2, V3, V4"),
		Entry("two numbers that may be unordered", "VCMPPS $3, V1, V2, V3"),
		Entry("a predicate of which there is none", "VCMPPS $7, V1, V2, V3"),
		Entry("a vector that is none", "VADDPS Z1, V2, V3"),
	)
})
