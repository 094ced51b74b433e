package main

import (
	"regexp"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestMCA(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/bench/mca")
}

// listing is what go tool objdump writes of two kernels, the second in pieces: an outer loop with two inner ones, and a loop.
const listing = `TEXT gemm.tile(SB) gemm/neon_arm64.s
  neon_arm64.s:1	0x10	d503201f	NOOP
  neon_arm64.s:2	0x14	f1000421	SUBS $1, R1, R1
  neon_arm64.s:3	0x18	54ffffe1	BNE -1(PC)
  neon_arm64.s:4	0x1c	b5ffffe2	CBNZ R2, -1(PC)
  neon_arm64.s:5	0x20	54ffff81	BNE -4(PC)
  neon_arm64.s:6	0x24	d65f03c0	RET
TEXT denseNEON_tile<1>(SB) gemm/neon_arm64.s
  neon_arm64.s:7	0x28	d503201f	NOOP
TEXT denseNEON_b12<1>(SB) gemm/neon_arm64.s
  neon_arm64.s:8	0x2c	d503201f	NOOP
  neon_arm64.s:9	0x30	54ffffeb	BLT -1(PC)
`

var _ = Describe("loops", func() {
	It("are the innermost ones of kernels and of their pieces", func() {
		kernels, err := parse("gemm", listing)
		Expect(err).NotTo(HaveOccurred())
		Expect(kernels).To(HaveLen(2))
		Expect(kernels[0].name).To(Equal("gemm.tile"))
		Expect(kernels[0].pieces).To(HaveLen(1))
		Expect(innermost(kernels[0].pieces[0])).To(Equal([][2]int{{1, 2}, {2, 3}}))
		Expect(kernels[1].name).To(Equal("gemm.denseNEON"))
		Expect(kernels[1].pieces).To(HaveLen(2))
		Expect(innermost(kernels[1].pieces[1])).To(Equal([][2]int{{0, 1}}))
	})

	It("count multiply-adds by the kind that they have most of", func() {
		l := loop{text: []string{"smlal v0.4s, v1.4h, v2.4h", "smlal2 v0.4s, v1.8h, v2.8h", "sdot v3.4s, v4.16b, v5.4b[0]", "add x0, x0, #1"}}
		l.count()
		Expect(l.multiply).To(Equal("smlal"))
		Expect(l.multiplies).To(Equal(3))
	})
})

var _ = Describe("published ports", func() {
	// turn is a turn of a loop of so many sums, each added to so often, with loads before it.
	turn := func(sums, times, loads int) loop {
		l := loop{}
		for range loads {
			l.text = append(l.text, "ldr q30, [x0], #16")
		}
		for range times {
			for i := range sums {
				l.text = append(l.text, regexp.MustCompile("N").ReplaceAllString("fmla vN.4s, v30.4s, v31.s[0]", string(rune('0'+i))))
			}
		}
		l.text = append(l.text, "subs x1, x1, #1", "b.ne #-64")
		return l
	}

	DescribeTable("bound a turn", func(processor string, l loop, limit, time float64) {
		p := published[processor]
		Expect(p.limit(l)).To(BeNumerically("~", limit, 1e-9))
		Expect(p.time(l)).To(BeNumerically("~", time, 1e-9))
	},
		Entry("by what multiplies", "neoverse-n1", turn(8, 2, 1), 8.0, 8.0),
		Entry("by sums that wait for themselves", "apple-m1", turn(2, 4, 1), 2.0, 16.0),
		Entry("by loads", "neoverse-v2", turn(8, 1, 9), 2.0, 3.0),
		Entry("by what is dispatched", "neoverse-n1", turn(8, 1, 6), 4.0, 4.0),
		Entry("by integers, as loads that move their address on are", "neoverse-n1", turn(1, 1, 5), 0.5, 2.5),
	)

	It("begin no sum of a register that is written otherwise", func() {
		l := turn(1, 4, 0)
		Expect(published["apple-m1"].time(l)).To(Equal(16.0))
		l.text = append(l.text, "ldr q0, [x0]")
		Expect(published["apple-m1"].time(l)).To(BeNumerically("<", 2))
	})

	It("know every processor's rate and wait of a multiply-add together", func() {
		for name, p := range published {
			for m, rate := range p.rates {
				Expect(rate).To(BeNumerically(">", 0))
				Expect(p.waits).To(HaveKey(m), name)
			}
		}
	})
})
