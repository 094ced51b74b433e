package cpu

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// QuantizeLinear and DequantizeLinear between float32 and integers of 8 or 16 bits, with one constant scale and zero point for all
// elements, row-major. What stands between them runs on integers where qdq.go and qelements.go know how, else on float32 kernels;
// where one follows the other, these round their results to levels instead.

// byteDType reports whether dt is an 8-bit integer type.
func byteDType(dt tensor.DType) bool { return dt == tensor.Uint8 || dt == tensor.Int8 }

// shortDType reports whether dt is an integer type of 8 or 16 bits.
func shortDType(dt tensor.DType) bool {
	return byteDType(dt) || dt == tensor.Uint16 || dt == tensor.Int16
}

// quantised returns a signature for an operator whose operand and result have these kinds of types.
func quantised(from, to func(tensor.DType) bool) func(n *graph.Node) ([]graph.Signature, *property.Reason) {
	return func(n *graph.Node) ([]graph.Signature, *property.Reason) {
		x, y := n.Inputs[0], n.Outputs[0]
		if !from(x.Type.DType) || !to(y.Type.DType) {
			return nil, property.Because(property.DTypeReason, "%v is %v, %v is %v", x, x.Type.DType, y, y.Type.DType)
		}
		for i, v := range n.Inputs[1:] {
			if v != nil && (!fuse.IsConst(v) || v.Const.Len() != 1) {
				return nil, property.Because(property.Unsupported, "input %d, %v, is not one constant number", i+1, v)
			}
		}
		if !operators.IsFloat32(n.Inputs[1]) || n.Int("precision", 0) != 0 && n.Int("precision", 0) != int64(tensor.Float32) {
			return nil, property.Because(property.DTypeReason, "scale %v is %v", n.Inputs[1], n.Inputs[1].Type)
		}
		return operators.RowMajor(n), nil
	}
}

// quantum returns scale and zero point.
func quantum(n *graph.Node) (scale float32, zero int32) {
	if z := n.Input(2); z != nil {
		zero = int32(z.Const.Int64At(0))
	}
	return float32(n.Inputs[1].Const.Float64At(0)), zero
}

// quantize rounds x/scale to even, adds the zero point and bounds the sum. NaN becomes the zero point.
func quantize[T int16 | uint16](p *planner, n *graph.Node, lo, hi float32) error {
	scale, zero := quantum(n)
	z := float32(zero)
	return elementwise1(p, n, func(x float32) T {
		q := x / scale
		if q != q {
			q = 0
		}
		return T(min(max(float32(math.RoundToEven(float64(q)))+z, lo), hi))
	})
}

// levelsOf returns how a node changes between floats and integers of 8 bits of a type.
func levelsOf(n *graph.Node, dt tensor.DType) quant.Levels {
	scale, zero := quantum(n)
	return quant.Levels{Scale: scale, Zero: int(zero), Signed: dt == tensor.Int8}
}

func planQuantize(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	switch dt := y.Type.DType; dt {
	case tensor.Uint16:
		return quantize[uint16](p, n, 0, math.MaxUint16)
	case tensor.Int16:
		return quantize[int16](p, n, math.MinInt16, math.MaxInt16)
	default:
		l, kernels := levelsOf(n, dt), p.integers
		elements(p, p.In(x), p.Out(y), product(p.Dims[y.ID]), 0.25, func(d []byte, s []float32) { kernels.Quantize(d, s, l) })
	}
	return nil
}

func dequantize[T int16 | uint16](p *planner, n *graph.Node) error {
	scale, zero := quantum(n)
	return elementwise1(p, n, func(x T) float32 { return float32(int32(x)-zero) * scale })
}

func planDequantize(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	switch dt := x.Type.DType; dt {
	case tensor.Uint16:
		return dequantize[uint16](p, n)
	case tensor.Int16:
		return dequantize[int16](p, n)
	default:
		l, kernels := levelsOf(n, dt), p.integers
		elements(p, p.In(x), p.Out(y), product(p.Dims[y.ID]), 0.15, func(d []float32, s []byte) { kernels.Dequantize(d, s, l) })
	}
	return nil
}

// roundedPool fuses QuantizeLinear, MaxPool and DequantizeLinear: the largest of rounded numbers is the largest, rounded.
func roundedPool() property.SubgraphProperty {
	return property.Found("rounded-pool", 3, func(q *graph.Node) []*graph.Node {
		if _, ok := fuse.LevelsOf(q); !ok || !is4D(q.Inputs[0]) {
			return nil
		}
		m := fuse.Next(q.Outputs[0])
		if m == nil || !m.Is("MaxPool") || len(m.Outputs) > 1 && m.Outputs[1] != nil {
			return nil
		}
		if w, err := graph.PoolAttrs(m); err != nil || len(w.Kernel) != 2 {
			return nil
		}
		if d := fuse.Next(m.Outputs[0]); d != nil && fuse.Undoes(d, q) {
			return []*graph.Node{q, m, d}
		}
		return nil
	})
}

func roundedPoolSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	s := graph.UniformSignature("nchw16c", n, rowMaj)
	s.Inputs[0], s.Outputs[0] = graph.Fixed(blocked), graph.Fixed(blocked)
	return []graph.Signature{s}, nil
}

func planRoundedPool(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	spec := conv.PoolSpec{N: p.Dims[x.ID][0], C: p.Dims[x.ID][1], Pooling: conv.Max}
	for m := range n.Regions[0].Graph.Nodes() {
		if l, ok := fuse.LevelsOf(m); ok {
			tail{levels: l}.epilogue(p.kernels, &spec.Epilogue)
		}
		if m.Is("MaxPool") {
			w, err := graph.PoolAttrs(m)
			if err != nil {
				return err
			}
			spec.Map = windowMap(&w, p.Dims[x.ID][2:], p.Dims[y.ID][2:])
		}
	}
	return p.pool(spec, p.In(x), p.Out(y))
}

func init() {
	table.Register(operators.Pattern("rounded-pool"), operator{Signatures: roundedPoolSignatures, Plan: planRoundedPool})
	table.Register(operators.Pattern(fuse.FakeQuantizeName), operator{
		Signatures: func(n *graph.Node) ([]graph.Signature, *property.Reason) { return followSignatures(n, 1), nil },
		Settle:     overFirst,
		Plan: func(p *planner, n *graph.Node) error {
			x, y := n.Inputs[0], n.Outputs[0]
			for m := range n.Regions[0].Graph.Nodes() {
				if l, ok := fuse.LevelsOf(m); ok {
					p.unary(rounding(l), p.In(x), p.Out(y), p.stored(y), padding{})
					return nil
				}
			}
			return fmt.Errorf("body of %v rounds nothing", n)
		},
		Strided: anyRows,
	})
	isFloat := func(dt tensor.DType) bool { return dt == tensor.Float32 }
	table.Register("QuantizeLinear", operator{Signatures: quantised(isFloat, shortDType), Plan: planQuantize, Strided: anyRows})
	table.Register("DequantizeLinear", operator{Signatures: quantised(shortDType, isFloat), Plan: planDequantize, Strided: anyRows})
}
