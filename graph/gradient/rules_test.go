package gradient_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
)

var _ = Describe("derivatives of first and second order are the limits of differences", func() {
	for _, c := range []struct {
		node      string // of x, by default the operator alone
		low, high float64
	}{
		{"Abs", 0.1, 2}, {"Abs", -2, -0.1}, {"Acos", -0.9, 0.9}, {"Acosh", 1.2, 3}, {"Asin", -0.9, 0.9}, {"Asinh", -2, 2}, {"Atan", -2, 2}, {"Atanh", -0.9, 0.9},
		{"Cos", -2, 2}, {"Cosh", -2, 2}, {"Elu(%x; alpha=0.7)", -2, -0.01}, {"Elu", 0.01, 2},
		{"Erf", -2, 2}, {"Exp", -1, 1}, {"HardSigmoid", -2, 2}, {"HardSigmoid(%x; alpha=0.3, beta=0.4)", 3, 4}, {"HardSwish", -2.9, 2.9}, {"HardSwish", 3.1, 4},
		{"HardSwish", -4, -3.1}, {"Identity", -2, 2}, {"LeakyRelu", -2, -0.01}, {"LeakyRelu(%x; alpha=0.3)", 0.01, 2}, {"Log", 0.5, 3}, {"Neg", -2, 2},
		{"Reciprocal", 0.5, 3}, {"Relu", 0.01, 2}, {"Relu", -1, -0.1}, {"Selu", -2, -0.01}, {"Selu", 0.1, 1}, {"Shrink(%x; lambd=0.25, bias=0.1)", 0.3, 1},
		{"Shrink(%x; lambd=0.25, bias=0.1)", -0.2, 0.2}, {"Sigmoid", -2, 2}, {"Sin", -2, 2}, {"Sinh", -2, 2}, {"Softplus", -2, 2}, {"Softsign", 0.1, 2},
		{"Softsign", -2, -0.1}, {"Sqrt", 0.5, 3}, {"Tan", -1, 1}, {"Tanh", -2, 2}, {"ThresholdedRelu(%x; alpha=0.5)", 0.6, 1}, {"ThresholdedRelu(%x; alpha=0.5)", 0.1, 0.4},
		{"Floor", 0.1, 0.9}, {"Gelu", -2, 2}, {"Gelu(%x; approximate=\"tanh\")", -2, 2}, {"Mish", -2, 2}, {"Swish", -2, 2}, {"Swish(%x; alpha=0.6)", -2, 2},
		{"LpNormalization(%x; axis=0)", 0.1, 2}, {"LpNormalization(%x; p=1)", 0.1, 2}, {"Softmax(%x; axis=0)", -2, 2}, {"LogSoftmax", -2, 2}, {"Flatten(%x; axis=0)", -2, 2},
		{"Transpose", -2, 2}, {"Trilu(%x; upper=0)", -2, 2}, {"Cast(%x; to=11)", -2, 2}, {"ReduceMean(%x; noop_with_empty_axes=1)", -2, 2},
	} {
		name := strings.TrimSuffix(c.node, "(%x)")
		if !strings.Contains(c.node, "(") {
			c.node += "(%x)"
		}
		It(name, differences(part{opset: 24, inputs: []string{"x: f64[3,4]"}, nodes: "%y = " + c.node, low: c.low, high: c.high, order: 2}))
	}
	x := func(typ string, more ...string) []string { return append([]string{"x: " + typ}, more...) }
	ab := func(a, b string) []string { return []string{"a: " + a, "b: " + b} }
	for _, c := range []struct {
		name string
		part
	}{
		{"Add", part{inputs: ab("f64[2,1,3]", "f64[4,1]"), nodes: "%y = Add(%a, %b)"}},
		{"Add of a scalar", part{inputs: ab("f64[]", "f64[2,3]"), nodes: "%y = Add(%a, %b)"}},
		{"Sub", part{inputs: ab("f64[2,3]", "f64[3]"), nodes: "%y = Sub(%a, %b)"}},
		{"Mul", part{inputs: ab("f64[2,3]", "f64[4,1,1]"), nodes: "%y = Mul(%a, %b)"}},
		{"Mul with itself", part{inputs: x("f64[2,3]"), nodes: "%y = Mul(%x, %x)"}},
		{"Div", part{inputs: ab("f64[2,3]", "f64[2,1]"), nodes: "%y = Div(%a, %b)", low: 0.5}},
		{"Mod", part{inputs: ab("f64[2]", "f64[2]"), nodes: "%c = Add(%a, %b)\n%y = Mod(%c, %b; fmod=1)", low: 0.5, high: 0.9}},
		{"Pow", part{inputs: ab("f64[2,3]", "f64[3]"), nodes: "%y = Pow(%a, %b)", low: 0.5}},
		{"Pow by whole numbers", part{inputs: x("f64[4]", "p: i64[4]{0,1,2,3}"), nodes: "%y = Pow(%x, %p)"}},
		{"Sum", part{inputs: append(ab("f64[2,3]", "f64[3]"), "c: f64[1]"), nodes: "%y = Sum(%a, %b, %c)"}},
		{"Mean", part{inputs: append(ab("f64[2,3]", "f64[3]"), "c: f64[1]"), nodes: "%y = Mean(%a, %b, %c)"}},
		{"Max", part{inputs: append(ab("f64[2,3]", "f64[3]"), "c: f64[1]"), nodes: "%y = Max(%a, %b, %c)"}},
		{"Min", part{inputs: ab("f64[2,3]", "f64[2,1]"), nodes: "%y = Min(%a, %b)"}},
		{"Clip", part{inputs: []string{"x: f64[3,4]", "lo: f64[]", "h: f64[]"}, nodes: "%c = Abs(%h)\n%d = Add(%lo, %c)\n%y = Clip(%x, %lo, %d)"}},
		{"Clip by attributes", part{opset: 10, inputs: x("f64[6]"), nodes: "%y = Clip(%x; min=-1.0, max=1.0)"}},
		{"Where", part{inputs: append(ab("f64[2,3]", "f64[3]"), "c: bool[2,1]{true,false}"), nodes: "%y = Where(%c, %a, %b)"}},
		{"PRelu", part{inputs: ab("f64[3,4]", "f64[3,1]"), nodes: "%y = PRelu(%a, %b)"}},
		{"CastLike", part{inputs: ab("f64[3]", "f64[3]"), nodes: "%c = CastLike(%a, %b)\n%y = Mul(%c, %b)"}},
		{"Dropout", part{inputs: x("f64[3]"), nodes: "%y = Dropout(%x)"}},

		{"MatMul", part{inputs: ab("f64[2,3]", "f64[3,4]"), nodes: "%y = MatMul(%a, %b)"}},
		{"MatMul over batches that broadcast", part{inputs: ab("f64[2,1,2,3]", "f64[2,3,2]"), nodes: "%y = MatMul(%a, %b)"}},
		{"MatMul of vectors", part{inputs: ab("f64[3]", "f64[3]"), nodes: "%y = MatMul(%a, %b)"}},
		{"MatMul of a vector", part{inputs: ab("f64[3]", "f64[2,3,4]"), nodes: "%y = MatMul(%a, %b)"}},
		{"MatMul by a vector", part{inputs: ab("f64[2,4,3]", "f64[3]"), nodes: "%y = MatMul(%a, %b)"}},
		{"Gemm", part{inputs: append(ab("f64[2,3]", "f64[3,4]"), "c: f64[4]"), nodes: "%y = Gemm(%a, %b, %c; alpha=0.5, beta=2.0)"}},
		{"Gemm of transposed matrices", part{inputs: append(ab("f64[3,2]", "f64[4,3]"), "c: f64[2,1]"), nodes: "%y = Gemm(%a, %b, %c; transA=1, transB=1, alpha=0.5)"}},
		{"Gemm, A transposed", part{inputs: ab("f64[3,2]", "f64[3,4]"), nodes: "%y = Gemm(%a, %b; transA=1)"}},
		{"Gemm, B transposed", part{inputs: ab("f64[2,3]", "f64[4,3]"), nodes: "%y = Gemm(%a, %b; transB=1)"}},
		{"Einsum", part{inputs: ab("f64[2,3,2]", "f64[2,2,4]"), nodes: "%y = Einsum(%a, %b; equation=\"bij,bjk->bik\")"}},
		{"Einsum that sums one operand's axis", part{inputs: ab("f64[2,3]", "f64[2]"), nodes: "%y = Einsum(%a, %b; equation=\"ij,i\")"}},
		{"Einsum with an ellipsis", part{inputs: ab("f64[2,1,3]", "f64[4,3]"), nodes: "%y = Einsum(%a, %b; equation=\"...i,...i->...\")"}},

		{"ReduceSum", part{inputs: x("f64[2,3,2]", "i: i64[2]{0,-1}"), nodes: "%y = ReduceSum(%x, %i; keepdims=0)"}},
		{"ReduceSum of all", part{inputs: x("f64[2,3]"), nodes: "%y = ReduceSum(%x; keepdims=0)"}},
		{"ReduceSum by attributes", part{opset: 11, inputs: x("f64[2,3]"), nodes: "%y = ReduceSum(%x; axes=[1], keepdims=0)"}},
		{"ReduceMean", part{inputs: x("f64[2,3,2]", "i: i64[1]{1}"), nodes: "%y = ReduceMean(%x, %i)"}},
		{"ReduceMax", part{inputs: x("f64[2,3,2]", "i: i64[1]{1}"), nodes: "%y = ReduceMax(%x, %i; keepdims=0)"}},
		{"ReduceMin", part{inputs: x("f64[2,3,2]"), nodes: "%y = ReduceMin(%x; keepdims=0)"}},
		{"ReduceL1", part{inputs: x("f64[2,3]", "i: i64[1]{1}"), nodes: "%y = ReduceL1(%x, %i)"}},
		{"ReduceL2", part{inputs: x("f64[2,3]", "i: i64[1]{1}"), nodes: "%y = ReduceL2(%x, %i; keepdims=0)"}},
		{"ReduceLogSum", part{inputs: x("f64[2,3]", "i: i64[1]{1}"), nodes: "%y = ReduceLogSum(%x, %i)", low: 0.5}},
		{"ReduceLogSumExp", part{inputs: x("f64[2,3]", "i: i64[1]{1}"), nodes: "%y = ReduceLogSumExp(%x, %i; keepdims=0)"}},
		{"ReduceSumSquare", part{inputs: x("f64[2,3]", "i: i64[1]{0}"), nodes: "%y = ReduceSumSquare(%x, %i)"}},
		{"Softmax before 13", part{opset: 11, inputs: x("f64[2,2,3]"), nodes: "%y = Softmax(%x; axis=1)"}},
		{"LogSoftmax before 13", part{opset: 11, inputs: x("f64[2,2,3]"), nodes: "%y = LogSoftmax(%x; axis=1)"}},
		{"CumSum", part{inputs: x("f64[2,3]", "i: i64[]{1}"), nodes: "%y = CumSum(%x, %i; exclusive=1)"}},

		{"LayerNormalization", part{inputs: x("f64[2,3]", "s: f64[3]", "b: f64[3]"), nodes: "%y = LayerNormalization(%x, %s, %b)"}},
		{"RMSNormalization", part{inputs: x("f64[2,2,3]", "s: f64[2,3]"), nodes: "%y = RMSNormalization(%x, %s; axis=1)"}},
		{"InstanceNormalization", part{inputs: x("f64[2,2,3]", "s: f64[2]", "b: f64[2]"), nodes: "%y = InstanceNormalization(%x, %s, %b)"}},
		{"GroupNormalization", part{inputs: x("f64[2,4,2]", "s: f64[4]", "b: f64[4]"), nodes: "%y = GroupNormalization(%x, %s, %b; num_groups=2)"}},
		{"GroupNormalization before 21", part{opset: 18, inputs: x("f64[2,4,2]", "s: f64[2]", "b: f64[2]"), nodes: "%y = GroupNormalization(%x, %s, %b; num_groups=2)"}},
		{"MeanVarianceNormalization", part{inputs: x("f64[2,3,2]"), nodes: "%y = MeanVarianceNormalization(%x; axes=[0,2])"}},
		{"BatchNormalization", part{inputs: x("f64[2,3,2]", "s: f64[3]", "b: f64[3]", "m: f64[3]", "v: f64[3]"), nodes: "%w = Exp(%v)\n%y = BatchNormalization(%x, %s, %b, %m, %w)"}},
		{"BatchNormalization that learns", part{inputs: x("f64[2,3,2]", "s: f64[3]", "b: f64[3]", "m: f64[3]{0.0,0.0,0.0}", "v: f64[3]{1.0,1.0,1.0}"),
			nodes: "%y, %rm, %rv = BatchNormalization(%x, %s, %b, %m, %v; training_mode=1)"}},
		{"NegativeLogLikelihoodLoss", part{inputs: x("f64[4,3]", "w: f64[3]", "i: i64[4]{2,0,1,2}"), nodes: "%e = Exp(%w)\n%y = NegativeLogLikelihoodLoss(%x, %i, %e)"}},
		{"NegativeLogLikelihoodLoss of pixels, some ignored", part{inputs: x("f64[2,3,2]", "i: i64[2,2]{2,0,-1,2}"),
			nodes: "%y = NegativeLogLikelihoodLoss(%x, %i; ignore_index=-1)"}},
		{"SoftmaxCrossEntropyLoss", part{inputs: x("f64[4,3]", "i: i64[4]{2,0,1,2}"), nodes: "%y, %l = SoftmaxCrossEntropyLoss(%x, %i; reduction=\"sum\")"}},
		{"SoftmaxCrossEntropyLoss of each", part{inputs: x("f64[4,3]", "i: i64[4]{2,0,1,2}"), nodes: "%y = SoftmaxCrossEntropyLoss(%x, %i; reduction=\"none\")"}},

		{"Reshape", part{inputs: x("f64[2,3]", "i: i64[2]{3,-1}"), nodes: "%y = Reshape(%x, %i)"}},
		{"Squeeze and Unsqueeze", part{inputs: x("f64[2,3]", "i: i64[2]{0,2}", "j: i64[1]{0}"), nodes: "%u = Unsqueeze(%x, %i)\n%y = Squeeze(%u, %j)"}},
		{"Expand", part{inputs: x("f64[2,1]", "i: i64[3]{2,1,3}"), nodes: "%y = Expand(%x, %i)"}},
		{"Transpose", part{inputs: x("f64[2,3,2]"), nodes: "%y = Transpose(%x; perm=[2,0,1])"}},
		{"Concat", part{inputs: ab("f64[2,3]", "f64[2,1]"), nodes: "%y = Concat(%a, %b, %a; axis=-1)"}},
		{"Split, one part unused", part{inputs: x("f64[2,5]", "i: i64[3]{1,2,2}"), nodes: "%p, %q, %r = Split(%x, %i; axis=1)\n%y = Mul(%q, %r)"}},
		{"Gather", part{inputs: x("f64[3,2]", "i: i64[2,2]{0,2,-1,0}"), nodes: "%y = Gather(%x, %i)"}},
		{"Gather of one along an inner axis", part{inputs: x("f64[2,3,2]", "i: i32[]{1}"), nodes: "%y = Gather(%x, %i; axis=1)"}},
		{"Gather of several along the last axis", part{inputs: x("f64[2,3]", "i: i32[3]{1,1,0}"), nodes: "%y = Gather(%x, %i; axis=-1)"}},
		{"GatherElements", part{inputs: x("f64[2,3]", "i: i64[2,2]{1,1,0,-1}"), nodes: "%y = GatherElements(%x, %i; axis=1)"}},
		{"GatherND", part{inputs: x("f64[2,3]", "i: i64[3,2]{1,1,0,0,1,1}"), nodes: "%y = GatherND(%x, %i)"}},
		{"ScatterND", part{inputs: ab("f64[3,2]", "f64[2,2]"), nodes: "const %i = i64[2,1]{2,0}\n%y = ScatterND(%a, %i, %b)"}},
		{"ScatterND that adds", part{inputs: ab("f64[3,2]", "f64[3,2]"), nodes: "const %i = i64[3,1]{2,0,2}\n%y = ScatterND(%a, %i, %b; reduction=\"add\")"}},
		{"ScatterElements", part{inputs: ab("f64[2,3]", "f64[2,2]"), nodes: "const %i = i64[2,2]{1,0,2,1}\n%y = ScatterElements(%a, %i, %b; axis=1)"}},
		{"ScatterElements that adds", part{inputs: ab("f64[2,3]", "f64[2,2]"), nodes: "const %i = i64[2,2]{1,1,0,1}\n%y = ScatterElements(%a, %i, %b; reduction=\"add\")"}},
		{"Slice", part{inputs: x("f64[4,5]", "i: i64[1]{1}", "j: i64[1]{4}", "k: i64[1]{1}"), nodes: "%y = Slice(%x, %i, %j, %k)"}},
		{"Slice from the end", part{inputs: x("f64[4,5]", "i: i64[2]{-3,0}", "j: i64[2]{-1,9}"), nodes: "%y = Slice(%x, %i, %j)"}},
		{"Slice backwards", part{inputs: x("f64[5]", "i: i64[1]{-1}", "j: i64[1]{-9}", "k: i64[1]{0}", "l: i64[1]{-2}"), nodes: "%y = Slice(%x, %i, %j, %k, %l)"}},
		{"Pad", part{inputs: x("f64[2,3]", "i: i64[4]{1,-1,0,2}"), nodes: "%y = Pad(%x, %i)"}},
		{"Pad of one axis", part{inputs: x("f64[2,3]", "i: i64[2]{1,2}", "v: f64[]{0.5}", "j: i64[1]{-1}"), nodes: "%y = Pad(%x, %i, %v, %j)"}},
		{"Pad by reflection", part{inputs: x("f64[2,3]", "i: i64[4]{1,1,0,2}"), nodes: "%y = Pad(%x, %i; mode=\"reflect\")"}},
		{"Pad by attributes", part{opset: 10, inputs: x("f64[2,3]"), nodes: "%y = Pad(%x; pads=[1,0,0,2])"}},
		{"Tile", part{inputs: x("f64[2,3]", "i: i64[2]{2,3}"), nodes: "%y = Tile(%x, %i)"}},
		{"DepthToSpace", part{inputs: x("f64[1,4,2,1]"), nodes: "%y = DepthToSpace(%x; blocksize=2, mode=\"CRD\")"}},
		{"SpaceToDepth", part{inputs: x("f64[1,1,2,4]"), nodes: "%y = SpaceToDepth(%x; blocksize=2)"}},
		{"ReverseSequence", part{inputs: x("f64[3,2]", "i: i64[2]{3,2}"), nodes: "%y = ReverseSequence(%x, %i)"}},
		{"Compress", part{inputs: x("f64[2,3]", "c: bool[3]{true,false,true}"), nodes: "%y = Compress(%x, %c; axis=1)"}},
		{"TopK", part{inputs: x("f64[2,5]", "k: i64[1]{3}"), nodes: "%y, %i = TopK(%x, %k)"}},

		{"AveragePool over a cut", part{inputs: x("f64[1,2,5,4]"), nodes: "%y = AveragePool(%x; kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1])"}},
		{"AveragePool that counts pads", part{inputs: x("f64[1,2,5]"), nodes: "%y = AveragePool(%x; kernel_shape=[3], pads=[1,1], count_include_pad=1)"}},
		{"MaxPool", part{inputs: x("f64[1,2,5,4]"), nodes: "%y = MaxPool(%x; kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1])"}},
		{"GlobalAveragePool", part{inputs: x("f64[2,2,3]"), nodes: "%y = GlobalAveragePool(%x)"}},
		{"GlobalMaxPool", part{inputs: x("f64[2,2,3]"), nodes: "%y = GlobalMaxPool(%x)"}},
	} {
		It(c.name, differences(c.defaults()))
	}
	for _, c := range []struct {
		name string
		part
	}{
		{"Conv", part{inputs: []string{"x: f64[2,2,5]", "w: f64[3,2,3]", "b: f64[3]"}, nodes: "%y = Conv(%x, %w, %b; pads=[1,0])"}},
		{"Conv with strides that leave elements", part{inputs: []string{"x: f64[1,2,6,5]", "w: f64[2,2,3,2]"}, nodes: "%y = Conv(%x, %w; strides=[2,2], pads=[0,1,0,0])"}},
		{"Conv with dilations", part{inputs: []string{"x: f64[2,1,7]", "w: f64[2,1,3]"}, nodes: "%y = Conv(%x, %w; dilations=[2], strides=[2], pads=[1,1])"}},
		{"Conv of groups", part{inputs: []string{"x: f64[2,4,4]", "w: f64[6,2,2]"}, nodes: "%y = Conv(%x, %w; group=2, strides=[2])"}},
		{"Conv, depthwise", part{inputs: []string{"x: f64[2,3,4]", "w: f64[3,1,3]"}, nodes: "%y = Conv(%x, %w; group=3, pads=[1,1])"}},
		{"Conv with pads of its own", part{inputs: []string{"x: f64[1,1,6]", "w: f64[2,1,3]"}, nodes: "%y = Conv(%x, %w; auto_pad=\"SAME_LOWER\", strides=[2])"}},
		{"ConvTranspose", part{inputs: []string{"x: f64[2,2,3]", "w: f64[2,3,3]", "b: f64[3]"}, nodes: "%y = ConvTranspose(%x, %w, %b; strides=[2], pads=[1,0], output_padding=[1])"}},
		{"ConvTranspose of groups", part{inputs: []string{"x: f64[1,4,3]", "w: f64[4,1,2]"}, nodes: "%y = ConvTranspose(%x, %w; group=2, dilations=[2])"}},
		{"ConvTranspose to a shape", part{inputs: []string{"x: f64[1,1,3]", "w: f64[1,2,3]"}, nodes: "%y = ConvTranspose(%x, %w; strides=[2], output_shape=[6])"}},
	} {
		It(c.name, closed(c.defaults()))
	}
	It("Conv over open dims", func(ctx SpecContext) {
		p := part{inputs: []string{"x: f64[2,2,6,5]", "w: f64[3,2,3,2]"}, nodes: "%y = Conv(%x, %w; strides=[2,1], pads=[0,1,0,0])"}.defaults()
		p.check(ctx, strings.NewReplacer("f64[2,2,6,5]", "f64[N,2,H,W]").Replace)
	})
})

// defaults has what is not given: the newest operators, numbers around zero, two orders.
func (p part) defaults() part {
	if p.opset == 0 {
		p.opset = 24
	}
	if p.high == 0 {
		p.high = 2
	}
	if p.low == 0 {
		p.low = -p.high
	}
	if p.order == 0 {
		p.order = 2
	}
	return p
}
