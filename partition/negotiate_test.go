package partition_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// talker is a backend with wishes, which it writes down the groups that it is asked about.
type talker struct {
	*reference.Backend
	wish  func(sub *graph.Graph) (map[*graph.Value]graph.Format, error)
	asked []string
	sigs  func(n *graph.Node) []graph.Signature // instead of the reference backend's
}

func (t *talker) Negotiate(_ context.Context, sub *graph.Graph) (map[*graph.Value]graph.Format, error) {
	var names []string
	for n := range sub.Nodes() {
		names = append(names, n.Name)
	}
	t.asked = append(t.asked, strings.Join(names, " "))
	return t.wish(sub)
}

func (t *talker) Supports(n *graph.Node) backend.Support {
	s := t.Backend.Supports(n)
	if t.sigs != nil && s.Reason == nil {
		s.Signatures = t.sigs(n)
	}
	return s
}

// wishing returns a talker that wants its inputs, outputs and constants in these formats; the zero Format is no wish.
func wishing(b *reference.Backend, in, out, constant graph.Format) *talker {
	return &talker{Backend: b, wish: func(sub *graph.Graph) (map[*graph.Value]graph.Format, error) {
		w := map[*graph.Value]graph.Format{}
		for _, v := range sub.Inputs {
			w[v] = in
		}
		for _, v := range sub.Outputs {
			w[v] = out
		}
		for v := range sub.Constants() {
			w[v] = constant
		}
		for v, f := range w {
			if f == graph.HostFormat {
				delete(w, v)
			}
		}
		return w, nil
	}}
}

