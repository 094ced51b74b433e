package conv

import "unsafe"

// The kernels of this package are interpreters of small programs. A tile is up to 14 output pixels of one or two rows
// times one to three blocks of 16 output channels, held in registers. Its program is a list of taps: a tap says where
// its source pixels and its weights lie and which pixels of the tile it reaches (at an edge of the map some of them have
// no source pixel under that tap). For every subset of pixels that occurs often there is a separate loop in assembly, of which the
// others are put together, and the tap holds its address, so that padding costs nothing: a tap that falls outside is neither computed nor
// tested for.

// tap is one entry of a tap list. The list ends with a tap whose body is the end of the list.
type tap struct {
	src   int64   // bytes from the source of the tile in the current channel block
	w     int64   // bytes from the weights of the current channel block
	count int64   // 64 times the number of steps: each moves on by 64 bytes in the weights and by a channel or tap in the source, or, for rows, by one of the kernel in both
	body  uintptr // code that handles this tap's subset of pixels (in portable Go: the number of the subset)
}

const tapSize = int64(unsafe.Sizeof(tap{}))

// tile is one tile of an output plane. Offsets are in bytes from the pointers of a tileCall.
type tile struct {
	taps  int64 // tap list for full channel blocks
	tail  int64 // tap list for the last, partial channel block
	src   int64
	dst   int64
	n0    int64 // pixels in group A
	n1    int64 // pixels in group B
	scale int64 // offset into the scale table (average pooling)
	// single is 1 where the list for full blocks is one tap, for whole rows of a kernel over group A and B as one: of a depthwise one, or of all channels of a planar source.
	single int64
}

const tileSize = int64(unsafe.Sizeof(tile{}))

// Flags of a tileCall.
const (
	flagAccumulate = 1 << iota // start from what dst holds, not from bias
	flagMax                    // result = max(result, lo)
	flagMin                    // result = min(result, hi)
	flagMask                   // and the last channel block with mask
	flagHalf                   // of a kernel with passes: one pass alone
	flagAlone                  // and zeros where the other would store
	flagPoints                 // there is a single tap, which whole tiles reach
	flagWidePoints             // the same of kernels of vectors of 512 bits
	flagLine                   // AVX2, with flagPoints: the map is one long row, so that pixels lie beside each other; depthwise: those of a tile's result do
	flagPlanes                 // AVX2: the source is planar, and tiles may be single
)

// tileCall is the argument of a kernel: tiles to compute for one set of output channel blocks. The generator checks the
// offsets of the fields, so change them together.
type tileCall struct {
	src, w, dst, res, bias unsafe.Pointer
	taps                   unsafe.Pointer // base of tile.taps and tile.tail
	scale                  unsafe.Pointer // base of tile.scale
	tiles                  unsafe.Pointer
	n                      int64 // tiles, at least one
	srcCol                 int64 // bytes between source pixels of neighbouring output pixels
	srcGroup               int64 // bytes from the source of pixel group A to that of group B
	dstCol                 int64
	dstGroup               int64
	srcBlk                 int64 // bytes between input channel blocks; depthwise and planar: between rows under neighbouring rows of the kernel
	wBlk                   int64 // bytes of weights between input channel blocks
	wOC                    int64 // bytes of weights between output channel blocks
	dstOC                  int64 // bytes between output channel blocks
	full                   int64 // full input channel blocks
	tail                   int64 // 1 where a partial block follows
	flags                  int64
	lo, hi                 float32
	left, list, listTail   int64 // scratch of the kernel
	at                     int64 // scratch: address of the tile, an integer because it ends behind the last one
	step                   int64 // bytes that a step moves on in the source (dense kernels: always 4)
	pass                   int64 // bytes to the channels of the pass that a kernel with passes begins with: 0 without flagHalf
	ahead                  int64 // bytes from the source of a block of channels to what is fetched meanwhile; 0: nothing is
	aheadW, aheadEnd       int64 // address of the weights that are fetched meanwhile, which the kernel moves on, and of their end
	rest                   int64 // channels of the partial block
	mask                   [16]uint32
	sums                   [float16Pixels]pixelRow // scratch of kernels of float16: what is added up in float32
	aheadPairs             int64                   // AVX2: how many pairs of lines of those weights are fetched at a time, at least one
}

// float16Pixels is the number of pixels of their tiles.
const float16Pixels = 6
