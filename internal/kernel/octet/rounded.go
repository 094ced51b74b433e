package octet

import (
	"encoding/binary"
	"math"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Rows of floats may be rounded to integers of 8 bits, with a scale for each block: products are then of integers. A rounded row has its
// integers, up to a multiple of 8 bytes, and for each block its scale and the sum of its integers, as floats.

// roundedMost is the largest block whose sums of products have 32 bits.
const roundedMost = 1 << 16

// roundedParams is what kernels of rounded rows read beside their pointers. Distances are in bytes.
type roundedParams struct {
	ldd, lda       int
	pairs          *byte // scale and sum of the first row's first block
	blocks, groups int
}

// Rounds reports whether there are kernels of rounded rows.
func (k Kernels) Rounds(w *Weights) bool { return k.dots && w.Block <= roundedMost }

// integerBytes returns where the scales of a rounded row begin.
func (w *Weights) integerBytes() int { return (w.Width() + 7) / 8 * 8 }

// RoundedBytes returns the bytes of a rounded row.
func (w *Weights) RoundedBytes() int { return w.integerBytes() + 8*w.Blocks }

// roundedVector is how many floats are rounded at a time.
const roundedVector = 16

// Round rounds a row as the model has it: the largest magnitude of a block becomes 127, others half to even. dst has RoundedBytes.
func (k Kernels) Round(w *Weights, dst []byte, src []float32) {
	dst = dst[:w.RoundedBytes()]
	pairs := dst[w.integerBytes():]
	whole := min(len(src)/w.Block, w.Blocks)
	if k.set != isa.AVX512 || w.Block%roundedVector != 0 {
		whole = 0
	}
	if whole > 0 {
		callRound(k.set, &dst[0], &pairs[0], &src[0], whole, w.Block/roundedVector)
	}
	size := w.groups() * Group
	for b := whole; b < w.Blocks; b++ {
		roundBlock(dst[b*size:][:size], pairs[8*b:][:8], src[min(b*w.Block, len(src)):min((b+1)*w.Block, len(src))])
	}
}

// roundBlock rounds a block, with zeros behind it.
func roundBlock(dst, pair []byte, src []float32) {
	// The sum with this number has no bits behind the point: it is rounded half to even, and its lowest byte is the integer.
	const whole = 3 << 22
	most, sum := uint32(0), int32(0) // the bits of magnitudes are in their order, and NaN is above all
	for _, x := range src {
		most = max(most, math.Float32bits(x)&^(1<<31))
	}
	scale, inverse := math.Float32frombits(most)/127, float32(0)
	if scale != 0 {
		inverse = 1 / scale
	}
	for i, x := range src {
		q := byte(math.Float32bits(float32(x*inverse) + whole))
		dst[i] = q
		sum += int32(int8(q))
	}
	clear(dst[len(src):])
	binary.LittleEndian.PutUint32(pair, math.Float32bits(scale))
	binary.LittleEndian.PutUint32(pair[4:], math.Float32bits(float32(sum)))
}

// MultiplyRounded is Multiply for rows that were rounded. Kernels have to say that they can (Rounds).
func (k Kernels) MultiplyRounded(dst []float32, ldd int, a []byte, rows int, w *Weights, matrix, first, n int) {
	k.multiply(dst, ldd, operand{rounded: a, lda: w.RoundedBytes()}, rows, w, matrix, first, n)
}

func (k Kernels) roundedPanels(dst []float32, ldd int, x operand, rows int, w *Weights, p part, panels int) {
	a := x.rounded[:rows*x.lda]
	params := roundedParams{ldd: 4 * ldd, lda: x.lda, pairs: &a[w.integerBytes()], blocks: w.Blocks, groups: w.groups()}
	callRounded(k.set, rows, &params, &dst[0], &a[0], &p.bytes[0], &p.scales[0], &p.zeros[0], panels)
}
