package backendtest

import "slices"

// network is a small network with branches, for tests of behaviour.
var network = testCase{"network", `
  opset 17
  input %x: f32[2,3,12,12]
  const %w = f32[16,3,3,3]{~}
  const %b = f32[16]{~}
  const %v = f32[16,16,3,3]{~}
  const %d = f32[16,10]{~}
  const %e = f32[10]{~}
  %c = Conv(%x, %w, %b; pads=[1,1,1,1])
  %r = Relu(%c)
  %k = Conv(%r, %v; pads=[1,1,1,1])
  %s = Add(%k, %r)
  %t = Relu(%s)
  %p = MaxPool(%t; kernel_shape=[2,2], strides=[2,2])
  %g = GlobalAveragePool(%p)
  %f = Flatten(%g)
  %m = MatMul(%f, %d)
  %n = Add(%m, %e)
  %y = Softmax(%n)
  output %y`}

// symbolic are cases with open dims.
var symbolic = []testCase{
	{"convolution", `
  opset 17
  input %x: f32[N,3,M,9]
  const %w = f32[8,3,3,3]{~}
  %c = Conv(%x, %w; pads=[1,1,1,1])
  %r = Relu(%c)
  %y = AveragePool(%r; kernel_shape=[2,2], strides=[1,2])
  output %y`},
	{"rows", `
  opset 17
  input %x: f32[N,M,12]
  const %w = f32[12,20]{~}
  const %b = f32[20]{~}
  %m = MatMul(%x, %w)
  %a = Add(%m, %b)
  %y = Softmax(%a)
  output %y`},
	{"products of activations", `
  opset 17
  input %a: f32[N,2,M,5]
  input %b: f32[N,2,M,5]
  %t = Transpose(%b; perm=[0,1,3,2])
  %y = MatMul(%a, %t)
  output %y`},
}

// unary is a case of an element-wise operator over activations of that shape.
func unary(name, call, shape string) testCase {
	return testCase{name, "\n  opset 20\n  input %x: f32[" + shape + "]\n  %y = " + call + "\n  output %y"}
}

// cases are the operators, single and in patterns that backends fuse.
var cases = slices.Concat(convolutions, products, pools, elements, moves, normalisations, patterns)

var convolutions = []testCase{
	conv("plain", "1,8,9,9", "16,8,3,3", ""),
	conv("of an image", "2,3,16,16", "8,3,3,3", "strides=[2,2], pads=[1,1,1,1]"),
	conv("pointwise", "1,32,7,7", "48,32,1,1", ""),
	conv("asymmetric pads", "1,16,8,10", "16,16,3,3", "pads=[0,1,2,1]"),
	conv("dilated", "1,16,12,12", "16,16,3,3", "dilations=[2,2], pads=[2,2,2,2]"),
	conv("same upper", "1,16,11,11", "16,16,3,3", `strides=[2,2], auto_pad="SAME_UPPER"`),
	conv("same lower", "1,16,10,10", "16,16,4,4", `auto_pad="SAME_LOWER"`),
	conv("two groups", "1,32,8,8", "32,16,3,3", "group=2, pads=[1,1,1,1]"),
	conv("groups off blocks", "1,12,8,8", "18,4,3,3", "group=3, pads=[1,1,1,1]"),
	conv("depthwise", "2,24,9,9", "24,1,3,3", "group=24, pads=[1,1,1,1]"),
	conv("depthwise, two outputs each", "1,8,9,9", "16,1,3,3", "group=8"),
	conv("channels off blocks", "1,17,5,5", "19,17,3,3", ""),
	conv("many channels", "1,64,14,14", "64,64,3,3", "pads=[1,1,1,1]"),
	conv("one dim", "2,16,20", "24,16,5", "pads=[2,2]"),
	conv("three dims", "1,4,6,6,6", "8,4,3,3,3", "pads=[1,1,1,1,1,1]"),
	transposed("plain", "1,16,5,5", "16,8,2,2", "strides=[2,2]"),
	transposed("overlapping", "1,8,6,6", "8,16,3,3", "strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]"),
	transposed("groups", "1,16,5,5", "16,4,3,3", "group=2"),
}

