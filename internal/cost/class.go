package cost

import (
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Other is the class of operators that have none of their own.
const Other = "other"

// block is the number of channels, or columns, that kernels work on at a time: operations on padding to whole blocks count.
const block = 16

// fewChannels is the most input channels of a convolution that reads an image.
const fewChannels = 4

// thinRows is the most rows of a product whose time is that of reading its constant operand.
const thinRows = 4

// operators are the classes of those whose class depends on nothing but the element type.
var operators = map[string]string{}

// families lists them.
var families = map[string][]string{
	"add": {"Add", "Sub", "Mul", "Div", "Relu", "Neg", "Abs", "Min", "Max", "Sum", "Mean", "Clip", "LeakyRelu", "PRelu", "ThresholdedRelu",
		"Floor", "Ceil", "Round", "Sign", "Sqrt", "Reciprocal", "Shrink"},
	"hard": {"HardSwish", "HardSigmoid"},
	"exp":  {"Exp", "Log", "Sigmoid", "Softplus", "Softsign", "Elu", "Selu", "Celu", "Mish", "Swish"},
	"tanh": {"Tanh"},
	"erf":  {"Erf", "Gelu"},
	"pow":  {"Pow", "Mod"},
	"sin":  {"Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"},
	"compare": {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Not", "Xor", "Where", "IsNaN", "IsInf",
		"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"},
	"concat":    {"Concat", "Split"},
	"slice":     {"Slice"},
	"pad":       {"Pad"},
	"expand":    {"Expand", "Tile"},
	"transpose": {"Transpose", "DepthToSpace", "SpaceToDepth"},
	"gather":    {"Gather", "GatherND", "Compress", "ReverseSequence"},
	"pick":      {"GatherElements"},
	"scatter":   {"ScatterElements", "ScatterND", "Scatter", "TensorScatter"},
	"cast":      {"Cast", "CastLike"},
	"quantize":  {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"},
	"norm": {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "GroupNormalization", "InstanceNormalization",
		"LpNormalization", "MeanVarianceNormalization"},
	"scale":     {"BatchNormalization"},
	"lrn":       {"LRN"},
	"pool":      {"MaxPool", "MaxUnpool"},
	"pool-mean": {"AveragePool", "LpPool", "QLinearAveragePool"},
	"mean":      {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "QLinearGlobalAveragePool"},
	"resize":    {"Resize", "Upsample"},
	"sample":    {"GridSample", "RoiAlign", "AffineGrid", "MaxRoiPool"},
	"order":     {"TopK", "NonMaxSuppression", "NonZero", "Unique"},
	"argmax":    {"ArgMax", "ArgMin"},
	"scan":      {"CumSum", "CumProd"},
	"view":      {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"},
	"fill":      {"Constant", "ConstantOfShape", "Range", "EyeLike", "Shape", "Size", "OneHot", "Trilu"},
	"reduce": {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
		"ReduceLogSum", "ReduceLogSumExp"},
	"softmax":        {"Softmax", "LogSoftmax", "Hardmax"},
	"conv":           {"Conv"},
	"conv-transpose": {"ConvTranspose"},
	"conv-int":       {"ConvInteger", "QLinearConv"},
	"product":        {"MatMul", "Gemm"},
	"product-int":    {"MatMulInteger", "QLinearMatMul"},
	"recurrent":      {"LSTM", "GRU", "RNN"},
	"attention":      {"Attention"},
}

func init() {
	for class, ops := range families {
		for _, op := range ops {
			operators[op] = class
		}
	}
}

// multiplies reports whether a class is of operators whose operations are counted.
func multiplies(class string) bool {
	return strings.HasPrefix(class, "conv") || strings.HasPrefix(class, "product") || class == "recurrent"
}

// moves reports whether operators of a class only say where elements lie: what is fused with them reads or writes there.
func moves(class string) bool {
	switch class {
	case "view", "slice", "slice-joined", "concat", "concat-joined", "pad", "expand", "transpose", "transpose-rows":
		return true
	}
	return false
}

// integral are the classes of elementwise operators that have another on elements other than float32.
var integral = map[string]string{"add": "add-other", "hard": "add-other", "exp": "pow-other", "tanh": "pow-other", "erf": "pow-other", "pow": "pow-other", "sin": "pow-other", "reduce": "reduce-other", "product": "product-other",
	"conv": "conv-other", "conv-transpose": "conv-other"}

// classOf returns the class of a node that is not fused; o are the shapes of its operands and results.
func classOf(n *graph.Node, o *operands) string {
	if n.Op.Domain == microsoft {
		return microsoftClass(n, o)
	}
	class, ok := operators[n.Op.Name]
	if !ok || n.Op.Domain != "" {
		return Other
	}
	if other := integral[class]; other != "" && !float32s(n) {
		return other
	}
	switch class {
	case "conv":
		return convClass(n, o.in(1))
	case "conv-int":
		return onIntegers(convClass(n, o.weights(n)), o.weights(n))
	case "product-int":
		return onIntegers(productClass(n, o), nil)
	case "conv-transpose":
		if n.Int("group", 1) > 1 {
			return "conv-transpose-grouped"
		}
	case "product":
		return productClass(n, o)
	case "cast":
		if !usual(n.Input(0)) || !usual(n.Output(0)) {
			return "cast-small"
		}
	case "add":
		if o.broadcasts() {
			return "broadcast"
		}
	case "reduce":
		if !o.reducesLast(n) {
			return "reduce-outer"
		}
	case "concat":
		if o.joined(n) {
			return "concat-joined"
		}
	case "slice":
		if o.cut() {
			return "slice-joined"
		}
	case "transpose":
		if p, ok := n.Ints("perm"); ok && len(p) > 0 && p[len(p)-1] == int64(len(p)-1) {
			return "transpose-rows"
		}
	case "softmax":
		if axis := n.Int("axis", -1); axis != -1 && axis != int64(len(o.out())-1) {
			return "softmax-outer"
		}
	case "resize":
		if n.Str("mode", "nearest") != "nearest" {
			return "resize-linear"
		}
	}
	return class
}

// float32s reports whether the first operand, or the result of a node without one, has float32 elements.
func float32s(n *graph.Node) bool {
	v := n.Input(0)
	if v == nil {
		v = n.Output(0)
	}
	return v != nil && v.Type.DType == tensor.Float32
}

// usual reports whether a value's elements are those that shape arithmetic and tokens have, or float32.
func usual(v *graph.Value) bool {
	return v != nil && (v.Type.DType == tensor.Float32 || v.Type.DType == tensor.Int64 || v.Type.DType == tensor.Int32)
}

// convClass is the class of a convolution with weights of these dims: whatever kernels tell apart.
func convClass(n *graph.Node, w []float64) string {
	if len(w) < 3 {
		return "conv"
	}
	groups := max(float64(n.Int("group", 1)), 1)
	taps := product(w[2:])
	dilations, _ := n.Ints("dilations")
	dilated := slices.ContainsFunc(dilations, func(d int64) bool { return d > 1 })
	switch {
	case groups > 1 && w[1] == 1 && w[0] == groups && len(w) == 3:
		return "conv-depthwise-line"
	case groups > 1 && w[1] == 1 && w[0] == groups:
		return "conv-depthwise"
	case groups > 1 && len(w) == 3:
		return "conv-grouped-line"
	case groups > 1 && whole(w[1]) && whole(w[0]/groups):
		return "conv-grouped"
	case groups > 1:
		return "conv-mixed"
	case len(w) == 3 && w[1] <= fewChannels:
		return "conv-line-few"
	case len(w) == 3:
		return "conv-line"
	case len(w) == 5 && w[1] <= fewChannels:
		return "conv-volume-few"
	case len(w) == 5:
		return "conv-volume"
	case w[1] <= fewChannels:
		return "conv-few"
	case dilated:
		return "conv-dilated"
	case taps == 1:
		return "conv-point"
	case !whole(w[1]) || !whole(w[0]):
		return "conv-odd"
	}
	return "conv"
}

// whole reports whether n is a whole number of blocks.
func whole(n float64) bool { return n == pad(n) }

// microsoft is the domain of ONNX Runtime's own operators.
const microsoft = "com.microsoft"

// microsoftClass tells those of them that multiply from the others: nobody but a backend with kernels of its own runs them in a time that
// elements say.
func microsoftClass(n *graph.Node, o *operands) string {
	switch {
	case n.Op.Name == "MatMulNBits":
		if m, _, _, _ := o.productDims(n); m <= thinRows {
			return "product-thin"
		}
		return "product"
	case strings.HasSuffix(n.Op.Name, "Attention"):
		return "product-batch"
	}
	return Other
}

// productClass is the class of a matrix product.
func productClass(n *graph.Node, o *operands) string {
	k := 1
	if n.Is("QLinearMatMul") {
		k = quantisedWeights
	}
	if v := n.Input(k); v == nil || !constant(v) && !dequantisedConstant(v) || len(o.in(k)) != 2 {
		return "product-batch"
	}
	if m, _, _, _ := o.productDims(n); m <= thinRows {
		return "product-thin"
	}
	return "product"
}
