package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

func poolSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if hasIndices(n) {
		return planeSignatures(n)
	}
	if poolsBytes(n) {
		return followBytes(n, func(int) bool { return true }), nil
	}
	if !isImage(x) {
		return nil, property.Because(property.ShapeReason, "float32 pooling over one to three axes only, %v is %v", x, x.Type)
	}
	if w, err := graph.PoolAttrs(n); err != nil || len(w.Kernel) != len(x.Type.Shape)-2 {
		return nil, property.Because(property.Attribute, "window of %v", n)
	}
	if is5D(x) {
		return append([]graph.Signature{graph.UniformSignature("ncdhw16c", n, volume)}, operators.RowMajor(n)...), nil
	}
	if !is4D(x) {
		return operators.RowMajor(n), nil
	}
	s := []graph.Signature{graph.UniformSignature("nchw16c", n, blocked)}
	if poolsRows(x.Type.Shape) {
		return append(operators.RowMajor(n), s...), nil
	}
	return s, nil
}

// poolsRows reports whether images are pooled row by row where their neighbours are row-major: those of so few channels that blocks of 16 would
// be mostly empty. A row takes a call for each tap, so that of narrow images fewer are few.
func poolsRows(s graph.Shape) bool {
	channels, known := s[1].Const()
	width, knownWidth := s[3].Const()
	most := int64(fewPlanes)
	switch {
	case knownWidth && width < 28:
		most = 2
	case knownWidth && width < 32:
		most = 3
	}
	return known && channels <= most
}

// fewPlanes is how many channels at most are pooled row by row.
const fewPlanes = 8

func planPool(p *planner, n *graph.Node) error {
	if hasIndices(n) {
		return planMaxIndices(p, n)
	}
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
	line := len(p.Dims[x.ID]) == 3
	if x.Format == rowMaj && (!line || dx[1] <= fewPlanes) {
		return planPoolRows(p, n)
	}
	if x.Format == volume {
		return p.volumePool(x, y, &w, kind)
	}
	spec := conv.PoolSpec{N: dx[0], C: dx[1], Map: windowMap(&w, p.Dims[x.ID][2:], p.Dims[y.ID][2:]), Pooling: kind}
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

// pool emits a pooling of blocked images: a maximum over a large window along rows first, and of that down columns, which looks at fewer elements.
func (p *planner) pool(spec conv.PoolSpec, src, dst place.Memory) error {
	if across, down, ok := separated(spec); ok {
		between := p.Temp(4 * 16 * spec.N * ceilDiv(spec.C, 16) * down.H * down.W)
		if err := p.poolAtOnce(across, src, between); err != nil {
			return err
		}
		return p.poolAtOnce(down, between, dst)
	}
	return p.poolAtOnce(spec, src, dst)
}

// separated returns a pooling as one along rows and one down columns, and whether that is faster.
func separated(spec conv.PoolSpec) (across, down conv.PoolSpec, ok bool) {
	const pass = 1.6 // of the time for an element that is looked at, as results in between are written and read
	k, m := spec.Kernel, spec.Map
	whole, apart := float64(m.OH*m.OW)*float64(k[0]*k[1]), float64(m.OW)*float64(m.H*(k[1]+1)+m.OH*k[0])
	if spec.Pooling != conv.Max || k[0] == 1 || k[1] == 1 || apart*pass >= whole {
		return across, down, false
	}
	across, down = spec, spec
	across.OH, across.Kernel[0], across.Stride[0], across.Dilate[0], across.Pad[0], across.Pad[2] = m.H, 1, 1, 1, 0, 0
	across.DstImage, across.ResImage, across.Epilogue = 0, 0, conv.Epilogue{}
	down.W, down.Kernel[1], down.Stride[1], down.Dilate[1], down.Pad[1], down.Pad[3] = m.OW, 1, 1, 1, 0, 0
	down.SrcImage = 0
	return across, down, true
}

// poolAtOnce emits a pooling of blocked images by one kernel.
func (p *planner) poolAtOnce(spec conv.PoolSpec, src, dst place.Memory) error {
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

func init() {
	table.Register("MaxPool", operator{Signatures: poolSignatures, Plan: planPool, Strided: imagesStrided})
	table.Register("AveragePool", operator{Signatures: poolSignatures, Plan: planPool, Strided: imagesStrided})
	table.Register("GlobalAveragePool", operator{Signatures: globalSignatures, Plan: planGlobalPool, Strided: globalPoolStrided})
	table.Register("GlobalMaxPool", operator{Signatures: globalSignatures, Plan: planGlobalPool, Strided: globalPoolStrided})
}
