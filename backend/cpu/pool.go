package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

func poolSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if poolsBytes(n) {
		return followBytes(n, func(int) bool { return true }), nil
	}
	if !isImage(x) {
		return nil, property.Because(property.ShapeReason, "float32 pooling over one to three axes only, %v is %v", x, x.Type)
	}
	if w, err := graph.PoolAttrs(n); err != nil || len(w.Kernel) != len(x.Type.Shape)-2 {
		return nil, property.Because(property.Attribute, "window of %v", n)
	}
	if len(n.Outputs) > 1 && n.Outputs[1] != nil {
		return nil, property.Because(property.Unsupported, "indices as an output")
	}
	if is5D(x) {
		return []graph.Signature{graph.UniformSignature("ncdhw16c", n, volume)}, nil
	}
	if !is4D(x) {
		return operators.RowMajor(n), nil
	}
	return []graph.Signature{graph.UniformSignature("nchw16c", n, blocked)}, nil
}

func planPool(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	dx, dy := planar(p.Dims[x.ID]), planar(p.Dims[y.ID])
	w, err := graph.PoolAttrs(n)
	if err != nil {
		return err
	}
	if byteDType(x.Type.DType) {
		planPoolBytes(p, n, windowMap(&w, p.Dims[x.ID][2:], p.Dims[y.ID][2:]))
		return nil
	}
	kind := conv.Max
	if n.Is("AveragePool") {
		kind = conv.Average
		if n.Int("count_include_pad", 0) != 0 {
			kind = conv.AveragePadded
		}
	}
	if x.Format == volume {
		return p.volumePool(x, y, &w, kind)
	}
	spec := conv.PoolSpec{N: dx[0], C: dx[1], Map: windowMap(&w, p.Dims[x.ID][2:], p.Dims[y.ID][2:]), Pooling: kind}
	line := len(p.Dims[x.ID]) == 3
	src, dst := p.In(x), p.Out(y)
	spec.SrcImage, spec.DstImage = src.Pitch/4, dst.Pitch/4
	if !line {
		return p.pool(spec, src, dst)
	}
	if src, err = p.toBlocked(dx, src); err != nil {
		return err
	}
	made := p.Temp(blockedBytes(dy))
	if err := p.pool(spec, src, made); err != nil {
		return err
	}
	return p.fromBlocked(dy, made, dst)
}

// pool emits a pooling of blocked images.
func (p *planner) pool(spec conv.PoolSpec, src, dst place.Memory) error {
	plan, err := conv.NewPool(p.target, spec)
	if err != nil {
		return err
	}
	p.emit(p.convStep(plan, float64(plan.Cost()), func(st *state) conv.Tensors {
		return conv.Tensors{Src: st.F32(src), Dst: st.F32(dst)}
	}), []place.Memory{src}, []place.Memory{dst})
	return nil
}

// globalPoolSignatures: from blocked to row-major, or to blocked where the result keeps rank 4.
func globalPoolSignatures(n *graph.Node, keeps bool) []graph.Signature {
	rest := make([]graph.Port, len(n.Inputs)-1)
	in := append([]graph.Port{graph.Fixed(blocked)}, rest...)
	plain := graph.Signature{Name: "nchw16c-nchw", Inputs: in, Outputs: []graph.Port{graph.Fixed(rowMaj)}}
	if !keeps {
		return []graph.Signature{plain}
	}
	return []graph.Signature{{Name: "nchw16c", Inputs: in, Outputs: []graph.Port{graph.Fixed(blocked)}}, plain}
}

func globalSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if !operators.IsFloat32(x) || len(x.Type.Shape) < 3 {
		return nil, property.Because(property.ShapeReason, "float32 images only, %v is %v", x, x.Type)
	}
	if is5D(x) {
		s := graph.Signature{Name: "ncdhw16c-ncdhw", Inputs: []graph.Port{graph.Fixed(volume)}, Outputs: []graph.Port{graph.Fixed(rowMaj)}}
		return append([]graph.Signature{s}, operators.RowMajor(n)...), nil
	}
	if !is4D(x) {
		return operators.RowMajor(n), nil
	}
	return globalPoolSignatures(n, true), nil
}

// globalPoolStrided is the Strided of global pooling: of the operand.
func globalPoolStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	if v.Format == blocked {
		return v == n.Inputs[0] && p.wholeImages(v, m)
	}
	_, ok := m.Runs(4 * product(p.Dims[v.ID][2:]))
	return ok && v == n.Inputs[0] && v.Format == rowMaj
}

