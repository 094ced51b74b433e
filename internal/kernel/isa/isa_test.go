package isa_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

const (
	avx2   = cpuid.AVX2 | cpuid.FMA | cpuid.F16C | cpuid.BMI2
	avx512 = avx2 | cpuid.AVX512F | cpuid.AVX512BW | cpuid.AVX512DQ | cpuid.AVX512VL
)

var _ = DescribeTable("Of lists the sets of a processor", func(f cpuid.Features, want ...isa.Set) {
	var got []isa.Set
	for _, t := range isa.Of(f) {
		Expect(t.Features).To(Equal(f))
		got = append(got, t.Set)
	}
	Expect(got).To(Equal(want))
},
	Entry("that has none", cpuid.Features(0), isa.Portable),
	Entry("with AVX2", avx2, isa.Portable, isa.AVX2),
	Entry("with AVX2 but without FMA", avx2&^cpuid.FMA, isa.Portable),
	Entry("with AVX2 but without BMI2", avx2&^cpuid.BMI2, isa.Portable),
	Entry("with AVX-512", avx512|cpuid.Split512, isa.Portable, isa.AVX2, isa.AVX512),
	Entry("with AVX-512 but without VL", avx512&^cpuid.AVX512VL, isa.Portable, isa.AVX2),
	Entry("of arm64", cpuid.ASIMD, isa.Portable, isa.NEON),
)

var _ = Describe("Targets", func() {
	It("begin with portable Go and end with the host's", func() {
		all := isa.Targets()
		Expect(all[0]).To(Equal(isa.Target{Features: cpuid.Host(), Caches: cpuid.HostCaches()}))
		Expect(all[len(all)-1]).To(Equal(isa.Host()))
	})

	It("are found by name", func() {
		for _, t := range isa.Targets() {
			Expect(isa.Named(t.String())).To(Equal(t))
		}
	})

	DescribeTable("are not found by other names", func(name string) {
		_, err := isa.Named(name)
		Expect(err).To(MatchError(isa.ErrUnknown))
		Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("%q, only portable", name))))
	},
		Entry(nil, ""),
		Entry(nil, "avx"),
		Entry(nil, "AVX2"),
		Entry(nil, "set(9)"),
	)
})

var _ = DescribeTable("Set", func(s isa.Set, name string) { Expect(s.String()).To(Equal(name)) },
	Entry(nil, isa.Portable, "portable"),
	Entry(nil, isa.AVX2, "avx2"),
	Entry(nil, isa.AVX512, "avx512"),
	Entry(nil, isa.NEON, "neon"),
	Entry(nil, isa.Set(9), "set(9)"),
)

var _ = DescribeTable("Class", func(s isa.Set, second int, want string) {
	t := isa.Target{Set: s}
	t.Caches[1].Bytes = second
	Expect(t.Class()).To(Equal(want))
},
	Entry("of AVX-512 without known caches", isa.AVX512, 0, "avx512"),
	Entry("of AMD's", isa.AVX512, 1<<20, "avx512"),
	Entry("of Intel's before 2023", isa.AVX512, 1280<<10, "avx512"),
	Entry("of Intel's servers since", isa.AVX512, 2<<20, "avx512-2MiB"),
	Entry("of AVX2 on these", isa.AVX2, 2<<20, "avx2"),
	Entry("of arm64", isa.NEON, 2<<20, "neon"),
)
