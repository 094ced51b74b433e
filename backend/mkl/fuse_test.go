package mkl_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
)

const (
	convTail    = "conv-sum-activation"
	productTail = "inner-product-sum-activation"
	scaled      = "matmul-transposes-scale"
)

var _ = DescribeTable("fusion", func(ctx SpecContext, text string, ops ...string) {
	open("")
	g := parse(text)
	p := program(ctx, g, carve.Options{Verify: true})
	Expect(opsOf(ctx, p)).To(Equal(ops))
	expectAgreement(ctx, p, g)
},
	Entry("convolution and activation", `
  input %x: f32[1,16,6,6]
  const %w = f32[16,16,1,1]{~}
  %c = Conv(%x, %w)
  %y = Relu(%c)
  output %y`, convTail),
	Entry("not where the convolution's result is an output", `
  input %x: f32[1,16,6,6]
  const %w = f32[16,16,1,1]{~}
  %c = Conv(%x, %w)
  %y = Relu(%c)
  output %c
  output %y`, "Conv", "Relu"),
	Entry("not where another reads the convolution's result", `
  input %x: f32[1,16,6,6]
  const %w = f32[16,16,1,1]{~}
  %c = Conv(%x, %w)
  %r = Relu(%c)
  %y = Mul(%r, %c)
  output %y`, "Conv", "Relu", "Mul"),
	Entry("convolution, sum and activation", `
  input %x: f32[1,16,6,6]
  const %w = f32[16,16,1,1]{~}
  %r = Relu(%x)
  %c = Conv(%r, %w)
  %s = Add(%r, %c)
  %y = Relu(%s)
  output %y`, "Relu", convTail),
	Entry("x + conv(x), which reads around what it writes", `
  input %x: f32[1,16,9,9]
  const %w = f32[16,16,3,3]{~}
  %z = Sigmoid(%x)
  %c = Conv(%z, %w; pads=[1,1,1,1])
  %s = Add(%c, %z)
  %t = Sigmoid(%s)
  %y = MaxPool(%t; kernel_shape=[2,2])
  output %y`, "Sigmoid", convTail, "MaxPool"),
	Entry("x + product(x)", `
  input %x: f32[5,16]
  const %w = f32[16,16]{~}
  %z = Sigmoid(%x)
  %m = MatMul(%z, %w)
  %s = Add(%m, %z)
  %t = Sigmoid(%s)
  %y = Softmax(%t)
  output %y`, "Sigmoid", productTail, "Softmax"),
	Entry("not a sum that broadcasts", `
  input %x: f32[1,16,6,6]
  input %z: f32[1,16,1,1]
  const %w = f32[16,16,1,1]{~}
  %c = Conv(%x, %w)
  %s = Add(%c, %z)
  output %s`, "Conv", "Add"),
	Entry("convolution and x·sigmoid(x)", `
  input %x: f32[1,16,6,6]
  const %w = f32[16,16,1,1]{~}
  %c = Conv(%x, %w)
  %g = Sigmoid(%c)
  %y = Mul(%c, %g)
  output %y`, convTail),
	Entry("not limits that are not constant", `
  input %x: f32[1,16,6,6]
  input %lo: f32[]
  const %w = f32[16,16,1,1]{~}
  %c = Conv(%x, %w)
  %y = Clip(%c, %lo)
  output %y`, "Conv"),
	Entry("product, bias, sum and activation", `
  input %x: f32[3,5]
  input %r: f32[3,7]
  const %w = f32[5,7]{~}
  const %b = f32[7]{~}
  %m = MatMul(%x, %w)
  %a = Add(%m, %b)
  %s = Add(%a, %r)
  %y = Tanh(%s)
  output %y`, productTail),
	Entry("product and a bias by rows: a sum of its own", `
  input %x: f32[3,5]
  const %w = f32[5,7]{~}
  const %b = f32[3,1]{~}
  %m = MatMul(%x, %w)
  %y = Add(%m, %b)
  output %y`, "MatMul", "Add"),
	Entry("transposes and scale, as in attention", `
  input %q: f32[2,5,3,8]
  input %k: f32[2,5,3,8]
  const %scale = f32[]{2.5}
  %a = Transpose(%q; perm=[0,2,1,3])
  %b = Transpose(%k; perm=[0,2,3,1])
  %m = MatMul(%a, %b)
  %y = Div(%m, %scale)
  output %y`, scaled),
	Entry("not a transpose that others read", `
  input %q: f32[3,8]
  input %k: f32[3,8]
  %b = Transpose(%k)
  %m = MatMul(%q, %b)
  output %m
  output %b`, "Transpose", "MatMul"),
	Entry("not a scale of several values", `
  input %q: f32[3,8]
  input %k: f32[8,3]
  const %scale = f32[3]{1, 2, 3}
  %m = MatMul(%q, %k)
  %y = Mul(%m, %scale)
  output %y`, "MatMul", "Mul"),
	Entry("batch normalisation and relu", `
  input %x: f32[1,16,6,6]
  const %v = f32[16]{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
  const %b = f32[16]{~}
  %z = Sigmoid(%x)
  %n = BatchNormalization(%z, %v, %b, %b, %v)
  %y = Relu(%n)
  output %y`, "Sigmoid", "norm-activation"),
	Entry("zeros around an average", `
  input %x: f32[1,16,6,6]
  const %p = i64[8]{0, 0, 1, 1, 0, 0, 1, 1}
  const %w = f32[16,16,1,1]{~}
  %c = Conv(%x, %w)
  %a = Pad(%c, %p)
  %y = AveragePool(%a; kernel_shape=[3,3])
  output %y`, "Conv", "pad-average"),
	Entry("not ones around an average", `
  input %x: f32[1,16,6,6]
  const %p = i64[8]{0, 0, 1, 1, 0, 0, 1, 1}
  const %v = f32[]{1}
  %a = Pad(%x, %p, %v)
  %y = AveragePool(%a; kernel_shape=[3,3])
  output %y`, "AveragePool"),
	Entry("channel shuffle", `
  input %x: f32[1,32,4,4]
  const %w = f32[32,32,1,1]{~}
  const %s = i64[5]{1, 2, 16, 4, 4}
  const %u = i64[4]{1, 32, 4, 4}
  %c = Conv(%x, %w)
  %a = Reshape(%c, %s)
  %b = Transpose(%a; perm=[0,2,1,3,4])
  %y = Reshape(%b, %u)
  output %y`, "Conv", "channel-shuffle"),
	Entry("not another permutation", `
  input %x: f32[1,32,4,4]
  const %s = i64[5]{1, 2, 16, 4, 4}
  const %u = i64[4]{1, 32, 4, 4}
  %a = Reshape(%x, %s)
  %b = Transpose(%a; perm=[0,2,1,4,3])
  %y = Reshape(%b, %u)
  output %y`, "Reshape", "Transpose", "Reshape"),
)
