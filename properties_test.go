package carve_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// negAbs fuses Neg and the Abs that reads it, and brings a kernel: |-x| through a workspace.
type negAbs struct {
	name   string
	format graph.Format
	calls  atomic.Int64
	refuse error
	fail   func() error
}

func (p *negAbs) Name() string                               { return p.name }
func (p *negAbs) NewSelector(*graph.Graph) property.Selector { return &negAbsSelector{} }

type negAbsSelector struct{ abs *graph.Node }

func (s *negAbsSelector) Select(n *graph.Node) bool {
	s.abs = nil
	if n.Is("Neg") && n.Outputs[0].HasOneUse() && n.Outputs[0].Uses()[0].Node.Is("Abs") {
		s.abs = n.Outputs[0].Uses()[0].Node
	}
	return s.abs != nil
}
func (s *negAbsSelector) SelectInput(_, _ *graph.Node) bool        { return false }
func (s *negAbsSelector) SelectOutput(_, n *graph.Node) bool       { return n == s.abs }
func (s *negAbsSelector) Filter(nodes []*graph.Node) []*graph.Node { return nodes }
func (s *negAbsSelector) Reset()                                   {}

func (p *negAbs) Signatures(n *graph.Node) []graph.Signature {
	return []graph.Signature{graph.UniformSignature("user", n, p.format)}
}

func (p *negAbs) Kernel(n *graph.Node, _ graph.Bindings) (backend.Kernel, error) {
	if p.refuse != nil {
		return backend.Kernel{}, p.refuse
	}
	if n.Regions[0].Graph.NumNodes() != 2 {
		return backend.Kernel{}, errors.New("not my node")
	}
	return backend.Kernel{Workspace: 64, Run: func(_ context.Context, a *backend.KernelArgs) error {
		p.calls.Add(1)
		if p.fail != nil {
			return p.fail()
		}
		if len(a.Workspace) != 64 {
			return errors.New("no workspace")
		}
		a.Workspace[63]++
		x, y := floatBytes(a.Inputs[0]), floatBytes(a.Outputs[0])
		a.Workers.Parallel(len(y), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				y[i] = max(x[i], -x[i])
			}
		})
		return nil
	}}, nil
}

// floatBytes returns the whole storage of a tensor, padding included.
func floatBytes(t *tensor.Tensor) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(t.Data))), len(t.Data)/4)
}

const negAbsText = `graph {
  opset 17
  input %x: f32[N,5,2,3]
  %e = Exp(%x) "exp"
  %n = Neg(%e) "neg"
  %a = Abs(%n) "abs"
  %y = Sqrt(%a) "sqrt"
  output %y
}`

func negAbsModel() *carve.Model {
	GinkgoHelper()
	g, err := graph.Parse(negAbsText)
	Expect(err).NotTo(HaveOccurred())
	return carve.FromGraph(g)
}

func negAbsInput(n int) map[string]tensor.Value {
	x := make([]float32, n*30)
	for i := range x {
		x[i] = float32(i%11)/5 - 1
	}
	return map[string]tensor.Value{"x": tensor.From(x, n, 5, 2, 3)}
}

func with(p ...property.SubgraphProperty) *carve.Options {
	return &carve.Options{Properties: map[string][]property.SubgraphProperty{"cpu": p}}
}