var _ = Describe("Negotiation", func() {
	host, nhwc, blocked := graph.HostFormat, graph.On(graph.NHWC), graph.On(graph.NCHW16c)
	names := map[graph.Format]string{host: "host", nhwc: "nhwc", blocked: "blocked"}
	last := func() backend.Backend { return instance("last", graph.RowMajor) }
	// chain is two groups of a, with one of another backend's between.
	chain := text("e", "a = Neg(x)", "b = Neg(a)", "c = Abs(b)", "d = Neg(c)", "e = Neg(d)")

	carve := func(ctx context.Context, text string, o *partition.Options) (*graph.Graph, *partition.Result) {
		GinkgoHelper()
		g := parse(text)
		return g, carved(ctx, g, o)
	}

	It("puts conversions at the edges of groups as these wish", func(ctx SpecContext) {
		a := wishing(instance("a", graph.RowMajor, "Neg"), nhwc, blocked, host)
		g, res := carve(ctx, chain, &partition.Options{Backends: []backend.Backend{a, last()}})
		Expect(a.asked).To(Equal([]string{"a b", "d e"}))
		Expect(groups(res)).To(Equal([]string{"a: a b", "last: c", "a: d e"}))
		Expect(steps(g, names)).To(Equal([]string{"host→nhwc", "a", "b", "blocked→host", "c", "host→nhwc", "d", "e", "blocked→host"}))
	})
	It("needs no conversion where neighbours wish the same, whoever comes first", func(ctx SpecContext) {
		a, b := wishing(instance("a", graph.RowMajor, "Neg"), host, nhwc, host), wishing(instance("b", graph.RowMajor), nhwc, host, host)
		for _, backends := range [][]backend.Backend{{a, b}, {b, a}} {
			b.Accept = func(n *graph.Node) bool { return n.Op.Name == "Abs" }
			g, _ := carve(ctx, text("c", "a = Neg(x)", "b = Neg(a)", "c = Abs(b)"), &partition.Options{Backends: backends})
			Expect(steps(g, names)).To(Equal([]string{"host→nhwc", "a", "b", "c"}[1:]))
		}
	})
	It("converts for readers inside of the group that wants its result otherwise", func(ctx SpecContext) {
		a := wishing(instance("a", graph.RowMajor, "Neg"), host, nhwc, host)
		g, _ := carve(ctx, text("b, c", "a = Neg(x)", "b = Neg(a)", "c = Abs(a)"), &partition.Options{Backends: []backend.Backend{a, last()}})
		Expect(steps(g, names)).To(ConsistOf("a", "nhwc→host", "b", "nhwc→host", "c"))
	})
	It("packs constants as they are wished for, once", func(ctx SpecContext) {
		const model = `graph "g" {
  opset 17
  input %x: f32[1,16,4,4]
  const %w = f32[1,1,1,2]{1, 2}
  %a = Mul(%x, %x)
  %b = MatMul(%a, %v)
  %c = Abs(%b)
  %d = MatMul(%c, %v)
  output %d
}`
		text := strings.Replace(strings.ReplaceAll(model, "%v", "%w"), "f32[1,1,1,2]{1, 2}", "f32[1,1,4,4]{"+strings.Repeat("1, ", 15)+"1}", 1)
		a := wishing(instance("a", graph.RowMajor, "MatMul"), host, host, nhwc)
		_, res := carve(ctx, text, &partition.Options{Backends: []backend.Backend{a, last()}})
		Expect(res.Packs).To(HaveLen(1))
		Expect(res.Packs[0].Name).To(Equal("w"))
		Expect(res.Packs[0].Format).To(Equal(nhwc))
	})
	It("may leave everything as it was chosen, and ignores what the group does not have", func(ctx SpecContext) {
		plain, _ := carve(ctx, chain, &partition.Options{Backends: []backend.Backend{instance("a", graph.NHWC, "Neg"), last()}})
		other := graph.New("other").AddInput("z", graph.Type{})
		for _, w := range []map[*graph.Value]graph.Format{nil, {other: blocked}} {
			a := &talker{Backend: instance("a", graph.NHWC, "Neg"), wish: func(*graph.Graph) (map[*graph.Value]graph.Format, error) { return w, nil }}
			g, _ := carve(ctx, chain, &partition.Options{Backends: []backend.Backend{a, last()}})
			Expect(g.String()).To(Equal(plain.String()))
		}
	})
	It("overrules the choice of signatures with variables", func(ctx SpecContext) {
		a := wishing(instance("a", graph.RowMajor, "Neg", "Add"), blocked, blocked, host)
		a.sigs = func(n *graph.Node) []graph.Signature {
			s := graph.Signature{Name: "any", Vars: [][]graph.Format{{nhwc, host, blocked}}, Outputs: []graph.Port{graph.Variable(0)}}
			for range n.Inputs {
				s.Inputs = append(s.Inputs, graph.Variable(0))
			}
			return []graph.Signature{s}
		}
		g, res := carve(ctx, text("d", "a = Neg(x)", "b = Add(a, y)", "c = Abs(b)", "d = Abs(c)"), &partition.Options{Backends: []backend.Backend{a, last()}})
		Expect(groups(res)).To(Equal([]string{"a: a b", "last: c d"}))
		Expect(steps(g, names)).To(Equal([]string{"host→blocked", "host→blocked", "a", "b", "blocked→host", "c", "d"}))
		for n := range res.Groups[0].Body.Nodes() {
			if !n.IsCarve(graph.OpConvert) {
				for _, p := range append(n.Ports.Inputs, n.Ports.Outputs...) {
					Expect(p.Var).To(BeZero(), "what is left has no variables")
				}
			}
		}
	})
	It("gives groups that are refused to backends further down, which are asked in turn", func(ctx SpecContext) {
		a := wishing(instance("a", graph.RowMajor, "Neg"), nhwc, nhwc, host)
		agree := a.wish
		a.wish = func(sub *graph.Graph) (map[*graph.Value]graph.Format, error) {
			for n := range sub.Nodes() {
				if n.Name == "b" {
					return nil, fmt.Errorf("%w: no such layout", backend.ErrRefused)
				}
			}
			return agree(sub)
		}
		b := wishing(instance("b", graph.RowMajor), blocked, blocked, host)
		g, res := carve(ctx, chain, &partition.Options{Backends: []backend.Backend{a, b}})
		Expect(a.asked).To(Equal([]string{"a b", "d e", "d e"}))
		Expect(b.asked).To(Equal([]string{"c", "a b c"}))
		Expect(groups(res)).To(Equal([]string{"b: a b c", "a: d e"}))
		Expect(steps(g, names)).To(Equal([]string{"host→blocked", "a", "b", "c", "blocked→nhwc", "d", "e", "nhwc→host"}))
		for _, node := range []string{"a", "b"} {
			Expect(reasons(res, node, "a")).To(Equal([]string{"veto: the backend refuses the group: no such layout"}))
		}
		Expect(reasons(res, "d", "a")).To(BeEmpty())
	})
	It("divides fused nodes of a refused group", func(ctx SpecContext) {
		a := wishing(instance("a", graph.RowMajor, "Neg"), host, host, host)
		a.wish = func(*graph.Graph) (map[*graph.Value]graph.Format, error) { return nil, backend.ErrRefused }
		o := &partition.Options{Backends: []backend.Backend{a, last()}, Properties: map[string][]property.SubgraphProperty{
			"a": {fused{property.Nodes("negs", property.Ops("Neg")), nhwc}}}}
		g, res := carve(ctx, chain, o)
		Expect(groups(res)).To(Equal([]string{"last: a b c d e"}))
		Expect(steps(g, names)).To(Equal([]string{"a", "b", "c", "d", "e"}))
	})
	It("names a node that nobody takes after a refusal", func(ctx SpecContext) {
		a := wishing(instance("a", graph.RowMajor, "Neg"), host, host, host)
		a.wish = func(*graph.Graph) (map[*graph.Value]graph.Format, error) { return nil, backend.ErrRefused }
		backends := []backend.Backend{a, instance("last", graph.RowMajor, "Abs")}
		_, err := partition.Partition(ctx, parse(chain), &partition.Options{Backends: backends, Registry: registry(backends)})
		Expect(err).To(MatchError(partition.ErrUnplaced))
		Expect(err).To(MatchError(ContainSubstring("veto: the backend refuses the group")))
	})
	It("ends with other errors, and says which group", func(ctx SpecContext) {
		broken := errors.New("broken")
		a := wishing(instance("a", graph.RowMajor, "Neg"), host, host, host)
		a.wish = func(*graph.Graph) (map[*graph.Value]graph.Format, error) { return nil, broken }
		backends := []backend.Backend{a, last()}
		_, err := partition.Partition(ctx, parse(chain), &partition.Options{Backends: backends, Registry: registry(backends)})
		Expect(err).To(MatchError(broken))
		Expect(err).To(MatchError(ContainSubstring("group 0 of a")))
	})
	DescribeTable("gives groups that wish for formats nobody converts to backends further down", func(ctx SpecContext, in, out, constant graph.Format) {
		backends := []backend.Backend{wishing(instance("a", graph.RowMajor, "Neg", "Mul"), in, out, constant), last()}
		model := strings.Replace(text("b", "a = Neg(x)", "b = Mul(a, w)"), "  %a", "  const %w = f32[1]{2}\n  %a", 1)
		_, res := carve(ctx, model, &partition.Options{Backends: backends})
		Expect(groups(res)).To(Equal([]string{"last: a b"}))
		Expect(reasons(res, "a", "a")).To(HaveExactElements(MatchRegexp("^no-converter: value [abxw]: no conversion between the formats: .*nobody")))

		By("an error where nobody else takes the nodes")
		backends = backends[:1]
		_, err := partition.Partition(ctx, parse(model), &partition.Options{Backends: backends, Registry: registry(backends)})
		Expect(err).To(MatchError(partition.ErrUnplaced))
		Expect(err).To(MatchError(ContainSubstring("nobody")))
	},
		Entry("inputs", graph.On(opaque("nobody")), host, host),
		Entry("outputs", host, graph.On(opaque("nobody")), host),
		Entry("constants", host, host, graph.On(opaque("nobody"))),
	)
	It("shows a copy: what is done to it changes nothing", func(ctx SpecContext) {
		a := wishing(instance("a", graph.RowMajor, "Neg"), nhwc, nhwc, host)
		plain, _ := carve(ctx, chain, &partition.Options{Backends: []backend.Backend{a, last()}})
		agree := a.wish
		a.wish = func(sub *graph.Graph) (map[*graph.Value]graph.Format, error) {
			w, err := agree(sub)
			for n := range sub.Nodes() {
				n.Name, n.Backend = "spoilt", "nobody"
			}
			for _, v := range sub.Outputs {
				v.Type, v.Name = graph.Type{}, "spoilt"
			}
			return w, err
		}
		g, _ := carve(ctx, chain, &partition.Options{Backends: []backend.Backend{a, last()}})
		Expect(g.String()).To(Equal(plain.String()))
	})
	It("gives the same text whatever the order in which wishes are found", func(ctx SpecContext) {
		var lines []string
		for i := range 12 {
			from := "x"
			if i > 1 {
				from = fmt.Sprint("n", i-2)
			}
			lines = append(lines, fmt.Sprintf("n%d = %s(%s)", i, []string{"Neg", "Abs", "Sum"}[i/2%3], from))
		}
		model := text("n11, n10, n5", lines...)
		want := ""
		for range 20 {
			a, b := wishing(instance("a", graph.RowMajor, "Neg"), nhwc, blocked, host), wishing(instance("b", graph.RowMajor, "Abs"), blocked, nhwc, host)
			g, _ := carve(ctx, model, &partition.Options{Backends: []backend.Backend{a, b, last()}})
			if want == "" {
				want = g.String()
			}
			Expect(g.String()).To(Equal(want))
		}
	})
	It("does not ask about groups whose shapes depend on data", func(ctx SpecContext) {
		a := wishing(instance("a", graph.RowMajor, "NonZero", "Transpose", "Neg"), nhwc, nhwc, host)
		_, res := carve(ctx, `graph "g" {
  opset 17
  input %x: f32[1,2,3,4]
  %a = Neg(%x)
  %b = NonZero(%a)
  %c = Transpose(%b)
  output %c
}`, &partition.Options{Backends: []backend.Backend{a, last()}})
		Expect(a.asked).To(Equal([]string{"a"}))
		Expect(groups(res)).To(Equal([]string{"a: a", "a: b c"}))
	})
	It("stops when the context ends", func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		a := wishing(instance("a", graph.RowMajor, "Neg"), host, host, host)
		a.wish = func(*graph.Graph) (map[*graph.Value]graph.Format, error) {
			cancel()
			return nil, nil
		}
		backends := []backend.Backend{a, last()}
		_, err := partition.Partition(ctx, parse(chain), &partition.Options{Backends: backends, Registry: registry(backends)})
		Expect(err).To(MatchError(context.Canceled))
		Expect(a.asked).To(HaveLen(1))
	})
})
