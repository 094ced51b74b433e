package conv

import "github.com/carve-dev/carve/internal/kernel/isa"

const (
	maxCallSteps  = 300_000 // multiply-adds of 16 lanes in one call: about 80 µs at one per cycle
	chunkSteps    = 150_000 // wanted in a chunk
	minChunkSteps = 20_000  // below this, cutting costs more than it gains
	fewRows       = 8       // up to so many rows of output are cut into segments, where they
	longRow       = 64      // have so many columns or more: there would be too few units
	fewChunks     = 12      // below this, threads are not evenly loaded
)

// halfL1 is how many bytes of results there are between two calls of Post.
func (p *Plan) halfL1() int { return p.target.FirstCache() / 2 }

// shared is how many bytes of the source all output channels are computed from. With a single tap a tile reads each pixel once, so slowly that it
// may come from the second-level cache; what counts more is that weights, and calls, are for many pixels.
func (p *Plan) shared() int {
	if p.points {
		return 2 * p.target.FirstCache()
	}
	return p.halfL1()
}

// leastShared is how many pixels all output channels are computed from with a single tap, at least, however long sums are: for each such segment
// all weights are read, and there is a call.
const leastShared = 24

// leastMap is how many pixels of a small map are computed for all output channels at once with a single tap, at most, with vectors of 256 bits: sums of
// two parts of it would read all weights twice, of which there are more than pixels.
const leastMap = 64

// smallMap reports whether a map is so small.
func (p *Plan) smallMap() bool {
	return p.points && p.target.Set == isa.AVX2 && p.spec.OH*p.spec.OW <= leastMap
}

// segment returns how many pixels of a row are computed for all output channels, whole tiles of so many.
func (p *Plan) segment(tile int) int {
	if p.smallMap() {
		return ceilDiv(leastMap, tile) * tile
	}
	bytes := p.spec.pixelBytes() * p.sourceBlocks()
	n := max(1, p.shared()/(tile*bytes))
	if p.points {
		n = min(max(n, ceilDiv(leastShared, tile)), max(1, p.halfL1()/(64*tile)))
	}
	return n * tile
}

// weightsInL2 is how many bytes of weights stay in the second-level cache beside what is read and written.
func (p *Plan) weightsInL2() int { return p.target.SecondCache() / 8 * 3 }

// sumsInParts reports whether a call computes a part of the sums, over as many channels as have their weights in the first-level cache, for many
// units, and the next one goes on with the sums: where the second-level cache holds neither the weights of a channel tile beside the source of a unit, nor the source or
// all weights. So weights and source come from the third-level cache once for many rows, where they came for each row or for each channel tile. Sums are stored and
// loaded for each part, which is a twentieth of the time where all else was at hand. Measured with AVX2 (AMD Zen 2, quiet), of the time that whole sums take: 3x3 at stride 2, 512 to 512
// channels of 56x56 0.76, 128 to 256 of 112x112 0.84; 5x5 at stride 2, 256 to 512 of 64x64 0.87; 3x3, 512 to 512 of 28x28 0.94; 3 taps at stride 2, 512 to 512 of 3199 pixels
// 0.92; elsewhere, as 3x3 of 256 to 512 channels of 28x28, up to 1.05.
//
// With vectors of 512 bits and a large second-level cache, weights that come from there for each unit are reason enough, but not where a single block of channels has
// more of them than the first-level cache holds (Intel Granite Rapids): 3x3 at stride 2, 512 to 512 channels of 56x56 0.91, 288 to 384 of 35x35 0.89, 3x3 of 512 to 512
// of 7x7 0.92, 7x1 of 192 to 192 of 17x17 0.91, 3 taps at stride 2 of 512 to 512 of 3199 pixels 0.89; of 21 shapes none above 1.01 in both of two runs.
func (p *Plan) sumsInParts() bool {
	s, all := &p.spec, 0
	if p.target.Set != isa.AVX2 && !p.largeSecond() || !p.dense() || p.points || s.Groups > 1 || s.Source == Planar {
		return false
	}
	if p.largeSecond() {
		weights := p.tiles[0].bytes
		return weights > p.target.FirstCache() && weights/max(1, p.blocks) <= p.halfL1()
	}
	for _, t := range p.tiles {
		all += t.bytes
	}
	second := p.target.SecondCache()
	source := s.H * s.W * s.pixelBytes() * p.sourceBlocks()
	return p.tiles[0].bytes+s.sourceBytesPerUnit(len(p.spans), p.sourceBlocks()) > second/4*3 || min(source, all) > 2*second
}

