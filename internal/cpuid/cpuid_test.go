package cpuid_test

import (
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/cpuid"
)

var _ = Describe("Best", func() {
	It("is the detected level when nothing is forced", func() {
		Expect(cpuid.Best()).To(Equal(cpuid.Detected()))
	})

	It("follows Force, nested, and returns to what was in force", func() {
		outer := cpuid.Force(cpuid.AVX2)
		Expect(cpuid.Best()).To(Equal(min(cpuid.AVX2, cpuid.Detected())))
		inner := cpuid.Force(cpuid.Generic)
		Expect(cpuid.Best()).To(Equal(cpuid.Generic))
		inner()
		Expect(cpuid.Best()).To(Equal(min(cpuid.AVX2, cpuid.Detected())))
		outer()
		Expect(cpuid.Best()).To(Equal(cpuid.Detected()))
	})

	It("never exceeds what the processor can run", func() {
		defer cpuid.Force(cpuid.AVX512 + 5)()
		Expect(cpuid.Best()).To(Equal(cpuid.Detected()))
		defer cpuid.Force(-3)()
		Expect(cpuid.Best()).To(Equal(cpuid.Generic))
	})

	It("agrees with the kernel's list of processor flags", func() {
		text, err := os.ReadFile("/proc/cpuinfo")
		if err != nil || !strings.Contains(string(text), "flags\t") {
			Skip("no x86 /proc/cpuinfo here")
		}
		if strings.Contains(os.Getenv("GODEBUG"), "cpu.") {
			Skip("GODEBUG hides features")
		}
		fields := strings.Fields(string(text))
		has := func(flags ...string) bool {
			for _, f := range flags {
				found := false
				for _, w := range fields {
					found = found || w == f
				}
				if !found {
					return false
				}
			}
			return true
		}
		want := cpuid.Generic
		if has("avx2", "fma", "f16c") {
			want = cpuid.AVX2
			if has("avx512f", "avx512bw", "avx512dq", "avx512vl") {
				want = cpuid.AVX512
			}
		}
		Expect(cpuid.Detected()).To(Equal(want))
	})
})

var _ = Describe("Levels", func() {
	It("lists every level up to the detected one", func() {
		ls := cpuid.Levels()
		Expect(ls[0]).To(Equal(cpuid.Generic))
		Expect(ls[len(ls)-1]).To(Equal(cpuid.Detected()))
	})

	DescribeTable("has names", func(l cpuid.Level, name string) { Expect(l.String()).To(Equal(name)) },
		Entry(nil, cpuid.Generic, "generic"),
		Entry(nil, cpuid.AVX2, "avx2"),
		Entry(nil, cpuid.AVX512, "avx512"),
		Entry(nil, cpuid.Level(9), "level(9)"),
	)
})
