// Package gradient differentiates parts of graphs: it replaces the operator Gradient of ai.onnx.preview.training by ordinary nodes.
//
// # Where to start
//
// Whoever runs models needs nothing of it: carve.Compile calls [Expand], so that every backend and pass sees operators that it knows.
//
// # What a Gradient node means
//
// Its attributes name values of the graph that it stands in. Of y as a function of xs and zs, the sum of its elements is differentiated by
// each of xs, at the points that the node's inputs are, which are usually the values named. Values named in xs and zs count as independent of
// each other. What else y depends on is a constant, as zs are; in a region, that may be no value of the graph around. A value that y does not
// depend on has the derivative zero. y may be computed from results of other Gradient nodes: derivatives of higher order.
//
// # Rules
//
// Differentiation goes backwards over the nodes between y and xs. An operator has a rule, which adds to the derivatives by its operands what follows from
// those by its results, or a definition in others that have. Where an operator has a kink, the derivative there is one of its two sides; that of a
// maximum of equal elements is shared among them. Integers, comparisons and what rounds have the derivative zero. By operator:
//
//	rules
//
//	Abs, Acos, Acosh, Add, Asin, Asinh, Atan, Atanh, Cast, CastLike, Celu, Clip, Concat, Conv, ConvTranspose, Cos, Cosh, CumSum, Div,
//	Dropout, Einsum, Elu, Erf, Exp, Expand, Flatten, Gather, Gemm, HardSigmoid, HardSwish, Identity, LeakyRelu, Log, LogSoftmax, MatMul,
//	Max, Mean, Min, Mod, Mul, Neg, PRelu, Pad, Pow, Reciprocal, ReduceLogSumExp, ReduceMax, ReduceMean, ReduceMin, ReduceSum, Relu,
//	Reshape, ScatterElements, ScatterND, Selu, Shrink, Sigmoid, Sin, Sinh, Slice, Softmax, Softplus, Softsign, Split, Sqrt, Squeeze, Sub,
//	Sum, Tan, Tanh, ThresholdedRelu, Transpose, Trilu, Unsqueeze, Where
//
//	definitions
//
//	AveragePool, BatchNormalization, Compress, DepthToSpace, GatherElements, GatherND, Gelu, GlobalAveragePool, GlobalMaxPool,
//	GroupNormalization, InstanceNormalization, LayerNormalization, LpNormalization, MaxPool, MeanVarianceNormalization, Mish,
//	NegativeLogLikelihoodLoss, Pad, RMSNormalization, ReduceL1, ReduceL2, ReduceLogSum, ReduceSumSquare,
//	ReverseSequence, Slice, SoftmaxCrossEntropyLoss, SpaceToDepth, Swish, Tile, TopK
//
// Others, control flow and sequences among them, are an [Error].
//
// The package imports graph and graph/tensor of carve, nothing else.
package gradient
