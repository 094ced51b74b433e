package cpu

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/nibble"
	"github.com/carve-dev/carve/internal/kernel/octet"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Products with constant weights of 2, 4 or 8 bits as standard operators write them:
//
//	DequantizeLinear(w) → MatMul|Gemm(x, ·) → [bias]
//
// Scales and zero points are one, one for each output, or one for each block of whole groups of k. Weights stay 4 bits, in the order of
// the kernels, and so the node is that of MatMulNBits. Rows that are integers of 8 bits themselves are multiplied by integers of 8 bits,
// but for a single one, whose time is that of reading the weights. Weights of 8 bits stay bytes for rows so few that reading floats takes longer.

// nibbleLinks is such a product that was read.
type nibbleLinks struct {
	head, dw, add *graph.Node  // add may be nil
	bias          *graph.Value // may be nil
	q             *tensor.Tensor
	scale, zero   *tensor.Tensor // zero may be nil
	bits          int            // of an element of q
	outputs       int            // the dim of weights that counts outputs
}

func (l *nibbleLinks) nodes() []*graph.Node {
	if l.add != nil {
		return []*graph.Node{l.dw, l.head, l.add}
	}
	return []*graph.Node{l.dw, l.head}
}

// fewBits returns how many bits an element of a type of at most 8 has, 0 for others; signed says that the upper one is its sign.
func fewBits(dt tensor.DType) (bits int, signed bool) {
	switch dt {
	case tensor.Int8, tensor.Uint8:
		return 8, dt == tensor.Int8
	case tensor.Int4, tensor.Uint4:
		return 4, dt == tensor.Int4
	case tensor.Int2, tensor.Uint2:
		return 2, dt == tensor.Int2
	}
	return 0, false
}

// followNibbles reads what surrounds a head, nil where its weights have not a few bits, or suit it better otherwise. own asks that they are dequantised for the head
// alone.
func followNibbles(head *graph.Node, own bool) *nibbleLinks {
	if !head.Is("MatMul", "Gemm") || !operators.IsFloat32(head.Inputs...) || !head.Outputs[0].Type.Backed() {
		return nil
	}
	l := &nibbleLinks{head: head, dw: head.Inputs[1].Producer, bias: head.Input(2), outputs: outputsOf(head)}
	if l.dw == nil || !l.dw.Is("DequantizeLinear") || own && !head.Inputs[1].HasOneUse() || l.bias != nil && !fuse.IsConst(l.bias) {
		return nil
	}
	if _, _, ok := integerWeights(head); !ok || !l.readWeights() || !l.suits(head.Inputs[0]) {
		return nil
	}
	y := head.Outputs[0]
	if n := fuse.Next(y); head.Is("MatMul") && n != nil && n.Is("Add") {
		if b := fuse.Other(n, y); b != nil && fuse.IsConst(b) && alongAxis(b, y, len(y.Type.Shape)-1) {
			l.add, l.bias = n, b
		}
	}
	return l
}

// fewByteRows is the most rows that are multiplied by weights of 8 bits as they are read, a fourth of the bytes of floats: AVX2 has a kernel for as many. Products of more with
// weights that were made floats once take less time.
const fewByteRows = 2

// suits reports whether rows are multiplied by weights of so many bits, and not by integers or floats made of them.
func (l *nibbleLinks) suits(x *graph.Value) bool {
	rows := x.Type.Shape[:len(x.Type.Shape)-1]
	levels := false // the rows are dequantised from 8 bits
	if x.Producer != nil && x.Producer.Is("DequantizeLinear") && l.dw.Int("block_size", 0) == 0 {
		_, levels = levelsBetween(x.Producer)
	}
	if l.bits == 8 {
		dims, static := rows.Static()
		return static && product(dims) <= fewByteRows && !levels
	}
	return !levels || !slices.ContainsFunc(rows, func(d graph.Dim) bool { return !d.Is(1) })
}

// readWeights reports whether weights, scales and zero points are constants that kernels multiply.
func (l *nibbleLinks) readWeights() bool {
	q, scale, zero := fuse.Behind(l.dw.Inputs[0]), fuse.Behind(l.dw.Inputs[1]), fuse.Behind(l.dw.Input(2))
	if !fuse.IsTensorConst(q) || !fuse.IsTensorConst(scale) || zero != nil && !fuse.IsTensorConst(zero) {
		return false
	}
	l.q, l.scale = q.Const, scale.Const
	if l.bits, _ = fewBits(l.q.DType); l.bits == 0 || len(l.q.Shape) != 2 || l.q.Len() == 0 || l.q.Strides != nil || l.scale.DType != tensor.Float32 {
		return false
	}
	if zero != nil {
		if l.zero = zero.Const; l.zero.DType != l.q.DType || l.zero.Len() != l.scale.Len() {
			return false
		}
	}
	axis, err := graph.NormAxis(l.dw.Int("axis", 1), 2)
	if err != nil {
		return false
	}
	switch block := int(l.dw.Int("block_size", 0)); {
	case block == 0:
		return l.scale.Len() == 1 || axis == l.outputs && l.scale.Len() == l.q.Shape[axis]
	default:
		k, n := l.q.Shape[1-l.outputs], l.q.Shape[l.outputs]
		return block > 0 && axis != l.outputs && block%nibble.Group == 0 && l.scale.Len() == ceilDiv(k, block)*n
	}
}

// storedBits returns how many bits a weight has that kernels read.
func (l *nibbleLinks) storedBits() int { return max(l.bits, 4) }

