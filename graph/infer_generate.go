package graph

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

// inferConstant: one of the attributes value, sparse_value, value_int and its kin.
func inferConstant(c *Inference) error {
	if len(c.Node.Attrs) != 1 {
		return nodeError(c.Node, ErrAttr, "exactly one attribute", itoa(len(c.Node.Attrs)))
	}
	a := &c.Node.Attrs[0]
	var err error
	switch a.Kind {
	case AttrTensor:
		c.SetType(0, TypeOf(a.Tensor))
		if d := constDims(a.Tensor); d != nil {
			c.SetDims(0, d)
		}
	case AttrInt:
		if err = c.SetTensor(0, tensor.Int64, Shape{}); err == nil && a.Name == "value_int" {
			c.SetDims(0, []Dim{{c: a.Int}})
		}
	case AttrInts:
		err = c.SetTensor(0, tensor.Int64, Shape{D(len(a.Ints))})
		if len(a.Ints) <= maxDimsContent {
			dims := make([]Dim, len(a.Ints))
			for i, n := range a.Ints {
				dims[i] = Dim{c: n}
			}
			c.SetDims(0, dims)
		}
	case AttrFloat:
		err = c.SetTensor(0, tensor.Float32, Shape{})
	case AttrFloats:
		err = c.SetTensor(0, tensor.Float32, Shape{D(len(a.Floats))})
	case AttrString:
		err = c.SetTensor(0, tensor.String, Shape{})
	case AttrStrings:
		err = c.SetTensor(0, tensor.String, Shape{D(len(a.Strs))})
	}
	return err
}

// shapeFrom returns the shape that the contents of input i give; fresh dims, or an unknown rank, where they are unknown.
func (c *Inference) shapeFrom(i int) (Shape, error) {
	if err := c.needRank(i, 1, 1); err != nil {
		return nil, err
	}
	dims, ok := c.contents(i)
	if !ok {
		if n, known := c.length(i); known && n <= maxRank {
			return c.freshShape(n), nil
		}
		return nil, nil
	}
	if len(dims) > maxRank {
		return nil, c.valueError(i, fmt.Sprintf("a rank of at most %d", maxRank), itoa(len(dims)))
	}
	for _, d := range dims {
		if n, isConst := d.Const(); isConst && n < 0 {
			return nil, c.valueError(i, "dims of at least 0", Shape(dims).String())
		}
	}
	return append(Shape{}, dims...), nil
}

// inferConstantOfShape: the contents of the input as shape, filled with the attribute value, by default the float 0.
func inferConstantOfShape(c *Inference) error {
	s, err := c.shapeFrom(0)
	if err != nil {
		return err
	}
	dt := tensor.Float32
	value := c.Node.TensorAttr("value")
	if value != nil {
		if value.Len() != 1 {
			return c.attrError("value", "one element", value.Len())
		}
		dt = value.DType
	}
	if err := c.SetTensor(0, dt, s); err != nil || value == nil || !c.vectorOutput() {
		return err
	}
	n := int64(1)
	if len(s) == 1 {
		var ok bool
		if n, ok = s[0].Const(); !ok || n > maxDimsContent {
			return nil
		}
	}
	fill := make([]Dim, n)
	for i := range fill {
		fill[i] = Dim{c: value.Int64At(0)}
	}
	c.SetDims(0, fill)
	return nil
}

// inferRange: max(⌈(limit-start)/delta⌉, 0) elements.
func inferRange(c *Inference) error {
	for i := range 3 {
		if err := c.needScalar(i); err != nil {
			return err
		}
	}
	n, ok := c.rangeLength()
	if !ok {
		n = c.Fresh()
	}
	if k, isConst := n.Const(); isConst && k < 0 {
		n = D(0)
	}
	if err := c.SetShape(0, Shape{n}); err != nil {
		return err
	}
	start, ok := c.Dims(0)
	delta, ok2 := c.Dims(2)
	k, isConst := n.Const()
	if !ok || !ok2 || !isConst || k > maxDimsContent || len(start) != 1 || len(delta) != 1 || !c.vectorOutput() {
		return nil
	}
	out := make([]Dim, k)
	for i := range out {
		out[i] = start[0].Add(delta[0].Scale(int64(i)))
	}
	c.SetDims(0, out)
	return nil
}

