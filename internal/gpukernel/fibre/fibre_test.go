package fibre_test

import (
	"encoding/binary"
	"errors"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
)

// plan is a kernel of 64 items on buffers "x" and "y" of floats, in one group.
func plan(body string, edit func(*gpukernel.Kernel)) *gpukernel.Plan {
	k := &gpukernel.Kernel{
		Name: "planted", Threads: 64, Arena: 64 * 4, Waits: true,
		Params: []gpukernel.Param{{Name: "x", Type: gpukernel.F32}, {Name: "y", Type: gpukernel.F32, Written: true}},
		Body:   "{\n\tARENA(arena);\n\tLOCAL f32 *all = (LOCAL f32 *)arena;\n" + body + "\n}\n",
	}
	if edit != nil {
		edit(k)
	}
	args := []gpukernel.Arg{{Buffer: "x"}, {Buffer: "y"}}
	return &gpukernel.Plan{Launches: []gpukernel.Launch{{Kernel: k, Grid: [3]int{1, 1, 1}, Args: args}}}
}

// run returns y after the kernel ran on x = 0, 1, 2 …
func run(ctx SpecContext, p *gpukernel.Plan) ([]float32, error) {
	GinkgoHelper()
	program, err := fibre.Start(ctx, GinkgoT().TempDir(), fibre.All, fibre.Kernels(p)...)
	if errors.Is(err, fibre.ErrNoCompiler) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(program.Close)
	x, y := make([]byte, 0, 256), make([]byte, 256)
	for i := range 64 {
		x = binary.NativeEndian.AppendUint32(x, math.Float32bits(float32(i)))
	}
	err = program.Run(p, map[string][]byte{"x": x, "y": y})
	list := make([]float32, 64)
	for i := range list {
		list[i] = math.Float32frombits(binary.NativeEndian.Uint32(y[4*i:]))
	}
	return list, err
}

var _ = Describe("The fibre build", func() {
	It("runs a kernel whose items exchange elements", func(ctx SpecContext) {
		y, err := run(ctx, plan("all[ITEM] = x[ITEM]; BARRIER(); y[ITEM] = all[63 - ITEM] + SHUFFLE_XOR(x[ITEM], 1);", nil))
		Expect(err).NotTo(HaveOccurred())
		for i, v := range y {
			Expect(v).To(Equal(float32(63 - i + (i ^ 1))))
		}
	})

	It("shows a missing barrier, by the NaNs of memory that is read before it is written", func(ctx SpecContext) {
		y, err := run(ctx, plan("all[ITEM] = x[ITEM]; y[ITEM] = all[63 - ITEM]; BARRIER();", nil))
		Expect(err).NotTo(HaveOccurred())
		Expect(y).To(ContainElement(Satisfy(func(v float32) bool { return v != v })))
	})

	It("shows a copy that nobody waits for, by the NaNs of its destination", func(ctx SpecContext) {
		y, err := run(ctx, plan("copy_async_4(all + ITEM, x + ITEM, 1); COPY_COMMIT(); COPY_WAIT(1); y[ITEM] = all[ITEM]; COPY_WAIT(0);", nil))
		Expect(err).NotTo(HaveOccurred())
		Expect(y).To(HaveEach(Satisfy(func(v float32) bool { return v != v })))
	})

	DescribeTable("reports", func(ctx SpecContext, body, report string, edit func(*gpukernel.Kernel)) {
		_, err := run(ctx, plan(body, edit))
		Expect(err).To(MatchError(ContainSubstring(report)))
	},
		Entry("a write behind a buffer", "BARRIER(); y[ITEM + 1] = x[ITEM];", "heap-buffer-overflow", nil),
		Entry("a read behind local memory", "BARRIER(); y[ITEM] = all[ITEM + 1];", "heap-buffer-overflow", nil),
		Entry("a barrier that some items do not reach", "if (ITEM < 32) BARRIER();", "items end while others wait", nil),
		Entry("items at different barriers", "if (ITEM < 32) {\nBARRIER();\n} else {\nBARRIER();\n}", "different barriers", nil),
		Entry("a shuffle in a part of a warp", "if (ITEM % 2) y[ITEM] = SHUFFLE_XOR(x[ITEM], 2);", "lanes of a warp part", nil),
		Entry("a copy in flight at the end", "copy_async_4(all + ITEM, x + ITEM, 1); COPY_COMMIT();", "ends with copies in flight", nil),
		Entry("a copy that is not aligned", "copy_async_16(all + ITEM % 2, x, 1); COPY_COMMIT(); COPY_WAIT(0);", "not aligned", nil),
		Entry("a kernel that waits although it is declared not to", "BARRIER();", "declared not to", func(k *gpukernel.Kernel) { k.Waits = false }),
		Entry("undefined behaviour", "y[ITEM] = (f32)(1 << (ITEM + 40));", "shift exponent", nil),
	)

	It("reports plans that do not fit", func(ctx SpecContext) {
		p := plan("BARRIER();", nil)
		program, err := fibre.Start(ctx, GinkgoT().TempDir(), fibre.All, fibre.Kernels(p)...)
		if errors.Is(err, fibre.ErrNoCompiler) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(program.Close)
		Expect(program.Run(p, nil)).To(MatchError(ContainSubstring(`no buffer "x"`)))
		Expect(program.Run(plan("BARRIER();", func(k *gpukernel.Kernel) { k.Name = "another" }), nil)).To(MatchError(ContainSubstring("not among")))
		_, err = fibre.Start(ctx, GinkgoT().TempDir(), fibre.All, fibre.Kernels(plan("nonsense", nil))...)
		Expect(err).To(MatchError(ContainSubstring("nonsense")))
	})
})
