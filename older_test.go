package carve_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// answer runs a graph of one operator set on inputs that are made of their types.
func answer(ctx SpecContext, opset int, body, name string) *tensor.Tensor {
	GinkgoHelper()
	g, err := graph.Parse(fmt.Sprintf("graph {\n  opset %d\n%s\n}", opset, body))
	Expect(err).NotTo(HaveOccurred())
	m := carve.FromGraph(g)
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: name}}, Verify: true})
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	feeds := map[string]tensor.Value{}
	for _, in := range p.Inputs() {
		shape, err := in.Type.Shape.Eval(graph.Bindings{}, nil)
		Expect(err).NotTo(HaveOccurred())
		v := make([]float64, 0, 64)
		n, err := tensor.NumElements(shape)
		Expect(err).NotTo(HaveOccurred())
		for i := range n {
			v = append(v, float64((i*7+len(in.Name)*3)%11)-5)
		}
		t, err := tensor.Convert(tensor.From(v, shape...), in.Type.DType, nil)
		Expect(err).NotTo(HaveOccurred())
		feeds[in.Name] = t
	}
	out, err := p.Run(ctx, feeds)
	Expect(err).NotTo(HaveOccurred())
	t, ok := out["y"].(*tensor.Tensor)
	Expect(ok).To(BeTrue())
	return t
}

var _ = DescribeTable("scales of a vector along an axis that it has not, the default, are those of its elements", func(ctx SpecContext, body string) {
	for _, name := range []string{"cpu", "reference"} {
		got := answer(ctx, 13, body, name)
		Expect(got.Shape).To(Equal([]int{3}))
		Expect(got.Float64At(0)).To(Equal(2.0), "on %s", name)
		Expect(got.Float64At(1)).To(Equal(-8.0), "on %s", name)
		Expect(got.Float64At(2)).To(Equal(18.0), "on %s", name)
	}
},
	Entry("named", "const %x = i32[3]{4, -8, 9}\nconst %s = f32[3]{0.5, 1, 2}\n%y = DequantizeLinear(%x, %s; axis=1)\noutput %y"),
	Entry("left out", "const %x = i32[3]{4, -8, 9}\nconst %s = f32[3]{0.5, 1, 2}\n%y = DequantizeLinear(%x, %s)\noutput %y"),
	Entry("of QuantizeLinear", "const %x = f32[3]{1, -8, 36}\nconst %s = f32[3]{0.5, 1, 2}\nconst %z = i8[3]{0, 0, 0}\n%y = QuantizeLinear(%x, %s, %z; axis=1)\noutput %y"),
)

