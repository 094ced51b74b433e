package mkl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

const (
	quantizedProduct = "quantized-product"
	quantizedAdd     = "quantized-sum"
)

// integers is the text of a tensor of reproducible integers in [lo, hi].
func integers(dtype string, lo, hi int, dims ...int) string {
	n, shape := 1, make([]string, len(dims))
	rng := rand.New(rand.NewPCG(uint64(lo*1000+hi), uint64(len(dims))))
	for i, d := range dims {
		n *= d
		shape[i] = fmt.Sprint(d)
	}
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(lo + rng.IntN(hi-lo+1))
	}
	return fmt.Sprintf("%s[%s]{%s}", dtype, strings.Join(shape, ","), strings.Join(list, ", "))
}

// scales is the text of n reproducible scales around s.
func scales(n int, s float64) string {
	rng := rand.New(rand.NewPCG(uint64(n), 5))
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(float32(s * (0.5 + rng.Float64())))
	}
	return fmt.Sprintf("f32[%d]{%s}", n, strings.Join(list, ", "))
}

// quantizedFeeds are random operands over the whole range of integers, and floats of unit deviation.
func quantizedFeeds(g *graph.Graph, seed uint64) map[string]tensor.Value {
	GinkgoHelper()
	rng := rand.New(rand.NewPCG(seed, 1))
	out := map[string]tensor.Value{}
	for _, v := range g.Inputs {
		dims, err := v.Type.Shape.Eval(graph.Bindings{"N": 3}, nil)
		Expect(err).NotTo(HaveOccurred())
		t, err := tensor.New(v.Type.DType, dims...)
		Expect(err).NotTo(HaveOccurred())
		data := make([]float64, t.Len())
		for i := range data {
			switch v.Type.DType {
			case tensor.Uint8:
				data[i] = float64(rng.IntN(256))
			case tensor.Int8:
				data[i] = float64(rng.IntN(256) - 128)
			default:
				data[i] = rng.NormFloat64()
			}
		}
		Expect(tensor.Encode(t, data)).To(Succeed())
		out[v.Name] = t
	}
	return out
}

// steps compares results with the reference's: integers by quantisation steps, floats by a step of the result's size.
func steps(got, want map[string]tensor.Value, step float64) {
	GinkgoHelper()
	Expect(got).To(HaveLen(len(want)))
	for name, w := range want {
		a, b := got[name].(*tensor.Tensor), w.(*tensor.Tensor)
		Expect(a.DType).To(Equal(b.DType))
		Expect(a.Shape).To(Equal(b.Shape))
		unit := 1.0
		if b.DType.IsFloat() {
			unit = step
		}
		off := 0
		for i := range b.Len() {
			d := (a.Float64At(i) - b.Float64At(i)) / unit
			Expect(d).To(BeNumerically("~", 0, 2), "%s[%d]: %v, was %v", name, i, a.Float64At(i), b.Float64At(i))
			if d > 1 || d < -1 {
				off++
			}
		}
		Expect(off).To(BeNumerically("<=", b.Len()/1000), "%s: values more than a step off, of %d", name, b.Len())
	}
}

// agreesInSteps runs a graph with backends and with the reference alone, which keeps every node of the model.
func agreesInSteps(ctx context.Context, g *graph.Graph, step float64, backends ...backend.Config) *carve.Program {
	GinkgoHelper()
	p := program(ctx, g, carve.Options{Verify: true, Backends: backends})
	ref := program(ctx, g, carve.Options{Backends: []backend.Config{{Name: "reference"}}})
	for seed := range uint64(3) {
		in := quantizedFeeds(g, seed)
		want, err := ref.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		got, err := p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		steps(got, want, step)
	}
	return p
}

// mklWith is the configuration of mkl with a library.
func mklWith(library string) backend.Config {
	return backend.Config{Name: "mkl", Options: options(library)}
}

// quantizedConv is a graph of a convolution between quantisations. w and its scale replace those of the model where they
// are given.
func quantizedConv(x, xz, w, ws, conv, y, yz string) string {
	return `
  input %x: ` + x + `
  const %xs = f32[]{0.02}
  const %xz = ` + xz + `
  const %wq = ` + w + `
  const %ws = ` + ws + `
  const %ys = f32[]{0.5}
  const %yz = ` + yz + `
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws; axis=0)
  ` + conv + `
  %y = QuantizeLinear(` + y + `, %ys, %yz) "y"
  output %y`
}

