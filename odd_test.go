package carve_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// f32s returns the elements of a result.
func f32s(v tensor.Value) []float32 { return tensor.Of[float32](v.(*tensor.Tensor)) }

var _ = Describe("inputs and outputs", func() {
	vector := func(v ...float32) *tensor.Tensor { return tensor.From(v) }
	add := "graph {\n  opset 17\n  input %a: f32[N]\n  input %b: f32[N]\n  %y = Add(%a, %b) \"add\"\n  output %y\n}"

	DescribeTable("of Run that do not fit are errors that name them",
		func(ctx SpecContext, feeds map[string]tensor.Value, name, problem string) {
			p := compile(ctx, textModel(add), nil)
			_, err := p.Run(ctx, feeds)
			Expect(err).To(MatchError(carve.ErrInput))
			var e *carve.InputError
			Expect(errors.As(err, &e)).To(BeTrue())
			Expect(e.Name).To(Equal(name))
			Expect(e.Error()).To(ContainSubstring(problem))
			out, err := p.Run(ctx, map[string]tensor.Value{"a": vector(1, 2), "b": vector(3, 4)})
			Expect(err).NotTo(HaveOccurred())
			Expect(f32s(out["y"])).To(Equal([]float32{4, 6}))
		},
		Entry("missing", map[string]tensor.Value{"a": vector(1)}, "b", "missing"),
		Entry("nil", map[string]tensor.Value{"a": vector(1), "b": nil}, "b", "missing"),
		Entry("a nil tensor", map[string]tensor.Value{"a": vector(1), "b": (*tensor.Tensor)(nil)}, "b", "missing"),
		Entry("extra", map[string]tensor.Value{"a": vector(1), "b": vector(1), "c": vector(1)}, "c", "no such input"),
		Entry("of another dtype", map[string]tensor.Value{"a": vector(1), "b": tensor.From([]int64{1})}, "b", "dtype"),
		Entry("of another rank", map[string]tensor.Value{"a": vector(1), "b": wave(1, 1)}, "b", "shape"),
		Entry("with dims that disagree", map[string]tensor.Value{"a": vector(1), "b": vector(1, 2)}, "b", "N"),
		Entry("with less storage than its shape says", map[string]tensor.Value{"a": vector(1), "b": &tensor.Tensor{DType: tensor.Float32, Shape: []int{9}, Data: make([]byte, 4)}}, "b", "storage"),
		Entry("of a huge shape without storage", map[string]tensor.Value{"a": vector(1), "b": &tensor.Tensor{DType: tensor.Float32, Shape: []int{1 << 60}, Data: make([]byte, 4)}}, "b", ""),
		Entry("with a negative dim", map[string]tensor.Value{"a": vector(1), "b": &tensor.Tensor{DType: tensor.Float32, Shape: []int{-1}}}, "b", ""),
		Entry("on a device", map[string]tensor.Value{"a": vector(1), "b": &tensor.Tensor{DType: tensor.Float32, Shape: []int{1}, Handle: 7, Device: tensor.DeviceID{Type: tensor.CUDA}}}, "b", "no backend"),
		Entry("no tensor", map[string]tensor.Value{"a": vector(1), "b": &tensor.Sequence{}}, "b", "type"),
	)

	It("may be views, and lie at any address", func(ctx SpecContext) {
		p := compile(ctx, textModel(add), nil)
		big := wave(3, 4)
		col := &tensor.Tensor{DType: tensor.Float32, Shape: []int{3}, Strides: []int{4}, Data: big.Data, Offset: 4}
		odd := &tensor.Tensor{DType: tensor.Float32, Shape: []int{3}, Data: make([]byte, 13), Offset: 1}
		copy(odd.Data[1:], vector(1, 2, 3).Bytes())
		out, err := p.Run(ctx, map[string]tensor.Value{"a": col, "b": odd})
		Expect(err).NotTo(HaveOccurred())
		x := f32s(big)
		Expect(f32s(out["y"])).To(Equal([]float32{x[1] + 1, x[5] + 2, x[9] + 3}))
		res := vector(0, 0, 0)
		Expect(p.RunInto(ctx, []*tensor.Tensor{col, odd}, []*tensor.Tensor{res})).To(Succeed())
		Expect(f32s(res)).To(Equal(f32s(out["y"])))
	})

	DescribeTable("of RunInto that do not fit are errors that name them",
		func(ctx SpecContext, in, out []*tensor.Tensor, cause error, name, sizes string) {
			p := compile(ctx, textModel(add), nil)
			err := p.RunInto(ctx, in, out)
			Expect(err).To(MatchError(cause))
			var e *carve.InputError
			Expect(errors.As(err, &e)).To(BeTrue())
			Expect(e.Name).To(Equal(name))
			Expect(e.Error()).To(ContainSubstring(sizes))
		},
		Entry("too few inputs", []*tensor.Tensor{vector(1)}, []*tensor.Tensor{vector(0)}, carve.ErrInput, "inputs", "(expected 2, found 1)"),
		Entry("too many outputs", []*tensor.Tensor{vector(1), vector(1)}, []*tensor.Tensor{vector(0), vector(0)}, carve.ErrOutput, "outputs", "(expected 1, found 2)"),
		Entry("nil input", []*tensor.Tensor{vector(1), nil}, []*tensor.Tensor{vector(0)}, carve.ErrInput, "b", "missing (expected f32[N], found nothing)"),
		Entry("output of another shape", []*tensor.Tensor{vector(1), vector(1)}, []*tensor.Tensor{vector(0, 0)}, carve.ErrOutput, "y", "wrong shape (expected [1], found [2])"),
		Entry("output of another dtype", []*tensor.Tensor{vector(1), vector(1)}, []*tensor.Tensor{tensor.From([]int32{0})}, carve.ErrOutput, "y", "wrong dtype (expected float32, found int32)"),
		Entry("output whose elements are one", []*tensor.Tensor{vector(1, 1), vector(1, 1)}, []*tensor.Tensor{{DType: tensor.Float32, Shape: []int{2}, Strides: []int{0}, Data: make([]byte, 16)}}, carve.ErrOutput, "y", "(expected a place for each, found strides [0] of [2])"),
		Entry("output without storage", []*tensor.Tensor{vector(1), vector(1)}, []*tensor.Tensor{{DType: tensor.Float32, Shape: []int{1}}}, carve.ErrOutput, "y", "needs 4 bytes, storage has 0"),
		Entry("output of too few bytes", []*tensor.Tensor{vector(1, 1), vector(1, 1)}, []*tensor.Tensor{{DType: tensor.Float32, Shape: []int{2}, Data: make([]byte, 4)}}, carve.ErrOutput, "y",
			"f32 [2] needs 8 bytes, storage has 4 from offset 0 (expected f32[N], found f32[2])"),
		Entry("output at an odd address", []*tensor.Tensor{vector(1), vector(1)}, []*tensor.Tensor{{DType: tensor.Float32, Shape: []int{1}, Data: make([]byte, 8), Offset: 1}}, carve.ErrOutput, "y", "(expected a multiple of 4 bytes, found 1 beyond one)"),
	)

	It("of RunInto must not overlap", func(ctx SpecContext) {
		p := compile(ctx, textModel(add), nil)
		x, y := vector(1, 2), vector(3, 4)
		Expect(p.RunInto(ctx, []*tensor.Tensor{x, y}, []*tensor.Tensor{y})).To(MatchError(carve.ErrOutput))
		Expect(f32s(y)).To(Equal([]float32{3, 4}))
		Expect(p.RunInto(ctx, []*tensor.Tensor{x, x}, []*tensor.Tensor{y})).To(Succeed(), "inputs may be the same")
		Expect(f32s(y)).To(Equal([]float32{2, 4}))
		Expect(p.RunInto(ctx, []*tensor.Tensor{x, x}, []*tensor.Tensor{nil})).To(Succeed(), "nobody wants the output")
	})
})

