package mkl

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// concatSignatures: along channels in the layout of activations, and row-major.
func concatSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	rank := len(n.Outputs[0].Type.Shape)
	if rank == 0 || rank > 6 {
		return nil, property.Because(property.ShapeReason, "rank %d", rank)
	}
	if isByte(n.Outputs[0]) && besideIntegers(n) {
		return b.byteConcatSignatures(n)
	}
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	plain := operators.RowMajor(n)
	act := b.activations(rank)
	if place.ConcatAxis(n) != 1 || act == graph.HostFormat {
		return plain, nil
	}
	for i, v := range n.Inputs {
		c, ok := operators.ConstDim(v, 1)
		if !ok || b.block > 0 && c%b.block != 0 && i < len(n.Inputs)-1 && (!reorder.Gathers(b.block) || rank != 4) {
			return plain, nil
		}
	}
	return append([]graph.Signature{graph.UniformSignature("channels", n, act)}, plain...), nil
}

// byteConcatSignatures: images of integers have their channels last.
func (b *mkl) byteConcatSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	f := channelsLast(len(n.Outputs[0].Type.Shape))
	describe := func(v *graph.Value) shape {
		s := shapeOf(v, operators.AssumedDims(v))
		s.layout = f.Layout
		return s
	}
	var srcs []shape
	for _, v := range n.Inputs {
		srcs = append(srcs, describe(v))
	}
	a := b.l.ask(b.answers, b.l.concat(place.ConcatAxis(n), srcs, describe(n.Outputs[0])))
	if why := refused(a); why != nil {
		return nil, why
	}
	return []graph.Signature{graph.UniformSignature(a.impl, n, f)}, nil
}

// mayAlias reports whether a node's result may lie in its operand's memory.
func mayAlias(n *graph.Node) bool {
	return place.IsView(n) || n.Is("Slice", "Split", "Transpose") || n.IsCarve(graph.OpConvert)
}

func planConcat(p *planner, n *graph.Node) error {
	y := n.Outputs[0]
	dst := p.Out(y)
	if p.Bytes(y) == 0 {
		return nil
	}
	parts, ok := p.ConcatPlaces(n, dst)
	all := dst.Pitch == 0 // operands are contiguous, none of them where it belongs
	for i, v := range n.Inputs {
		all = all && ok && p.In(v).Pitch == 0 && p.In(v) != parts[i]
	}
	switch {
	case ok && (y.Format == graph.HostFormat || parts[0].Pitch == 0 || !all):
		return p.concatParts(n, dst, parts)
	case !isByte(y) && y.Format != graph.HostFormat && p.b.block > 0 && !p.OnBlocks(n):
		return p.gatherChannels(n, dst)
	}
	return p.concatBy(n, place.ConcatAxis(n), dst)
}

// concatParts copies the operands of a Concat that were not made where they belong in its result.
func (p *planner) concatParts(n *graph.Node, dst place.Memory, parts []place.Memory) error {
	if isByte(n.Outputs[0]) {
		for i, v := range n.Inputs {
			if p.Bytes(v) > 0 && p.In(v) != parts[i] {
				p.copyStep(parts[i], p.In(v), p.Bytes(v))
			}
		}
		return nil
	}
	to, from := p.laid(n.Outputs[0]), 0
	axis := place.ConcatAxis(n)
	for i, v := range n.Inputs {
		src, size := p.laid(v), 4
		at := 4 * from * to.strides[axis]
		from += src.dims[axis]
		if p.Bytes(v) == 0 || p.In(v) == parts[i] {
			continue
		}
		for k, d := range src.dims {
			size += 4 * (d - 1) * to.strides[k]
		}
		dims, s, t := joined(src.dims, src.strides, to.strides)
		if err := p.strided(dims, p.In(v), s, dst.Part(at, size), t); err != nil {
			return err
		}
	}
	return nil
}

// joined puts dims together along which both sides step alike.
func joined(dims, src, dst []int) (d, s, t []int) {
	for k, n := range dims {
		last := len(d) - 1
		switch {
		case n == 1:
		case last >= 0 && s[last] == src[k]*n && t[last] == dst[k]*n:
			d[last], s[last], t[last] = d[last]*n, src[k], dst[k]
		default:
			d, s, t = append(d, n), append(s, src[k]), append(t, dst[k])
		}
	}
	if len(d) == 0 {
		return []int{1}, []int{1}, []int{1}
	}
	return d, s, t
}

// laid describes a float value as it lies in its place: row-major, or in layouts of blocks as a vector for each image.
func (p *planner) laid(v *graph.Value) shape {
	d := p.Dims[v.ID]
	if v.Format != graph.HostFormat {
		d = []int{d[0], p.Bytes(v) / 4 / d[0]}
	}
	s := plain(d...)
	s.strides, _ = p.In(v).Strides(d, 4)
	return s
}

// concatStrided is the Strided of Concat: copies take strided rows of every kind, but the library's own concatenation and choices
// of channels take contiguous operands.
func concatStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	y := n.Outputs[0]
	if !operators.IsFloat32(v) || y.Format != graph.HostFormat && !p.OnBlocks(n) {
		return false
	}
	if v.Format == graph.HostFormat {
		return operators.WholeDims(p, n, v, m)
	}
	return m.Row*p.Dims[v.ID][0] == p.Bytes(v)
}

// concatBy emits the library's concatenation.
func (p *planner) concatBy(n *graph.Node, axis int, dst place.Memory) error {
	var srcs []shape
	for _, v := range n.Inputs {
		srcs = append(srcs, p.shape(v))
	}
	pr, err := p.make(p.l.concat(axis, srcs, p.shape(n.Outputs[0])))
	if err != nil {
		return err
	}
	d, err := p.desc(p.shape(n.Outputs[0]))
	if err != nil {
		return err
	}
	args := []arg{{argDst, dst, d, true}}
	for i, v := range n.Inputs {
		s, err := p.desc(srcs[i])
		if err != nil {
			return err
		}
		args = append(args, arg{argMany + int32(i), p.In(v), s, false})
	}
	p.run(pr, args...)
	return nil
}

// gatherChannels concatenates blocked tensors whose channels do not fall on blocks: the library moves whole blocks only.
func (p *planner) gatherChannels(n *graph.Node, dst place.Memory) error {
	d := p.Dims[n.Outputs[0].ID]
	sources, table, reads := p.ConcatChannels(n)
	return p.gather(d[0], d[2]*d[3], sources, table, reads, dst)
}

// gather emits a choice of channels of blocked tensors.
func (p *planner) gather(images, pixels int, sources []reorder.Source, table []reorder.Channel, reads []place.Memory, dst place.Memory) error {
	plan, err := reorder.NewGather(isa.Host(), p.b.block, images, pixels, sources, table, 0)
	if err != nil {
		return err
	}
	at := len(p.steps)
	p.emit(step{sources: reads, host: func(st *state) error {
		list := st.lists[at]
		for i, m := range reads {
			list[i] = st.F32(m)
		}
		return plan.Run(0, plan.Chunks(), st.F32(dst), list)
	}}, reads, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("Concat", operator{Signatures: concatSignatures, Plan: planConcat, Strided: concatStrided})
}
