package carve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// alone makes each node of its backend a group of its own.
type alone struct{}

func (alone) Name() string                               { return "alone" }
func (alone) Kind() property.Kind                        { return property.Bounding }
func (alone) NewSelector(*graph.Graph) property.Selector { return aloneSelector{} }

type aloneSelector struct{}

func (aloneSelector) Select(*graph.Node) bool                 { return true }
func (aloneSelector) SelectInput(_, _ *graph.Node) bool       { return false }
func (aloneSelector) SelectOutput(_, _ *graph.Node) bool      { return false }
func (aloneSelector) Filter(list []*graph.Node) []*graph.Node { return list }
func (aloneSelector) Reset()                                  {}

// part is a backend for some operators alone.
type part struct {
	backend.Backend
	ops []string
}

func (p part) Supports(n *graph.Node) backend.Support {
	if !n.Is(p.ops...) {
		return backend.No(property.Unsupported, "another's")
	}
	return p.Backend.Supports(n)
}

// withBackends returns options with backends that the caller opened, in order.
func withBackends(list ...backend.Backend) *carve.Options {
	o := &carve.Options{Verify: true, Open: map[string]backend.Backend{}}
	for _, b := range list {
		name := b.Info().Name
		o.Backends = append(o.Backends, backend.Config{Name: name})
		o.Open[name] = b
	}
	return o
}

// chainOf is n nodes of an operator, one behind the other.
func chainOf(op string, n int) *graph.Graph {
	var s strings.Builder
	s.WriteString("graph {\n  opset 17\n  input %v0: f32[4,8]\n")
	for i := range n {
		fmt.Fprintf(&s, "  %%v%d = %s(%%v%d)\n", i+1, op, i)
	}
	fmt.Fprintf(&s, "  output %%v%d\n}", n)
	g, err := graph.Parse(s.String())
	if err != nil {
		panic(err)
	}
	return g
}

// twoBranches is an input that goes through a Relu, a device's, and through an Exp, and the sum of both.
const twoBranches = `graph {
  opset 17
  input %x: f32[64,64]
  %a = Relu(%x)
  %b = Exp(%x)
  %c = Add(%a, %b)
  output %c
}`

// hold is a property of cpu that runs Exp by a kernel which waits until a device is at work, and then works as long.
type hold struct {
	busy func() bool
	work time.Duration
	seen atomic.Bool
}

func (*hold) Name() string                               { return "hold" }
func (*hold) NewSelector(*graph.Graph) property.Selector { return holdSelector{} }

type holdSelector struct{ aloneSelector }

func (holdSelector) Select(n *graph.Node) bool { return n.Is("Exp") }

func (*hold) Signatures(n *graph.Node) []graph.Signature {
	return []graph.Signature{{Inputs: make([]graph.Port, len(n.Inputs)), Outputs: make([]graph.Port, 1)}}
}

func (h *hold) Kernel(*graph.Node, graph.Bindings) (backend.Kernel, error) {
	return backend.Kernel{Run: func(_ context.Context, a *backend.KernelArgs) error {
		if h.busy() {
			h.seen.Store(true)
		}
		for end := time.Now().Add(h.work); time.Now().Before(end); {
		}
		copy(a.Outputs[0].Bytes(), a.Inputs[0].Bytes())
		return nil
	}}, nil
}

