package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/nibble"
	"github.com/carve-dev/carve/internal/kernel/octet"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Products with weights in blocks (blockweights.go). Rows of the first operand are brought into the kernels' order in a step of its own
// where they are few.

// nbitsColumns is the number of columns of a chunk: their weights stay near while rows go by.
const nbitsColumns = 32

func nbitsSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	a, scales, zeros := n.Inputs[0], n.Inputs[2], n.Input(3)
	bits, block := int(n.Int("bits", 4)), int(n.Int("block_size", 0))
	switch {
	case !operators.IsFloat32(a, scales):
		return nil, operators.NotFloat32(a)
	case !readAsNibbles(bits, block) && (!fuse.IsTensorConst(n.Inputs[1]) || !fuse.IsTensorConst(scales)):
		return nil, property.Because(property.Unsupported, "weights of %d bits in blocks of %d that are not constant", bits, block)
	case n.Input(4) != nil:
		return nil, property.Because(property.Unsupported, "columns in another order")
	case zeros != nil && (zeros.Const == nil || zeros.Type.DType != tensor.Uint8):
		return nil, property.Because(property.Unsupported, "zero points %v that are no constant bytes", zeros.Type)
	}
	return operators.RowMajor(n), nil
}

// nbitsName is the operator's name in the table.
var nbitsName = operators.Of(microsoft.Domain, "MatMulNBits")

func nbitsShape(n *graph.Node) blockShape {
	s := blockShape{bits: int(n.Int("bits", 4)), matrices: 1, columns: int(n.Int("N", 0)), block: int(n.Int("block_size", 0)), mayRound: n.Int("accuracy_level", 0) == roundsRows}
	if s.block > 0 {
		s.blocks = ceilDiv(int(n.Int("K", 0)), s.block)
	}
	return s
}

// nbitsWeights returns the weights of a node as they are multiplied, which are made once.
func (e *executable) nbitsWeights(n *graph.Node, s blockShape) (*blockWeights, error) {
	return keep(e, n, func() (*blockWeights, error) {
		zeros, err := microsoft.Zeros(n)
		if err != nil {
			return nil, err
		}
		weights, scales := n.Inputs[1], n.Inputs[2]
		w := &blockWeights{nibbles: nibble.Weights{Zeros: zeros, Block: s.block, Blocks: s.blocks}, columns: s.columns}
		if k := octet.For(e.target); fuse.IsTensorConst(weights) && fuse.IsTensorConst(scales) && s.packs(k) {
			w.octets = s.packedConstants(k, weights, scales, zeros)
		}
		return w, nil
	})
}

// packNBits makes the weights of a node before the first run, where they are whole; what is wrong with others its plan says.
func (e *executable) packNBits(n *graph.Node) {
	s := nbitsShape(n)
	if !fuse.IsTensorConst(n.Inputs[1]) || !fuse.IsTensorConst(n.Inputs[2]) {
		return
	}
	weights, scales := fuse.Behind(n.Inputs[1]).Const, fuse.Behind(n.Inputs[2]).Const
	if len(weights.Bytes()) == s.columns*s.blocks*s.block*s.bits/8 && scales.Len() == s.columns*s.blocks {
		_, _ = e.nbitsWeights(n, s)
	}
}

func planNBits(p *planner, n *graph.Node) error {
	x, y, weights, scales := n.Inputs[0], n.Outputs[0], n.Inputs[1], n.Inputs[2]
	dims, k, s := p.Dims[x.ID], int(n.Int("K", 0)), nbitsShape(n)
	if dims[len(dims)-1] != k || product(p.Dims[weights.ID]) != s.columns*s.blocks*s.block*s.bits/8 || product(p.Dims[scales.ID]) != s.columns*s.blocks {
		return property.Because(property.ShapeReason, "weights of %d x %d for %v", k, s.columns, dims)
	}
	w, err := p.e.nbitsWeights(n, s)
	if err != nil {
		return err
	}
	at := *w
	if at.bytes, at.scales = place.Nowhere, place.Nowhere; at.octets == nil {
		at.bytes, at.scales = p.In(weights), p.In(scales)
	}
	bias := place.Nowhere
	if v := n.Input(5); v != nil {
		bias = p.In(v)
	}
	return p.blockProduct(&at, k, s.mayRound, p.In(x), bias, p.Out(y), product(dims[:len(dims)-1]))
}

