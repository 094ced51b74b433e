package mkl

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// quantizeSignatures: QuantizeLinear and DequantizeLinear are between the format of activations and that of images of
// integers, or row-major.
func quantizeSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	q, why := quantOf(n)
	if why != nil {
		return nil, why
	}
	x := n.Inputs[0]
	rank := len(x.Type.Shape)
	if rank == 0 || rank > 6 {
		return nil, property.Because(property.ShapeReason, "rank %d", rank)
	}
	r := b.requantize(q, isQuantize(n), product(operators.AssumedDims(x)))
	if why := refused(b.l.ask(b.answers, r)); why != nil {
		return nil, why
	}
	floats, bytes := b.activations(rank), channelsLast(rank)
	if floats == graph.HostFormat && bytes == graph.HostFormat {
		return operators.RowMajor(n), nil
	}
	in, out := []graph.Format{graph.HostFormat, floats}, []graph.Format{graph.HostFormat, bytes} // the order of rows, if nobody asks for another
	if isDequantize(n) {
		in, out = out, in
	}
	s := graph.UniformSignature("reorder", n, graph.HostFormat)
	s.Vars = [][]graph.Format{in, out}
	s.Inputs[0], s.Outputs[0] = graph.Variable(0), graph.Variable(1)
	return []graph.Signature{s}, nil
}

// onIntegers reports whether a node computes with eight-bit integers that stand for floats, or changes between the two.
func onIntegers(n *graph.Node) bool {
	if n.IsCarve(graph.OpFused) {
		return n.Str("pattern", "") == integerPattern || n.Str("pattern", "") == sumPattern
	}
	return isQuantize(n) || isDequantize(n) || n.Is("QLinearConv", "QLinearMatMul")
}

// besideIntegers reports whether a node that moves bytes stands between operators on quantised integers, with nothing but
// other moves before it: elsewhere a move of bytes earns no group.
func besideIntegers(n *graph.Node) bool {
	const far = 8
	for range far {
		x := n.Inputs[0]
		if !isByte(x) || x.Producer == nil {
			break
		}
		p := x.Producer
		if onIntegers(p) || p.Is("MaxPool") {
			return true
		}
		if !p.Is("Transpose") && !place.IsView(p) {
			break
		}
		n = p
	}
	return isByte(n.Inputs[0]) && slices.ContainsFunc(n.Outputs[0].Consumers(), onIntegers)
}

// shapeOf describes a value of these dims, in its own format.
func shapeOf(v *graph.Value, dims []int) shape {
	return shape{dims: dims, layout: v.Format.Layout, dtype: dtypeOf(v.Type.DType)}
}

// requantize is the change between floats and integers of n elements, to the integers or from them, in the order in which
// they lie. It never changes that order: the library's reorders between orders drop zero points for some shapes, such as
// those that vectors do not divide, and say nothing of it.
func (b *mkl) requantize(q quant, to bool, n int) recipe {
	floats, bytes := plain(n), plain(n)
	bytes.dtype = dtypeOf(q.dtype)
	if to {
		r := b.l.reorder(floats, bytes)
		r.scaled = scaling{of: argSrc, factors: numbers[float32](1), dst: int32(q.zero)}
		r.scaled.factors[0] = float32(1 / float64(q.scale))
		return r
	}
	r := b.l.reorder(bytes, floats)
	r.scaled = scaling{of: argSrc, factors: numbers[float32](1), src: int32(q.zero)}
	r.scaled.factors[0] = q.scale
	return r
}

