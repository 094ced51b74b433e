package carve_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("pins and properties from a file", func() {
	It("decide who runs what", func(ctx SpecContext) {
		c, err := property.ReadConfig(strings.NewReader(`{
		  "pins": [{"node": "ex*", "backend": "reference"}],
		  "properties": [
		    {"backend": "cpu", "property": "op-list", "name": "roots", "kind": "bounding", "options": {"ops": ["Sqrt"]}}
		  ]
		}`))
		Expect(err).NotTo(HaveOccurred())
		m := negAbsModel()
		DeferCleanup(m.Close)
		p := compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Pins: c.Pins, Properties: c.Properties, Verify: true})
		out, err := p.Run(ctx, negAbsInput(2))
		Expect(err).NotTo(HaveOccurred())
		want := floats(referenceOutputs(ctx, m, negAbsInput(2))["y"])
		for i, x := range floats(out["y"]) {
			Expect(x).To(BeNumerically("~", want[i], 1e-6))
		}
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		var groups []string
		for _, g := range r.Groups {
			groups = append(groups, g.Backend+": "+strings.Join(g.Nodes, " "))
		}
		Expect(groups).To(Equal([]string{"reference: exp", "cpu: neg abs", "cpu: sqrt"}))
		_, why, _ := r.Why("exp")
		Expect(why).To(ContainElement(carve.RejectedReport{Node: "exp", Backend: "cpu", Reason: "pinned: the user pinned it to reference"}))
	})

	It("leave a property its kernel, whatever it is wrapped in", func(ctx SpecContext) {
		own := &negAbs{name: "neg-abs"}
		m := negAbsModel()
		DeferCleanup(m.Close)
		p := compile(ctx, m, with(property.Where(property.Limit(own, property.Bounds{Min: 2}), property.Named("**"))))
		_, err := p.Run(ctx, negAbsInput(1))
		Expect(err).NotTo(HaveOccurred())
		Expect(own.calls.Load()).To(BeNumerically("==", 1))

		By("and turn down what is too small")
		p = compile(ctx, m, with(property.Limit(&negAbs{name: "neg-abs"}, property.Bounds{Min: 3})))
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		_, why, _ := r.Why("neg")
		Expect(why).To(ContainElement(HaveField("Reason", "too-small (neg-abs): a set of 2 nodes, of at least 3")))
	})
})
