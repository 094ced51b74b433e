package carve_test

import (
	"errors"
	"log/slog"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

// near compares two outputs of the same network on different backends.
func near(got, want tensor.Value) {
	GinkgoHelper()
	g, w := tensor.Of[float32](got.(*tensor.Tensor)), tensor.Of[float32](want.(*tensor.Tensor))
	Expect(g).To(HaveLen(len(w)))
	for i := range w {
		if !(math.Abs(float64(g[i]-w[i])) <= 1e-4*(1+math.Abs(float64(w[i])))) {
			Fail("element differs")
		}
	}
}

var _ = Describe("a group whose backend fails", func() {
	feeds := map[string]tensor.Value{"x": wave(2, 3, 9, 11)}

	DescribeTable("falls back, once and with a warning",
		func(ctx SpecContext, set func(*faulty), compiled bool) {
			m := textModel(smallNet())
			want, err := compile(ctx, m, nil).Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())

			b := newFaulty("faulty", "Conv", "Relu", "Add", "Sigmoid", "MatMul")
			set(b)
			var log journal
			o := withFaulty(b)
			o.Logger = slog.New(&log)
			p := compile(ctx, m, o)
			for range 3 {
				got, err := p.Run(ctx, feeds)
				Expect(err).NotTo(HaveOccurred())
				near(got["y"], want["y"])
			}
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			if compiled {
				where, reasons, found := r.Why("conv0")
				Expect(found).To(BeTrue())
				Expect(where).NotTo(Equal("faulty"))
				Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "faulty"), HaveField("Reason", ContainSubstring("compile-failed")))))
			}
			groups := 0
			for _, g := range r.Groups {
				if g.Backend == "faulty" {
					groups++
				}
			}
			Expect(log.lines).NotTo(BeEmpty())
			if !compiled {
				Expect(log.lines).To(HaveLen(groups))
			}
			Expect(p.Close()).To(Succeed())
			Expect(b.executables.Load()).To(BeZero())

			o.Strict = true
			o.Backends = append(o.Backends, onReference[0])
			p, err = carve.Compile(ctx, m, o)
			if err == nil {
				_, err = p.Run(ctx, feeds)
				Expect(p.Close()).To(Succeed())
			}
			var step *carve.StepError
			Expect(errors.As(err, &step)).To(BeTrue())
			Expect(step.Backend).To(Equal("faulty"))
			Expect(step.Nodes).NotTo(BeEmpty())
			Expect(b.executables.Load()).To(BeZero())
			Expect(b.closed.Load()).To(BeZero(), "a backend that the caller opened")
		},
		Entry("an error of Compile", func(b *faulty) { b.compile = fails }, true),
		Entry("a panic of Compile", func(b *faulty) { b.compile = panics }, true),
		Entry("an error of Specialize", func(b *faulty) { b.specialize = fails }, false),
		Entry("a panic of Specialize", func(b *faulty) { b.specialize = panics }, false),
		Entry("an error at the start of a run", func(b *faulty) { b.enqueue = fails }, false),
		Entry("a panic at the start of a run", func(b *faulty) { b.enqueue = panics }, false),
		Entry("an error at the end of a run", func(b *faulty) { b.enqueue, b.after = fails, true }, false),
		Entry("a panic at the end of a run", func(b *faulty) { b.enqueue, b.after = panics, true }, false),
	)

	It("recovers when the fault is gone", func(ctx SpecContext) {
		m := textModel(smallNet())
		b := newFaulty("sometimes", "Conv", "Relu")
		b.after = true
		p := compile(ctx, m, withFaulty(b))
		want, err := compile(ctx, m, nil).Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		b.enqueue = fails
		got, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		near(got["y"], want["y"])
		b.enqueue = nil
		got, err = p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		near(got["y"], want["y"])
	})
})
