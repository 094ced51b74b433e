package fuse_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/property"
)

func parse(text string) *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse("graph {\n  opset 17\n" + text + "\n}")
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.InferGraph(g)).To(Succeed())
	return g
}

// fused fuses the first set that a property finds, and returns the node and the operators in it; nil where it finds none.
func fused(ctx SpecContext, g *graph.Graph, p property.SubgraphProperty) (n *graph.Node, ops string) {
	GinkgoHelper()
	err := property.Sets(ctx, g, p, func(m *graph.Node) bool { return n == nil },
		func(set []*graph.Node) bool {
			if n != nil {
				return false
			}
			for _, m := range set {
				ops = strings.TrimSpace(ops + " " + m.Op.Name)
			}
			var err error
			n, err = g.Fuse(set, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused}})
			Expect(err).NotTo(HaveOccurred())
			return true
		}, nil)
	Expect(err).NotTo(HaveOccurred())
	return n, ops
}

// product are chains behind matrix products. The kernel adds no residual that is an operand too.
var product = &fuse.Chain{Name: "product", Bias: fuse.ConstantMatrix,
	Head:       func(n *graph.Node) bool { return n.Is("MatMul") },
	Residual:   func(head *graph.Node, r *graph.Value) bool { return r != head.Inputs[0] },
	Activation: func(n *graph.Node) bool { return n.Is("Relu") },
}

const operands = `
  input %x: f32[4,4]
  input %z: f32[4,4]
  const %w = f32[4,4]{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}
  const %b = f32[4]{1,2,3,4}
`

var _ = DescribeTable("chains", func(ctx SpecContext, body, ops, residual string) {
	n, got := fused(ctx, parse(operands+body), product.Property())
	Expect(got).To(Equal(ops))
	if n == nil {
		return
	}
	l, err := product.Parse(n)
	Expect(err).NotTo(HaveOccurred())
	Expect(l.Head.Op.Name).To(Equal("MatMul"))
	Expect(l.Add != nil).To(Equal(strings.Contains(body, "%w") && strings.Contains(body, "%b")))
	Expect(l.Silu()).To(Equal(strings.Contains(ops, "Sigmoid")))
	if residual != "" {
		Expect(fuse.Outer(n, l.Residual).Name).To(Equal(residual))
	} else {
		Expect(l.Residual).To(BeNil())
	}
	sigs, why := product.Signatures(n, func(head *graph.Node) ([]graph.Signature, *property.Reason) {
		s := graph.UniformSignature("odd", head, graph.HostFormat)
		s.Inputs[0] = graph.Fixed(graph.On(graph.NCHW16c))
		return []graph.Signature{s}, nil
	})
	Expect(why).NotTo(HaveOccurred())
	Expect(sigs).To(HaveLen(1))
	Expect(sigs[0].Inputs).To(HaveLen(len(n.Inputs)))
	for i, v := range n.Inputs {
		blocked := sigs[0].Inputs[i] == graph.Fixed(graph.On(graph.NCHW16c))
		Expect(blocked).To(Equal(v == fuse.Outer(n, l.Head.Inputs[0])), "%v", v)
	}
},
	Entry("bias, residual and activation", `
  %m = MatMul(%x, %w)
  %a = Add(%m, %b)
  %s = Add(%z, %a)
  %y = Relu(%s)
  output %y`, "MatMul Add Add Relu", "z"),
	Entry("activation alone", `
  %m = MatMul(%x, %w)
  %y = Relu(%m)
  output %y`, "MatMul Relu", ""),
	Entry("x·sigmoid(x)", `
  %m = MatMul(%x, %w)
  %g = Sigmoid(%m)
  %y = Mul(%g, %m)
  output %y`, "MatMul Sigmoid Mul", ""),
	Entry("not x·sigmoid(x) with a third reader", `
  %m = MatMul(%x, %w)
  %g = Sigmoid(%m)
  %y = Mul(%g, %m)
  %o = Relu(%m)
  output %y
  output %o`, "", ""),
	Entry("not behind an output", `
  %m = MatMul(%x, %w)
  %y = Relu(%m)
  output %y
  output %m`, "", ""),
	Entry("not what the kernel does not know", `
  %m = MatMul(%x, %w)
  %y = Tanh(%m)
  output %y`, "", ""),
	Entry("no bias of a product of two activations", `
  %m = MatMul(%x, %z)
  %y = Add(%m, %b)
  output %y`, "", ""),
	Entry("no residual that the kernel turns down", `
  %m = MatMul(%x, %w)
  %y = Add(%m, %x)
  output %y`, "", ""),
	Entry("no residual that broadcasts the result", `
  input %l: f32[2,4,4]
  %m = MatMul(%x, %w)
  %y = Add(%m, %l)
  output %y`, "", ""),
)

