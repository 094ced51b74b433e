package cuda_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = DescribeTable("Check names the node of a group whose kernel is wrong", func(ctx SpecContext, text string) {
	fake := driver()
	fake.SetCompiler("wrong_tanh", 1)
	g, err := graph.Parse("graph {\n  opset 24\n  input %x: f32[4,4]\n" + text + "\n  output %y\n}")
	Expect(err).NotTo(HaveOccurred())
	p := program(ctx, fake, g, carve.Options{})
	d, err := p.Check(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, -1, 2, .5, 3, 1, 1, -2, .25, 1, 2, 1, 1, 1, -1, 1}, 4, 4)})
	Expect(err).NotTo(HaveOccurred())
	Expect(d).NotTo(BeNil())
	Expect(d.Backend).To(Equal("cuda"))
	Expect(d.Op).To(Equal("Tanh"), "%v", d)
	Expect(d.Nodes).To(Equal([]string{"tanh"}), "%v", d)
},
	Entry("between products", `  %m = MatMul(%x, %x) "first"
  %s = Softmax(%m) "softmax"
  %t = Tanh(%s) "tanh"
  %u = MatMul(%t, %x) "second"
  %y = Softmax(%u) "last"`),
	Entry("in a kernel with others", `  %a = Neg(%x) "neg"
  %t = Tanh(%a) "tanh"
  %b = Exp(%t) "exp"
  %y = Softmax(%b) "softmax"`),
	Entry("in the end of a product's", `  %m = MatMul(%x, %x) "product"
  %t = Tanh(%m) "tanh"
  %y = Softmax(%t) "softmax"`),
)
