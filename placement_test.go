package carve_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
)

var _ = Describe("Placement by cost", func() {
	const text = "graph {\n  opset 17\n  input %x: f32[8,8]\n  %a = Relu(%x) \"a\"\n  %b = Det(%a) \"b\"\n  output %b\n}"

	It("is in the report, with a bound", func(ctx SpecContext) {
		p := compile(ctx, textModel(text), &carve.Options{Placement: carve.Modelled, Verify: true})
		defer p.Close()
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Placement.Nanoseconds).To(BeNumerically(">", 0))
		Expect(r.Placement.Bound).To(Equal(r.Placement.Nanoseconds), "two nodes are chosen exactly")
		where, reasons, found := r.Why("b")
		Expect(found).To(BeTrue())
		Expect(where).To(Equal("reference"), "cpu has no kernel")
		Expect(reasons).To(ConsistOf(HaveField("Backend", "cpu")))
	})

	It("is not in the report where the order of the list decides", func(ctx SpecContext) {
		p := compile(ctx, textModel(text), nil)
		defer p.Close()
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Placement).To(BeNil())
	})

	It("has names", func(ctx SpecContext) {
		for _, p := range []carve.Placement{carve.Priority, carve.Modelled, carve.Measured} {
			Expect(carve.ParsePlacement(p.String())).To(Equal(p))
		}
		_, err := carve.ParsePlacement("fastest")
		Expect(err).To(MatchError(carve.ErrInput))
		for _, o := range []carve.Options{{Placement: 3}, {Placement: -1}, {Budget: -1}} {
			_, err := carve.Compile(ctx, textModel(text), &o)
			Expect(err).To(MatchError(carve.ErrInput), o.Placement.String())
		}
	})
})