var _ = Describe("devices that work by themselves", func() {
	It("run a chain of a hundred groups for which the host waits once", func(ctx SpecContext) {
		b := benchOf(fake.Options{Devices: 1})
		o := withBackends(b.Backend)
		o.Properties = map[string][]property.SubgraphProperty{b.Info().Name: {alone{}}}
		p := mustCompile(ctx, carve.FromGraph(chainOf("Sigmoid", 100)), o)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveLen(100))
		x := &carve.Formatted{Tensor: b.put(ctx, wave(4, 8), 0)}
		_, err = p.Run(ctx, map[string]tensor.Value{"v0": x})
		Expect(err).NotTo(HaveOccurred())
		before := b.Stats()
		x.Ready = device.NewEvent() // the device begins when the host waits for it, so that no launch finds the one before it over
		var begins sync.WaitGroup
		begins.Go(func() {
			defer GinkgoRecover()
			defer x.Ready.(*device.HostEvent).Complete(nil)
			Eventually(func() int { return b.Stats().Waits }).Should(BeNumerically(">", before.Waits))
			Expect(b.Stats().Launches-before.Launches).To(Equal(100), "launches before the host waits")
		})
		_, err = p.Run(ctx, map[string]tensor.Value{"v0": x})
		Expect(err).NotTo(HaveOccurred())
		begins.Wait()
		Expect(b.Stats().Launches - before.Launches).To(Equal(100))
		Expect(b.Stats().Waits - before.Waits).To(Equal(1))
		Expect(p.Close()).To(Succeed())
	})

	It("work while the host does", func(ctx SpecContext) {
		b := fake.New(fake.Options{Work: 50 * time.Millisecond})
		h := &hold{busy: func() bool { return b.Stats().Launches == 1 && b.Stats().Waits == 0 }}
		o := withBackends(part{b, []string{"Relu"}})
		o.Properties = map[string][]property.SubgraphProperty{"cpu": {h, alone{}}}
		p := mustCompile(ctx, carve.FromGraph(parseGraph(twoBranches)), o)
		defer p.Close()
		_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(64, 64)})
		Expect(err).NotTo(HaveOccurred())
		Expect(h.seen.Load()).To(BeTrue(), "the host did its branch before the device had its own, or when it had waited for it")
	})

	It("use several streams where they may", func(ctx SpecContext) {
		b := fake.New(fake.Options{Delay: 200 * time.Microsecond})
		o := withBackends(part{b, []string{"Relu", "Exp", "Sigmoid"}})
		o.Streams = 3
		o.Properties = map[string][]property.SubgraphProperty{b.Info().Name: {alone{}}}
		m := carve.FromGraph(parseGraph(twoBranches))
		p := mustCompile(ctx, m, o)
		in := map[string]tensor.Value{"x": wave(64, 64)}
		want := referenceOutputs(ctx, m, in)
		for range 20 {
			got, err := p.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			Expect(floats(got["c"])).To(Equal(floats(want["c"])))
		}
		Expect(p.Close()).To(Succeed())
		Expect(b.Faults()).To(BeEmpty())
		Expect(b.Leaks()).To(BeEmpty())
	})

	It("that fail late have the run done again, remember it, and are given back by Retry", func(ctx SpecContext) {
		b := fake.New(fake.Options{Fail: fake.FailNth(fake.LateLaunch, 1)})
		m := carve.FromGraph(chainOf("Sigmoid", 3))
		p := mustCompile(ctx, m, withBackends(b))
		in := map[string]tensor.Value{"v0": wave(4, 8)}
		want := referenceOutputs(ctx, m, in)
		launches := []int{1, 1, 0}
		for _, n := range launches {
			before := b.Stats().Launches
			got, err := p.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			Expect(floats(got["v3"])).To(Equal(floats(want["v3"])))
			Expect(b.Stats().Launches - before).To(Equal(n))
		}
		Expect(p.Retry()).To(Equal(1))
		Expect(p.Retry()).To(BeZero())
		before := b.Stats().Launches
		_, err := p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Stats().Launches - before).To(Equal(1))
		Expect(p.Close()).To(Succeed())
		Expect(b.Faults()).To(BeEmpty())
	})

	It("and fail now and then give right results or typed errors, and leak nothing", func(ctx SpecContext) {
		unreliable(ctx, 400, 10)
	})

	It("and fail now and then give right results or typed errors, and leak nothing: many", Label("slow"), func(ctx SpecContext) {
		unreliable(ctx, 10_000, 20)
	})
})

