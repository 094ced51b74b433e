package fuse_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
)

var _ = Describe("integers behind weights", func() {
	text := `
  input %x: f32[2,3]
  const %w = i8[3,2]{1,-2,3,-128,5,127}
  const %u = u8[3,2]{129,126,131,0,133,255}
  const %s = f32[2]{0.5,0.25}
  const %z = u8[2]{128,128}
  const %f = f32[3,2]{0.5,-0.5,1.5,-32,2.5,31.75}
`
	weights := func(call string, axis int) *fuse.Integers {
		GinkgoHelper()
		g := parse(text + call)
		return (&fuse.Quants{Counts: true}).Weights(g.Outputs[0].Producer.Inputs[1], axis)
	}
	want := []int8{1, -2, 3, -128, 5, 127}

	It("are the constant's own where they are signed, about zero", func() {
		w := weights("  %d = DequantizeLinear(%w, %s; axis=1)\n  %y = MatMul(%x, %d)\n  output %y", 1)
		Expect(w.Q).To(BeNil())
		Expect(w.Scales).To(Equal([]float32{0.5, 0.25}))
		Expect(w.Sums).To(Equal([]int64{9, -3}))
		Expect(w.Most).To(Equal(128))
	})

	It("are shifted to zero", func() {
		w := weights("  %d = DequantizeLinear(%u, %s, %z; axis=1)\n  %y = MatMul(%x, %d)\n  output %y", 1)
		Expect(tensor.Of[int8](w.Q)).To(Equal(want))
		Expect(w.Scales).To(Equal([]float32{0.5, 0.25}))
		Expect(w.Sums).To(Equal([]int64{9, -3}))
	})

	It("are shifted by one zero point for each row, and none where they leave eight bits", func() {
		rows := func(zeros string) *fuse.Integers {
			return weights("  const %p = f32[3]{1,2,3}\n  const %q = u8[3]"+zeros+"\n  %d = DequantizeLinear(%u, %p, %q; axis=0)\n  %y = MatMul(%x, %d)\n  output %y", 0)
		}
		w := rows("{128,10,200}")
		Expect(tensor.Of[int8](w.Q)).To(Equal([]int8{1, -2, 121, -10, -67, 55}))
		Expect(w.Sums).To(Equal([]int64{-1, 111, -12}))
		Expect(w.Most).To(Equal(121))
		Expect(rows("{128,0,200}")).To(BeNil())
	})

	It("are not counted unless somebody asks", func() {
		g := parse(text + "  %d = DequantizeLinear(%w, %s; axis=1)\n  %y = MatMul(%x, %d)\n  output %y")
		w := new(fuse.Quants).Weights(g.Outputs[0].Producer.Inputs[1], 1)
		Expect(w.Scales).To(HaveLen(2))
		Expect(w.Sums).To(BeNil())
	})

	It("are found again in floats", func() {
		w := weights("  %y = MatMul(%x, %f)\n  output %y", 1)
		Expect(tensor.Of[int8](w.Q)).To(Equal(want))
		Expect(w.Scales).To(Equal([]float32{0.5, 0.25}))
	})

	It("are none along another axis than the scales', or of a run", func() {
		Expect(weights("  %d = DequantizeLinear(%w, %s; axis=1)\n  %y = MatMul(%x, %d)\n  output %y", 0)).To(BeNil())
		Expect(weights("  input %v: f32[3,2]\n  %y = MatMul(%x, %v)\n  output %y", 1)).To(BeNil())
	})

	It("become a head's own", func() {
		g := parse(text + "  %d = DequantizeLinear(%u, %s, %z; axis=1)\n  %y = MatMul(%x, %d)\n  %e = Neg(%d)\n  output %y\n  output %e")
		head, quants := g.Outputs[0].Producer, new(fuse.Quants)
		fuse.OwnWeights(head, quants.Weights(head.Inputs[1], 1), 1)
		v := head.Inputs[1]
		Expect(v.HasOneUse()).To(BeTrue())
		Expect(v.Producer.Op.Name).To(Equal("DequantizeLinear"))
		Expect(quants.Weights(v, 1).Q).To(BeNil())
		fuse.OwnWeights(head, quants.Weights(v, 1), 1)
		Expect(head.Inputs[1]).To(BeIdenticalTo(v))
	})
})
