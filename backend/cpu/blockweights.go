package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/nibble"
	"github.com/carve-dev/carve/internal/kernel/octet"
	"github.com/carve-dev/carve/internal/place"
)

// blockWeights are matrices of weights of a few bits, with a scale and a zero point for each block. Constant ones are packed, as 4 bits or as
// bytes, where kernels multiply integers; else those of 4 bits in blocks of whole groups are read as they lie in the model, and others are
// bytes.
type blockWeights struct {
	nibbles       nibble.Weights // without bytes and scales where they lie in memory of a run
	octets        *octet.Weights // nil where weights are read as they lie
	bytes, scales place.Memory   // Nowhere where weights have their own
	columns       int            // of a matrix
	digits        int            // of 8 bits, which rows are rounded to; 0 where they stay floats

	ofNibbles nibble.Kernels
	ofOctets  octet.Kernels
}

// roundsRows is the accuracy_level at which ONNX Runtime rounds rows to integers of 8 bits, block by block, which its results show.
const roundsRows = 4

// readAsNibbles reports whether weights of a node may be read where they lie.
func readAsNibbles(bits, block int) bool { return bits == 4 && block%nibble.Group == 0 }

// blockShape is what weights are beside their numbers.
type blockShape struct {
	bits, matrices, columns, block, blocks int
	asBytes                                bool // not as 4 bits
	mayRound                               bool // rows may be rounded to 8 bits
}

// packs reports whether weights, if they are constant, are packed.
func (s blockShape) packs(k octet.Kernels) bool {
	return s.asBytes || !readAsNibbles(s.bits, s.block) || s.narrow(k)
}

// narrow reports whether packed weights have 4 bits.
func (s blockShape) narrow(k octet.Kernels) bool {
	digits := octet.ThreeDigits
	if s.mayRound {
		digits = octet.OneDigit
	}
	return !s.asBytes && k.Narrow(s.bits, s.block/s.pieces(k), digits)
}

// packed returns weights with their scales, which have the sizes that s says.
func (s blockShape) packed(k octet.Kernels, weights []byte, scales, zeros []float32) *octet.Weights {
	narrow := s.narrow(k)
	if n := s.pieces(k); n > 1 {
		s.block, s.blocks = s.block/n, s.blocks*n
		scales = each(scales, n)
		if len(zeros) > 1 {
			zeros = each(zeros, n)
		}
	}
	w := &octet.Weights{Bits: 8, Blocks: s.blocks, Block: s.block, Columns: s.columns}
	if narrow {
		w.Bits = 4
	}
	w.Pack(weights, s.bits, scales, zeros, s.matrices)
	return w
}

// pieces returns how many blocks are made of one that is longer than those whose rows are rounded to three digits.
func (s blockShape) pieces(k octet.Kernels) int {
	n := 1
	if s.mayRound || !k.Rounds(&octet.Weights{Block: octet.ThreeMost}, octet.ThreeDigits) {
		return n
	}
	for s.block/n > octet.ThreeMost && s.block/n%(4*octet.Group) == 0 {
		n *= 2
	}
	return n
}

// each returns n of each number in a row.
func each(x []float32, n int) []float32 {
	out := make([]float32, 0, n*len(x))
	for _, v := range x {
		for range n {
			out = append(out, v)
		}
	}
	return out
}

// packedConstants is packed for constants.
func (s blockShape) packedConstants(k octet.Kernels, weights, scales *graph.Value, zeros []float32) *octet.Weights {
	return s.packed(k, fuse.Behind(weights).Const.Bytes(), fuse.Floats(fuse.Behind(scales).Const), zeros)
}

// multiplyFor chooses how a target multiplies: rows are rounded to one digit where a model allows that and there are kernels for it, and to
// three where there are kernels for these, which are as near as floats.
func (w *blockWeights) multiplyFor(t isa.Target, mayRound bool) {
	w.ofNibbles, w.ofOctets, w.digits = nibble.For(t), octet.For(t), 0
	switch {
	case w.octets == nil:
		if mayRound && w.ofNibbles.Rounds(&w.nibbles) {
			w.digits = octet.OneDigit
		}
	case mayRound && w.ofOctets.Rounds(w.octets, octet.OneDigit):
		w.digits = octet.OneDigit
	case w.ofOctets.Rounds(w.octets, octet.ThreeDigits):
		w.digits = octet.ThreeDigits
	}
}

// few is the most rows of floats that are multiplied by weights as they are read. For more the weights are made floats, some columns at a
// time, which products of floats read while they are near.
func (w *blockWeights) few() int {
	if w.octets != nil {
		return 16
	}
	return 8
}

// reads reports whether so many rows are multiplied by weights as they are read.
func (w *blockWeights) reads(rows int) bool { return w.digits > 0 || rows <= w.few() }

// rowBytes returns the bytes of a row in the kernels' order.
func (w *blockWeights) rowBytes() int {
	switch {
	case w.octets != nil && w.digits > 0:
		return w.octets.RoundedBytes(w.digits)
	case w.octets != nil:
		return 4 * w.octets.Width()
	case w.digits > 0:
		return w.nibbles.RoundedBytes()
	}
	return 4 * w.nibbles.Width()
}

// put writes a row in the kernels' order.
func (w *blockWeights) put(dst []byte, src []float32) {
	dst = dst[:w.rowBytes()]
	switch {
	case w.octets != nil && w.digits > 0:
		w.ofOctets.Round(w.octets, w.digits, dst, src)
	case w.octets != nil:
		w.octets.Spread(place.Elements[float32](dst), src)
	case w.digits > 0:
		w.nibbles.Round(dst, src)
	default:
		nibble.Spread(place.Elements[float32](dst), src)
	}
}

// at returns weights of 4 bits in a run.
func (w *blockWeights) at(st *state) nibble.Weights {
	out := w.nibbles
	if out.Bytes == nil {
		out.Bytes, out.Scales = st.Bytes(w.bytes), st.F32(w.scales)
	}
	return out
}

// multiply writes the products of rows that were put, one behind the other, with n columns of a matrix from first on, a multiple of
// octet.Panel.
func (w *blockWeights) multiply(st *state, dst []float32, ldd int, a []byte, rows, matrix, first, n int) {
	switch {
	case w.octets != nil && w.digits > 0:
		w.ofOctets.MultiplyRounded(dst, ldd, a, w.digits, rows, w.octets, matrix, first, n)
		return
	case w.octets != nil:
		w.ofOctets.Multiply(dst, ldd, place.Elements[float32](a), w.octets.Width(), rows, w.octets, matrix, first, n)
		return
	}
	part := w.at(st)
	if first += matrix * w.columns; w.digits > 0 {
		w.ofNibbles.MultiplyRounded(dst, ldd, a, rows, &part, first, n)
	} else {
		w.ofNibbles.Multiply(dst, ldd, place.Elements[float32](a), rows, &part, first, n)
	}
}

// unpack writes the first k weights of n columns of a matrix from first on, a multiple of octet.Panel, as panels of floats.
func (w *blockWeights) unpack(st *state, dst []float32, matrix, first, n, k int) {
	if w.octets != nil {
		for c := 0; c < n; c += octet.Panel {
			w.ofOctets.Unpack(dst[c*k:], w.octets, matrix, (first+c)/octet.Panel, k)
		}
		return
	}
	part := w.at(st)
	for c := 0; c < n; c += nibble.Panel {
		w.ofNibbles.Unpack(dst[c*k:], &part, matrix*w.columns+first+c, min(nibble.Panel, n-c), k)
	}
}
