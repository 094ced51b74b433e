package cpu

import (
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/nibble"
	"github.com/carve-dev/carve/internal/kernel/vec"
)

// Weights of 8 bits in blocks are taken apart into two of 4 bits each, so that kernels of these multiply them: a row has the blocks of upper
// halves, which count 16 times as much, and behind them those of lower ones, and rows of the other operand stand there twice.

// takenApart returns n rows of blocks of bytes as weights of 4 bits. zeros are those of each block, or one for all.
func takenApart(bytes []byte, scales, zeros []float32, n, block, blocks int) nibble.Weights {
	width, one := block*blocks, len(zeros) == 1
	w := nibble.Weights{Block: block, Blocks: 2 * blocks, Bytes: make([]byte, n*width), Scales: make([]float32, 2*n*blocks), Zeros: []float32{zeros[0] / 17}}
	if !one {
		w.Zeros = make([]float32, 2*n*blocks)
	}
	for r := range n {
		src, to := bytes[r*width:][:width], w.Bytes[r*width:][:width]
		high, low := to[:width/2], to[width/2:]
		for i := range high {
			x, y := src[2*i], src[2*i+1]
			high[i], low[i] = x>>4|y&0xf0, x&15|y<<4
		}
		for i, s := range scales[r*blocks:][:blocks] {
			at := 2*r*blocks + i
			w.Scales[at], w.Scales[at+blocks] = 16*s, s
			if !one { // of both halves together it is 17 times as much
				z := zeros[r*blocks+i] / 17
				w.Zeros[at], w.Zeros[at+blocks] = z, z
			}
		}
	}
	return w
}

// widened returns weights of 2 bits as weights of 4.
func widened(b []byte) []byte {
	out := make([]byte, 2*len(b))
	for i, x := range b {
		out[2*i], out[2*i+1] = x&3|x<<2&0x30, x>>4&3|x>>2&0x30
	}
	return out
}

// twofold writes x twice, with zeros behind it where a half of dst is longer.
func twofold(dst, x []float32) []float32 {
	half := len(dst) / 2
	for _, part := range [][]float32{dst[:half], dst[half:]} {
		clear(part[copy(part, x):])
	}
	return dst
}

// unpackTwofold writes the first k weights of n columns from first on, which were taken apart, as a panel of floats. near has room for a
// panel of a whole row.
func unpackTwofold(kernels nibble.Kernels, floats vec.Kernels, dst, near []float32, w *nibble.Weights, first, n, k int) {
	width := w.Width()
	kernels.Unpack(near, w, first, n, width)
	size := k * gemm.Panel
	floats.Binary(vec.Add, dst[:size], near[:size], near[width/2*gemm.Panel:][:size])
}