// blockProduct emits a product of rows of k floats, which may be rounded to 8 bits, with one matrix; bias may be Nowhere.
func (p *planner) blockProduct(w *blockWeights, k int, mayRound bool, src, bias, dst place.Memory, rows int) error {
	w.multiplyFor(p.target, mayRound)
	if !w.reads(rows) {
		return p.unpackedProduct(w, k, src, bias, dst, rows)
	}
	cols, size := w.columns, w.rowBytes()
	near := p.Temp(rows * size)
	p.emit(step{chunks: rows, grain: grainFor(float64(k) + 5), body: func(st *state, _, lo, hi int) {
		from, to := st.F32(src), st.Bytes(near)
		for r := lo; r < hi; r++ {
			w.put(to[r*size:], from[r*k:][:k])
		}
	}}, []place.Memory{src}, []place.Memory{near})
	p.emit(step{work: 1, chunks: ceilDiv(cols, nbitsColumns), grain: grainFor(float64(rows*k*nbitsColumns)/30 + 20), body: func(st *state, _, lo, hi int) {
		a, out, add := st.Bytes(near), st.F32(dst), st.F32(bias)
		for c := lo * nbitsColumns; c < min(hi*nbitsColumns, cols); c += nbitsColumns {
			count := min(nbitsColumns, cols-c)
			w.multiply(st, out[c:], cols, a, rows, 0, c, count)
			for r := range rows {
				for i, b := range add[min(c, len(add)):min(c+count, len(add))] {
					out[r*cols+c+i] += b
				}
			}
		}
	}}, []place.Memory{near, w.bytes, w.scales, bias}, []place.Memory{dst})
	return nil
}

// Floats that weights are unpacked to at a time: of nbitsPanels panels, and at most nbitsFloats of them where that is more than one.
const (
	nbitsPanels = 4
	nbitsFloats = 1 << 17
)

// unpackedProduct is blockProduct for many rows.
func (p *planner) unpackedProduct(w *blockWeights, k int, src, bias, dst place.Memory, rows int) error {
	cols := w.columns
	wide := min(max(nbitsFloats/(k*gemm.Panel), 1), nbitsPanels) * gemm.Panel
	spec := gemm.Spec{M: rows, N: min(wide, cols), K: k, LDC: cols, B: gemm.Packed, Bias: bias.Slot >= 0}
	whole, err := gemm.NewPlan(p.target, spec)
	if err != nil {
		return err
	}
	if spec.N = cols % wide; spec.N == 0 {
		spec.N = min(wide, cols)
	}
	last, err := gemm.NewPlan(p.target, spec)
	if err != nil {
		return err
	}
	unpacked := p.scratch(4 * k * wide)
	p.emit(step{work: 1, chunks: ceilDiv(cols, wide), grain: 1, body: func(st *state, worker, lo, hi int) {
		floats, add := unpacked.floats(st, worker), st.F32(bias)
		for c := lo * wide; c < min(hi*wide, cols); c += wide {
			plan, n := whole, wide
			if n >= cols-c {
				plan, n = last, cols-c
			}
			w.unpack(st, floats, 0, c, n, k)
			args := gemm.Args{A: st.F32(src), B: floats, C: st.F32(dst)[c:]}
			if add != nil {
				args.Bias = add[c:]
			}
			plan.Run(0, plan.Chunks(), args)
		}
	}}, []place.Memory{src, w.bytes, w.scales, bias}, []place.Memory{dst, unpacked.at})
	return nil
}

func init() {
	table.Register(nbitsName, operator{Signatures: nbitsSignatures, Plan: planNBits})
}
