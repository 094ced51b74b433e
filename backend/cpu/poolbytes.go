package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/place"
)

// poolsBytes reports whether a node is a MaxPool of 8-bit integers over one or two axes, without indices.
func poolsBytes(n *graph.Node) bool {
	x := n.Inputs[0]
	rank := len(x.Type.Shape)
	if !n.Is("MaxPool") || !byteDType(x.Type.DType) || rank < 3 || rank > 4 || len(n.Outputs) > 1 && n.Outputs[1] != nil {
		return false
	}
	w, err := graph.PoolAttrs(n)
	return err == nil && len(w.Kernel) == rank-2
}

// maxPoolBytes emits a MaxPool of integers of 8 bits, a plane at a time: the larger of rows, then of neighbours, then one of each
// stride.
func (p *planner) maxPoolBytes(m conv.Map, planes int, src, dst place.Memory, signed bool) {
	width := max(m.Pad[1], 0) + m.W + max((m.OW-1)*m.Stride[1]+(m.Kernel[1]-1)*m.Dilate[1]+1-m.W-m.Pad[1], 0)
	work, kernels := p.scratch(2*width), p.integers
	least := leastByte(signed)
	p.emit(step{chunks: planes, grain: grainFor(float64(m.OH*(m.OW+m.W*m.Kernel[0]/8)) + 50), body: func(st *state, worker, lo, hi int) {
		x, y, near := st.Bytes(src), st.Bytes(dst), work.bytes(st, worker)
		rows, row := near[:width], near[width:2*width]
		for i := range rows {
			rows[i] = least
		}
		for c := lo; c < hi; c++ {
			in, out := x[c*m.H*m.W:(c+1)*m.H*m.W], y[c*m.OH*m.OW:(c+1)*m.OH*m.OW]
			for oy := range m.OH {
				poolLine(kernels, &m, out[oy*m.OW:(oy+1)*m.OW], in, oy, rows, row, signed, least)
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst, work.at})
}

// poolLine pools to a row of results. rows and row are as wide as what windows see; rows holds the least integer in its padding.
func poolLine(kernels quant.Kernels, m *conv.Map, out, in []byte, oy int, rows, row []byte, signed bool, least byte) {
	seen := rows[max(m.Pad[1], 0):][:m.W]
	none := true
	for ky := range m.Kernel[0] {
		iy := oy*m.Stride[0] - m.Pad[0] + ky*m.Dilate[0]
		if iy < 0 || iy >= m.H {
			continue
		}
		if line := in[iy*m.W : (iy+1)*m.W]; none {
			copy(seen, line)
			none = false
		} else {
			kernels.Larger(seen, seen, line, signed)
		}
	}
	if none {
		for i := range seen {
			seen[i] = least
		}
	}
	from, reach := max(-m.Pad[1], 0), (m.OW-1)*m.Stride[1]+1
	row = row[:reach]
	copy(row, rows[from:])
	for kx := 1; kx < m.Kernel[1]; kx++ {
		kernels.Larger(row, row, rows[from+kx*m.Dilate[1]:][:reach], signed)
	}
	for i := range out {
		out[i] = row[i*m.Stride[1]]
	}
}
