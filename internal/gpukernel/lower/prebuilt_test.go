package lower_test

import (
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
)

var _ = Describe("Kernels compiled beforehand", func() {
	device := gpukernel.NVIDIA(90, 132)
	device.Prebuilt = true

	start := func(ctx SpecContext) *fibre.Program {
		GinkgoHelper()
		p, err := fibre.Start(ctx, GinkgoT().TempDir(), fibre.All, gpukernel.Prebuilt()...)
		if errors.Is(err, fibre.ErrNoCompiler) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		return p
	}

	It("compute what the reference computes, on random graphs", func(ctx SpecContext) {
		p := start(ctx)
		launches := 0
		for i := range *graphs {
			x := render(uint64(*first+i), device)
			launches += len(x.plan.Launches)
			x.compare(p)
		}
		AddReportEntry("random graphs", fmt.Sprintf("%d graphs, %d launches", *graphs, launches))
	})

	It("compute what the reference computes, for each operator", func(ctx SpecContext) {
		p := start(ctx)
		list, refused := renderOperators(device)
		for _, x := range list {
			x.compare(p)
		}
		Expect([]string{"Cast of narrow types", "DequantizeLinear of narrow types", "QuantizeLinear to narrow types"}).To(ContainElements(refused),
			"only the floats of a byte or less have no instructions")
	})
})