// largeSecond reports whether float32 is computed by vectors of 512 bits, not in halves, with more than 1 MiB of second-level cache, as on Intel's processors
// since Sapphire Rapids.
func (p *Plan) largeSecond() bool {
	return p.target.Set == isa.AVX512 && p.kind == kindDense && !p.splits512() && p.target.SecondCache() > 1<<20
}

// leastPart is how many units a call computes where sums are in parts, at least: they share what is read of the weights.
const leastPart = 4

// partUnits returns how many units a call computes where sums are in parts: the first-level cache holds their results and, where the second-level cache is
// large, that one their source, which is read again for each channel tile; fewer where there would be less than fewChunks.
func (p *Plan) partUnits() int {
	s, units := &p.spec, len(p.spans)
	most := max(1, p.target.FirstCache()/p.unitBytes())
	pieces := ceilDiv(units, most)
	if p.largeSecond() {
		source := max(1, s.H*s.W/units*s.pixelBytes()*p.sourceBlocks())
		pieces = ceilDiv(units, min(most, max(leastPart, p.target.SecondCache()/2/source)))
		pieces = max(pieces, min(ceilDiv(fewChunks, s.N*len(p.tiles)), ceilDiv(units, leastPart)))
	}
	return ceilDiv(units, pieces)
}

// unitBytes returns the bytes of the results of a unit in a channel plane, at most.
func (p *Plan) unitBytes() int {
	widest := 1
	for _, sp := range p.spans {
		widest = max(widest, 4*(sp.hi-sp.lo))
	}
	return widest
}

// stepsOf estimates the work of one channel tile in the whole plane.
func (p *Plan) stepsOf(t channelTile) int64 {
	tab := t.table
	steps := tab.steps
	if p.dense() {
		steps *= int64(max(1, p.blocks))
	}
	halves := int64(2 * t.count)
	if t.half {
		halves--
	}
	// A tile costs at least its fixed overhead of some 30 cycles.
	return steps*halves/2 + 30*int64(len(tab.tiles))
}

// chunks decides how the work is cut into calls and chunks.
func (p *Plan) chunks() {
	units := len(p.spans)
	var total, most int64
	for _, t := range p.tiles {
		total += p.stepsOf(t)
		most = max(most, p.stepsOf(t))
	}
	p.cost = total * int64(p.spec.N)
	p.parts = p.sumsInParts()
	want := max(minChunkSteps, min(chunkSteps, p.cost/16))
	p.channelGroups(want)
	groupCost := max(1, total/int64(len(p.groups)-1)/int64(units))
	p.chunkUnits = int(max(1, min(int64(units), (want+groupCost/2)/groupCost)))
	p.unitChunks = (units + p.chunkUnits - 1) / p.chunkUnits
	p.chunkUnits = (units + p.unitChunks - 1) / p.unitChunks
	p.unitChunks = (units + p.chunkUnits - 1) / p.chunkUnits
	if p.parts {
		p.chunkUnits = p.partUnits()
		p.unitChunks = (units + p.chunkUnits - 1) / p.chunkUnits
	}
	p.splits = 1
	switch n := p.spec.N * (len(p.groups) - 1) * p.unitChunks; {
	case p.parts:
		p.splits = len(p.tiles)
	case n < fewChunks:
		parts := min((fewChunks+n-1)/n, int(p.cost/minChunkSteps)/n, len(p.tiles)/(len(p.groups)-1))
		p.splits = max(1, parts)
	}
	p.calls(most)
}

