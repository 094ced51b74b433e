package plugin

// The structs of carve_plugin.h, member by member: specs compare sizes and offsets with what a C compiler prints. Pointers are
// machine words: what they point at lies outside of Go's heap. Structs that the host writes are allocated in a page; those
// that a plugin has written are read by view, which cuts them to their size.

// The version of the interface.
const (
	abiMajor = 1
	abiMinor = 1
)

// status is what functions of the interface return.
type status int32

const (
	statusOK              status = 0
	statusPending         status = 1
	statusFailed          status = -1
	statusNeedsContiguous status = -2
	statusRefused         status = -3
	statusOutOfMemory     status = -4
	statusCancelled       status = -5
	statusDeviceLost      status = -6
	statusNeedsShapes     status = -7
	statusBadArgument     status = -8
	statusNotImplemented  status = -9
)

type cStr struct {
	data uintptr
	len  uint64
}

type cError struct {
	size  uint32
	index int32
	text  uintptr
	cap   uint64
	len   uint64
}

type cFormat struct {
	size       uint32
	deviceType int32
	deviceID   int32
	_          uint32
	layout     cStr
}

type cTensor struct {
	size       uint32
	flags      uint32
	data       uintptr
	deviceType int32
	deviceID   int32
	ndim       int32
	dtypeCode  uint8
	dtypeBits  uint8
	dtypeLanes uint16
	shape      uintptr
	strides    uintptr
	byteOffset uint64
	bytes      int64
	typ        int32
	_          uint32
	format     uintptr
}

const tensorReadOnly = 1

type cValue struct {
	size     uint32
	typ      int32
	ndim     int32
	_        uint32
	dims     uintptr
	symbols  uintptr
	constant uintptr
	format   uintptr
	name     cStr
}

type cAttr struct {
	size    uint32
	typ     int32
	name    cStr
	f       float64
	i       int64
	s       cStr
	floats  uintptr
	ints    uintptr
	strings uintptr
	n       uint64
	tensor  uintptr
}

const noValue = ^uint32(0)

type cNode struct {
	size     uint32
	since    int32
	domain   cStr
	op       cStr
	name     cStr
	inputs   uintptr
	outputs  uintptr
	nInputs  uint32
	nOutputs uint32
	attrs    uintptr
	nAttrs   uint64
	body     uintptr
}

type cGraph struct {
	size       uint32
	nNodes     uint32
	nodes      uintptr
	values     uintptr
	nValues    uint32
	nInputs    uint32
	inputs     uintptr
	outputs    uintptr
	nOutputs   uint32
	nConstants uint32
	constants  uintptr
	onnx       uintptr
}

// Flags of a processor.
const (
	processorHostMemory = 1 << iota
	processorOwnThreads
	processorOneThread
	processorONNX
	processorRepeats
)

type cProcessor struct {
	size        uint32
	index       uint32
	deviceType  int32
	deviceID    int32
	flags       uint64
	memoryBytes int64
	name        cStr
	arch        cStr
	version     cStr
}

type cOp struct {
	size     uint32
	sinceMin int32
	sinceMax int32
	_        uint32
	domain   cStr
	name     cStr
	types    uint64
	digest   uint64
}

type cPortFormat struct {
	size     uint32
	variable uint32
	format   uintptr
}

type cFormats struct {
	size    uint32
	n       uint32
	formats uintptr
}

type cSignature struct {
	size       uint32
	nInputs    uint32
	nOutputs   uint32
	nVariables uint32
	name       cStr
	inputs     uintptr
	outputs    uintptr
	variables  uintptr
	extraNS    float64
}

type cSupport struct {
	size        uint32
	status      status
	reason      uint32
	nSignatures uint32
	signatures  uintptr
	ns          float64
	flops       float64
	bytes       float64
	text        uintptr
	cap         uint64
	len         uint64
}

type cClaim struct {
	size   uint32
	kind   uint32
	name   cStr
	nodes  uintptr
	nNodes uint64
	ns     float64
}

type cClaims struct {
	size   uint32
	n      uint32
	claims uintptr
}

type cOptions struct {
	size    uint32
	threads int32
	cancel  uintptr
}

type cSaved struct {
	size uint32
	_    uint32
	data uintptr
	len  uint64
}

type cBinding struct {
	symbol uint32
	_      uint32
	value  int64
}

const portStrided = 1

type cPort struct {
	size  uint32
	flags uint32
	bytes int64
	align int64
	first int32
	last  int32
}

type cBuffer struct {
	size  uint32
	first int32
	last  int32
	_     uint32
	bytes int64
	align int64
}

