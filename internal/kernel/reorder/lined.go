package reorder

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Rows of a result that stays in the caches and do not begin at cache lines are made in memory of their own, in rows that do, and copied from there in whole
// lines: a store of a whole vector that touches two lines takes two. That pays where stores of a vector are whole, and the first-level cache has room for a
// part beside what is read and written.

const (
	linedFloats = 4 << 10          // of a part
	linedRow    = 128              // floats of a row of a part, unless it is a whole one
	linedWhole  = linedFloats / 16 // the most that such a one has
	linedFew    = 24               // channels of pixels that have fewer are moved faster as they are
)

// linedPart is memory for a part at any line of a page, and for what lies behind its last row, which is read too.
type linedPart [linedFloats + lineFloats + 1<<10]float32

// beside returns where to make a part that is copied to out: from a line on, at the same place of a page of 4 KiB as out's first line. What is read
// there then lies in front of what was written last. Where it lies behind, the processor, which compares places in pages alone, takes the one for the
// other, and waits.
func (m *linedPart) beside(out []float32) []float32 {
	const page, line = 4 << 10, 4 * lineFloats
	first := uintptr(unsafe.Pointer(unsafe.SliceData(out))) &^ (line - 1)
	return m[(first-uintptr(unsafe.Pointer(m)))%page/4:]
}

// wholeStores reports whether a target's stores of whole vectors are such, and of a line.
func wholeStores(t isa.Target) bool {
	const wideCache = 2 << 20 // of processors of which that was measured
	return t.Set == isa.AVX512 && t.SecondCache() >= wideCache
}

// inParts reports whether a result that begins at dst is made by way of parts: where its rows do not all begin at cache lines, and where planes are taken
// from blocks of 8 channels of which not all are there.
func (p *Plan) inParts(dst []float32) bool {
	row, before := p.HW, beforeLine(dst)
	switch {
	case !p.whole || before%4 != 0 || p.From == p.To:
		return false
	case p.To == NCHW && p.From == NCHW8c && p.C < 8:
		return true
	case p.To == NCHW && p.HW >= lineFloats && (p.From != NHWC || p.C >= linedFew):
	case p.To == NHWC && p.C >= linedFew && (p.From == NCHW16c || p.From == NCHW && p.across == 1 && p.C <= linedWhole):
		row = p.C
	default:
		return false
	}
	return before != 0 || row%lineFloats != 0 || p.N > 1 && p.DstImage%lineFloats != 0
}

// runLined moves chunks [lo, hi) by way of parts.
func (p *Plan) runLined(lo, hi int, dst, src []float32) {
	var memory linedPart
	for i := lo; i < hi; i++ {
		n, b, p0 := p.part(i)
		d, s, b1, p1 := dst[n*p.DstImage:], src[n*p.SrcImage:], min(b+p.perAcross, (p.C+15)/16), min(p0+p.segment, p.HW)
		switch {
		case p.To == NCHW && p1-p0 == p.HW && p.HW >= lineFloats && p.HW <= linedWhole: // fewer than 8 channels may have few pixels
			for ; b < b1; b++ {
				p.wholePlanes(&memory, d, s, b)
			}
		case p.To == NCHW:
			for ; b < b1; b++ {
				p.linedPlanes(&memory, d, s, b, p0, p1)
			}
		case p.From == NCHW16c:
			p.weldPixels(d, s, b, b1, p0, p1)
		default:
			p.linedPixels(&memory, d, s, p0, p1)
		}
	}
}

// wholePlanes writes the planes of channel block b, which follow each other.
func (p *Plan) wholePlanes(memory *linedPart, dst, src []float32, b int) {
	channels, row := min(16, p.C-16*b), lineUp(p.HW)
	out := dst[16*b*p.HW:][:channels*p.HW]
	part := memory.beside(out)
	p.planesPart(part, row, src, b, 0, channels, p.HW)
	weldRows(p.set, &out[0], &part[0], 4*row, 64, p.HW, channels)
}

// lineUp rounds floats up to cache lines.
func lineUp(n int) int { return (n + lineFloats - 1) &^ (lineFloats - 1) }

