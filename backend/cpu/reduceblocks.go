package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
)

// reducesBlocks reports whether a reduction of a blocked image gives a sum for each channel, of all of its pixels.
func reducesBlocks(n *graph.Node) bool {
	axes, ok := reduceAxes(n)
	return ok && n.Is("ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2") && is4D(n.Inputs[0]) && len(axes) == 2 && axes[0] == 2
}

// reduceBlocks emits the sums of the lanes of each block, and what is made of them.
func (p *planner) reduceBlocks(n *graph.Node) {
	x, y := n.Inputs[0], n.Outputs[0]
	d, r, kernels := p.Dims[x.ID], reductions[n.Op.Name], p.kernels
	src, dst := p.In(x), p.Out(y)
	hw, blocks := d[2]*d[3], ceilDiv(d[1], 16)
	pitch, row := max(src.Pitch/4, blocks*16*hw), d[1]
	if y.Format == blocked {
		row = 16 * blocks
	}
	p.emit(step{chunks: d[0] * blocks, grain: grainFor(float64(hw)*16*0.03 + 50), body: func(st *state, _, lo, hi int) {
		s, o := st.F32(src), st.F32(dst)
		for i := lo; i < hi; i++ {
			image, block := i/blocks, i%blocks
			var sums [16]float32
			laneSums(kernels, r.op, &sums, s[image*pitch+block*16*hw:][:16*hw])
			if r.then.some {
				kernels.Apply(r.then.op, sums[:], sums[:], r.then.params)
			}
			to := o[image*row : (image+1)*row]
			copy(to[16*block:], sums[:])
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}
