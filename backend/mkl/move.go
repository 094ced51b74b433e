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

func planTranspose(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.Dims[x.ID]
	perm := fuse.Perm(n, len(d))
	if perm == nil {
		return property.Because(property.Attribute, "perm of %v", n)
	}
	s, _ := p.In(x).Strides(d, x.Type.DType.Size())
	strides := make([]int, len(d))
	moved := -1 // the stored order of the dims that count
	alike := true
	for i, k := range perm {
		strides[i] = s[k]
		if d[k] != 1 {
			alike = alike && k > moved
			moved = k
		}
	}
	if alike {
		p.alias(y, x)
		return nil
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

// sliceForm are the first indexes and steps of a Slice.
func sliceSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	sigs, why := moveSignatures(b, n)
	if why != nil {
		return nil, why
	}
	if n.Op.Since < 10 {
		return nil, property.Because(property.Version, "version %d", n.Op.Since)
	}
	if _, ok := place.ChannelSlice(n); ok {
		if f := b.activations(4); f != graph.HostFormat && b.block > 0 {
			s := graph.UniformSignature("channels", n, graph.HostFormat)
			s.Inputs[0], s.Outputs[0] = graph.Fixed(f), graph.Fixed(f)
			sigs = append([]graph.Signature{s}, sigs...)
		}
	}
	for i, v := range n.Inputs[1:] {
		if v == nil {
			continue
		}
		if len(v.Dims) == 0 || len(v.Type.Shape) != 1 {
			return nil, property.Because(property.DynamicShape, "input %d, %v, is not known", i+1, v)
		}
	}
	return sigs, nil
}

func planSlice(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if x.Format != graph.HostFormat {
		start, ok := place.ChannelSlice(n)
		if !ok {
			return property.Because(property.Layout, "slice in %v", x.Format)
		}
		return p.takeChannels(x, y, start)
	}
	d := p.Dims[x.ID]
	var bounds [3][]int
	for i, k := range []int{1, 3, 4} {
		var err error
		if bounds[i], err = p.Ints(n.Input(k)); err != nil {
			return err
		}
	}
	starts, axes, steps := bounds[0], bounds[1], bounds[2]
	strides, _ := p.In(x).Strides(d, 4)
	off := 0
	from := append([]int(nil), strides...)
	for i, s := range starts {
		axis, step := i, 1
		if axes != nil {
			axis = axes[i]
		}
		if steps != nil {
			step = steps[i]
		}
		if axis < 0 {
			axis += len(d)
		}
		if axis < 0 || axis >= len(d) || step < 1 {
			return property.Because(property.Attribute, "axis %d, step %d", axis, step)
		}
		if s < 0 {
			s += d[axis]
		}
		off += min(max(s, 0), d[axis]) * strides[axis]
		from[axis] *= step
	}
	return p.window(x, y, off, from)
}

// window emits the copy of a part of x: its first element, and strides. Where the part is contiguous it is a view.
func (p *planner) window(x, y *graph.Value, off int, strides []int) error {
	dy := p.Dims[y.ID]
	m := p.In(x)
	compact := tensor.CompactStrides(dy)
	whole := true
	for i, n := range dy {
		whole = whole && (n == 1 || strides[i] == compact[i])
	}
	size := 4
	for i, n := range dy {
		size += 4 * (n - 1) * strides[i]
	}
	if whole && p.Want[y.ID].Slot < 0 && (m.Off+4*off)%64 == 0 {
		p.Put(y, m.Part(4*off, p.Bytes(y)))
		return nil
	}
	dst := p.Out(y)
	to, _ := dst.Strides(dy, 4)
	return p.strided(dy, m.Part(4*off, size), strides, dst, to)
}

func splitSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	sigs, why := moveSignatures(b, n)
	if why != nil {
		return nil, why
	}
	for _, o := range n.Outputs {
		if o == nil {
			return nil, property.Because(property.Unsupported, "an output that is left out")
		}
	}
	axis := int(n.Int("axis", 0))
	if rank := len(n.Inputs[0].Type.Shape); rank == 4 && (axis == 1 || axis == -3) && b.block > 0 {
		ok := true
		for _, v := range append([]*graph.Value{n.Inputs[0]}, n.Outputs...) {
			_, known := dimConst(v, 1)
			ok = ok && known
		}
		if f := b.activations(4); ok && f != graph.HostFormat {
			s := graph.UniformSignature("channels", n, f)
			for i := range n.Inputs[1:] {
				s.Inputs[i+1] = graph.Fixed(graph.HostFormat)
			}
			sigs = append([]graph.Signature{s}, sigs...)
		}
	}
	return sigs, nil
}

func planSplit(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	d := p.Dims[x.ID]
	axis := int(n.Int("axis", 0))
	if axis < 0 {
		axis += len(d)
	}
	if axis < 0 || axis >= len(d) {
		return property.Because(property.Attribute, "axis %d", axis)
	}
	strides, _ := p.In(x).Strides(d, 4)
	at := 0
	for _, y := range n.Outputs {
		var err error
		if x.Format != graph.HostFormat {
			err = p.takeChannels(x, y, at)
		} else {
			err = p.window(x, y, at*strides[axis], strides)
		}
		if err != nil {
			return err
		}
		at += p.Dims[y.ID][axis]
	}
	return nil
}

func init() {
	for _, name := range place.Views {
		register(name, operator{signatures: viewSignatures, plan: planView, apart: always})
	}
	register("Transpose", operator{signatures: moveSignatures, plan: planTranspose, apart: wholeDims})
	register("Slice", operator{signatures: sliceSignatures, plan: planSlice, apart: wholeDims})
	register("Split", operator{signatures: splitSignatures, plan: planSplit, apart: wholeDims})
}
