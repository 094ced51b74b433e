package conv

import (
	"math"
	"unsafe"

	"github.com/carve-dev/carve/internal/cpuid"
)

// Plan is a convolution or pooling operator made ready for given shapes. It is immutable and safe for concurrent use.
type Plan struct {
	spec   Spec
	kind   kind
	form   weightForm
	level  cpuid.Level
	tables [maxBlocks + 1]*table // by output channel blocks of a tile
	ids    [maxBlocks + 1]kernelID
	tiles  []channelTile
	groups []int32 // tiles of channel group i: tiles[groups[i]:groups[i+1]]
	spans  []span  // floats of unit i in a channel plane
	start  []float32

	proto       tileCall
	blocks      int // input channel blocks (planar: channels) of one output
	callBlocks  int // of those, how many fit one call
	callUnits   int // units that fit one call
	chunkUnits  int
	unitChunks  int // chunks along the units
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
}

// kind is what a kernel computes.
type kind uint8

const (
	kindDense kind = iota
	kindDepth
	kindMax
	kindSum
)

// maxBlocks is the largest number of output channel blocks of a tile.
const maxBlocks = 3

// channelTile is a run of output channel blocks that are computed together.
type channelTile struct {
	block  int // first output channel block
	count  int
	source int // bytes from the image to the first source channel block
	weight int // bytes from the weights
}

const (
	maxCallSteps  = 300_000 // multiply-adds of 16 lanes in one call: about 80 µs at one per cycle
	chunkSteps    = 150_000 // wanted in a chunk
	minChunkSteps = 20_000  // below this, cutting costs more than it gains
	weightsInL2   = 384 << 10
	sourceInL1    = 16 << 10
	tileInL1      = 16 << 10 // results between two calls of Post
)

// NewConv plans a convolution for the best kernels of this machine (cpuid.Best). It returns an *Error: ErrShape for numbers
// that contradict each other, ErrUnsupported for a planar source with groups.
func NewConv(s Spec) (*Plan, error) {
	if s.Groups == 0 {
		s.Groups = 1
	}
	if err := s.Map.normal(s.Transposed); err != nil {
		return nil, err
	}
	if s.N < 1 || s.C < 1 || s.OC < 1 || s.N > maxDim || s.C > maxDim || s.OC > maxDim {
		return nil, failf("plan", ErrShape, "N %d, C %d, OC %d", s.N, s.C, s.OC)
	}
	if s.Groups < 1 || s.C%s.Groups != 0 || s.OC%s.Groups != 0 {
		return nil, failf("plan", ErrShape, "%d groups of %d to %d channels", s.Groups, s.C, s.OC)
	}
	p := &Plan{spec: s, level: cpuid.Best(), needsWeight: true}
	switch {
	case s.Source == Planar && s.Groups > 1:
		return nil, failf("plan", ErrUnsupported, "planar source, %d groups", s.Groups)
	case s.Source == Planar:
		p.form = formPlanar
	case s.Groups == s.C && s.C == s.OC && s.C > 1:
		p.kind, p.form = kindDepth, formDepth
	case s.Groups > 1 && (s.C/s.Groups%16 != 0 || s.OC/s.Groups%16 != 0):
		p.form = formMixed
	}
	if err := p.build(nil); err != nil {
		return nil, err
	}
	return p, nil
}