func conv(name, x, w, attrs string) testCase {
	return convolution("convolution, "+name, "Conv", x, w, attrs)
}

func transposed(name, x, w, attrs string) testCase {
	return convolution("transposed convolution, "+name, "ConvTranspose", x, w, attrs)
}

func convolution(name, op, x, w, attrs string) testCase {
	if attrs != "" {
		attrs = "; " + attrs
	}
	return testCase{name, "\n  opset 17\n  input %x: f32[" + x + "]\n  const %w = f32[" + w + "]{~}\n  %y = " + op + "(%x, %w" + attrs + ")\n  output %y"}
}

var products = []testCase{
	product("constant matrix", "4,12", "12,20", true),
	product("one row", "1,64", "64,33", true),
	product("batched rows", "2,3,5,8", "8,16", true),
	product("two activations", "3,5,7", "3,7,4", false),
	product("broadcast batch", "2,3,5,7", "1,3,7,4", false),
	product("batch of the second", "5,7", "3,7,4", false),
	product("vectors", "7", "7,4", true),
	{"general product", `
  opset 17
  input %x: f32[5,8]
  const %w = f32[12,8]{~}
  const %b = f32[12]{~}
  %y = Gemm(%x, %w, %b; transB=1)
  output %y`},
	{"general product with factors", `
  opset 17
  input %x: f32[8,5]
  const %w = f32[8,12]{~}
  const %b = f32[5,1]{~}
  %y = Gemm(%x, %w, %b; transA=1, alpha=0.5, beta=2.0)
  output %y`},
}

func product(name, a, b string, constant bool) testCase {
	second := "  input %w: f32[" + b + "]"
	if constant {
		second = "  const %w = f32[" + b + "]{~}"
	}
	return testCase{"product, " + name, "\n  opset 17\n  input %x: f32[" + a + "]\n" + second + "\n  %y = MatMul(%x, %w)\n  output %y"}
}

var pools = []testCase{
	unary("maximum pooling", "MaxPool(%x; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1])", "1,16,11,11"),
	unary("maximum pooling, ceil", "MaxPool(%x; kernel_shape=[3,3], strides=[2,2], ceil_mode=1)", "1,20,12,12"),
	unary("maximum pooling, windows side by side", "MaxPool(%x; kernel_shape=[2,2], strides=[2,2])", "2,16,8,6"),
	unary("average pooling, windows side by side", "AveragePool(%x; kernel_shape=[2,2], strides=[2,2])", "1,20,4,8"),
	unary("average pooling", "AveragePool(%x; kernel_shape=[3,3], pads=[1,1,1,1])", "2,16,8,8"),
	unary("average pooling, padding counted", "AveragePool(%x; kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1)", "1,8,8,8"),
	unary("average of everything", "GlobalAveragePool(%x)", "2,19,5,6"),
	unary("maximum of everything", "GlobalMaxPool(%x)", "1,32,5,5"),
}

