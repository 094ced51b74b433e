package octet

import (
	"encoding/binary"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Narrow reports whether weights of so many bits in blocks of a size may be packed as 4 bits: only kernels of rows that were rounded to so
// many digits read those.
func (k Kernels) Narrow(bits, block, digits int) bool {
	return bits <= 4 && block%(2*Group) == 0 && (k.set == isa.AVX512 || k.set == isa.AVX2) && k.Rounds(&Weights{Bits: 4, Block: block}, digits)
}

// Pack reads matrices of w.Columns each, of w.Blocks blocks of w.Block weights of 8, 4 or 2 bits, into w, as w.Bits. In src a column's weights
// lie one behind the other, the first in the lowest bits, and begin with a byte. zeros are those of all blocks, or one for all.
func (w *Weights) Pack(src []byte, bits int, scales, zeros []float32, matrices int) {
	panels, size, column := matrices*w.panels(), w.groups()*Group, (w.Blocks*w.Block*bits+7)/8
	words := size * w.Bits / 32 // of a block of a column
	w.Bytes = make([]byte, panels*w.panelBytes())
	w.Scales, w.Zeros = make([]float32, panels*w.Blocks*Panel), make([]byte, panels*w.Blocks*Panel)
	near, narrow := make([]byte, size), make([]byte, size/2)
	for c := range matrices * w.Columns {
		panel, lane, part := c/w.Columns*w.panels()+c%w.Columns/Panel, c%w.Columns%Panel, src[c*column:][:column]
		for b := range w.Blocks {
			from, at := c*w.Blocks+b, panel*w.Blocks+b
			w.Scales[at*Panel+lane], w.Zeros[at*Panel+lane] = scales[from], byte(zeros[min(from, len(zeros)-1)])
			line := near
			switch {
			case bits == w.Bits && w.Block == size:
				line = part[4*words*b:][:4*words]
			case w.Bits == 4:
				widen(near[:w.Block], part, b*w.Block, bits)
				for i := range narrow {
					narrow[i] = near[2*i] | near[2*i+1]<<4
				}
				line = narrow
			default:
				widen(near[:w.Block], part, b*w.Block, bits)
			}
			for to := w.Bytes[at*4*words*Panel+lane*4:]; len(line) > 0; line = line[4:] {
				binary.LittleEndian.PutUint32(to, binary.LittleEndian.Uint32(line))
				to = to[min(Panel*4, len(to)):]
			}
		}
	}
}

// widen writes weights of a number of bits from first on as bytes.
func widen(dst, src []byte, first, bits int) {
	mask := byte(1<<bits - 1)
	for i := range dst {
		at := (first + i) * bits
		dst[i] = src[at/8] >> (at % 8) & mask
	}
}
