package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// foldPads lets convolutions pad with zeros themselves what a Pad before them does, as exporters write causal convolutions and those of TensorFlow.
func (s *simplifier) foldPads() error {
	return s.each(func(n *Node) error {
		if !n.Is("Pad") || !onlyFirst(n) || n.Inputs[0] == nil || n.Outputs[0].output > 0 || n.Inputs[0].Format != n.Outputs[0].Format {
			return nil
		}
		begin, end, ok := zeroPads(n)
		if !ok {
			return nil
		}
		uses := slices.Clone(n.Outputs[0].uses)
		windows := make([]Window, len(uses))
		for i, u := range uses {
			if windows[i], ok = takesPads(u, begin, end); !ok || u.Node.graph != s.g {
				return nil
			}
		}
		for i, u := range uses {
			conv, w := u.Node, &windows[i]
			pads := append(wide(w.Begin), wide(w.End)...)
			for k := range begin[2:] {
				pads[k] += begin[2+k]
				pads[len(begin)-2+k] += end[2+k]
			}
			conv.Attrs = conv.Attrs.With(IntsAttr("pads", pads...)).With(StringAttr("auto_pad", "NOTSET"))
			conv.SetOperand(0, n.Inputs[0])
			s.stale(conv)
			if i == 0 {
				s.absorbBefore(conv, []*Node{n})
			}
			s.changes++
		}
		if len(uses) > 0 {
			s.g.Remove(n)
		}
		return nil
	})
}

// zeroPads returns how many zeros a Pad adds before and behind each axis; ok is false where it does anything else, or not in every run.
func zeroPads(n *Node) (begin, end []int64, ok bool) {
	pads, _ := n.Ints("pads")
	axes, value := []int64(nil), n.Input(2)
	if n.Op.Since >= 11 {
		pads, axes = numbersOf(n.Input(1)), numbersOf(n.Input(3))
		if n.Input(3) != nil && axes == nil || value != nil && (value.Const == nil || value.Const.DType != tensor.Float32 || value.Const.Len() != 1 || value.Const.Float64At(0) != 0) {
			return nil, nil, false
		}
	} else if n.Float("value", 0) != 0 {
		return nil, nil, false
	}
	rank := len(n.Inputs[0].Type.Shape)
	begin, end = make([]int64, rank), make([]int64, rank)
	if axes == nil {
		for i := range rank {
			axes = append(axes, int64(i))
		}
	}
	if rank < 3 || n.Inputs[0].Type.DType != tensor.Float32 || n.Str("mode", "constant") != "constant" || len(pads) != 2*len(axes) {
		return nil, nil, false
	}
	for i, axis := range axes {
		a, err := NormAxis(axis, rank)
		if err != nil || min(pads[i], pads[len(axes)+i]) < 0 || max(pads[i], pads[len(axes)+i]) > maxExtent {
			return nil, nil, false
		}
		begin[a], end[a] = pads[i], pads[len(axes)+i]
	}
	return begin, end, begin[0]|begin[1]|end[0]|end[1] == 0
}

// explicitWindow returns the window of a convolution of constant weights of that rank which says how much it pads.
func explicitWindow(n *Node, rank int) (w Window, ok bool) {
	weights := n.Input(1)
	if weights == nil || weights.Const == nil || len(weights.Const.Shape) != rank {
		return w, false
	}
	w, err := ConvAttrs(n, weights.Const.Shape[2:])
	if err != nil || w.AutoPad != PadExplicit && w.AutoPad != PadValid {
		return w, false
	}
	if w.AutoPad == PadValid {
		w.Begin, w.End = make([]int, len(w.Kernel)), make([]int, len(w.Kernel))
	}
	return w, true
}

// takesPads reports whether a reader of padded images is a convolution that may pad them itself, of no more than its taps reach, and returns its window.
func takesPads(u Use, begin, end []int64) (w Window, ok bool) {
	n := u.Node
	if !n.Is("Conv") || u.Slot != 0 {
		return w, false
	}
	if w, ok = explicitWindow(n, len(begin)); !ok || !finiteWeights(n.Input(1).Const) {
		return w, false
	}
	for k := range w.Kernel {
		reach := int64((w.Kernel[k] - 1) * w.Dilations[k])
		if int64(w.Begin[k])+begin[2+k] > reach || int64(w.End[k])+end[2+k] > reach {
			return w, false
		}
	}
	return w, true
}
