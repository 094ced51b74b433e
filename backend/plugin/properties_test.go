package plugin_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// pairs has an Abs and a Neg, which the property abs-neg fuses, and a Relu far from the Abs.
const pairs = `graph "pairs" {
  opset 17
  input %x: f32[N,3]
  %a = Abs(%x) "abs"
  %n = Neg(%a) "neg"
  %e = Sigmoid(%n) "sigmoid"
  %y = Relu(%e) "relu"
  output %y
}
`

var _ = Describe("a property of a plugin", func() {
	x := func() *tensor.Tensor { return tensor.From([]float32{1, -2, 3, -4, 5, -6}, 2, 3) }
	// The switches of the source are compared by the preprocessor too, which knows no enumerators.
	numbers := map[string]string{"RIGHT": "0", "CLAIMS": "1", "NO_FUNCTION": "2", "BAD_KIND": "3", "HUGE_STATE": "4", "BAD_NAME": "5", "BAD_ATTRIBUTE": "6",
		"SELECT_FAILS": "7", "FILTER_FAILS": "8", "FILTER_GROWS": "9", "FILTER_FOREIGN": "10", "FILTER_NONE": "11", "CLAIM_FAILS": "12",
		"CLAIM_BEYOND": "13", "CLAIM_APART": "14", "RUN_FAILS": "15"}
	library := func(odd string, more ...string) string {
		return build(GinkgoTB(), "testdata/properties.c", append([]string{"-DODD=" + numbers[odd]}, more...)...)
	}
	plain := func(ctx SpecContext) *tensor.Tensor {
		y, _ := runModel(ctx, model(pairs), nil, x())
		return y
	}

	DescribeTable("fuses what it selects, with its kernel", func(ctx SpecContext, odd string) {
		y, r := runModel(ctx, model(pairs), &carve.Options{Plugins: []string{library(odd)}, Verify: true, Poison: true}, x())
		Expect(tensor.Of[float32](y)).To(Equal(tensor.Of[float32](plain(ctx))))
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Groups[0].Ops).To(ContainElement("abs-neg"))
		Expect(r.Groups[0].Nodes).To(ContainElements("abs", "neg"))
	},
		Entry("node by node", "RIGHT"),
		Entry("all at once", "CLAIMS"),
	)

	It("is switched off by its name", func(ctx SpecContext) {
		o := &carve.Options{Plugins: []string{library("RIGHT")}, DisabledProperties: map[string][]string{"cpu": {"abs-neg"}}}
		_, r := runModel(ctx, model(pairs), o, x())
		Expect(r.Groups[0].Ops).NotTo(ContainElement("abs-neg"))
	})

	It("belongs to the backend that it names alone", func(ctx SpecContext) {
		_, r := runModel(ctx, model(pairs), &carve.Options{Plugins: []string{library("RIGHT", `-DBACKEND="texture"`)}}, x())
		Expect(r.Groups[0].Ops).NotTo(ContainElement("abs-neg"))
		_, r = runModel(ctx, model(pairs), &carve.Options{Plugins: []string{library("RIGHT", `-DBACKEND="cpu"`)}}, x())
		Expect(r.Groups[0].Ops).To(ContainElement("abs-neg"))
	})

	DescribeTable("of another kind", func(ctx SpecContext, kind string, groups int) {
		_, r := runModel(ctx, model(pairs), &carve.Options{Plugins: []string{library("RIGHT", "-DKIND="+kind, `-DBACKEND="cpu"`)}}, x())
		var onCPU int
		for _, g := range r.Groups {
			if g.Backend == "cpu" {
				onCPU++
				Expect(g.Nodes).To(Or(Equal([]string{"abs", "neg"}), Equal([]string{"sigmoid", "relu"})))
			}
		}
		Expect(onCPU).To(Equal(groups))
	},
		Entry("draws the borders of groups", "CARVE_CLAIM_BOUNDING", 2),
		Entry("limits what a backend takes", "CARVE_CLAIM_ADMITTING", 1),
	)

	DescribeTable("that is described wrongly is not opened", func(odd, text string) {
		_, err := plugin.Open(library(odd))
		Expect(err).To(MatchError(plugin.ErrPlugin))
		Expect(err).To(MatchError(And(ContainSubstring(text), ContainSubstring(library(odd)))))
	},
		Entry("no way to select", "NO_FUNCTION", "select and claim"),
		Entry("a kind that there is not", "BAD_KIND", "kind 77"),
		Entry("a state without end", "HUGE_STATE", "18446744073709551615 bytes"),
		Entry("a name that is none", "BAD_NAME", `"No name"`),
		Entry("an attribute that holds a tensor", "BAD_ATTRIBUTE", `attribute "level"`),
	)

	DescribeTable("that goes wrong selects nothing, and the report says why", func(ctx SpecContext, odd, text string) {
		_, r := runModel(ctx, model(pairs), &carve.Options{Plugins: []string{library(odd)}}, x())
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Groups[0].Ops).NotTo(ContainElement("abs-neg"))
		var reasons []string
		for _, why := range r.Rejected {
			reasons = append(reasons, why.Backend+": "+why.Reason)
		}
		if text != "" {
			Expect(reasons).To(ContainElement(And(HavePrefix("cpu"), ContainSubstring(text))))
		}
	},
		Entry("select fails", "SELECT_FAILS", "select of property abs-neg: failed"),
		Entry("filter fails", "FILTER_FAILS", "filter of property abs-neg: failed"),
		Entry("filter keeps more than there is", "FILTER_GROWS", "filter of property abs-neg"),
		Entry("filter keeps others", "FILTER_FOREIGN", "keeps nodes twice, or others"),
		Entry("filter keeps none", "FILTER_NONE", ""),
		Entry("claim fails", "CLAIM_FAILS", "no claims today"),
		Entry("a claim of nodes that there are not", "CLAIM_BEYOND", "node 4321 of 4"),
		Entry("a claim of two pieces", "CLAIM_APART", "only 1 of the nodes"),
	)

	It("whose kernel fails falls back", func(ctx SpecContext) {
		y, r := runModel(ctx, model(pairs), &carve.Options{Plugins: []string{library("RUN_FAILS")}}, x())
		for i, v := range tensor.Of[float32](plain(ctx)) {
			Expect(tensor.Of[float32](y)[i]).To(BeNumerically("~", v, 1e-6))
		}
		var reasons []string
		for _, why := range r.Rejected {
			reasons = append(reasons, why.Reason)
		}
		Expect(reasons).To(ContainElement(And(HavePrefix(string(property.RunFailed)), ContainSubstring("the pair is on fire"), ContainSubstring("abs-neg"))))
	})

	It("that has the name of another is an error", func(ctx SpecContext) {
		o := &carve.Options{Plugins: []string{library("RIGHT", `-DBACKEND="cpu"`), library("CLAIMS", `-DBACKEND="cpu"`)}}
		_, err := carve.Compile(ctx, model(pairs), o)
		Expect(err).To(MatchError(backend.ErrOption))
		Expect(err).To(MatchError(ContainSubstring(`"abs-neg"`)))
	})
})
