package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/nibble"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Products with weights of 4 bits, which kernels read as they lie in the model, of 2 bits, which become 4, and of 8 bits, which are taken apart
// (nbitsbytes.go). Rows of the first operand are brought into the kernels' order in a step of its own where they are few.

// nbitsColumns is the number of columns of a chunk: their weights stay near while rows go by.
const nbitsColumns = 32

func nbitsSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	a, scales, zeros := n.Inputs[0], n.Inputs[2], n.Input(3)
	switch {
	case !operators.IsFloat32(a, scales):
		return nil, operators.NotFloat32(a)
	case n.Int("block_size", 0)%nibble.Group != 0:
		return nil, property.Because(property.Unsupported, "blocks of %d", n.Int("block_size", 0))
	case n.Int("bits", 4) != 4 && (!fuse.IsTensorConst(n.Inputs[1]) || !fuse.IsTensorConst(scales)):
		return nil, property.Because(property.Unsupported, "weights of %d bits that are not constant", n.Int("bits", 4))
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
	w := nibbles{k: int(n.Int("K", 0)), columns: int(n.Int("N", 0)), bytes: p.In(n.Inputs[1]), scales: p.In(n.Inputs[2]), bias: place.Nowhere}
	w.Block = int(n.Int("block_size", 0))
	w.Blocks = ceilDiv(w.k, w.Block)
	bits := int(n.Int("bits", 4))
	if dims[len(dims)-1] != w.k || product(p.Dims[n.Inputs[1].ID]) != w.columns*w.Width()*bits/8 || product(p.Dims[n.Inputs[2].ID]) != w.columns*w.Blocks {
		return property.Because(property.ShapeReason, "weights of %d x %d for %v", w.k, w.columns, dims)
	}
	var err error
	if w.Zeros, err = keep(p.e, n, func() ([]float32, error) { return microsoft.Zeros(n) }); err != nil {
		return err
	}
	if bits != 4 {
		apart, err := keep(p.e, n, func() (nibble.Weights, error) {
			b, scales := fuse.Behind(n.Inputs[1]).Const.Bytes(), fuse.Floats(fuse.Behind(n.Inputs[2]).Const)
			if bits == 2 {
				return nibble.Weights{Bytes: widened(b), Scales: scales, Zeros: w.Zeros, Block: w.Block, Blocks: w.Blocks}, nil
			}
			return takenApart(b, scales, w.Zeros, w.columns, w.Block, w.Blocks), nil
		})
		if err != nil {
			return err
		}
		w.Weights, w.twofold, w.bytes, w.scales = apart, bits == 8, place.Nowhere, place.Nowhere
	}
	if v := n.Input(5); v != nil {
		w.bias = p.In(v)
	}
	w.round = n.Int("accuracy_level", 0) == roundsRows
	return p.nibbleProduct(&w, p.In(x), p.Out(y), product(dims[:len(dims)-1]))
}

// nibbles are the weights of a product, of 4 bits, [k, columns].
type nibbles struct {
	nibble.Weights // without bytes and scales where they lie in memory of a run

	k, columns    int
	bytes, scales place.Memory // Nowhere where the weights have their own
	bias          place.Memory // of each column; may be Nowhere
	twofold       bool         // weights of 8 bits were taken apart
	round         bool         // rows may be rounded to integers of 8 bits
}

// roundsRows is the accuracy_level at which ONNX Runtime rounds rows to integers of 8 bits, block by block, which its results show.
const roundsRows = 4

// at returns the weights in a run.
func (w *nibbles) at(st *state) nibble.Weights {
	out := w.Weights
	if out.Bytes == nil {
		out.Bytes, out.Scales = st.Bytes(w.bytes), st.F32(w.scales)
	}
	return out
}

// nbitsFew is the most rows that are multiplied by weights as they are read. For more the weights are made floats, some columns at a
// time, which products of floats read while they are near.
const nbitsFew = 8

