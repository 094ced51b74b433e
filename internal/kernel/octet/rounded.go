package octet

import (
	"encoding/binary"
	"math"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Rows of floats may be rounded to integers, with a scale for each block: sums of a block are then of integers, and exact. Integers of one
// digit have 8 bits. Those of three, d₂·2¹⁶ + d₁·2⁸ + d₀ with digits from -128 to 127, have as many as a float, 24: what is lost of a float is
// at most a 2²⁴th part of the block's greatest magnitude. Each digit is multiplied by the weights: three instructions for 64 of them, where
// floats take four, and others that make floats of weights.
//
// A rounded row has its integers, up to a multiple of 8 bytes, and for each block a head: its scale, a float, and the sum of the integers
// with the sign turned around, 32 bits; of three digits those of the upper two, and of the lowest, and nothing up to 16 bytes. Sixteen
// integers have their lowest digits side by side, then the next ones. With three digits blocks are of whole sixteens.

// OneDigit and ThreeDigits are the kinds of integers that rows are rounded to.
const (
	OneDigit    = 1
	ThreeDigits = 3
)

// ThreeMost is the largest block of rows of three digits: sums of products of the upper two have 32 bits.
const ThreeMost = 1 << 8

// oneMost is the same for one digit.
const oneMost = 1 << 16

// roundedParams is what kernels of rounded rows read beside their pointers. Distances are in bytes.
type roundedParams struct {
	ldd, lda       int
	heads          *byte // of the first row's first block
	blocks, groups int
	skip           int // from the integers of a block's last group to those of the next block
}

// Rounds reports whether there are kernels of rows that were rounded to so many digits. AVX2 multiplies bytes in pairs whose sums have 16
// bits, which hold those of weights and one digit: of 8 bits as magnitudes of at most 128.
func (k Kernels) Rounds(w *Weights, digits int) bool {
	if k.set == isa.AVX2 {
		return digits == OneDigit && w.Block <= oneMost
	}
	if digits == ThreeDigits {
		return k.dots && k.set == isa.AVX512 && w.Block <= ThreeMost
	}
	return k.dots && w.Block <= oneMost
}

// roundedBlock returns the bytes of the integers of a block.
func (w *Weights) roundedBlock(digits int) int {
	if digits == OneDigit {
		return w.groups() * Group
	}
	return (w.Block + roundedVector - 1) / roundedVector * roundedVector * digits
}

// headBytes returns the bytes of a head.
func headBytes(digits int) int {
	if digits == ThreeDigits {
		return 16
	}
	return 8
}

// integerBytes returns where the heads of a rounded row begin.
func (w *Weights) integerBytes(digits int) int { return (w.Blocks*w.roundedBlock(digits) + 7) / 8 * 8 }

// RoundedBytes returns the bytes of a rounded row.
func (w *Weights) RoundedBytes(digits int) int {
	return w.integerBytes(digits) + w.Blocks*headBytes(digits)
}

// roundedVector is how many floats are rounded at a time.
const roundedVector = 16

// orders are those of a vector's floats: as they are, and for weights of 4 bits of each eight the even ones first.
var orders = map[int]*[roundedVector]int32{
	8: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	4: {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15},
}

// Round rounds a row as the model has it, half to even, so that the largest magnitude of a block becomes 127, or what three digits hold. Where
// these have to be of an infinity, others are 0, and NaN is in the scale. dst has RoundedBytes.
func (k Kernels) Round(w *Weights, digits int, dst []byte, src []float32) {
	dst = dst[:w.RoundedBytes(digits)]
	size, heads := w.roundedBlock(digits), dst[w.integerBytes(digits):]
	whole := min(len(src)/w.Block, w.Blocks)
	vectors := k.set == isa.AVX512 && k.dots || k.set == isa.AVX2 && digits == OneDigit
	if !vectors || w.Block%roundedVector != 0 {
		whole = 0
	}
	if whole > 0 {
		callRound(k.set, digits, &dst[0], &heads[0], &src[0], &orders[w.Bits][0], whole, w.Block/roundedVector)
	}
	for b := range w.Blocks {
		head := heads[b*headBytes(digits):][:headBytes(digits)]
		if b < whole && (digits == OneDigit || binary.LittleEndian.Uint32(head)&infinite != infinite) {
			continue
		}
		part := src[min(b*w.Block, len(src)):min((b+1)*w.Block, len(src))]
		roundBlock(digits, dst[b*size:][:size], head, part, orders[w.Bits])
	}
}

// infinite are the bits of infinity, which NaN has too.
const infinite = 0xff << 23

// roundBlock rounds a block, with zeros behind it.
func roundBlock(digits int, dst, head []byte, src []float32, order *[roundedVector]int32) {
	most := uint32(0) // the bits of magnitudes are in their order, and NaN is above all
	for _, x := range src {
		most = max(most, math.Float32bits(x)&^(1<<31))
	}
	scale, inverse := scaleOf(most, digits)
	clear(dst)
	var sums [ThreeDigits]int32
	for i := range (len(src) + roundedVector - 1) / roundedVector * roundedVector {
		from := i/roundedVector*roundedVector + int(order[i%roundedVector])
		if from >= len(src) {
			continue
		}
		left := rounded(src[from], inverse, digits)
		for d := range digits {
			q := int8(left)
			dst[(i/roundedVector*digits+d)*roundedVector+i%roundedVector] = byte(q)
			sums[d] -= int32(q)
			left = (left + 128) >> 8
		}
	}
	binary.LittleEndian.PutUint32(head, math.Float32bits(scale))
	if digits == ThreeDigits {
		binary.LittleEndian.PutUint64(head[8:], uint64(uint32(sums[0])))
		sums[0] = sums[2]<<8 + sums[1]
	}
	binary.LittleEndian.PutUint32(head[4:], uint32(sums[0]))
}

// What the greatest magnitude of a block becomes with three digits: less than what these hold, 0x7f7f7f, by more than its own rounding. A
// magnitude is taken to be no less than what has an inverse then.
const (
	roundedThree = 0x7f7f00
	leastThree   = 0x1p-100
)

// scaleOf returns the scale by which a magnitude is the greatest integer, and its inverse, which is 0 where there is none.
func scaleOf(most uint32, digits int) (scale, inverse float32) {
	if digits == ThreeDigits {
		scale = math.Float32frombits(max(most, math.Float32bits(leastThree))) / roundedThree
	} else {
		scale = math.Float32frombits(most) / 127
	}
	if scale != 0 {
		inverse = 1 / scale
	}
	return scale, inverse
}

// rounded returns the integer of a float.
func rounded(x, inverse float32, digits int) int32 {
	switch {
	case digits == OneDigit:
		// The sum with this number has no bits behind the point: it is rounded half to even, and its lowest byte is the integer.
		return int32(int8(math.Float32bits(float32(x*inverse) + 3<<22)))
	case inverse > 0:
		return int32(math.RoundToEven(float64(float32(x * inverse))))
	case math.IsInf(float64(x), 0):
		return int32(math.Copysign(1, float64(x)))
	}
	return 0
}

// MultiplyRounded is Multiply for rows that were rounded, for which there have to be kernels (Rounds).
func (k Kernels) MultiplyRounded(dst []float32, ldd int, a []byte, digits, rows int, w *Weights, matrix, first, n int) {
	k.multiply(dst, ldd, operand{rounded: a, digits: digits, lda: w.RoundedBytes(digits)}, rows, w, matrix, first, n)
}

func (k Kernels) roundedPanels(dst []float32, ldd int, x operand, rows int, w *Weights, p part, panels int) {
	a := x.rounded[:rows*x.lda]
	params := roundedParams{ldd: 4 * ldd, lda: x.lda, heads: &a[w.integerBytes(x.digits)], blocks: w.Blocks, groups: w.groups()}
	if rest := params.groups % 4; rest > 0 && x.digits > OneDigit {
		params.skip = roundedVector*x.digits - Group*rest
	}
	callRounded(k.set, w.Bits, x.digits, rows, &params, &dst[0], &a[0], &p.bytes[0], &p.scales[0], &p.zeros[0], panels)
}
