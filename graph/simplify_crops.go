package graph

import "math"

// foldCrops lets a convolution leave out what a Slice behind it cuts off at the ends of axes: it pads less there, as causal convolutions that pad both ends and cut
// one off are written, and a transposed one pads more.
func (s *simplifier) foldCrops() error {
	return s.each(func(n *Node) error {
		if !n.Is("Slice") || !onlyFirst(n) || n.Inputs[0] == nil || n.Inputs[0].Format != n.Outputs[0].Format {
			return nil
		}
		conv := n.Inputs[0].Producer
		if conv == nil || conv.graph != s.g || !conv.Is("Conv", "ConvTranspose") || !n.Inputs[0].HasOneUse() {
			return nil
		}
		begin, end, ok := cropsOf(n)
		if !ok {
			return nil
		}
		pads, ok := croppedPads(conv, begin[2:], end[2:])
		if !ok {
			return nil
		}
		out := conv.Outputs[0]
		conv.Attrs = conv.Attrs.With(IntsAttr("pads", pads...)).With(StringAttr("auto_pad", "NOTSET"))
		out.Type, out.Dims = n.Outputs[0].Type, nil
		s.forward(n, out)
		s.stale(conv)
		return nil
	})
}

// cropsOf returns how many elements a Slice cuts off at both ends of each axis; ok is false where it does anything else, to images and channels too, or not in
// every run.
func cropsOf(n *Node) (begin, end []int64, ok bool) {
	shape := n.Inputs[0].Type.Shape
	starts, _ := n.Ints("starts")
	ends, _ := n.Ints("ends")
	axes, given := n.Ints("axes")
	if n.Op.Since >= 10 {
		starts, ends, axes, given = numbersOf(n.Input(1)), numbersOf(n.Input(2)), numbersOf(n.Input(3)), n.Input(3) != nil
		if steps := n.Input(4); steps != nil && (steps.Const == nil || !allInts(steps.Const, func(k int64) bool { return k == 1 })) {
			return nil, nil, false
		}
	}
	if len(shape) < 3 || len(starts) == 0 || len(starts) != len(ends) || given && len(axes) != len(starts) || len(starts) > len(shape) {
		return nil, nil, false
	}
	begin, end = make([]int64, len(shape)), make([]int64, len(shape))
	for i := range starts {
		axis := int64(i)
		if given {
			axis = axes[i]
		}
		a, err := NormAxis(axis, len(shape))
		if err != nil || begin[a] != 0 || end[a] != 0 {
			return nil, nil, false
		}
		if begin[a], end[a], ok = cropOf(shape[a], starts[i], ends[i]); !ok {
			return nil, nil, false
		}
	}
	return begin, end, begin[0]|begin[1]|end[0]|end[1] == 0
}

// cropOf returns how many elements [start, end) leaves out at both ends of an axis, of which at least one stays where the length is known.
func cropOf(length Dim, start, end int64) (before, behind int64, ok bool) {
	if n, known := length.Const(); known {
		first, count := SliceRange(n, start, end, 1)
		return first, n - first - count, count > 0
	}
	switch {
	case end >= math.MaxInt32:
		behind = 0
	case end < 0 && end >= -maxExtent:
		behind = -end
	default:
		return 0, 0, false
	}
	return start, behind, start >= 0 && start <= maxExtent
}

// croppedPads returns the pads of a convolution whose result lacks so many elements at both ends of its axes.
func croppedPads(conv *Node, begin, end []int64) (pads []int64, ok bool) {
	w, ok := explicitWindow(conv, len(begin)+2)
	if !ok || conv.Attrs.Lookup("output_shape") != nil {
		return nil, false
	}
	static := true
	for _, d := range conv.Outputs[0].Type.Shape[2:] {
		_, known := d.Const()
		static = static && known
	}
	pads = make([]int64, 2*len(begin))
	for k := range begin {
		reach := int64((w.Kernel[k] - 1) * w.Dilations[k])
		at, past := int64(w.Begin[k]), int64(w.End[k])
		if conv.Is("ConvTranspose") {
			at, past = at+begin[k], past+end[k]
			ok = static || at+past <= reach // results are no shorter than operands then
		} else {
			at, past = at-begin[k]*int64(w.Strides[k]), past-end[k]*int64(w.Strides[k])
			ok = min(at, past) >= 0 && (static || at+past >= reach)
		}
		if !ok {
			return nil, false
		}
		pads[k], pads[len(begin)+k] = at, past
	}
	return pads, true
}
