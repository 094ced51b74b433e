package carve_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("inputs without a rank", func() {
	const text = "graph {\n  opset 17\n  input %x: f32[*]\n  const %m = i64[1]{-1}\n  %r = Relu(%x) \"relu\"\n  %f = Reshape(%r, %m)\n  %s = Shape(%x)\n  %y = Add(%f, %f) \"add\"\n  output %r, %y, %s\n}"

	It("take tensors of every rank", func(ctx SpecContext) {
		for _, o := range []*carve.Options{nil, {Backends: onReference}, {Verify: true}} {
			p := compile(ctx, textModel(text), o)
			for _, shape := range [][]int{{3}, {2, 3}, {}, {1, 2, 3, 4}, {0, 2}, {2, 3}} {
				x := wave(shape...)
				out, err := p.Run(ctx, map[string]tensor.Value{"x": x})
				Expect(err).NotTo(HaveOccurred())
				Expect(out["r"].(*tensor.Tensor).Shape).To(Equal(shape))
				Expect(out["s"].(*tensor.Tensor).Shape).To(Equal([]int{len(shape)}))
				for i, v := range f32s(x) {
					Expect(f32s(out["y"])[i]).To(Equal(2 * max(v, 0)))
				}
				into(ctx, p, map[string]tensor.Value{"x": x}, out)
			}
			_, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			_, err = p.Report(ctx, map[string][]int{"x": {2, 2}})
			Expect(err).NotTo(HaveOccurred())
		}
	})

	It("are the compiler's where Options.Shapes names them", func(ctx SpecContext) {
		p := compile(ctx, textModel(text), &carve.Options{Shapes: map[string][]int{"x": {2, 3}}})
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		where, _, found := r.Why("relu")
		Expect(found).To(BeTrue())
		Expect(where).To(Equal("cpu"))
		_, err = p.Run(ctx, map[string]tensor.Value{"x": wave(3)})
		Expect(err).To(MatchError(carve.ErrInput))
	})
})

var _ = Describe("inputs that are no tensors", func() {
	sequence := func(ts ...*tensor.Tensor) *tensor.Sequence {
		s := &tensor.Sequence{DType: tensor.Float32}
		for _, t := range ts {
			s.Items = append(s.Items, t)
		}
		return s
	}
	run := func(ctx context.Context, text string, feeds map[string]tensor.Value) map[string]tensor.Value {
		GinkgoHelper()
		p := compile(ctx, textModel(text), &carve.Options{Verify: true})
		var out map[string]tensor.Value
		for range 2 {
			var err error
			out, err = p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		return out
	}

	It("may be sequences", func(ctx SpecContext) {
		text := "graph {\n  opset 17\n  input %s: seq(f32[*])\n  input %i: i64[]\n  %a = SequenceAt(%s, %i)\n  %y = Relu(%a)\n  %n = SequenceLength(%s)\n  %t = SequenceInsert(%s, %y)\n  output %y, %n, %t, %s\n}"
		s := sequence(wave(2), wave(2, 3))
		out := run(ctx, text, map[string]tensor.Value{"s": s, "i": tensor.Scalar[int64](1)})
		Expect(out["y"].(*tensor.Tensor).Shape).To(Equal([]int{2, 3}))
		Expect(tensor.Of[int64](out["n"].(*tensor.Tensor))).To(Equal([]int64{2}))
		Expect(out["t"].(*tensor.Sequence).Items).To(HaveLen(3))
		Expect(out["s"].(*tensor.Sequence).Items).To(HaveLen(2))
		p := compile(ctx, textModel(text), nil)
		_, err := p.Run(ctx, map[string]tensor.Value{"s": wave(2), "i": tensor.Scalar[int64](0)})
		Expect(err).To(MatchError(carve.ErrInput))
		_, err = p.Run(ctx, map[string]tensor.Value{"s": s, "i": tensor.Scalar[int64](7)})
		Expect(err).To(MatchError(carve.ErrRun))
		_, err = p.Run(ctx, map[string]tensor.Value{"s": &tensor.Sequence{DType: tensor.Int64, Items: []tensor.Value{tensor.From([]int64{1})}}, "i": tensor.Scalar[int64](0)})
		Expect(err).To(MatchError(carve.ErrInput))
		deep := tensor.Value(wave(1))
		for range 100 {
			deep = &tensor.Sequence{Items: []tensor.Value{deep}}
		}
		_, err = p.Run(ctx, map[string]tensor.Value{"s": deep, "i": tensor.Scalar[int64](0)})
		Expect(err).To(MatchError(carve.ErrInput))
		f32s(out["s"].(*tensor.Sequence).Items[0])[0] = 77
		Expect(f32s(s.Items[0])[0]).NotTo(BeEquivalentTo(77))
		Expect(p.RunInto(ctx, nil, nil)).To(MatchError(carve.ErrInput))
	})

	It("may be optional", func(ctx SpecContext) {
		text := "graph {\n  opset 18\n  input %o: opt(f32[*])\n  %h = OptionalHasElement(%o)\n  %y = If(%h | %o) {\n    then_branch: graph {\n      capture %o: opt(f32[*])\n      %v = OptionalGetElement(%o)\n      output %v\n    }\n    else_branch: graph {\n      capture %o: opt(f32[*])\n      const %z = f32[1]{7}\n      output %z\n    }\n  }\n  output %h, %y\n}"
		out := run(ctx, text, map[string]tensor.Value{"o": &tensor.Optional{Item: tensor.From([]float32{1, 2})}})
		Expect(f32s(out["y"])).To(Equal([]float32{1, 2}))
		out = run(ctx, text, map[string]tensor.Value{"o": &tensor.Optional{}})
		Expect(f32s(out["y"])).To(Equal([]float32{7}))
	})

	It("may be strings", func(ctx SpecContext) {
		words, err := tensor.New(tensor.String, 2)
		Expect(err).NotTo(HaveOccurred())
		copy(words.Strings, []string{"ab", "c"})
		out := run(ctx, "graph {\n  opset 20\n  input %a: str[N]\n  %y = StringConcat(%a, %a)\n  output %y, %a\n}", map[string]tensor.Value{"a": words})
		Expect(out["y"].(*tensor.Tensor).Strings).To(Equal([]string{"abab", "cc"}))
		Expect(out["a"].(*tensor.Tensor).Strings).To(Equal([]string{"ab", "c"}))
	})
})
