package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// ConstantOfShape: one element, repeated. The shape is known when the instance is made, so the operand is not read.

func fillSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if v := n.TensorAttr("value"); v != nil && (v.Check() != nil || v.Len() != 1 || len(v.Bytes()) == 0) {
		return nil, property.Because(property.Attribute, "the value is no single element: %v", v)
	}
	return operators.RowMajor(n), nil
}

// fillUnit returns the bytes of the element.
func fillUnit(n *graph.Node) []byte {
	unit := make([]byte, n.Outputs[0].Type.DType.Size())
	if v := n.TensorAttr("value"); v != nil {
		copy(unit, v.Bytes())
	} // zero bits are the zero of every dtype
	return unit
}

// repeat fills d with copies of unit, which is not empty.
func repeat(d, unit []byte) {
	for k := copy(d, unit); k < len(d); k *= 2 {
		copy(d[k:], d[:k])
	}
}

// fill emits a filling with an element.
func (p *planner) fill(element, dst place.Memory) {
	const part = 1 << 15
	p.emit(step{chunks: ceilDiv(dst.Size, part), grain: 1, body: func(st *state, _, lo, hi int) {
		d := st.Bytes(dst)
		repeat(d[lo*part:min(hi*part, len(d))], st.Bytes(element)) // part is a multiple of every size
	}}, []place.Memory{element}, []place.Memory{dst})
}

func planFill(p *planner, n *graph.Node) error {
	p.fill(p.Own(fillUnit(n)), p.Out(n.Outputs[0]))
	return nil
}

func init() { table.Register("ConstantOfShape", operator{Signatures: fillSignatures, Plan: planFill}) }
