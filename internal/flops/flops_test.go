package flops_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/flops"
	"github.com/carve-dev/carve/internal/zootest"
)

func f32(dims ...graph.Dim) graph.Type { return graph.TensorType(tensor.Float32, graph.Shape(dims)) }

func weights(g *graph.Graph, name string, dims ...int) *graph.Value {
	t, err := tensor.New(tensor.Float32, dims...)
	Expect(err).NotTo(HaveOccurred())
	return g.AddConst(name, t)
}

func inferred(g *graph.Graph) *graph.Graph {
	Expect(graph.InferGraph(g)).To(Succeed())
	return g
}

func one(op string, in graph.Type, attrs []graph.Attr, shapes ...[]int) *graph.Graph {
	g := graph.New("g")
	g.Opsets[""] = 21
	ins := []*graph.Value{g.AddInput("x", in)}
	for i, s := range shapes {
		ins = append(ins, weights(g, string(rune('w'+i)), s...))
	}
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: "n", Attrs: attrs, Inputs: ins, Outputs: []string{"y"}})
	g.SetOutputs(n.Outputs[0])
	return inferred(g)
}

func parsed(text string) *graph.Graph {
	g, err := graph.Parse("graph {\n  opset 17" + text + "\n  output %y\n}")
	if err != nil {
		panic(err) // of the table below
	}
	return inferred(g)
}