var _ = Describe("a body that is no chain", func() {
	It("is an error", func(ctx SpecContext) {
		n, _ := fused(ctx, parse(operands+"  %m = MatMul(%x, %w)\n  %y = Relu(%m)\n  output %y"), product.Property())
		other := *product
		other.Head = func(n *graph.Node) bool { return n.Is("Gemm") }
		_, err := other.Parse(n)
		Expect(err).To(HaveOccurred())
		other = *product
		other.Activation = func(*graph.Node) bool { return false }
		_, err = other.Parse(n)
		Expect(err).To(HaveOccurred())
		_, why := other.Signatures(n, nil)
		Expect(why.Code).To(Equal(property.Veto))
	})
})

var _ = DescribeTable("x·sigmoid(x) by itself", func(ctx SpecContext, body, ops string) {
	_, got := fused(ctx, parse("  input %x: f32[4]\n  input %z: f32[4]\n"+body), fuse.Silu())
	Expect(got).To(Equal(ops))
},
	Entry("where x has other readers", "  %g = Sigmoid(%x)\n  %y = Mul(%x, %g)\n  %o = Neg(%x)\n  output %y\n  output %o", "Sigmoid Mul"),
	Entry("not another factor", "  %g = Sigmoid(%x)\n  %y = Mul(%z, %g)\n  output %y", ""),
	Entry("not where the sigmoid is read too", "  %g = Sigmoid(%x)\n  %y = Mul(%x, %g)\n  output %y\n  output %g", ""),
)

var _ = DescribeTable("channel shuffles", func(ctx SpecContext, shape, perm string, groups int) {
	n, ops := fused(ctx, parse(`
  input %x: f32[1,6,2,2]
  const %s = i64[5]{`+shape+`}
  const %t = i64[4]{1,6,2,2}
  %a = Reshape(%x, %s)
  %b = Transpose(%a; perm=[`+perm+`])
  %y = Reshape(%b, %t)
  output %y`), fuse.Shuffle())
	if groups == 0 {
		Expect(n).To(BeNil())
		return
	}
	Expect(ops).To(Equal("Reshape Transpose Reshape"))
	x, got := fuse.ShuffleParts(n)
	Expect(x.Name).To(Equal("x"))
	Expect(got).To(Equal(groups))
	f := graph.On(graph.NCHW16c)
	sigs, why := fuse.ShuffleSignatures(n, "shuffle", f)
	Expect(why).NotTo(HaveOccurred())
	for i, v := range n.Inputs {
		blocked := sigs[0].Inputs[i] == graph.Fixed(f)
		Expect(blocked).To(Equal(v == x))
	}
},
	Entry("of two groups", "1,2,3,2,2", "0,2,1,3,4", 2),
	Entry("of three groups", "1,3,2,2,2", "0,2,1,3,4", 3),
	Entry("not of rows", "1,2,3,2,2", "0,1,3,2,4", 0),
	Entry("not of other dims", "1,6,1,1,4", "0,2,1,3,4", 0),
)

var _ = DescribeTable("permutations", func(attr string, rank int, want []int) {
	g := parse("  input %x: f32[2,3,4]\n  %y = Transpose(%x" + attr + ")\n  output %y")
	Expect(fuse.Perm(g.Outputs[0].Producer, rank)).To(Equal(want))
},
	Entry("given", "; perm=[2,0,1]", 3, []int{2, 0, 1}),
	Entry("reversed where there is none", "", 3, []int{2, 1, 0}),
	Entry("none of another rank", "; perm=[2,0,1]", 4, []int(nil)),
)