var _ = Describe("a user's property with a kernel", func() {
	DescribeTable("is run inside of cpu's group, in its own format", func(ctx SpecContext, format graph.Format, conversions int) {
		p := &negAbs{name: "neg-abs", format: format}
		m := negAbsModel()
		DeferCleanup(m.Close)
		prog := mustCompile(ctx, m, with(p))
		DeferCleanup(prog.Close)
		for _, n := range []int{1, 3} {
			got, err := prog.Run(ctx, negAbsInput(n))
			Expect(err).NotTo(HaveOccurred())
			want := floats(referenceOutputs(ctx, m, negAbsInput(n))["y"])
			for i, x := range floats(got["y"]) {
				Expect(x).To(BeNumerically("~", want[i], 1e-6))
			}
		}
		Expect(p.calls.Load()).To(BeNumerically("==", 2))
		r, err := prog.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Groups[0].Nodes).To(ConsistOf("exp", "neg", "abs", "sqrt"))
		Expect(r.Groups[0].Ops).To(ContainElement("neg-abs"))
		Expect(r.Conversions).To(HaveLen(conversions))
		d, err := prog.Check(ctx, negAbsInput(2))
		Expect(err).NotTo(HaveOccurred())
		Expect(d).To(BeNil())
	},
		Entry("row-major", graph.HostFormat, 0),
		Entry("blocked", graph.On(graph.NCHW16c), 2),
	)

	It("shows up in profiles", func(ctx SpecContext) {
		m := negAbsModel()
		DeferCleanup(m.Close)
		prog := mustCompile(ctx, m, with(&negAbs{name: "neg-abs"}))
		DeferCleanup(prog.Close)
		_, profile, err := prog.RunProfiled(ctx, negAbsInput(1))
		Expect(err).NotTo(HaveOccurred())
		Expect(profile.Spans).To(ContainElement(And(HaveField("Op", "neg-abs"), HaveField("Nodes", []string{"neg", "abs"}))))
	})

	It("allocates nothing at a known shape", func(ctx SpecContext) {
		m := negAbsModel()
		DeferCleanup(m.Close)
		prog := mustCompile(ctx, m, &carve.Options{Threads: 1, Properties: with(&negAbs{name: "neg-abs"}).Properties})
		DeferCleanup(prog.Close)
		s, err := prog.NewSession()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(s.Close)
		in := []*tensor.Tensor{negAbsInput(1)["x"].(*tensor.Tensor)}
		out := []*tensor.Tensor{tensor.From(make([]float32, 30), 1, 5, 2, 3)}
		var failed error
		run := func() {
			if err := s.RunInto(ctx, in, out); err != nil {
				failed = err
			}
		}
		run()
		// The kernel's own closure for Parallel is the one allocation that is not carve's.
		Expect(testing.AllocsPerRun(20, run)).To(BeNumerically("<=", 1))
		Expect(failed).NotTo(HaveOccurred())
	})

	DescribeTable("falls back where it fails, and is an error in strict mode", func(ctx SpecContext, p *negAbs, problem string) {
		p.name = "neg-abs"
		m := negAbsModel()
		DeferCleanup(m.Close)
		prog := mustCompile(ctx, m, with(p))
		DeferCleanup(prog.Close)
		got, err := prog.Run(ctx, negAbsInput(1))
		Expect(err).NotTo(HaveOccurred())
		want := floats(referenceOutputs(ctx, m, negAbsInput(1))["y"])
		for i, x := range floats(got["y"]) {
			Expect(x).To(BeNumerically("~", want[i], 1e-6))
		}
		strict := mustCompile(ctx, m, &carve.Options{Strict: true, Properties: with(p).Properties})
		DeferCleanup(strict.Close)
		_, err = strict.Run(ctx, negAbsInput(1))
		Expect(err).To(MatchError(ContainSubstring(problem)))
		var step *carve.StepError
		Expect(errors.As(err, &step)).To(BeTrue())
		Expect(step.Backend).To(Equal("cpu"))
	},
		Entry("when shapes become known", &negAbs{refuse: errors.New("not these shapes")}, "not these shapes"),
		Entry("with an error", &negAbs{fail: func() error { return errors.New("no luck") }}, "no luck"),
		Entry("with a panic", &negAbs{fail: func() error { panic("a bug") }}, "a bug"),
	)

	It("is switched off by name, as the backend's own are", func(ctx SpecContext) {
		m := negAbsModel()
		DeferCleanup(m.Close)
		p := &negAbs{name: "neg-abs"}
		o := with(p)
		o.DisabledProperties = map[string][]string{"cpu": {"neg-abs"}}
		ops := func(m *carve.Model, o *carve.Options) []string {
			prog := mustCompile(ctx, m, o)
			DeferCleanup(prog.Close)
			r, err := prog.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			return r.Groups[0].Ops
		}
		Expect(ops(m, o)).To(Equal([]string{"Exp", "Neg", "Abs", "Sqrt"}))
		conv, err := graph.Parse(`graph {
  opset 17
  input %x: f32[1,1,4,4]
  const %w = f32[1,1,1,1]{2}
  %c = Conv(%x, %w) "c"
  %y = Relu(%c) "y"
  output %y
}`)
		Expect(err).NotTo(HaveOccurred())
		m = carve.FromGraph(conv)
		DeferCleanup(m.Close)
		Expect(ops(m, nil)).To(ContainElement("conv-tail"))
		Expect(ops(m, &carve.Options{DisabledProperties: map[string][]string{"cpu": {"conv-tail"}}})).To(ContainElements("Conv", "Relu"))
	})

	It("gives its nodes operators, which reports and profiles name", func(ctx SpecContext) {
		m := negAbsModel()
		DeferCleanup(m.Close)
		fused := property.RuleOf(&negAbs{name: "neg-abs"})
		fused.Create = func(*graph.Graph) (*graph.NodeSpec, error) {
			return &graph.NodeSpec{Op: graph.Op{Domain: "com.acme", Name: "NegAbs"}}, nil
		}
		group := &property.Rule{ID: "engine", Kind: property.Bounding, Create: func(*graph.Graph) (*graph.NodeSpec, error) {
			return &graph.NodeSpec{Op: graph.Op{Domain: "com.acme", Name: "Engine"}}, nil
		}}
		o := with(fused, group)
		o.Verify = true
		prog := mustCompile(ctx, m, o)
		DeferCleanup(prog.Close)
		got, err := prog.Run(ctx, negAbsInput(2))
		Expect(err).NotTo(HaveOccurred())
		want := floats(referenceOutputs(ctx, m, negAbsInput(2))["y"])
		for i, x := range floats(got["y"]) {
			Expect(x).To(BeNumerically("~", want[i], 1e-6))
		}
		Expect(prog.Check(ctx, negAbsInput(2))).To(BeNil())
		_, profile, err := prog.RunProfiled(ctx, negAbsInput(1))
		Expect(err).NotTo(HaveOccurred())
		Expect(profile.Spans).To(ContainElement(HaveField("Op", "com.acme.NegAbs")))
		r, err := prog.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups[0].Operator).To(Equal("com.acme.Engine"))
		Expect(r.Groups[0].Ops).To(ContainElement("com.acme.NegAbs"))
	})

	DescribeTable("is checked", func(ctx SpecContext, o *carve.Options, want error, text string) {
		m := negAbsModel()
		DeferCleanup(m.Close)
		_, err := carve.Compile(ctx, m, o)
		Expect(err).To(MatchError(want))
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("two of one name", with(&negAbs{name: "twin"}, &negAbs{name: "twin"}), backend.ErrOption, `"twin"`),
		Entry("the name of one of the backend's", with(&negAbs{name: "conv-tail"}), backend.ErrOption, `"conv-tail"`),
		Entry("one to switch off that is not there", &carve.Options{DisabledProperties: map[string][]string{"cpu": {"x"}}}, property.ErrUnknown, `no property "x"`),
		Entry("one to switch off of a backend that is not listed", &carve.Options{DisabledProperties: map[string][]string{"gpu": {"x"}}}, backend.ErrUnknown, `"gpu"`),
		Entry("nil", with(nil), backend.ErrOption, "nil property"),
		Entry("a backend that is not listed",
			&carve.Options{Properties: map[string][]property.SubgraphProperty{"gpu": {&negAbs{name: "x"}}}}, backend.ErrUnknown, `"gpu"`),
	)
})
