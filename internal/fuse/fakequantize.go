package fuse

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// FakeQuantizeName is the name of the property FakeQuantize.
const FakeQuantizeName = "fake-quantize"

// Levels are what QuantizeLinear and DequantizeLinear, one behind the other, make of a number x: the nearest of them,
// Scale·clip(round(x/Scale), Lo, Hi), of NaN Scale·Lo.
type Levels struct{ Scale, Lo, Hi float32 }

// FakeQuantize returns the property of QuantizeLinear and DequantizeLinear of float32, one behind the other, with the same
// constant scale and zero point of 8 or 16 bits.
func FakeQuantize() property.SubgraphProperty {
	return property.Found(FakeQuantizeName, 2, func(q *graph.Node) []*graph.Node {
		return rounding(q)
	})
}

// LevelsOf returns the levels of a QuantizeLinear of float32 to 8 or 16 bits by one constant scale and zero point.
func LevelsOf(q *graph.Node) (Levels, bool) {
	if !q.Is("QuantizeLinear") || q.Inputs[0].Type.DType != tensor.Float32 || !q.Inputs[0].Type.Backed() || !singly(q) {
		return Levels{}, false
	}
	scale, zero, ok := Quantum(q)
	if !ok || !(scale > 0) || math.IsInf(float64(scale), 0) {
		return Levels{}, false
	}
	switch q.Outputs[0].Type.DType {
	case tensor.Uint8:
		return Levels{scale, float32(0 - zero), float32(math.MaxUint8 - zero)}, true
	case tensor.Int8:
		return Levels{scale, float32(math.MinInt8 - zero), float32(math.MaxInt8 - zero)}, true
	case tensor.Uint16:
		return Levels{scale, float32(0 - zero), float32(math.MaxUint16 - zero)}, true
	case tensor.Int16:
		return Levels{scale, float32(math.MinInt16 - zero), float32(math.MaxInt16 - zero)}, true
	}
	return Levels{}, false
}

// Quantum returns the scale and zero point of a QuantizeLinear or DequantizeLinear that has one of each, constant.
func Quantum(n *graph.Node) (scale float32, zero int64, ok bool) {
	if scale, ok = Scalar(n.Inputs[1]); !ok {
		return 0, 0, false
	}
	if z := Behind(n.Input(2)); z != nil {
		if !z.IsConst() || z.Const.Len() != 1 {
			return 0, 0, false
		}
		zero = z.Const.Int64At(0)
	}
	return scale, zero, true
}

// singly reports whether a node computes in single precision.
func singly(n *graph.Node) bool {
	p := n.Int("precision", 0)
	return p == 0 || p == int64(tensor.Float32)
}

// Undoes reports whether d is the DequantizeLinear that belongs to q: of the same scale and zero point, to float32.
func Undoes(d, q *graph.Node) bool {
	if !d.Is("DequantizeLinear") || d.Outputs[0].Type.DType != tensor.Float32 || d.Inputs[0].Type.DType != q.Outputs[0].Type.DType {
		return false
	}
	s, z, ok := Quantum(d)
	t, y, _ := Quantum(q)
	return ok && s == t && z == y
}

// roundingOf returns the nodes behind v that round it to levels, nil where there are none.
func roundingOf(v *graph.Value) []*graph.Node {
	q := Next(v)
	if q == nil || q.Input(0) != v {
		return nil
	}
	return rounding(q)
}

// rounding returns q and the node that undoes it, nil where they are no pair.
func rounding(q *graph.Node) []*graph.Node {
	if _, ok := LevelsOf(q); !ok {
		return nil
	}
	if d := Next(q.Outputs[0]); d != nil && Undoes(d, q) {
		return []*graph.Node{q, d}
	}
	return nil
}
