package carve_test

import (
	"bytes"
	"errors"
	"log/slog"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("a value that is too large", func() {
	It("is blamed on a node of the model where the compiler added the node that makes it", func(ctx SpecContext) {
		text := "graph {\n  opset 17\n  input %x: f16[N]\n  %e = Exp(%x) \"exp\"\n  %y = Sin(%e) \"sin\"\n  output %y\n}"
		_, err := carve.Compile(ctx, textModel(text), &carve.Options{Dims: map[string]int{"N": 1 << 42}}) // a cast makes y
		var e *carve.StepError
		Expect(errors.As(err, &e)).To(BeTrue(), "%v", err)
		Expect(e.Nodes).To(Equal([]string{"sin"}))
	})
})

var _ = Describe("data that counts or indexes beyond what is there", func() {
	// Each body reads %x, and the number that is wrong from the data of %i.
	DescribeTable("is a typed error that names the node, the operand, the number and what is admitted, and is not run again",
		func(ctx SpecContext, opset, inputs, body string, x, i *tensor.Tensor, want backend.RangeError) {
			text := "graph {\n  opset " + opset + "\n  input %x: " + inputs + "\n  " + body + "\n  output %y\n}"
			for _, name := range []string{"cpu", "reference"} {
				var log bytes.Buffer
				p := compile(ctx, textModel(text), &carve.Options{Backends: []backend.Config{{Name: name}}, Threads: 2,
					Logger: slog.New(slog.NewTextHandler(&log, nil))})
				_, err := p.Run(ctx, map[string]tensor.Value{"x": x, "i": i})
				Expect(err).To(MatchError(backend.ErrRange), name)
				Expect(err).To(MatchError(carve.ErrRun))
				var e *backend.RangeError
				Expect(errors.As(err, &e)).To(BeTrue())
				Expect(e.Node).To(Equal("pick"))
				Expect([]any{e.Port, e.Value, e.Min, e.Max}).To(Equal([]any{want.Port, want.Value, want.Min, want.Max}), name)
				Expect(err.Error()).NotTo(Or(ContainSubstring("panic"), ContainSubstring("fallback")))
				Expect(log.String()).NotTo(ContainSubstring("run again"))
			}
		},
		Entry("Gather", "17", "f32[5,3]\n  input %i: i64[K]", `%y = Gather(%x, %i) "pick"`,
			wave(5, 3), tensor.From([]int64{0, 5}), backend.RangeError{Port: "input indices", Value: 5, Min: -5, Max: 4}),
		Entry("Gather, counted from the end, int32", "17", "f32[5,3]\n  input %i: i32[K]", `%y = Gather(%x, %i; axis=1) "pick"`,
			wave(5, 3), tensor.From([]int32{-4}), backend.RangeError{Port: "input indices", Value: -4, Min: -3, Max: 2}),
		Entry("Gather, of 64 bits", "17", "f32[5,3]\n  input %i: i64[K]", `%y = Gather(%x, %i) "pick"`,
			wave(5, 3), tensor.From([]int64{1 << 62}), backend.RangeError{Port: "input indices", Value: 1 << 62, Min: -5, Max: 4}),
		Entry("Gather between others", "17", "f32[5,3]\n  input %i: i64[K]", "%n = Neg(%x) \"neg\"\n  %g = Gather(%n, %i) \"pick\"\n  %y = Relu(%g) \"relu\"",
			wave(5, 3), tensor.From([]int64{9}), backend.RangeError{Port: "input indices", Value: 9, Min: -5, Max: 4}),
		Entry("GatherElements", "17", "f32[5,3]\n  input %i: i64[1,3]", `%y = GatherElements(%x, %i) "pick"`,
			wave(5, 3), tensor.From([]int64{0, 5, 0}, 1, 3), backend.RangeError{Port: "input indices", Value: 5, Min: -5, Max: 4}),
		Entry("GatherND", "17", "f32[5,3]\n  input %i: i64[2,2]", `%y = GatherND(%x, %i) "pick"`,
			wave(5, 3), tensor.From([]int64{0, 1, 4, 3}, 2, 2), backend.RangeError{Port: "input indices", Value: 3, Min: -3, Max: 2}),
		Entry("ScatterElements", "17", "f32[5,3]\n  input %i: i64[5,3]", `%y = ScatterElements(%x, %i, %x; axis=1) "pick"`,
			wave(5, 3), tensor.From([]int64{0, 1, 2, 0, 1, 2, 0, 1, -9, 0, 1, 2, 0, 1, 2}, 5, 3), backend.RangeError{Port: "input indices", Value: -9, Min: -3, Max: 2}),
		Entry("Scatter", "9", "f32[5,3]\n  input %i: i64[5,3]", `%y = Scatter(%x, %i, %x; axis=1) "pick"`,
			wave(5, 3), tensor.From([]int64{0, 1, 2, 0, 1, 2, 0, 1, 7, 0, 1, 2, 0, 1, 2}, 5, 3), backend.RangeError{Port: "input indices", Value: 7, Min: -3, Max: 2}),
		Entry("ScatterND", "17", "f32[5,3]\n  input %i: i64[5,1]", `%y = ScatterND(%x, %i, %x) "pick"`,
			wave(5, 3), tensor.From([]int64{0, 1, 2, 3, 5}, 5, 1), backend.RangeError{Port: "input indices", Value: 5, Min: -5, Max: 4}),
		Entry("RoiAlign", "16", "f32[2,3,8,8]\n  input %i: i64[1]\n  const %r = f32[1,4]{0, 0, 4, 4}", `%y = RoiAlign(%x, %r, %i; sampling_ratio=2) "pick"`,
			wave(2, 3, 8, 8), tensor.From([]int64{2}), backend.RangeError{Port: "input batch_indices", Value: 2, Min: 0, Max: 1}),
		Entry("TopK", "17", "f32[5,3]\n  input %i: i64[1]", `%y, %at = TopK(%x, %i) "pick"`,
			wave(5, 3), tensor.From([]int64{4}), backend.RangeError{Port: "input K", Value: 4, Min: 0, Max: 3}),
		Entry("ReverseSequence", "17", "f32[5,3]\n  input %i: i64[3]", `%y = ReverseSequence(%x, %i) "pick"`,
			wave(5, 3), tensor.From([]int64{5, 6, 1}), backend.RangeError{Port: "input sequence_lens", Value: 6, Min: 0, Max: 5}),
		Entry("LSTM", "17", "f32[5,1,3]\n  input %i: i32[1]\n  const %w = f32[1,4,3]{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}\n  const %r = f32[1,4,1]{0, 0, 0, 0}",
			`%y = LSTM(%x, %w, %r, _, %i; hidden_size=1) "pick"`,
			wave(5, 1, 3), tensor.From([]int32{6}), backend.RangeError{Port: "input sequence_lens", Value: 6, Min: 0, Max: 5}),
		Entry("NegativeLogLikelihoodLoss", "17", "f32[5,3]\n  input %i: i64[5]", `%y = NegativeLogLikelihoodLoss(%x, %i) "pick"`,
			wave(5, 3), tensor.From([]int64{0, 1, 2, 3, 0}), backend.RangeError{Port: "input target", Value: 3, Min: 0, Max: 2}),
		Entry("MaxUnpool", "17", "f32[1,1,2,2]\n  input %i: i64[1,1,2,2]", `%y = MaxUnpool(%x, %i; kernel_shape=[2, 2], strides=[2, 2]) "pick"`,
			wave(1, 1, 2, 2), tensor.From([]int64{0, 1, 16, 3}, 1, 1, 2, 2), backend.RangeError{Port: "input I", Value: 16, Min: 0, Max: 15}),
		Entry("ArrayFeatureExtractor", "17\n  opset \"ai.onnx.ml\" 3", "f32[5,3]\n  input %i: i64[1]", `%y = ai.onnx.ml::ArrayFeatureExtractor(%x, %i) "pick"`,
			wave(5, 3), tensor.From([]int64{3}), backend.RangeError{Port: "input Y", Value: 3, Min: 0, Max: 2}),
		Entry("SequenceAt", "17", "f32[5,3]\n  input %i: i64[]", "%s = SequenceConstruct(%x, %x) \"make\"\n  %y = SequenceAt(%s, %i) \"pick\"",
			wave(5, 3), tensor.Scalar[int64](2), backend.RangeError{Port: "input position", Value: 2, Min: -2, Max: 1}),
		Entry("Gather of nothing", "17", "f32[5,0]\n  input %i: i64[K]", `%y = Gather(%x, %i) "pick"`,
			wave(5, 0), tensor.From([]int64{0, 5}), backend.RangeError{Port: "input indices", Value: 5, Min: -5, Max: 4}),
		Entry("Gather of nothing, int32", "17", "f32[2,5,0]\n  input %i: i32[1]", "%n = Neg(%x) \"neg\"\n  %y = Gather(%n, %i; axis=-2) \"pick\"",
			wave(2, 5, 0), tensor.From([]int32{-6}), backend.RangeError{Port: "input indices", Value: -6, Min: -5, Max: 4}),
		Entry("GatherND of nothing", "17", "f32[2,5,3,0]\n  input %i: i64[2,1,2]", `%y = GatherND(%x, %i; batch_dims=1) "pick"`,
			wave(2, 5, 3, 0), tensor.From([]int64{0, 1, 4, 3}, 2, 1, 2), backend.RangeError{Port: "input indices", Value: 3, Min: -3, Max: 2}),
		Entry("ScatterElements to nothing", "17", "f32[5,0]\n  input %i: i64[2,1]\n  const %u = f32[2,1]{1, 2}", `%y = ScatterElements(%x, %i, %u; axis=1) "pick"`,
			wave(5, 0), tensor.From([]int64{0, 1}, 2, 1), backend.RangeError{Port: "input indices", Value: 0, Min: 0, Max: -1}),
		Entry("ScatterND to nothing", "17", "f32[5,0]\n  input %i: i64[5,1]", `%y = ScatterND(%x, %i, %x) "pick"`,
			wave(5, 0), tensor.From([]int64{0, 1, 2, 3, 5}, 5, 1), backend.RangeError{Port: "input indices", Value: 5, Min: -5, Max: 4}),
		Entry("RoiAlign of no channels", "16", "f32[2,0,8,8]\n  input %i: i64[1]\n  const %r = f32[1,4]{0, 0, 4, 4}", `%y = RoiAlign(%x, %r, %i; sampling_ratio=2) "pick"`,
			wave(2, 0, 8, 8), tensor.From([]int64{2}), backend.RangeError{Port: "input batch_indices", Value: 2, Min: 0, Max: 1}),
		Entry("ReverseSequence of nothing", "17", "f32[5,3,0]\n  input %i: i64[3]", `%y = ReverseSequence(%x, %i) "pick"`,
			wave(5, 3, 0), tensor.From([]int64{5, 6, 1}), backend.RangeError{Port: "input sequence_lens", Value: 6, Min: 0, Max: 5}),
		Entry("an axis without elements", "17", "f32[0,3]\n  input %i: i64[1]", `%y = Gather(%x, %i) "pick"`,
			wave(0, 3), tensor.From([]int64{0}), backend.RangeError{Port: "input indices", Value: 0, Min: 0, Max: -1}),
	)
})
