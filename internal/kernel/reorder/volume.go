package reorder

import "github.com/carve-dev/carve/internal/kernel/isa"

// Volume moves images of three spatial dims between row-major [N][C][D][HW] and [N][D][ceil(C/16)][HW][16], zero behind C, in which a slice of the depth is an image
// in NCHW16c. It is immutable and safe for concurrent use.
type Volume struct {
	n, c, d, hw, blocks, perChunk int
	toBlocks                      bool
	target                        isa.Target
}

// NewVolume plans such a move, to blocks or from them, of n images of c channels, d slices and hw pixels each, for a target. It returns an *Error with ErrShape for impossible sizes.
func NewVolume(t isa.Target, n, c, d, hw int, toBlocks bool) (*Volume, error) {
	if min(n, c, d, hw) < 1 || max(n, c, d, hw) > maxDim || float64(c+16)*float64(d)*float64(hw)*float64(n) > maxFloats {
		return nil, failf("plan", ErrShape, "%d images, %d channels, %d slices of %d pixels", n, c, d, hw)
	}
	return &Volume{n: n, c: c, d: d, hw: hw, blocks: (c + 15) / 16, perChunk: max(1, chunkBytes/(64*hw)), toBlocks: toBlocks, target: t}, nil
}

// Chunks returns the number of chunks that Run accepts, at least 1.
func (v *Volume) Chunks() int { return (v.n*v.d*v.blocks + v.perChunk - 1) / v.perChunk }

// Run moves chunks [lo, hi) out of Chunks() from src to dst, which must not overlap. It returns an *Error with ErrBuffer for a short slice or ErrShape for a range
// outside the chunks; nothing is written then.
func (v *Volume) Run(lo, hi int, dst, src []float32) error {
	if lo < 0 || hi > v.Chunks() || lo > hi {
		return failf("run", ErrShape, "chunks [%d, %d) of %d", lo, hi, v.Chunks())
	}
	rows, blocks := src, dst
	if !v.toBlocks {
		rows, blocks = dst, src
	}
	if need := v.n * v.c * v.d * v.hw; len(rows) < need {
		return failf("run", ErrBuffer, "the row-major side has %d floats, needs %d", len(rows), need)
	}
	if need := 16 * v.n * v.d * v.blocks * v.hw; len(blocks) < need {
		return failf("run", ErrBuffer, "the blocked side has %d floats, needs %d", len(blocks), need)
	}
	plane := v.d * v.hw
	for i := lo * v.perChunk; i < min(hi*v.perChunk, v.n*v.d*v.blocks); i++ {
		b, d, n := i%v.blocks, i/v.blocks%v.d, i/v.blocks/v.d
		lanes := min(16, v.c-16*b)
		r, block := rows[(n*v.c+16*b)*plane+d*v.hw:], blocks[16*i*v.hw:16*(i+1)*v.hw]
		switch {
		case !v.toBlocks:
			Transpose2D(v.target, r, block, v.hw, lanes, 16, plane)
		case lanes < 16:
			clear(block)
			fallthrough
		default:
			Transpose2D(v.target, block, r, lanes, v.hw, plane, 16)
		}
	}
	return nil
}