var _ = Describe("odd models", func() {
	run := func(ctx context.Context, text string, feeds map[string]tensor.Value) map[string]tensor.Value {
		GinkgoHelper()
		var all []map[string]tensor.Value
		for _, list := range [][]backend.Config{nil, onReference} {
			p := compile(ctx, textModel("graph {\n  opset 17\n"+text+"\n}"), &carve.Options{Backends: list, Verify: true})
			out, err := p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			_, err = p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			all = append(all, out)
			again, err := p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			expectSame(again, out)
			into(ctx, p, feeds, out)
		}
		for name := range all[0] {
			if t, ok := all[0][name].(*tensor.Tensor); ok && t.DType == tensor.Float32 && t.Len() > 0 {
				near(all[0][name], all[1][name])
			}
		}
		return all[0]
	}

	It("may be empty", func(ctx SpecContext) {
		Expect(run(ctx, "", map[string]tensor.Value{})).To(BeEmpty())
		Expect(run(ctx, "  input %x: f32[N]", map[string]tensor.Value{"x": wave(3)})).To(BeEmpty())
	})

	It("may pass inputs and constants on, and results twice", func(ctx SpecContext) {
		g := "  input %x: f32[2]\n  const %w = f32[2]{5, 6}\n  %y = Relu(%x)\n  output %x, %w, %y, %y, %x"
		x := wave(2)
		out := run(ctx, g, map[string]tensor.Value{"x": x})
		Expect(f32s(out["x"])).To(Equal(f32s(x)))
		Expect(f32s(out["w"])).To(Equal([]float32{5, 6}))
		Expect(f32s(out["y"])).To(Equal([]float32{f32s(x)[0], max(f32s(x)[1], 0)}))
		f32s(out["x"])[0] = 77
		f32s(out["w"])[0] = 77
		Expect(f32s(x)[0]).NotTo(BeEquivalentTo(77))
		Expect(f32s(run(ctx, g, map[string]tensor.Value{"x": x})["w"])).To(Equal([]float32{5, 6}))
	})

	It("may have an output that is a view of an input, of a constant, or of another output", func(ctx SpecContext) {
		x := wave(2, 3)
		out := run(ctx, "  input %x: f32[2,3]\n  const %s = i64[1]{6}\n  const %c = f32[1,6]{1,2,3,4,5,6}\n"+
			"  %a = Reshape(%x, %s)\n  %b = Reshape(%c, %s)\n  %r = Relu(%x)\n  %d = Reshape(%r, %s)\n  %e = Identity(%a)\n  output %a, %b, %r, %d, %e",
			map[string]tensor.Value{"x": x})
		Expect(f32s(out["a"])).To(Equal(f32s(x)))
		Expect(f32s(out["b"])).To(Equal([]float32{1, 2, 3, 4, 5, 6}))
		Expect(f32s(out["d"])).To(Equal(f32s(out["r"])))
	})

	It("may work on scalars", func(ctx SpecContext) {
		out := run(ctx, "  input %x: f32[]\n  const %two = f32[]{2}\n  %y = Mul(%x, %two)\n  %z = Sqrt(%y)\n  %s = Shape(%z)\n  output %y, %z, %s",
			map[string]tensor.Value{"x": tensor.Scalar[float32](8)})
		Expect(f32s(out["z"])).To(Equal([]float32{4}))
		Expect(out["z"].(*tensor.Tensor).Shape).To(BeEmpty())
		Expect(out["s"].(*tensor.Tensor).Shape).To(Equal([]int{0}))
	})

	DescribeTable("may work on tensors without elements",
		func(ctx SpecContext, text string, in *tensor.Tensor, shape []int) {
			out := run(ctx, text, map[string]tensor.Value{"x": in})
			Expect(out["y"].(*tensor.Tensor).Shape).To(Equal(shape))
		},
		Entry("Relu", "  input %x: f32[N,3]\n  %y = Relu(%x)\n  output %y", wave(0, 3), []int{0, 3}),
		Entry("MatMul, no rows", "  input %x: f32[N,3]\n"+constant("w", 3, 5)+"\n  %y = MatMul(%x, %w)\n  output %y", wave(0, 3), []int{0, 5}),
		Entry("MatMul, nothing to sum", "  input %x: f32[3,K]\n  %t = Transpose(%x)\n  %y = MatMul(%x, %t)\n  output %y", wave(3, 0), []int{3, 3}),
		Entry("Gemm, no rows", "  input %x: f32[N,3]\n"+constant("w", 5, 3)+"\n"+constant("b", 5)+"\n  %y = Gemm(%x, %w, %b; transB=1)\n  output %y", wave(0, 3), []int{0, 5}),
		Entry("Conv, no images", "  input %x: f32[N,3,H,W]\n"+constant("w", 4, 3, 3, 3)+"\n  %c = Conv(%x, %w; pads=[1,1,1,1])\n  %y = Relu(%c)\n  output %y", wave(0, 3, 5, 5), []int{0, 4, 5, 5}),
		Entry("pooling, no images", "  input %x: f32[N,3,H,W]\n  %y = MaxPool(%x; kernel_shape=[2,2])\n  output %y", wave(0, 3, 5, 5), []int{0, 3, 4, 4}),
		Entry("GlobalAveragePool, no images", "  input %x: f32[N,3,H,W]\n  %y = GlobalAveragePool(%x)\n  output %y", wave(0, 3, 5, 5), []int{0, 3, 1, 1}),
		Entry("Concat", "  input %x: f32[N,3]\n"+constant("c", 2, 3)+"\n  %y = Concat(%x, %c, %x; axis=0)\n  output %y", wave(0, 3), []int{2, 3}),
		Entry("Softmax", "  input %x: f32[N,3]\n  %y = Softmax(%x; axis=1)\n  output %y", wave(0, 3), []int{0, 3}),
		Entry("ReduceSum", "  input %x: f32[N,3]\n  const %a = i64[1]{0}\n  %y = ReduceSum(%x, %a; keepdims=0)\n  output %y", wave(0, 3), []int{3}),
		Entry("Gather", "  input %x: f32[4,3]\n  const %i = i64[0]{}\n  %y = Gather(%x, %i)\n  output %y", wave(4, 3), []int{0, 3}),
		Entry("Slice", "  input %x: f32[4,3]\n  const %s = i64[1]{2}\n  %y = Slice(%x, %s, %s)\n  output %y", wave(4, 3), []int{0, 3}),
		Entry("LayerNormalization", "  input %x: f32[N,4]\n"+constant("s", 4)+"\n  %y = LayerNormalization(%x, %s)\n  output %y", wave(0, 4), []int{0, 4}),
		Entry("LSTM, no steps", "  input %x: f32[S,1,3]\n"+constant("w", 1, 8, 3)+"\n"+constant("r", 1, 8, 2)+"\n  %y = LSTM(%x, %w, %r; hidden_size=2)\n  output %y", wave(0, 1, 3), []int{0, 1, 1, 2}),
		Entry("Transpose", "  input %x: f32[A,B,C]\n  %y = Transpose(%x; perm=[2,0,1])\n  output %y", wave(2, 0, 3), []int{3, 2, 0}),
		Entry("Where and broadcasting", "  input %x: f32[N,1]\n"+constant("c", 1, 3)+"\n  %g = Greater(%x, %c)\n  %y = Where(%g, %x, %c)\n  output %y", wave(0, 1), []int{0, 3}),
		Entry("Cast and Equal", "  input %x: f32[N]\n  %i = Cast(%x; to=7)\n  %e = Equal(%i, %i)\n  %y = Cast(%e; to=1)\n  output %y", wave(0), []int{0}),
		Entry("Split", "  input %x: f32[N,4]\n  const %s = i64[2]{0, 4}\n  %y, %z = Split(%x, %s; axis=1)\n  output %y, %z", wave(2, 4), []int{2, 0}),
		Entry("Pad", "  input %x: f32[N,2]\n  const %p = i64[4]{1, 0, 1, 0}\n  %y = Pad(%x, %p)\n  output %y", wave(0, 2), []int{2, 2}),
		Entry("Expand", "  input %x: f32[1,2]\n  const %s = i64[2]{0, 2}\n  %y = Expand(%x, %s)\n  output %y", wave(1, 2), []int{0, 2}),
		Entry("NonZero", "  input %x: f32[N]\n  %z = NonZero(%x)\n  %y = Cast(%z; to=1)\n  output %y", wave(0), []int{1, 0}),
	)

	It("may have initializers that are inputs as well: they are constants", func(ctx SpecContext) {
		g := wire{}.sub(1, wireNode("Add", "add", []string{"x", "w"}, []string{"y"})).
			sub(5, wire{}.num(1, 2).num(2, 1).str(8, "w").str(9, "\x00\x00\x80\x3f\x00\x00\x00\x40")).
			sub(11, wirePort("x", 2), wirePort("w", 2)).sub(12, wirePort("y", 2))
		m, err := carve.Parse(ctx, wireModel(g))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(m.Close)
		p := compile(ctx, m, nil)
		out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{10, 20})})
		Expect(err).NotTo(HaveOccurred())
		Expect(f32s(out["y"])).To(Equal([]float32{11, 22}))
		_, err = p.Run(ctx, map[string]tensor.Value{"x": wave(2), "w": wave(2)})
		Expect(err).To(MatchError(carve.ErrInput))
	})

	It("may have names of any kind", func(ctx SpecContext) {
		name := "../../etc/\x00\n\"π\""
		g := wire{}.sub(1, wireNode("Relu", name, []string{"x"}, []string{name})).sub(11, wirePort("x", 2)).sub(12, wirePort(name, 2))
		m, err := carve.Parse(ctx, wireModel(g))
		if err != nil {
			Expect(typed(err)).To(BeTrue())
			return
		}
		DeferCleanup(m.Close)
		out, err := compile(ctx, m, nil).Run(ctx, map[string]tensor.Value{"x": wave(2)})
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(HaveKey(name))
	})
})

// into repeats a run with RunInto and compares.
func into(ctx context.Context, p *carve.Program, feeds, want map[string]tensor.Value) {
	GinkgoHelper()
	in, out := []*tensor.Tensor{}, []*tensor.Tensor{}
	for _, port := range p.Inputs() {
		in = append(in, feeds[port.Name].(*tensor.Tensor))
	}
	for _, port := range p.Outputs() {
		w := want[port.Name].(*tensor.Tensor)
		t, err := tensor.New(w.DType, w.Shape...)
		Expect(err).NotTo(HaveOccurred())
		out = append(out, t)
	}
	Expect(p.RunInto(ctx, in, out)).To(Succeed())
	for i, port := range p.Outputs() {
		Expect(bits(out[i])).To(Equal(bits(want[port.Name])), port.Name)
	}
}
