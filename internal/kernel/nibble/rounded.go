package nibble

import (
	"encoding/binary"
	"math"
)

// Rows of floats may be rounded to integers of 8 bits, with a scale for each block: products are then of integers. For a vector of 128
// weights a rounded row has the integers at even places, those at odd ones, and for each lane of four weights of either the scale and the
// sum of its integers.
const (
	roundedWeights = 128
	roundedBytes   = 256
)

// roundedParams is what kernels of rounded rows read beside their pointers. Distances are in bytes. A step has so many vectors, or so
// many scales, as a block is larger or smaller than a vector.
type roundedParams struct {
	ldd, lda   int
	index      *[16]int32 // of the scale of each lane
	steps      int
	repeat     int // vectors of a step
	blocks     int // bits of the scales of a step
	scaleStep  int
	zeroStep   int
	tail       int // bits of the lanes of a last vector that is not whole; 0 where there is none
	tailBlocks int
	tailScale  int
	tailZero   int
}

// Rounds reports whether there are kernels of rounded rows, for blocks that are powers of two, as far as these are.
func (k Kernels) Rounds(w *Weights) bool { return k.dots && w.Block&(w.Block-1) == 0 }

// RoundedBytes returns the bytes of a rounded row.
func (w *Weights) RoundedBytes() int {
	return (w.Width() + roundedWeights - 1) / roundedWeights * roundedBytes
}

// laneWeights is the number of weights of a lane, of both halves together.
const laneWeights = 8

// Round rounds a row: the largest magnitude of a block becomes 127, others half to even. dst has RoundedBytes.
func (w *Weights) Round(dst []byte, src []float32) {
	dst = dst[:w.RoundedBytes()]
	clear(dst)
	for b := range w.Blocks {
		part := src[min(b*w.Block, len(src)):min((b+1)*w.Block, len(src))]
		most := uint32(0) // the bits of magnitudes are in their order, and NaN is above all
		for _, x := range part {
			most = max(most, math.Float32bits(x)&^(1<<31))
		}
		scale, inverse := math.Float32frombits(most)/127, float32(0)
		if scale != 0 {
			inverse = 1 / scale
		}
		for lane := b * w.Block / laneWeights; lane < (b+1)*w.Block/laneWeights; lane++ {
			var last [laneWeights]float32
			x := part
			if len(part) < laneWeights {
				copy(last[:], part)
				x, part = last[:], nil
			} else {
				part = part[laneWeights:]
			}
			roundLane(dst[lane/16*roundedBytes:][:roundedBytes], lane%16, (*[laneWeights]float32)(x), scale, inverse)
		}
	}
}

// roundLane writes the integers of a lane, its scale and its sum.
func roundLane(dst []byte, lane int, x *[laneWeights]float32, scale, inverse float32) {
	// The sum with this number has no bits behind the point: it is rounded half to even, and its lowest byte is the integer.
	const whole = 3 << 22
	even, odd := dst[4*lane:][:4], dst[64+4*lane:][:4]
	sum := int32(0)
	for i := range 4 {
		a, b := math.Float32bits(float32(x[2*i]*inverse)+whole), math.Float32bits(float32(x[2*i+1]*inverse)+whole)
		even[i], odd[i] = byte(a), byte(b)
		sum += int32(int8(a)) + int32(int8(b))
	}
	binary.LittleEndian.PutUint32(dst[128+4*lane:], math.Float32bits(scale))
	binary.LittleEndian.PutUint32(dst[192+4*lane:], math.Float32bits(float32(sum)))
}

// MultiplyRounded is Multiply for rows that were rounded. Kernels have to say that they can (Rounds).
func (k Kernels) MultiplyRounded(dst []float32, ldd int, a []byte, rows int, w *Weights, first, n int) {
	if n == 0 || w.Blocks == 0 {
		return
	}
	at, width := first*w.Blocks, w.Width()
	bytes, scales := w.Bytes[at*w.Block/2:][:n*width/2], w.Scales[at:][:n*w.Blocks]
	zeros := [16]float32{}
	zero, each := &zeros[0], 0
	if len(w.Zeros) == 1 {
		for i := range zeros {
			zeros[i] = w.Zeros[0]
		}
	} else {
		zero, each = &w.Zeros[at:][:n*w.Blocks][0], 4
	}
	perVector := max(roundedWeights/w.Block, 1)
	var index [16]int32
	p := roundedParams{ldd: 4 * ldd, lda: w.RoundedBytes(), index: &index, repeat: max(w.Block/roundedWeights, 1), blocks: 1<<perVector - 1,
		scaleStep: 4 * perVector, zeroStep: each * perVector}
	p.steps = width / (roundedWeights * p.repeat)
	for i := range index {
		index[i] = int32(i * 8 / w.Block)
	}
	if rest := width % roundedWeights; rest > 0 {
		blocks := rest / w.Block
		p.tail, p.tailBlocks, p.tailScale, p.tailZero = 1<<(rest/8)-1, 1<<blocks-1, 4*blocks, each*blocks
	}
	for r := 0; r < rows; {
		take := 8
		for take > rows-r {
			if take /= 2; take == 2 {
				take = 1
			}
		}
		d, x := dst[r*ldd:][:(take-1)*ldd+n], a[r*p.lda:][:take*p.lda]
		callRounded(k.set, take, &p, &d[0], &x[0], &bytes[0], &scales[0], zero, n)
		r += take
	}
}