var _ = Describe("Of", func() {
	N := graph.Sym("N")
	DescribeTable("counts 2 for a multiply-add", func(g *graph.Graph, want float64) {
		c, err := flops.Of(g, graph.Bindings{"N": 2})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Total).To(Equal(want))
		Expect(c.Unknown).To(BeEmpty())
	},
		Entry("Conv, with taps in padding", one("Conv", f32(N, graph.D(3), graph.D(8), graph.D(8)),
			[]graph.Attr{graph.IntsAttr("pads", 1, 1, 1, 1)}, []int{4, 3, 3, 3}), 2.0*2*4*8*8*27),
		Entry("grouped Conv", one("Conv", f32(N, graph.D(4), graph.D(8), graph.D(8)),
			[]graph.Attr{graph.IntAttr("group", 4)}, []int{4, 1, 1, 1}), 2.0*2*4*64),
		Entry("ConvTranspose", one("ConvTranspose", f32(N, graph.D(3), graph.D(5), graph.D(5)), nil, []int{3, 4, 2, 2}), 2.0*2*3*25*16),
		Entry("MatMul with broadcast batch", one("MatMul", f32(N, graph.D(5), graph.D(7)), nil, []int{7, 3}), 2.0*2*5*3*7),
		Entry("Gemm, transposed", one("Gemm", f32(N, graph.D(7)), []graph.Attr{graph.IntAttr("transB", 1)}, []int{3, 7}), 2.0*2*3*7),
		Entry("ConvInteger", parsed(`
  input %x: u8[N,3,8,8]
  const %w = i8[1,3,2,2]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  %y = ConvInteger(%x, %w)`), 2.0*2*49*12),
		Entry("QLinearConv", parsed(`
  input %x: u8[N,3,8,8]
  const %s = f32[]{0.5}
  const %z = u8[]{3}
  const %w = u8[1,3,2,2]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  %y = QLinearConv(%x, %s, %z, %w, %s, %z, %s, %z)`), 2.0*2*49*12),
		Entry("MatMulInteger", parsed(`
  input %x: u8[N,3]
  const %w = u8[3,2]{1, 2, 3, 4, 5, 6}
  %y = MatMulInteger(%x, %w)`), 2.0*2*3*2),
		Entry("QLinearMatMul", parsed(`
  input %x: u8[N,3]
  const %s = f32[]{0.5}
  const %z = u8[]{3}
  const %w = u8[3,2]{1, 2, 3, 4, 5, 6}
  %y = QLinearMatMul(%x, %s, %z, %w, %s, %z, %s, %z)`), 2.0*2*3*2),
		Entry("LSTM", one("LSTM", f32(graph.D(9), N, graph.D(5)), []graph.Attr{graph.IntAttr("hidden_size", 4)},
			[]int{1, 16, 5}, []int{1, 16, 4}), 2.0*9*2*(16*5+16*4)),
		Entry("nothing for Relu", one("Relu", f32(N), nil), 0.0),
	)

	It("takes the larger arm of an If and the iterations of a Loop", func() {
		arm := func(k int) *graph.Graph {
			r := graph.New("arm")
			x := r.AddCapture("x", f32(graph.D(2), graph.D(3)))
			n := r.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Name: "mm", Inputs: []*graph.Value{x, weights(r, "w", 3, k)}, Outputs: []string{"y"}})
			r.SetOutputs(n.Outputs[0])
			return r
		}
		g := graph.New("g")
		g.Opsets[""] = 21
		x := g.AddInput("x", f32(graph.D(2), graph.D(3)))
		c := g.AddInput("c", graph.TensorType(tensor.Bool, graph.Shape{}))
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "If"}, Name: "if", Inputs: []*graph.Value{c}, Captures: []*graph.Value{x},
			Outputs: []string{"y"}, Regions: []graph.Region{{Name: "then_branch", Graph: arm(5)}, {Name: "else_branch", Graph: arm(7)}}})
		body := graph.New("body")
		body.AddInput("i", graph.TensorType(tensor.Int64, graph.Shape{}))
		cond := body.AddInput("cond", graph.TensorType(tensor.Bool, graph.Shape{}))
		y := body.AddCapture("x", f32(graph.D(2), graph.D(3)))
		m := body.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Name: "mm", Inputs: []*graph.Value{y, weights(body, "w", 3, 4)}, Outputs: []string{"z"}})
		body.SetOutputs(cond, m.Outputs[0])
		loop := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Loop"}, Name: "loop",
			Inputs: []*graph.Value{g.AddConst("trips", tensor.Scalar(int64(10))), nil}, Captures: []*graph.Value{x}, Outputs: []string{"s"},
			Regions: []graph.Region{{Name: "body", Graph: body}}})
		g.SetOutputs(n.Outputs[0], loop.Outputs[0])
		count, err := flops.Of(inferred(g), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(count.Total).To(Equal(2.0*2*3*7 + 10*2.0*2*3*4))
		Expect(count.Partial).To(BeEmpty())
	})

	It("agrees with the zoo's published figures", func(ctx SpecContext) {
		for name, want := range map[string]float64{"resnet50": 8.18, "bert_tiny": 0.0262, "gpt2_tiny": 0.00623, "lstm_tagger": 0.303, "squeezenet1_1": 0.698} {
			_, err := zootest.Shared("models/" + name + ".onnx")
			if errors.Is(err, zootest.ErrAbsent) {
				Skip(err.Error())
			}
			Expect(err).NotTo(HaveOccurred())
			ref, err := zootest.ReadReference(name)
			Expect(err).NotTo(HaveOccurred())
			path, err := zootest.Materialize(name)
			Expect(err).NotTo(HaveOccurred(), path)
			m, err := onnx.Load(context.Context(ctx), path, nil)
			Expect(err).NotTo(HaveOccurred())
			b := graph.Bindings{}
			for k, v := range ref.Bind() {
				b[k] = int64(v)
			}
			count, err := flops.Of(inferred(m.Graph), b)
			Expect(err).NotTo(HaveOccurred())
			Expect(count.Unknown).To(BeEmpty(), name)
			Expect(count.Total/1e9).To(BeNumerically("~", want, want*0.005), name)
			Expect(m.Close()).To(Succeed())
		}
	})
})

var _ = Describe("OfNode", func() {
	It("counts one node, and what a fused one stands for", func() {
		g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[N,4]
  const %w = f32[4,2]{1, 2, 3, 4, 5, 6, 7, 8}
  %y = MatMul(%x, %w)
  %z = Relu(%y)
  output %z
}`)
		Expect(err).NotTo(HaveOccurred())
		inferred(g)
		relu := g.Outputs[0].Producer
		product := relu.Inputs[0].Producer
		b := graph.Bindings{"N": 3}
		Expect(flops.OfNode(product, b)).To(Equal(flops.NodeWork{FLOPs: 2 * 3 * 4 * 2, Bytes: 4 * (12 + 8 + 6)}))
		Expect(flops.OfNode(relu, b)).To(Equal(flops.NodeWork{Other: 6, Bytes: 4 * (6 + 6)}))
		_, err = flops.OfNode(relu, nil)
		Expect(err).To(MatchError(graph.ErrUnbound))
		fused, err := g.Extract([]*graph.Node{product, relu}, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused}})
		Expect(err).NotTo(HaveOccurred())
		w, err := flops.OfNode(fused, b)
		Expect(err).NotTo(HaveOccurred())
		Expect([]float64{w.FLOPs, w.Other}).To(Equal([]float64{48, 6}))
	})
})
