package conv

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// weightOrder is the order of packed weights.
type weightOrder uint8

const (
	orderDense  weightOrder = iota // [OC/16][IC/16][KH][KW][16 ic][16 oc]
	orderMixed                     // for each block of outputs [pieces][KH][KW][ic][16 oc], with zeros where it spans groups
	orderPlanar                    // [OC/16][IC][KH][KW][16 oc]
	orderDepth                     // [C/16][KH][KW][16]
	orderLanes                     // [C/16][KH][KW][C/groups][16], for each channel of a group those of the results
	orderNone                      // pooling
)

// weights computes the input channel blocks of one output and the size of the packed weights.
func (p *Plan) weights() error {
	s := &p.spec
	taps := s.Kernel[0] * s.Kernel[1]
	ocb := blocksOf(s.OC)
	switch p.order {
	case orderDense:
		p.blocks = blocksOf(s.C / s.Groups)
	case orderPlanar, orderMixed, orderDepth, orderLanes, orderNone:
		p.blocks = 1
	}
	if p.order == orderMixed {
		rows := 0.0 // of weights a tap
		for b := range ocb {
			lo, hi := s.mixedRange(16*b, 16)
			rows += float64(hi - lo)
		}
		if size := float64(s.lanes()) * rows * float64(taps); !fits(size) {
			return failf("plan", ErrShape, "%g packed weights", size)
		}
		p.weightNeed = s.lanes() * int(rows) * taps
		return nil
	}
	per := map[weightOrder]int{orderDense: 16 * s.lanes(), orderPlanar: 16 * s.C, orderDepth: 16, orderLanes: 16 * s.C / s.Groups, orderNone: 0}[p.order]
	if size := float64(ocb) * float64(p.blocks) * float64(taps) * float64(per); !fits(size) {
		return failf("plan", ErrShape, "%g packed weights", size)
	}
	p.weightNeed = ocb * p.blocks * taps * per
	return nil
}

// mixedRange returns the input channels that output channels [from, from+n) depend on, whole words of them.
func (s *Spec) mixedRange(from, n int) (lo, hi int) {
	ic, oc := s.C/s.Groups, s.OC/s.Groups
	first, last := from/oc, (min(from+n, s.OC)-1)/oc
	lo, hi = first*ic, (last+1)*ic
	if s.Pairs != pairs.Float32 {
		return lo - lo%2, hi + hi%2
	}
	return lo, hi
}

// channelRange is some channels of a source: count of them, from a lane of their first block.
type channelRange struct{ lane, count int }

// blocks returns how many channel blocks have channels of the range.
func (r channelRange) blocks() int { return blocksOf(r.lane + r.count) }

// pieces calls f with the part of the range in each block: its first lane there, how many it has, and how many lie before.
func (r channelRange) pieces(f func(block, lane, count, before int)) {
	for before, lane, block := 0, r.lane, 0; before < r.count; block++ {
		n := min(16-lane, r.count-before)
		f(block, lane, n, before)
		before, lane = before+n, 0
	}
}

// longestRange returns the channels of the longest range.
func (p *Plan) longestRange() (n int) {
	for i := range p.tiles {
		n = max(n, p.tiles[i].channels())
	}
	return n
}

// sourceBlocks returns how many source channel blocks, or planes, a tile reads, at most.
func (p *Plan) sourceBlocks() int {
	n := p.blocks
	if p.order == orderPlanar {
		n = p.spec.C
	}
	for i := range p.tiles {
		n = max(n, p.tiles[i].reads.blocks())
	}
	return n
}

// listed returns how many source channels the longest list of taps has, 0 where there is a list for each block of them.
func (p *Plan) listed() int {
	switch p.order {
	case orderPlanar:
		return p.spec.C
	case orderMixed:
		return p.longestRange()
	case orderDense, orderDepth, orderLanes, orderNone:
	}
	return 0
}

// WeightFloats returns the length of the packed weights in floats.
func (p *Plan) WeightFloats() int { return p.weightNeed }

// BiasFloats returns the length that a bias must have: OC rounded up to a multiple of 16, zero behind OC.
func (p *Plan) BiasFloats() int { return p.biasNeed }

