package graph

import "github.com/carve-dev/carve/graph/tensor"

// signWeights makes constant weights of uint8 that are multiplied by uint8 int8, 128 less, with their zero points: processors multiply
// unsigned integers by signed ones, and weights that lie about 128 have no zero point then.
func (s *simplifier) signWeights() error {
	signed := map[*Value]*Value{} // the same weights may have several readers
	return s.each(func(n *Node) error {
		w, wZero, ok := byteWeights(n)
		if !ok || int64(n.Inputs[w].Const.NumBytes()) > s.o.MaxFold {
			return nil
		}
		zero := tensor.Scalar(uint8(0)) // which an omitted one is
		if z := n.Input(wZero); z != nil {
			zero = z.Const
		}
		v := n.Inputs[w]
		if signed[v] == nil {
			signed[v] = s.lessened(v.Name, v.Const)
		}
		inputs := make([]*Value, max(len(n.Inputs), wZero+1))
		copy(inputs, n.Inputs)
		inputs[w], inputs[wZero] = signed[v], s.lessened(n.Inputs[w].Name+"_zero_point", zero)
		n.SetInputs(inputs...)
		s.stale(n)
		s.changes++
		return nil
	})
}

// byteWeights returns the places of the weights and of their zero point among the operands of a product of two uint8 whose second is
// constant, as is its zero point.
func byteWeights(n *Node) (w, wZero int, ok bool) {
	switch {
	case n.Is("ConvInteger", "MatMulInteger"):
		w, wZero = 1, 3
	case n.Is("QLinearConv", "QLinearMatMul"):
		w, wZero = 3, 5
	default:
		return 0, 0, false
	}
	x, v, z := n.Input(0), n.Input(w), n.Input(wZero)
	if x == nil || x.Type.DType != tensor.Uint8 || !bytesHere(v) || z != nil && !bytesHere(z) {
		return 0, 0, false
	}
	return w, wZero, true
}

// bytesHere reports whether v is a compact constant of uint8 on the host.
func bytesHere(v *Value) bool {
	return v != nil && v.Const != nil && v.Const.DType == tensor.Uint8 && v.Const.Device.IsHost() && v.Const.Bytes() != nil
}

// lessened returns a new constant of int8 that is 128 less than one of uint8.
func (s *simplifier) lessened(name string, t *tensor.Tensor) *Value {
	less := make([]int8, t.Len())
	for i, b := range t.Bytes() {
		less[i] = int8(b ^ 0x80)
	}
	return s.g.AddConst(name, tensor.From(less, t.Shape...))
}
