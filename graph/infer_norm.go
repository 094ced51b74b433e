package graph

import (
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
)

// needChannels checks that inputs are vectors of as many elements as axis 1 of input 0, of one where that is a vector.
func (c *Inference) needChannels(inputs ...int) error {
	in := c.Shape(0)
	for _, i := range inputs {
		if !c.Has(i) {
			continue
		}
		if err := c.needRank(i, 1, 1); err != nil {
			return err
		}
		if len(in) > 1 {
			if err := c.needDim(i, 0, in[1]); err != nil {
				return err
			}
		} else if s := c.Shape(i); len(in) == 1 && len(s) == 1 {
			if _, ok := sameDim(s[0], D(1)); !ok {
				return c.shapeError(i, fmt.Sprintf("[1], since input 0 of shape %v has no axis of channels and counts as one", in))
			}
		}
	}
	return nil
}

// channels returns the dim of axis 1 of input 0: 1 for a vector.
func (c *Inference) channels() Dim {
	if in := c.Shape(0); in != nil && len(in) < 2 {
		return D(1)
	}
	return c.dim(0, 1)
}

// inferBatchNormalization: Y like X; statistics, where the version has them as outputs, are [C].
func inferBatchNormalization(c *Inference) error {
	if c.Node.Schema.Since >= 9 || c.Node.Int("spatial", 1) != 0 {
		if err := c.needChannels(1, 2, 3, 4); err != nil {
			return err
		}
	}
	if err := inferSame(c); err != nil {
		return err
	}
	ch := c.channels()
	if s := c.Shape(3); len(s) == 1 {
		ch, _ = sameDim(ch, s[0])
	}
	for i := 1; i < c.NumOutputs(); i++ {
		if err := c.SetShape(i, Shape{ch}); err != nil {
			return err
		}
	}
	return nil
}

// inferInstanceNormalization: [N, C, d…] with scale and B [C].
func inferInstanceNormalization(c *Inference) error {
	if err := c.needRank(0, 3, anyRank); err != nil {
		return err
	}
	if err := c.needChannels(1, 2); err != nil {
		return err
	}
	return inferSame(c)
}

// inferGroupNormalization: [N, C, d…]; scale and bias are [C], or [num_groups] in version 18.
func inferGroupNormalization(c *Inference) error {
	if err := c.needRank(0, 2, anyRank); err != nil {
		return err
	}
	groups := c.Node.Int("num_groups", 1)
	if groups < 1 {
		return c.attrError("num_groups", "at least 1", groups)
	}
	if in := c.Shape(0); in != nil {
		if n, ok := in[1].Const(); ok && n%groups != 0 {
			return c.shapeError(0, fmt.Sprintf("a multiple of %d groups at axis 1", groups))
		}
	}
	if c.Node.Schema.Since >= 21 {
		if err := c.needChannels(1, 2); err != nil {
			return err
		}
	}
	return inferSame(c)
}

// inferLayerNormalization: Y like X; Mean and InvStdDev have 1 from the axis on and the type stash_type. Scale and B
// broadcast to X. RMSNormalization alike, with Y alone.
func inferLayerNormalization(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		return inferSame(c)
	}
	axis := c.Node.Int("axis", -1)
	a, err := NormAxis(axis, len(in))
	if err != nil {
		return c.attrError("axis", fmt.Sprintf("an axis of %v", in), axis)
	}
	for i := 1; i < 3; i++ {
		if err := c.broadcastTo(i, in); err != nil {
			return err
		}
	}
	if err := inferSame(c); err != nil || c.NumOutputs() < 2 {
		return err
	}
	dt, err := c.dtypeAttr("stash_type")
	if err != nil {
		return err
	}
	if dt == tensor.Invalid {
		dt = tensor.Float32
	}
	stat := append(Shape{}, in...)
	for i := a; i < len(stat); i++ {
		stat[i] = D(1)
	}
	for i := 1; i < c.NumOutputs(); i++ {
		if err := c.SetTensor(i, dt, stat); err != nil {
			return err
		}
	}
	return nil
}

// inferLoss: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss of scores [N, C, d…] and labels [N, d…].
func inferLoss(c *Inference) error {
	in, labels := c.Shape(0), c.Shape(1)
	if err := c.needRank(0, 2, anyRank); err != nil {
		return err
	}
	if in != nil {
		if err := c.needRank(1, len(in)-1, len(in)-1); err != nil {
			return err
		}
		want := append(Shape{in[0]}, in[2:]...)
		for i, d := range labels {
			if _, ok := sameDim(want[i], d); !ok {
				return c.shapeError(1, want.String())
			}
		}
		if labels == nil {
			labels = want
		}
	}
	if err := c.needChannels(2); err != nil {
		return err
	}
	out := labels
	switch r := c.Node.Str("reduction", "mean"); r {
	case "none":
	case "mean", "sum":
		out = Shape{}
	default:
		return c.attrError("reduction", "none, mean or sum", r)
	}
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	return c.SetShape(1, in)
}
