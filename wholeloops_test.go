package carve_test

import (
	"context"
	"errors"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// looper is a backend for control flow, which it runs whole: a program of its own stands for its device.
type looper struct {
	*reference.Backend
	ops          []string
	ns           float64 // that a run of one takes, as it says; 0 where it does not
	compile, run error
	runs         atomic.Int64
}

func newLooper(ops ...string) *looper {
	return &looper{Backend: &reference.Backend{Name: "looper"}, ops: ops}
}

// Info implements backend.Backend.
func (l *looper) Info() backend.Info {
	i := l.Backend.Info()
	i.Oracle = false
	return i
}

// Supports implements backend.Backend.
func (l *looper) Supports(n *graph.Node) backend.Support {
	if !n.Is(l.ops...) {
		return backend.No(property.Unsupported, "it runs loops")
	}
	return backend.Support{Signatures: []graph.Signature{graph.UniformSignature("whole", n, graph.HostFormat)},
		Cost: property.Cost{Nanoseconds: l.ns}}
}

// Compile implements backend.Backend.
func (l *looper) Compile(ctx context.Context, sub *graph.Graph, _ backend.CompileOptions) (backend.Executable, error) {
	if l.compile != nil {
		return nil, l.compile
	}
	g, err := sub.Clone()
	if err != nil {
		return nil, err
	}
	for n := range g.Nodes() {
		n.Ports, n.Backend, n.SigName = nil, "", ""
	}
	m := carve.FromGraph(g)
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: onReference, Strict: true})
	return &loopGroup{l, m, p}, err
}

// loopGroup is a group of a looper's.
type loopGroup struct {
	l *looper
	m *carve.Model
	p *carve.Program
}

// Specialize implements backend.Executable.
func (e *loopGroup) Specialize(context.Context, graph.Bindings) (backend.Instance, error) {
	return e, nil
}

// Close implements backend.Executable.
func (e *loopGroup) Close() error { return errors.Join(e.p.Close(), e.m.Close()) }

// Requirements implements backend.Instance.
func (e *loopGroup) Requirements() backend.Requirements { return backend.Requirements{Steps: 1} }

// Enqueue implements backend.Instance.
func (e *loopGroup) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	if e.l.run != nil {
		return nil, e.l.run
	}
	e.l.runs.Add(1)
	return nil, e.p.RunInto(ctx, a.Inputs, a.Outputs)
}

