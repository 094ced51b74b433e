package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// EyeLike: a matrix of zeros with ones on a diagonal. Of the operand the shape alone is read.

func eyeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if len(n.Inputs[0].Type.Shape) != 2 {
		return nil, property.Because(property.ShapeReason, "%v is no matrix", n.Inputs[0])
	}
	if _, err := unitOf(n.Outputs[0].Type.DType); err != nil {
		return nil, property.Because(property.DTypeReason, "%v is %v", n.Outputs[0], n.Outputs[0].Type.DType)
	}
	return operators.RowMajor(n), nil
}

// unitOf returns the bytes of 1.
func unitOf(dt tensor.DType) ([]byte, error) {
	t, err := tensor.New(dt)
	if err == nil {
		err = tensor.Encode(t, []float64{1})
	}
	if err != nil {
		return nil, err
	}
	return t.Bytes(), nil
}

func planEye(p *planner, n *graph.Node) error {
	d := p.Dims[n.Outputs[0].ID]
	one, err := unitOf(n.Outputs[0].Type.DType)
	if err != nil {
		return err
	}
	dst, diagonal, columns := p.Out(n.Outputs[0]), n.Int("k", 0), int64(d[1])
	row := d[1] * len(one)
	p.emit(step{chunks: d[0], grain: grainFor(float64(row)/32 + 5), body: func(st *state, _, lo, hi int) {
		y := st.Bytes(dst)[:d[0]*row]
		clear(y[lo*row : hi*row])
		for i := lo; i < hi; i++ {
			if diagonal > -int64(d[0]) && diagonal < columns {
				if at := int64(i) + diagonal; at >= 0 && at < columns {
					copy(y[i*row+int(at)*len(one):], one)
				}
			}
		}
	}}, nil, []place.Memory{dst})
	return nil
}

func init() { table.Register("EyeLike", operator{Signatures: eyeSignatures, Plan: planEye}) }
