package mkl

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Slice and Split: views where what is taken is contiguous, else the library's reorder, or choices of channels.

func sliceSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	sigs, why := moveSignatures(b, n)
	if why != nil {
		return nil, why
	}
	if n.Op.Since < 10 {
		return nil, property.Because(property.Version, "version %d", n.Op.Since)
	}
	if _, ok := place.ChannelSlice(n); ok {
		if f := b.activations(4); f != graph.HostFormat && reorder.Gathers(b.block) {
			s := graph.UniformSignature("channels", n, graph.HostFormat)
			s.Inputs[0], s.Outputs[0] = graph.Fixed(f), graph.Fixed(f)
			sigs = append([]graph.Signature{s}, sigs...)
		}
	}
	for i, v := range n.Inputs[1:] {
		if v == nil {
			continue
		}
		if len(v.Dims) == 0 || len(v.Type.Shape) != 1 {
			return nil, property.Because(property.DynamicShape, "input %d, %v, is not known", i+1, v)
		}
		if i+1 != 4 {
			continue
		}
		for axis, d := range v.Dims {
			if step, ok := d.Const(); !ok || step < 1 {
				return nil, property.Because(property.Attribute, "step %d is %v", axis, d)
			}
		}
	}
	return sigs, nil
}

func settleSlice(p *planner, n *graph.Node) {
	x, y := n.Inputs[0], n.Outputs[0]
	if x.Format != graph.HostFormat {
		if start, ok := place.ChannelSlice(n); ok {
			p.ViewChannels(x, y, start)
		}
	} else if off, strides, err := p.sliceOf(n); err == nil {
		p.viewOf(x, y, off, strides)
	}
}

func planSlice(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if x.Format != graph.HostFormat {
		start, ok := place.ChannelSlice(n)
		if !ok {
			return property.Because(property.Layout, "slice in %v", x.Format)
		}
		return p.TakeChannels(x, y, start, p.gather)
	}
	off, strides, err := p.sliceOf(n)
	if err != nil {
		return err
	}
	return p.window(x, y, off, strides)
}

// sliceOf returns where the part of its row-major operand begins that a Slice takes, and the strides of its elements.
func (p *planner) sliceOf(n *graph.Node) (off int, from []int, err error) {
	x := n.Inputs[0]
	d := p.Dims[x.ID]
	var bounds [3][]int
	for i, k := range []int{1, 3, 4} {
		if bounds[i], err = p.Ints(n.Input(k)); err != nil {
			return 0, nil, err
		}
	}
	starts, axes, steps := bounds[0], bounds[1], bounds[2]
	strides, _ := p.In(x).Strides(d, 4)
	from = append([]int(nil), strides...)
	for i, s := range starts {
		axis, step := i, 1
		if axes != nil {
			axis = axes[i]
		}
		if steps != nil {
			step = steps[i]
		}
		if axis < 0 {
			axis += len(d)
		}
		if axis < 0 || axis >= len(d) || step < 1 {
			return 0, nil, property.Because(property.Attribute, "axis %d, step %d", axis, step)
		}
		if s < 0 {
			s += d[axis]
		}
		off += min(max(s, 0), d[axis]) * strides[axis]
		from[axis] *= step
	}
	return off, from, nil
}

// viewOf makes y the part of the float tensor x that begins at element off and has these strides, where its elements are
// contiguous and at a multiple of the alignment. It reports whether it did.
func (p *planner) viewOf(x, y *graph.Value, off int, strides []int) bool {
	compact := tensor.CompactStrides(p.Dims[y.ID])
	for i, n := range p.Dims[y.ID] {
		if n != 1 && strides[i] != compact[i] {
			return false
		}
	}
	return (p.In(x).Off+4*off)%placeAlign == 0 && p.Part(y, x, 4*off)
}

// window emits the copy of a part of x, its first element and strides, unless it is a view.
func (p *planner) window(x, y *graph.Value, off int, strides []int) error {
	if p.viewOf(x, y, off, strides) {
		return nil
	}
	dy, size := p.Dims[y.ID], 4
	for i, n := range dy {
		size += 4 * (n - 1) * strides[i]
	}
	dst := p.Out(y)
	to, _ := dst.Strides(dy, 4)
	return p.strided(dy, p.In(x).Part(4*off, size), strides, dst, to)
}

func splitSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	sigs, why := moveSignatures(b, n)
	if why != nil {
		return nil, why
	}
	for _, o := range n.Outputs {
		if o == nil {
			return nil, property.Because(property.Unsupported, "an output that is left out")
		}
	}
	axis := int(n.Int("axis", 0))
	if rank := len(n.Inputs[0].Type.Shape); rank == 4 && (axis == 1 || axis == -3) && reorder.Gathers(b.block) {
		ok := true
		for _, v := range append([]*graph.Value{n.Inputs[0]}, n.Outputs...) {
			_, known := operators.ConstDim(v, 1)
			ok = ok && known
		}
		if f := b.activations(4); ok && f != graph.HostFormat {
			s := graph.UniformSignature("channels", n, f)
			for i := range n.Inputs[1:] {
				s.Inputs[i+1] = graph.Fixed(graph.HostFormat)
			}
			sigs = append([]graph.Signature{s}, sigs...)
		}
	}
	return sigs, nil
}

// parts calls take for each part of a Split: its first element or, in layouts of blocks, channel.
func (p *planner) parts(n *graph.Node, take func(y *graph.Value, at int) error) error {
	x := n.Inputs[0]
	d := p.Dims[x.ID]
	axis := int(n.Int("axis", 0))
	if axis < 0 {
		axis += len(d)
	}
	if axis < 0 || axis >= len(d) {
		return property.Because(property.Attribute, "axis %d", axis)
	}
	step := 1
	if x.Format == graph.HostFormat {
		strides, _ := p.In(x).Strides(d, 4)
		step = strides[axis]
	}
	at := 0
	for _, y := range n.Outputs {
		if err := take(y, at); err != nil {
			return err
		}
		at += p.Dims[y.ID][axis] * step
	}
	return nil
}

func settleSplit(p *planner, n *graph.Node) {
	x := n.Inputs[0]
	strides, _ := p.In(x).Strides(p.Dims[x.ID], 4)
	_ = p.parts(n, func(y *graph.Value, at int) error { // planSplit tells
		if x.Format != graph.HostFormat {
			p.ViewChannels(x, y, at)
		} else {
			p.viewOf(x, y, at, strides)
		}
		return nil
	})
}

func planSplit(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	strides, _ := p.In(x).Strides(p.Dims[x.ID], 4)
	return p.parts(n, func(y *graph.Value, at int) error {
		if x.Format != graph.HostFormat {
			return p.TakeChannels(x, y, at, p.gather)
		}
		return p.window(x, y, at, strides)
	})
}

func init() {
	table.Register("Slice", operator{Signatures: sliceSignatures, Settle: settleSlice, Plan: planSlice, Strided: operators.WholeDims[*planner]})
	table.Register("Split", operator{Signatures: splitSignatures, Settle: settleSplit, Plan: planSplit, Strided: operators.WholeDims[*planner]})
}