var _ = Describe("models of operator sets 1 to 6", func() {
	// Each has the results of the same in words of operator set 13.
	DescribeTable("have the results of newer ones", func(ctx SpecContext, opset int, inputs, before, after string) {
		lines := func(s string) string {
			return strings.Join(append(strings.Split(inputs, " | "), append(strings.Split(s, " | "), "output %y")...), "\n")
		}
		for _, name := range []string{"cpu", "reference"} {
			got, want := answer(ctx, opset, lines(before), name), answer(ctx, 13, lines(after), name)
			Expect(got.DType).To(Equal(want.DType))
			Expect(got.Shape).To(Equal(want.Shape))
			Expect(got.Bytes()).To(Equal(want.Bytes()), "%v on %s", got, name)
		}
	},
		Entry("Add along an axis", 6, "input %x: f32[2,3,4] | input %b: f32[3]", `%y = Add(%x, %b; broadcast=1, axis=1)`, `const %s = i64[2]{3, 1} | %c = Reshape(%b, %s) | %y = Add(%x, %c)`),
		Entry("Mul along two axes", 1, "input %x: f32[2,3,4] | input %b: f32[2,3]", `%y = Mul(%x, %b; broadcast=1, axis=0, consumed_inputs=[0, 0])`, `const %s = i64[3]{2, 3, 1} | %c = Reshape(%b, %s) | %y = Mul(%x, %c)`),
		Entry("Sub along an axis from the end", 6, "input %x: f32[2,3,4] | input %b: f32[3]", `%y = Sub(%x, %b; broadcast=1, axis=-2)`, `const %s = i64[2]{3, 1} | %c = Reshape(%b, %s) | %y = Sub(%x, %c)`),
		Entry("Div by what is aligned with the last axes", 6, "input %x: f32[2,3,4] | const %b = f32[4]{1, 2, 4, 8}", `%y = Div(%x, %b; broadcast=1)`, `%y = Div(%x, %b)`),
		Entry("Pow of equal shapes", 1, "input %x: f32[2,3] | const %b = f32[2,3]{1, 2, 3, 1, 2, 3}", `%y = Pow(%x, %b)`, `%y = Pow(%x, %b)`),
		Entry("Greater along an axis", 1, "input %x: f32[2,3,4] | input %b: f32[3]", `%y = Greater(%x, %b; broadcast=1, axis=1)`, `const %s = i64[2]{3, 1} | %c = Reshape(%b, %s) | %y = Greater(%x, %c)`),
		Entry("Relu with a hint", 1, "input %x: f32[2,3]", `%y = Relu(%x; consumed_inputs=[0])`, `%y = Relu(%x)`),
		Entry("Selu, whose constants were rounded", 1, "input %x: f32[2,3]", `%y = Selu(%x)`, `%y = Selu(%x; alpha=1.6732, gamma=1.0507)`),
		Entry("Clip", 1, "input %x: f32[2,3]", `%y = Clip(%x; min=-1.0, max=2.0, consumed_inputs=[0])`, `const %a = f32[]{-1} | const %b = f32[]{2} | %y = Clip(%x, %a, %b)`),
		Entry("Cast to a name", 1, "input %x: f32[2,3]", `%y = Cast(%x; to="INT64")`, `%y = Cast(%x; to=7)`),
		Entry("Concat along axis 1 by default", 1, "input %x: f32[2,3] | input %b: f32[2,4]", `%y = Concat(%x, %b)`, `%y = Concat(%x, %b; axis=1)`),
		Entry("Reshape by an attribute", 1, "input %x: f32[2,3]", `%y = Reshape(%x; shape=[0, -1, 1])`, `const %s = i64[3]{0, -1, 1} | %y = Reshape(%x, %s)`),
		Entry("Split by an operand", 1, "input %x: f32[5,3] | const %s = f32[2]{2, 3}", `%a, %y = Split(%x, %s; axis=0)`, `const %t = i64[2]{2, 3} | %a, %y = Split(%x, %t; axis=0)`),
		Entry("Split by an attribute", 2, "input %x: f32[5,3]", `%a, %y = Split(%x; axis=0, split=[2, 3])`, `const %t = i64[2]{2, 3} | %a, %y = Split(%x, %t; axis=0)`),
		Entry("Tile along an axis", 1, "input %x: f32[2,3] | const %t = f32[1]{3} | const %a = f32[1]{1}", `%y = Tile(%x, %t, %a)`, `const %r = i64[2]{1, 3} | %y = Tile(%x, %r)`),
		Entry("Pad by paddings", 1, "input %x: f32[2,3]", `%y = Pad(%x; paddings=[0, 1, 2, 0], value=7.0)`, `const %p = i64[4]{0, 1, 2, 0} | const %v = f32[]{7} | %y = Pad(%x, %p, %v)`),
		Entry("Gemm with a bias for each column", 6, "input %x: f32[2,3] | input %b: f32[3,4] | input %c: f32[4]", `%y = Gemm(%x, %b, %c; broadcast=1)`, `%y = Gemm(%x, %b, %c)`),
		Entry("BatchNormalization that has learnt", 6, "input %x: f32[2,3,4] | const %s = f32[3]{1, 2, 3} | const %m = f32[3]{0, 1, 0} | const %v = f32[3]{1, 4, 9}",
			`%y = BatchNormalization(%x, %s, %m, %m, %v; is_test=1)`, `%y = BatchNormalization(%x, %s, %m, %m, %v)`),
		Entry("PRelu with a slope for each channel", 6, "input %x: f32[2,3,4] | input %b: f32[3]", `%y = PRelu(%x, %b)`, `const %s = i64[2]{3, 1} | %c = Reshape(%b, %s) | %y = PRelu(%x, %c)`),
		Entry("AveragePool", 1, "input %x: f32[1,2,4,4]", `%y = AveragePool(%x; kernel_shape=[3, 3], pads=[1, 1, 1, 1])`, `%y = AveragePool(%x; kernel_shape=[3, 3], pads=[1, 1, 1, 1])`),
		Entry("GlobalLpPool", 1, "input %x: f32[1,2,4,4]", `%y = GlobalLpPool(%x; p=2.0)`, `%y = GlobalLpPool(%x; p=2)`),
		Entry("LpPool", 1, "input %x: f32[1,2,4,4]", `%y = LpPool(%x; kernel_shape=[2, 2], p=1.0)`, `%y = LpPool(%x; kernel_shape=[2, 2], p=1)`),
		Entry("Upsample by factors of height and width", 1, "input %x: f32[1,2,3,4]", `%y = Upsample(%x; height_scale=2.0, width_scale=3.0)`,
			`const %r = f32[0]{} | const %s = f32[4]{1, 1, 2, 3} | %y = Resize(%x, %r, %s; mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")`),
		Entry("Max of several", 1, "input %x: f32[2,3] | input %bb: f32[2,3]", `%y = Max(%x, %bb; consumed_inputs=[0, 0])`, `%y = Max(%x, %bb)`),
		Entry("LSTM with its steps", 1, "input %x: f32[2,1,3] | input %w: f32[1,8,3] | input %rr: f32[1,8,2]", `%y = LSTM(%x, %w, %rr; hidden_size=2, output_sequence=1)`, `%y = LSTM(%x, %w, %rr; hidden_size=2)`),
		Entry("what reads what was aligned", 6, "input %x: f32[2,3,4] | input %b: f32[3] | const %yes = bool[]{true}", `%c = Add(%x, %b; broadcast=1, axis=1) | %y = Relu(%c)`, `const %s = i64[2]{3, 1} | %c = Reshape(%b, %s) | %d = Add(%x, %c) | %y = Relu(%d)`),
	)
})