// weights returns the weights as MatMulNBits has them. Signed ones are moved to where they are not, their zero points with them.
func (l *nibbleLinks) weights() (*nibble.Weights, error) {
	k, n := l.q.Shape[1-l.outputs], l.q.Shape[l.outputs]
	bits, stored := l.bits, l.storedBits()
	mask, add := 1<<bits-1, 0
	if _, signed := fewBits(l.q.DType); signed {
		add = 1 << (bits - 1)
	}
	w := &nibble.Weights{Block: int(l.dw.Int("block_size", 0))}
	parameter := func(c, b int) int { return min(c, l.scale.Len()-1) } // where there is one, or one for each output
	if w.Block == 0 {
		w.Block = nibble.Group
		for w.Block < 4*nibble.Group && w.Block < k {
			w.Block *= 2
		}
	} else if blocks := ceilDiv(k, w.Block); l.outputs == 0 {
		parameter = func(c, b int) int { return c*blocks + b }
	} else {
		parameter = func(c, b int) int { return b*n + c }
	}
	w.Blocks = ceilDiv(k, w.Block)
	src, row := l.q.Data[l.q.Offset:], w.Width()*stored/8
	if len(src) < ceilDiv(l.q.Len()*bits, 8) {
		return nil, fmt.Errorf("%w: %d bytes for %v", tensor.ErrShape, len(src), l.q)
	}
	w.Bytes, w.Scales = make([]byte, n*row), make([]float32, n*w.Blocks)
	step, next := n, 1 // of an element in k, and of one among outputs
	if l.outputs == 0 {
		step, next = 1, k
	}
	for c := range n {
		to := w.Bytes[c*row:][:row]
		for i := range k {
			at := (i*step + c*next) * bits
			v := (int(src[at/8]>>(at%8)) & mask) ^ add // the sign's bit turned around adds as much
			to[i*stored/8] |= byte(v << (i * stored % 8))
		}
	}
	zeros, one := make([]float32, n*w.Blocks), true
	for c := range n {
		for b := range w.Blocks {
			i, at := c*w.Blocks+b, parameter(c, b)
			w.Scales[i], zeros[i] = float32(l.scale.Float64At(at)), float32(add)
			if l.zero != nil {
				zeros[i] += float32(l.zero.Int64At(at))
			}
			one = one && zeros[i] == zeros[0]
		}
	}
	if w.Zeros = zeros; one {
		w.Zeros = zeros[:1:1]
	}
	return w, nil
}

// packed returns the weights as kernels read them.
func (l *nibbleLinks) packed(k octet.Kernels) (*blockWeights, error) {
	nibbles, err := l.weights()
	if err != nil {
		return nil, err
	}
	w := &blockWeights{nibbles: *nibbles, columns: l.q.Shape[l.outputs], bytes: place.Nowhere, scales: place.Nowhere}
	s := blockShape{bits: l.storedBits(), matrices: 1, columns: w.columns, block: nibbles.Block, blocks: nibbles.Blocks}
	if s.packs(k) {
		w.octets = s.packed(k, nibbles.Bytes, nibbles.Scales, nibbles.Zeros)
		w.nibbles.Bytes, w.nibbles.Scales = nil, nil
	}
	return w, nil
}

// nibbleProductName is the name of the property of such products, and of the fused nodes' pattern.
const nibbleProductName = "nibble-product"

func nibbleProduct() property.SubgraphProperty {
	return property.Found(nibbleProductName, 2, func(seed *graph.Node) []*graph.Node {
		if l := followNibbles(seed, true); l != nil {
			return l.nodes()
		}
		return nil
	})
}

// fusedNibbles reads the body of a fused node.
func fusedNibbles(n *graph.Node) (*nibbleLinks, *property.Reason) {
	return formOf(n, "product with weights of a few bits", func(m *graph.Node) *nibbleLinks { return followNibbles(m, true) })
}

// unfitNibbles is unfit for such nodes, whose constants may have elements below a byte.
func unfitNibbles(v *graph.Value) *property.Reason {
	if bits, _ := fewBits(v.Type.DType); bits > 0 && v.IsConst() {
		return nil
	}
	return unfit(v)
}

func nibbleProductSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if _, why := fusedNibbles(n); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

func planNibbleProduct(p *planner, n *graph.Node) error {
	l, why := fusedNibbles(n)
	if why != nil {
		return why
	}
	packed, err := keep(p.e, n, func() (*blockWeights, error) { return l.packed(octet.For(p.target)) })
	if err != nil {
		return err
	}
	w := *packed
	x := fuse.Outer(n, l.head.Inputs[0])
	dims, k := p.Dims[x.ID], l.q.Shape[1-l.outputs]
	if dims[len(dims)-1] != k {
		return property.Because(property.ShapeReason, "weights of %d x %d for %v", k, w.columns, dims)
	}
	bias := place.Nowhere
	if l.bias != nil {
		from := p.In(fuse.Outer(n, l.bias))
		bias = p.Temp(4 * w.columns)
		p.emit(step{serial: func(st *state) { repeatLast(st.F32(bias), st.F32(from)) }}, []place.Memory{from}, []place.Memory{bias})
	}
	return p.blockProduct(&w, k, false, p.In(x), bias, p.Out(n.Outputs[0]), product(dims[:len(dims)-1]))
}

func init() {
	table.Register(operators.Pattern(nibbleProductName), operator{Signatures: nibbleProductSignatures, Plan: planNibbleProduct})
}
