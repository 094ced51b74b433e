package graph

import "fmt"

// inferGather: the axis of the data is replaced by the shape of the indices.
func inferGather(c *Inference) error {
	data, idx := c.Shape(0), c.Shape(1)
	axis := c.Node.Int("axis", 0)
	if data == nil {
		return c.SetShape(0, nil)
	}
	a, err := NormAxis(axis, len(data))
	if err != nil {
		return c.attrError("axis", fmt.Sprintf("an axis of %v", data), axis)
	}
	if idx == nil {
		return c.SetShape(0, nil)
	}
	out := append(Shape{}, data[:a]...)
	out = append(out, idx...)
	out = append(out, data[a+1:]...)
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	if n, ok := data[a].Const(); ok {
		if vals, known := c.ints(1); known {
			for _, v := range vals {
				if v < -n || v >= n {
					return c.valueError(1, fmt.Sprintf("indices from %d to %d", -n, n-1), fmt.Sprint(v))
				}
			}
		}
	}
	dims, ok := c.Dims(0)
	vals, known := c.ints(1)
	if !ok || !known || len(data) != 1 || !c.vectorOutput() || len(vals) > maxDimsContent {
		return nil
	}
	picked := make([]Dim, len(vals))
	for i, v := range vals {
		if v < 0 {
			v += int64(len(dims))
		}
		if v < 0 || v >= int64(len(dims)) {
			return nil
		}
		picked[i] = dims[v]
	}
	c.SetDims(0, picked)
	return nil
}

// inferGatherElements: the shape of the indices, whose rank is that of the data.
func inferGatherElements(c *Inference) error {
	data, idx := c.Shape(0), c.Shape(1)
	if data != nil {
		axis := c.Node.Int("axis", 0)
		a, err := NormAxis(axis, len(data))
		if err != nil {
			return c.attrError("axis", fmt.Sprintf("an axis of %v", data), axis)
		}
		if idx != nil && len(idx) != len(data) {
			return c.shapeError(1, fmt.Sprintf("rank %d", len(data)))
		}
		if err := c.within(1, data, a); err != nil {
			return err
		}
		if idx == nil {
			idx = c.freshShape(len(data))
		}
	}
	return c.SetShape(0, idx)
}

// inferGatherND: batch dims, then those of the indices without the last, then those of the data that it does not index.
func inferGatherND(c *Inference) error {
	data, idx := c.Shape(0), c.Shape(1)
	if data == nil || idx == nil {
		return c.SetShape(0, nil)
	}
	batch := c.Node.Int("batch_dims", 0)
	if err := c.needRank(0, 1, anyRank); err != nil {
		return err
	}
	if err := c.needRank(1, 1, anyRank); err != nil {
		return err
	}
	if batch < 0 || batch >= int64(min(len(data), len(idx))) {
		return c.attrError("batch_dims", "fewer than the ranks of both inputs", batch)
	}
	k, ok := idx[len(idx)-1].Const()
	if !ok {
		return c.SetShape(0, nil)
	}
	if k < 1 || k > int64(len(data))-batch {
		return c.shapeError(1, fmt.Sprintf("a last dim from 1 to %d", int64(len(data))-batch))
	}
	out := append(Shape{}, idx[:len(idx)-1]...)
	for i := range int(batch) {
		m, ok := sameDim(data[i], out[i])
		if !ok {
			return c.shapeError(1, fmt.Sprintf("%v at axis %d", data[i], i))
		}
		out[i] = m
	}
	return c.SetShape(0, append(out, data[batch+k:]...))
}

// inferScatterElements: the shape of the data; indices and updates have its rank.
func inferScatterElements(c *Inference) error {
	if data := c.Shape(0); data != nil {
		axis := c.Node.Int("axis", 0)
		a, err := NormAxis(axis, len(data))
		if err != nil {
			return c.attrError("axis", fmt.Sprintf("an axis of %v", data), axis)
		}
		for i := 1; i < 3; i++ {
			if err := c.needRank(i, len(data), len(data)); err != nil {
				return err
			}
		}
		if err := c.within(1, data, a); err != nil {
			return err
		}
	}
	if err := c.sameShapes(1, 2); err != nil {
		return err
	}
	return inferSame(c)
}