// nibbleProduct emits a product of rows of k floats.
func (p *planner) nibbleProduct(w *nibbles, src, dst place.Memory, rows int) error {
	kernels := nibble.For(p.target)
	round := w.round && kernels.Rounds(&w.Weights)
	if rows > nbitsFew && !round {
		return p.unpackedProduct(w, src, dst, rows)
	}
	k, cols, width := w.k, w.columns, w.Width()
	size := 4 * width // of a row in the kernels' order
	if round {
		size = w.RoundedBytes()
	}
	near, both := p.Temp(rows*size), 0
	if w.twofold {
		both = width
	}
	twice := p.scratch(4 * both)
	p.emit(step{chunks: rows, grain: grainFor(float64(width) + 5), body: func(st *state, worker, lo, hi int) {
		from, to := st.F32(src), st.Bytes(near)
		for r := lo; r < hi; r++ {
			x := from[r*k:][:k]
			if w.twofold {
				x = twofold(twice.floats(st, worker)[:width], x)
			}
			if row := to[r*size:][:size]; round {
				kernels.Round(&w.Weights, row, x)
			} else {
				nibble.Spread(place.Elements[float32](row), x)
			}
		}
	}}, []place.Memory{src}, []place.Memory{near, twice.at})
	p.emit(step{work: 1, chunks: ceilDiv(cols, nbitsColumns), grain: grainFor(float64(rows*width*nbitsColumns)/30 + 20), body: func(st *state, _, lo, hi int) {
		part := w.at(st)
		a, out, add := st.Bytes(near), st.F32(dst), st.F32(w.bias)
		for c := lo * nbitsColumns; c < min(hi*nbitsColumns, cols); c += nbitsColumns {
			count := min(nbitsColumns, cols-c)
			if round {
				kernels.MultiplyRounded(out[c:], cols, a, rows, &part, c, count)
			} else {
				kernels.Multiply(out[c:], cols, place.Elements[float32](a), rows, &part, c, count)
			}
			for r := range rows {
				for i, b := range add[min(c, len(add)):min(c+count, len(add))] {
					out[r*cols+c+i] += b
				}
			}
		}
	}}, []place.Memory{near, w.bytes, w.scales, w.bias}, []place.Memory{dst})
	return nil
}

// Floats that weights are unpacked to at a time: of nbitsPanels panels, and at most nbitsFloats of them where that is more than one.
const (
	nbitsPanels = 4
	nbitsFloats = 1 << 17
)

// unpackedProduct is nibbleProduct for many rows.
func (p *planner) unpackedProduct(w *nibbles, src, dst place.Memory, rows int) error {
	k, cols := w.k, w.columns
	panels := min(max(nbitsFloats/(k*nibble.Panel), 1), nbitsPanels)
	wide := panels * nibble.Panel
	spec := gemm.Spec{M: rows, N: min(wide, cols), K: k, LDC: cols, B: gemm.Packed, Bias: w.bias.Slot >= 0}
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
	kernels, unpacked, size := nibble.For(p.target), p.scratch(4*k*wide), k*nibble.Panel
	apart := 0 // floats of a panel whose weights are not together yet
	if w.twofold {
		apart = w.Width() * nibble.Panel
	}
	near := p.scratch(4 * apart)
	p.emit(step{work: 1, chunks: ceilDiv(cols, wide), grain: 1, body: func(st *state, worker, lo, hi int) {
		weights, floats, bias := w.at(st), unpacked.floats(st, worker), st.F32(w.bias)
		for c := lo * wide; c < min(hi*wide, cols); c += wide {
			plan, n := whole, wide
			if n >= cols-c {
				plan, n = last, cols-c
			}
			for i := 0; i < n; i += nibble.Panel {
				panel, count := floats[i/nibble.Panel*size:], min(nibble.Panel, n-i)
				if w.twofold {
					unpackTwofold(kernels, p.kernels, panel, near.floats(st, worker), &weights, c+i, count, k)
				} else {
					kernels.Unpack(panel, &weights, c+i, count, k)
				}
			}
			args := gemm.Args{A: st.F32(src), B: floats, C: st.F32(dst)[c:]}
			if bias != nil {
				args.Bias = bias[c:]
			}
			plan.Run(0, plan.Chunks(), args)
		}
	}}, []place.Memory{src, w.bytes, w.scales, w.bias}, []place.Memory{dst, unpacked.at, near.at})
	return nil
}

func init() {
	table.Register(operators.Of(microsoft.Domain, "MatMulNBits"), operator{Signatures: nbitsSignatures, Plan: planNBits})
}
