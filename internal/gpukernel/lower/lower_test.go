package lower_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
	"github.com/carve-dev/carve/internal/gpukernel/lower"
)

var (
	graphs = flag.Int("graphs", 100, "random graphs to render, compile and compare with the reference")
	first  = flag.Int("first-graph", 0, "seed of the first of them")
)

// rendered is a graph with its kernels.
type rendered struct {
	g      *randomGraph
	result *lower.Result
	plan   *gpukernel.Plan
}

func render(seed uint64, d gpukernel.Device) rendered {
	GinkgoHelper()
	float := tensor.Float32
	switch seed % 10 {
	case 8:
		if d.Double && !d.Prebuilt {
			float = tensor.Float64
		}
	case 9:
		float = []tensor.DType{tensor.Float16, tensor.BFloat16}[seed/10%2]
	}
	g := newRandomGraph(seed, float)
	nodes := 2 + g.r.IntN(14)
	for i := 0; i < nodes || g.values[len(g.values)-1].Producer == nil; i++ {
		g.grow()
	}
	g.finish()
	what := text(g.Graph)
	Expect(graph.Verify(g.Graph)).To(Succeed(), what)
	result, err := lower.Graph(g.Graph)
	Expect(err).NotTo(HaveOccurred(), what)
	plan, err := gpukernel.Render(fmt.Sprintf("k%d", seed), d, result.Program)
	Expect(err).NotTo(HaveOccurred(), what)
	return rendered{g, result, plan}
}

// compare runs the kernels, and compares every output with what the reference computed.
func (x rendered) compare(p *fibre.Program) {
	GinkgoHelper()
	buffers := map[string][]byte{}
	for i, v := range x.result.Inputs {
		t := x.g.data[v]
		if v.Const != nil {
			t = v.Const
		}
		buffers[fmt.Sprintf("in%d", i)] = t.Bytes()
	}
	outs := make([]*tensor.Tensor, len(x.result.Outputs))
	for i, v := range x.result.Outputs {
		var err error
		outs[i], err = tensor.New(v.Type.DType, shapeOf(v)...)
		must(err)
		b := outs[i].Bytes()
		for j := range b {
			b[j] = 0xff
		}
		buffers[fmt.Sprintf("out%d", i)] = b
	}
	Expect(p.Run(x.plan, buffers)).To(Succeed(), text(x.g.Graph))
	tolerance := map[tensor.DType]float64{tensor.Float64: 1e-10, tensor.Float32: 2e-4, tensor.Float16: 4e-3, tensor.BFloat16: 3e-2}[x.g.float]
	for i, v := range x.result.Outputs {
		want := x.g.data[v]
		if v.Type.DType.Bits() <= 8 {
			if !bytes.Equal(outs[i].Bytes(), want.Bytes()) {
				Fail(fmt.Sprintf("%s\noutput %q is %v and not %v\n%s", text(x.g.Graph), v.Name, outs[i].Bytes(), want.Bytes(),
					gpukernel.Source(gpukernel.CUDA, fibre.Kernels(x.plan)...)))
			}
			continue
		}
		for j := range want.Len() {
			w, got := want.Float64At(j), outs[i].Float64At(j)
			if !v.Type.DType.IsFloat() && w == got || w != w && got != got || w == got || math.Abs(w-got) <= tolerance*max(1, math.Abs(w)) {
				continue
			}
			Fail(fmt.Sprintf("%s\noutput %q, element %d is %g and not %g\n%s", text(x.g.Graph), v.Name, j, got, w,
				gpukernel.Source(gpukernel.CUDA, fibre.Kernels(x.plan)...)))
		}
	}
}

var _ = Describe("Rendered kernels", func() {
	It("compute what the reference computes, on random graphs", func(ctx SpecContext) {
		const batch = 100
		kernels := 0
		for done := 0; done < *graphs; done += batch {
			var list []rendered
			var plans []*gpukernel.Plan
			for i := *first + done; i < *first+min(done+batch, *graphs); i++ {
				list = append(list, render(uint64(i), gpukernel.NVIDIA(90, 132)))
				plans = append(plans, list[len(list)-1].plan)
			}
			all := fibre.Kernels(plans...)
			kernels += len(all)
			p, err := fibre.Start(ctx, GinkgoT().TempDir(), fibre.Address, all...)
			if errors.Is(err, fibre.ErrNoCompiler) {
				Skip(err.Error())
			}
			Expect(err).NotTo(HaveOccurred())
			for _, x := range list {
				x.compare(p)
			}
			Expect(p.Close()).To(Succeed())
			GinkgoWriter.Printf("graphs from %d to %d agree\n", *first, *first+min(done+batch, *graphs)-1)
		}
		AddReportEntry("random graphs", fmt.Sprintf("%d graphs, %d kernels", *graphs, kernels))
	})
})

var _ = Describe("Lowering", func() {
	DescribeTable("refuses, and names the node", func(source string) {
		g, err := graph.Parse("graph \"g\" {\n  opset 17\n" + source + "}\n")
		Expect(err).NotTo(HaveOccurred())
		_ = graph.InferGraph(g) // what it cannot infer is what is to be refused
		_, err = lower.Graph(g)
		var failed *lower.Error
		Expect(errors.As(err, &failed)).To(BeTrue(), "%v", err)
		Expect(failed.Node.Name).To(Equal("n"))
		Expect(err).To(MatchError(lower.ErrUnsupported))
	},
		Entry("operators that are none of these", `  input %x: f32[4,4]
  %y: f32[4,4] = MatMul(%x, %x) "n"
  output %y
`),
		Entry("open shapes", `  input %x: f32[N]
  %y: f32[N] = Relu(%x) "n"
  output %y
`),
		Entry("double precision that would be rounded on the way", `  input %x: f64[1,1,2,2]
  input %g: f64[1,2,2,2]
  %y: f64[1,1,2,2] = GridSample(%x, %g) "n"
  output %y
`),
		Entry("what is empty", `  input %x: f32[0]
  %y: f32[0] = Relu(%x) "n"
  output %y
`),
		Entry("slices that are not known", `  input %x: f32[4]
  input %s: i64[1]
  input %e: i64[1]
  %y: f32[2] = Slice(%x, %s, %e) "n"
  output %y
`),
		Entry("means of integers", `  input %x: i32[4]
  %y: i32[1] = ReduceMean(%x; axes=[0]) "n"
  output %y
`),
	)
})
