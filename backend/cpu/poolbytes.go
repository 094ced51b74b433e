package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/place"
)

// poolsBytes reports whether a node is a MaxPool of row-major 8-bit integers over one or two axes, without indices.
func poolsBytes(n *graph.Node) bool {
	x := n.Inputs[0]
	rank := len(x.Type.Shape)
	if !n.Is("MaxPool") || !byteDType(x.Type.DType) || rank < 3 || rank > 4 || len(n.Outputs) > 1 && n.Outputs[1] != nil {
		return false
	}
	w, err := graph.PoolAttrs(n)
	return err == nil && len(w.Kernel) == rank-2
}

// maxPoolBytes emits a MaxPool of integers of 8 bits, a plane at a time.
func maxPoolBytes[T int8 | uint8](p *planner, m conv.Map, planes int, src, dst place.Memory, least T) {
	p.emit(step{chunks: planes, grain: grainFor(float64(m.OH*m.OW*m.Kernel[0]*m.Kernel[1]) * 0.7), body: func(st *state, _, lo, hi int) {
		x, y := of[T](st, src), of[T](st, dst)
		for c := lo; c < hi; c++ {
			in, out := x[c*m.H*m.W:(c+1)*m.H*m.W], y[c*m.OH*m.OW:(c+1)*m.OH*m.OW]
			for oy := range m.OH {
				row := out[oy*m.OW : (oy+1)*m.OW]
				for i := range row {
					row[i] = least
				}
				for ky := range m.Kernel[0] {
					iy := oy*m.Stride[0] - m.Pad[0] + ky*m.Dilate[0]
					if iy < 0 || iy >= m.H {
						continue
					}
					line := in[iy*m.W : (iy+1)*m.W]
					for kx := range m.Kernel[1] {
						ix := kx*m.Dilate[1] - m.Pad[1]
						for i := range row {
							if uint(ix) < uint(len(line)) {
								row[i] = max(row[i], line[ix])
							}
							ix += m.Stride[1]
						}
					}
				}
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

func planPoolBytes(p *planner, n *graph.Node, m conv.Map) {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.Dims[x.ID]
	if x.Type.DType == tensor.Int8 {
		maxPoolBytes[int8](p, m, d[0]*d[1], p.In(x), p.Out(y), -128)
	} else {
		maxPoolBytes[uint8](p, m, d[0]*d[1], p.In(x), p.Out(y), 0)
	}
}
