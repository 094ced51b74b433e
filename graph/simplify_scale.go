package graph

// foldScales folds Mul, Div, Add and Sub with a constant per channel into the Conv, ConvTranspose, Gemm or normalisation before them, and Mul into a
// TfIdfVectorizer.
func (s *simplifier) foldScales() error {
	return s.each(func(n *Node) error {
		if !n.Is("Mul", "Div", "Add", "Sub") || len(n.Inputs) != 2 || n.Inputs[0] == nil || n.Inputs[1] == nil {
			return nil
		}
		x, c := n.Inputs[0], n.Inputs[1]
		if x.Const != nil && n.Is("Mul", "Add") {
			x, c = c, x
		}
		if c.Const == nil || x.Producer == nil || !x.HasOneUse() || !x.Type.IsTensor() || x.Type.Shape == nil || !x.Type.Equal(n.Outputs[0].Type) {
			return nil
		}
		if n.Is("Mul") && x.Producer.Is("TfIdfVectorizer") {
			s.scaleGrams(n, x, c)
			return nil
		}
		l, ok := linearOf(x.Producer)
		fold, channels := s.absorbAffine, l.channels
		if !ok {
			fold, channels = s.scaleNorm, normOfChannels(x.Producer)
		}
		if channels == 0 {
			return nil
		}
		v := perChannel(c, channels, len(x.Type.Shape))
		if v == nil {
			return nil
		}
		a := affine{scale: v}
		switch {
		case n.Is("Div"):
			for i := range v {
				v[i] = 1 / v[i]
			}
		case n.Is("Sub"):
			for i := range v {
				v[i] = -v[i]
			}
			a = affine{shift: v}
		case n.Is("Add"):
			a = affine{shift: v}
		}
		fold(n, x, a)
		return nil
	})
}

// perChannel returns a constant that broadcasts over a result of that rank along axis 1 alone, one number per channel; nil
// where it varies along another axis.
func perChannel(v *Value, channels, rank int) []float64 {
	t := v.Const
	if rank < 2 || len(t.Shape) > rank || !floating(t.DType) {
		return nil
	}
	for i, d := range t.Shape {
		if axis := rank - len(t.Shape) + i; d != 1 && (axis != 1 || d != channels) {
			return nil
		}
	}
	if t.Len() == channels {
		return vector(v, channels)
	}
	out := make([]float64, channels)
	for i := range out {
		out[i] = t.Float64At(0)
	}
	return out
}
