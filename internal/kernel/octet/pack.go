package octet

import "encoding/binary"

// Pack returns matrices of n columns each, of blocks of a number of weights of 8, 4 or 2 bits. In src a column's weights lie one behind the
// other, the first in the lowest bits, and begin with a byte. zeros are those of all blocks, or one for all.
func Pack(src []byte, bits int, scales, zeros []float32, matrices, n, block, blocks int) *Weights {
	w := &Weights{Block: block, Blocks: blocks, Columns: n}
	panels, size, column := matrices*w.panels(), w.groups()*Group, (blocks*block*bits+7)/8
	w.Bytes = make([]byte, panels*w.Width()*Panel)
	w.Scales, w.Zeros = make([]float32, panels*blocks*Panel), make([]float32, panels*blocks*Panel)
	near := make([]byte, size)
	for c := range matrices * n {
		panel, lane, part := c/n*w.panels()+c%n/Panel, c%n%Panel, src[c*column:][:column]
		for b := range blocks {
			from, at := c*blocks+b, panel*blocks+b
			w.Scales[at*Panel+lane], w.Zeros[at*Panel+lane] = scales[from], zeros[min(from, len(zeros)-1)]
			line := near
			if bits == 8 && block == size {
				line = part[b*block:][:block]
			} else {
				widen(near[:block], part, b*block, bits)
			}
			for to := w.Bytes[at*size*Panel+lane*Group:]; len(line) > 0; line = line[Group:] {
				binary.LittleEndian.PutUint32(to, binary.LittleEndian.Uint32(line))
				to = to[min(Panel*Group, len(to)):]
			}
		}
	}
	return w
}

// widen writes weights of a number of bits from first on as bytes.
func widen(dst, src []byte, first, bits int) {
	mask := byte(1<<bits - 1)
	for i := range dst {
		at := (first + i) * bits
		dst[i] = src[at/8] >> (at % 8) & mask
	}
}
