package cpu

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// QuantizeLinear and DequantizeLinear between float32 and integers of 8 or 16 bits or floats of 8, and from integers of 32, row-major. Those with several scales,
// or with one of a run, are in qaxis.go. What stands between them runs on integers where qdq.go and qelements.go know how, else on float32 kernels;
// where one follows the other, these round their results to levels instead.

// byteDType reports whether dt is an 8-bit integer type.
func byteDType(dt tensor.DType) bool { return dt == tensor.Uint8 || dt == tensor.Int8 }

// shortDType reports whether dt is an integer type of 8 or 16 bits.
func shortDType(dt tensor.DType) bool {
	return byteDType(dt) || dt == tensor.Uint16 || dt == tensor.Int16
}

// quantum returns scale and zero point.
func quantum(n *graph.Node) (scale float32, zero int32) {
	if z := n.Input(2); z != nil {
		zero = int32(z.Const.Int64At(0))
	}
	return float32(n.Inputs[1].Const.Float64At(0)), zero
}

// onceRows says that nodes of bytes with one constant scale take operands and results in strided rows.
func onceRows(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	return onceQuantised(n) && (byteDType(n.Inputs[0].Type.DType) || byteDType(n.Outputs[0].Type.DType)) && anyRows(p, n, v, m)
}

// levelsOf returns how a node changes between floats and integers of 8 bits of a type.
func levelsOf(n *graph.Node, dt tensor.DType) quant.Levels {
	scale, zero := quantum(n)
	return quant.Levels{Scale: scale, Zero: int(zero), Signed: dt == tensor.Int8}
}

func planQuantize(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if !byteDType(y.Type.DType) || !onceQuantised(n) {
		return p.quantizeRows(n)
	}
	l, kernels := levelsOf(n, y.Type.DType), p.integers
	elements(p, p.In(x), p.Out(y), product(p.Dims[y.ID]), 0.25, func(d []byte, s []float32) { kernels.Quantize(d, s, l) })
	return nil
}

func planDequantize(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if !byteDType(x.Type.DType) || !onceQuantised(n) {
		return p.dequantizeRows(n)
	}
	l, kernels := levelsOf(n, x.Type.DType), p.integers
	elements(p, p.In(x), p.Out(y), product(p.Dims[y.ID]), 0.15, func(d []float32, s []byte) { kernels.Dequantize(d, s, l) })
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
	isShort := func(dt tensor.DType) bool { return shortDType(dt) || isFloat8(dt) }
	isStored := func(dt tensor.DType) bool { return isShort(dt) || dt == tensor.Int32 }
	table.Register("QuantizeLinear", operator{Signatures: quantised(isFloat, isShort), Plan: planQuantize, Strided: onceRows})
	table.Register("DequantizeLinear", operator{Signatures: quantised(isStored, isFloat), Plan: planDequantize, Strided: onceRows})
}
