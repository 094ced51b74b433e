package cpuid_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/cpuid"
)

var _ = Describe("Host", func() {
	It("agrees with the kernel's list of processor flags", func() {
		text, err := os.ReadFile("/proc/cpuinfo")
		if err != nil || runtime.GOARCH != "amd64" || !strings.Contains(string(text), "flags\t") { // an emulator shows the host's
			Skip("no x86 /proc/cpuinfo here")
		}
		if strings.Contains(os.Getenv("GODEBUG"), "cpu.") {
			Skip("GODEBUG hides features")
		}
		flags := map[string]bool{}
		for _, w := range strings.Fields(string(text)) {
			flags[w] = true
		}
		for _, f := range []cpuid.Features{cpuid.AVX2, cpuid.FMA, cpuid.F16C, cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL, cpuid.AVX512VNNI, cpuid.BMI2, cpuid.AVX512BF16, cpuid.AVX512VBMI} {
			Expect(cpuid.Host().Has(f)).To(Equal(flags[f.String()]), "%v", f)
		}
		for _, f := range []cpuid.Features{cpuid.AMXInt8, cpuid.AMXBF16} { // a system may refuse them
			if cpuid.Host().Has(f) {
				Expect(flags).To(HaveKeyWithValue(f.String(), true))
			}
		}
		amd := flags["AuthenticAMD"] && strings.Contains(string(text), "cpu family\t: 25\n")
		Expect(cpuid.Host().Has(cpuid.Split512)).To(Equal(amd))
	})

	It("has the vector unit of every arm64 processor, and that of no other", func() {
		arm64 := runtime.GOARCH == "arm64"
		Expect(cpuid.ASIMD).To(WithTransform(cpuid.Host().Has, Equal(arm64)))
		if cpuid.Host().Has(cpuid.I8MM) {
			Expect(cpuid.Host().Has(cpuid.ASIMDDP)).To(BeTrue())
		}
	})
})

var _ = Describe("HostCaches", func() {
	It("agrees with what the kernel says of the first core", func() {
		if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
			Skip("no caches are read here")
		}
		want, known := cpuid.Caches{}, 0
		for i := range 8 {
			field := func(name string) string {
				text, _ := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, name))
				return strings.TrimSpace(string(text))
			}
			level, _ := strconv.Atoi(field("level"))
			if field("type") != "Data" && field("type") != "Unified" || level < 1 || level > len(want) {
				continue
			}
			size, err := strconv.Atoi(strings.TrimSuffix(field("size"), "K"))
			Expect(err).NotTo(HaveOccurred())
			want[level-1] = cpuid.Cache{Bytes: size << 10}
			known++
		}
		if known == 0 {
			Skip("the kernel knows no caches")
		}
		Expect(cpuid.HostCaches()).To(Equal(want))
	})
})

var _ = Describe("Model", func() {
	It("names the architecture, and on x86 the processor", func() {
		Expect(cpuid.Model()).To(HavePrefix(runtime.GOARCH))
		if runtime.GOARCH == "amd64" {
			Expect(cpuid.Model()).To(MatchRegexp(`^amd64 .... [0-9a-f]{8}$`))
		}
	})
})

var _ = Describe("Features", func() {
	It("has what all of its parts have, and lacks what one lacks", func() {
		f := cpuid.AVX2 | cpuid.FMA
		Expect(f.Has(cpuid.AVX2)).To(BeTrue())
		Expect(f.Has(cpuid.AVX2 | cpuid.FMA)).To(BeTrue())
		Expect(f.Has(cpuid.AVX2 | cpuid.F16C)).To(BeFalse())
		Expect(f.Has(0)).To(BeTrue())
	})

	DescribeTable("has names", func(f cpuid.Features, name string) { Expect(f.String()).To(Equal(name)) },
		Entry(nil, cpuid.Features(0), ""),
		Entry(nil, cpuid.F16C|cpuid.AVX2, "avx2 f16c"),
		Entry(nil, cpuid.ASIMD, "asimd"),
		Entry(nil, cpuid.Features(1<<60), ""),
		Entry(nil, ^cpuid.Features(0),
			"avx2 fma f16c avx512f avx512bw avx512dq avx512vl avx512_vnni split512 asimd bmi2 asimddp i8mm avx512_bf16 avx512vbmi asimdhp bf16 amx_int8 amx_bf16"),
	)
})
