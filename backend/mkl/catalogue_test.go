package mkl_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
)

// The test catalogue of MXNet's oneDNN backend, as far as fuse_test.go does not have it: what is fused, and what is not
// where the chain has a branch.

// image begins models on an image; %w, %v and %u are weights of 1 by 1, %n a normalisation's.
const image = `
  input %x: f32[1,16,8,8]
  const %w = f32[16,16,1,1]{~}
  const %v = f32[16,16,3,3]{~}
  const %u = f32[16,16,1,1]{~}
  const %s = f32[16]{1.5, 0.5, 1, 2, 1.5, 0.5, 1, 2, 1.5, 0.5, 1, 2, 1.5, 0.5, 1, 2}
  const %m = f32[16]{~}`

// row begins models on rows.
const row = `
  input %x: f32[3,16]
  const %w = f32[16,8]{~}
  const %b = f32[8]{~}`

var _ = DescribeTable("the catalogue of fusions", func(ctx SpecContext, text string, ops ...string) {
	open("")
	g := parse(text)
	p := program(ctx, g, carve.Options{Verify: true, Poison: true, KeepOrder: true}) // the model's order tells what became of what
	expectAgreement(ctx, p, g)
	Expect(append([]string{}, opsOf(ctx, p)...)).To(Equal(append([]string{}, ops...)))
},
	Entry("convolution and normalisation", image+`
  %c = Conv(%x, %v; pads=[1,1,1,1])
  %y = BatchNormalization(%c, %s, %m, %m, %s)
  output %y`, "Conv"),
	Entry("convolution, normalisation and activation", image+`
  %c = Conv(%x, %v; pads=[1,1,1,1])
  %n = BatchNormalization(%c, %s, %m, %m, %s)
  %y = Relu(%n)
  output %y`, convTail),
	Entry("convolution, normalisation, sum, the other operand first", image+`
  %c = Conv(%x, %v; pads=[1,1,1,1])
  %n = BatchNormalization(%c, %s, %m, %m, %s)
  %y = Add(%x, %n)
  output %y`, convTail),
	Entry("convolution, normalisation, sum, activation", image+`
  %c = Conv(%x, %v; pads=[1,1,1,1])
  %n = BatchNormalization(%c, %s, %m, %m, %s)
  %a = Add(%n, %x)
  %y = Relu(%a)
  output %y`, convTail),
	Entry("two normalised convolutions that are added", image+`
  %h = Sigmoid(%x)
  %c = Conv(%x, %v; pads=[1,1,1,1])
  %n = BatchNormalization(%c, %s, %m, %m, %s)
  %d = Conv(%h, %w)
  %a = Add(%n, %d)
  %y = Relu(%a)
  output %y`, "Sigmoid", "Conv", convTail),
	Entry("two normalised convolutions of one operand that are added", image+`
  %c = Conv(%x, %v; pads=[1,1,1,1])
  %n = BatchNormalization(%c, %s, %m, %m, %s)
  %d = Conv(%x, %w)
  %a = Add(%n, %d)
  %y = Relu(%a)
  output %y`, convTail),
	Entry("the activation of one convolution, added to another", image+`
  %c = Conv(%x, %w)
  %r = Relu(%c)
  %d = Conv(%x, %u)
  %y = Add(%r, %d)
  output %y`, convTail, convTail),
	Entry("a convolution of a sum with a convolution", image+`
  %c = Conv(%x, %v; pads=[1,1,1,1])
  %a = Add(%x, %c)
  %y = Conv(%a, %u)
  output %y`, convTail, "Conv"),
	Entry("a convolution and a pool of the image", image+`
  %c = Conv(%x, %v; pads=[1,1,1,1])
  %p = MaxPool(%x; kernel_shape=[3,3], pads=[1,1,1,1])
  %y = Add(%p, %c)
  output %y`, "MaxPool", convTail),
	Entry("a residual of a bottleneck", image+`
  const %e = f32[48,16,1,1]{~}
  const %d = f32[48,1,3,3]{~}
  const %f = f32[16,48,1,1]{~}
  const %lo = f32[]{0}
  const %hi = f32[]{6}
  %a = Conv(%x, %e)
  %b = Clip(%a, %lo, %hi)
  %c = Conv(%b, %d; group=48, pads=[1,1,1,1])
  %g = Clip(%c, %lo, %hi)
  %h = Conv(%g, %f)
  %y = Add(%x, %h)
  output %y`, convTail, convTail, convTail),
	Entry("convolution, transposition, convolution", image+`
  %c = Conv(%x, %w)
  %t = Transpose(%c; perm=[0,1,3,2])
  %y = Conv(%t, %u)
  output %y`, "Conv", "Transpose", "Conv"),
	Entry("convolution, another shape, convolution", image+`
  const %d = i64[4]{1, 16, 4, 16}
  %c = Conv(%x, %w)
  %t = Reshape(%c, %d)
  %y = Conv(%t, %v; pads=[1,1,1,1])
  output %y`, "Conv", "Reshape", "Conv"),
	Entry("a concatenation of the image with a convolution's activation", image+`
  %c = Conv(%x, %w)
  %r = Relu(%c)
  %y = Concat(%x, %r; axis=1)
  output %y`, convTail, "Concat"),
	Entry("convolutions by the same weights, concatenated", image+`
  const %two = f32[]{2}
  %x2 = Mul(%x, %two)
  %x3 = Mul(%x2, %two)
  %a = Conv(%x, %w)
  %b = Conv(%x2, %w)
  %c = Conv(%x3, %w)
  %y = Concat(%a, %b, %c; axis=1)
  output %y`, "Mul", "Mul", "Conv", "Conv", "Conv", "Concat"),

	Entry("not a normalisation where a pool reads the convolution", image+`
  %c = Conv(%x, %w)
  %y = BatchNormalization(%c, %s, %m, %m, %s)
  %p = MaxPool(%c; kernel_shape=[2,2])
  output %y
  output %p`, "Conv", "BatchNormalization", "MaxPool"),
	Entry("not an activation where a pool reads the convolution", image+`
  %c = Conv(%x, %w)
  %y = Relu(%c)
  %p = MaxPool(%c; kernel_shape=[2,2])
  output %y
  output %p`, "Conv", "Relu", "MaxPool"),
	Entry("not a sum where a pool reads the convolution", image+`
  %c = Conv(%x, %w)
  %y = Add(%c, %x)
  %p = MaxPool(%c; kernel_shape=[2,2])
  output %y
  output %p`, "Conv", "Add", "MaxPool"),
	Entry("not a sum and an activation where a pool reads the normalisation", image+`
  %c = Conv(%x, %w)
  %n = BatchNormalization(%c, %s, %m, %m, %s)
  %a = Add(%n, %x)
  %y = Relu(%a)
  %p = MaxPool(%n; kernel_shape=[2,2])
  output %y
  output %p`, "Conv", "Add", "Relu", "MaxPool"),
	Entry("not an activation where a pool reads the sum", image+`
  %c = Conv(%x, %w)
  %n = BatchNormalization(%c, %s, %m, %m, %s)
  %a = Add(%n, %x)
  %y = Relu(%a)
  %p = MaxPool(%a; kernel_shape=[2,2])
  output %y
  output %p`, convTail, "Relu", "MaxPool"),
	Entry("not a sum with itself", image+`
  %c = Conv(%x, %w)
  %y = Add(%c, %c)
  output %y`, "Conv", "Add"),
	Entry("not two activations", image+`
  %c = Conv(%x, %w)
  %r = Relu(%c)
  %y = Sigmoid(%r)
  output %y`, convTail, "Sigmoid"),
	Entry("not a normalisation's activation where a pool reads it", image+`
  %z = Sigmoid(%x)
  %n = BatchNormalization(%z, %s, %m, %m, %s)
  %y = Relu(%n)
  %p = MaxPool(%n; kernel_shape=[2,2])
  output %y
  output %p`, "Sigmoid", "BatchNormalization", "Relu", "MaxPool"),
	Entry("not a normalisation of training", image+`
  %z = Sigmoid(%x)
  %n = BatchNormalization/15(%z, %s, %m, %m, %s; training_mode=1)
  %y = Relu(%n)
  output %y`, "Sigmoid", "Relu"),

	Entry("product with its other operand first in the sum", row+`
  input %r: f32[3,8]
  %c = MatMul(%x, %w)
  %y = Add(%r, %c)
  output %y`, productTail),
	Entry("general product, sum and activation", row+`
  input %r: f32[3,8]
  %c = Gemm(%x, %w, %b)
  %a = Add(%c, %r)
  %y = LeakyRelu(%a; alpha=0.2)
  output %y`, productTail),
	Entry("not a product that two activations read", row+`
  %c = Gemm(%x, %w, %b)
  %y = Relu(%c)
  %z = Sigmoid(%c)
  output %y
  output %z`, "Gemm", "Relu", "Sigmoid"),
	Entry("not a product that a softmax reads beside the sum", row+`
  input %r: f32[3,8]
  %c = Gemm(%x, %w, %b)
  %z = Softmax(%c)
  %y = Add(%c, %r)
  output %y
  output %z`, "Gemm", "Softmax", "Add"),
	Entry("not a product that is scaled beside the sum", row+`
  const %k = f32[]{200}
  %c = Gemm(%x, %w, %b)
  %a = Add(%c, %c)
  %d = Mul(%c, %k)
  %y = Add(%a, %d)
  output %y`, "Gemm", "Add", "Mul", "Add"),
	Entry("an activation behind what changes nothing", row+`
  %c = Gemm(%x, %w, %b)
  %i = Identity(%c)
  %d = Dropout(%i)
  %y = Relu(%d)
  output %y`, productTail),

	Entry("the block of attention", `
  input %x: f32[2,5,24]
  const %w = f32[24,72]{~}
  const %shape = i64[4]{2, 5, 3, 8}
  const %flat = i64[3]{2, 5, 24}
  const %scale = f32[]{0.35}
  %p = MatMul(%x, %w)
  %q, %k, %v = Split/11(%p; axis=2)
  %qr = Reshape(%q, %shape)
  %kr = Reshape(%k, %shape)
  %vr = Reshape(%v, %shape)
  %qt = Transpose(%qr; perm=[0,2,1,3])
  %kt = Transpose(%kr; perm=[0,2,3,1])
  %vt = Transpose(%vr; perm=[0,2,1,3])
  %m = MatMul(%qt, %kt)
  %a = Mul(%m, %scale)
  %s = Softmax(%a; axis=-1)
  %o = MatMul(%s, %vt)
  %t = Transpose(%o; perm=[0,2,1,3])
  %y = Reshape(%t, %flat)
  output %y`, "MatMul", "Split", "Reshape", "Reshape", "Reshape", scaled, "Softmax", scaled, "Transpose", "Reshape"),
	Entry("attention whose queries are scaled: the scale stays, the transposes go", `
  input %q: f32[2,5,3,8]
  input %k: f32[2,5,3,8]
  const %two = f32[]{2}
  %a = Transpose(%q; perm=[0,2,1,3])
  %s = Mul(%a, %two)
  %b = Transpose(%k; perm=[0,2,3,1])
  %y = MatMul(%s, %b)
  output %y`, "Transpose", "Mul", scaled),
	Entry("not a quotient of the scale", `
  input %q: f32[3,8]
  input %k: f32[8,3]
  const %scale = f32[]{2}
  %m = MatMul(%q, %k)
  %y = Div(%scale, %m)
  output %y`, "MatMul"),
	Entry("a product with itself, transposed", `
  input %q: f32[3,8]
  %t = Transpose(%q)
  %y = MatMul(%q, %t)
  output %y`, scaled),

	Entry("a cast there and back, and one to what is there", image+`
  %c = Conv(%x, %w)
  %d = Cast(%c; to=11)
  %f = Cast(%d; to=1)
  %g = Cast(%f; to=1)
  %y = Relu(%g)
  output %y`, convTail),
	Entry("not a cast that rounds", image+`
  %c = Conv(%x, %w)
  %d = Cast(%c; to=16)
  %f = Cast(%d; to=1)
  %y = Relu(%f)
  output %y`, "Conv", "Relu"),
	Entry("not a convolution of other floats", `
  input %x: f32[1,16,6,6]
  const %w = f32[16,16,1,1]{~}
  %a = Cast(%x; to=11)
  %b = Cast(%w; to=11)
  %c = Conv(%a, %b)
  %d = Relu(%c)
  %y = Cast(%d; to=1)
  output %y`),
)

