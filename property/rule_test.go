package property_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// embedding is a property of a user's own type with a Rule inside.
type embedding struct{ *property.Rule }

func (embedding) AllowEdge(_, _ *graph.Node) bool { return false }
func (embedding) Mine() string                    { return "mine" }

// hooked is a property of a user's own type with hooks that replace those of what it is made from.
type hooked struct{ property.SubgraphProperty }

func (h hooked) Unwrap() property.SubgraphProperty { return h.SubgraphProperty }
func (hooked) ReviewAttributes(sub *graph.Graph) property.Verdict {
	return property.Accept(sub, graph.StringAttr("by", "hooked"))
}
func (hooked) ConnectSubgraph(*graph.Node) error { return nil }

var _ = Describe("A rule", func() {
	It("needs nothing but a name", func() {
		r := &property.Rule{ID: "empty"}
		Expect(r.Name()).To(Equal("empty"))
		Expect(property.KindOf(r)).To(Equal(property.Atomic))
		Expect(sets(net("a", "a = Neg(x)"), r)).To(BeEmpty())
		Expect(sets(net("a", "a = Neg(x)"), property.Limit(r, property.Bounds{Max: 2}))).To(BeEmpty())
	})

	It("is copied, and the copy altered", func() {
		r := &property.Rule{ID: "first", Attributes: []graph.Attr{graph.StringAttr("a", "1")}}
		c := property.RuleOf(r)
		c.ID, c.Attributes[0] = "second", graph.StringAttr("a", "2")
		bounding := property.WithKind(property.Bounding, r)
		Expect(r.ID).To(Equal("first"))
		Expect(r.Kind).To(Equal(property.Atomic))
		Expect(r.Attributes[0]).To(Equal(graph.StringAttr("a", "1")))
		Expect(property.KindOf(bounding)).To(Equal(property.Bounding))
	})

	It("is found where a type embeds it, and that type's hooks and interfaces count", func() {
		inner := &property.Rule{ID: "inner", Kind: property.Bounding, Review: func(sub *graph.Graph) property.Verdict {
			return property.Verdict{Why: property.Because(property.Veto, "never")}
		}}
		for _, p := range []property.SubgraphProperty{embedding{inner}, property.Limit(embedding{inner}, property.Bounds{Min: 2})} {
			r := property.RuleOf(p)
			Expect(r.ID).To(Equal("inner"))
			Expect(r.Kind).To(Equal(property.Bounding))
			Expect(r.Review(net("a", "a = Neg(x)")).Why.Detail).To(Equal("never"))
			Expect(r.AllowEdge(nil, nil)).To(BeFalse())
			mine, ok := property.As[interface{ Mine() string }](p)
			Expect(ok).To(BeTrue())
			Expect(mine.Mine()).To(Equal("mine"))
			_, ok = property.As[property.Signer](p)
			Expect(ok).To(BeFalse())
		}

		By("replacing hooks")
		r := property.RuleOf(hooked{property.Where(embedding{inner}, property.StaticShapes)})
		v := r.Review(net("b", "a = Neg(x)", "b = Neg(a)"))
		Expect(v.Keep).To(Equal([]int{0, 1}))
		Expect(v.Attrs).To(Equal([]graph.Attr{graph.StringAttr("by", "hooked")}))
		Expect(r.Connect(nil)).To(Succeed())
		Expect(r.AllowEdge(nil, nil)).To(BeFalse())
	})
})