// PackChunks returns the number of chunks that PackWeights accepts.
func (p *Plan) PackChunks() int {
	switch p.order {
	case orderNone:
		return 0
	case orderMixed, orderDepth, orderLanes, orderPlanar:
		return blocksOf(p.spec.OC)
	case orderDense:
	}
	return blocksOf(p.spec.OC) * p.blocks
}

// PackWeights writes chunks [lo, hi) out of PackChunks() of the packed weights to dst, which has WeightFloats() floats.
// src holds the weights as little-endian float32 in the order OIHW ([OC][C/Groups][KH][KW]), or IOHW
// ([C][OC/Groups][KH][KW]) for a transposed convolution; it need not be aligned, so that it may be a mapped file. Chunks
// may be packed at once by several goroutines.
func (p *Plan) PackWeights(dst []float32, src []byte, lo, hi int) error {
	s := &p.spec
	if p.order == orderNone {
		return failf("pack", ErrUnsupported, "pooling has no weights")
	}
	if lo < 0 || hi > p.PackChunks() || lo > hi {
		return failf("pack", ErrShape, "chunks [%d, %d) of %d", lo, hi, p.PackChunks())
	}
	taps := s.Kernel[0] * s.Kernel[1]
	if want := s.OC * (s.C / s.Groups) * taps * 4; len(src) < want {
		return failf("pack", ErrBuffer, "source has %d bytes, needs %d", len(src), want)
	}
	if len(dst) < p.weightNeed {
		return failf("pack", ErrBuffer, "destination has %d floats, needs %d", len(dst), p.weightNeed)
	}
	for i := lo; i < hi; i++ {
		switch p.order {
		case orderDense:
			size := taps * 16 * s.lanes()
			p.packed(dst[i*size:(i+1)*size], func(dst []float32) { p.packDense(dst, src, i/p.blocks, i%p.blocks) })
		case orderMixed:
			at, _ := slices.BinarySearchFunc(p.tiles, i, func(t channelTile, b int) int { return t.block - b })
			ct := &p.tiles[at]
			p.packed(dst[ct.weight/4:(ct.weight+ct.bytes)/4], func(dst []float32) { p.packMixed(dst, src, i, ct.reads) })
		case orderPlanar:
			p.packPlanar(dst[i*s.C*taps*16:(i+1)*s.C*taps*16], src, i)
		case orderDepth:
			p.packDepth(dst[i*taps*16:(i+1)*taps*16], src, i)
		case orderLanes:
			n := s.C / s.Groups
			p.packRows(dst[i*taps*16*n:(i+1)*taps*16*n], places{taps, 16, 16 * n}, src, 16*i*n*taps, n*taps, min(16, s.OC-16*i), n*taps)
		case orderNone: // has no chunks
		}
	}
	return nil
}

// PackBlock writes chunk i of the weights of a convolution without groups alone, [KH*KW][16][16] floats, to dst, for who puts its
// taps elsewhere. src is that of PackWeights.
func (p *Plan) PackBlock(dst []float32, src []byte, i int) error {
	s := &p.spec
	taps := s.Kernel[0] * s.Kernel[1]
	if p.order != orderDense || s.Pairs != pairs.Float32 {
		return failf("pack", ErrUnsupported, "weights have no blocks of taps")
	}
	if want := s.OC * (s.C / s.Groups) * taps * 4; i < 0 || i >= p.PackChunks() || len(src) < want || len(dst) < 256*taps {
		return failf("pack", ErrShape, "block %d of %d, of a source of %d bytes, to %d floats", i, p.PackChunks(), len(src), len(dst))
	}
	p.packDense(dst[:256*taps], src, i/p.blocks, i%p.blocks)
	return nil
}

