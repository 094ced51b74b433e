// Package microsoft has the operators of ONNX Runtime's own domains, which its optimiser, its quantiser and its tools for transformers
// write into models.
//
// # Where to start
//
// Whoever runs models needs nothing of it: carve.Compile calls [Expand], which replaces nodes by standard operators where these say the
// same, so that every backend, fusion and report works on them. An own operator has a schema and a kernel that every backend's fallback
// runs. [Operators] lists them.
//
// # Operators
//
// Of com.microsoft:
//
//	standard
//
//	Attention, BeamSearch, BiasAdd, BiasDropout, BiasGelu, BiasSoftmax, BiasSplitGelu, BranchwiseRMSNorm, CDist, CausalConvWithState,
//	ConvTransposeWithDynamicPads, DecoderMaskedMultiHeadAttention, DequantizeLinear, DynamicQuantizeLSTM, DynamicQuantizeMatMul,
//	EmbedLayerNormalization, EngramGate, ExpandDims, FastGelu, FusedConv, FusedGemm, FusedMatMul, FusedMatMulActivation, GatedAdd,
//	GatedRMSNorm, GatherBlockQuantized, GatherND, Gelu, GemmFastGelu, GreedySearch, GridSample, GroupNorm, GroupQueryAttention,
//	HyperConnectionPostMix, HyperConnectionPreMix, IsAllFinite, LinearAttentionGate, MRotaryEmbedding, MatMulBnb4, MatMulInteger16,
//	MatMulIntegerToFloat, MatMulNBits, MulInteger, MultiHeadAttention, NhwcConv, NhwcFusedConv, NhwcMaxPool, Pad, QAttention,
//	QEmbedLayerNormalization, QGemm, QLinearAdd, QLinearAveragePool, QLinearConcat, QLinearConv, QLinearGlobalAveragePool,
//	QLinearLeakyRelu, QLinearMul, QLinearReduceMean, QLinearSigmoid, QLinearSoftmax, QLinearWhere, QuantizeLinear, QuickGelu, Range,
//	ReduceSumInteger, RotaryEmbedding, SampleOp, Sampling, ScaledSiLU, SkipGroupNorm, SkipLayerNormalization,
//	SkipSimplifiedLayerNormalization, TorchEmbedding, TransposeMatMul, Trilu, UnfoldTensor, Unique, WhisperBeamSearch
//
//	own
//
//	BifurcationDetector, CropAndResize, DynamicTimeWarping, Inverse, LinearAttention, MoE, MurmurHash3, NGramRepeatBlock, QMoE,
//	SparseAttention, Tokenizer, WordConvEmbedding
//
//	refused: ONNX Runtime has it on devices, or for one of them, alone
//
//	BitmaskBiasDropout, BitmaskDropout, ComplexMul, ComplexMulConj, DecoderAttention, DecoderMaskedSelfAttention, DequantizeBFP,
//	DequantizeWithOrder, DynamicSparseAttention, EPContext, GatedDeltaNet, GatedRelativePositionBias, GemmFloat8,
//	GemmaRotaryEmbedding, Irfft, LongformerAttention, MatMulBlockQuantizedFp4Weight, MatMulBlockQuantizedFp8Weight, MatMulNBitsMlp,
//	MatMulNBitsQkv, PackedAttention, PackedMultiHeadAttention, PackedSparseAttentionIndexer, PagedAttention, QOrderedAttention,
//	QOrderedGelu, QOrderedLayerNormalization, QOrderedLongformerAttention, QOrderedMatMul, QuantizeBFP, QuantizeWithOrder,
//	RelativePositionBias, RemovePadding, RestorePadding, Rfft, Snpe, SparseAttentionIndexer, SparsePagedAttention,
//	VarlenCausalConvWithState
//
//	refused: operands are sparse tensors, or weights as ONNX Runtime packs them for one processor
//
//	MatMulFpQ4, SparseToDenseMatMul
//
//	refused: no tool that is known writes it
//
//	AttnLSTM, MaxpoolWithMask, NGramHashMapping, VarlenNGramHashMapping
//
// MatMulNBits with operands of float32 or half precision and constant weights of 4 bits in blocks of 32 and more stays what it is, with a kernel that reads
// weights as 4 bits; so do those of 8 bits where a backend has a kernel for them, of 2, and those in blocks of 16, which are read as 4 bits
// or as bytes. At accuracy_level 4 it rounds rows to 8 bits, block by block, where the processor has instructions for their products, as ONNX
// Runtime does; other levels are of float32, or with VNNI of 24 bits with a scale for each block of a row, which is as near. GroupQueryAttention stays
// where a backend on host memory has a kernel for it, its batch may be other than one, or its caches have room for a window only
// (sliding_window_cache): a batch that is known to be one, as carve.Options.Dims may say, has standard operators elsewhere.
//
// MoE and QMoE run the chosen experts alone. Where a backend has a kernel for them, tokens are brought into the order of their experts, and
// weights are read as those of MatMulNBits are; with a few tokens they are not made floats. At accuracy_level 4 rows are rounded to 8 bits
// likewise, where weights have blocks; ONNX Runtime does that with blocks of 8 bits at every level, with which results
// differ by a hundredth. Weights in floating point of 4 and 8 bits, those packed for a device, and sparse mixers are refused.
//
// Backends may have a kernel for LinearAttention, too. It and CausalConvWithState have no windows of several states, and convolutions with a state one
// axis, as on ONNX Runtime's processor. SparseAttention is a plain kernel.
//
// Domain com.ms.internal.nhwc is refused: ONNX Runtime has it while it compiles for a device, and no kernel for the processor.
//
// All of com.microsoft.nchwc, which a model has that is saved with all optimisations, become standard: AveragePool, Conv,
// GlobalAveragePool, GlobalMaxPool, MaxPool, ReorderInput, ReorderOutput, Upsample. Such a model is made for one kind of processor, and
// does not say which: blocks have as many channels as weights say, and where these fit both, as they have on this processor.
//
// Of the default domain, LayerNormalization before version 17 and SimplifiedLayerNormalization, which ONNX Runtime has there, become
// standard.
//
// So do the experiments of ONNX's operator sets 1 to 9, which converters from Caffe2, CNTK and Core ML wrote: Affine, ConstantFill, Crop, DynamicSlice,
// ImageScaler, ParametricSoftplus, Scale, ScaledTanh, and MeanVarianceNormalization before version 9 and ThresholdedRelu before version 10. ATen,
// GivenTensorFill and GRUUnit are refused.
//
// GreedySearch, Sampling, BeamSearch and WhisperBeamSearch become their first step, and a Loop of the others, so that all passes see the decoder: of models
// of type 0, decoders with a cache as GPT-2's, 1, an encoder and a decoder as T5's, and 2, as Whisper's, whose encoder reads features of sound, with the rules
// for tokens of times (logits_processor 1). Sampling with a seed takes the tokens that ONNX Runtime takes on Linux, without one those of seed 1; a presence
// mask counts for all tokens. Decoders that share one buffer for past and present, products of cross attention, the probability that nobody speaks and
// filtered logits are refused. What follows in sequences that have ended is padding, which ONNX Runtime leaves as it was in memory where GreedySearch ends
// early, and scores of steps that are not needed are 0.
//
// DynamicQuantizeLSTM rounds the sequence and the hidden states to 8 bits, as ONNX Runtime does; of rows of unlike lengths, states count as long as
// their rows last. With peepholes, a clip, coupled
// gates or other activations weights alone are rounded, so that results are nearer to those without quantisation.
//
// An operator that needs a rank, or a number for a dim, that the model leaves open stays until a run tells it (Waits, ExpandFor, OpenDims).
//
// What differs from ONNX Runtime: quantised element-wise operators compute in float32 and round once, ties to even. Rows of a
// prompt of GroupQueryAttention behind its length have no meaning. Attention and MultiHeadAttention do not keep past and present in
// one buffer.
//
// The package imports graph, graph/tensor and internal/cpuid of carve, nothing else.
package microsoft
