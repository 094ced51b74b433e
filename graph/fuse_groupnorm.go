package graph

import "github.com/carve-dev/carve/graph/tensor"

// fuseGroupNorms recognises normalisation over groups of channels as exporters write it where there is no operator for it, before operator set 18 or 21:
//
//	y = Reshape(InstanceNormalization(Reshape(x, [N, groups, …])), shape of x)
//
// Scales and shifts of channels behind it are foldScales' to take in. GroupNormalization computes in float32, so only float32 is fused.
func (s *simplifier) fuseGroupNorms() error {
	return s.each(func(n *Node) error {
		if !n.Is("Reshape") || n.Input(0) == nil {
			return nil
		}
		m := &match{}
		norm := m.node(n.Inputs[0], "InstanceNormalization")
		if norm == nil || len(norm.Inputs) != 3 {
			return nil
		}
		parted := norm.Inputs[0]
		part := m.node(parted, "Reshape")
		if part == nil || part.Input(0) == nil {
			return nil
		}
		x := part.Inputs[0]
		if !x.Type.IsTensor() || x.Type.DType != tensor.Float32 || len(x.Type.Shape) < 3 ||
			len(parted.Type.Shape) < 3 || !parted.Type.Shape[0].Equal(x.Type.Shape[0]) {
			return nil
		}
		channels, known := x.Type.Shape[1].Const()
		groups, same := parted.Type.Shape[1].Const()
		if !known || !same || groups < 1 || channels < 1 || channels%groups != 0 {
			return nil
		}
		scale, shift := vector(norm.Inputs[1], int(groups)), vector(norm.Inputs[2], int(groups))
		if scale == nil || shift == nil || !x.Type.Equal(n.Outputs[0].Type) || !m.closed(n) {
			return nil
		}
		attrs := []Attr{IntAttr("num_groups", groups), FloatAttr("epsilon", norm.Float("epsilon", 1e-5))}
		gamma, beta := norm.Inputs[1], norm.Inputs[2]
		s.fuse(n, m, Op{Name: "GroupNormalization", Since: 21}, attrs, x,
			s.channelConst(gamma.Name, gamma.Type.DType, spread(scale, channels/groups)), s.channelConst(beta.Name, beta.Type.DType, spread(shift, channels/groups)))
		return nil
	})
}

// spread repeats each number so many times.
func spread(v []float64, times int64) []float64 {
	out := make([]float64, 0, int64(len(v))*times)
	for _, x := range v {
		for range times {
			out = append(out, x)
		}
	}
	return out
}

// normOfChannels returns how many channels a normalisation has that scales and moves each by a constant, 0 for other nodes.
func normOfChannels(n *Node) int {
	if !n.Is("InstanceNormalization") && (!n.Is("GroupNormalization") || n.Op.Since < 21) || len(n.Inputs) != 3 || !onlyFirst(n) {
		return 0
	}
	scale, shift := n.Inputs[1], n.Inputs[2]
	if scale == nil || shift == nil || scale.Const == nil || shift.Const == nil || scale.Const.Rank() != 1 || !floating(scale.Const.DType) ||
		shift.Const.DType != scale.Const.DType || shift.Const.Len() != scale.Const.Len() {
		return 0
	}
	return scale.Const.Len()
}

// scaleNorm folds a scale and a shift per channel, done by n, into the normalisation that produces its operand x, which nothing else reads. Where that cannot be
// done nothing changes.
func (s *simplifier) scaleNorm(n *Node, x *Value, a affine) {
	p := x.Producer
	channels := normOfChannels(p)
	if !onlyFirst(n) || x.Format != n.Outputs[0].Format || !finite(a.scale) || !finite(a.shift) {
		return
	}
	scale, shift := vector(p.Inputs[1], channels), vector(p.Inputs[2], channels)
	if scale == nil || shift == nil {
		return
	}
	for c := range channels {
		if a.scale != nil {
			scale[c] *= a.scale[c]
			shift[c] *= a.scale[c]
		}
		if a.shift != nil {
			shift[c] += a.shift[c]
		}
	}
	if a.scale != nil {
		p.SetOperand(1, s.channelConst(p.Inputs[1].Name, p.Inputs[1].Type.DType, scale))
	}
	p.SetOperand(2, s.channelConst(p.Inputs[2].Name, p.Inputs[2].Type.DType, shift))
	out := n.Outputs[0]
	x.Type = out.Type
	s.replace(out, x)
	s.absorb(p, n)
	s.g.Remove(n)
}
