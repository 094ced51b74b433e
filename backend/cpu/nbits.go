package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/nibble"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Products with weights of 4 bits, which kernels read as they lie in the model. Rows of the first operand are brought into the kernels'
// order in a step of its own.

// nbitsColumns is the number of columns of a chunk: their weights stay near while rows go by.
const nbitsColumns = 32

func nbitsSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	a, scales, zeros := n.Inputs[0], n.Inputs[2], n.Input(3)
	switch {
	case !operators.IsFloat32(a, scales):
		return nil, operators.NotFloat32(a)
	case n.Int("bits", 4) != 4 || n.Int("block_size", 0)%nibble.Group != 0:
		return nil, property.Because(property.Unsupported, "%d bits in blocks of %d", n.Int("bits", 4), n.Int("block_size", 0))
	case n.Input(4) != nil:
		return nil, property.Because(property.Unsupported, "columns in another order")
	case zeros != nil && (zeros.Const == nil || zeros.Type.DType != tensor.Uint8):
		return nil, property.Because(property.Unsupported, "zero points %v that are no constant bytes", zeros.Type)
	}
	return operators.RowMajor(n), nil
}

func planNBits(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	dims := p.Dims[x.ID]
	k, cols, block := int(n.Int("K", 0)), int(n.Int("N", 0)), int(n.Int("block_size", 0))
	rows := product(dims[:len(dims)-1])
	w := nibble.Weights{Block: block, Blocks: ceilDiv(k, block)}
	if dims[len(dims)-1] != k || product(p.Dims[n.Inputs[1].ID]) != cols*w.Width()/2 || product(p.Dims[n.Inputs[2].ID]) != cols*w.Blocks {
		return property.Because(property.ShapeReason, "weights of %d x %d for %v", k, cols, dims)
	}
	zeros, err := keep(p.e, n, func() ([]float32, error) { return microsoft.Zeros(n) })
	if err != nil {
		return err
	}
	w.Zeros = zeros
	width, spread := w.Width(), p.Temp(4*rows*w.Width())
	src, dst, bytes, scales, bias := p.In(x), p.Out(y), p.In(n.Inputs[1]), p.In(n.Inputs[2]), place.Nowhere
	if v := n.Input(5); v != nil {
		bias = p.In(v)
	}
	p.emit(step{chunks: rows, grain: grainFor(float64(width) + 5), body: func(st *state, _, lo, hi int) {
		from, to := st.F32(src), st.F32(spread)
		for r := lo; r < hi; r++ {
			nibble.Spread(to[r*width:][:width], from[r*k:][:k])
		}
	}}, []place.Memory{src}, []place.Memory{spread})
	kernels := nibble.For(p.target)
	p.emit(step{work: 1, chunks: ceilDiv(cols, nbitsColumns), grain: grainFor(float64(rows*width*nbitsColumns)/30 + 20), body: func(st *state, _, lo, hi int) {
		part := w
		part.Bytes, part.Scales = st.Bytes(bytes), st.F32(scales)
		a, out, add := st.F32(spread), st.F32(dst), st.F32(bias)
		for c := lo * nbitsColumns; c < min(hi*nbitsColumns, cols); c += nbitsColumns {
			count := min(nbitsColumns, cols-c)
			kernels.Multiply(out[c:], cols, a, rows, &part, c, count)
			for r := range rows {
				for i, b := range add[min(c, len(add)):min(c+count, len(add))] {
					out[r*cols+c+i] += b
				}
			}
		}
	}}, []place.Memory{spread, bytes, scales, bias}, []place.Memory{dst})
	return nil
}

func init() {
	table.Register(operators.Of(microsoft.Domain, "MatMulNBits"), operator{Signatures: nbitsSignatures, Plan: planNBits})
}
