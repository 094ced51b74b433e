package carve_test

import (
	"errors"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// calls notes which hooks were called, each where it was called first.
type calls struct {
	mu    sync.Mutex
	names []string
}

func (c *calls) note(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.names, name) {
		c.names = append(c.names, name)
	}
}

// everyHook is a rule that fuses Neg and Abs with every hook but Adjust, which stands in the others' place.
func everyHook(c *calls) *property.Rule {
	fused := &negAbs{name: "neg-abs"}
	return &property.Rule{
		ID:           "neg-abs",
		PrePartition: func(*graph.Graph) error { c.note("PrePartition"); return nil },
		Selector:     func(*graph.Graph) property.Selector { c.note("Selector"); return &negAbsSelector{} },
		Review: func(sub *graph.Graph) property.Verdict {
			c.note("Review")
			return property.Accept(sub, graph.StringAttr("reviewed", "yes"))
		},
		Attributes: []graph.Attr{graph.StringAttr("precision", "full")},
		Create: func(*graph.Graph) (*graph.NodeSpec, error) {
			c.note("Create")
			return &graph.NodeSpec{Op: graph.Op{Domain: "com.acme", Name: "NegAbs"}}, nil
		},
		Connect: func(n *graph.Node) error {
			c.note("Connect " + n.Str("precision", "") + " " + n.Str("reviewed", ""))
			return nil
		},
		Signatures: func(n *graph.Node) []graph.Signature { c.note("Signatures"); return fused.Signatures(n) },
		AllowEdge:  func(from, _ *graph.Node) bool { c.note("AllowEdge"); return from.Name != "exp" },
		Kernel: func(n *graph.Node, b graph.Bindings) (property.Kernel, error) {
			c.note("Kernel")
			return fused.Kernel(n, b)
		},
		PostPartition: func(*graph.Graph) error { c.note("PostPartition"); return nil },
	}
}

