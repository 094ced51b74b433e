package graph_test

import . "github.com/onsi/ginkgo/v2"

var _ = Describe("Simplify, of a FeatureVectorizer,", func() {
	DescribeTable("joins what it joins", simplifiesTo,
		Entry("as float32", 17, `
  opset "ai.onnx.ml" 3
  input %x: i64[N,2]
  input %y: i64[N,3]
  %z = ai.onnx.ml::FeatureVectorizer(%x, %y; inputdimensions=[2, 3]) "v"
  output %z
`, `
  opset "ai.onnx.ml" 3
  input %x: i64[N,2]
  input %y: i64[N,3]
  %z: f32[N,5] = Concat($0, $1; axis=1) "v"
  $0: f32[N,2] = Cast(%x; to=1) from()
  $1: f32[N,3] = Cast(%y; to=1) from()
  output %z
`, ""),
		Entry("as it is", 17, `
  opset "ai.onnx.ml" 3
  input %x: f32[N,2]
  input %y: f32[N,C]
  %z = ai.onnx.ml::FeatureVectorizer(%x, %y) "v"
  output %z
`, `
  opset "ai.onnx.ml" 3
  input %x: f32[N,2]
  input %y: f32[N,C]
  %z: f32[N,?1] = Concat(%x, %y; axis=1) "v"
  output %z
`, ""),
		Entry("but not parts of rows", 17, `
  opset "ai.onnx.ml" 3
  input %x: f32[N,2]
  input %y: f32[N,C]
  %z = ai.onnx.ml::FeatureVectorizer(%x, %y; inputdimensions=[2, 3]) "v"
  output %z
`, `
  opset "ai.onnx.ml" 3
  input %x: f32[N,2]
  input %y: f32[N,C]
  %z: f32[N,5] = ai.onnx.ml::FeatureVectorizer(%x, %y; inputdimensions=[2, 3]) "v"
  output %z
`, ""),
	)
})