// planQuantize changes numbers in the order of the integers, which have no padding, and moves floats from their order to
// that one, or back, where the two differ.
func planQuantize(p *planner, n *graph.Node) error {
	q, why := quantOf(n)
	if why != nil {
		return why
	}
	x, y := n.Inputs[0], n.Outputs[0]
	dims, src, dst := p.Dims[x.ID], p.In(x), p.Out(y)
	r := p.b.requantize(q, isQuantize(n), product(dims))
	pr, err := p.make(r)
	if err != nil {
		return err
	}
	args, err := p.scalingArgs(r.scaled)
	if err != nil {
		return err
	}
	change := func(src, dst place.Memory) {
		p.run(pr, append(args, arg{argSrc, src, pr.src, false}, arg{argDst, dst, pr.dst, true})...)
	}
	if sameOrder(x.Format.Layout, y.Format.Layout, dims) {
		change(src, dst)
		return nil
	}
	between := p.Temp(product(dims) * dtypeBytes(dtypeF32))
	if isQuantize(n) {
		if err := p.reordered(p.shape(x), in(y.Format.Layout, dims), src, between); err != nil {
			return err
		}
		change(between, dst)
		return nil
	}
	change(src, between)
	return p.reordered(in(x.Format.Layout, dims), p.shape(y), between, dst)
}

// qlinearJob is what QLinearConv and QLinearMatMul ask for: they say in their operands what chains say in nodes.
func qlinearJob(b *mkl, n *graph.Node) (*integerJob, *property.Reason) {
	x, w, y := n.Inputs[0], n.Inputs[3], n.Outputs[0]
	if !isByte(x) || !isByte(y) {
		return nil, property.Because(property.DTypeReason, "integers of eight bits only, found %v and %v", x.Type, y.Type)
	}
	j := &integerJob{n: n, x: x, w: w, out: y, conv: n.Is("QLinearConv")}
	var why *property.Reason
	if j.qx, why = quantFrom(x.Type.DType, n.Inputs[1], n.Inputs[2]); why != nil {
		return nil, why
	}
	if j.qy, why = quantFrom(y.Type.DType, n.Inputs[6], n.Inputs[7]); why != nil {
		return nil, why
	}
	axis := 1
	if j.conv {
		axis = 0
	}
	t, scale, zero := fuse.Behind(w), fuse.Behind(n.Inputs[4]), fuse.Behind(n.Inputs[5])
	if !fuse.IsTensorConst(t) || !fuse.IsTensorConst(scale) || !fuse.IsTensorConst(zero) || !j.conv && len(t.Const.Shape) != 2 {
		return nil, property.Because(property.Unsupported, "weights %v are not constant", w)
	}
	if j.weights = b.quants.WeightsOf(t.Const, scale.Const, zero.Const, axis); j.weights == nil {
		return nil, property.Because(property.Unsupported, "weights %v do not fit into signed integers about their zero point", w)
	}
	if why := b.inexact(j.qx.dtype, j.weights); why != nil {
		return nil, why
	}
	if bias := n.Input(8); bias != nil {
		c := fuse.Behind(bias)
		if !fuse.IsTensorConst(c) || c.Const.DType != tensor.Int32 || c.Const.Len() != len(j.weights.Scales) {
			return nil, property.Because(property.Unsupported, "bias %v is not constant", bias)
		}
		for i, s := range j.weights.Scales {
			j.bias = append(j.bias, float64(c.Const.Int64At(i))*float64(j.qx.scale)*float64(s))
		}
	}
	return j, nil
}

func qlinearSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	j, why := qlinearJob(b, n)
	if why != nil {
		return nil, why
	}
	if j.weights.Q != nil {
		return nil, property.Because(property.Unsupported, "weights %v have a zero point", j.w)
	}
	ports, why := b.integerPorts(j)
	if why != nil {
		return nil, why
	}
	s := graph.UniformSignature(ports.Name, n, graph.HostFormat)
	s.Inputs[0], s.Outputs[0] = ports.Inputs[0], ports.Outputs[0]
	return []graph.Signature{s}, nil
}

func planQLinear(p *planner, n *graph.Node) error {
	j, why := qlinearJob(p.b, n)
	if why != nil {
		return why
	}
	return p.integers(j, n.Inputs[0], n.Inputs[3], nil, n.Outputs[0])
}

func init() {
	table.Register("QuantizeLinear", operator{Signatures: quantizeSignatures, Plan: planQuantize})
	table.Register("DequantizeLinear", operator{Signatures: quantizeSignatures, Plan: planQuantize})
	table.Register("QLinearConv", operator{Signatures: qlinearSignatures, Plan: planQLinear})
	table.Register("QLinearMatMul", operator{Signatures: qlinearSignatures, Plan: planQLinear})
}
