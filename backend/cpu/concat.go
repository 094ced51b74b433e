package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// concatSignatures: in the blocked layout along channels, and row-major.
func concatSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	plain := operators.RowMajor(n)
	if place.ConcatAxis(n) != 1 {
		return plain, nil
	}
	if isByteImage(n.Outputs[0]) {
		return followBytes(n, func(int) bool { return true }), nil
	}
	for _, v := range append([]*graph.Value{n.Outputs[0]}, n.Inputs...) {
		if _, ok := operators.ConstDim(v, 1); !ok || !is4D(v) {
			return plain, nil
		}
	}
	return append([]graph.Signature{graph.UniformSignature("nchw16c", n, blocked)}, plain...), nil
}

func planConcat(p *planner, n *graph.Node) error {
	y := n.Outputs[0]
	dst := p.Out(y)
	if y.Format == blocked && !p.OnBlocks(n) {
		return p.gatherChannels(n, dst)
	}
	if y.Format == lastChannels {
		p.concatPixels(n, dst)
		return nil
	}
	if p.extends(n) {
		p.extend(n)
		return nil
	}
	parts, ok := p.ConcatPlaces(n, dst)
	strides, at := p.laid(y).strides, 0
	axis := place.ConcatAxis(n)
	for i, v := range n.Inputs {
		l, size := p.laid(v), v.Type.DType.Size()
		if ok && p.In(v) == parts[i] {
			at += l.dims[axis]
			continue
		}
		p.strided(copySpec{dims: l.dims, src: l.strides, dst: strides, dstOff: at * strides[axis], size: size}, p.In(v), dst)
		at += l.dims[axis]
	}
	return nil
}

// concatStrided is the Strided of Concat: copies take strided rows of every kind, choices of channels strided images.
func concatStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	if v.Format == blocked {
		return p.wholeImages(v, m)
	}
	return operators.WholeDims(p, n, v, m)
}

// imagesStrided is the Strided of convolutions, pooling and batch normalisations, with their tails: in the blocked layout
// their images may have any pitch, those of residuals as well.
func imagesStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	if v.Format != blocked || !is4D(v) || !p.wholeImages(v, m) {
		return false
	}
	in, residual := n.Inputs, (*graph.Value)(nil)
	for _, c := range []*fuse.Chain{convTail, scaleTail} {
		if n.IsCarve(graph.OpFused) && n.Str("pattern", "") == c.Name {
			l, err := p.linksOf(c, n)
			if err != nil {
				return false
			}
			in, residual = fuse.Outers(n, l.Head.Inputs), fuse.Outer(n, l.Residual)
		}
	}
	if v.Producer == n {
		return v == n.Outputs[0]
	}
	return (v == in[0] || v == residual) && onlyOnce(n, v)
}

// onlyOnce reports whether one operand of n is v, and no more.
func onlyOnce(n *graph.Node, v *graph.Value) bool {
	reads := 0
	for k := range n.NumOperands() {
		if n.Operand(k) == v {
			reads++
		}
	}
	return reads == 1
}

// gatherChannels concatenates blocked tensors whose channels do not fall on blocks, or of several images.
func (p *planner) gatherChannels(n *graph.Node, dst place.Memory) error {
	d := p.Dims[n.Outputs[0].ID]
	sources, table, reads := p.ConcatChannels(n)
	for i, m := range reads {
		sources[i].Image = m.Pitch / 4
	}
	return p.gather(d[0], d[2]*d[3], sources, table, reads, dst)
}

// gather emits a choice of channels. Sources are looked up per run in scratch memory of the state.
func (p *planner) gather(images, hw int, sources []reorder.Source, table []reorder.Channel, reads []place.Memory, dst place.Memory) error {
	plan, err := reorder.NewGather(p.target, 16, images, hw, sources, table, dst.Pitch/4)
	if err != nil {
		return err
	}
	lists := newLists(len(reads))
	p.emit(step{chunks: plan.Chunks(), grain: grainFor(float64(dst.Size) * 0.1 / float64(max(plan.Chunks(), 1))), body: func(st *state, _, lo, hi int) {
		list := lists.get()
		for i, m := range reads {
			(*list)[i] = st.F32(m)
		}
		if err := plan.Run(lo, hi, st.F32(dst), *list); err != nil {
			panic(err)
		}
		lists.put(list)
	}}, reads, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("Concat", operator{Signatures: concatSignatures, Plan: planConcat, Strided: concatStrided})
}