// Float32s returns the bytes of x in memory order, for PackWeights on little-endian machines that have the weights as a
// slice of floats.
func Float32s(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

func float(src []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
}

// weightAt returns the index of the weight of output channel oc and input channel ic of its group for tap 0.
func (s *Spec) weightAt(oc, ic int) int {
	taps := s.Kernel[0] * s.Kernel[1]
	icg, ocg := s.C/s.Groups, s.OC/s.Groups
	if s.Transposed {
		return ((oc/ocg*icg+ic)*ocg + oc%ocg) * taps
	}
	return (oc*icg + ic) * taps
}

// places says where packRows puts its rows: row c at (c/count)*outer + (c%count)*inner floats.
type places struct{ count, outer, inner int }

// packRows transposes rows by cols floats of src, any number of cols, to cols rows of 16 floats in dst.
func (p *Plan) packRows(dst []float32, to places, src []byte, at, stride, rows, cols int) {
	var t [256]float32
	outer, k := 0, 0
	for from := 0; from < cols; from += 16 {
		n := min(16, cols-from)
		reorder.TileBytes(p.target, &t, src, at+from, stride, rows, n)
		for c := range n {
			*(*[16]float32)(dst[outer+k*to.inner:]) = *(*[16]float32)(t[16*c:])
			if k++; k == to.count {
				outer, k = outer+to.outer, 0
			}
		}
	}
}

// packed has pack write floats to dst, which holds words of two of them where the spec says so.
func (p *Plan) packed(dst []float32, pack func(dst []float32)) {
	if p.spec.Pairs == pairs.Float32 {
		pack(dst)
		return
	}
	floats := make([]float32, 2*len(dst)) // once for each weight of a model, not in runs
	pack(floats)
	p.spec.Pairs.Across(p.target, pairs.OfFloats(dst), floats, len(floats)/16, 16, 16)
}

// packDense packs the weights from input block ib to output block ob.
func (p *Plan) packDense(dst []float32, src []byte, ob, ib int) {
	s := &p.spec
	taps := s.Kernel[0] * s.Kernel[1]
	icg := s.C / s.Groups
	ocs, ics := min(16, s.OC-16*ob), min(16, icg-16*ib)
	if ics < 16 {
		clear(dst)
	}
	at := s.weightAt(16*ob, 16*ib)
	switch {
	case s.Transposed:
		for ic := range ics {
			p.packRows(dst[ic*16:], places{taps, 0, 256}, src, at+ic*s.OC/s.Groups*taps, taps, ocs, taps)
		}
	case taps == 1:
		reorder.TileBytes(p.target, (*[256]float32)(dst), src, at, icg, ocs, ics)
	default:
		p.packRows(dst, places{taps, 16, 256}, src, at, icg*taps, ocs, ics*taps)
	}
}

// packMixed packs the weights of output block ob, which reads a range of channels; weights between groups are zero.
func (p *Plan) packMixed(dst []float32, src []byte, ob int, r channelRange) {
	s := &p.spec
	taps := s.Kernel[0] * s.Kernel[1]
	icg, ocg := s.C/s.Groups, s.OC/s.Groups
	lo, _ := s.mixedRange(16*ob, 16)
	clear(dst)
	r.pieces(func(_, _, count, before int) {
		first, to := lo+before, dst[16*before*taps:]
		for o := range min(16, s.OC-16*ob) {
			oc := 16*ob + o
			from := oc / ocg * icg
			for c := max(first, from); c < min(first+count, from+icg); c++ {
				at := s.weightAt(oc, c-from)
				for k := range taps {
					to[16*(k*count+c-first)+o] = float(src, at+k)
				}
			}
		}
	})
}

// packPlanar packs output block ob.
func (p *Plan) packPlanar(dst []float32, src []byte, ob int) {
	s := &p.spec
	taps := s.Kernel[0] * s.Kernel[1]
	ocs := min(16, s.OC-16*ob)
	if !s.Transposed {
		p.packRows(dst, places{1, 16, 0}, src, 16*ob*s.C*taps, s.C*taps, ocs, s.C*taps)
		return
	}
	for ic := range s.C {
		p.packRows(dst[ic*taps*16:], places{1, 16, 0}, src, s.weightAt(16*ob, ic), taps, ocs, taps)
	}
}

// packDepth packs channel block b.
func (p *Plan) packDepth(dst []float32, src []byte, b int) {
	taps := p.spec.Kernel[0] * p.spec.Kernel[1]
	p.packRows(dst, places{1, 16, 0}, src, 16*b*taps, taps, min(16, p.spec.OC-16*b), taps)
}
