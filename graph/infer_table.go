package graph

// onnxInfer returns the function that infers the results of an operator of ONNX; nil where there is none. One function
// serves all versions: it asks the node's schema where they differ. A switch rather than a map costs nothing at start-up.
func onnxInfer(domain, name string) func(*Inference) error {
	switch domain {
	case "":
		if f := inferTensorOp(name); f != nil {
			return f
		}
		return inferStructuralOp(name)
	case "ai.onnx.ml":
		return inferMLOp(name)
	case "ai.onnx.preview.training":
		switch name {
		case "Adagrad", "Adam", "Momentum":
			return inferOptimizer
		case "Gradient":
			return inferGradient
		}
	case "ai.onnx.preview":
		if name == "FlexAttention" {
			return inferFlexAttention
		}
	}
	return nil
}

// keepsShape reports whether an operator computes every element from the one at its place, or all results have the shape of operand 0
// for another reason.
func keepsShape(name string) bool {
	switch name {
	case "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp",
		"Floor", "Gelu", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LRN", "LeakyRelu", "Log", "MeanVarianceNormalization",
		"Mish", "Not", "Reciprocal", "RegexFullMatch", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
		"Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu":
		return true
	}
	return false
}

// broadcasts reports whether an operator is an element-wise one whose operands broadcast with each other.
func broadcasts(name string) bool {
	switch name {
	case "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual", "Less",
		"LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow", "StringConcat", "Sub", "Sum", "Xor":
		return true
	}
	return false
}

// inferTensorOp is the table of operators that compute.
//
//nolint:funlen // a table
func inferTensorOp(name string) func(*Inference) error {
	switch {
	case keepsShape(name):
		return inferSame
	case broadcasts(name):
		return inferBroadcast
	}
	switch name {
	case "Abs", "Neg", "Relu":
		return inferUnary
	case "Hardmax", "LogSoftmax", "LpNormalization", "Softmax":
		return inferAxisSame
	case "CumProd", "CumSum":
		return inferCumulative
	case "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
		"ReduceSum", "ReduceSumSquare":
		return inferReduce
	case "ArgMax", "ArgMin":
		return inferArg
	case "Conv":
		return inferConv
	case "ConvInteger":
		return inferConvInteger
	case "QLinearConv":
		return inferQLinearConv
	case "DeformConv":
		return inferDeformConv
	case "ConvTranspose":
		return inferConvTranspose
	case "CausalConvWithState":
		return inferCausalConvWithState
	case "AveragePool", "LpPool", "MaxPool":
		return inferPool
	case "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool":
		return inferGlobalPool
	case "MaxUnpool":
		return inferMaxUnpool
	case "Col2Im":
		return inferCol2Im
	case "MatMul", "MatMulInteger":
		return inferMatMul
	case "QLinearMatMul":
		return inferQLinearMatMul
	case "Gemm":
		return inferGemm
	case "Einsum":
		return inferEinsum
	case "Attention":
		return inferAttention
	case "LinearAttention":
		return inferLinearAttention
	case "RotaryEmbedding":
		return inferSame
	case "BatchNormalization":
		return inferBatchNormalization
	case "InstanceNormalization":
		return inferInstanceNormalization
	case "GroupNormalization":
		return inferGroupNormalization
	case "LayerNormalization", "RMSNormalization":
		return inferLayerNormalization
	case "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss":
		return inferLoss
	case "GRU", "LSTM", "RNN":
		return inferRecurrent
	case "QuantizeLinear":
		return inferQuantizeLinear
	case "DequantizeLinear":
		return inferDequantizeLinear
	case "DynamicQuantizeLinear":
		return inferDynamicQuantizeLinear
	case "DFT":
		return inferDFT
	case "STFT":
		return inferSTFT
	case "Det":
		return inferDet
	case "GridSample":
		return inferGridSample
	case "AffineGrid":
		return inferAffineGrid
	case "MaxRoiPool", "RoiAlign":
		return inferRoi
	case "Resize":
		return inferResize
	case "Upsample":
		return inferUpsample
	case "Dropout":
		return inferDropout
	case "PRelu":
		return inferPRelu
	case "Clip":
		return inferClip
	case "SwiGLU":
		return inferSwiGLU
	}
	return nil
}