// within checks that no dim of input i but that of the axis is larger than in data, of the same rank.
func (c *Inference) within(i int, data Shape, axis int) error {
	for k, d := range c.Shape(i) {
		n, ok := d.Const()
		if most, known := data[k].Const(); k != axis && ok && known && n > most {
			return c.shapeError(i, fmt.Sprintf("at most %d at axis %d", most, k))
		}
	}
	return nil
}

// sameShapes checks that two inputs can have one shape.
func (c *Inference) sameShapes(i, j int) error {
	a, b := c.Shape(i), c.Shape(j)
	if a == nil || b == nil {
		return nil
	}
	if len(a) != len(b) {
		return c.shapeError(j, a.String())
	}
	for k := range a {
		if _, ok := sameDim(a[k], b[k]); !ok {
			return c.shapeError(j, a.String())
		}
	}
	return nil
}

// inferScatterND: the shape of the data; updates are [indices without the last dim, data past what it indexes].
func inferScatterND(c *Inference) error {
	data, idx, upd := c.Shape(0), c.Shape(1), c.Shape(2)
	if err := c.needRank(0, 1, anyRank); err != nil {
		return err
	}
	if err := c.needRank(1, 1, anyRank); err != nil {
		return err
	}
	if data != nil && idx != nil {
		if k, ok := idx[len(idx)-1].Const(); ok {
			if k < 0 || k > int64(len(data)) {
				return c.shapeError(1, fmt.Sprintf("a last dim of at most %d", len(data)))
			}
			if r := len(idx) - 1 + len(data) - int(k); upd != nil && len(upd) != r {
				return c.shapeError(2, fmt.Sprintf("rank %d", r))
			}
			want := append(append(Shape{}, idx[:len(idx)-1]...), data[k:]...)
			for axis, d := range want {
				if err := c.needDim(2, axis, d); err != nil {
					return err
				}
			}
		}
	}
	return inferSame(c)
}

// inferTensorScatter: the cache [B, …] with update written into it.
func inferTensorScatter(c *Inference) error {
	if data := c.Shape(0); data != nil {
		if err := c.needRank(1, len(data), len(data)); err != nil {
			return err
		}
		axis := c.Node.Int("axis", -2)
		if _, err := NormAxis(axis, len(data)); err != nil {
			return c.attrError("axis", fmt.Sprintf("an axis of %v", data), axis)
		}
	}
	return inferSame(c)
}

// inferOneHot: the depth is inserted at the axis of the indices' shape.
func inferOneHot(c *Inference) error {
	idx := c.Shape(0)
	if idx == nil {
		return c.SetShape(0, nil)
	}
	axis := c.Node.Int("axis", -1)
	a, err := NormAxis(axis, len(idx)+1)
	if err != nil {
		return c.attrError("axis", fmt.Sprintf("an axis of rank %d", len(idx)+1), axis)
	}
	if err := c.needDim(2, 0, D(2)); err != nil {
		return err
	}
	depth := c.Fresh()
	if d, ok := c.contents(1); ok && len(d) == 1 {
		depth = d[0]
	} else if f, ok := c.floats(1); ok && len(f) == 1 && f[0] >= 0 && f[0] < farAway {
		depth = D(int(f[0]))
	}
	if n, ok := depth.Const(); ok && n < 0 {
		return c.valueError(1, "a depth of at least 0", fmt.Sprint(n))
	}
	out := append(Shape{}, idx[:a]...)
	out = append(append(out, depth), idx[a:]...)
	return c.SetShape(0, out)
}

// inferTopK: k along the axis, an attribute in version 1.
func inferTopK(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		if err := c.SetShape(0, nil); err != nil {
			return err
		}
		return c.SetShape(1, nil)
	}
	axis := c.Node.Int("axis", -1)
	a, err := NormAxis(axis, len(in))
	if err != nil {
		return c.attrError("axis", fmt.Sprintf("an axis of %v", in), axis)
	}
	k := c.Fresh()
	if c.hasAttr("k") {
		k = Dim{c: c.Node.Int("k", 0)}
	} else if d, ok := c.contents(1); ok {
		if len(d) != 1 {
			return c.valueError(1, "one number", itoa(len(d)))
		}
		k = d[0]
	}
	if n, ok := k.Const(); ok {
		if m, known := in[a].Const(); n < 0 || known && n > m {
			return nodeError(c.Node, ErrShapeMismatch, fmt.Sprintf("k from 0 to %v", in[a]), fmt.Sprint(n))
		}
	}
	out := append(Shape{}, in...)
	out[a] = k
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	return c.SetShape(1, out)
}

