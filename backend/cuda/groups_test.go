package cuda_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

// whole returns a tensor of integers from -most to most.
var whole = grouptest.Whole

// net is a convolution, what follows it, a product and a softmax: several kernels.
func net() *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse(`graph {
  opset 24
  input %x: f32[2,3,6,5]
  %c = Conv(%x, %x; pads=[1,1,1,1]) "c"
  %r = Relu(%c)
  %f = Flatten(%r)
  %m = MatMul(%f, %f) "m"
  %y = Softmax(%m)
  output %y
}`)
	Expect(err).NotTo(HaveOccurred())
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range g.NodesByID() {
		switch n.Name {
		case "c":
			n.SetOperand(1, g.AddConst("w", whole(r, 1, 4, 3, 3, 3)))
		case "m":
			n.SetOperand(1, g.AddConst("v", whole(r, 1, 120, 7)))
		}
	}
	return g
}

// compile compiles a graph for the backend of a driver.
func compile(ctx context.Context, fake *fakecuda.Driver, g *graph.Graph, o carve.Options, options ...string) (*carve.Program, error) {
	GinkgoHelper()
	m := carve.FromGraph(g)
	DeferCleanup(m.Close)
	o.Backends, o.Placement, o.Verify = []backend.Config{config(fake, options...)}, carve.Priority, true
	return carve.Compile(ctx, m, &o)
}

// program is compile for graphs of which all runs on the device. The Program is closed at the end of the spec.
func program(ctx context.Context, fake *fakecuda.Driver, g *graph.Graph, o carve.Options) *carve.Program {
	GinkgoHelper()
	p, err := compile(ctx, fake, g, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	for _, x := range r.Groups {
		Expect(x.Backend).To(Equal("cuda"), "%v", x.Nodes)
	}
	return p
}

var _ = DescribeTable("operators run on the device, and agree with the reference", func(ctx SpecContext, text string, shape ...int) {
	g, err := graph.Parse("graph {\n  opset 24\n" + text + "\n}")
	Expect(err).NotTo(HaveOccurred())
	p := program(ctx, driver(), g, carve.Options{Poison: true})
	for i := range 3 { // one by one, captured, and as a graph
		d, err := p.Check(ctx, map[string]tensor.Value{"x": whole(rand.New(rand.NewPCG(5, uint64(i))), 3, shape...)})
		Expect(err).NotTo(HaveOccurred())
		Expect(d).To(BeNil())
	}
},
	operators(),
	Entry("transposed convolutions whose windows do not overlap", `  input %x: f32[2,3,4,5]
  const %w = f32[3,2,2,3]{1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15, -16, 17, -18, 19, -20, 21, -22, 23, -24, 25, -26, 27, -28, 29, -30, 31, -32, 33, -34, 35, -36}
  const %b = f32[2]{0.5, -0.25}
  %t = ConvTranspose(%x, %w, %b; strides=[2,3])
  %y = Relu(%t)
  output %y`, 2, 3, 4, 5),
	Entry("a product of what is computed, and a softmax", `  input %x: f32[7,7]
  %m = MatMul(%x, %x)
  %y = Softmax(%m)
  output %y`, 7, 7),
	Entry("averages over padding, and windows beyond it", `  input %x: f32[1,2,7,8]
  %a = AveragePool(%x; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1)
  %c = MaxPool(%x; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1)
  %y = Add(%a, %c)
  output %y`, 1, 2, 7, 8),
)

var _ = Describe("a group's runs", func() {
	It("are a launch of a graph, the copies and a kernel for what is reordered on the way, from the second on", func(ctx SpecContext) {
		const reorders = 1 // the input's
		fake := driver()
		p := program(ctx, fake, net(), carve.Options{})
		agrees(ctx, p, 0)
		Expect(fake.Count("cuGraphLaunch")).To(BeZero())
		launches := fake.Count("cuLaunchKernel")
		Expect(launches).To(BeNumerically(">", 1))
		for i := 1; i < 6; i++ {
			kernels, up, down := fake.Count("kernels"), fake.Count("cuMemcpyHtoDAsync_v2"), fake.Count("cuMemcpyDtoHAsync_v2")
			agrees(ctx, p, i)
			Expect(fake.Count("cuGraphLaunch")).To(Equal(i), "one a run")
			Expect(fake.Count("kernels")-kernels).To(Equal(launches), "of all kernels")
			Expect(fake.Count("cuMemcpyHtoDAsync_v2") - up).To(Equal(1))
			Expect(fake.Count("cuMemcpyDtoHAsync_v2") - down).To(Equal(1))
		}
		Expect(fake.Count("cuStreamBeginCapture_v2")).To(Equal(1))
		Expect(fake.Count("cuLaunchKernel")).To(Equal(2*(launches-reorders)+6*reorders), "once to run, once to capture")
		Expect(fake.Count("cuMemAlloc_v2")).To(BeNumerically("<", 10))
	})

	It("are a launch of a graph with poisoned memory, too", func(ctx SpecContext) {
		fake := driver()
		p := program(ctx, fake, net(), carve.Options{Poison: true})
		for i := range 3 {
			agrees(ctx, p, i)
			Expect(fake.Count("cuGraphLaunch")).To(Equal(i))
		}
	})

	It("are launches one by one where they cannot be captured", func(ctx SpecContext) {
		for _, f := range []string{"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch"} {
			fake := driver()
			p := program(ctx, fake, net(), carve.Options{Strict: true})
			agrees(ctx, p, 0)
			fake.FailIn(f)
			fake.Set("fail_every", 1)
			for i := 1; i < 4; i++ {
				agrees(ctx, p, i)
			}
			fake.Set("fail_every", 0)
			fake.FailIn("")
			Expect(fake.Report()).To(BeEmpty())
			Expect(p.Close()).To(Succeed())
			Eventually(fake.Live).Should(BeEmpty())
		}
	})

	It("are captured again where operands have moved, each place once, unless they never come back", func(ctx SpecContext) {
		fake := driver()
		b := open(fake)
		m := carve.FromGraph(net())
		DeferCleanup(m.Close)
		p, err := carve.Compile(ctx, m, &carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}}, Placement: carve.Priority, Verify: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		d := b.Devices()[0]
		into := func(i int) {
			GinkgoHelper()
			out, err := d.Alloc(2 * 7 * 4)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(d.Free, out)
			y := &tensor.Tensor{DType: tensor.Float32, Shape: []int{2, 7}, Device: d.ID(), Handle: out.Handle}
			for range i {
				Expect(p.RunInto(ctx, []*tensor.Tensor{input(0)["x"].(*tensor.Tensor)}, []*tensor.Tensor{y})).To(Succeed())
			}
			back, err := tensor.New(tensor.Float32, 2, 7)
			Expect(err).NotTo(HaveOccurred())
			Expect(d.CopyFrom(ctx, nil, back.Data, out, 0)).To(Succeed())
			Expect(near(back, expected(ctx, 0))).To(BeTrue())
		}
		captured := func() int { return fake.Count("cuStreamBeginCapture_v2") }
		into(3)
		Expect(captured()).To(Equal(1))
		into(1)
		into(2)
		Expect(captured()).To(Equal(3))
		graphs := fake.Count("cuGraphLaunch")
		for range 30 {
			into(1)
		}
		Expect(captured()).To(BeNumerically("<", 15))
		Expect(fake.Count("cuGraphLaunch") - graphs).To(Equal(captured() - 3))
		Expect(strings.Count(fake.Live(), "exec: 4")).To(Equal(1), fake.Live())
	})

	It("are seen step by step in a profile", func(ctx SpecContext) {
		p := program(ctx, driver(), net(), carve.Options{})
		_, profile, err := p.RunProfiled(ctx, input(0))
		Expect(err).NotTo(HaveOccurred())
		Expect(profile).NotTo(BeNil())
	})
})

