package graph

import (
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
)

// quantScale checks scale and zero point of a quantisation of input 0: scalars, vectors along the axis, or one value per
// block of block_size along it.
func (c *Inference) quantScale() error {
	in, scale := c.Shape(0), c.Shape(1)
	if single(scale) && single(c.Shape(2)) {
		return nil
	}
	if err := c.sameShapes(1, 2); err != nil || in == nil || scale == nil {
		return err
	}
	if !c.hasAttr("axis") {
		return nil
	}
	if scalesOfVector(c.Node) {
		return c.needDim(1, 0, in[0])
	}
	axis := c.Node.Int("axis", 1)
	a, err := NormAxis(axis, len(in))
	if err != nil {
		return c.attrError("axis", fmt.Sprintf("an axis of %v", in), axis)
	}
	block := c.Node.Int("block_size", 0)
	switch {
	case block < 0:
		return c.attrError("block_size", "at least 0", block)
	case block > 0:
		return c.needRank(1, len(in), len(in))
	case len(scale) == 1:
		return c.needDim(1, 0, in[a])
	}
	return c.needRank(1, 0, len(in))
}

// scalesOfVector reports whether a node quantises a vector by a scale for each element along axis 1, the default, which a vector has not: so
// neural-compressor writes biases of Gemm, and ONNX Runtime runs them.
func scalesOfVector(n *Node) bool {
	if n.Op.Domain != "" || !n.Is("QuantizeLinear") && !n.Is("DequantizeLinear") || n.Input(0) == nil || n.Input(1) == nil {
		return false
	}
	return n.Int("axis", 1) == 1 && n.Int("block_size", 0) == 0 && len(n.Input(0).Type.Shape) == 1 && len(n.Input(1).Type.Shape) == 1
}

// single reports whether a shape is, or may turn out to be in a run, that of one element: exporters write scalars as vectors
// of one.
func single(s Shape) bool {
	for _, d := range s {
		if d.Backed() && !d.Is(1) {
			return false
		}
	}
	return true
}

// outputDType is the type that the attribute output_dtype names, Invalid where it is left out or 0, its default.
func (c *Inference) outputDType() (tensor.DType, error) {
	if c.Node.Int("output_dtype", 0) == 0 {
		return tensor.Invalid, nil
	}
	return c.dtypeAttr("output_dtype")
}

// inferQuantizeLinear: the type is that of the zero point, else output_dtype, else uint8.
func inferQuantizeLinear(c *Inference) error {
	if err := c.quantScale(); err != nil {
		return err
	}
	dt, err := c.outputDType()
	if err != nil {
		return err
	}
	switch zp := c.DType(2); {
	case c.Has(2) && dt != tensor.Invalid && zp != tensor.Invalid && zp != dt:
		return c.attrError("output_dtype", zp.String()+" as the zero point", dt)
	case c.Has(2):
		dt = zp
	case dt == tensor.Invalid:
		dt = tensor.Uint8
	}
	return c.SetTensor(0, dt, c.Shape(0))
}

// inferDequantizeLinear: the type is output_dtype, else that of the scale.
func inferDequantizeLinear(c *Inference) error {
	if err := c.quantScale(); err != nil {
		return err
	}
	dt, err := c.outputDType()
	if err != nil {
		return err
	}
	if dt == tensor.Invalid {
		dt = c.DType(1)
	}
	return c.SetTensor(0, dt, c.Shape(0))
}

// inferDynamicQuantizeLinear: y like x in uint8, and its scale and zero point.
func inferDynamicQuantizeLinear(c *Inference) error {
	for i, s := range []Shape{c.Shape(0), {}, {}} {
		if err := c.SetShape(i, s); err != nil {
			return err
		}
	}
	return nil
}