type cInPlace struct {
	output int32
	input  int32
}

type cConstantForm struct {
	size   uint32
	index  uint32
	format uintptr
}

type cLabel struct {
	size   uint32
	nNodes uint32
	name   cStr
	op     cStr
	nodes  uintptr
}

const requirementsNoReuse = 1

type cRequirements struct {
	size       uint32
	steps      int32
	flags      uint64
	inputs     uintptr
	outputs    uintptr
	buffers    uintptr
	nBuffers   uint64
	inplace    uintptr
	nInplace   uint64
	constants  uintptr
	nConstants uint64
	labels     uintptr
}

type cRun struct {
	size      uint32
	_         uint32
	inputs    uintptr
	outputs   uintptr
	constants uintptr
	buffers   uintptr
	cancel    uintptr
	run       uint64
}

type cMem struct {
	size    uint32
	_       uint32
	handle  uint64
	address uintptr
	bytes   int64
}

// Kinds of copies.
const (
	copyTo      = 1
	copyFrom    = 2
	copyBetween = 3
)

type cCopy struct {
	size       uint32
	kind       uint32
	dst        uint64
	dstOffset  uint64
	src        uint64
	srcOffset  uint64
	bytes      uint64
	dstBackend uint64
}

type cConverter struct {
	size      uint32
	index     uint32
	name      cStr
	from      uintptr
	to        uintptr
	types     uint64
	minRank   int32
	maxRank   int32
	fixedNS   float64
	nsPerByte float64
}

type cLive struct {
	size        uint32
	_           uint32
	executables int64
	instances   int64
	sessions    int64
	events      int64
	streams     int64
	blocks      int64
}

type cDim struct {
	value   int64
	symbol  uint32
	_       uint32
	factor  int64
	offset  int64
	divisor int64
}

type cResult struct {
	size uint32
	typ  int32
	ndim int32
	cap  uint32
	dims uintptr
}

const operatorRandom = 1

type cOperator struct {
	size      uint32
	flags     uint32
	sinceMin  int32
	sinceMax  int32
	domain    cStr
	name      cStr
	schema    cStr
	infer     uintptr
	workspace uintptr
	run       uintptr
}

type cProperty struct {
	size          uint32
	kind          uint32
	name          cStr
	backend       cStr
	attrs         uintptr
	nAttrs        uint64
	stateBytes    uint64
	select_       uintptr
	selectInput   uintptr
	selectOutput  uintptr
	filter        uintptr
	reset         uintptr
	claim         uintptr
	releaseClaims uintptr
	workspace     uintptr
	run           uintptr
}

type cONNX struct {
	size     uint32
	_        uint32
	data     uintptr
	len      uint64
	weights  uintptr
	nWeights uint64
}

type cPass struct {
	size    uint32
	flags   uint32
	name    cStr
	before  cStr
	after   cStr
	run     uintptr
	release uintptr
}

type cHost struct {
	size        uint32
	abiMinor    uint32
	ctx         uintptr
	alloc       uintptr
	free        uintptr
	log         uintptr
	parallelFor uintptr
	output      uintptr
	done        uintptr
}

// cTable is carve_plugin.
type cTable struct {
	size     uint32
	abiMajor uint32
	abiMinor uint32
	flags    uint32
	name     cStr
	version  cStr
	vendor   cStr

	processors uintptr
	open       uintptr
	close      uintptr
	live       uintptr
	lastError  uintptr

	operators     uintptr
	supports      uintptr
	claim         uintptr
	releaseClaims uintptr
	negotiate     uintptr

	compile         uintptr
	executableClose uintptr
	specialize      uintptr
	instanceClose   uintptr
	requirements    uintptr

	sessionOpen  uintptr
	enqueue      uintptr
	sessionClose uintptr

	eventPoll   uintptr
	eventWait   uintptr
	eventNotify uintptr
	eventClose  uintptr

	streamOpen   uintptr
	streamRecord uintptr
	streamWait   uintptr
	streamSync   uintptr
	streamClose  uintptr

	alloc      uintptr
	free       uintptr
	directFree uintptr
	releaseAll uintptr
	copy       uintptr
	copiesTo   uintptr

	converters    uintptr
	convertedSize uintptr
	convert       uintptr

	save uintptr
	load uintptr

	ownOperators  uintptr
	nOwnOperators uint64
	properties    uintptr
	nProperties   uint64
	passes        uintptr
	nPasses       uint64
}

type cQuery struct {
	size     uint32
	abiMajor uint32
	abiMinor uint32
	_        uint32
	host     uintptr
	err      uintptr
}
