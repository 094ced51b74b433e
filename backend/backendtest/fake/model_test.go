package fake_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

const network = `graph {
  opset 17
  input %x: f32[N,4,8]
  input %z: f32[N,4,8]
  const %axes = i64[1]{1}
  %a = Exp(%x)
  %b = Sigmoid(%z)
  %c = Add(%a, %b)
  %d = Tanh(%c)
  %e = Mul(%d, %a)
  %f = Sub(%e, %b)
  %g = ReduceSum(%f, %axes)
  %h = Relu(%g)
  output %h
  output %d
}`

// compile compiles the network for these backends, with cpu and reference behind them.
func compile(g *graph.Graph, list ...backend.Backend) *carve.Program {
	GinkgoHelper()
	m := carve.FromGraph(g)
	DeferCleanup(m.Close)
	o := &carve.Options{Verify: true, Open: map[string]backend.Backend{}}
	for _, b := range list {
		o.Backends = append(o.Backends, backend.Config{Name: b.Info().Name})
		o.Open[b.Info().Name] = b
	}
	p, err := carve.Compile(GinkgoT().Context(), m, o)
	Expect(err).NotTo(HaveOccurred())
	return p
}

func parse(text string) *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	return g
}

// feeds returns inputs for n items.
func feeds(n int) map[string]tensor.Value {
	x, z := make([]float32, n*32), make([]float32, n*32)
	for i := range x {
		x[i], z[i] = float32(i%17)/8-1, float32(i%29)/16-0.5
	}
	return map[string]tensor.Value{"x": tensor.From(x, n, 4, 8), "z": tensor.From(z, n, 4, 8)}
}

var _ = Describe("a model on fake devices", func() {
	DescribeTable("computes what the reference does, in order and without leaks", func(ctx SpecContext, o fake.Options) {
		o.Devices, o.Delay = 2, 300*time.Microsecond
		b := fake.New(o)
		second, err := b.On(b.Devices()[1].ID())
		Expect(err).NotTo(HaveOccurred())
		p := compile(parse(network), only{b, []string{"Exp", "Add", "Mul", "ReduceSum"}}, only{second, []string{"Sigmoid", "Sub", "Relu"}})
		reference := compile(parse(network))
		for _, n := range []int{1, 3, 1} {
			want, err := reference.Run(ctx, feeds(n))
			Expect(err).NotTo(HaveOccurred())
			got, err := p.Run(ctx, feeds(n))
			Expect(err).NotTo(HaveOccurred())
			for _, name := range []string{"h", "d"} {
				g, w := tensor.Of[float32](got[name].(*tensor.Tensor)), tensor.Of[float32](want[name].(*tensor.Tensor))
				Expect(g).To(HaveLen(len(w)))
				for i := range w {
					Expect(g[i]).To(BeNumerically("~", w[i], 1e-5))
				}
			}
		}
		s := b.Stats()
		Expect(s.Launches).To(BeNumerically(">=", 9))
		if o.NoPeers {
			Expect(s.CopiesAcross).To(BeZero())
		} else {
			Expect(s.CopiesAcross).To(BeNumerically(">=", 3))
		}
		Expect(p.Close()).To(Succeed())
		Expect(reference.Close()).To(Succeed())
		Expect(b.Faults()).To(BeEmpty())
		Expect(b.Leaks()).To(BeEmpty())
	},
		Entry("with the reference's kernels", fake.Options{}),
		Entry("with cpu's kernels", fake.Options{Kernels: open()}),
		Entry("without copies between them", fake.Options{NoPeers: true}),
		Entry("strided where it likes", fake.Options{Strided: func(bool, int) bool { return true }}),
	)
})

// only limits a backend to some operators.
type only struct {
	backend.Backend
	ops []string
}

func (o only) Supports(n *graph.Node) backend.Support {
	if !n.Is(o.ops...) {
		return backend.No(property.Unsupported, "another's")
	}
	return o.Backend.Supports(n)
}

func open() backend.Backend {
	b, err := cpu.Open(backend.Config{Name: "cpu"})
	if err != nil {
		panic(err)
	}
	return b
}