// NewPool plans a pooling operator for the best kernels of this machine. Errors are as for NewConv.
func NewPool(s PoolSpec) (*Plan, error) {
	if err := s.Map.normal(false); err != nil {
		return nil, err
	}
	if s.N < 1 || s.C < 1 || s.N > maxDim || s.C > maxDim {
		return nil, failf("plan", ErrShape, "N %d, C %d", s.N, s.C)
	}
	p := &Plan{
		spec: Spec{N: s.N, C: s.C, OC: s.C, Map: s.Map, Groups: s.C, SrcImage: s.SrcImage, DstImage: s.DstImage,
			ResImage: s.ResImage, Epilogue: s.Epilogue},
		form: formNone, level: cpuid.Best(),
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

// build makes everything from p.spec, p.kind and p.form.
func (p *Plan) build(padded *Map) error {
	s := &p.spec
	var err error
	srcChannels := 16 * blocksOf(s.C)
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
	p.resNeed = (s.N-1)*s.ResImage + dstChannels*s.OH*s.OW
	p.biasNeed = dstChannels
	p.lastBlock = blocksOf(s.OC) - 1
	p.tailLanes = s.OC - 16*p.lastBlock
	p.start = make([]float32, 16*maxBlocks)
	p.prototype()
	p.channelTiles()
	p.plane(padded)
	p.chunks()
	return nil
}

// prototype fills the fields of a call that do not change.
func (p *Plan) prototype() {
	s, c := &p.spec, &p.proto
	pixel, tapBytes := 64, 64
	c.full = 1
	switch p.form {
	case formDense, formMixed:
		tapBytes = 1024
		c.full, c.tail = int64(p.blocks), 0
		if p.form == formDense && s.C/s.Groups%16 != 0 {
			c.full, c.tail = c.full-1, 1
		}
		c.srcBlk = int64(s.H) * int64(s.W) * 64
	case formPlanar:
		pixel = 4
		c.full = int64(s.C)
		c.srcBlk = int64(s.H) * int64(s.W) * 4
	}
	c.wBlk = int64(s.Kernel[0]) * int64(s.Kernel[1]) * int64(tapBytes)
	c.wOC = c.wBlk * int64(p.blocks)
	c.dstOC = int64(s.OH) * int64(s.OW) * 64
	c.step = int64(s.Dilate[1]) * 64
	c.dstCol = 64
	c.srcCol = int64(pixel * s.Stride[1])
	if s.Transposed {
		c.srcCol, c.dstCol = int64(pixel), int64(64*s.Stride[1])
	}
	c.flags = s.limits()
	c.lo, c.hi = s.Lo, s.Hi
	for i := range p.tailLanes {
		c.mask[i] = math.MaxUint32
	}
}

// channelTiles cuts the output channel blocks into tiles.
func (p *Plan) channelTiles() {
	s := &p.spec
	plane := s.H * s.W * 64
	wOC := int(p.proto.wOC)
	blocks := blocksOf(s.OC)
	switch {
	case p.kind != kindDense:
		for b := range blocks {
			w := 0
			if p.kind == kindDepth {
				w = b * int(p.proto.wBlk)
			}
			p.tiles = append(p.tiles, channelTile{block: b, count: 1, source: b * plane, weight: w})
		}
	case p.form == formMixed:
		for b := range blocks {
			p.tiles = append(p.tiles, channelTile{block: b, count: 1, source: s.mixedStart(b, p.blocks) * plane, weight: b * wOC})
		}
	default:
		groups := s.Groups
		perGroup := blocks / groups
		for g := range groups {
			for b := 0; b < perGroup; {
				n := pick(p.level, perGroup-b)
				first := g*perGroup + b
				p.tiles = append(p.tiles, channelTile{block: first, count: n, source: g * p.blocks * plane, weight: first * wOC})
				b += n
			}
			if s.Source == Planar {
				break
			}
		}
	}
}

// pick returns how many of left output channel blocks to compute together: two, but three where their number is odd.
func pick(level cpuid.Level, left int) int {
	if level != cpuid.AVX512 {
		return 1
	}
	if left%2 == 1 {
		return min(left, 3)
	}
	return 2
}

// plane makes the tile tables.
func (p *Plan) plane(padded *Map) {
	s := &p.spec
	lattices := p.lattices(padded)
	flat := p.kind <= kindDepth && !s.Transposed && s.Kernel == [2]int{1, 1} && s.Stride == [2]int{1, 1} &&
		s.Pad == [4]int{} && s.OH == s.H && s.OW == s.W
	used := [maxBlocks + 1]bool{}
	for _, t := range p.tiles {
		used[t.count] = true
	}
	main := 0
	for q := range used {
		if used[q] && (main == 0 || q == 2) {
			main = q
		}
	}
	var rows, cols int
	for i := range lattices {
		rows, cols = max(rows, lattices[i].y.n), max(cols, lattices[i].x.n)
	}
	g := geometryOf(p.level, p.kind, main)
	pairs := !flat && rows > 1 && cols <= g.group && g.pixels == 2*g.group
	segment := s.H * s.W
	if flat {
		// So many pixels that their source stays in the L1 cache while all output channels are computed.
		per := max(1, sourceInL1/(g.pixels*64*p.blocks))
		segment = per * g.pixels
	}
	for q := range used {
		if !used[q] {
			continue
		}
		g := geometryOf(p.level, p.kind, q)
		var bodies []uintptr
		p.ids[q], bodies = kernelOf(p.level, p.kind, q)
		t := newTable(g, bodies)
		t.pairs = pairs && g.pixels == 2*g.group
		if flat {
			t.flat(&lattices[0], segment)
		} else {
			t.rowUnits(lattices, rows, pairs)
		}
		t.done()
		p.tables[q] = t
	}
	p.spansOf(flat, pairs, segment, rows)
}

// flat makes units of segments of a map that is one long row.
func (t *table) flat(l *lattice, segment int) {
	l.x.n, l.y.n = l.x.n*l.y.n, 1
	l.x.size, l.y.size = l.x.size*l.y.size, 1
	eachSegment(l.x.n, segment, func(from, n int) {
		t.unit = append(t.unit, int32(len(t.tiles)))
		t.addRow(0, l, 0, from, n)
	})
	t.unit = append(t.unit, int32(len(t.tiles)))
}

// eachSegment cuts n pixels into segments; a short rest joins the last one.
func eachSegment(n, segment int, f func(from, n int)) {
	for from := 0; from < n; {
		w := min(segment, n-from)
		if rest := n - from - w; rest < segment/4 {
			w += rest
		}
		f(from, w)
		from += w
	}
}

// rowUnits makes units of one row, or two, of every lattice.
func (t *table) rowUnits(ls []lattice, rows int, pairs bool) {
	step := 1
	if pairs {
		step = 2
	}
	for row := 0; row < rows; row += step {
		t.unit = append(t.unit, int32(len(t.tiles)))
		for id := range ls {
			l := &ls[id]
			switch {
			case row >= l.y.n || l.x.n == 0:
			case t.pairs:
				t.addPair(id, l, row)
			default:
				for r := row; r < min(row+step, l.y.n); r++ {
					t.addRow(id, l, r, 0, l.x.n)
				}
			}
		}
	}
	t.unit = append(t.unit, int32(len(t.tiles)))
}

// spansOf computes the part of a channel plane that each unit fills.
func (p *Plan) spansOf(flat, pairs bool, segment, rows int) {
	s := &p.spec
	if flat {
		eachSegment(s.H*s.W, segment, func(from, n int) { p.spans = append(p.spans, span{16 * from, 16 * (from + n)}) })
		return
	}
	per := 1
	if s.Transposed {
		per = s.Stride[0]
	}
	step := per
	if pairs {
		step *= 2
	}
	for row := 0; row < rows*per; row += step {
		lo, hi := min(row, s.OH), min(row+step, s.OH)
		p.spans = append(p.spans, span{16 * s.OW * lo, 16 * s.OW * hi})
	}
}

// lattices returns the sets of output pixels of the spec.
func (p *Plan) lattices(padded *Map) []lattice {
	s := &p.spec
	base := lattice{sourceRow: s.W, sourcePixel: 64, tapBytes: 64, kernelWidth: s.Kernel[1], padded: padded}
	switch p.form {
	case formDense, formMixed:
		base.tapBytes, base.steps = 1024, 16
		if p.proto.tail != 0 {
			base.tailSteps = s.C % 16
		}
	case formPlanar:
		base.sourcePixel, base.steps, base.merge = 4, 1, 1
	}
	if p.kind != kindDense {
		base.countsPixels, base.merge = p.kind == kindSum, s.Dilate[1]
	}
	if !s.Transposed {
		base.y = convAxis(s.H, s.OH, s.Kernel[0], s.Stride[0], s.Dilate[0], s.Pad[0])
		base.x = convAxis(s.W, s.OW, s.Kernel[1], s.Stride[1], s.Dilate[1], s.Pad[1])
		base.dstRow, base.dstCol = s.OW, 1
		return []lattice{base}
	}
	var out []lattice
	for py := range min(s.Stride[0], s.OH) {
		for px := range min(s.Stride[1], s.OW) {
			l := base
			l.y = phaseAxis(s.H, s.OH, s.Kernel[0], s.Stride[0], s.Dilate[0], s.Pad[0], py)
			l.x = phaseAxis(s.W, s.OW, s.Kernel[1], s.Stride[1], s.Dilate[1], s.Pad[1], px)
			l.dst = py*s.OW + px
			l.dstRow, l.dstCol = s.Stride[0]*s.OW, s.Stride[1]
			out = append(out, l)
		}
	}
	return out
}

// chunks decides how the work is cut into calls and chunks.
func (p *Plan) chunks() {
	units := len(p.spans)
	blocks := int64(max(1, p.blocks))
	if p.kind != kindDense {
		blocks = 1
	}
	stepsOf := func(t channelTile) int64 {
		// A tile costs at least its fixed overhead of some 30 cycles.
		tab := p.tables[t.count]
		return tab.steps*blocks*int64(t.count) + 30*int64(len(tab.tiles))
	}
	var total, most int64
	for _, t := range p.tiles {
		total += stepsOf(t)
		most = max(most, stepsOf(t))
	}
	p.cost = total * int64(p.spec.N)
	want := max(minChunkSteps, min(chunkSteps, p.cost/16))
	// Channel groups: what shares a source while its weights stay in the L2 cache.
	p.groups = append(p.groups, 0)
	var bytes, steps int64
	for i, t := range p.tiles {
		b, c := int64(0), stepsOf(t)
		if p.kind == kindDense {
			b = p.proto.wOC * int64(t.count)
		}
		full := bytes+b > weightsInL2
		if p.kind != kindDense {
			full = steps+c > want
		}
		if i > 0 && full {
			p.groups = append(p.groups, int32(i))
			bytes, steps = 0, 0
		}
		bytes, steps = bytes+b, steps+c
	}
	p.groups = append(p.groups, int32(len(p.tiles)))
	groupCost := max(1, total/int64(len(p.groups)-1)/int64(units))
	p.chunkUnits = int(max(1, min(int64(units), (want+groupCost/2)/groupCost)))
	p.unitChunks = (units + p.chunkUnits - 1) / p.chunkUnits
	p.chunkUnits = (units + p.unitChunks - 1) / p.unitChunks
	p.unitChunks = (units + p.chunkUnits - 1) / p.chunkUnits

	perUnit := max(1, most/int64(units))
	p.callUnits = int(max(1, maxCallSteps/perUnit))
	if p.kind == kindDense && len(p.tiles) > 1 {
		unitBytes := p.spec.sourceBytesPerUnit(units, p.blocks)
		p.callUnits = max(1, min(p.callUnits, sourceInL1/max(1, unitBytes)))
	}
	if p.spec.Post != nil {
		widest := 1
		for _, sp := range p.spans {
			widest = max(widest, 4*(sp.hi-sp.lo))
		}
		p.callUnits = max(1, min(p.callUnits, tileInL1/widest))
	}
	p.callBlocks = int(blocks)
	if perUnit > maxCallSteps && p.kind == kindDense {
		// One unit alone is too long: cut it along the input channels, which continues the same chain of sums.
		p.callBlocks = int(max(1, blocks*maxCallSteps/perUnit))
	}
}

// sourceBytesPerUnit estimates the source that one unit reads.
func (s *Spec) sourceBytesPerUnit(units, blocks int) int {
	pixel := 64
	if s.Source == Planar {
		pixel = 4
	}
	return s.H * s.W / max(1, units) * pixel * blocks * min(s.Kernel[0], 3)
}

// Chunks returns the number of chunks that Run accepts, at least 1. They take about equally long.
func (p *Plan) Chunks() int { return p.spec.N * (len(p.groups) - 1) * p.unitChunks }

// Workspace returns the bytes of scratch memory that Run needs with that many goroutines: none for any plan at present.
func (p *Plan) Workspace(threads int) int64 { return 0 }

// Cost estimates the work of all chunks in multiply-adds of 16 lanes, about cycles of a processor that does one per cycle.
func (p *Plan) Cost() int64 { return p.cost }

// Shape returns the sizes of the destination: images, channels, height and width.
func (p *Plan) Shape() (n, oc, oh, ow int) { return p.spec.N, p.spec.OC, p.spec.OH, p.spec.OW }

// Tensors are the operands of Run.
type Tensors struct {
	Src     []float32
	Weights []float32 // as PackWeights made them; nil for pooling
	Bias    []float32 // 16*ceil(OC/16) floats, zero behind OC; nil: none
	// Residual is added before the limits; it may be Dst itself. It is read only if the spec says so.
	Residual []float32
	Dst      []float32
}

func (p *Plan) check(t *Tensors) error {
	for _, b := range []struct {
		name      string
		have, min int
		want      bool
	}{
		{"source", len(t.Src), p.srcNeed, true},
		{"destination", len(t.Dst), p.dstNeed, true},
		{"weights", len(t.Weights), p.weightNeed, p.needsWeight},
		{"residual", len(t.Residual), p.resNeed, p.spec.Residual},
		{"bias", len(t.Bias), p.biasNeed, t.Bias != nil},
	} {
		if b.want && b.have < b.min {
			return failf("run", ErrBuffer, "%s has %d floats, needs %d", b.name, b.have, b.min)
		}
	}
	return nil
}

// Run computes chunks [lo, hi) out of Chunks(). Dst must not overlap Src. The error is ErrBuffer for a short slice or
// ErrShape for a range outside the chunks; nothing is written then. work is scratch memory of the calling goroutine
// (Workspace), not used at present.
func (p *Plan) Run(lo, hi int, work []float32, t *Tensors) error {
	if lo < 0 || hi > p.Chunks() || lo > hi {
		return failf("run", ErrShape, "chunks [%d, %d) of %d", lo, hi, p.Chunks())
	}
	if err := p.check(t); err != nil {
		return err
	}
	c := p.proto
	groups := len(p.groups) - 1
	for i := lo; i < hi; i++ {
		u := i % p.unitChunks
		g := i / p.unitChunks % groups
		n := i / p.unitChunks / groups
		p.chunk(&c, t, n, int(p.groups[g]), int(p.groups[g+1]), u*p.chunkUnits, min((u+1)*p.chunkUnits, len(p.spans)))
	}
	return nil
}

// chunk computes channel tiles [t0, t1) of units [u0, u1) of image n.
func (p *Plan) chunk(c *tileCall, t *Tensors, n, t0, t1, u0, u1 int) {
	s := &p.spec
	src := unsafe.Pointer(&t.Src[n*s.SrcImage])
	for u := u0; u < u1; u += p.callUnits {
		end := min(u+p.callUnits, u1)
		for i := t0; i < t1; i++ {
			ct := &p.tiles[i]
			plane := n*s.DstImage + ct.block*s.OH*s.OW*16
			c.src = unsafe.Add(src, ct.source)
			c.dst = unsafe.Pointer(&t.Dst[plane])
			if s.Residual {
				c.res = unsafe.Pointer(&t.Residual[n*s.ResImage+ct.block*s.OH*s.OW*16])
			}
			if t.Bias != nil && p.needsWeight {
				c.bias = unsafe.Pointer(&t.Bias[n*p.biasImage+16*ct.block])
			} else {
				c.bias = unsafe.Pointer(&p.start[0])
			}
			if p.needsWeight {
				c.w = unsafe.Add(unsafe.Pointer(&t.Weights[n*p.weightImage]), ct.weight)
			}
			p.call(c, ct, u, end)
			if s.Post != nil {
				p.post(t.Dst, plane, ct, p.spans[u].lo, p.spans[end-1].hi)
			}
		}
	}
}

// call computes one channel tile of units [u0, u1).
func (p *Plan) call(c *tileCall, ct *channelTile, u0, u1 int) {
	tab := p.tables[ct.count]
	first, last := tab.unit[u0], tab.unit[u1]
	if first == last {
		return
	}
	c.taps = unsafe.Pointer(&tab.taps[0])
	if len(tab.scales) > 0 {
		c.scale = unsafe.Pointer(&tab.scales[0])
	}
	c.srcGroup, c.dstGroup = c.srcCol*int64(tab.group), c.dstCol*int64(tab.group)
	if tab.pairs {
		c.srcGroup, c.dstGroup = p.pairSrc(), p.pairDst()
	}
	flags := p.proto.flags
	if p.tailLanes < 16 && ct.block+ct.count-1 == p.lastBlock {
		flags |= flagMask
	}
	if p.callBlocks >= p.blocks || p.kind != kindDense {
		c.flags = flags
		c.tiles, c.n = unsafe.Pointer(&tab.tiles[first]), int64(last-first)
		runKernel(p.ids[ct.count], c)
		return
	}
	p.callParts(c, ct, tab, first, last, flags)
}

// callParts computes tiles in several calls, each with some of the input channel blocks.
func (p *Plan) callParts(c *tileCall, ct *channelTile, tab *table, first, last int32, flags int64) {
	src, w, res := c.src, c.w, c.res
	for b := 0; b < p.blocks; b += p.callBlocks {
		end := min(b+p.callBlocks, p.blocks)
		c.src = unsafe.Add(src, b*int(c.srcBlk))
		c.w = unsafe.Add(w, b*int(c.wBlk))
		c.flags, c.res, c.tail, c.full = 0, nil, 0, int64(end-b)
		if b > 0 {
			c.flags = flagAccumulate
		}
		if end == p.blocks {
			c.flags |= flags
			c.res, c.tail = res, p.proto.tail
			c.full -= c.tail
		}
		c.tiles, c.n = unsafe.Pointer(&tab.tiles[first]), int64(last-first)
		runKernel(p.ids[ct.count], c)
	}
	c.full, c.tail = p.proto.full, p.proto.tail
}

// pairSrc is the distance between the sources of two neighbouring rows.
func (p *Plan) pairSrc() int64 {
	s := &p.spec
	row := int64(s.W) * 64
	if s.Source == Planar {
		row = int64(s.W) * 4
	}
	if s.Transposed {
		return row
	}
	return row * int64(s.Stride[0])
}

func (p *Plan) pairDst() int64 {
	s := &p.spec
	row := int64(s.OW) * 64
	if s.Transposed {
		return row * int64(s.Stride[0])
	}
	return row
}

// post calls the hook on floats [lo, hi) of each channel plane of a tile and clears the lanes that have no channel.
func (p *Plan) post(dst []float32, plane int, ct *channelTile, lo, hi int) {
	if lo >= hi {
		return
	}
	size := p.spec.OH * p.spec.OW * 16
	for b := range ct.count {
		run := dst[plane+b*size+lo : plane+b*size+hi : plane+b*size+hi]
		p.spec.Post(run)
		if p.tailLanes < 16 && ct.block+b == p.lastBlock {
			ClearLanes(run, p.tailLanes)
		}
	}
}

// ClearLanes sets lanes [used, 16) of every pixel of a run of NCHW16c pixels to zero.
func ClearLanes(run []float32, used int) {
	for ; len(run) >= 16; run = run[16:] {
		clear(run[used:16])
	}
}
