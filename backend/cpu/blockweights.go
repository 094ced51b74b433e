package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/nibble"
	"github.com/carve-dev/carve/internal/kernel/octet"
	"github.com/carve-dev/carve/internal/place"
)

// blockWeights are matrices of weights of a few bits, with a scale and a zero point for each block. Those of 4 bits in blocks of whole
// groups are read as they lie in the model; others, which are constant, are packed as bytes.
type blockWeights struct {
	nibbles       nibble.Weights // without bytes and scales where they lie in memory of a run
	octets        *octet.Weights // nil where kernels read 4 bits
	bytes, scales place.Memory   // Nowhere where weights have their own
	columns       int            // of a matrix
	round         bool           // rows are rounded to integers of 8 bits

	ofNibbles nibble.Kernels
	ofOctets  octet.Kernels
}

// roundsRows is the accuracy_level at which ONNX Runtime rounds rows to integers of 8 bits, block by block, which its results show.
const roundsRows = 4

// readAsNibbles reports whether weights of a node are read where they lie.
func readAsNibbles(bits, block int) bool { return bits == 4 && block%nibble.Group == 0 }

// blockShape is what weights are beside their numbers.
type blockShape struct{ bits, matrices, columns, block, blocks int }

// packedOctets returns weights and scales, which are constant and have the sizes that s says, packed as bytes.
func packedOctets(weights, scales *graph.Value, zeros []float32, s blockShape) *octet.Weights {
	return octet.Pack(fuse.Behind(weights).Const.Bytes(), s.bits, fuse.Floats(fuse.Behind(scales).Const), zeros, s.matrices, s.columns, s.block, s.blocks)
}

// mayRound has rows rounded where there are kernels for that.
func (w *blockWeights) mayRound() {
	if w.octets != nil {
		w.round = w.ofOctets.Rounds(w.octets)
	} else {
		w.round = w.ofNibbles.Rounds(&w.nibbles)
	}
}

// few is the most rows that are multiplied by weights as they are read. For more the weights are made floats, some columns at a time,
// which products of floats read while they are near. Rounded rows may be as many as there are.
func (w *blockWeights) few() int {
	if w.octets != nil {
		return 16
	}
	return 8
}

// reads reports whether so many rows are multiplied by weights as they are read.
func (w *blockWeights) reads(rows int) bool { return w.round || rows <= w.few() }

// rowBytes returns the bytes of a row in the kernels' order.
func (w *blockWeights) rowBytes() int {
	switch {
	case w.octets != nil && w.round:
		return w.octets.RoundedBytes()
	case w.octets != nil:
		return 4 * w.octets.Width()
	case w.round:
		return w.nibbles.RoundedBytes()
	}
	return 4 * w.nibbles.Width()
}

// put writes a row in the kernels' order.
func (w *blockWeights) put(dst []byte, src []float32) {
	dst = dst[:w.rowBytes()]
	switch {
	case w.octets != nil && w.round:
		w.ofOctets.Round(w.octets, dst, src)
	case w.octets != nil:
		w.octets.Spread(place.Elements[float32](dst), src)
	case w.round:
		w.ofNibbles.Round(&w.nibbles, dst, src)
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

// multiply writes the products of rows that were put, stride bytes apart, with n columns of a matrix from first on, a multiple of
// octet.Panel.
func (w *blockWeights) multiply(st *state, dst []float32, ldd int, a []byte, rows, matrix, first, n int) {
	switch {
	case w.octets != nil && w.round:
		w.ofOctets.MultiplyRounded(dst, ldd, a, rows, w.octets, matrix, first, n)
		return
	case w.octets != nil:
		w.ofOctets.Multiply(dst, ldd, place.Elements[float32](a), w.octets.Width(), rows, w.octets, matrix, first, n)
		return
	}
	part := w.at(st)
	if first += matrix * w.columns; w.round {
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