var _ = Describe("a Rule", func() {
	// run compares a Program under a rule with the reference, and returns the operators of each group.
	run := func(ctx SpecContext, r *property.Rule) (groups [][]string) {
		GinkgoHelper()
		m := negAbsModel()
		DeferCleanup(m.Close)
		o := with(r)
		o.Verify = true
		p := mustCompile(ctx, m, o)
		DeferCleanup(p.Close)
		Expect(p.Check(ctx, negAbsInput(2))).To(BeNil())
		report, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		for _, g := range report.Groups {
			groups = append(groups, g.Ops)
		}
		return groups
	}

	It("has its hooks called in the order that the documentation gives", func(ctx SpecContext) {
		c := &calls{}
		Expect(run(ctx, everyHook(c))).To(Equal([][]string{{"Exp"}, {"com.acme.NegAbs", "Sqrt"}}), "AllowEdge cuts behind Exp")
		Expect(c.names).To(Equal([]string{"PrePartition", "Selector", "Review", "Create", "Connect full yes", "Signatures",
			"AllowEdge", "PostPartition", "Kernel"}))
	})

	It("edits nodes in place of fusing them", func(ctx SpecContext) {
		c := &calls{}
		r := everyHook(c)
		r.AllowEdge, r.Signatures, r.Kernel = nil, nil, nil
		r.Adjust = func(nodes []*graph.Node) error { // |-x| is |x|
			c.note("Adjust")
			nodes[1].SetOperand(0, nodes[0].Inputs[0])
			return nil
		}
		Expect(run(ctx, r)).To(HaveEach(Not(ContainElement("com.acme.NegAbs"))))
		Expect(c.names).To(Equal([]string{"PrePartition", "Selector", "Adjust", "PostPartition"}))
	})

	DescribeTable("whose hook panics is named by the error, with the hook and the node", func(ctx SpecContext, spoil func(r *property.Rule), want string) {
		r := everyHook(&calls{})
		spoil(r)
		m := negAbsModel()
		DeferCleanup(m.Close)
		_, err := carve.Compile(ctx, m, with(r))
		var pass *carve.PassError
		Expect(errors.As(err, &pass)).To(BeTrue(), "%v", err)
		Expect(pass.Err).To(MatchError(HavePrefix(`property "neg-abs": ` + want)))
		Expect(err).To(MatchError(HaveSuffix("panic: a bug")))
	},
		Entry(nil, func(r *property.Rule) { r.PrePartition = func(*graph.Graph) error { panic("a bug") } }, "PrePartition: "),
		Entry(nil, func(r *property.Rule) { r.Selector = func(*graph.Graph) property.Selector { panic("a bug") } }, "NewSelector: "),
		Entry(nil, spoiltSelector("Select"), `Select at node "exp": `),
		Entry(nil, spoiltSelector("SelectOutput"), `SelectOutput at node "abs": `),
		Entry(nil, spoiltSelector("Filter"), `Filter at node "neg": `),
		Entry(nil, spoiltSelector("Judge"), `Judge at node "neg": `),
		Entry(nil, func(r *property.Rule) { r.Adjust = func([]*graph.Node) error { panic("a bug") } }, `Adjust at node "neg": `),
		Entry(nil, func(r *property.Rule) { r.Review = func(*graph.Graph) property.Verdict { panic("a bug") } }, `Review at node "neg": `),
		Entry(nil, func(r *property.Rule) { r.Create = func(*graph.Graph) (*graph.NodeSpec, error) { panic("a bug") } }, `CreateSubgraphNode at node "neg": `),
		Entry(nil, func(r *property.Rule) { r.Connect = func(*graph.Node) error { panic("a bug") } }, `ConnectSubgraph at node "neg": `),
		Entry(nil, func(r *property.Rule) { r.Signatures = func(*graph.Node) []graph.Signature { panic("a bug") } }, `Signatures at node "neg": `),
		Entry(nil, func(r *property.Rule) { r.AllowEdge = func(_, _ *graph.Node) bool { panic("a bug") } }, `AllowEdge at node "exp": `),
		Entry(nil, func(r *property.Rule) { r.PostPartition = func(*graph.Graph) error { panic("a bug") } }, "PostPartition: "),
	)

	It("whose hook fails is a fault of the pass that calls it", func(ctx SpecContext) {
		for pass, spoil := range map[string]func(r *property.Rule){
			"prepare-properties": func(r *property.Rule) { r.PrePartition = func(*graph.Graph) error { return errHook } },
			"assign":             func(r *property.Rule) { r.Adjust = func([]*graph.Node) error { return errHook } },
			"finish-properties":  func(r *property.Rule) { r.PostPartition = func(*graph.Graph) error { return errHook } },
		} {
			r := everyHook(&calls{})
			spoil(r)
			m := negAbsModel()
			_, err := carve.Compile(ctx, m, with(r))
			Expect(m.Close()).To(Succeed())
			Expect(err).To(MatchError(errHook), pass)
			var fault *carve.PassError
			Expect(errors.As(err, &fault)).To(BeTrue(), pass)
			Expect(fault.Pass).To(Equal(pass))
		}
	})
})

var errHook = errors.New("the hook does not want to")

var _ = It("a backend that panics where it is asked about a node is named by the error, with the node", func(ctx SpecContext) {
	m := negAbsModel()
	DeferCleanup(m.Close)
	for _, placement := range []carve.Placement{carve.Priority, carve.Modelled} {
		first := &reference.Backend{Name: "first", Accept: func(n *graph.Node) bool {
			if n.Is("Abs") {
				panic("a bug")
			}
			return true
		}}
		_, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "first"}, {Name: "cpu"}}, Open: map[string]backend.Backend{"first": first},
			Placement: placement})
		Expect(err).To(MatchError(`pass assign: backend "first": Supports at node "abs": panic: a bug`))
	}
})

// spoiltSelector has a method of the rule's selector panic.
func spoiltSelector(method string) func(r *property.Rule) {
	return func(r *property.Rule) {
		r.Selector = func(*graph.Graph) property.Selector { return &spoilt{method: method} }
	}
}

type spoilt struct {
	negAbsSelector
	method string
}

func (s *spoilt) at(method string) {
	if s.method == method {
		panic("a bug")
	}
}

func (s *spoilt) Select(n *graph.Node) bool {
	s.at("Select")
	return s.negAbsSelector.Select(n)
}

func (s *spoilt) SelectOutput(cur, n *graph.Node) bool {
	s.at("SelectOutput")
	return s.negAbsSelector.SelectOutput(cur, n)
}

func (s *spoilt) Filter(set []*graph.Node) []*graph.Node {
	s.at("Filter")
	return set
}

func (s *spoilt) Judge([]*graph.Node) *property.Reason {
	s.at("Judge")
	return nil
}
