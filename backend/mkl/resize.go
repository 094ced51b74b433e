package mkl

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// resizeAlg returns the library's algorithm for a Resize or Upsample of spatial dims, whose results agree with ONNX's: linear
// between the centres of pixels, and nearest by whole factors.
func resizeAlg(n *graph.Node, x, y []int) (alg int, why *property.Reason) {
	if len(x) < 3 || len(x) > 5 || len(y) != len(x) || x[0] != y[0] || x[1] != y[1] {
		return 0, property.Because(property.ShapeReason, "%v to %v", x, y)
	}
	mode := n.Str("mode", "nearest")
	coords := n.Str("coordinate_transformation_mode", "half_pixel")
	if n.Op.Since < 11 {
		coords = "asymmetric"
	}
	switch mode {
	case "linear":
		if coords != "half_pixel" || n.Int("antialias", 0) != 0 {
			return 0, property.Because(property.Attribute, "coordinates %q", coords)
		}
		return resampleLinear, nil
	case "nearest":
		floor := n.Str("nearest_mode", "round_prefer_floor")
		if n.Op.Since < 11 {
			floor = "floor"
		}
		same := coords == "asymmetric" && floor == "floor" || coords == "half_pixel" && (floor == "round_prefer_floor" || floor == "round_prefer_ceil")
		for i := 2; i < len(x); i++ {
			same = same && y[i]%x[i] == 0
		}
		if !same {
			return 0, property.Because(property.Attribute, "nearest %q of coordinates %q from %v to %v", floor, coords, x, y)
		}
		return resampleNearest, nil
	}
	return 0, property.Because(property.Attribute, "mode %q", mode)
}

func resizeSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if !operators.IsFloat32(x, n.Outputs[0]) {
		return nil, operators.NotFloat32(x)
	}
	if axes, ok := n.Ints("axes"); ok && len(axes) != len(x.Type.Shape) {
		for i, a := range axes {
			if int(a) != i+2 {
				return nil, property.Because(property.Attribute, "axes %v", axes)
			}
		}
	}
	if n.Str("keep_aspect_ratio_policy", "stretch") != "stretch" {
		return nil, property.Because(property.Attribute, "keep_aspect_ratio_policy")
	}
	for i := range x.Type.Shape { // the scale that the model gives has to be the ratio of the sizes
		if _, ok := operators.ConstDim(x, i); !ok && i > 1 {
			return nil, property.Because(property.DynamicShape, "spatial dims of %v", x.Type)
		}
	}
	dx, dy := operators.AssumedDims(x), operators.AssumedDims(n.Outputs[0])
	alg, why := resizeAlg(n, dx, dy)
	if why != nil {
		return nil, why
	}
	if why := exactScale(n, dx, dy); why != nil {
		return nil, why
	}
	for _, f := range []graph.Format{b.activations(len(dx)), graph.HostFormat} {
		a := b.l.ask(b.answers, b.l.resampling(alg, in(f.Layout, dx), in(f.Layout, dy)))
		if refused(a) == nil {
			s := graph.UniformSignature(a.impl, n, graph.HostFormat)
			s.Inputs[0], s.Outputs[0] = graph.Fixed(f), graph.Fixed(f)
			return []graph.Signature{s}, nil
		}
	}
	return nil, property.Because(property.Unsupported, "no fast implementation for %v to %v", dx, dy)
}

// exactScale turns down scales whose product with the size is no whole number: ONNX goes by the scale then.
func exactScale(n *graph.Node, x, y []int) *property.Reason {
	at := 2
	if n.Is("Upsample") || n.Op.Since < 11 {
		at = 1
	}
	v := n.Input(at)
	if v == nil || !fuse.IsConst(v) {
		if v == nil {
			return nil // by sizes
		}
		return property.Because(property.DynamicShape, "scales %v are not constant", v)
	}
	s := fuse.Floats(fuse.Behind(v).Const)
	if len(s) == 0 {
		return nil
	}
	off := len(x) - len(s)
	for i, f := range s {
		if float64(f)*float64(x[off+i]) != float64(y[off+i]) {
			return property.Because(property.Attribute, "scale %g of %d", f, x[off+i])
		}
	}
	return nil
}

func planResize(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	alg, why := resizeAlg(n, p.Dims[x.ID], p.Dims[y.ID])
	if why != nil {
		return why
	}
	pr, err := p.make(p.l.resampling(alg, p.shape(x), p.shape(y)))
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, p.In(x), pr.src, false}, arg{argDst, p.Out(y), pr.dst, true})
	return nil
}

func init() {
	table.Register("Resize", operator{Signatures: resizeSignatures, Plan: planResize, Strided: byImages, Single: true})
	table.Register("Upsample", operator{Signatures: resizeSignatures, Plan: planResize, Strided: byImages, Single: true})
}
