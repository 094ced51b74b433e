package mkl

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Views, which cost nothing.

func viewSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !place.IsView(n) {
		return nil, property.Because(property.Unsupported, "the second output of %v", n.Op)
	}
	if dtypeOf(n.Inputs[0].Type.DType) == 0 {
		return nil, property.Because(property.DTypeReason, "%v is %v", n.Inputs[0], n.Inputs[0].Type.DType)
	}
	if n.Inputs[0].Type.DType != tensor.Float32 {
		if !besideIntegers(n) {
			return nil, property.Because(property.DTypeReason, "a view of %v alone earns no group", n.Inputs[0].Type.DType)
		}
		return operators.RowMajor(n), nil
	}
	if n.Is("Identity", "Dropout") {
		return b.followSignatures(n, 1), nil
	}
	return operators.RowMajor(n), nil
}

func planView(p *planner, n *graph.Node) error {
	p.ViewOr(n.Outputs[0], n.Inputs[0], p.copyStep)
	return nil
}

// Moves: the library's reorder between row-major tensors with strides.

func moveSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if !operators.IsFloat32(x) && !(n.Is("Transpose") && besideIntegers(n)) {
		return nil, operators.NotFloat32(x)
	}
	if len(x.Type.Shape) == 0 || len(x.Type.Shape) > 6 {
		return nil, property.Because(property.ShapeReason, "rank %d", len(x.Type.Shape))
	}
	return operators.RowMajor(n), nil
}

func planTranspose(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.Dims[x.ID]
	perm := fuse.Perm(n, len(d))
	if perm == nil {
		return property.Because(property.Attribute, "perm of %v", n)
	}
	if operators.KeepsBytes(d, perm) {
		p.ViewOr(y, x, p.copyStep)
		return nil
	}
	s, _ := p.In(x).Strides(d, x.Type.DType.Size())
	strides := make([]int, len(d))
	for i, k := range perm {
		strides[i] = s[k]
	}
	dst := p.Out(y)
	to, _ := dst.Strides(p.Dims[y.ID], y.Type.DType.Size())
	return p.stridedOf(dtypeOf(x.Type.DType), p.Dims[y.ID], p.In(x), strides, dst, to)
}

// strided emits a copy of a float tensor of dims; nil strides are compact.
func (p *planner) strided(dims []int, src place.Memory, srcStrides []int, dst place.Memory, dstStrides []int) error {
	return p.stridedOf(dtypeF32, dims, src, srcStrides, dst, dstStrides)
}

// stridedOf is strided for elements of another type.
func (p *planner) stridedOf(dtype int32, dims []int, src place.Memory, srcStrides []int, dst place.Memory, dstStrides []int) error {
	from, to := shape{dims: dims, strides: srcStrides, dtype: dtype}, shape{dims: dims, strides: dstStrides, dtype: dtype}
	return p.reordered(from, to, src, dst)
}

func init() {
	for _, name := range place.Views {
		table.Register(name, operator{Signatures: viewSignatures, Settle: operators.View[*planner], Plan: planView, Strided: always})
	}
	table.Register("Transpose", operator{Signatures: moveSignatures, Settle: operators.Transpose[*planner], Plan: planTranspose, Strided: operators.WholeDims[*planner]})
}
