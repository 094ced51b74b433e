package reference

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// Kernels work on float64 and int64, whatever the element type: eight times the memory of uint8 for each operand and for the
// result. Those of elementwise operators are run on one block after another, where all operands have one shape or one element,
// so that they take little beside operands and result.

// elementwise are operators of which each element of the result is made of one element of each operand, or of a single one.
var elementwise = []string{
	"Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Round",
	"Sign", "Sin", "Sinh", "Sqrt", "Tan", "Tanh", "Not", "IsNaN", "IsInf", "BitwiseNot",
	"Relu", "Sigmoid", "Softplus", "Softsign", "Mish", "HardSwish", "HardSigmoid", "Elu", "Celu", "Selu", "LeakyRelu", "ThresholdedRelu", "Gelu", "Swish",
	"Add", "Sub", "Mul", "Div", "Mod", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual",
	"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "Max", "Min", "Sum", "Mean", "QuantizeLinear", "DequantizeLinear",
}

// blockwise returns a kernel that runs another one on blocks of the operands.
func blockwise(run func(*Call)) func(*Call) {
	return func(c *Call) {
		shape := c.commonShape()
		if shape == nil {
			run(c)
			return
		}
		var out *tensor.Tensor
		c.check("", c.blocks(product(shape), func(lo, hi int) error {
			b := Call{Ctx: c.Ctx, Node: c.Node, MaxBytes: c.MaxBytes, version: c.version}
			b.results = make([]tensor.Value, len(c.results))
			for _, v := range c.Inputs {
				if t, ok := v.(*tensor.Tensor); ok && t.Len() > 1 {
					v = part(t, lo, hi)
				} else if ok {
					v = scalarOf(t)
				}
				b.Inputs = append(b.Inputs, v)
			}
			b.Out = func(i int, dt tensor.DType, _ []int) (*tensor.Tensor, error) {
				if out == nil {
					out = c.result(i, dt, shape)
				}
				return part(out, lo, hi), nil
			}
			if c.Reserve != nil {
				b.Reserve = func(bytes int64) error {
					err := c.Reserve(bytes)
					if err == nil {
						c.taken += bytes
					}
					return err
				}
			}
			run(&b)
			if b.taken > 0 {
				c.taken -= b.taken
				_ = c.Reserve(-b.taken) // giving back does not fail
			}
			return nil
		}))
	}
}

// commonShape returns the shape of the operands where they can be taken in blocks and are larger than some blocks, else nil.
func (c *Call) commonShape() (shape []int) {
	const least = 4 * blockLen
	for i := range c.Inputs {
		v := c.value(i)
		if v == nil {
			continue
		}
		t, ok := v.(*tensor.Tensor)
		if !ok || t.DType == tensor.String || t.DType.IsComplex() || !t.Device.IsHost() || !t.IsCompact() || t.Check() != nil {
			return nil
		}
		switch {
		case t.Len() == 1:
		case t.Len() < least || shape != nil && !slices.Equal(shape, t.Shape):
			return nil
		default:
			if c.Node.Is("QuantizeLinear", "DequantizeLinear") && i > 0 {
				return nil // one number for each element of an axis, or for each block
			}
			shape = t.Shape
		}
	}
	for i := range c.Inputs { // a result of a higher rank than the operands' has other dims in front
		if t, ok := c.value(i).(*tensor.Tensor); ok && len(t.Shape) > len(shape) {
			return nil
		}
	}
	return shape
}

// scalarOf returns a tensor of one element as a scalar.
func scalarOf(t *tensor.Tensor) *tensor.Tensor {
	if t.Len() != 1 {
		return t
	}
	v := *t
	v.Shape, v.Strides = []int{}, nil
	return &v
}
