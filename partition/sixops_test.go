package partition_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

// The example of the proposals: (Op1-MKL → Op2-MKL) → (Op3-CUDA → Op4-CUDA) → (Op5-MKL) → (Op6-MXNet).
var _ = Describe("Six operators on three backends", func() {
	const text = `graph "six" {
  opset 17
  input %x: f32[1,16,8,8]
  %Op1 = Relu(%x)
  %Op2 = Sigmoid(%Op1)
  %Op3 = Neg(%Op2)
  %Op4 = Abs(%Op3)
  %Op5 = Relu(%Op4)
  %Op6 = Tanh(%Op5)
  output %Op6
}
`
	mklLayout, cudaLayout := graph.On(opaque("mkl")), graph.Format{Device: tensor.DeviceID{Type: tensor.CUDA}, Layout: opaque("cuda")}
	formats := map[graph.Format]string{graph.HostFormat: "MXNet", mklLayout: "MKL", cudaLayout: "CUDA"}

	var g *graph.Graph
	var backends []backend.Backend
	BeforeEach(func() {
		g = parse(text)
		mkl := instance("mkl", opaque("mkl"), "Relu", "Sigmoid")
		cuda := &elsewhere{instance("cuda", graph.RowMajor, "Neg", "Abs"), cudaLayout}
		backends = []backend.Backend{mkl, cuda, instance("mxnet", graph.RowMajor)}
	})
	carve := func(ctx context.Context, more ...convert.Converter) *convert.Registry {
		GinkgoHelper()
		more = append(more, hop(graph.HostFormat, cudaLayout), hop(cudaLayout, graph.HostFormat))
		r := registry(backends, more...)
		res := carved(ctx, g, &partition.Options{Backends: backends, Registry: r})
		Expect(groups(res)).To(Equal([]string{"mkl: Op1 Op2", "cuda: Op3 Op4", "mkl: Op5", "mxnet: Op6"}))
		return r
	}

	It("make exactly the logical list", func(ctx SpecContext) {
		carve(ctx)
		Expect(steps(g, formats)).To(Equal([]string{
			"MXNet→MKL", "Op1", "Op2", "MKL→CUDA", "Op3", "Op4", "CUDA→MKL", "Op5", "MKL→MXNet", "Op6"}))
	})

	It("make exactly the lowered list, through the host's format", func(ctx SpecContext) {
		r := carve(ctx)
		hops, err := convert.Lower(g, r)
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Sort()).To(Succeed())
		Expect(steps(g, formats)).To(Equal([]string{
			"MXNet→MKL", "Op1", "Op2", "MKL→MXNet", "MXNet→CUDA", "Op3", "Op4", "CUDA→MXNet", "MXNet→MKL", "Op5", "MKL→MXNet", "Op6"}))
		Expect(hops).To(HaveLen(6))
		for n, c := range hops {
			Expect(n.Inputs[0].Format).To(Equal(c.From))
			Expect(n.Outputs[0].Format).To(Equal(c.To))
		}
	})

	It("keep a conversion whole where there is a direct converter", func(ctx SpecContext) {
		direct := hop(mklLayout, cudaLayout)
		r := carve(ctx, direct)
		_, err := convert.Lower(g, r)
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Sort()).To(Succeed())
		Expect(steps(g, formats)).To(Equal([]string{
			"MXNet→MKL", "Op1", "Op2", "MKL→CUDA", "Op3", "Op4", "CUDA→MXNet", "MXNet→MKL", "Op5", "MKL→MXNet", "Op6"}))
	})

	It("go the cheaper way where a direct converter costs more than two hops", func(ctx SpecContext) {
		direct := hop(mklLayout, cudaLayout)
		direct.Cost.PerByte = 10
		r := carve(ctx, direct)
		_, err := convert.Lower(g, r)
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Sort()).To(Succeed())
		Expect(steps(g, formats)[3:5]).To(Equal([]string{"MKL→MXNet", "MXNet→CUDA"}))
	})
})

// elsewhere is a backend whose values are on a device.
type elsewhere struct {
	backend.Backend
	format graph.Format
}

func (e *elsewhere) Supports(n *graph.Node) backend.Support {
	s := e.Backend.Supports(n)
	if s.Reason == nil {
		s.Signatures = []graph.Signature{graph.UniformSignature("device", n, e.format)}
	}
	return s
}
