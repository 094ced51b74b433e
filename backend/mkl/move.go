package mkl

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
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
		return plainSignature(n), nil
	}
	if n.Is("Identity", "Dropout") {
		return b.followSignatures(n, 1), nil
	}
	return plainSignature(n), nil
}

func planView(p *planner, n *graph.Node) error {
	p.alias(n.Outputs[0], n.Inputs[0])
	return nil
}

// Moves: the library's reorder between row-major tensors with strides.

func moveSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if !isF32(x) && !(n.Is("Transpose") && besideIntegers(n)) {
		return nil, wrongDType(x)
	}
	if len(x.Type.Shape) == 0 || len(x.Type.Shape) > 6 {
		return nil, property.Because(property.ShapeReason, "rank %d", len(x.Type.Shape))
	}
	return plainSignature(n), nil
}

// keepsBytes reports whether a transposition moves dims of 1 only.
func keepsBytes(dims, perm []int) bool {
	seen := -1
	for _, k := range perm {
		if dims[k] == 1 {
			continue
		}
		if k < seen {
			return false
		}
		seen = k
	}
	return true
}

func settleTranspose(p *planner, n *graph.Node) {
	d := p.Dims[n.Inputs[0].ID]
	if perm := fuse.Perm(n, len(d)); perm != nil && keepsBytes(d, perm) {
		viewOfFirst(p, n)
	}
}

func planTranspose(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.Dims[x.ID]
	perm := fuse.Perm(n, len(d))
	if perm == nil {
		return property.Because(property.Attribute, "perm of %v", n)
	}
	if keepsBytes(d, perm) {
		p.alias(y, x)
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
		register(name, operator{signatures: viewSignatures, settle: viewOfFirst, plan: planView, apart: always})
	}
	register("Transpose", operator{signatures: moveSignatures, settle: settleTranspose, plan: planTranspose, apart: wholeDims})
}