func planGlobalPool(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.Dims[x.ID]
	src, dst := p.In(x), p.Out(y)
	if !inBlocks(x.Format) {
		r := reduction{op: vec.ReduceMax}
		if n.Is("GlobalAveragePool") {
			r = reduction{op: vec.ReduceSum, mean: true}
		}
		p.reduceRows(r, src, dst, d[0]*d[1], product(d[2:]))
		return nil
	}
	kind := conv.Average
	if n.Is("GlobalMaxPool") {
		kind = conv.Max
	}
	if x.Format == volume {
		return p.volumeGlobalPool(d, kind, src, dst)
	}
	plan, err := conv.NewGlobalPool(p.target, d[0], d[1], d[2]*d[3], kind, src.Pitch/4, 0)
	if err != nil {
		return err
	}
	padded := ceilDiv(d[1], 16) * 16
	made := dst
	squeeze := y.Format != blocked && d[1]%16 != 0
	if squeeze { // the kernel writes whole blocks
		made = p.Temp(d[0] * padded * 4)
	}
	p.runMover(plan, src, made)
	if squeeze {
		p.strided(copySpec{dims: []int{d[0], d[1]}, src: []int{padded, 1}, dst: []int{d[1], 1}, size: 4}, made, dst)
	}
	return nil
}

func batchNormSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := operators.NoScale(n); why != nil {
		return nil, why
	}
	return followSignatures(n, 1), nil
}

// batchNormScale returns scale and shift per channel.
func (p *planner) batchNormScale(n *graph.Node, in []*graph.Value, width int) (scale, shift []float32, err error) {
	var part [4][]float32
	for i := range part {
		if part[i], err = paddedFloats(in[i+1].Const, width); err != nil {
			return nil, nil, err
		}
	}
	eps := float64(n.Float("epsilon", 1e-5))
	c := in[1].Const.Len()
	scale, shift = make([]float32, width), make([]float32, width)
	for i := range c {
		s := float64(part[0][i]) / math.Sqrt(float64(part[3][i])+eps)
		scale[i] = float32(s)
		shift[i] = float32(float64(part[1][i]) - float64(part[2][i])*s)
	}
	return scale, shift, nil
}

func planBatchNorm(p *planner, n *graph.Node) error {
	for _, o := range n.Outputs[1:] {
		p.Out(o)
	}
	return p.fusedBatchNorm(n, n.Inputs, n.Outputs[0], tail{})
}

// fusedBatchNorm emits a batch normalisation with its activation; in are its operands as the subgraph knows them.
func (p *planner) fusedBatchNorm(n *graph.Node, in []*graph.Value, y *graph.Value, t tail) error {
	x := in[0]
	d := p.Dims[x.ID]
	width := ceilDiv(d[1], 16) * 16
	scale, shift, err := p.batchNormScale(n, in, width)
	if err != nil {
		return err
	}
	src, dst := p.In(x), p.Out(y)
	lo, hi := vec.Unbounded()
	if t.act.clip {
		lo, hi = t.act.lo, t.act.hi
	}
	if inBlocks(x.Format) {
		if x.Format == volume {
			d = slices2D(d)
		}
		spec := conv.ScaleSpec{N: d[0], C: d[1], HW: d[2] * d[3], SrcImage: src.Pitch / 4, DstImage: dst.Pitch / 4}
		t.epilogue(p.kernels, &spec.Epilogue)
		plan, err := conv.NewScale(p.target, spec)
		if err != nil {
			return err
		}
		p.emit(p.convStep(plan, float64(product(d))*0.1, func(st *state) conv.Tensors {
			return conv.Tensors{Src: st.F32(src), Dst: st.F32(dst), Weights: scale, Bias: shift}
		}), []place.Memory{src}, []place.Memory{dst})
		return nil
	}
	channels, hw, post, kernels := d[1], product(d[2:]), t.post(p.kernels), p.kernels
	p.emit(step{chunks: d[0] * channels, grain: grainFor(float64(hw)*0.1 + 5), body: func(st *state, _, from, to int) {
		o, s := st.F32(dst), st.F32(src)
		for i := from; i < to; i++ {
			c := i % channels
			row := o[i*hw : (i+1)*hw]
			kernels.MulAddRows(row, hw, s[i*hw:(i+1)*hw], hw, scale[c:c+1], shift[c:c+1], 1, hw, lo, hi)
			if post != nil {
				post(row)
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("MaxPool", operator{Signatures: poolSignatures, Plan: planPool, Strided: imagesStrided})
	table.Register("AveragePool", operator{Signatures: poolSignatures, Plan: planPool, Strided: imagesStrided})
	table.Register("GlobalAveragePool", operator{Signatures: globalSignatures, Plan: planGlobalPool, Strided: globalPoolStrided})
	table.Register("GlobalMaxPool", operator{Signatures: globalSignatures, Plan: planGlobalPool, Strided: globalPoolStrided})
	table.Register("BatchNormalization", operator{Signatures: batchNormSignatures, Settle: overFirst, Plan: planBatchNorm, Strided: imagesStrided})
}
