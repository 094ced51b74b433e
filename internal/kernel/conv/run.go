package conv

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Tensors are the operands of Run.
type Tensors struct {
	Src     []float32 // of words where Spec.Pairs says so, and so Weights
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
// ErrShape for a range outside the chunks; nothing is written then.
func (p *Plan) Run(lo, hi int, t *Tensors) error {
	if lo < 0 || hi > p.Chunks() || lo > hi {
		return failf("run", ErrShape, "chunks [%d, %d) of %d", lo, hi, p.Chunks())
	}
	if err := p.check(t); err != nil {
		return err
	}
	if p.units > 0 {
		p.runTiles(lo, hi, t)
		return nil
	}
	groups := len(p.groups) - 1
	c := p.proto
	for i := lo; i < hi; {
		s := i % p.splits
		u := i / p.splits % p.unitChunks
		g := i / p.splits / p.unitChunks % groups
		n := i / p.splits / p.unitChunks / groups
		first, tiles := int(p.groups[g]), int(p.groups[g+1]-p.groups[g])
		// Chunks that follow each other are one: parts of the same units, or else more units of the same channels.
		parts, more := min(p.splits-s, hi-i), 1
		if p.splits == 1 {
			more = min(p.unitChunks-u, hi-i)
		}
		follows := i+parts*more < hi && u+more == p.unitChunks && g+1 < groups
		p.chunk(&c, t, n, first+tiles*s/p.splits, first+tiles*(s+parts)/p.splits, u*p.chunkUnits, min((u+more)*p.chunkUnits, len(p.spans)), follows)
		i += parts * more
	}
	return nil
}

// chunk computes channel tiles [t0, t1) of units [u0, u1) of image n: those that read the same channels of the source together. follows says that
// tile t1 comes behind it.
func (p *Plan) chunk(c *tileCall, t *Tensors, n, t0, t1, u0, u1 int, follows bool) {
	for first := t0; first < t1; {
		end := first + 1
		for end < t1 && p.tiles[end].source == p.tiles[first].source {
			end++
		}
		for u := u0; u < u1; u += p.callUnits {
			for i := first; i < end; i++ {
				c.ahead, c.aheadW, c.aheadEnd = p.ahead, 0, 0
				if i+1 < end && p.paces() {
					c.ahead = 0 // the last of those that read these pixels has the next ones fetched
				}
				until := min(u+p.callUnits, u1)
				if last := i+1 == t1; p.fetchesWeights && (!last && (u == u0 || p.parts) || last && follows && p.paces()) {
					next := &p.tiles[i+1]
					c.aheadW = int64(uintptr(unsafe.Pointer(&t.Weights[n*p.weightImage]))) + int64(next.weight)
					c.aheadEnd = c.aheadW + int64(next.bytes)
					if last { // some of them in each of its calls
						c.aheadEnd = c.aheadW + int64(next.bytes*(until-u0)/(u1-u0))
						c.aheadW += int64(next.bytes * (u - u0) / (u1 - u0))
					}
					p.pace(c, &p.tiles[i], u, until)
				}
				p.tile(c, t, n, &p.tiles[i], u, until)
			}
		}
		first = end
	}
}

// paces reports whether weights are fetched as evenly as they are multiplied, those of the next chunk too, and pixels once for all channels.
func (p *Plan) paces() bool { return p.target.Set == isa.AVX2 }

// pace decides how many of the weights that a call of a channel tile for units [u0, u1) has fetched come behind each block of channels: as many as it takes until its end.
// All of them at its beginning would be more at a time than memory brings, and what the sums read would wait behind them (with AVX2 on an AMD Zen 3
// 0.87 of the time for 3x3 of 512 to 512 channels, and of 512 to 2048 with a single tap, both of 7x7 pixels).
func (p *Plan) pace(c *tileCall, ct *channelTile, u0, u1 int) {
	c.aheadPairs = int64(8 * ct.table.blocks)
	if p.paces() {
		blocks := int64(ct.table.unit[u1]-ct.table.unit[u0]) * max(1, p.proto.full)
		c.aheadPairs = (c.aheadEnd-c.aheadW)/(128*max(1, blocks)) + 1
	}
}

// tile computes one channel tile of units [u0, u1) of image n.
func (p *Plan) tile(c *tileCall, t *Tensors, n int, ct *channelTile, u0, u1 int) {
	s := &p.spec
	plane := n*s.DstImage + ct.block*s.resultPlane()
	c.src = unsafe.Add(unsafe.Pointer(&t.Src[n*s.SrcImage]), ct.source)
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
	p.call(c, ct, u0, u1)
	if p.kind == kindMax {
		p.keepNaN(t, n, ct, p.spans[u0].lo, p.spans[u1-1].hi)
	}
	if s.Post != nil {
		p.post(t.Dst, plane, ct, p.spans[u0].lo, p.spans[u1-1].hi)
	}
}

// call computes one channel tile of units [u0, u1).
func (p *Plan) call(c *tileCall, ct *channelTile, u0, u1 int) {
	end := u1
	if ct.table.single && u1 == len(p.spans) {
		end--
	}
	p.callTiles(c, ct, u0, end, ct.table.pairs)
	p.callTiles(c, ct, end, u1, false)
}

// callTiles computes one channel tile of units [u0, u1), whose tiles are of two rows (pairs) or of one.
func (p *Plan) callTiles(c *tileCall, ct *channelTile, u0, u1 int, pairs bool) {
	tab := ct.table
	first, last := tab.unit[u0], tab.unit[u1]
	if first == last {
		return
	}
	c.taps = unsafe.Pointer(&tab.taps[0])
	if len(tab.scales) > 0 {
		c.scale = unsafe.Pointer(&tab.scales[0])
	}
	c.srcGroup, c.dstGroup = c.srcCol*int64(tab.group), c.dstCol*int64(tab.group)
	if pairs {
		c.srcGroup, c.dstGroup = p.pairSrc(), p.pairDst()
	}
	flags := p.proto.flags
	if p.tailLanes < 16 && ct.block+ct.count-1 == p.lastBlock && !(ct.half && p.tailLanes == 8) { // half of a block has no other channels
		flags |= flagMask
	}
	if p.kind == kindDepth && p.target.Set == isa.AVX2 && c.dstCol == 64 && !pairs {
		flags |= flagLine
	}
	if p.order == orderPlanar && len(tab.places.rows) > 0 {
		flags |= flagPlanes
	}
	c.pass = 0
	if ct.half {
		flags |= flagHalf
	}
	if ct.alone {
		flags |= flagAlone
	}
	if ct.upper {
		c.pass = 32
	}
	switch {
	case p.callBlocks >= p.blocks || !p.dense():
		c.flags = flags
		c.tiles, c.n = unsafe.Pointer(&tab.tiles[first]), int64(last-first)
		runKernel(p.target.Set, tab.id, c)
	case c.res == c.dst: // where sums of some channels would be in the place of what is added behind all
		for u := u0; u < u1; u++ {
			c.flags = flags
			c.tiles, c.n = unsafe.Pointer(&tab.tiles[tab.unit[u]]), int64(tab.unit[u+1]-tab.unit[u])
			runKernel(p.target.Set, tab.id, c)
		}
	default:
		p.callParts(c, tab, first, last, flags)
	}
}

// callParts computes tiles in several calls, each with some of the input channel blocks.
func (p *Plan) callParts(c *tileCall, tab *table, first, last int32, flags int64) {
	src, w, res := c.src, c.w, c.res
	for b := 0; b < p.blocks; b += p.callBlocks {
		end := min(b+p.callBlocks, p.blocks)
		c.src = unsafe.Add(src, b*int(c.srcBlk))
		c.w = unsafe.Add(w, b*int(c.wBlk))
		c.flags, c.res, c.tail, c.full = flags&flagHalf, nil, 0, int64(end-b)
		if b > 0 {
			c.flags |= flagAccumulate
		}
		if end == p.blocks {
			c.flags |= flags &^ (flagPoints | flagWidePoints)
			c.res, c.tail = res, p.proto.tail
			c.full -= c.tail
		}
		c.tiles, c.n = unsafe.Pointer(&tab.tiles[first]), int64(last-first)
		runKernel(p.target.Set, tab.id, c)
	}
	c.src, c.w, c.res = src, w, res
	c.full, c.tail = p.proto.full, p.proto.tail
}

// pairSrc is the distance between the sources of two neighbouring rows.
func (p *Plan) pairSrc() int64 {
	s := &p.spec
	row := int64(s.W * s.pixelBytes())
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
	size := p.spec.resultPlane()
	for b := range ct.count {
		run := dst[plane+b*size+lo : plane+b*size+hi : plane+b*size+hi]
		p.spec.Post(run, ct.block+b)
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