// inferStructuralOp is the table of operators that move, make or hold values.
//
//nolint:funlen // a table
func inferStructuralOp(name string) func(*Inference) error {
	switch name {
	case "Identity":
		return inferIdentity
	case "Cast":
		return inferCast
	case "CastLike":
		return inferCastLike
	case "BitCast":
		return inferBitCast
	case "Where":
		return inferWhere
	case "Reshape":
		return inferReshape
	case "Flatten":
		return inferFlatten
	case "Squeeze":
		return inferSqueeze
	case "Unsqueeze":
		return inferUnsqueeze
	case "Transpose":
		return inferTranspose
	case "Shape":
		return inferShape
	case "Size":
		return inferSize
	case "Expand":
		return inferExpand
	case "Tile":
		return inferTile
	case "Concat":
		return inferConcat
	case "Split":
		return inferSplit
	case "Slice":
		return inferSlice
	case "Pad":
		return inferPad
	case "CenterCropPad":
		return inferCenterCropPad
	case "DepthToSpace":
		return inferDepthToSpace
	case "SpaceToDepth":
		return inferSpaceToDepth
	case "Trilu":
		return inferMinRank
	case "ReverseSequence":
		return inferReverseSequence
	case "Gather":
		return inferGather
	case "GatherElements":
		return inferGatherElements
	case "GatherND":
		return inferGatherND
	case "Scatter", "ScatterElements":
		return inferScatterElements
	case "ScatterND":
		return inferScatterND
	case "TensorScatter":
		return inferTensorScatter
	case "OneHot":
		return inferOneHot
	case "TopK":
		return inferTopK
	case "NonZero":
		return inferNonZero
	case "Compress":
		return inferCompress
	case "Unique":
		return inferUnique
	case "NonMaxSuppression":
		return inferNonMaxSuppression
	case "Constant":
		return inferConstant
	case "ConstantOfShape":
		return inferConstantOfShape
	case "Range":
		return inferRange
	case "RandomNormal", "RandomUniform":
		return inferRandom
	case "Bernoulli", "EyeLike", "RandomNormalLike", "RandomUniformLike":
		return inferDtypeLike
	case "Multinomial":
		return inferMultinomial
	case "BlackmanWindow", "HammingWindow", "HannWindow":
		return inferWindowFunction
	case "MelWeightMatrix":
		return inferMelWeightMatrix
	case "StringNormalizer":
		return inferStringNormalizer
	case "StringSplit":
		return inferStringSplit
	case "TfIdfVectorizer":
		return inferTfIdfVectorizer
	case "ImageDecoder":
		return inferImageDecoder
	case "SequenceAt":
		return inferSequenceAt
	case "SequenceConstruct":
		return inferSequenceConstruct
	case "SequenceEmpty":
		return inferSequenceEmpty
	case "SequenceErase":
		return inferSequenceErase
	case "SequenceInsert":
		return inferSequenceInsert
	case "SequenceLength", "OptionalHasElement":
		return inferScalar
	case "SplitToSequence":
		return inferSplitToSequence
	case "ConcatFromSequence":
		return inferConcatFromSequence
	case "SequenceMap":
		return inferSequenceMap
	case "Optional":
		return inferOptional
	case "OptionalGetElement":
		return inferOptionalGetElement
	case "If":
		return inferIf
	case "Loop":
		return inferLoop
	case "Scan":
		return inferScan
	}
	return nil
}

// inferMLOp is the table of ai.onnx.ml.
func inferMLOp(name string) func(*Inference) error {
	switch name {
	case "Binarizer", "Imputer", "Normalizer", "Scaler":
		return inferSame
	case "ArrayFeatureExtractor":
		return inferArrayFeatureExtractor
	case "CastMap":
		return inferCastMap
	case "CategoryMapper":
		return inferCategoryMapper
	case "DictVectorizer":
		return inferDictVectorizer
	case "FeatureVectorizer":
		return inferFeatureVectorizer
	case "LabelEncoder":
		return inferLabelEncoder
	case "LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier":
		return inferClassifier
	case "LinearRegressor", "SVMRegressor", "TreeEnsemble", "TreeEnsembleRegressor":
		return inferRegressor
	case "OneHotEncoder":
		return inferOneHotEncoder
	case "ZipMap":
		return inferZipMap
	}
	return nil
}