var _ = It("the order of a group lets a sum overwrite what a pool has read", func(ctx SpecContext) {
	open("")
	g := parse(image + `
  %c = Conv(%x, %w)
  %n = BatchNormalization(%c, %s, %m, %m, %s)
  %a = Add(%n, %x)
  %y = Relu(%a)
  %p = MaxPool(%n; kernel_shape=[2,2])
  output %y
  output %p`)
	var arenas []int64
	for _, keep := range []bool{true, false} {
		p := program(ctx, g, carve.Options{Verify: true, Poison: true, KeepOrder: keep})
		expectAgreement(ctx, p, g)
		arenas = append(arenas, p.Memory().Arenas)
		if !keep {
			Expect(opsOf(ctx, p)).To(Equal([]string{"Conv", "MaxPool", "Add", "Relu"}))
		}
	}
	Expect(arenas[1]).To(BeNumerically("<", arenas[0]))
})

var _ = DescribeTable("activations behind a convolution and a product", func(ctx SpecContext, call string, fused bool) {
	open("")
	for head, name := range map[string]string{
		"\n  input %x: f32[1,16,6,6]\n  const %w = f32[17,16,1,1]{~}\n  %c = Conv(%x, %w)":                      convTail,
		"\n  input %x: f32[5,16]\n  const %w = f32[16,33]{~}\n  const %b = f32[33]{~}\n  %c = Gemm(%x, %w, %b)": productTail,
	} {
		g := parse(head + "\n  %y = " + call + "\n  output %y")
		p := program(ctx, g, carve.Options{Verify: true, Poison: true})
		expectAgreement(ctx, p, g)
		if fused {
			Expect(opsOf(ctx, p)).To(Equal([]string{name}))
		} else {
			Expect(opsOf(ctx, p)).NotTo(ContainElement(name))
		}
	}
},
	Entry(nil, "Relu(%c)", true), Entry(nil, "LeakyRelu(%c; alpha=0.3)", true), Entry(nil, "Elu(%c; alpha=0.5)", true), Entry(nil, "Selu(%c)", true),
	Entry(nil, "Sigmoid(%c)", true), Entry(nil, "Tanh(%c)", true), Entry(nil, "Exp(%c)", true), Entry(nil, "Abs(%c)", true),
	Entry(nil, "Softplus(%c)", true), Entry(nil, "HardSwish(%c)", true), Entry(nil, "HardSigmoid(%c)", true), Entry(nil, "Gelu/20(%c)", true),
	Entry(nil, `Gelu/20(%c; approximate="tanh")`, true), Entry(nil, "Mish/18(%c)", true), Entry(nil, "Neg(%c)", true), Entry(nil, "Round(%c)", true),
	Entry(nil, "Sin(%c)", false), Entry(nil, "Softsign(%c)", false), Entry(nil, "Softmax(%c)", false), Entry(nil, "PRelu(%c, %c)", false),
)
