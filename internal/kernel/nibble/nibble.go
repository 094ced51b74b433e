package nibble

import (
	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/quant"
)

// Group is the number of weights, and of floats, that kernels take at a time: blocks are of whole groups.
const Group = 32

// Weights are n rows of blocks.
type Weights struct {
	Bytes  []byte    // n · Blocks · Block/2
	Scales []float32 // n · Blocks
	Zeros  []float32 // n · Blocks, or one for all
	Blocks int       // of a row
	Block  int       // weights of a block, a multiple of Group
}

// Width returns the floats of a row that was spread.
func (w *Weights) Width() int { return w.Blocks * w.Block }

// Spread writes a row in groups, of each the floats with even places and then the others. What dst has beyond src is 0; its length is a
// multiple of Group.
func Spread(dst, src []float32) {
	for len(dst) >= Group {
		var group [Group]float32
		n := copy(group[:], src)
		src = src[n:]
		d := dst[:Group]
		for i := range Group / 2 {
			d[i], d[Group/2+i] = group[2*i], group[2*i+1]
		}
		dst = dst[Group:]
	}
}

// Kernels multiply with what a target has.
type Kernels struct {
	set   isa.Set
	dots  bool // NEON's SDOT multiplies and adds integers of 8 bits
	bytes quant.Kernels
}

// For returns the kernels of a target.
func For(t isa.Target) Kernels {
	return Kernels{t.Set, t.Set == isa.NEON && t.Features.Has(cpuid.ASIMDDP), quant.For(t)}
}

// height returns how many of some rows a kernel takes: 8 or 4 where there are as many, 2 with AVX2, or 1.
func (k Kernels) height(rows int) int {
	switch {
	case rows >= 8 && k.set == isa.AVX512:
		return 8
	case rows >= 4:
		return 4
	case rows >= 2 && k.set == isa.AVX2:
		return 2
	}
	return 1
}

// Multiply writes the products of rows that were spread, w.Width() floats each, with n rows of weights from first on: row r at
// dst[r*ldd:]. Each sum is made in the same order whatever the rows beside it.
func (k Kernels) Multiply(dst []float32, ldd int, a []float32, rows int, w *Weights, first, n int) {
	if n == 0 || w.Blocks == 0 {
		return
	}
	at := first * w.Blocks
	bytes, scales := w.Bytes[at*w.Block/2:][:n*w.Blocks*w.Block/2], w.Scales[at:][:n*w.Blocks]
	zeros, step := w.Zeros, 0
	if len(zeros) != 1 {
		zeros, step = zeros[at:][:n*w.Blocks], 1
	}
	width := w.Width()
	for r := 0; r < rows; {
		take := k.height(rows - r)
		d, x := dst[r*ldd:][:(take-1)*ldd+n], a[r*width:][:take*width]
		callDot(k.set, take, &d[0], ldd, &x[0], width, &bytes[0], &scales[0], &zeros[0], step, w.Blocks, w.Block/Group, n)
		r += take
	}
}

// Panel is the number of columns that Unpack writes.
const Panel = 16

// unpackBytes is how many bytes of each column are unpacked at a time: of half a kilobyte and 8 KiB of floats.
const unpackBytes = 32

// Unpack writes the first k weights of columns [first, first+n), at most Panel, as floats: dst[k][Panel], with zeros where there is no
// column, as products of floats read them.
func (k Kernels) Unpack(dst []float32, w *Weights, first, n, depth int) {
	var bytes [Panel * unpackBytes]byte
	var scale, zero [Panel]float32
	dst = dst[:depth*Panel]
	row := w.Width() / 2
	for at := 0; at < depth; {
		block := at / w.Block
		for c := range n {
			i := (first+c)*w.Blocks + block
			scale[c], zero[c] = w.Scales[i], w.Zeros[0]
			if len(w.Zeros) > 1 {
				zero[c] = w.Zeros[i]
			}
		}
		end := min((block+1)*w.Block, depth)
		for ; at < end; at += 2 * unpackBytes {
			count := min(2*unpackBytes, end-at)
			from := w.Bytes[first*row+at/2:]
			k.bytes.Transpose(bytes[:], from, n, (count+1)/2, row, Panel)
			if whole := count / 2; whole > 0 {
				unpack(k.set, &dst[at*Panel:][:2*whole*Panel][0], &bytes[0], &scale[0], &zero[0], whole)
			}
			if count%2 != 0 {
				last := dst[(at+count-1)*Panel:][:Panel]
				for c, b := range bytes[count/2*Panel:][:Panel] {
					last[c] = (float32(b&15) - zero[c]) * scale[c]
				}
			}
		}
		at = end
	}
}
