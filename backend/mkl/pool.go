package mkl

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// poolForm is a pooling in the library's terms.
type poolForm struct {
	alg    int
	window window
}

func resolvePool(n *graph.Node, x, y []int) (poolForm, *property.Reason) {
	f := poolForm{alg: poolMax}
	if len(x) < 3 || len(x) > 5 || len(y) != len(x) {
		return f, property.Because(property.ShapeReason, "one to three spatial dims, found %v", x)
	}
	spatial := x[2:]
	if n.Is("GlobalAveragePool", "GlobalMaxPool") {
		if n.Is("GlobalAveragePool") {
			f.alg = poolInside
		}
		ones, zeros := slices.Repeat([]int{1}, len(spatial)), make([]int, len(spatial))
		f.window = window{kernel: spatial, strides: ones, dilations: ones, padL: zeros, padR: zeros}
		return f, nil
	}
	kernel, err := intsOr(n, "kernel_shape", len(spatial), 0)
	if err != nil {
		return f, property.Because(property.Attribute, "%v", err)
	}
	if f.window, err = resolveWindow(n, spatial, kernel, y[2:], false); err != nil {
		return f, property.Because(property.Attribute, "%v", err)
	}
	w := f.window
	if n.Is("AveragePool") {
		f.alg = poolInside
		if n.Int("count_include_pad", 0) != 0 {
			f.alg = poolPadded
			pads, _ := intsOr(n, "pads", 2*len(spatial), 0)
			for i := range spatial {
				if n.Int("ceil_mode", 0) != 0 && w.padR[i] > pads[len(spatial)+i] {
					return f, property.Because(property.Attribute, "windows beyond the padding that is counted")
				}
			}
		}
	}
	for i := range spatial {
		if span := (kernel[i]-1)*w.dilations[i] + 1; w.padL[i] >= span || w.padR[i] >= span || w.padL[i] < 0 {
			return f, property.Because(property.Attribute, "padding %v, %v of a window of %v", w.padL, w.padR, kernel)
		}
		if w.dilations[i] != 1 && f.alg != poolMax {
			return f, property.Because(property.Attribute, "dilated average")
		}
	}
	return f, nil
}

func poolSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if !operators.IsFloat32(x) && !(isByte(x) && n.Is("MaxPool")) {
		return nil, operators.NotFloat32(x)
	}
	if len(n.Outputs) > 1 && n.Outputs[1] != nil {
		return nil, property.Because(property.Unsupported, "indices as an output")
	}
	if isByte(x) {
		return b.bytePoolSignatures(n)
	}
	dx, dy := operators.AssumedDims(x), operators.AssumedDims(n.Outputs[0])
	f, why := resolvePool(n, dx, dy)
	if why != nil {
		return nil, why
	}
	act := b.activations(len(dx))
	a := b.l.ask(b.answers, b.l.pooling(f.alg, f.window, in(act.Layout, dx), in(act.Layout, dy)))
	if (a.err != nil || slow(a.impl)) && act != graph.HostFormat {
		act = graph.HostFormat
		a = b.l.ask(b.answers, b.l.pooling(f.alg, f.window, in(act.Layout, dx), in(act.Layout, dy)))
	}
	if why := refused(a); why != nil {
		return nil, why
	}
	same := graph.UniformSignature(a.impl, n, act)
	if c, ok := operators.ConstDim(x, 1); ok && n.Is("GlobalAveragePool", "GlobalMaxPool") && act != graph.HostFormat && (b.block == 0 || c%b.block == 0) {
		flat := graph.UniformSignature(a.impl, n, act) // one pixel: the channels lie alike in both formats
		flat.Outputs[0] = graph.Fixed(graph.HostFormat)
		return []graph.Signature{same, flat}, nil
	}
	return []graph.Signature{same}, nil
}

// bytePoolSignatures: the largest integers, with the channels of a pixel together.
func (b *mkl) bytePoolSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, y := n.Inputs[0], n.Outputs[0]
	f, why := resolvePool(n, operators.AssumedDims(x), operators.AssumedDims(y))
	if why != nil {
		return nil, why
	}
	format := channelsLast(len(x.Type.Shape))
	src, dst := in(format.Layout, operators.AssumedDims(x)), in(format.Layout, operators.AssumedDims(y))
	src.dtype, dst.dtype = dtypeOf(x.Type.DType), dtypeOf(x.Type.DType)
	a := b.l.ask(b.answers, b.l.pooling(f.alg, f.window, src, dst))
	if why := refused(a); why != nil {
		return nil, why
	}
	return []graph.Signature{graph.UniformSignature(a.impl, n, format)}, nil
}

func planPool(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	f, why := resolvePool(n, p.Dims[x.ID], p.Dims[y.ID])
	if why != nil {
		return why
	}
	dst := p.shape(y)
	if dst.dtype == dtypeF32 && p.Bytes(y) == product(dst.dims)*4 && sameOrder(y.Format.Layout, x.Format.Layout, dst.dims) {
		dst = in(x.Format.Layout, dst.dims)
	}
	pr, err := p.make(p.l.pooling(f.alg, f.window, p.shape(x), dst))
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.In(x), pr.src, false}, arg{argDst, p.Out(y), pr.dst, true})
	return nil
}

func init() {
	for _, name := range []string{"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"} {
		table.Register(name, operator{Signatures: poolSignatures, Plan: planPool, Strided: byImages, Single: true})
	}
}
