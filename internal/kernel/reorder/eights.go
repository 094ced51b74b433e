package reorder

import (
	"runtime"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// eights moves pixels [p0, p1) of channel blocks [b0, b1), of 16 channels each, where one of the layouts is NCHW8c: two of its
// blocks are one of the others'.
func (p *Plan) eights(dst, src []float32, b0, b1, p0, p1 int) {
	for b := b0; b < b1; b++ {
		if p.From == NCHW16c || p.To == NCHW16c {
			p.halves(dst, src, b, p0, p1)
			continue
		}
		for e := 2 * b; e < 2*b+2 && 8*e < p.C; e++ {
			p.eight(dst, src, e, min(8, p.C-8*e), p0, p1)
		}
	}
}

// halves moves a block of 16 channels to two of 8, or back. The second of them may not be there. Pixels go in runs that stay in
// the first-level cache from one half to the other.
func (p *Plan) halves(dst, src []float32, b, p0, p1 int) {
	const run = 128
	both := 16*b+8 < p.C
	for ; p0 < p1; p0 += run {
		n := min(run, p1-p0)
		whole := 16 * (b*p.HW + p0)
		first, second := 8*(2*b*p.HW+p0), 8*((2*b+1)*p.HW+p0)
		switch {
		case p.From == NCHW16c:
			p.copyEights(dst[first:], 8, src[whole:], 16, n)
			if both {
				p.copyEights(dst[second:], 8, src[whole+8:], 16, n)
			}
		case both:
			p.copyEights(dst[whole:], 16, src[first:], 8, n)
			p.copyEights(dst[whole+8:], 16, src[second:], 8, n)
		default:
			p.copyEights(dst[whole:], 16, src[first:], 8, n)
			for i := range n {
				clear(dst[whole+16*i+8:][:8])
			}
		}
	}
}

// wideWords says that words of 8 bytes may begin where floats do.
const wideWords = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64"

// eight is 8 floats in registers: arrays the compiler copies by a call.
type eight struct{ a, b, c, d uint64 }

// copyEights copies n rows of 8 floats, whose beginnings lie so many floats apart.
func (p *Plan) copyEights(dst []float32, dstStride int, src []float32, srcStride, n int) {
	if n == 0 {
		return
	}
	_, _ = dst[(n-1)*dstStride+7], src[(n-1)*srcStride+7]
	moveEights(p.set, &dst[0], 4*dstStride, &src[0], 4*srcStride, n)
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
func (p *Plan) eight(dst, src []float32, e, channels, p0, p1 int) {
	n, blocked, plain := p1-p0, 8*(e*p.HW+p0), 8*e*p.HW+p0
	pixels := p0*p.C + 8*e // in NHWC
	switch {
	case p.From == NCHW:
		alongCols(p.eightSet(channels), dst[blocked:], 8, src[plain:], p.HW, channels, 8, n)
	case p.To == NCHW:
		alongRows(p.eightSet(channels), dst[plain:], p.HW, src[blocked:], 8, channels, n)
	case p.From == NHWC && channels == 8:
		p.copyEights(dst[blocked:], 8, src[pixels:], p.C, n)
	case p.From == NHWC:
		copyLanes(p.set, &dst[blocked], 32, &src[pixels], 4*p.C, channels, 8, n)
	case channels == 8:
		p.copyEights(dst[pixels:], p.C, src[blocked:], 8, n)
	default:
		copyLanes(p.set, &dst[pixels], 4*p.C, &src[blocked], 32, channels, channels, n)
	}
}

// eightSet is the set with tiles for so many channels: those of 8 by 8 are AVX2's, where AVX-512's are masked, which it does faster for fewer.
func (p *Plan) eightSet(channels int) isa.Set {
	if p.set == isa.AVX512 && channels == 8 {
		return isa.AVX2
	}
	return p.set
}
