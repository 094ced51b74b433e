package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Slice and Split: views where what is taken is contiguous, else copies by strides or choices of channels.

func sliceSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if n.Op.Since < 10 {
		return operators.RowMajor(n), nil
	}
	if why := known(n, 1); why != nil {
		return nil, why
	}
	plain := operators.RowMajor(n)
	if _, ok := place.ChannelSlice(n); ok && is4D(n.Inputs[0]) {
		s := graph.UniformSignature("nchw16c", n, rowMaj)
		s.Inputs[0], s.Outputs[0] = graph.Fixed(blocked), graph.Fixed(blocked)
		return append([]graph.Signature{s}, plain...), nil
	}
	return plain, nil
}

func settleSlice(p *planner, n *graph.Node) {
	x, y := n.Inputs[0], n.Outputs[0]
	if x.Format == blocked {
		start, _ := place.ChannelSlice(n)
		p.ViewChannels(x, y, start)
	} else if c, err := p.sliceOf(n); err == nil {
		p.viewOf(c, x, y)
	}
}

func planSlice(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if x.Format == blocked {
		start, _ := place.ChannelSlice(n)
		return p.TakeChannels(x, y, start, p.gather)
	}
	c, err := p.sliceOf(n)
	if err == nil {
		p.take(c, x, y)
	}
	return err
}

// sliceOf returns which elements of its row-major operand a Slice takes.
func (p *planner) sliceOf(n *graph.Node) (copySpec, error) {
	x := n.Inputs[0]
	dx := p.Dims[x.ID]
	var starts, axes, steps []int
	if n.Op.Since < 10 {
		starts, axes = toInts(n, "starts"), toInts(n, "axes")
	} else {
		var err error
		for i, at := range []*[]int{&starts, nil, &axes, &steps} {
			if at != nil {
				if *at, err = p.Ints(n.Input(i + 1)); err != nil {
					return copySpec{}, err
				}
			}
		}
	}
	strides := p.strides(x)
	c := copySpec{dims: p.Dims[n.Outputs[0].ID], src: slices.Clone(strides), size: x.Type.DType.Size()}
	for i, s := range starts {
		axis, step := i, 1
		if len(axes) > 0 {
			axis = axes[i]
		}
		if axis < 0 {
			axis += len(dx)
		}
		if i < len(steps) {
			step = steps[i]
		}
		if s < 0 {
			s += dx[axis]
		}
		if step > 0 {
			s = min(max(s, 0), dx[axis])
		} else {
			s = min(max(s, 0), dx[axis]-1)
		}
		c.srcOff += s * strides[axis]
		c.src[axis] = strides[axis] * step
	}
	return c, nil
}

func contiguous(dims, strides []int) bool {
	want := 1
	for k := len(dims) - 1; k >= 0; k-- {
		if dims[k] != 1 && strides[k] != want {
			return false
		}
		want *= dims[k]
	}
	return true
}

func toInts(n *graph.Node, name string) []int {
	v, _ := n.Ints(name)
	out := make([]int, len(v))
	for i, x := range v {
		out[i] = int(x)
	}
	return out
}

func splitSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	blocks := is4D(n.Inputs[0]) && axisOf(n, 0, 4) == 1
	for i, v := range n.Outputs {
		if v == nil {
			return nil, property.Because(property.Unsupported, "part %d is omitted, so that its size is not known", i)
		}
		_, ok := operators.ConstDim(v, 1)
		blocks = blocks && ok
	}
	plain := operators.RowMajor(n)
	if !blocks {
		return plain, nil
	}
	s := graph.UniformSignature("nchw16c", n, rowMaj)
	s.Inputs[0] = graph.Fixed(blocked)
	for i := range s.Outputs {
		s.Outputs[i] = graph.Fixed(blocked)
	}
	return append([]graph.Signature{s}, plain...), nil
}

func planSplit(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	dx := p.Dims[x.ID]
	axis := axisOf(n, 0, len(dx))
	if x.Format == blocked {
		start := 0
		for _, y := range n.Outputs {
			if err := p.TakeChannels(x, y, start, p.gather); err != nil {
				return err
			}
			start += p.Dims[y.ID][1]
		}
		return nil
	}
	for k, y := range n.Outputs {
		p.take(p.splitOf(n, k, axis), x, y)
	}
	return nil
}

func settleSplit(p *planner, n *graph.Node) {
	x := n.Inputs[0]
	axis, start := axisOf(n, 0, len(p.Dims[x.ID])), 0
	for k, y := range n.Outputs {
		if x.Format == blocked {
			p.ViewChannels(x, y, start)
			start += p.Dims[y.ID][1]
		} else {
			p.viewOf(p.splitOf(n, k, axis), x, y)
		}
	}
}

// splitOf returns which elements of its row-major operand are part k of a Split.
func (p *planner) splitOf(n *graph.Node, k, axis int) copySpec {
	x := n.Inputs[0]
	strides := p.strides(x)
	c := copySpec{dims: p.Dims[n.Outputs[k].ID], src: strides, size: x.Type.DType.Size()}
	for _, y := range n.Outputs[:k] {
		c.srcOff += p.Dims[y.ID][axis] * strides[axis]
	}
	return c
}

// viewOf makes y the part of x that c describes where its elements are contiguous, and reports whether it did.
func (p *planner) viewOf(c copySpec, x, y *graph.Value) bool {
	return contiguous(c.dims, c.src) && p.Part(y, x, c.srcOff*c.size)
}

// take makes y the part of x that c describes, but for the strides of y: a view where it can be, else a copy.
func (p *planner) take(c copySpec, x, y *graph.Value) {
	if p.viewOf(c, x, y) {
		return
	}
	dst := p.Out(y)
	c.dst = p.strides(y)
	p.strided(c, p.In(x), dst)
}

func init() {
	table.Register("Slice", operator{Signatures: sliceSignatures, Settle: settleSlice, Plan: planSlice, Strided: operators.WholeDims[*planner]})
	table.Register("Split", operator{Signatures: splitSignatures, Settle: settleSplit, Plan: planSplit, Strided: operators.WholeDims[*planner]})
}
