package cpu

import (
	"errors"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

var errIndex = errors.New("index out of range")

// concatSignatures: in the blocked layout along channels, and row-major.
func concatSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	plain := plainSignature(n)
	if place.ConcatAxis(n) != 1 {
		return plain, nil
	}
	for _, v := range append([]*graph.Value{n.Outputs[0]}, n.Inputs...) {
		if _, ok := dimConst(v, 1); !ok || !is4D(v) {
			return plain, nil
		}
	}
	return append([]graph.Signature{graph.UniformSignature("nchw16c", n, blocked)}, plain...), nil
}

func planConcat(p *planner, n *graph.Node) error {
	y := n.Outputs[0]
	dst := p.Out(y)
	if parts, ok := p.ConcatParts(n); ok {
		for i, v := range n.Inputs {
			part := dst.Part(parts[i], p.Bytes(v))
			if part.Size == 0 || p.In(v) == part {
				continue
			}
			p.copyStep(part, p.In(v))
		}
		return nil
	}
	if parts, image, ok := p.ImageParts(n); ok && y.Type.DType.Size() == 4 {
		p.concatImages(n, dst, parts, image)
		return nil
	}
	if y.Format == blocked {
		return p.gatherChannels(n, dst)
	}
	axis, dy := place.ConcatAxis(n), p.Dims[y.ID]
	sy := tensor.CompactStrides(dy)
	at := 0
	for _, v := range n.Inputs {
		dv := p.Dims[v.ID]
		p.strided(copySpec{dims: dv, src: tensor.CompactStrides(dv), dst: sy, dstOff: at * sy[axis], size: v.Type.DType.Size()}, p.In(v), dst)
		at += dv[axis]
	}
	return nil
}

// concatImages copies the operands that were not made in the result of a Concat of several images, which may itself be part
// of a larger one.
func (p *planner) concatImages(n *graph.Node, dst place.Memory, parts []int, image int) {
	if dst.Image != 0 {
		image = dst.Image
	}
	for i, v := range n.Inputs {
		part, src := p.Images(v, dst, parts[i], image), p.In(v)
		if part.Size == 0 || src == part {
			continue
		}
		images := p.Dims[v.ID][0]
		own := p.Bytes(v) / images
		c := copySpec{dims: []int{images, own / 4}, src: []int{own / 4, 1}, dst: []int{own / 4, 1}, size: 4}
		if src.Image != 0 {
			c.src[0] = src.Image / 4
		}
		if part.Image != 0 {
			c.dst[0] = part.Image / 4
		}
		p.strided(c, src, part)
	}
}

// imagesApart reports whether the kernel of n reads or writes the blocked value v where its images do not lie together:
// convolutions, pooling and batch normalisations do, with their tails, but for residuals.
func imagesApart(n *graph.Node, v *graph.Value) bool {
	if v.Format != blocked || !is4D(v) {
		return false
	}
	head, in := n, n.Inputs
	for _, c := range []*fuse.Chain{convTail, scaleTail} {
		if n.IsCarve(graph.OpFused) && n.Str("pattern", "") == c.Name {
			l, err := c.Parse(n)
			if err != nil {
				return false
			}
			head, in = l.Head, fuse.Outers(n, l.Head.Inputs)
		}
	}
	if !head.Is("Conv", "ConvTranspose", "MaxPool", "AveragePool", "BatchNormalization") {
		return false
	}
	if v.Producer == n {
		return v == n.Outputs[0]
	}
	reads := 0
	for k := range n.NumOperands() {
		if n.Operand(k) == v {
			reads++
		}
	}
	return reads == 1 && in[0] == v
}

// gatherChannels concatenates blocked tensors whose channels do not fall on blocks, or of several images.
func (p *planner) gatherChannels(n *graph.Node, dst place.Memory) error {
	d := p.Dims[n.Outputs[0].ID]
	sources, table, reads := p.ConcatChannels(n)
	return p.gather(d[0], d[2]*d[3], sources, table, reads, dst)
}

// gather emits a choice of channels. Sources are looked up per run in scratch memory of the state.
func (p *planner) gather(images, hw int, sources []reorder.Source, table []reorder.Channel, reads []place.Memory, dst place.Memory) error {
	plan, err := reorder.NewGather(images, hw, sources, table, 0)
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

func init() { register("Concat", operator{concatSignatures, planConcat}) }
