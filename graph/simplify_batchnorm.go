package graph

import "math"

// foldBatchNorms folds BatchNormalization in inference mode, with constant parameters, into the Conv, ConvTranspose or
// Gemm before it, and one of a matrix into the MatMul. One of a matrix that follows something else becomes a Mul and an Add, others stay.
func (s *simplifier) foldBatchNorms() error {
	return s.each(func(n *Node) error {
		if !n.Is("BatchNormalization") || len(n.Inputs) != 5 || n.Inputs[0] == nil {
			return nil
		}
		_, folds := absorber(n, n.Inputs[0])
		matrix := len(n.Inputs[0].Type.Shape) == 2 && len(n.Outputs) == 1
		if !folds && !matrix {
			return nil
		}
		a, ok := normalisation(n)
		if !ok {
			return nil
		}
		switch {
		case folds:
			s.absorbAffine(n, n.Inputs[0], a)
		case !s.absorbColumns(n, a):
			return s.lowerBatchNorm(n, a)
		}
		return nil
	})
}

// normalisation returns what n does to its channels, where it is a BatchNormalization in inference mode with constant parameters, of
// which nothing but the first result is read.
func normalisation(n *Node) (a affine, ok bool) {
	if !n.Is("BatchNormalization") || len(n.Inputs) != 5 || n.Inputs[0] == nil || n.Inputs[1] == nil || !onlyFirst(n) {
		return a, false
	}
	if n.Op.Since < 7 || n.Op.Since < 9 && n.Int("spatial", 1) == 0 || n.Int("training_mode", 0) != 0 || n.Inputs[1].Const == nil {
		return a, false
	}
	c := n.Inputs[1].Const.Len()
	scale, shift, mean, variance := vector(n.Inputs[1], c), vector(n.Inputs[2], c), vector(n.Inputs[3], c), vector(n.Inputs[4], c)
	if scale == nil || shift == nil || mean == nil || variance == nil {
		return a, false
	}
	epsilon := float64(n.Float("epsilon", 1e-5))
	for i := range scale {
		scale[i] /= math.Sqrt(variance[i] + epsilon)
		shift[i] -= mean[i] * scale[i]
	}
	return affine{scale, shift}, true
}

// lowerTraining makes a BatchNormalization that normalises by its operand's own mean and variance, of which only the first result is
// read, an InstanceNormalization, where there is one image: as exporters write weights that are standardised. What computed the mean
// and variance that it does not look at goes with it, before it is folded.
func (s *simplifier) lowerTraining() error {
	before := s.changes
	err := s.each(func(n *Node) error {
		if !n.Is("BatchNormalization") || n.Op.Since < 14 || n.Int("training_mode", 0) == 0 || len(n.Inputs) != 5 || n.Inputs[0] == nil || !onlyFirst(n) {
			return nil
		}
		x, out, op := n.Inputs[0], n.Outputs[0], Op{Name: "InstanceNormalization"}
		operands := n.Inputs[:3]
		if len(x.Type.Shape) < 3 || !x.Type.Shape[0].Equal(D(1)) || x.Format != out.Format || !s.has(op, out.Type, typesOf(operands)...) {
			return nil
		}
		m := s.g.AddNode(NodeSpec{Op: op, Name: n.Name, Inputs: operands, Outputs: []string{""}, Attrs: []Attr{FloatAttr("epsilon", n.Float("epsilon", 1e-5))}, Origins: []string{}})
		if err := InferNode(m); err != nil {
			return err
		}
		s.absorb(m, n)
		s.replace(out, m.Outputs[0])
		s.g.Remove(n)
		return nil
	})
	if err != nil || s.changes == before {
		return err
	}
	return s.removeDead()
}
