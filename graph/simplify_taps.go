package graph

import "github.com/carve-dev/carve/graph/tensor"

// trimTaps takes the outer taps of convolutions away that see nothing but padding wherever the window stands, as the dilations of
// segmentation networks on small images have them (Chen et al., Rethinking Atrous Convolution, 2017, section 3.3). Weights are
// constant, or a DequantizeLinear of a constant.
func (s *simplifier) trimTaps() error {
	return s.each(func(n *Node) error {
		slot := 1
		switch {
		case n.Is("QLinearConv"):
			slot = 3
		case !n.Is("Conv", "ConvInteger"):
			return nil
		}
		x, v := n.Input(0), n.Input(slot)
		if x == nil || v == nil {
			return nil
		}
		c, d := v, v.Producer
		if d != nil {
			if c = expanded(d); c == nil {
				return nil
			}
		}
		if c.Const == nil || len(c.Const.Shape) < 3 || len(c.Const.Shape) != len(x.Type.Shape) || int64(c.Const.NumBytes()) > s.o.MaxFold {
			return nil
		}
		win, err := ConvAttrs(n, c.Const.Shape[2:])
		if err != nil {
			return nil // inference tells
		}
		from, to, ok := win.trim(x.Type.Shape[2:])
		if !ok {
			return nil
		}
		return s.takeTaps(n, slot, d, c, &win, from, to)
	})
}

// expanded returns the integers that a DequantizeLinear expands whose scales do not vary along spatial axes, else nil.
func expanded(n *Node) *Value {
	if axis := n.Int("axis", 1); !n.Is("DequantizeLinear") || n.Int("block_size", 0) != 0 || n.Input(1) == nil || len(n.Input(1).Type.Shape) > 0 && (axis < 0 || axis > 1) {
		return nil
	}
	return n.Input(0)
}

// trim returns the taps [from, to) along each axis that see elements of an input of these dims, and makes the window that of these taps. ok is
// false where they are all there are, or dims are not known.
func (w *Window) trim(dims Shape) (from, to []int, ok bool) {
	in := make([]int, len(dims))
	for i, d := range dims {
		n, known := d.Const()
		if !known {
			return nil, nil, false
		}
		in[i] = int(n)
	}
	out, begin, end, err := w.Resolve(in)
	if err != nil {
		return nil, nil, false
	}
	w.AutoPad = PadExplicit
	for i, k := range w.Kernel {
		first, last := k, -1
		for t := range k {
			at := t*w.Dilations[i] - begin[i] // of the first window
			steps := max(0, (w.Strides[i]-1-at)/w.Strides[i])
			if steps < out[i] && at+steps*w.Strides[i] < in[i] {
				first, last = min(first, t), t
			}
		}
		b := begin[i] - first*w.Dilations[i]
		e := (out[i]-1)*w.Strides[i] + (last-first)*w.Dilations[i] + 1 - in[i] - b
		if last < first || last-first+1 == k || b < 0 || e < 0 {
			first, last, b, e = 0, k-1, begin[i], end[i]
		}
		from, to, ok = append(from, first), append(to, last+1), ok || last-first+1 < k
		w.Begin[i], w.End[i] = b, e
		if last == first {
			w.Dilations[i] = 1
		}
	}
	return from, to, ok
}

// takeTaps gives n those taps of its weights c, which d expands where it is a node, and the window that is left.
func (s *simplifier) takeTaps(n *Node, slot int, d *Node, c *Value, w *Window, from, to []int) error {
	t := c.Const
	var err error
	for i := range from {
		if t, err = t.Slice(2+i, from[i], to[i]); err != nil {
			return nil
		}
	}
	if t, err = t.Clone(); err != nil || !finiteWeights(c.Const) {
		return nil
	}
	weights := s.g.AddConst(c.Name, t)
	if d != nil {
		inputs := append([]*Value{weights}, d.Inputs[1:]...)
		m := s.g.AddNode(NodeSpec{Op: d.Op, Attrs: d.Attrs, Inputs: inputs, Outputs: []string{""}, Origins: []string{}})
		if err := InferNode(m); err != nil {
			return err
		}
		weights = m.Outputs[0]
	}
	kernel := make([]int64, len(from))
	for i := range kernel {
		kernel[i] = int64(to[i] - from[i])
	}
	attrs := n.Attrs.With(IntsAttr("kernel_shape", kernel...)).With(IntsAttr("dilations", wide(w.Dilations)...)).
		With(IntsAttr("pads", append(wide(w.Begin), wide(w.End)...)...)).With(StringAttr("auto_pad", "NOTSET"))
	inputs := append([]*Value{}, n.Inputs...)
	inputs[slot] = weights
	n.Rewrite(n.Op, attrs, inputs...)
	s.stale(n)
	s.changes++
	return nil
}

// finiteWeights reports whether products of padding with weights are 0.
func finiteWeights(t *tensor.Tensor) bool {
	if t.DType == tensor.Float32 && t.IsCompact() {
		var sums [4]float32 // 0, or NaN where a number is none or infinite
		v := tensor.Elements[float32](t)
		for ; len(v) >= 4; v = v[4:] {
			sums[0] += v[0] * 0
			sums[1] += v[1] * 0
			sums[2] += v[2] * 0
			sums[3] += v[3] * 0
		}
		for _, x := range v {
			sums[0] += x * 0
		}
		return sums == [4]float32{}
	}
	v := make([]float64, t.Len())
	return !floating(t.DType) || tensor.Decode(v, t) == nil && finite(v)
}

func wide(list []int) []int64 {
	out := make([]int64, len(list))
	for i, v := range list {
		out[i] = int64(v)
	}
	return out
}
