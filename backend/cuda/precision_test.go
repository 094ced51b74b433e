package cuda_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
	"github.com/carve-dev/carve/partition"
)

var _ = DescribeTable("products round their operands as the option says, add in float32, and the report names it",
	func(ctx SpecContext, option string, capability int, effective string, x grouptest.Product) {
		fake := driver()
		if capability != 80 {
			fake = own(fmt.Sprint("capability", capability), fakecuda.Options{})
			fake.Set("capability", capability)
		}
		g, err := x.Graph()
		Expect(err).NotTo(HaveOccurred())
		p, err := compile(ctx, fake, g, carve.Options{Poison: true}, "precision", option, "device", "0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		Expect(x.Compare(ctx, p, effective)).To(Succeed())
	},
	Entry("float32 by default", "", 80, "f32", grouptest.MatMul),
	Entry("float32 by name", "f32", 80, "f32", grouptest.MatMul),
	Entry("TF32", "tf32", 80, "tf32", grouptest.MatMul),
	Entry("half precision", "f16", 90, "f16", grouptest.MatMul),
	Entry("bfloat16", "bf16", 86, "bf16", grouptest.MatMul),
	Entry("float32 where the device has no matrix instructions", "tf32", 75, "f32", grouptest.MatMul),
	Entry("half precision, of a second operand that is transposed", "f16", 80, "f16", grouptest.Transposed),
	Entry("bfloat16, in a convolution", "bf16", 80, "bf16", grouptest.Conv),
)

var _ = Describe("double precision", func() {
	It("is computed on the device", func(ctx SpecContext) {
		g, err := grouptest.Doubles()
		Expect(err).NotTo(HaveOccurred())
		p, err := compile(ctx, driver(), g, carve.Options{Strict: true, Poison: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		Expect(grouptest.CompareDoubles(ctx, p, "cuda")).To(Succeed())
	})

	It("is not in kernels that were compiled beforehand", func(ctx SpecContext) {
		g, err := grouptest.Doubles()
		Expect(err).NotTo(HaveOccurred())
		_, err = compile(ctx, driver(), g, carve.Options{Strict: true}, "nvrtc", "off")
		Expect(err).To(MatchError(partition.ErrUnplaced))
		Expect(err).To(MatchError(ContainSubstring("double precision")))
	})
})

var _ = Describe("the option precision", func() {
	It("is one of four", func() {
		_, err := cuda.Open(config(driver(), "precision", "f8"))
		Expect(err).To(MatchError(backend.ErrOption))
	})

	It("is named by the backend where the device follows it", func() {
		fake := driver()
		b, err := cuda.Open(config(fake, "precision", "tf32"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Close)
		Expect(b.Info().Precision).To(Equal("tf32"))
		Expect(b.Info().Processor).To(HaveSuffix("products in tf32"))
		Expect(b.Info().Unmet).To(BeEmpty())
	})

	DescribeTable("is said to have no effect where there are no kernels for it, and is an error under Strict", func(ctx SpecContext, capability int, nvrtc, why string) {
		fake := own(fmt.Sprint("unmet", capability, nvrtc), fakecuda.Options{})
		fake.Set("capability", capability)
		options := []string{"precision", "bf16", "device", "0"}
		if nvrtc != "" {
			options = append(options, "nvrtc", nvrtc)
		}
		b, err := cuda.Open(config(fake, options...))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Close)
		Expect(b.Info().Unmet).To(Equal("precision=bf16: " + why + ", products stay in f32"))
		g, err := grouptest.MatMul.Graph()
		Expect(err).NotTo(HaveOccurred())
		_, err = compile(ctx, fake, g, carve.Options{Strict: true}, options...)
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(ContainSubstring(why)))
	},
		Entry("an old device", 75, "", "the device has no instructions for it"),
		Entry("kernels that were compiled beforehand", 80, "off", "kernels that were compiled beforehand do not round"))
})