// linedPlanes writes pixels [p0, p1) of the planes of channel block b.
func (p *Plan) linedPlanes(memory *linedPart, dst, src []float32, b, p0, p1 int) {
	channels := min(16, p.C-16*b)
	for px := p0; px < p1; px += linedRow {
		n := min(linedRow, p1-px)
		out := dst[16*b*p.HW+px:]
		_ = out[(channels-1)*p.HW+n-1]
		part := memory.beside(out)
		p.planesPart(part, linedRow, src, b, px, channels, n)
		copyRuns(p.set, &out[0], 4*p.HW, &part[0], 4*linedRow, n, channels)
	}
}

// planesPart makes n pixels of the planes of channel block b, row floats apart. Where src has more pixels, tiles are whole, and what is behind the n pixels
// of a row and behind the last channel is anything.
func (p *Plan) planesPart(dst []float32, row int, src []float32, b, px, channels, n int) {
	s, sp, _ := p.at(p.From, 16*b, px)
	if p.From == NCHW8c {
		for c := 0; c < channels; c += 8 {
			p.eightsPart(dst[c*row:], row, src[s+c*p.HW:], min(8, channels-c), n)
		}
		return
	}
	src = src[s:]
	there := (len(src) - 16 + sp) / sp // pixels of which all lanes can be read
	if rest := n % 16; rest > 0 && rest <= 4 && there >= n {
		n -= rest
		fourRows(p.set, &dst[n], 4*row, &src[n*sp], 4*sp, rest)
	}
	whole := min(lineUp(n), there) / 16
	if whole > 0 {
		partTiles(p.set, &dst[0], 4*row, 64, &src[0], 4*sp, 64*sp, whole)
	}
	for at := 16 * whole; at < n; at += 16 {
		transposeTiles(p.set, &dst[at], 4*row, 0, &src[at*sp], 4*sp, 0, min(16, n-at), channels, 16, 1)
	}
}

// eightsPart is planesPart of a block of 8 channels.
func (p *Plan) eightsPart(dst []float32, row int, src []float32, channels, n int) {
	whole := min(lineUp(n), len(src)/8) / 16
	if whole > 0 {
		_ = dst[7*row+16*whole-1]
		eightsToPlanes(p.set, cached, &dst[0], 4*row, &src[0], whole)
	}
	for at := 16 * whole; at < n; at += 16 {
		transposeTiles(p.set, &dst[at], 4*row, 0, &src[8*at], 32, 0, min(16, n-at), channels, 16, 1)
	}
}

// weldPixels writes pixels [p0, p1) of channel blocks [b0, b1), which are all.
func (p *Plan) weldPixels(dst, src []float32, b0, b1, p0, p1 int) {
	out, s := dst[p0*p.C:p1*p.C], src[16*p0:]
	_ = s[(b1-b0-1)*16*p.HW+16*(p1-p0)-1]
	weldRows(p.set, &out[0], &s[0], 64, 64*p.HW, p.C, p1-p0)
}

// linedPixels writes pixels [p0, p1) of the channels of planes, which are all.
func (p *Plan) linedPixels(memory *linedPart, dst, src []float32, p0, p1 int) {
	row := lineUp(p.C)
	step := linedFloats / row &^ 15
	for ; p0 < p1; p0 += step {
		n := min(step, p1-p0)
		out := dst[p0*p.C:][:n*p.C]
		part := memory.beside(out)
		p.pixelsPart(part, row, src[p0:], n)
		weldRows(p.set, &out[0], &part[0], 4*row, 64, p.C, n)
	}
}

// pixelsPart makes n pixels of the planes that src begins with, row floats apart. Of channels that are no whole tile the first come from the tile before,
// again; it is the first that is written, since memory does not give what two stores wrote before it has both. What is behind the pixels is anything.
func (p *Plan) pixelsPart(dst []float32, row int, src []float32, n int) {
	for c := p.C - 1; c >= 0; c = c&^15 - 1 {
		first := min(c&^15, p.C-16)
		planes := src[first*p.HW:]
		whole := min(lineUp(n), len(planes)-15*p.HW) / 16
		if whole > 0 {
			partTiles(p.set, &dst[first], 4*row, 64*row, &planes[0], 4*p.HW, 64, whole)
		}
		if at := 16 * whole; at < n {
			transposeTiles(p.set, &dst[at*row+first], 4*row, 0, &planes[at], 4*p.HW, 0, 16, n-at, 16, 1)
		}
	}
}