// references are the results of expected, which goroutines may ask for at one time.
var references sync.Map

// expected returns what the reference makes of input i.
func expected(ctx context.Context, i int) tensor.Value {
	GinkgoHelper()
	if y, known := references.Load(i); known {
		return y.(tensor.Value)
	}
	m := carve.FromGraph(net())
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "reference"}}})
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	out, err := p.Run(ctx, input(i))
	Expect(err).NotTo(HaveOccurred())
	references.Store(i, out["y"])
	return out["y"]
}

// near reports whether two tensors of float32 are the same but for the order of sums.
func near(a, b tensor.Value) bool {
	x, y := tensor.Of[float32](a.(*tensor.Tensor)), tensor.Of[float32](b.(*tensor.Tensor))
	for i := range x {
		if !(math.Abs(float64(x[i]-y[i])) <= 1e-6) {
			return false
		}
	}
	return len(x) == len(y)
}

// agrees runs net on input i, and compares with the reference.
func agrees(ctx context.Context, p *carve.Program, i int) {
	GinkgoHelper()
	got, err := p.Run(ctx, input(i))
	Expect(err).NotTo(HaveOccurred())
	Expect(near(got["y"], expected(ctx, i))).To(BeTrue())
}

// operators are what the backends of graphics processors are all tried with.
func operators() (list []TableEntry) {
	for _, x := range grouptest.Operators {
		list = append(list, Entry(x.Name, x.Parameters()...))
	}
	return list
}
