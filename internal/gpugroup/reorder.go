package gpugroup

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/lower"
)

// Reordered is a pair of layouts between which a tensor is reordered while it is copied between the host and a device, and cast
// where the device's keeps it as other elements.
type Reordered struct{ Host, Device graph.Layout }

// Reorders returns the pairs that are worth it for activations of a rank: the host's row-major order and blocks of channels, with
// channels last and row-major order on the device. Those that need no reorder are not among them.
func Reorders(rank int) []Reordered {
	last, ok := images(rank)
	if !ok {
		return nil
	}
	var list []Reordered
	for _, h := range hostLayouts(rank) {
		for _, d := range []graph.Layout{last, graph.RowMajor} {
			if h != d {
				list = append(list, Reordered{h, d})
			}
		}
	}
	return list
}

// hostLayouts are those in which activations of a rank lie on the host.
func hostLayouts(rank int) []graph.Layout {
	switch rank {
	case 3:
		return []graph.Layout{graph.RowMajor, layout("aBc16b"), layout("aBc8b")}
	case 4:
		return []graph.Layout{graph.RowMajor, graph.NCHW16c, graph.NCHW8c}
	}
	return []graph.Layout{graph.RowMajor}
}

// Casts returns the pairs of Reorders whose tensors are kept as elements of a type on the device, and beside them images with their
// channels last on the host as well. Of row-major order on both sides, for any rank, there is one pair for rank 0.
func Casts(rank int, t gpukernel.Type) []Reordered {
	if rank == 0 {
		return []Reordered{{graph.RowMajor, lower.KeptLayout(t, graph.RowMajor)}}
	}
	var list []Reordered
	for _, r := range Reorders(rank) {
		list = append(list, Reordered{r.Host, lower.KeptLayout(t, r.Device)})
	}
	if last, ok := images(rank); ok {
		list = append(list, Reordered{last, lower.KeptLayout(t, last)})
	}
	return list
}

// Lies returns the elements that a tensor of a type consists of in a layout, and their order.
func Lies(l graph.Layout, dt tensor.DType) (tensor.DType, graph.Layout) {
	switch t, order, ok := lower.KeptOf(l); {
	case !ok:
		return dt, l
	default:
		return floats[t], order
	}
}

// floats are the types of a tensor's elements by those of kernels.
var floats = map[gpukernel.Type]tensor.DType{gpukernel.F16: tensor.Float16, gpukernel.BF16: tensor.BFloat16, gpukernel.F32: tensor.Float32, gpukernel.F64: tensor.Float64}

// Reorder returns a kernel that reorders a tensor from the buffer "from" to the buffer "to", and casts its elements where one of the
// layouts keeps them as others. Padding of blocks is written as zeros. The error wraps gpukernel.ErrUnsupported where there is none,
// for tensors without elements for example.
func (d *Device) Reorder(from, to graph.Layout, dt tensor.DType, dims []int) (_ *gpukernel.Plan, err error) {
	defer guard(&err)
	source, from := Lies(from, dt)
	target, to := Lies(to, dt)
	t, ok := lower.Bits(source)
	u := t
	if source != target {
		var known bool
		t, ok = lower.Element(source)
		u, known = lower.Element(target)
		ok = ok && known
	}
	if !ok {
		return nil, fmt.Errorf("%w: a reorder of %v", gpukernel.ErrUnsupported, dt)
	}
	if from == to && !from.IsBlocked() {
		n, err := tensor.NumElements(dims)
		if err != nil {
			return nil, err
		}
		from, to, dims = graph.RowMajor, graph.RowMajor, []int{n}
	}
	src, err := from.Describe(len(dims))
	if err != nil {
		return nil, err
	}
	dst, err := to.Describe(len(dims))
	if err != nil {
		return nil, err
	}
	var p gpukernel.Program
	p.Output(lieAs(&p, p.Cast(liesAs(&p, t, src, dims), u), dst), "to")
	return gpukernel.Render("reorder", d.Kernels, &p)
}

// blocked returns the extents of a tensor in a layout: outer dims in order, then blocks; and for each dim of the tensor the axes
// that it is split into, outermost first.
func blocked(l graph.Dims, dims []int) (extents []int, parts [][]int, padded []int) {
	parts, padded = make([][]int, len(dims)), slices.Clone(dims)
	step := slices.Repeat([]int{1}, len(dims))
	for _, b := range l.Blocks {
		step[b.Dim] *= b.Size
	}
	for _, dim := range l.Order {
		n := (dims[dim] + step[dim] - 1) / step[dim]
		parts[dim] = append(parts[dim], len(extents))
		extents = append(extents, n)
		padded[dim] = n * step[dim]
	}
	for _, b := range l.Blocks {
		parts[b.Dim] = append(parts[b.Dim], len(extents))
		extents = append(extents, b.Size)
	}
	return extents, parts, padded
}

// liesAs returns the tensor that lies in the buffer "from".
func liesAs(p *gpukernel.Program, t gpukernel.Type, l graph.Dims, dims []int) gpukernel.Value {
	extents, parts, padded := blocked(l, dims)
	x := p.Transpose(p.Input("from", t, extents...), slices.Concat(parts...)...)
	x = p.Reshape(x, padded...)
	if slices.Equal(padded, dims) {
		return x
	}
	return p.Slice(x, dims, make([]int, len(dims)), slices.Repeat([]int{1}, len(dims)))
}

// lieAs returns x as it lies in a layout.
func lieAs(p *gpukernel.Program, x gpukernel.Value, l graph.Dims) gpukernel.Value {
	dims := p.Shape(x)
	extents, parts, padded := blocked(l, dims)
	after := make([]int, len(dims))
	for i := range dims {
		after[i] = padded[i] - dims[i]
	}
	if slices.Max(after) > 0 {
		x = p.Pad(x, p.Constant(p.Type(x), "0"), make([]int, len(dims)), after)
	}
	order := slices.Concat(parts...)
	split, back := make([]int, len(order)), make([]int, len(order))
	for i, axis := range order {
		split[i], back[axis] = extents[axis], i
	}
	return p.Transpose(p.Reshape(x, split...), back...)
}