var _ = Describe("operators on integers", func() {
	for _, lib := range libraries() {
		DescribeTable(strings.TrimSpace("agree with the reference "+lib), func(ctx SpecContext, text string, ops ...string) {
			b := open(lib)
			g := parse(text)
			p := agreesInSteps(ctx, g, 0.02, mklWith(lib))
			if mkl.ExactProducts(b) {
				Expect(opsOf(ctx, p)).To(ConsistOf(ops))
			}
		},
			Entry("a convolution, one scale", quantizedConv("u8[2,16,9,9]", "u8[]{0}", integers("i8", -127, 127, 24, 16, 3, 3), "f32[]{0.004}",
				"%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "u8[]{121}"), quantizedProduct),
			Entry("a scale per output", quantizedConv("u8[2,16,9,9]", "u8[]{0}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "u8[]{121}"), quantizedProduct),
			Entry("a zero point of the image, padded", quantizedConv("u8[2,16,9,9]", "u8[]{131}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "u8[]{121}"), quantizedProduct),
			Entry("a zero point of the image, not padded", quantizedConv("u8[2,16,9,9]", "u8[]{131}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w)", "%c", "u8[]{121}"), quantizedProduct),
			Entry("signed", quantizedConv("i8[2,16,9,9]", "i8[]{0}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "i8[]{0}"), quantizedProduct),
			Entry("signed, with zero points", quantizedConv("i8[2,16,9,9]", "i8[]{-7}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "i8[]{5}"), quantizedProduct),
			Entry("twins but for the zero point", `
  input %x: i8[2,16,9,9]
  input %z: i8[2,16,9,9]
  const %s = f32[]{0.02}
  const %xz = i8[]{-7}
  const %zz = i8[]{0}
  const %wq = `+integers("i8", -127, 127, 24, 16, 3, 3)+`
  const %ws = `+scales(24, 0.004)+`
  const %ys = f32[]{0.5}
  const %yz = i8[]{5}
  %w = DequantizeLinear(%wq, %ws; axis=0)
  %zd = DequantizeLinear(%z, %s, %zz)
  %b = Conv(%zd, %w; pads=[1,1,1,1])
  %v = QuantizeLinear(%b, %ys, %yz) "v"
  %xd = DequantizeLinear(%x, %s, %xz)
  %a = Conv(%xd, %w; pads=[1,1,1,1])
  %y = QuantizeLinear(%a, %ys, %yz) "y"
  output %y, %v`, quantizedProduct, quantizedProduct),
			Entry("unsigned to signed", quantizedConv("u8[2,16,9,9]", "u8[]{3}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "i8[]{5}"), quantizedProduct),
			Entry("an image of three channels, a large window", quantizedConv("u8[1,3,21,21]", "u8[]{114}", integers("i8", -127, 127, 24, 3, 7, 7), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[3,3,3,3], strides=[2,2])", "%c", "u8[]{121}"), quantizedProduct),
			Entry("odd channels", quantizedConv("u8[1,7,5,6]", "u8[]{114}", integers("i8", -127, 127, 13, 7, 1, 1), scales(13, 0.004),
				"%c = Conv(%xd, %w)", "%c", "u8[]{121}"), quantizedProduct),
			Entry("groups", quantizedConv("u8[1,32,9,9]", "u8[]{0}", integers("i8", -127, 127, 32, 16, 3, 3), scales(32, 0.004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1], group=2)", "%c", "u8[]{121}"), quantizedProduct),
			Entry("depthwise", quantizedConv("u8[1,32,9,9]", "u8[]{12}", integers("i8", -127, 127, 32, 1, 3, 3), scales(32, 0.04),
				"%c = Conv(%xd, %w; pads=[1,1,1,1], group=32)", "%c", "u8[]{121}"), quantizedProduct),
			Entry("one dim", quantizedConv("u8[2,16,30]", "u8[]{12}", integers("i8", -127, 127, 24, 16, 3), scales(24, 0.01),
				"%c = Conv(%xd, %w; pads=[1,1])", "%c", "u8[]{121}"), quantizedProduct),
			Entry("three dims", quantizedConv("u8[1,16,4,5,6]", "u8[]{12}", integers("i8", -127, 127, 24, 16, 2, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[0,1,1,0,1,1])", "%c", "u8[]{121}"), quantizedProduct),
			Entry("a symbolic batch", quantizedConv("u8[N,16,9,9]", "u8[]{12}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "u8[]{121}"), quantizedProduct),
			Entry("a float bias", quantizedConv("u8[2,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"const %b = "+scales(24, 20)+"\n  %c = Conv(%xd, %w, %b; pads=[1,1,1,1])", "%c", "u8[]{121}"), quantizedProduct),
			Entry("a bias in integers", quantizedConv("u8[2,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), "f32[]{0.004}",
				"const %bq = "+integers("i32", -100000, 100000, 24)+"\n  const %bs = f32[]{0.00008}\n  %b = DequantizeLinear(%bq, %bs)\n  %c = Conv(%xd, %w, %b; pads=[1,1,1,1])",
				"%c", "u8[]{121}"), quantizedProduct),
			Entry("relu, by saturation", quantizedConv("u8[2,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])\n  %r = Relu(%c)", "%r", "u8[]{0}"), quantizedProduct),
			Entry("relu above the least integer", quantizedConv("u8[2,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])\n  %r = Relu(%c)", "%r", "u8[]{9}"), quantizedProduct),
			Entry("limits", quantizedConv("u8[2,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"const %lo = f32[]{-3}\n  const %hi = f32[]{20}\n  %c = Conv(%xd, %w; pads=[1,1,1,1])\n  %r = Clip(%c, %lo, %hi)", "%r", "u8[]{9}"), quantizedProduct),
			Entry("an activation with a curve", quantizedConv("u8[2,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.0004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])\n  %r = HardSwish(%c)", "%r", "u8[]{9}"), quantizedProduct),
			Entry("x·sigmoid(x)", quantizedConv("u8[2,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.0004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])\n  %g = Sigmoid(%c)\n  %r = Mul(%c, %g)", "%r", "u8[]{9}"), quantizedProduct),
			Entry("a float result", `
  input %x: u8[2,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{100}
  const %wq = `+integers("i8", -127, 127, 24, 16, 3, 3)+`
  const %ws = `+scales(24, 0.004)+`
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws; axis=0)
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %y = Relu(%c) "y"
  output %y`, quantizedProduct),
			Entry("a residual in integers", quantizedConv("u8[2,24,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 24, 3, 3), scales(24, 0.004), `
  input %r: i8[2,24,9,9]
  const %rs = f32[]{0.3}
  const %rz = i8[]{-9}
  %rd = DequantizeLinear(%r, %rs, %rz)
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %s = Add(%rd, %c)
  %a = Relu(%s)`, "%a", "u8[]{9}"), quantizedProduct),
			Entry("a residual in floats", quantizedConv("u8[2,24,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 24, 3, 3), scales(24, 0.004), `
  input %r: f32[2,24,9,9]
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %s = Add(%c, %r)`, "%s", "u8[]{9}"), quantizedProduct),
			Entry("x + conv(x)", quantizedConv("u8[2,24,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 24, 3, 3), scales(24, 0.004), `
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %s = Add(%c, %xd)`, "%s", "u8[]{9}"), quantizedProduct),
			Entry("unsigned weights", `
  input %x: u8[2,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{100}
  const %wq = `+integers("u8", 0, 255, 24, 16, 3, 3)+`
  const %ws = f32[]{0.004}
  const %wz = u8[]{128}
  const %yz = u8[]{100}
  const %ys = f32[]{0.5}
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws, %wz)
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %y = QuantizeLinear(%c, %ys, %yz) "y"
  output %y`, quantizedProduct),
			Entry("float weights that the model quantizes itself", `
  input %x: u8[2,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{100}
  const %wf = `+normals(3, 144, 24, 16, 3, 3)+`
  const %ws = `+scales(24, 0.004)+`
  const %wz = `+integers("i8", 0, 0, 24)+`
  const %yz = u8[]{100}
  const %ys = f32[]{0.1}
  %xd = DequantizeLinear(%x, %xs, %xz)
  %wq = QuantizeLinear(%wf, %ws, %wz; axis=0)
  %w = DequantizeLinear(%wq, %ws, %wz; axis=0)
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %y = QuantizeLinear(%c, %ys, %yz) "y"
  output %y`, quantizedProduct),
			Entry("a normalisation that is folded into the weights", quantizedConv("u8[2,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004), `
  const %scale = `+scales(24, 2)+`
  const %shift = `+scales(24, 3)+`
  const %mean = `+scales(24, 4)+`
  const %var = `+scales(24, 1)+`
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %n = BatchNormalization(%c, %scale, %shift, %mean, %var)
  %r = Relu(%n)`, "%r", "u8[]{0}"), quantizedProduct),
			Entry("a matrix product", product("MatMul", "u8[5,64]", "u8[]{77}", integers("i8", -127, 127, 64, 40), "f32[]{0.004}", 1, "", "%m"), quantizedProduct),
			Entry("a scale per column", product("MatMul", "u8[5,64]", "u8[]{77}", integers("i8", -127, 127, 64, 40), scales(40, 0.004), 1, "", "%m"), quantizedProduct),
			Entry("signed, of three dims", product("MatMul", "i8[2,5,64]", "i8[]{3}", integers("i8", -127, 127, 64, 40), scales(40, 0.004), 1, "", "%m"), quantizedProduct),
			Entry("one row", product("MatMul", "u8[1,64]", "u8[]{0}", integers("i8", -127, 127, 64, 40), scales(40, 0.004), 1, "", "%m"), quantizedProduct),
			Entry("bias, sum and activation", product("MatMul", "u8[5,64]", "u8[]{77}", integers("i8", -127, 127, 64, 40), scales(40, 0.004), 1, `
  input %r: u8[5,40]
  const %b = `+scales(40, 4)+`
  const %rs = f32[]{0.2}
  const %rz = u8[]{50}
  %rd = DequantizeLinear(%r, %rs, %rz)
  %a = Add(%b, %m)
  %s = Add(%a, %rd)
  %t = Relu(%s)`, "%t"), quantizedProduct),
			Entry("Gemm", product("Gemm", "u8[5,64]", "u8[]{77}", integers("i8", -127, 127, 64, 40), scales(40, 0.004), 1, "", "%m"), quantizedProduct),
			Entry("transposed, with bias", `
  input %x: u8[5,64]
  const %xs = f32[]{0.02}
  const %xz = u8[]{77}
  const %wq = `+integers("i8", -127, 127, 40, 64)+`
  const %ws = `+scales(40, 0.004)+`
  const %b = `+scales(40, 4)+`
  const %ys = f32[]{0.3}
  const %yz = u8[]{121}
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws; axis=0)
  %m = Gemm(%xd, %w, %b; transB=1)
  %y = QuantizeLinear(%m, %ys, %yz) "y"
  output %y`, quantizedProduct),
			Entry("QLinearConv", `
  input %x: u8[2,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{100}
  const %w = `+integers("i8", -127, 127, 24, 16, 3, 3)+`
  const %ws = `+scales(24, 0.004)+`
  const %wz = `+integers("i8", 0, 0, 24)+`
  const %ys = f32[]{0.5}
  const %yz = u8[]{100}
  const %b = `+integers("i32", -100000, 100000, 24)+`
  %y = QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz, %b; pads=[1,1,1,1]) "y"
  output %y`, "QLinearConv"),
			Entry("QLinearConv of unsigned weights", `
  input %x: u8[2,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{100}
  const %w = `+integers("u8", 1, 255, 24, 16, 3, 3)+`
  const %ws = f32[]{0.004}
  const %wz = u8[]{128}
  const %ys = f32[]{0.5}
  const %yz = u8[]{100}
  %y = QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz) "y"
  output %y`, "QLinearConv"),
			Entry("QLinearMatMul", `
  input %x: i8[2,5,64]
  const %xs = f32[]{0.02}
  const %xz = i8[]{10}
  const %w = `+integers("i8", -127, 127, 64, 40)+`
  const %ws = `+scales(40, 0.004)+`
  const %wz = `+integers("i8", 0, 0, 40)+`
  const %ys = f32[]{0.5}
  const %yz = i8[]{-3}
  %y = QLinearMatMul(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz) "y"
  output %y`, "QLinearMatMul"),
			Entry("a sum", quantizedSum("u8[2,19,5,6]", "i8[2,19,5,6]", "i8[]{-5}", "%s = Add(%a, %b)", "u8[]{100}"), quantizedAdd),
			Entry("a sum and its limits", quantizedSum("u8[2,19,5,6]", "u8[2,19,5,6]", "u8[]{90}", "%t = Add(%a, %b)\n  %s = Relu(%t)", "u8[]{10}"), quantizedAdd),
			Entry("a sum and relu, by saturation", quantizedSum("i8[7,5]", "u8[7,5]", "u8[]{90}", "%t = Add(%a, %b)\n  %s = Relu(%t)", "u8[]{0}"), quantizedAdd),
			Entry("a sum and a curve", quantizedSum("u8[7,5]", "u8[7,5]", "u8[]{90}", "%t = Add(%a, %b)\n  %s = LeakyRelu(%t)", "u8[]{0}"), quantizedAdd),
			Entry("a sum with itself, in two representations", `
  input %x: u8[2,19,5,6]
  const %xs = f32[]{0.02}
  const %xz = u8[]{100}
  const %zs = f32[]{0.01}
  const %ys = f32[]{0.06}
  const %yz = u8[]{100}
  %a = DequantizeLinear(%x, %xs, %xz)
  %b = DequantizeLinear(%x, %zs, %xz)
  %s = Add(%a, %b)
  %y = QuantizeLinear(%s, %ys, %yz) "y"
  output %y`, quantizedAdd),
			Entry("the largest of windows, and views", `
  input %x: u8[1,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{100}
  const %wq = `+integers("i8", -127, 127, 24, 16, 3, 3)+`
  const %vq = `+integers("i8", -127, 127, 384, 10)+`
  const %ws = f32[]{0.004}
  const %ys = f32[]{0.5}
  const %yz = u8[]{100}
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws)
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %q = QuantizeLinear(%c, %ys, %yz)
  %d = DequantizeLinear(%q, %ys, %yz)
  %p = MaxPool(%d; kernel_shape=[3,3], strides=[2,2], pads=[0,0,1,1])
  %pq = QuantizeLinear(%p, %ys, %yz)
  %pd = DequantizeLinear(%pq, %ys, %yz)
  %t = Transpose(%pd; perm=[0,2,3,1])
  %f = Flatten(%t)
  %fq = QuantizeLinear(%f, %ys, %yz)
  %fd = DequantizeLinear(%fq, %ys, %yz)
  %v = DequantizeLinear(%vq, %ws)
  %m = MatMul(%fd, %v)
  %y = QuantizeLinear(%m, %ys, %yz) "y"
  output %y`, quantizedProduct, "MaxPool", "Transpose", "Flatten", quantizedProduct),
			Entry("a concatenation", quantizedConv("u8[2,24,9,9]", "u8[]{2}", integers("i8", -127, 127, 13, 24, 3, 3), scales(13, 0.004), `
  input %r: u8[2,7,9,9]
  const %cs = f32[]{0.5}
  const %cz = u8[]{120}
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %cq = QuantizeLinear(%c, %cs, %cz)
  %cd = DequantizeLinear(%cq, %cs, %cz)
  %rd = DequantizeLinear(%r, %cs, %cz)
  %k = Concat(%cd, %rd, %cd; axis=1)
  %kq = QuantizeLinear(%k, %cs, %cz)
  %kd = DequantizeLinear(%kq, %cs, %cz)
  const %vq = `+integers("i8", -127, 127, 8, 33, 1, 1)+`
  const %vs = f32[]{0.004}
  %v = DequantizeLinear(%vq, %vs)
  %e = Conv(%kd, %v)`, "%e", "u8[]{100}"), quantizedProduct, "Concat", quantizedProduct),
			Entry("a concatenation of rows", product("MatMul", "u8[5,64]", "u8[]{77}", integers("i8", -127, 127, 64, 40), "f32[]{0.004}", 1, `
  input %r: u8[3,40]
  const %cs = f32[]{0.5}
  const %cz = u8[]{120}
  %cq = QuantizeLinear(%m, %cs, %cz)
  %cd = DequantizeLinear(%cq, %cs, %cz)
  %rd = DequantizeLinear(%r, %cs, %cz)
  %k = Concat(%rd, %cd; axis=0)
  %kq = QuantizeLinear(%k, %cs, %cz)
  %kd = DequantizeLinear(%kq, %cs, %cz)
  const %vq = `+integers("i8", -127, 127, 40, 8)+`
  const %vs = f32[]{0.004}
  %v = DequantizeLinear(%vq, %vs)
  %e = MatMul(%kd, %v)`, "%e"), quantizedProduct, "Concat", quantizedProduct),
			Entry("one image, read by two products and a sum", quantizedConv("u8[2,24,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 24, 3, 3), scales(24, 0.004), `
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %a = Conv(%xd, %w; pads=[1,1,1,1], auto_pad="NOTSET")
  %d = Add(%c, %xd)
  %e = Relu(%a)
  %s = Add(%d, %e)`, "%s", "u8[]{9}"), quantizedProduct, quantizedProduct, "Add", "QuantizeLinear"),
			Entry("QuantizeLinear", `
  input %x: f32[2,19,5,5]
  const %s = f32[]{0.013}
  const %z = u8[]{117}
  %y = QuantizeLinear(%x, %s, %z) "y"
  output %y`, "QuantizeLinear"),
			Entry("QuantizeLinear to signed", `
  input %x: f32[19,5]
  const %s = f32[]{0.013}
  const %z = i8[]{-17}
  %y = QuantizeLinear(%x, %s, %z) "y"
  output %y`, "QuantizeLinear"),
			Entry("DequantizeLinear", `
  input %x: u8[2,19,5,5]
  const %s = f32[]{0.02}
  const %z = u8[]{117}
  %y = DequantizeLinear(%x, %s, %z) "y"
  output %y`, "DequantizeLinear"),
		)
	}
})

var _ = Describe("operators that are not fused on integers", func() {
	for _, lib := range libraries() {
		DescribeTable(strings.TrimSpace("are right all the same "+lib), func(ctx SpecContext, text string, ops ...string) {
			b := open(lib)
			g := parse(text)
			p := agreesInSteps(ctx, g, 0.02, mklWith(lib), backend.Config{Name: "cpu"})
			if mkl.ExactProducts(b) {
				Expect(opsOf(ctx, p)).To(ConsistOf(ops))
			}
		},
			Entry("what others read between is a float", quantizedConv("u8[1,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004), `
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %r = Relu(%c)
  output %r`, "%c", "u8[]{9}"), quantizedProduct, "QuantizeLinear", "Relu"),
			Entry("an output in the middle", quantizedConv("u8[1,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004), `
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  output %c`, "%c", "u8[]{9}"), quantizedProduct, "QuantizeLinear"),
			Entry("two quantisations of one result", quantizedConv("u8[1,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004), `
  const %zs = f32[]{0.25}
  const %zz = i8[]{3}
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %z = QuantizeLinear(%c, %zs, %zz)
  output %z`, "%c", "u8[]{9}"), quantizedProduct, "QuantizeLinear", "QuantizeLinear"),
			Entry("a scale that a run brings", `
  input %x: u8[1,16,9,9]
  input %xs: f32[]
  const %w = f32[24,16,3,3]{~}
  %xd = DequantizeLinear(%x, %xs)
  %y = Conv(%xd, %w; pads=[1,1,1,1]) "y"
  output %y`, "Conv"),
			Entry("a scale that is computed", `
  input %x: f32[5,16]
  const %w = `+multiples(16, 24)+`
  %q, %s, %z = DynamicQuantizeLinear(%x)
  %d = DequantizeLinear(%q, %s, %z)
  %y = MatMul(%d, %w) "y"
  output %y`, "MatMul"),
			Entry("weights with scales of their inputs", `
  input %x: u8[1,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{2}
  const %wq = `+integers("i8", -127, 127, 24, 16, 3, 3)+`
  const %ws = `+scales(16, 0.004)+`
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws; axis=1)
  %y = Conv(%xd, %w; pads=[1,1,1,1]) "y"
  output %y`, "DequantizeLinear", "Conv"),
			Entry("an image with scales of its channels", `
  input %x: u8[1,16,9,9]
  const %xs = `+scales(16, 0.02)+`
  const %xz = `+integers("u8", 0, 9, 16)+`
  const %wq = `+integers("i8", -127, 127, 24, 16, 3, 3)+`
  const %ws = f32[]{0.004}
  %xd = DequantizeLinear(%x, %xs, %xz; axis=1)
  %w = DequantizeLinear(%wq, %ws)
  %y = Conv(%xd, %w; pads=[1,1,1,1]) "y"
  output %y`, "Conv"),
			Entry("weights that do not fit about their zero point", `
  input %x: u8[1,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{2}
  const %wq = `+integers("u8", 0, 255, 24, 16, 3, 3)+`
  const %ws = f32[]{0.004}
  const %wz = u8[]{11}
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws, %wz)
  %y = Conv(%xd, %w; pads=[1,1,1,1]) "y"
  output %y`, "DequantizeLinear", "Conv"),
			Entry("weights that are floats", `
  input %x: u8[1,16,9,9]
  const %xs = f32[]{0.02}
  const %xz = u8[]{2}
  const %w = f32[24,16,1,1]`+strings.TrimPrefix(scales(24*16, 1), "f32[384]")+`
  %xd = DequantizeLinear(%x, %xs, %xz)
  %y = Conv(%xd, %w) "y"
  output %y`, "DequantizeLinear", "Conv"),
			Entry("weights that a run brings", `
  input %x: u8[1,16,9,9]
  input %wq: i8[24,16,3,3]
  const %xs = f32[]{0.02}
  const %xz = u8[]{2}
  const %ws = f32[]{0.004}
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws)
  %y = Conv(%xd, %w) "y"
  output %y`, "DequantizeLinear", "DequantizeLinear"),
			Entry("a residual that broadcasts", quantizedConv("u8[1,16,9,9]", "u8[]{2}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004), `
  input %r: f32[1,24,1,1]
  %c = Conv(%xd, %w; pads=[1,1,1,1])
  %s = Add(%c, %r)`, "%s", "u8[]{9}"), quantizedProduct, "Add", "QuantizeLinear"),
			Entry("a sum of which others read an operand", quantizedSum("u8[7,5]", "u8[7,5]", "u8[]{90}", "%t = Tanh(%a)\n  output %t\n  %s = Add(%a, %b)", "u8[]{100}"),
				"DequantizeLinear", "Tanh", quantizedAdd),
			Entry("a sum that stays a float", quantizedSum("u8[7,5]", "u8[7,5]", "u8[]{90}", "%s = Add(%a, %b)\n  output %s", "u8[]{100}"),
				"DequantizeLinear", "DequantizeLinear", "Add", "QuantizeLinear"),
			Entry("a sum that broadcasts", quantizedSum("u8[7,5]", "u8[1,5]", "u8[]{90}", "%s = Add(%a, %b)", "u8[]{100}"),
				"DequantizeLinear", "DequantizeLinear", "Add", "QuantizeLinear"),
		)
	}
})

// multiples is the text of a matrix of floats that are multiples of one number.
func multiples(rows, columns int) string {
	list := strings.Split(strings.TrimSuffix(strings.SplitN(integers("i8", -127, 127, rows, columns), "{", 2)[1], "}"), ", ")
	for i, s := range list {
		var k int
		_, _ = fmt.Sscan(s, &k)
		list[i] = fmt.Sprint(float32(k) * 0.004)
	}
	return fmt.Sprintf("f32[%d,%d]{%s}", rows, columns, strings.Join(list, ", "))
}

// quantizedSum is a graph of a sum of a and b between quantisations; body ends with s.
func quantizedSum(x, z, zz, body, yz string) string {
	return `
  input %x: ` + x + `
  input %z: ` + z + `
  const %xs = f32[]{0.02}
  const %xz = ` + strings.Split(x, "[")[0] + `[]{100}
  const %zs = f32[]{0.03}
  const %zz = ` + zz + `
  const %ys = f32[]{0.04}
  const %yz = ` + yz + `
  %a = DequantizeLinear(%x, %xs, %xz)
  %b = DequantizeLinear(%z, %zs, %zz)
  ` + body + `
  %y = QuantizeLinear(%s, %ys, %yz) "y"
  output %y`
}

var _ = Describe("weights of integers", func() {
	for _, lib := range libraries() {
		It(strings.TrimSpace("are matched where they were folded to floats, and where they were not "+lib), func(ctx SpecContext) {
			b := open(lib)
			if !mkl.ExactProducts(b) {
				Skip("no VNNI: such weights are not multiplied as integers")
			}
			text := quantizedConv("u8[2,16,9,9]", "u8[]{3}", integers("i8", -127, 127, 24, 16, 3, 3), scales(24, 0.004),
				"%c = Conv(%xd, %w; pads=[1,1,1,1])\n  %v = DequantizeLinear(%wq, %ws; axis=0)\n  %e = Conv(%xd, %v; strides=[2,2])\n  output %e", "%c", "u8[]{121}")
			folded := program(ctx, parse(text), carve.Options{Backends: []backend.Config{mklWith(lib)}})
			kept := program(ctx, parse(text), carve.Options{MaxFold: -1, Backends: []backend.Config{mklWith(lib)}})
			in := quantizedFeeds(parse(text), 1)
			a, err := folded.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			again, err := kept.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			Expect(opsOf(ctx, folded)).To(Equal([]string{quantizedProduct, quantizedProduct}))
			Expect(opsOf(ctx, kept)).To(Equal([]string{quantizedProduct, quantizedProduct}))
			steps(a, again, 1e-4)
			for _, p := range []*carve.Program{folded, kept} {
				for _, c := range packs(ctx, p) {
					Expect(c.Bytes).To(BeNumerically("<", 2*24*16*3*3+4096), "weights of one byte, and what the library adds: %v", c)
				}
			}
		})

		It(strings.TrimSpace("pass Program.Check where halves are rounded to the other side, and fall back "+lib), func(ctx SpecContext) {
			open(lib)
			g := parse(`
  input %x: f32[4,16]
  const %one = f32[]{1}
  const %z = u8[]{1}
  const %wq = ` + integers("i8", -3, 3, 16, 8) + `
  %q = QuantizeLinear(%x, %one, %z)
  %d = DequantizeLinear(%q, %one, %z)
  %w = DequantizeLinear(%wq, %one)
  %m = MatMul(%d, %w)
  %y = QuantizeLinear(%m, %one, %z) "y"
  output %q
  output %m
  output %y`)
			x := make([]float32, 64)
			for i := range x {
				x[i] = float32(i%9) + 0.5
			}
			in := map[string]tensor.Value{"x": tensor.From(x, 4, 16)}
			for _, fail := range []string{"", "compile", "run"} {
				c := mklWith(lib)
				c.Options = map[string]string{"fail": fail, "library": lib}
				if lib == "" {
					delete(c.Options, "library")
				}
				p := program(ctx, g, carve.Options{Verify: true, Backends: []backend.Config{c}})
				got, err := p.Run(ctx, in)
				Expect(err).NotTo(HaveOccurred())
				for i, v := range tensor.Of[uint8](got["q"].(*tensor.Tensor)) {
					Expect(float64(v)).To(BeNumerically("~", float64(x[i])+1, 0.5))
				}
				difference, err := p.Check(ctx, in)
				if fail == "" {
					Expect(err).NotTo(HaveOccurred())
					Expect(difference).To(BeNil())
				}
			}
		})

		DescribeTable(strings.TrimSpace("where products may saturate are not multiplied as integers "+lib), func(ctx SpecContext, x string, most int, ops ...string) {
			mkl.WithoutVNNI(open(lib), func() {
				g := parse(quantizedConv(x+"[1,16,9,9]", x+"[]{3}", integers("i8", -most, most, 24, 16, 3, 3), scales(24, 0.004),
					"%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "u8[]{121}"))
				Expect(opsOf(ctx, agreesInSteps(ctx, g, 1, mklWith(lib)))).To(Equal(ops))
			})
		},
			Entry("small ones are", "u8", 64, quantizedProduct),
			Entry("large ones", "u8", 127, "DequantizeLinear", "Conv", "QuantizeLinear"),
			Entry("any, by signed integers", "i8", 64, "DequantizeLinear", "Conv", "QuantizeLinear"),
		)
	}
})

var _ = Describe("integers behind floats", func() {
	It("are found, whatever scaled them", func() {
		rng := rand.New(rand.NewPCG(11, 3))
		for range 300 {
			shape := []int{1 + rng.IntN(5), 1 + rng.IntN(5), 1 + rng.IntN(3)}
			axis := rng.IntN(3)
			n, inner := 1, 1
			for i, d := range shape {
				if n *= d; i > axis {
					inner *= d
				}
			}
			scales := make([]float32, shape[axis])
			for i := range scales {
				scales[i] = float32(math.Exp(rng.NormFloat64() * 6))
			}
			w := make([]float32, n)
			for i := range w {
				q := rng.IntN(256) - 128
				if rng.IntN(3) == 0 {
					q = 0
				}
				w[i] = float32(q) * scales[i/inner%shape[axis]]
			}
			q, s := mkl.Recovered(tensor.From(w, shape...), axis)
			Expect(q).To(HaveLen(n), "%v along %d: %v", shape, axis, w)
			for i := range w {
				x := float64(q[i]) * float64(s[i/inner%shape[axis]])
				Expect(x).To(BeNumerically("~", float64(w[i]), 1e-6*math.Abs(float64(w[i]))))
			}
		}
	})

	DescribeTable("are not found where there are none", func(w ...float32) {
		q, _ := mkl.Recovered(tensor.From(w, 1, len(w)), 0)
		Expect(q).To(BeNil())
	},
		Entry("numbers without a common measure", float32(1), float32(math.Sqrt2), float32(math.Pi)),
		Entry("more than eight bits", float32(1), float32(255)),
		Entry("129 at both ends", float32(-128), float32(128), float32(1)),
		Entry("infinite", float32(1), float32(math.Inf(1))),
		Entry("no number", float32(1), float32(math.NaN())),
		Entry("too small for a scale", float32(1e-45), float32(3e-45)),
	)
})

var _ = Describe("quantised models", func() {
	for _, lib := range libraries() {
		DescribeTable(strings.TrimSpace("in other layouts of activations "+lib), func(ctx SpecContext, layout string) {
			open(lib)
			c := mklWith(lib)
			c.Options = map[string]string{"layout": layout, "library": lib}
			if lib == "" {
				delete(c.Options, "library")
			}
			agreesInSteps(ctx, parse(`
  input %x: f32[2,3,9,9]
  const %w0 = f32[16,3,1,1]{~}
  const %s = f32[]{0.02}
  const %z = u8[]{100}
  const %wq = `+integers("i8", -127, 127, 16, 16, 3, 3)+`
  const %ws = f32[]{0.002}
  %a = Conv(%x, %w0)
  %q = QuantizeLinear(%a, %s, %z)
  %d = DequantizeLinear(%q, %s, %z)
  %w = DequantizeLinear(%wq, %ws)
  %c = Conv(%d, %w; pads=[1,1,1,1])
  %e = Sigmoid(%c)
  %y = Add(%e, %d) "y"
  output %y`), 0.02, c)
		}, Entry(nil, "NCHW16c"), Entry(nil, "NHWC"), Entry(nil, "row-major"))

		DescribeTable(strings.TrimSpace("are taken as far as pins allow "+lib), func(ctx SpecContext, pinned string, ops ...string) {
			b := open(lib)
			g := parse(quantizedConv("u8[2,16,9,9]", "u8[]{3}", integers("i8", -127, 127, 24, 16, 3, 3), "f32[]{0.004}",
				"%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "u8[]{121}"))
			p := program(ctx, g, carve.Options{Verify: true, Pins: []property.Pin{{Node: pinned, Backend: "reference"}}, Backends: []backend.Config{mklWith(lib)}})
			if mkl.ExactProducts(b) {
				Expect(opsOf(ctx, p)).To(ConsistOf(ops))
			}
			in := quantizedFeeds(g, 1)
			want, err := program(ctx, g, carve.Options{Backends: []backend.Config{{Name: "reference"}}}).Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			got, err := p.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			steps(got, want, 1)
		},
			Entry("not the image", "xd", "Conv", "QuantizeLinear"),
			Entry("not the product", "c", "DequantizeLinear", "QuantizeLinear"),
			Entry("not the result", "y", quantizedProduct),
		)

		It(strings.TrimSpace("of an early operator set "+lib), func(ctx SpecContext) {
			b := open(lib)
			g, err := graph.Parse("graph {\n  opset 10" + strings.ReplaceAll(quantizedConv("u8[2,16,9,9]", "u8[]{3}", integers("i8", -127, 127, 24, 16, 3, 3),
				"f32[]{0.004}", "%c = Conv(%xd, %w; pads=[1,1,1,1])", "%c", "u8[]{121}"), "; axis=0", "") + "\n}")
			Expect(err).NotTo(HaveOccurred())
			Expect(graph.InferGraph(g)).To(Succeed())
			p := agreesInSteps(ctx, g, 1, mklWith(lib))
			if mkl.ExactProducts(b) {
				Expect(opsOf(ctx, p)).To(Equal([]string{quantizedProduct}))
			}
		})

		It(strings.TrimSpace("saturate "+lib), func(ctx SpecContext) {
			open(lib)
			inf := float32(math.Inf(1))
			x := []float32{1e10, -1e10, inf, -inf, 3e38, -3e38, 1e-40, 0, 255, 256, -1, -2, 127.4, 128.6, -128.4, -200}
			for _, zero := range []string{"u8[]{0}", "u8[]{255}", "i8[]{-128}", "i8[]{127}"} {
				g := parse("\n  input %x: f32[16]\n  const %s = f32[]{1}\n  const %z = " + zero + "\n  %y = QuantizeLinear(%x, %s, %z) \"y\"\n  output %y")
				in := map[string]tensor.Value{"x": tensor.From(x, 16)}
				p := program(ctx, g, carve.Options{Backends: []backend.Config{mklWith(lib)}})
				Expect(opsOf(ctx, p)).To(Equal([]string{"QuantizeLinear"}))
				got, err := p.Run(ctx, in)
				Expect(err).NotTo(HaveOccurred())
				want, err := program(ctx, g, carve.Options{Backends: []backend.Config{{Name: "reference"}}}).Run(ctx, in)
				Expect(err).NotTo(HaveOccurred())
				steps(got, want, 1)
			}
		})

		It(strings.TrimSpace("allocate nothing in runs "+lib), func(ctx SpecContext) {
			open(lib)
			g := parse(`
  input %x: f32[5,64]
  const %s = f32[]{0.02}
  const %z = u8[]{100}
  const %wq = ` + integers("i8", -127, 127, 64, 64) + `
  const %ws = f32[]{0.004}
  %q = QuantizeLinear(%x, %s, %z)
  %d = DequantizeLinear(%q, %s, %z)
  %w = DequantizeLinear(%wq, %ws)
  %m = MatMul(%d, %w)
  %y = Add(%m, %d) "y"
  output %y`)
			for _, n := range []int{1, 2} {
				p := program(ctx, g, carve.Options{Threads: n, Backends: []backend.Config{mklWith(lib)}})
				in, out := arguments(ctx, p, g)
				var err error
				count := allocations(func() { err = errors.Join(err, p.RunInto(ctx, in, out)) })
				Expect(err).NotTo(HaveOccurred())
				Expect(count).To(BeZero(), "%d threads", n)
			}
		})
	}
})

// product is a graph of a matrix product between quantisations; rest follows %m and y is quantised.
func product(op, x, xz, w, ws string, axis int, rest, y string) string {
	return fmt.Sprintf(`
  input %%x: %s
  const %%xs = f32[]{0.02}
  const %%xz = %s
  const %%wq = %s
  const %%ws = %s
  const %%ys = f32[]{0.3}
  const %%yz = %s[]{21}
  %%xd = DequantizeLinear(%%x, %%xs, %%xz)
  %%w = DequantizeLinear(%%wq, %%ws; axis=%d)
  %%m = %s(%%xd, %%w)
  %s
  %%y = QuantizeLinear(%s, %%ys, %%yz) "y"
  output %%y`, x, xz, w, ws, strings.Split(x, "[")[0], axis, op, strings.TrimPrefix(rest, "\n  "), y)
}