// unreliable does that many runs of random networks, some of each, on two fake devices and cpu; of the devices' calls one in a
// hundred fails. Networks that do not compile for that reason do not count.
func unreliable(ctx context.Context, want, each int) {
	GinkgoHelper()
	failed, right := 0, 0
	for seed := uint64(0); failed+right < want; seed++ {
		r := rand.New(rand.NewPCG(seed, 11))
		m := carve.FromGraph(newNetwork(seed, 4+int(seed%20)))
		b := fake.New(fake.Options{Devices: 2, Seed: seed, Delay: 50 * time.Microsecond, Fail: fake.FailSome(seed, 0.01), NoPeers: seed%3 == 0})
		second, err := b.On(b.Devices()[1].ID())
		Expect(err).NotTo(HaveOccurred())
		var ops [2][]string
		for _, op := range []string{"Conv", "Relu", "Sigmoid", "Add", "Mul", "Concat", "Split", "MaxPool", "Gemm", "Transpose", "GlobalAveragePool", "Exp", "Sub", "Flatten"} {
			if k := r.IntN(4); k < 2 {
				ops[k] = append(ops[k], op)
			}
		}
		o := withBackends(part{b, ops[0]}, part{second, ops[1]})
		o.Streams = 1 + int(seed%2)
		p, err := carve.Compile(ctx, m, o)
		if err != nil {
			Expect(errors.Is(err, fake.ErrInjected)).To(BeTrue(), "seed %d: %v", seed, err)
			m.Close()
			continue
		}
		plain := mustCompile(ctx, m, &carve.Options{Backends: onReference})
		dims, err := plain.Inputs()[0].Type.Shape.Eval(graph.Bindings{"N": 2}, nil)
		Expect(err).NotTo(HaveOccurred())
		in := map[string]tensor.Value{"x": wave(dims...)}
		expected, err := plain.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		for range each {
			got, err := p.Run(ctx, in)
			if err != nil {
				Expect(errors.Is(err, fake.ErrInjected)).To(BeTrue(), "seed %d: %v", seed, err)
				failed++
				continue
			}
			right++
			Expect(apart(got, expected)).To(BeEmpty(), "seed %d", seed)
			if r.IntN(4) == 0 {
				p.Retry()
			}
		}
		Expect(p.Close()).To(Succeed())
		plain.Close()
		m.Close()
		Expect(b.Faults()).To(BeEmpty(), "seed %d", seed)
		Expect(b.Leaks()).To(BeEmpty(), "seed %d", seed)
	}
	Expect(right).To(BeNumerically(">", failed))
}

func parseGraph(text string) *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	return g
}

// BenchmarkOverlap runs two branches that do not depend on each other, of 2 ms each, on a device that sleeps and on the
// host: ms/op beside the longer of the two alone.
func BenchmarkOverlap(b *testing.B) {
	const work = 2 * time.Millisecond
	run := func(ops []string, host time.Duration) time.Duration {
		f := fake.New(fake.Options{Work: work})
		o := withBackends(part{f, ops})
		o.Verify = false
		o.Properties = map[string][]property.SubgraphProperty{"cpu": {&hold{busy: func() bool { return true }, work: host}, alone{}}}
		g, err := graph.Parse(twoBranches)
		if err != nil {
			b.Fatal(err)
		}
		m := carve.FromGraph(g)
		defer m.Close()
		p, err := carve.Compile(b.Context(), m, o)
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		in := map[string]tensor.Value{"x": tensor.From(make([]float32, 64*64), 64, 64)}
		best := time.Hour
		for range 50 {
			start := time.Now()
			if _, err := p.Run(b.Context(), in); err != nil {
				b.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	var both, deviceAlone, hostAlone time.Duration
	for b.Loop() {
		both, deviceAlone, hostAlone = run([]string{"Relu"}, work), run([]string{"Relu"}, 0), run([]string{"None"}, work)
	}
	b.ReportMetric(float64(both)/float64(max(deviceAlone, hostAlone)), "of-the-longer")
}
