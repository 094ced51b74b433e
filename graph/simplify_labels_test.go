package graph_test

import . "github.com/onsi/ginkgo/v2"

var _ = Describe("Simplify, of classifiers,", func() {
	DescribeTable("looks labels that are strings up behind them", simplifiesTo,
		Entry("whose name an output keeps", 17, `
  opset "ai.onnx.ml" 3
  input %x: f32[N,2]
  %label, %scores = ai.onnx.ml::LinearClassifier(%x; classlabels_strings=["no", "yes"], coefficients=[1.0, 2.0, 3.0, 4.0], intercepts=[0.5, 0.25]) "c"
  output %label
  output %scores
`, `
  opset "ai.onnx.ml" 3
  input %x: f32[N,2]
  $0: i64[N], %scores: f32[N,2] = ai.onnx.ml::LinearClassifier(%x; classlabels_ints=[0, 1], coefficients=[1.0, 2.0, 3.0, 4.0], intercepts=[0.5, 0.25]) "c"
  %label: str[N] = ai.onnx.ml::LabelEncoder($0; keys_int64s=[0, 1], values_strings=["no", "yes"]) from()
  output %label, %scores
`, ""),
		Entry("in version 1, which counts them", 17, `
  opset "ai.onnx.ml" 1
  input %x: f32[N,2]
  %label, %scores = ai.onnx.ml::LinearClassifier(%x; classlabels_strings=["no", "yes"], coefficients=[1.0, 2.0, 3.0, 4.0], intercepts=[0.5, 0.25]) "c"
  output %label
`, `
  opset "ai.onnx.ml" 1
  input %x: f32[N,2]
  $0: i64[N], %scores: f32[N,2] = ai.onnx.ml::LinearClassifier(%x; classlabels_ints=[0, 1], coefficients=[1.0, 2.0, 3.0, 4.0], intercepts=[0.5, 0.25]) "c"
  %label: str[N] = ai.onnx.ml::LabelEncoder($0; classes_strings=["no", "yes"]) from()
  output %label
`, ""),
		Entry("but not numbers", 17, `
  opset "ai.onnx.ml" 3
  input %x: f32[N,2]
  %label, %scores = ai.onnx.ml::LinearClassifier(%x; classlabels_ints=[7, 8], coefficients=[1.0, 2.0, 3.0, 4.0], intercepts=[0.5, 0.25]) "c"
  output %label
  output %scores
`, `
  opset "ai.onnx.ml" 3
  input %x: f32[N,2]
  %label: i64[N], %scores: f32[N,2] = ai.onnx.ml::LinearClassifier(%x; classlabels_ints=[7, 8], coefficients=[1.0, 2.0, 3.0, 4.0], intercepts=[0.5, 0.25]) "c"
  output %label, %scores
`, ""),
	)
})
