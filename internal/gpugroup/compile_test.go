package gpugroup_test

import (
	"context"
	"errors"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
)

var _ = Describe("compiling plans", func() {
	plans := make([]*gpukernel.Plan, 9)
	index := map[*gpukernel.Plan]int{}
	for i := range plans {
		plans[i] = &gpukernel.Plan{Scratch: make([]gpukernel.Scratch, i)}
		index[plans[i]] = i
	}

	It("keeps their order", func() {
		list, err := gpugroup.Compile(plans, func(p *gpukernel.Plan) (int, error) { return index[p], nil }, func(int) { Fail("released") })
		Expect(err).NotTo(HaveOccurred())
		Expect(list).To(Equal([]int{0, 1, 2, 3, 4, 5, 6, 7, 8}))
	})

	It("releases what it has where one does not compile", func() {
		bad := errors.New("no")
		var made, released atomic.Int32
		_, err := gpugroup.Compile(plans, func(p *gpukernel.Plan) (int, error) {
			if index[p] == 4 {
				return 0, bad
			}
			made.Add(1)
			return 1, nil
		}, func(int) { released.Add(1) })
		Expect(err).To(MatchError(bad))
		Expect(made.Load()).To(Equal(int32(8)))
		Expect(released.Load()).To(Equal(int32(8)))
	})

	It("has nothing to do for none", func() {
		list, err := gpugroup.Compile(nil, func(*gpukernel.Plan) (int, error) { return 0, nil }, func(int) {})
		Expect(err).NotTo(HaveOccurred())
		Expect(list).To(BeEmpty())
	})
})

var _ = DescribeTable("an executable is specialised when it is compiled", func(ctx SpecContext, source string, want int) {
	g, err := graph.Parse("graph \"g\" {\n  opset 17\n" + source + "}\n")
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.InferGraph(g)).To(Succeed())
	calls := 0
	e, err := gpugroup.NewExecutable(ctx, g, func(_ context.Context, b graph.Bindings) (backend.Instance, error) {
		calls++
		return nil, ctx.Err()
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(e.Close)
	Expect(calls).To(Equal(want))
},
	Entry("where all shapes are known", "  input %x: f32[2,3]\n  %y = Relu(%x)\n  output %y\n", 1),
	Entry("also with results that are left out", "  input %x: f32[2,3]\n  const %w = f32[3]{1, 1, 1}\n  %y, _, %s = LayerNormalization(%x, %w)\n  output %y\n  output %s\n", 1),
	Entry("not with open dims", "  input %x: f32[N,3]\n  %y = Relu(%x)\n  output %y\n", 0),
	Entry("not with numbers that are open dims", "  input %x: i64[1]\n  dims %n = [N]\n  %y = Add(%x, %n)\n  output %y\n", 0),
)
