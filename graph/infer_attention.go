package graph

import "fmt"

// heads returns the dims batch, heads, sequence and head size of input i, [B, H, S, D] or [B, S, H·D] with the number of
// heads in an attribute.
func (c *Inference) heads(i int, attr string) (b, h, s, d Dim, err error) {
	in := c.Shape(i)
	if err = c.needRank(i, 3, 4); err != nil {
		return
	}
	switch len(in) {
	case 4:
		return in[0], in[1], in[2], in[3], nil
	case 3:
		n := c.Node.Int(attr, 0)
		if n <= 0 || n > maxExtent {
			err = c.attrError(attr, "at least 1", n)
			return
		}
		if k, ok := in[2].Const(); ok && k%n != 0 {
			err = c.shapeError(i, fmt.Sprintf("a multiple of %d heads at axis 2", n))
			return
		}
		return in[0], Dim{c: n}, in[1], in[2].FloorDiv(Dim{c: n}), nil
	}
	return c.Fresh(), c.Fresh(), c.Fresh(), c.Fresh(), nil
}

// inferAttention: Y like Q with the head size of V; present_key and present_value are the past and the new ones joined
// along the sequence, [B, H, past+S, D].
func inferAttention(c *Inference) error {
	q := c.Shape(0)
	b, hq, sq, dq, err := c.heads(0, "q_num_heads")
	if err != nil {
		return err
	}
	_, hk, sk, dk, err := c.heads(1, "kv_num_heads")
	if err != nil {
		return err
	}
	_, _, _, dv, err := c.heads(2, "kv_num_heads")
	if err != nil {
		return err
	}
	if q != nil && c.Shape(1) != nil {
		if _, ok := sameDim(dq, dk); !ok {
			return c.shapeError(1, fmt.Sprintf("a head size of %v", dq))
		}
		if n, ok := hq.Const(); ok {
			if k, ok := hk.Const(); ok && (k == 0 || n%k != 0) {
				return c.shapeError(1, fmt.Sprintf("a number of heads that divides %d", n))
			}
		}
	}
	var y Shape
	switch len(q) {
	case 4:
		y = Shape{b, hq, sq, dv}
	case 3:
		y = Shape{b, sq, hq.Mul(dv)}
	}
	if err := c.SetShape(0, y); err != nil {
		return err
	}
	total := sk
	if c.Has(4) {
		if err := c.needRank(4, 4, 4); err != nil {
			return err
		}
		total = c.dim(4, 2).Add(sk)
	}
	if err := c.SetShape(1, Shape{b, hk, total, dk}); err != nil {
		return err
	}
	if err := c.SetShape(2, Shape{b, hk, total, dv}); err != nil {
		return err
	}
	return c.SetShape(3, Shape{b, hq, sq, total})
}

// inferFlexAttention: Q [B, H, L, E], K [B, G, S, E] and V [B, G, S, Ev] give [B, H, L, Ev]; regions change the scores
// and the probabilities, [B, H, L, S].
func inferFlexAttention(c *Inference) error {
	for i := range 3 {
		if err := c.needRank(i, 4, 4); err != nil {
			return err
		}
	}
	if q := c.Shape(0); q != nil {
		if err := c.needDim(1, 3, q[3]); err != nil {
			return err
		}
	}
	scores := Shape{c.dim(0, 0), c.dim(0, 1), c.dim(0, 2), c.dim(1, 2)}
	for _, name := range []string{"score_mod", "prob_mod"} {
		r := c.Node.Region(name)
		if r == nil {
			continue
		}
		if len(r.Inputs) != 1 || len(r.Outputs) != 1 {
			return regionError(c.Node, name, ErrArity, "1 input and 1 output", fmt.Sprintf("%d and %d", len(r.Inputs), len(r.Outputs)))
		}
		dt := r.Inputs[0].Type.DType
		if p, err := c.dtypeAttr("softmax_precision"); err == nil && dt == 0 {
			dt = p
		}
		r.Inputs[0].Type = TensorType(dt, scores)
		if err := inferRegion(c.Node, name); err != nil {
			return err
		}
	}
	return c.SetShape(0, Shape{scores[0], scores[1], scores[2], c.dim(2, 3)})
}

// inferLinearAttention: query [B, T, Hq·dk], key [B, T, Hkv·dk], value [B, T, Hkv·dv] give [B, T, Hq·dv] and the state
// [B, Hkv, dk, dv], of the type of the past state where there is one.
func inferLinearAttention(c *Inference) error {
	for i := range 3 {
		if err := c.needRank(i, 3, 3); err != nil {
			return err
		}
	}
	b, hq, t, _, err := c.heads(0, "q_num_heads")
	if err != nil {
		return err
	}
	_, hk, _, dk, err := c.heads(1, "kv_num_heads")
	if err != nil {
		return err
	}
	_, _, _, dv, err := c.heads(2, "kv_num_heads")
	if err != nil {
		return err
	}
	if err := c.SetShape(0, Shape{b, t, hq.Mul(dv)}); err != nil {
		return err
	}
	dt := c.DType(0)
	if c.Has(3) {
		dt = c.DType(3)
	}
	return c.SetTensor(1, dt, Shape{b, hk, dk, dv})
}
