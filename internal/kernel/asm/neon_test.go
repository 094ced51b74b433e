package asm_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

var _ = Describe("words of NEON", func() {
	write := func(emit func(fn *asm.Func)) string {
		f := asm.New("p", "arm64")
		emit(f.Loaded("f", "does.", asm.Ptr("x"), asm.Float("s"), asm.Int("n")))
		return string(f.Text())
	}

	DescribeTable("are those that an assembler writes", func(want string, emit func(fn *asm.Func)) {
		Expect(write(emit)).To(HaveSuffix("\tWORD $" + want + "\n"))
	},
		Entry("usmmla v1.4s, v2.16b, v3.16b", "0x4e83ac41", func(fn *asm.Func) { fn.V("usmmla.4s", 1, 2, 3) }),
		Entry("smlal2 v1.4s, v2.8h, v31.8h", "0x4e7f8041", func(fn *asm.Func) { fn.V("smlal2.4s", 1, 2, 31) }),
		Entry("scvtf v1.4s, v2.4s", "0x4e21d841", func(fn *asm.Func) { fn.V("scvtf.4s", 1, 2) }),
		Entry("fmla v1.4s, v2.4s, v19.s[3]", "0x4fb31841", func(fn *asm.Func) { fn.VLane("fmla.4s", 1, 2, 19, 3) }),
		Entry("fmla v1.2d, v2.2d, v19.d[1]", "0x4fd31841", func(fn *asm.Func) { fn.VLane("fmla.2d", 1, 2, 19, 1) }),
		Entry("sudot v1.4s, v2.16b, v19.4b[2]", "0x4f13f841", func(fn *asm.Func) { fn.VLane("sudot.4s", 1, 2, 19, 2) }),
		Entry("shl v1.2d, v2.2d, #52", "0x4f745441", func(fn *asm.Func) { fn.VShift("shl.2d", 1, 2, 52) }),
		Entry("sshr v1.4s, v2.4s, #31", "0x4f210441", func(fn *asm.Func) { fn.VShift("sshr.4s", 1, 2, 31) }),
		Entry("ushr v1.16b, v2.16b, #4", "0x6f0c0441", func(fn *asm.Func) { fn.VShift("ushr.16b", 1, 2, 4) }),
	)

	It("follow arguments in general registers, but for floats", func() {
		text := write(func(*asm.Func) {})
		Expect(text).To(ContainSubstring("MOVD x+0(FP), R0\n\tMOVD n+16(FP), R2\n"))
		Expect(text).NotTo(ContainSubstring("s+8(FP)"))
	})

	DescribeTable("panic where none is known", func(emit func(fn *asm.Func)) { Expect(func() { write(emit) }).To(Panic()) },
		Entry("of an instruction", func(fn *asm.Func) { fn.V("sdot.2d", 1, 2, 3) }),
		Entry("of a lane", func(fn *asm.Func) { fn.VLane("usmmla.4s", 1, 2, 3, 0) }),
		Entry("of a shift", func(fn *asm.Func) { fn.VShift("ushr.2d", 1, 2, 3) }),
	)
})