// channelGroups cuts the channel tiles into groups, for chunks of about the wanted work: what shares a source while its weights
// stay in the L2 cache. Where every block of channels is computed for itself, and there are rows enough for chunks of all
// channels, there is one group, so that a thread goes on with those rows that it has computed in the operator before.
func (p *Plan) channelGroups(want int64) {
	p.groups = append(p.groups, 0)
	var bytes, steps int64
	for i, t := range p.tiles {
		b, c := int64(0), p.stepsOf(t)
		full := steps+c > want && p.spec.N*len(p.spans) < fewChunks
		if p.dense() {
			b = int64(t.bytes)
			full = bytes+b > int64(p.weightsInL2()) && !p.parts
		}
		if i > 0 && full {
			p.groups = append(p.groups, int32(i))
			bytes, steps = 0, 0
		}
		bytes, steps = bytes+b, steps+c
	}
	p.groups = append(p.groups, int32(len(p.tiles)))
}

// calls decides how much of a chunk one call of a kernel computes; most is the work of the costliest channel tile.
func (p *Plan) calls(most int64) {
	units := len(p.spans)
	blocks := int64(max(1, p.blocks))
	if !p.dense() {
		blocks = 1
	}
	perUnit := max(1, most/int64(units))
	p.callUnits = int(max(1, maxCallSteps/perUnit))
	if p.dense() && len(p.tiles) > 1 && (p.spec.Groups == 1 || p.points) { // else few tiles read the same channels
		unitBytes := p.spec.sourceBytesPerUnit(units, p.sourceBlocks())
		if !p.smallMap() {
			p.callUnits = max(1, min(p.callUnits, p.shared()/max(1, unitBytes)))
		}
	}
	p.callBlocks = int(blocks)
	if p.parts {
		p.callBlocks = max(1, p.halfL1()*p.blocks/p.tiles[0].bytes)
		p.callUnits = max(1, min(p.chunkUnits, maxCallSteps*p.blocks/(int(perUnit)*p.callBlocks)))
	} else if perUnit > maxCallSteps && p.dense() {
		// One unit alone is too long: cut it along the input channels, which continues the same chain of sums.
		p.callBlocks = int(max(1, blocks*maxCallSteps/perUnit))
	}
	if p.spec.Post != nil {
		p.callUnits = max(1, min(p.callUnits, p.halfL1()/p.unitBytes()))
	}
	p.fetchAhead()
}

// fetchAhead decides what calls have fetched: the weights that the next one reads, where there is a single tap, or where tiles have so few pixels that
// they want them faster than they come from the third-level cache; and of convolutions with a single tap, which read each pixel for few multiply-adds,
// the pixels. No processor foresees by itself that those of a block of channels lie a plane behind those of the block before, which matters where the
// second-level cache does not hold the source.
func (p *Plan) fetchAhead() {
	s, t := &p.spec, p.tiles[0].table
	single := s.Kernel == [2]int{1, 1}
	if !p.dense() || s.Source == Planar {
		return
	}
	p.fetchesWeights = single || t.pixels < tilePixels
	if single && p.callUnits < len(p.spans) && 4*p.srcNeed > p.target.SecondCache()/2 {
		units := p.callUnits
		if p.widePoints() && len(p.tiles) == 1 { // a call has many units, which the second-level cache may not hold
			units = 1
		}
		p.ahead = t.tiles[t.unit[units]].src - t.tiles[0].src
	}
}

// sourceBytesPerUnit estimates the source that one unit reads.
func (s *Spec) sourceBytesPerUnit(units, blocks int) int {
	return s.H * s.W / max(1, units) * s.pixelBytes() * blocks * min(s.Kernel[0], 3)
}

// Chunks returns the number of chunks that Run accepts, at least 1. They take about equally long.
func (p *Plan) Chunks() int { return p.spec.N * (len(p.groups) - 1) * p.unitChunks * p.splits }

// Cost estimates the work of all chunks in multiply-adds of 16 lanes, about cycles of a processor that does one per cycle.
func (p *Plan) Cost() int64 { return p.cost }

// Shape returns the sizes of the destination: images, channels, height and width.
func (p *Plan) Shape() (n, oc, oh, ow int) { return p.spec.N, p.spec.OC, p.spec.OH, p.spec.OW }