var elements = []testCase{
	unary("relu", "Relu(%x)", "1,17,5,5"), unary("leaky relu", "LeakyRelu(%x; alpha=0.2)", "7,9"), unary("sigmoid", "Sigmoid(%x)", "1,17,5,5"),
	unary("tanh", "Tanh(%x)", "33"), unary("exp", "Exp(%x)", "2,18,3,3"), unary("abs", "Abs(%x)", "33"), unary("negative", "Neg(%x)", "33"),
	unary("elu", "Elu(%x; alpha=0.7)", "65"), unary("selu", "Selu(%x)", "65"), unary("hard sigmoid", "HardSigmoid(%x)", "65"),
	unary("hard swish", "HardSwish(%x)", "1,16,4,4"), unary("softplus", "Softplus(%x)", "65"), unary("gelu", "Gelu(%x)", "65"),
	unary("gelu by tanh", `Gelu(%x; approximate="tanh")`, "65"), unary("mish", "Mish(%x)", "65"), unary("round", "Round(%x)", "65"),
	binary("sum", "Add", "1,16,4,4", "1,16,4,4"), binary("difference", "Sub", "5,6", "5,6"), binary("product", "Mul", "1,17,4,4", "1,17,4,4"),
	binary("quotient", "Div", "5,6", "5,6"), binary("maximum", "Max", "5,6", "5,6"), binary("minimum", "Min", "5,6", "5,6"),
	binary("sum by channel", "Add", "2,16,4,4", "16,1,1"), binary("gate by channel", "Mul", "2,16,4,4", "2,16,1,1"),
	binary("sum by column", "Add", "5,6", "6"), binary("sum by row", "Add", "5,6", "5,1"), binary("broadcast first", "Add", "6", "5,6"),
	binary("difference, broadcast first", "Sub", "6", "5,6"), binary("both broadcast", "Mul", "5,1", "1,6"), binary("scalar", "Mul", "2,3,4", "1"),
}

func binary(name, op, a, b string) testCase {
	return testCase{name + " of two", "\n  opset 17\n  input %x: f32[" + a + "]\n  input %z: f32[" + b + "]\n  %e = Exp(%z)\n  %y = " + op + "(%x, %e)\n  output %y"}
}

var moves = []testCase{
	unary("transposition", "Transpose(%x; perm=[0,2,1,3])", "2,3,4,5"),
	unary("transposition of a matrix", "Transpose(%x)", "17,33"),
	{"slice", `
  opset 17
  input %x: f32[1,32,6,6]
  const %from = i64[1]{5}
  const %to = i64[1]{20}
  const %axis = i64[1]{1}
  %s = Slice(%x, %from, %to, %axis)
  %y = Relu(%s)
  output %y`},
	{"slice with steps", `
  opset 17
  input %x: f32[4,9,6]
  const %from = i64[2]{1, -1}
  const %to = i64[2]{9, -7}
  const %axis = i64[2]{1, 2}
  const %step = i64[2]{3, -2}
  %y = Slice(%x, %from, %to, %axis, %step)
  output %y`},
	{"split", `
  opset 13
  input %x: f32[2,18,4,4]
  const %parts = i64[2]{7, 11}
  %a, %b = Split(%x, %parts; axis=1)
  %y = Relu(%a)
  %z = Sigmoid(%b)
  output %y
  output %z`},
	{"concatenation", `
  opset 17
  input %x: f32[1,16,4,4]
  input %z: f32[1,20,4,4]
  %a = Relu(%x)
  %b = Relu(%z)
  %y = Concat(%a, %b; axis=1)
  output %y`},
	{"concatenation off blocks", `
  opset 17
  input %x: f32[2,7,4,4]
  input %z: f32[2,12,4,4]
  %a = Relu(%x)
  %b = Relu(%z)
  %y = Concat(%a, %b; axis=1)
  output %y`},
	{"concatenation of the last", `
  opset 17
  input %x: f32[2,3,4]
  input %z: f32[2,3,5]
  %y = Concat(%x, %z; axis=2)
  output %y`},
	{"reshape", `
  opset 17
  input %x: f32[2,16,3,3]
  const %s = i64[3]{2, -1, 9}
  %r = Relu(%x)
  %v = Reshape(%r, %s)
  %y = Exp(%v)
  output %y`},
	{"resize, nearest", `
  opset 13
  input %x: f32[1,16,4,5]
  const %scale = f32[4]{1, 1, 2, 2}
  %y = Resize(%x, _, %scale; mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
  output %y`},
	{"resize, linear", `
  opset 13
  input %x: f32[1,16,4,5]
  const %size = i64[4]{1, 16, 9, 10}
  %y = Resize(%x, _, _, %size; mode="linear")
  output %y`},
	{"channel shuffle", `
  opset 17
  input %x: f32[1,24,4,4]
  const %s = i64[5]{1, 2, 12, 4, 4}
  const %u = i64[4]{1, 24, 4, 4}
  %a = Reshape(%x, %s)
  %b = Transpose(%a; perm=[0,2,1,3,4])
  %y = Reshape(%b, %u)
  output %y`},
}

