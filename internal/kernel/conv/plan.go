package conv

import (
	"math"

	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// Plan is a convolution or pooling operator made ready for given shapes. It is immutable and safe for concurrent use.
type Plan struct {
	spec   Spec
	kind   kind
	order  weightOrder
	target isa.Target
	tiles  []channelTile
	groups []int32 // tiles of channel group i: tiles[groups[i]:groups[i+1]]
	spans  []span  // floats of unit i in a channel plane
	start  []float32

	proto       tileCall
	blocks      int // input channel blocks of one output
	callBlocks  int // of those, how many fit one call
	callUnits   int // units that fit one call
	chunkUnits  int
	unitChunks  int // chunks along the units
	splits      int // chunks of a channel group of as many units
	srcNeed     int
	dstNeed     int
	resNeed     int
	weightNeed  int
	biasNeed    int
	weightImage int // floats between the weights of two images, 0: all images have the same
	biasImage   int
	cost        int64
	tailLanes   int // lanes in use in the last output block, 16: all
	lastBlock   int
	needsWeight bool
	// Bytes from the source of a tile to that of the same tile of the next call, 0: none, and whether a first call has the weights fetched that the
	// next one reads.
	ahead          int64
	fetchesWeights bool
	parts          bool // calls compute parts of sums, of many units
	points         bool // sums are over whole blocks of channels, and Spec.points
	// Of a convolution by tiles: its units, rows or pixels, and of one by tiles of windows the segments of k, in bytes from a window's first pixel, and the
	// words of each.
	units, segmentWords int
	segments            []int
	wide                bool // rows fill tiles of 14 pixels, and are not taken for one long row
}

// kind is what a kernel computes.
type kind uint8

const (
	kindDense kind = iota
	kindDepth
	kindMax
	kindSum
	kindLanes
	kindPairs   // kindDense on words of two channels in bfloat16
	kindFloat16 // the same in float16
)

// dense reports whether a result is a sum over blocks of channels.
func (p *Plan) dense() bool {
	return p.kind == kindDense || p.kind == kindPairs || p.kind == kindFloat16
}

// maxBlocks is the largest number of output channel blocks of a tile.
const maxBlocks = 3

// channelTile is a run of output channel blocks that are computed together.
type channelTile struct {
	tileShape
	block  int  // first output channel block
	upper  bool // the second half of a block
	alone  bool // half of the last block, of which the second half has no channels
	source int  // bytes from the image to the first source channel block
	weight int  // bytes from the weights
	bytes  int  // of the weights of its blocks
	table  *table
}

// tileShape is what channel tiles that share a table have in common.
type tileShape struct {
	count int          // output channel blocks
	half  bool         // of the last of them half
	reads channelRange // orderMixed: what its block reads of the source
	skip  int          // of these channels, those that it does not read: so many, and then
	after int          // those behind so many more
}

// planarChannels is the most channels of a planar source: a list of taps has those of all.
const planarChannels = 16

// NewConv plans a convolution for a target. It returns an *Error: ErrShape for numbers
// that contradict each other or are too large, ErrUnsupported for a planar source with groups or more than 16 channels, and for a kernel so large that
// the taps of all kinds of tiles take more than 64 MiB.
func NewConv(t isa.Target, s Spec) (*Plan, error) {
	if s.Groups == 0 {
		s.Groups = 1
	}
	if err := s.Map.normal(s.Transposed, longestRow); err != nil {
		return nil, err
	}
	if s.N < 1 || s.C < 1 || s.OC < 1 || s.N > maxDim || s.C > maxDim || s.OC > maxDim {
		return nil, failf("plan", ErrShape, "N %d, C %d, OC %d", s.N, s.C, s.OC)
	}
	if s.Groups < 1 || s.C%s.Groups != 0 || s.OC%s.Groups != 0 {
		return nil, failf("plan", ErrShape, "%d groups of %d to %d channels", s.Groups, s.C, s.OC)
	}
	p := &Plan{spec: s, target: t, needsWeight: true}
	switch {
	case s.Pairs > pairs.Float16:
		return nil, failf("plan", ErrUnsupported, "type %d", uint8(s.Pairs))
	case s.Source == Pixels && (!TakesPixels(t, &s) || s.Stride != [2]int{1, 1}):
		return nil, failf("plan", ErrUnsupported, "pixels, target %v, %v, kernel %v, stride %v", t, s.Pairs, s.Kernel, s.Stride)
	case s.Pairs != pairs.Float32 && !s.Dense():
		return nil, failf("plan", ErrUnsupported, "%v, %d groups of %d to %d channels, layout %d", s.Pairs, s.Groups, s.C, s.OC, s.Source)
	case s.Source == Planar && s.Groups > 1:
		return nil, failf("plan", ErrUnsupported, "planar source, %d groups", s.Groups)
	case s.Source == Planar && s.C > planarChannels:
		return nil, failf("plan", ErrUnsupported, "planar source, %d channels", s.C)
	case s.Source == Planar:
		p.order = orderPlanar
	case s.Groups == s.C && s.C == s.OC && s.C > 1:
		p.kind, p.order = kindDepth, orderDepth
	case s.fewLanes():
		p.kind, p.order = kindLanes, orderLanes
	case s.Groups > 1 && (s.C/s.Groups%16 != 0 || s.OC/s.Groups%16 != 0):
		p.order = orderMixed
	}
	switch s.Pairs {
	case pairs.Float32:
	case pairs.BFloat16:
		p.kind = kindPairs
	case pairs.Float16:
		p.kind = kindFloat16
	}
	if !s.Pairs.On(t) {
		p.target.Set = isa.Portable
	}
	build := func() error { return p.build(nil) }
	switch {
	case s.Source == Pixels:
		build = p.buildPixels
	case TakesWindows(p.target, &s) && s.inside():
		build = p.buildWindows
	}
	if err := build(); err != nil {
		return nil, err
	}
	return p, nil
}

// Dense reports whether each result is a sum over whole blocks of channels, of a source in such: a convolution that Pairs may be set for.
func (s *Spec) Dense() bool {
	groups := max(s.Groups, 1)
	return s.Source != Planar && (groups == 1 || groups != s.C || s.C != s.OC) && !(s.C%groups == 0 && s.fewLanes())
}

// points reports whether there is a single tap, which all results reach.
func (s *Spec) points() bool {
	return s.Kernel == [2]int{1, 1} && s.Pad == [4]int{} && !s.Transposed && (s.OH-1)*s.Stride[0] < s.H && (s.OW-1)*s.Stride[1] < s.W
}

// flat reports whether a convolution, of a single tap, makes of each pixel one, so that its map is one long row.
func (s *Spec) flat() bool {
	return !s.Transposed && s.Kernel == [2]int{1, 1} && s.Stride == [2]int{1, 1} && s.Pad == [4]int{} && s.OH == s.H && s.OW == s.W
}

// lanes returns how many 32-bit elements a block of channels of the source has.
func (s *Spec) lanes() int {
	if s.Pairs != pairs.Float32 {
		return 8
	}
	return 16
}

// pixelBytes returns the bytes of a pixel in a block of channels of the source, or in its only channel.
func (s *Spec) pixelBytes() int {
	if s.Source == Planar {
		return 4
	}
	return 4 * s.lanes()
}

// sourcePlane returns the bytes between channel blocks of the source.
func (s *Spec) sourcePlane() int { return max(s.H*s.W*s.pixelBytes(), 4*s.srcPlane) }

// resultPlane returns the floats between channel blocks of the destination.
func (s *Spec) resultPlane() int { return max(16*s.OH*s.OW, s.dstPlane) }

// fewLanes reports whether there are groups and they have as many channels as results, two, four or eight: those of a result's group lie in its own
// block of 16 channels, as many to a side.
func (s *Spec) fewLanes() bool {
	n := s.C / max(s.Groups, 1)
	return s.Groups > 1 && s.C == s.OC && (n == 2 || n == 4 || n == 8) && !s.Transposed
}

// NewPool plans a pooling operator for a target. Errors are as for NewConv.
func NewPool(t isa.Target, s PoolSpec) (*Plan, error) {
	if err := s.Map.normal(false, longestPool); err != nil {
		return nil, err
	}
	if s.N < 1 || s.C < 1 || s.N > maxDim || s.C > maxDim {
		return nil, failf("plan", ErrShape, "N %d, C %d", s.N, s.C)
	}
	p := &Plan{
		spec: Spec{N: s.N, C: s.C, OC: s.C, Map: s.Map, Groups: s.C, SrcImage: s.SrcImage, DstImage: s.DstImage,
			ResImage: s.ResImage, Epilogue: s.Epilogue},
		order: orderNone, target: t,
	}
	start := float32(0)
	switch s.Pooling {
	case Max:
		p.kind = kindMax
		start = float32(math.Inf(-1))
	case Average, AveragePadded:
		p.kind = kindSum
	default:
		return nil, failf("plan", ErrUnsupported, "pooling %d", s.Pooling)
	}
	var padded *Map
	if s.Pooling == AveragePadded {
		padded = &s.Map
	}
	if err := p.build(padded); err != nil {
		return nil, err
	}
	for i := range p.start {
		p.start[i] = start
	}
	return p, nil
}

// build makes everything from p.spec, p.kind and p.order.
func (p *Plan) build(padded *Map) error {
	if err := p.sizes(); err != nil {
		return err
	}
	p.start = make([]float32, 16*maxBlocks)
	p.points = p.order == orderDense && p.spec.points()
	p.prototype()
	p.channelTiles()
	if err := p.plane(padded); err != nil {
		return err
	}
	p.chunks()
	return nil
}

// sizes computes how long operands are, and the distances between images.
func (p *Plan) sizes() error {
	s := &p.spec
	var err error
	srcChannels := s.lanes() * blocksOf(s.C)
	if s.Source == Planar {
		srcChannels = s.C
	}
	dstChannels := 16 * blocksOf(s.OC)
	if s.SrcImage, err = imageStride(s.N, srcChannels, s.H, s.W, s.SrcImage, "source"); err != nil {
		return err
	}
	if s.DstImage, err = imageStride(s.N, dstChannels, s.OH, s.OW, s.DstImage, "destination"); err != nil {
		return err
	}
	if s.ResImage, err = imageStride(s.N, dstChannels, s.OH, s.OW, s.ResImage, "residual"); err != nil {
		return err
	}
	if err := p.weights(); err != nil {
		return err
	}
	p.srcNeed = (s.N-1)*s.SrcImage + srcChannels*s.H*s.W
	p.dstNeed = (s.N-1)*s.DstImage + dstChannels*s.OH*s.OW
	if s.srcPlane > 0 {
		p.srcNeed = (blocksOf(s.C)-1)*s.srcPlane + 16*s.H*s.W
	}
	if s.dstPlane > 0 {
		p.dstNeed = (blocksOf(s.OC)-1)*s.dstPlane + 16*s.OH*s.OW
	}
	p.resNeed = (s.N-1)*s.ResImage + dstChannels*s.OH*s.OW
	p.biasNeed = dstChannels
	p.lastBlock = blocksOf(s.OC) - 1
	p.tailLanes = s.OC - 16*p.lastBlock
	return nil
}

// prototype fills the fields of a call that do not change.
func (p *Plan) prototype() {
	s, c := &p.spec, &p.proto
	pixel, tapBytes := s.pixelBytes(), 64
	c.full = 1
	switch p.order {
	case orderDense:
		tapBytes = 16 * pixel
		c.full, c.tail = int64(p.blocks), 0
		if s.C/s.Groups%16 != 0 {
			c.full, c.tail = c.full-1, 1
			c.rest = int64(s.C / s.Groups % 16)
		}
		c.srcBlk = int64(p.spec.sourcePlane())
	case orderLanes:
		tapBytes = 64 * s.C / s.Groups
	case orderDepth:
		c.srcBlk = int64(s.Dilate[0]) * int64(s.W) * int64(pixel)
	case orderPlanar: // one list of taps for all channels, as orderMixed has
		tapBytes = 64 * s.C
		c.srcBlk = int64(s.Dilate[0]) * int64(s.W) * int64(pixel)
	case orderMixed, orderNone:
	}
	c.wBlk = int64(s.Kernel[0]) * int64(s.Kernel[1]) * int64(tapBytes)
	c.wOC = c.wBlk * int64(p.blocks)
	c.dstOC = 4 * int64(s.resultPlane())
	c.step = int64(s.Dilate[1]) * 64
	if p.order == orderLanes {
		c.step = int64(s.C/s.Groups-2) * 64 // behind the tables of smaller groups
	}
	c.dstCol = 64
	c.srcCol = int64(pixel * s.Stride[1])
	if s.Transposed {
		c.srcCol, c.dstCol = int64(pixel), int64(64*s.Stride[1])
	}
	c.flags = s.limits()
	if p.points {
		c.flags |= flagPoints
	}
	if p.points && p.target.Set == isa.AVX2 && s.flat() {
		c.flags |= flagLine
	}
	if p.widePoints() {
		c.flags |= flagWidePoints
	}
	c.lo, c.hi = s.Lo, s.Hi
	for i := range p.tailLanes {
		c.mask[i] = math.MaxUint32
	}
}

// channelTiles cuts the output channel blocks into tiles.
func (p *Plan) channelTiles() {
	s := &p.spec
	plane := s.sourcePlane()
	wOC := int(p.proto.wOC)
	blocks := blocksOf(s.OC)
	switch {
	case !p.dense():
		for b := range blocks {
			w := 0
			if p.needsWeight {
				w = b * int(p.proto.wBlk)
			}
			p.tiles = append(p.tiles, channelTile{tileShape: tileShape{count: 1}, block: b, source: b * plane, weight: w})
		}
	case p.order == orderMixed:
		weight, taps := 0, s.Kernel[0]*s.Kernel[1]
		for b := range blocks {
			lo, hi := s.mixedRange(16*b, 16)
			bytes := 4 * s.lanes() * (hi - lo) * taps
			for _, t := range p.mixedTiles(b) {
				t.source, t.weight, t.bytes = lo/16*plane, weight, bytes
				p.tiles = append(p.tiles, t)
			}
			weight += bytes
		}
	default:
		groups := s.Groups
		perGroup := blocks / groups
		for g := range groups {
			whole := p.wholeTiles(perGroup)
			for b := 0; b < perGroup; {
				t := channelTile{tileShape: tileShape{count: perGroup - b, half: true}, alone: true}
				if b < whole {
					t = channelTile{tileShape: tileShape{count: pick(mostBlocks(p.target.Set), whole-b)}}
				}
				t.block, t.source, t.bytes = g*perGroup+b, g*p.blocks*plane, t.count*wOC
				t.weight = t.block * wOC
				p.tiles = append(p.tiles, t)
				b += t.count
			}
			if s.Source == Planar {
				break
			}
		}
	}
}

// wholeTiles returns how many of so many output channel blocks are in tiles of whole ones. Half a block at the end goes with the block before it,
// since alone it has a load for every multiply-add, but where a tile of two blocks would lack that one: its rows are longer, which counts at the
// edges of maps, of which a single tap has none (5x5 of 14x14 pixels, 40 channels, with AVX-512: 0.9 of the time). In portable Go all tiles have one block.
func (p *Plan) wholeTiles(blocks int) int {
	if !p.halves() || p.tailLanes > 8 {
		return blocks
	}
	whole := blocks - 1
	if whole > 0 && p.target.Set != isa.Portable && (whole%2 == 1 || p.points || mostBlocks(p.target.Set) == 1) {
		whole--
	}
	return whole
}

// mixedTiles returns the tiles of output channel block b, which spans groups: one, or one for each half where these read fewer channels, so
// that a tenth of the time is saved. A block that is handed to Post is one.
func (p *Plan) mixedTiles(b int) []channelTile {
	s := &p.spec
	lo, hi := s.mixedRange(16*b, 16)
	whole := channelTile{tileShape: tileShape{count: 1, reads: channelRange{lo % 16, hi - lo}}, block: b}
	if !p.halves() || s.Post != nil {
		return []channelTile{whole}
	}
	half := func(from int) channelTile {
		t := whole
		first, last := s.mixedRange(from, 8)
		t.half, t.skip, t.after = true, first-lo, hi-last
		return t
	}
	lower := half(16 * b)
	if 16*b+8 >= s.OC {
		lower.alone = true
		return []channelTile{lower}
	}
	upper := half(16*b + 8)
	upper.upper = true
	if 10*(lower.channels()+upper.channels()) > 18*whole.channels() {
		return []channelTile{whole}
	}
	return []channelTile{lower, upper}
}

// channels returns how many channels a tile reads.
func (t *tileShape) channels() int { return t.reads.count - t.skip - t.after }

// pick returns how many of left output channel blocks to compute together, of which a tile has room for most: two where it
// has, but three where their number is odd.
func pick(most, left int) int {
	if most < 3 {
		return 1
	}
	if left%2 == 1 {
		return min(left, 3)
	}
	return 2
}

// kernel returns the kernel for tiles of a shape. Where the processor computes wide vectors in
// halves, a tile of one block has a broadcast per multiply-add, which takes longer than the multiply-add; with vectors of
// 256 bits there are two multiply-adds per broadcast.
func (p *Plan) kernel(t tileShape) tileKernel {
	return kernelOf(p.target.Set, p.kind, t.count, t.half, p.splits512(), p.wide)
}

// splits512 reports whether vectors of 512 bits are used and computed in two halves, as a load of one is.
func (p *Plan) splits512() bool {
	return p.target.Set == isa.AVX512 && p.target.Features.Has(cpuid.Split512)
}

// widePoints reports whether a convolution with a single tap has the code of wide vectors for it. Where they are computed in halves, a step of the sums
// takes so long that what it reads comes in time without.
func (p *Plan) widePoints() bool { return p.points && p.target.Set == isa.AVX512 && !p.splits512() }

// halves reports whether half of a channel block takes about half of a block's time: where vectors of 256 bits are as fast as wider ones.
func (p *Plan) halves() bool {
	return p.kind == kindDense && (p.target.Set == isa.AVX2 || p.target.Set == isa.Portable || p.splits512())
}
