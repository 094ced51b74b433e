package carve_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
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
				_, reasons, _ := r.Why("conv0")
				Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "faulty"),
					HaveField("Reason", MatchRegexp(`^(specialize-fail|run-failed): .*(broken on purpose|kernel out of order)`)))))
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

	It("does not fall back where its device is lost for good: what it would read lies there", func(ctx SpecContext) {
		b := newFaulty("lost", "Conv", "Relu", "Add", "Sigmoid", "MatMul")
		calls := 0
		b.enqueue = func() error {
			calls++
			return fmt.Errorf("no answer: %w", device.ErrGone)
		}
		p := compile(ctx, textModel(smallNet()), withFaulty(b))
		_, err := p.Run(ctx, feeds)
		Expect(err).To(MatchError(device.ErrGone))
		var step *carve.StepError
		Expect(errors.As(err, &step)).To(BeTrue())
		Expect(step.Backend).To(Equal("lost"))
		Expect(calls).To(Equal(1))
	})

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

	// Names are labels: a model need not have them.
	strip := func(g *graph.Graph) *carve.Model {
		for n := range g.Nodes() {
			n.Name = ""
		}
		m := carve.FromGraph(g)
		DeferCleanup(m.Close)
		return m
	}

	It("falls back also where its nodes have no names", func(ctx SpecContext) {
		named := textModel(smallNet())
		want, err := compile(ctx, named, nil).Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		g, err := graph.Parse(smallNet())
		Expect(err).NotTo(HaveOccurred())
		m := strip(g)
		b := newFaulty("faulty", "Conv", "Relu", "Add", "Sigmoid", "MatMul")
		b.compile = fails
		p := compile(ctx, m, withFaulty(b))
		got, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		near(got["y"], want["y"])
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		var nodes []string
		for _, g := range r.Groups {
			nodes = append(nodes, g.Nodes...)
		}
		Expect(nodes).To(ConsistOf("a", "b", "c", "d", "e", "p", "f", "y"))
		_, reasons, found := r.Why("a")
		Expect(found).To(BeTrue())
		Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "faulty"), HaveField("Reason", ContainSubstring("compile-failed")))))
		for n := range m.Graph().Nodes() {
			Expect(n.Name).To(BeEmpty(), "the model stays as it is")
		}
		o := withFaulty(b)
		o.Strict = true
		o.Backends = append(o.Backends, onReference[0])
		_, err = carve.Compile(ctx, m, o)
		var step *carve.StepError
		Expect(errors.As(err, &step)).To(BeTrue())
		Expect(step.Nodes).NotTo(BeEmpty())
	})

	It("falls back also where a property added nodes without a name", func(ctx SpecContext) {
		m := textModel("graph \"one\" {\n  opset 17\n  input %x: f32[4]\n  %y = Relu(%x) \"relu\"\n  output %y\n}")
		b := newFaulty("faulty", "Neg", "Relu")
		b.compile = fails
		o := withFaulty(b)
		o.Properties = map[string][]property.SubgraphProperty{"faulty": {negateTwice{}}}
		p := compile(ctx, m, o)
		got, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, -2, 3, -4})})
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[float32](got["y"].(*tensor.Tensor))).To(Equal([]float32{1, 0, 3, 0}))
	})

	It("gives names that are not taken", func(ctx SpecContext) {
		g, err := graph.Parse(`graph "names" {
  opset 17
  input %x: f32[4]
  %a = Relu(%x) "b"
  %b = Neg(%a) "a"
  %c = Abs(%b) "c"
  %d = Sigmoid(%c) "d"
  output %d
}`)
		Expect(err).NotTo(HaveOccurred())
		for n := range g.Nodes() {
			if n.Is("Neg", "Sigmoid") {
				n.Name = ""
			}
			if n.Is("Sigmoid") {
				n.Outputs[0].Name = ""
			}
		}
		m := carve.FromGraph(g)
		defer m.Close()
		p := compile(ctx, m, nil)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		var nodes []string
		for _, g := range r.Groups {
			nodes = append(nodes, g.Nodes...)
		}
		Expect(nodes).To(ConsistOf("b", "b_2", "c", "Sigmoid"))
	})
})

// negateTwice puts two negations without names in front of a Relu, which change nothing.
type negateTwice struct{}

func (negateTwice) Name() string { return "negate-twice" }

func (negateTwice) NewSelector(g *graph.Graph) property.Selector {
	return property.Nodes("none", property.Ops()).NewSelector(g)
}

func (negateTwice) PrePartition(g *graph.Graph) error {
	var relu *graph.Node
	for n := range g.Nodes() {
		if n.Is("Relu") {
			relu = n
		}
	}
	v := relu.Inputs[0]
	for range 2 {
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Neg"}, Inputs: []*graph.Value{v}, Outputs: []string{""}})
		n.Outputs[0].Type = v.Type
		v = n.Outputs[0]
	}
	relu.SetOperand(0, v)
	return g.Sort()
}

var _ = Describe("a backend that is not available", func() {
	It("leaves its place to others, and the report says why", func(ctx SpecContext) {
		var log journal
		m := textModel(smallNet())
		o := &carve.Options{Backends: []backend.Config{{Name: "nowhere"}}, Logger: slog.New(&log), Verify: true}
		p := compile(ctx, m, o)
		want, err := compile(ctx, m, nil).Run(ctx, map[string]tensor.Value{"x": wave(2, 3, 9, 11)})
		Expect(err).NotTo(HaveOccurred())
		got, err := p.Run(ctx, map[string]tensor.Value{"x": wave(2, 3, 9, 11)})
		Expect(err).NotTo(HaveOccurred())
		near(got["y"], want["y"])
		Expect(log.lines).To(ConsistOf(SatisfyAll(ContainSubstring("nowhere"), ContainSubstring("no library of that name"))))
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		where, reasons, found := r.Why("conv0")
		Expect(found).To(BeTrue())
		Expect(where).To(Equal("cpu"))
		Expect(reasons).To(ConsistOf(SatisfyAll(HaveField("Backend", "nowhere"), HaveField("Reason", MatchRegexp("^unavailable: .*no library of that name"))),
			carve.RejectedReport{Node: "conv0", Backend: "reference", Reason: "priority: cpu comes before it in the list, and has the node"}))

		o.Strict = true
		_, err = carve.Compile(ctx, m, o)
		Expect(err).To(MatchError(backend.ErrUnavailable))
	})
})

func init() {
	backend.Register("nowhere", func(backend.Config) (backend.Backend, error) {
		return nil, fmt.Errorf("%w: no library of that name", backend.ErrUnavailable)
	})
}