var normalisations = []testCase{
	unary("softmax", "Softmax(%x)", "3,4,17"), unary("softmax of a middle axis", "Softmax(%x; axis=1)", "3,17,4"),
	unary("logarithm of softmax", "LogSoftmax(%x)", "3,17"), unary("response normalisation", "LRN(%x; size=5)", "1,16,5,5"),
	unary("mean of columns", "ReduceMean(%x; keepdims=0)", "3,4,17"),
	{"sum of axes", `
  opset 17
  input %x: f32[2,16,5,5]
  const %axes = i64[2]{2, 3}
  %y = ReduceSum(%x, %axes)
  output %y`},
	{"maximum of the last", `
  opset 17
  input %x: f32[4,33]
  %y = ReduceMax(%x; axes=[1])
  output %y`},
	{"layer normalisation", `
  opset 17
  input %x: f32[4,5,24]
  const %s = f32[24]{+}
  const %b = f32[24]{~}
  %y = LayerNormalization(%x, %s, %b)
  output %y`},
	{"batch normalisation", `
  opset 17
  input %x: f32[2,18,5,5]
  const %s = f32[18]{+}
  const %b = f32[18]{~}
  const %m = f32[18]{~}
  const %v = f32[18]{+}
  %n = BatchNormalization(%x, %s, %b, %m, %v)
  %y = Relu(%n)
  output %y`},
}

var patterns = []testCase{
	{"convolution, sum and activation", `
  opset 17
  input %x: f32[1,16,8,8]
  const %w = f32[16,16,3,3]{~}
  const %b = f32[16]{~}
  %r = Relu(%x)
  %c = Conv(%r, %w, %b; pads=[1,1,1,1])
  %s = Add(%c, %r)
  %y = Relu(%s)
  output %y`},
	{"a residual that others read", `
  opset 17
  input %x: f32[1,17,8,8]
  const %w = f32[17,17,1,1]{~}
  %r = Sigmoid(%x)
  %c = Conv(%r, %w)
  %s = Add(%r, %c)
  %t = Relu(%s)
  %y = Mul(%t, %r)
  output %y`},
	{"convolution with gate", `
  opset 17
  input %x: f32[1,8,6,6]
  const %w = f32[16,8,1,1]{~}
  %c = Conv(%x, %w)
  %g = Sigmoid(%c)
  %y = Mul(%c, %g)
  output %y`},
	{"attention", `
  opset 17
  input %q: f32[2,5,3,8]
  input %k: f32[2,5,3,8]
  input %v: f32[2,5,3,8]
  const %scale = f32[]{2.5}
  %a = Transpose(%q; perm=[0,2,1,3])
  %b = Transpose(%k; perm=[0,2,3,1])
  %c = Transpose(%v; perm=[0,2,1,3])
  %m = MatMul(%a, %b)
  %d = Div(%m, %scale)
  %s = Softmax(%d)
  %o = MatMul(%s, %c)
  %y = Transpose(%o; perm=[0,2,1,3])
  output %y`},
	{"product with bias, sum and activation", `
  opset 20
  input %x: f32[2,5,12]
  input %r: f32[2,5,20]
  const %w = f32[12,20]{~}
  const %b = f32[20]{~}
  %m = MatMul(%x, %w)
  %a = Add(%m, %b)
  %s = Add(%a, %r)
  %y = Gelu(%s)
  output %y`},
	{"a growing concatenation", `
  opset 17
  input %x: f32[1,16,6,6]
  const %w = f32[16,16,1,1]{~}
  const %v = f32[16,32,1,1]{~}
  %r = Relu(%x)
  %a = Conv(%r, %w)
  %p = Concat(%r, %a; axis=1)
  %b = Conv(%p, %v)
  %y = Concat(%r, %a, %b; axis=1)
  output %y`},
}
