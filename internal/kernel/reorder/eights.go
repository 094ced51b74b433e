package reorder

import (
	"runtime"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// eights moves pixels [p0, p1) of channel blocks [b0, b1), of 16 channels each, where one of the layouts is NCHW8c: two of its
// blocks are one of the others'. Pixels go in runs that stay in the first-level cache from one block to the next where blocks share cache lines.
func (p *Plan) eights(to traffic, dst, src []float32, b0, b1, p0, p1 int) {
	run := p1 - p0
	switch {
	case p.From == NCHW16c || p.To == NCHW16c:
		run = 128
	case p.From == NHWC || p.To == NHWC:
		run = 64
	}
	for ; p0 < p1; p0 += run {
		end := min(p0+run, p1)
		for b := b0; b < b1; b++ {
			p.two(to, dst, src, b, p0, end)
		}
	}
}

// two moves two blocks of 8, of which the second may not be there.
func (p *Plan) two(to traffic, dst, src []float32, b, p0, p1 int) {
	n := p1 - p0
	s, sp, _ := p.at(p.From, 16*b, p0)
	d, dp, _ := p.at(p.To, 16*b, p0)
	both, blocks := 16*b+8 < p.C, p.From != NCHW && p.To != NCHW
	if p.From == NHWC || p.To == NHWC {
		both = 16*b+16 <= p.C
	}
	switch {
	case blocks && both && p.From == NCHW8c:
		p.joinEights(to, dst[d:], dp, src[s:], src[s+8*p.HW:], n)
	case blocks && both:
		p.splitEights(to, dst[d:], dst[d+8*p.HW:], src[s:], sp, n)
	case p.To == NCHW16c && p.set == isa.AVX512:
		copyLanes(p.set, &dst[d], 64, &src[s], 32, 8, 16, n)
	case p.To == NCHW16c: // masked stores of AVX2 take longer
		var zeros [8]float32
		p.copyEights(cached, dst[d:], 16, src[s:], 8, n)
		moveEights(p.set, cached, &dst[d:][:16*n][8], 64, &zeros[0], 0, n)
	case p.From == NCHW16c:
		p.copyEights(to, dst[d:], 8, src[s:], 16, n)
	default:
		for e := 2 * b; e < 2*b+2 && 8*e < p.C; e++ {
			p.eight(to, dst, src, e, min(8, p.C-8*e), p0, p1)
		}
	}
}

// joinEights makes n rows of 16 floats, whose beginnings lie stride floats apart, of rows of 8.
func (p *Plan) joinEights(to traffic, dst []float32, stride int, a, b []float32, n int) {
	if hasEights(p.set) {
		_, _, _ = dst[(n-1)*stride+15], a[8*n-1], b[8*n-1]
		pairEights(p.set, to, &dst[0], 4*stride, &a[0], &b[0], n)
		return
	}
	p.copyEights(cached, dst, stride, a, 8, n)
	p.copyEights(cached, dst[8:], stride, b, 8, n)
}

// splitEights undoes joinEights.
func (p *Plan) splitEights(to traffic, a, b, src []float32, stride, n int) {
	if hasEights(p.set) {
		_, _, _ = src[(n-1)*stride+15], a[8*n-1], b[8*n-1]
		set := p.set
		if p.whole && beforeLine(a)|beforeLine(b) != 0 { // half vectors do not touch two lines
			set = isa.AVX2
		}
		partEights(set, to, &a[0], &b[0], &src[0], 4*stride, n)
		return
	}
	p.copyEights(cached, a, 8, src, stride, n)
	p.copyEights(cached, b, 8, src[8:], stride, n)
}

// wideWords says that words of 8 bytes may begin where floats do.
const wideWords = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64"

// eight is 8 floats in registers: arrays the compiler copies by a call.
type eight struct{ a, b, c, d uint64 }

// copyEights copies n rows of 8 floats, whose beginnings lie so many floats apart; past the caches only to rows that adjoin.
func (p *Plan) copyEights(to traffic, dst []float32, dstStride int, src []float32, srcStride, n int) {
	if n == 0 {
		return
	}
	_, _ = dst[(n-1)*dstStride+7], src[(n-1)*srcStride+7]
	moveEights(p.set, to, &dst[0], 4*dstStride, &src[0], 4*srcStride, n)
}

// portableEights does what eights256 does.
func portableEights(dst *float32, dstStride int, src *float32, srcStride, n int) {
	d, s := unsafe.Pointer(dst), unsafe.Pointer(src)
	for i := range n {
		to, from := unsafe.Add(d, i*dstStride), unsafe.Add(s, i*srcStride)
		if wideWords {
			*(*eight)(to) = *(*eight)(from)
		} else {
			*(*[8]float32)(to) = *(*[8]float32)(from)
		}
	}
}

// eight moves block e of 8 channels, of which so many are there, between NCHW8c and a layout without blocks.
func (p *Plan) eight(to traffic, dst, src []float32, e, channels, p0, p1 int) {
	n, blocked, plain := p1-p0, 8*(e*p.HW+p0), 8*e*p.HW+p0
	pixels := p0*p.C + 8*e // in NHWC
	whole := 0             // pixels that the kernels of 8 channels move
	if hasEights(p.set) && channels == 8 {
		whole = n &^ 15
	}
	switch {
	case p.From == NCHW && p.whole && n >= 16:
		p.planesToBlock(to, dst[blocked:][:8*n], src[plain:], channels)
	case p.From == NCHW:
		if whole > 0 {
			planesToEights(p.set, to, &dst[blocked], &src[plain], 4*p.HW, ahead(to), whole/16)
		}
		if whole < n {
			alongCols(p.eightSet(channels), dst[blocked+8*whole:], 8, src[plain+whole:], p.HW, channels, 8, n-whole)
		}
	case p.To == NCHW:
		if whole > 0 {
			eightsToPlanes(p.set, to, &dst[plain], 4*p.HW, &src[blocked], whole/16)
		}
		if hasEights(p.set) && channels < 8 && p.set != isa.AVX2 {
			whole = n &^ 15
			p.somePlanes(dst[plain:], src[blocked:], channels, whole)
		}
		if whole < n {
			alongRows(p.eightSet(channels), dst[plain+whole:], p.HW, src[blocked+8*whole:], 8, channels, n-whole)
		}
	case p.From == NHWC && channels == 8:
		p.copyEights(to, dst[blocked:], 8, src[pixels:], p.C, n)
	case p.From == NHWC:
		copyLanes(p.set, &dst[blocked], 32, &src[pixels], 4*p.C, channels, 8, n)
	case channels == 8:
		p.copyEights(cached, dst[pixels:], p.C, src[blocked:], 8, n)
	default:
		copyLanes(p.set, &dst[pixels], 4*p.C, &src[blocked], 32, channels, channels, n)
	}
}

// planesToBlock makes a block of 16 pixels or more from the planes of its channels. Tiles begin at a line; what is in front of the first and behind the last
// is part of others, or one pixel.
func (p *Plan) planesToBlock(to traffic, dst, src []float32, channels int) {
	n := len(dst) / 8
	if channels < 8 {
		p.fromSomePlanes(to, dst, src, channels, n)
		return
	}
	_ = src[7*p.HW+n-1]
	if n%16 != 0 && beforeLine(dst) == 32 {
		p.onePixel(dst, src)
		dst, src, n = dst[8:], src[1:], n-1
	}
	whole := n / 16
	if whole > 0 {
		planesToEights(p.set, to, &dst[0], &src[0], 4*p.HW, ahead(to), whole)
	}
	switch rest := n % 16; {
	case rest == 0:
	case rest == 1:
		p.onePixel(dst[8*(n-1):], src[n-1:])
	case whole > 0:
		planesToEights(p.set, cached, &dst[8*(n-16)], &src[n-16], 4*p.HW, 0, 1)
	default:
		alongCols(p.eightSet(8), dst, 8, src, p.HW, 8, 8, n)
	}
}

// onePixel makes a pixel of a block of 8 channels.
func (p *Plan) onePixel(dst, src []float32) {
	for c := range dst[:8] {
		dst[c] = src[c*p.HW]
	}
}

// fromSomePlanes is planesToBlock of fewer channels, by way of all eight.
func (p *Plan) fromSomePlanes(to traffic, dst, src []float32, channels, n int) {
	const most = 256
	var planes [8 * most]float32
	for px := 0; px < n; px += most {
		run := min(most, n-px)
		for c := range channels {
			copy(planes[c*most:][:run], src[c*p.HW+px:])
		}
		if whole := run / 16; whole > 0 {
			planesToEights(p.set, to, &dst[8*px], &planes[0], 4*most, 0, whole)
		}
		if at := run &^ 15; at < run {
			alongCols(p.eightSet(channels), dst[8*(px+at):], 8, planes[at:], most, channels, 8, run-at)
		}
	}
}

// somePlanes moves a multiple of 16 pixels of a block of which some channels are there to their planes, by way of all eight. AVX2's tiles of fewer columns
// take half its time.
func (p *Plan) somePlanes(dst, src []float32, channels, n int) {
	const most = 64
	var planes [8 * most]float32
	for px := 0; px < n; px += most {
		run := min(most, n-px)
		eightsToPlanes(p.set, cached, &planes[0], 4*most, &src[8*px:][:8*run][0], run/16)
		for c := range channels {
			copy(dst[c*p.HW+px:][:run], planes[c*most:])
		}
	}
}

// eightSet is the set with tiles for so many channels: those of 8 by 8 are AVX2's, where AVX-512's are masked, which it does faster for fewer.
func (p *Plan) eightSet(channels int) isa.Set {
	if p.set == isa.AVX512 && channels == 8 {
		return isa.AVX2
	}
	return p.set
}