// RangeLen returns how many integers an ONNX Range from start by steps of delta, which is not 0, has before limit: exactly,
// for all operands.
func RangeLen(start, limit, delta int64) uint64 {
	span, step := uint64(limit)-uint64(start), uint64(delta) // right modulo 2⁶⁴, and less than that
	if delta < 0 {
		start, limit = limit, start
		span, step = -span, -step
	}
	if limit <= start {
		return 0
	}
	return (span-1)/step + 1
}

func (c *Inference) rangeLength() (Dim, bool) {
	var v [3]Dim
	for i := range v {
		d, ok := c.contents(i)
		if !ok || len(d) != 1 {
			return c.floatRange()
		}
		v[i] = d[0]
	}
	step, ok := v[2].Const()
	if !ok || step == 0 {
		return Dim{}, false
	}
	start, ok1 := v[0].Const()
	limit, ok2 := v[1].Const()
	if ok1 && ok2 {
		n := RangeLen(start, limit, step)
		return Dim{c: int64(n)}, n <= 1<<40
	}
	for _, d := range v { // differences of numbers that are farther apart do not fit
		if k, ok := d.Const(); ok && (k >= farAway || k <= -farAway) {
			return Dim{}, false
		}
	}
	span := v[1].Sub(v[0])
	if step < 0 {
		span, step = span.Scale(-1), -step
	}
	n := span.CeilDiv(Dim{c: step})
	n, _ = maxDims(n, D(0))
	return n, !n.TooComplex()
}

func (c *Inference) floatRange() (Dim, bool) {
	var v [3]float64
	for i := range v {
		f, ok := c.floats(i)
		if !ok || len(f) != 1 {
			return Dim{}, false
		}
		v[i] = f[0]
	}
	n := math.Ceil((v[1] - v[0]) / v[2])
	if n != n || n > 1<<40 {
		return Dim{}, false
	}
	return Dim{c: int64(max(n, 0))}, true
}

// inferRandom: shape and dtype are attributes.
func inferRandom(c *Inference) error {
	vals, _ := c.Node.Ints("shape")
	if len(vals) > maxRank {
		return c.attrError("shape", fmt.Sprintf("a rank of at most %d", maxRank), len(vals))
	}
	s := make(Shape, len(vals))
	for i, n := range vals {
		if n < 0 {
			return c.attrError("shape", "dims of at least 0", vals)
		}
		s[i] = Dim{c: n}
	}
	dt, err := c.dtypeAttr("dtype")
	if err != nil {
		return err
	}
	if dt == tensor.Invalid {
		dt = tensor.Float32
	}
	return c.SetTensor(0, dt, s)
}

// inferMultinomial: [batch, sample_size] class numbers of type dtype, int32 by default.
func inferMultinomial(c *Inference) error {
	if err := c.needRank(0, 2, 2); err != nil {
		return err
	}
	dt, err := c.dtypeAttr("dtype")
	if err != nil {
		return err
	}
	if dt == tensor.Invalid {
		dt = tensor.Int32
	}
	n := c.Node.Int("sample_size", 1)
	if n < 1 {
		return c.attrError("sample_size", "at least 1", n)
	}
	return c.SetTensor(0, dt, Shape{c.dim(0, 0), Dim{c: n}})
}

// inferWindowFunction: BlackmanWindow, HammingWindow and HannWindow of the size that the input holds.
func inferWindowFunction(c *Inference) error {
	dt, err := c.dtypeAttr("output_datatype")
	if err != nil {
		return err
	}
	if dt == tensor.Invalid {
		dt = tensor.Float32
	}
	n := c.Fresh()
	if d, ok := c.contents(0); ok && len(d) == 1 {
		n = d[0]
	}
	return c.SetTensor(0, dt, Shape{n})
}

// inferMelWeightMatrix: [dft_length/2 + 1, num_mel_bins].
func inferMelWeightMatrix(c *Inference) error {
	dt, err := c.dtypeAttr("output_datatype")
	if err != nil {
		return err
	}
	if dt == tensor.Invalid {
		dt = tensor.Float32
	}
	bins, rows := c.Fresh(), c.Fresh()
	if d, ok := c.contents(0); ok && len(d) == 1 {
		bins = d[0]
	}
	if d, ok := c.contents(1); ok && len(d) == 1 {
		if half, ok := divDims(d[0], D(2)); ok {
			rows = half.Add(D(1))
		}
	}
	return c.SetTensor(0, dt, Shape{rows, bins})
}