var _ = Describe("a backend that claims control flow", func() {
	feeds := func() map[string]tensor.Value {
		return map[string]tensor.Value{"x": wave(1, 16, 12, 12), "m": tensor.Scalar(int64(5))}
	}
	options := func(l *looper) *carve.Options {
		return &carve.Options{Backends: []backend.Config{{Name: "looper"}, {Name: "cpu"}}, Open: map[string]backend.Backend{"looper": l}, Verify: true}
	}

	DescribeTable("runs it whole", func(ctx SpecContext, text string, ops []string, placement carve.Placement, in map[string]tensor.Value, nodes ...string) {
		m, l := textModel(text), newLooper(ops...)
		o := options(l)
		o.Placement = placement
		p := compile(ctx, m, o)
		got, err := p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		for name, want := range referenceOutputs(ctx, m, in) {
			near(got[name], want)
		}
		Expect(l.runs.Load()).To(BeEquivalentTo(1))
		on := backendsOf(ctx, p)
		for _, n := range nodes {
			Expect(on).To(HaveKeyWithValue(n, "looper"))
		}
		differs, err := p.Check(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		Expect(differs).To(BeNil())
	},
		Entry("a Loop", convolving(), []string{"Loop"}, carve.Priority, feeds(), "loop", "conv"),
		Entry("a Loop, by cost", convolving(), []string{"Loop"}, carve.Modelled, feeds(), "loop", "conv"),
		Entry("a Scan", recurrent(), []string{"Scan"}, carve.Priority, map[string]tensor.Value{"x": wave(4, 2, 8), "h": wave(2, 8)}, "scan", "state"),
		Entry("a Loop with an If in it", branching(), []string{"Loop", "If"}, carve.Priority,
			map[string]tensor.Value{"x": wave(1, 16, 8, 8), "m": tensor.Scalar(int64(5))}, "loop", "if", "conv1"),
	)

	DescribeTable("competes by cost with its parts", func(ctx SpecContext, ns float64, change func(*carve.Options), whole bool) {
		for _, x := range []struct {
			text, op, node, inner string
			in                    map[string]tensor.Value
		}{
			{recurrent(), "Scan", "scan", "state", map[string]tensor.Value{"x": wave(4, 2, 8), "h": wave(2, 8)}},
			{branching(), "If", "if", "conv1", map[string]tensor.Value{"x": wave(1, 16, 8, 8), "m": tensor.Scalar(int64(5))}},
		} {
			m, l := textModel(x.text), newLooper(x.op)
			l.ns = ns
			o := options(l)
			o.Placement = carve.Modelled
			if x.op == "Scan" {
				o.Dims = map[string]int{"T": 4}
			}
			change(o)
			p := compile(ctx, m, o)
			got, err := p.Run(ctx, x.in)
			Expect(err).NotTo(HaveOccurred())
			for name, want := range referenceOutputs(ctx, m, x.in) {
				near(got[name], want)
			}
			on := "cpu"
			if whole {
				on = "looper"
				Expect(l.runs.Load()).To(BeNumerically(">", 0), x.op)
			} else {
				Expect(l.runs.Load()).To(BeZero(), x.op)
			}
			Expect(backendsOf(ctx, p)).To(HaveKeyWithValue(x.inner, on))
			if !whole {
				r, err := p.Report(ctx, nil)
				Expect(err).NotTo(HaveOccurred())
				Expect(r.Rejected).To(ContainElement(And(HaveField("Node", x.node), HaveField("Backend", "looper"),
					HaveField("Reason", ContainSubstring("its parts are modelled to take")))))
			}
			text := save(ctx, m, o)
			o.Plan = parsed(text)
			Expect(save(ctx, m, o)).To(Equal(text))
		}
	},
		Entry("and is less", 1.0, func(*carve.Options) {}, true),
		Entry("and is more", 1e9, func(*carve.Options) {}, false),
		Entry("which it does not say", 0.0, func(*carve.Options) {}, true),
		Entry("and not where it has priority", 1e9, func(o *carve.Options) { o.Placement = carve.Priority }, true),
		Entry("and not where nodes are pinned", 1e9, func(o *carve.Options) {
			o.Pins = []property.Pin{{Node: "scan", Backend: "looper"}, {Node: "if", Backend: "looper"}}
		}, true),
	)

	It("has the group run by the reference kernels where it fails in a run", func(ctx SpecContext) {
		for _, x := range []struct {
			text string
			ops  []string
			in   map[string]tensor.Value
		}{
			{convolving(), []string{"Loop"}, feeds()},
			{recurrent(), []string{"Scan"}, map[string]tensor.Value{"x": wave(4, 2, 8), "h": wave(2, 8)}},
			{branching(), []string{"Loop"}, map[string]tensor.Value{"x": wave(1, 16, 8, 8), "m": tensor.Scalar(int64(5))}},
		} {
			m, l := textModel(x.text), newLooper(x.ops...)
			l.run = errors.New("no loops today")
			p := compile(ctx, m, options(l))
			got, err := p.Run(ctx, x.in)
			Expect(err).NotTo(HaveOccurred())
			for name, want := range referenceOutputs(ctx, m, x.in) {
				near(got[name], want)
			}
		}
	})

	It("leaves it to the host scheduler where it does not compile, or may not have a node in it", func(ctx SpecContext) {
		for _, spoil := range []func(*looper, *carve.Options){
			func(l *looper, _ *carve.Options) { l.compile = errors.New("no loops today") },
			func(_ *looper, o *carve.Options) { o.Pins = []property.Pin{{Node: "conv", Backend: "cpu"}} },
			func(_ *looper, o *carve.Options) {
				o.Pins = []property.Pin{{Node: "loop", Exclude: true, Backend: "looper"}}
			},
		} {
			m, l := textModel(convolving()), newLooper("Loop")
			o := options(l)
			spoil(l, o)
			p := compile(ctx, m, o)
			got, err := p.Run(ctx, feeds())
			Expect(err).NotTo(HaveOccurred())
			near(got["y"], referenceOutputs(ctx, m, feeds())["y"])
			Expect(l.runs.Load()).To(BeZero())
			Expect(backendsOf(ctx, p)).To(HaveKeyWithValue("conv", "cpu"))
		}
	})
})
