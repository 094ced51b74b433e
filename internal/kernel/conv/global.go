package conv

import (
	"math"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// GlobalPool is the mean or maximum of each channel, made ready for given shapes. It is immutable and safe for concurrent
// use. A sum is made of eight interleaved partial sums on AVX-512, four on AVX2, one in portable Go.
type GlobalPool struct {
	n, c, hw           int
	srcImage, dstImage int
	max                bool
	set                isa.Set
	perChunk           int // channel blocks
}

// NewGlobalPool plans the reduction of n images of c channels of hw pixels in layout NCHW16c to one pixel per channel in
// the same layout ([n][16*ceil(c/16)], which is row-major [n, c] where c is a multiple of 16 or n is 1). Pooling is Max, or
// Average. srcImage and dstImage are distances between images in floats, zero: compact. Errors are as for NewConv.
func NewGlobalPool(t isa.Target, n, c, hw int, pooling Pooling, srcImage, dstImage int) (*GlobalPool, error) {
	if n < 1 || c < 1 || hw < 1 || n > maxDim || c > maxDim || hw > maxPlane {
		return nil, failf("plan", ErrShape, "%d images, %d channels, %d pixels", n, c, hw)
	}
	if pooling > Average {
		return nil, failf("plan", ErrUnsupported, "global pooling %d", pooling)
	}
	g := &GlobalPool{n: n, c: c, hw: hw, max: pooling == Max, set: t.Set}
	var err error
	if g.srcImage, err = imageStride(n, 16*blocksOf(c), 1, hw, srcImage, "source"); err != nil {
		return nil, err
	}
	if g.dstImage, err = imageStride(n, 16*blocksOf(c), 1, 1, dstImage, "destination"); err != nil {
		return nil, err
	}
	g.perChunk = max(1, min(blocksOf(c), (128<<10)/(64*hw)))
	return g, nil
}

func (g *GlobalPool) across() int { return (blocksOf(g.c) + g.perChunk - 1) / g.perChunk }

// Chunks returns the number of chunks that Run accepts, at least 1.
func (g *GlobalPool) Chunks() int { return g.n * g.across() }

// Run computes chunks [lo, hi) out of Chunks(). Errors are as for Plan.Run.
func (g *GlobalPool) Run(lo, hi int, dst, src []float32) error {
	if lo < 0 || hi > g.Chunks() || lo > hi {
		return failf("run", ErrShape, "chunks [%d, %d) of %d", lo, hi, g.Chunks())
	}
	blocks := blocksOf(g.c)
	if need := (g.n-1)*g.srcImage + blocks*16*g.hw; len(src) < need {
		return failf("run", ErrBuffer, "source has %d floats, needs %d", len(src), need)
	}
	if need := (g.n-1)*g.dstImage + blocks*16; len(dst) < need {
		return failf("run", ErrBuffer, "destination has %d floats, needs %d", len(dst), need)
	}
	across := g.across()
	for i := lo; i < hi; i++ {
		n, first := i/across, i%across*g.perChunk
		for b := first; b < min(first+g.perChunk, blocks); b++ {
			out := dst[n*g.dstImage+16*b:][:16]
			g.reduce(out, src[n*g.srcImage+16*b*g.hw:][:16*g.hw])
			if b == blocks-1 {
				// A maximum of zeros is zero, but source lanes may hold what a caller left there.
				clear(out[g.c-16*b:])
			}
		}
	}
	return nil
}

const (
	maxPixels  = 1 << 17 // that one call of a kernel reduces: 8 MiB of source
	lookPixels = 1 << 8  // of a maximum, which are looked through for NaN while the first-level cache has them
)

// reduce reduces one channel block.
func (g *GlobalPool) reduce(out, src []float32) {
	scale, most := 1/float32(g.hw), maxPixels
	if g.max {
		scale, most = 1, lookPixels
	}
	part := func(to *float32, at int) {
		n, set := min(g.hw-at, most), g.set
		if g.max && losesNaN(set, &src[16*at], n) {
			set = isa.Portable
		}
		reducePixels(set, g.max, to, &src[16*at], n, scale)
	}
	part(&out[0], 0)
	for at := most; at < g.hw; at += most {
		var more pixelRow
		part(&more[0], at)
		for l, v := range more {
			if g.max {
				out[l] = max(out[l], v)
			} else {
				out[l] += v
			}
		}
	}
}

// portableReduce does in Go what sumPixels512 and maxPixels512 do.
func portableReduce(maximum bool, dst, src *float32, n int, scale float32) {
	in := unsafe.Slice((*pixelRow)(unsafe.Pointer(src)), n)
	var acc pixelRow
	if maximum {
		acc = in[0]
	}
	for i := range in {
		for l, v := range &in[i] {
			switch {
			case !maximum:
				acc[l] += v
			case v > acc[l] || math.IsNaN(float64(v)):
				acc[l] = v
			}
		}
	}
	for l := range acc {
		acc[l] *= scale
	}
	*(*pixelRow)(unsafe.Pointer(dst)) = acc
}
