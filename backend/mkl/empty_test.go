package mkl_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
)

var _ = Describe("tensors without elements, which the library divides by", func() {
	for _, lib := range libraries() {
		DescribeTable(strings.TrimSpace("have the results of the reference kernels "+lib), func(ctx SpecContext, call string) {
			open(lib)
			g := parse("\n  input %x: f32[3,0]\n  const %w = f32[0,5]{}\n  input %u: f32[2,0,4,4]\n  input %v: f32[0,3,4,4]\n  const %k = f32[6,3,1,1]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}\n" + call + "\n  output %y")
			p := program(ctx, g, carve.Options{Placement: carve.Priority, Backends: []backend.Config{mklWith(lib)}})
			expectAgreement(ctx, p, g)
		},
			Entry("a product over nothing", "  %m = MatMul(%x, %w)\n  %y = Relu(%m)"),
			Entry("a Gemm over nothing", "  %y = Gemm(%x, %w)"),
			Entry("a mean of nothing", "  %y = ReduceMean(%v; axes=[0])"),
			Entry("a sum of nothing", "  const %a = i64[1]{0}\n  %y = ReduceSum(%v, %a)"),
			Entry("no images", "  %c = Conv(%v, %k)\n  %y = Relu(%c)"),
			Entry("no channels", "  %y = GlobalAveragePool(%u)"),
			Entry("one operand of several", "  const %o = f32[1,3,4,4]{~}\n  %y = Concat(%v, %o; axis=0)"),
		)
	}
})
