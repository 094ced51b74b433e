package mkl

// Values of the library's enumerations that all versions share.
const (
	statusUnimplemented = 3

	engineCPU = 1

	dtypeF32 = 3
	dtypeS32 = 4
	dtypeS8  = 5
	dtypeU8  = 6

	tagAny = 1

	formatBlocked  = 2
	formatWinograd = 3 // of version 2

	forwardInference = 96

	convDirect   = 1
	convWinograd = 2
	deconvDirect = 0xa

	poolMax     = 0x1ff
	poolPadded  = 0x2ff
	poolInside  = 0x3ff
	lrnAcross   = 0xaff
	softmaxTrue = 0x30000
	softmaxLog  = 0x30001

	resampleNearest = 0x2fff0
	resampleLinear  = 0x2fff1

	queryImpl       = 8
	queryStrides    = 14
	querySrc        = 129
	queryWeights    = 131
	queryDst        = 133
	queryScratchpad = 136

	// Queries of memory descriptors, from version 3 on.
	queryDims       = 257
	queryPadded     = 260
	queryFormatKind = 262
	queryBlocks     = 263
	queryBlockSize  = 264
	queryBlockDim   = 265

	scratchpadUser = 1

	argSrc        = 1
	argSrc1       = 2
	argDst        = 17
	argWeights    = 33
	argBias       = 41
	argMean       = 49
	argVariance   = 50
	argScale      = 51
	argShift      = 52
	argScratchpad = 80
	argMany       = 1024

	useGlobalStats = 1
)

// Algorithms of two operands.
type binaryAlg int32

const (
	binaryAdd binaryAlg = 0x1fff0 + iota
	binaryMul
	binaryMax
	binaryMin
	binaryDiv
	binarySub
)

// Algorithms of reductions.
type reduceAlg int32

const (
	reduceMax reduceAlg = 0x2fff2 + iota
	reduceMin
	reduceSum
	reduceMul
	reduceMean
	reduceNormMax
	reduceNormSum
)

// eltwise names an element-wise algorithm; its number depends on the version.
type eltwise uint8

const (
	eltRelu eltwise = iota
	eltTanh
	eltElu
	eltSquare
	eltAbs
	eltSqrt
	eltLinear
	eltSoftRelu
	eltHardSigmoid
	eltLogistic
	eltExp
	eltGeluTanh
	eltSwish
	eltLog
	eltClip
	eltPow
	eltGeluErf
	eltRound
	eltMish
	eltHardSwish
)

// eltwiseNumbers are the algorithm numbers by major version; 0 where a version lacks one.
var eltwiseNumbers = map[int][]int32{
	2: {eltRelu: 0x1f, eltTanh: 0x2f, eltElu: 0x3f, eltSquare: 0x4f, eltAbs: 0x5f, eltSqrt: 0x6f, eltLinear: 0x7f, eltSoftRelu: 0x9f,
		eltHardSigmoid: 0, eltLogistic: 0xaf, eltExp: 0xbf, eltGeluTanh: 0xcf, eltSwish: 0xdf, eltLog: 0xef, eltClip: 0xff, eltPow: 0x20,
		eltGeluErf: 0x30, eltRound: 0x40, eltMish: 0x60, eltHardSwish: 0x70},
	3: {eltRelu: 32, eltTanh: 33, eltElu: 34, eltSquare: 35, eltAbs: 36, eltSqrt: 37, eltLinear: 38, eltSoftRelu: 39, eltHardSigmoid: 40,
		eltLogistic: 41, eltExp: 42, eltGeluTanh: 43, eltSwish: 44, eltLog: 45, eltClip: 46, eltPow: 48, eltGeluErf: 49, eltRound: 50,
		eltMish: 51, eltHardSwish: 52},
}

// Flags of normalisations, by major version.
func (l *library) useScale() int32 { return map[int]int32{2: 8, 3: 2}[l.major] }
func (l *library) useShift() int32 { return map[int]int32{2: 16, 3: 4}[l.major] }
