package carve_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
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

	It("is the default where several backends say what they achieve", func(ctx SpecContext) {
		report := func(o *carve.Options) *carve.Report {
			GinkgoHelper()
			o.Verify = true
			p := compile(ctx, textModel(text), o)
			defer p.Close()
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			return r
		}
		slow, quick := achieving("slow", 1e6), achieving("quick", 1e3)
		list := func(names ...string) (list []backend.Config) {
			for _, n := range names {
				list = append(list, backend.Config{Name: n})
			}
			return list
		}
		open := map[string]backend.Backend{"slow": slow, "quick": quick, "silent": &reference.Backend{Name: "silent"}}
		for _, names := range [][]string{{"slow", "quick"}, {"quick", "slow"}} {
			r := report(&carve.Options{Backends: list(names...), Open: open, Strict: true})
			Expect(r.Placement).NotTo(BeNil())
			Expect(r.Placement.Nanoseconds).To(BeNumerically("~", 2e3, 1), "in either order")
			Expect(r.Groups).To(HaveExactElements(HaveField("Backend", "quick")))
		}
		r := report(&carve.Options{Backends: list("slow", "quick"), Open: open, Strict: true, Placement: carve.Priority})
		Expect(r.Placement).To(BeNil())
		Expect(r.Groups).To(HaveExactElements(HaveField("Backend", "slow")))
		Expect(report(&carve.Options{Backends: list("slow"), Open: open}).Placement).NotTo(BeNil(), "cpu follows implicitly")
		Expect(report(&carve.Options{Backends: list("slow", "reference"), Open: open, Strict: true}).Placement).To(BeNil(), "one and the last resort")
		Expect(report(&carve.Options{Backends: list("silent", "quick"), Open: open, Strict: true}).Placement).To(BeNil(), "one does not say")
	})

	It("has names", func(ctx SpecContext) {
		for _, p := range []carve.Placement{carve.Automatic, carve.Priority, carve.Modelled, carve.Measured} {
			Expect(carve.ParsePlacement(p.String())).To(Equal(p))
		}
		_, err := carve.ParsePlacement("fastest")
		Expect(err).To(MatchError(carve.ErrInput))
		for _, o := range []carve.Options{{Placement: 4}, {Placement: -1}, {Budget: -1}} {
			_, err := carve.Compile(ctx, textModel(text), &o)
			Expect(err).To(MatchError(carve.ErrInput), o.Placement.String())
		}
	})
})

// told is a backend that says what it achieves.
type told struct {
	*reference.Backend
	e *backend.Efficiency
}

func (t *told) Info() backend.Info {
	info := t.Backend.Info()
	info.Efficiency = t.e
	return info
}

// achieving returns a backend whose every node takes so many nanoseconds.
func achieving(name string, nanos float64) backend.Backend {
	return &told{&reference.Backend{Name: name}, &backend.Efficiency{Laws: map[string]backend.Law{"other": {Fixed: nanos}}}}
}
