package gpugroup_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/cost"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// large is a device like the large ones of 2024, in operations and bytes of a nanosecond.
var large = gpugroup.Ceilings{Arithmetic: 60e3, Memory: 4800, Kernel: 2500, Group: 8000}

var _ = Describe("what a device achieves by its ceilings", func() {
	node := func(format string, args ...any) *graph.Node {
		GinkgoHelper()
		g, err := graph.Parse("graph {\n  opset 24\n" + fmt.Sprintf(format, args...) + "\n}")
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		list := g.NodesByID()
		return list[len(list)-1]
	}
	nanos := func(c gpugroup.Ceilings, n *graph.Node) float64 {
		return cost.Of(c.Efficiency(), n, "", 8).Nanoseconds
	}

	It("bounds every law from below", func() {
		product := node("  input %%x: f32[8192,8192]\n  %%y = MatMul(%%x, %%x)\n  output %%y")
		Expect(nanos(large, product)).To(And(BeNumerically(">", 2*8192*8192*8192/large.Arithmetic), BeNumerically("<", 4*8192*8192*8192/large.Arithmetic)))
		sum := node("  input %%x: f32[64,1024,1024]\n  input %%z: f32[64,1024,1024]\n  %%y = Add(%%x, %%z)\n  output %%y")
		Expect(nanos(large, sum)).To(And(BeNumerically(">", 3*4*64*1024*1024/large.Memory), BeNumerically("<", 2*3*4*64*1024*1024/large.Memory)))
	})

	It("has every operator of the cost model take some time, on all threads the same, and less on a device that can do more", func() {
		e := large.Efficiency()
		for _, op := range []string{"Relu", "Tanh", "Softmax", "Conv", "NoSuchOperator", "Gather", "LSTM", "ReduceSum", "Reshape"} {
			w := cost.Work{Class: map[string]string{"Relu": "add", "Tanh": "tanh", "Softmax": "softmax", "Conv": "conv", "NoSuchOperator": cost.Other, "Gather": "gather",
				"LSTM": "recurrent", "ReduceSum": "reduce", "Reshape": "view"}[op], Work: 1e9, Bytes: 1e7, Items: 1e6, Rows: 100}
			one := cost.Nanoseconds(e, &w, "", 1)
			Expect(one).To(BeNumerically(">", 0), op)
			Expect(cost.Nanoseconds(e, &w, "", 16)).To(BeNumerically("~", one, 1e-6*one), op)
			more := gpugroup.Ceilings{Arithmetic: 2 * large.Arithmetic, Memory: 2 * large.Memory, Kernel: 1000}.Efficiency()
			Expect(cost.Nanoseconds(more, &w, "", 1)).To(BeNumerically("<=", one), op)
		}
	})

	It("counts products by matrix instructions where these are used", func() {
		fast := large
		fast.Products = 8 * large.Arithmetic
		product := node("  input %%x: f32[8192,8192]\n  %%y = MatMul(%%x, %%x)\n  output %%y")
		Expect(nanos(fast, product)).To(BeNumerically("<", nanos(large, product)/6))
	})
})

var _ = Describe("tiles", func() {
	device := gpugroup.Device{Kernels: gpukernel.NVIDIA(80, 108), Ceilings: large}
	parse := func(text string) *graph.Node {
		GinkgoHelper()
		g, err := graph.Parse("graph {\n  opset 24\n" + text + "\n}")
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		return g.NodesByID()[0]
	}

	DescribeTable("are signatures' that differ in their names, and in what they take longer by the model", func(text string, most int) {
		n := parse(text)
		s := device.Supports(n)
		Expect(s.Signatures).To(HaveLen(most))
		names := map[string]bool{}
		for i, sig := range s.Signatures {
			Expect(names).NotTo(HaveKey(sig.Name))
			names[sig.Name] = true
			Expect(sig.Inputs).To(Equal(s.Signatures[0].Inputs))
			if i > 0 {
				Expect(sig.Name).To(HavePrefix(s.Signatures[0].Name + " "))
				Expect(sig.Extra).To(BeNumerically(">=", s.Signatures[i-1].Extra))
				Expect(sig.Extra).To(BeNumerically("<", 1e6), "nanoseconds")
			}
		}
	},
		Entry("of a product", "  input %x: f32[500,300]\n  input %z: f32[300,200]\n  %y = MatMul(%x, %z)\n  output %y", 6),
		Entry("of a Gemm", "  input %x: f32[500,300]\n  input %z: f32[200,300]\n  %y = Gemm(%x, %z; transB=1)\n  output %y", 6),
		Entry("of a convolution", "  input %x: f32[1,32,28,28]\n  input %w: f32[64,32,3,3]\n  %y = Conv(%x, %w)\n  output %y", 6),
		Entry("of one whose groups have one channel, of which there are none", "  input %x: f32[1,32,28,28]\n  input %w: f32[32,1,3,3]\n  %y = Conv(%x, %w; group=32)\n  output %y", 1),
		Entry("of a Softmax, of which there are none", "  input %x: f32[500,300]\n  %y = Softmax(%x)\n  output %y", 1),
	)

	It("are those of a node's signature in a plan", func(ctx SpecContext) {
		text := func(name string) string {
			GinkgoHelper()
			n := parse("  input %x: f32[500,300]\n  input %z: f32[300,200]\n  %y = MatMul(%x, %z)\n  output %y")
			g := n.Graph()
			for _, v := range append(g.Inputs, n.Outputs...) {
				v.Format = graph.Format{Device: device.ID}
			}
			n.SigName = name
			group, err := device.Plan(ctx, g, nil)
			Expect(err).NotTo(HaveOccurred())
			return gpukernel.Source(gpukernel.CUDA, group.Steps[0].Launch.Kernel)
		}
		seen := map[string]bool{}
		for _, sig := range device.Supports(parse("  input %x: f32[500,300]\n  input %z: f32[300,200]\n  %y = MatMul(%x, %z)\n  output %y")).Signatures {
			seen[text(sig.Name)] = true
		}
		Expect(seen).To(HaveLen(6))
		Expect(text("product of no such tile")).To(Equal(text("product")))
	})
})