// inferNonZero: [rank, count].
func inferNonZero(c *Inference) error {
	r, ok := c.rank(0)
	rank := D(r)
	if !ok {
		rank = c.Fresh()
	}
	return c.SetShape(0, Shape{rank, c.Fresh()})
}

// inferCompress: what the condition selects, along the axis or of the flattened input.
func inferCompress(c *Inference) error {
	if err := c.needRank(1, 1, 1); err != nil {
		return err
	}
	in := c.Shape(0)
	if c.Node.Attrs.Lookup("axis") == nil {
		return c.SetShape(0, Shape{c.Fresh()})
	}
	if in == nil {
		return c.SetShape(0, nil)
	}
	axis := c.Node.Int("axis", 0)
	a, err := NormAxis(axis, len(in))
	if err != nil {
		return c.attrError("axis", fmt.Sprintf("an axis of %v", in), axis)
	}
	out := append(Shape{}, in...)
	out[a] = c.Fresh()
	return c.SetShape(0, out)
}

// inferUnique: Y, and indices, inverse_indices and counts as vectors.
func inferUnique(c *Inference) error {
	in := c.Shape(0)
	count, total := c.Fresh(), c.Fresh()
	var out Shape
	if c.Node.Attrs.Lookup("axis") == nil {
		out = Shape{count}
		if n, ok := numElements(in); ok {
			total = n
		}
	} else if in != nil {
		axis := c.Node.Int("axis", 0)
		a, err := NormAxis(axis, len(in))
		if err != nil {
			return c.attrError("axis", fmt.Sprintf("an axis of %v", in), axis)
		}
		out = append(Shape{}, in...)
		out[a], total = count, in[a]
	}
	if err := c.SetShape(0, out); err != nil {
		return err
	}
	if y := c.Node.Output(0); y != nil && out != nil { // the symbol that an earlier inference gave
		for i := range out {
			if out[i].Equal(count) {
				count = y.Type.Shape[i]
				break
			}
		}
	}
	for i, d := range []Dim{count, total, count} {
		if err := c.SetShape(1+i, Shape{d}); err != nil {
			return err
		}
	}
	return nil
}

// inferNonMaxSuppression: boxes [B, N, 4], scores [B, C, N]; one row of three indices per box that is kept.
func inferNonMaxSuppression(c *Inference) error {
	if err := c.needRank(0, 3, 3); err != nil {
		return err
	}
	if err := c.needRank(1, 3, 3); err != nil {
		return err
	}
	if err := c.needDim(0, 2, D(4)); err != nil {
		return err
	}
	if b, s := c.Shape(0), c.Shape(1); b != nil && s != nil {
		if err := c.needDim(1, 0, b[0]); err != nil {
			return err
		}
		if err := c.needDim(1, 2, b[1]); err != nil {
			return err
		}
	}
	return c.SetShape(0, Shape{c.Fresh(), D(3)})
}

// inferReverseSequence: the shape of the input, of rank 2 at least; batch_axis and time_axis are 0 and 1.
func inferReverseSequence(c *Inference) error {
	if err := c.needRank(0, 2, anyRank); err != nil {
		return err
	}
	b, t := c.Node.Int("batch_axis", 1), c.Node.Int("time_axis", 0)
	if b == t || b < 0 || b > 1 || t < 0 || t > 1 {
		return c.attrError("time_axis", "0 or 1, and the other one for batch_axis", t)
	}
	if in := c.Shape(0); in != nil {
		if err := c.needRank(1, 1, 1); err != nil {
			return err
		}
		if err := c.needDim(1, 0, in[b]); err != nil {
			return err
		}
	}
	return inferSame(c)
}
