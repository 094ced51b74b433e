package nvrtc_test

import (
	"errors"
	"flag"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
)

var path = flag.String("nvrtc", "", "path of libnvrtc; empty: the loader searches")

var _ = Describe("NVRTC", func() {
	It("says that a library is not there", func() {
		_, err := nvrtc.Open("/nowhere/libnvrtc.so")
		Expect(err).To(SatisfyAny(MatchError(dl.ErrOpen), MatchError(dl.ErrUnsupported)))
	})

	It("compiles to machine code, and hands on what the compiler says", func() {
		lib, err := nvrtc.Open(*path)
		if err != nil {
			Skip(err.Error())
		}
		Expect(lib.Major).To(BeNumerically(">=", 11))
		binary, log, err := lib.Compile(`extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2.0f; }`, "sm_80")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(binary[:4])).To(Equal("\x7fELF"))
		all := nvrtc.ParseResources(log)
		Expect(all).To(HaveLen(1))
		Expect(all[0].Kernel).To(Equal("twice"))
		Expect(all[0].Registers).To(BeNumerically(">", 0))

		_, _, err = lib.Compile("nonsense", "sm_80")
		var failed *nvrtc.Error
		Expect(errors.As(err, &failed)).To(BeTrue())
		Expect(failed.Log).To(ContainSubstring("nonsense"))
	})

	It("reads the assembler's log", func() {
		log := `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
ptxas         .     32 bytes stack frame, 36 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, used 0 barriers
`
		Expect(nvrtc.ParseResources(log)).To(Equal([]nvrtc.Resources{
			{Kernel: "first", Registers: 128, SpillStores: 36, SpillLoads: 40, Stack: 32, Shared: 1024},
			{Kernel: "second", Registers: 14},
		}))
		Expect(nvrtc.ParseResources("nothing")).To(BeEmpty())
	})
})
