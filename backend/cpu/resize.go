package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// Resize and Upsample of images over height and width: nearest neighbours and bilinear, in the blocked layout, and for
// images of few channels, which it would pad, and to nearest neighbours, in the row-major one.

// fewChannels is the number of channels up to which images are resized in the row-major layout as well.
const fewChannels = 4

// resizing is how Resize maps positions.
type resizing struct {
	linear      bool
	coordinates conv.Coordinates
	rounding    conv.Rounding
	scales      [2]float64 // 0: the quotient of the sizes
	factors     []float64  // those of all axes, or none
}

var coordinateModes = map[string]conv.Coordinates{"half_pixel": conv.HalfPixel, "pytorch_half_pixel": conv.PytorchHalfPixel,
	"align_corners": conv.AlignCorners, "asymmetric": conv.Asymmetric, "tf_half_pixel_for_nn": conv.NearestHalfPixel}

var nearestModes = map[string]conv.Rounding{"round_prefer_floor": conv.RoundPreferFloor, "round_prefer_ceil": conv.RoundPreferCeil,
	"floor": conv.Floor, "ceil": conv.Ceil}

// resizingOf reads the attributes and constant scales of a Resize or Upsample.
func resizingOf(n *graph.Node) (r resizing, why *property.Reason) {
	no := func(format string, args ...any) (resizing, *property.Reason) {
		return resizing{}, property.Because(property.Attribute, format, args...)
	}
	switch mode := n.Str("mode", "nearest"); mode {
	case "nearest":
	case "linear", "bilinear":
		r.linear = true
	default:
		return no("mode %q", mode)
	}
	r.coordinates, r.rounding = conv.Asymmetric, conv.CeilIfSmaller // Upsample, and Resize of operator set 10
	scales := n.Input(1)
	if n.Is("Resize") && n.Op.Since >= 11 {
		var ok1, ok2 bool
		r.coordinates, ok1 = coordinateModes[n.Str("coordinate_transformation_mode", "half_pixel")]
		r.rounding, ok2 = nearestModes[n.Str("nearest_mode", "round_prefer_floor")]
		if !ok1 || !ok2 || n.Int("antialias", 0) != 0 || n.Str("keep_aspect_ratio_policy", "stretch") != "stretch" {
			return no("coordinates, rounding, antialias or aspect ratio of %v", n)
		}
		if axes, ok := n.Ints("axes"); ok && len(axes) > 0 {
			return no("axes %v", axes)
		}
		scales = n.Input(2)
		if n.Input(3) != nil { // sizes: the shape of the result tells them
			scales = nil
		}
	}
	factors := n.Floats("scales")
	if scales != nil {
		if !scales.IsConst() || scales.Const.DType != tensor.Float32 {
			return no("scales %v are not constant", scales)
		}
		var err error
		if factors, err = paddedFloats(scales.Const, scales.Const.Len()); err != nil {
			return no("%v", err)
		}
	}
	for _, f := range factors {
		r.factors = append(r.factors, float64(f))
	}
	if a := max(resizedAxis(n), 1); len(factors) == 4 {
		r.scales = [2]float64{float64(factors[a]), float64(factors[a+1])}
	}
	return r, nil
}

// resizedAxis returns the first of the two axes that a Resize of images changes at most: 2, 1 where channels lie last, or -1.
func resizedAxis(n *graph.Node) int {
	s, t := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	switch {
	case len(s) != 4 || len(t) != 4 || !s[0].Equal(t[0]):
		return -1
	case s[1].Equal(t[1]):
		return 2
	case s[3].Equal(t[3]):
		return 1
	}
	return -1
}

// resizeSignatures are those of the kernels of images, and of others the row-major one of planResample, planNearest or planResizeRegion.
func resizeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	s, why := resizeImageSignatures(n)
	if why == nil {
		return s, nil
	}
	if _, other := resamplingOf(n); other == nil {
		return operators.RowMajor(n), nil
	}
	if s, other := nearestSignatures(n); other == nil {
		return s, nil
	}
	if _, other := regionResizingOf(n); other == nil {
		return operators.RowMajor(n), nil
	}
	return nil, why
}

func resizeImageSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, y := n.Inputs[0], n.Outputs[0]
	a := resizedAxis(n)
	if a < 0 {
		return nil, property.Because(property.ShapeReason, "two axes of images only, %v becomes %v", x.Type, y.Type)
	}
	if !operators.IsFloat32(x) || a == 1 {
		return resizeElementSignatures(n)
	}
	r, why := resizingOf(n)
	if why != nil {
		return nil, why
	}
	s := graph.UniformSignature("nchw16c", n, rowMaj)
	s.Inputs[0], s.Outputs[0] = graph.Fixed(blocked), graph.Fixed(blocked)
	if c, ok := operators.ConstDim(x, 1); ok && c <= fewChannels || !r.linear {
		return []graph.Signature{s, graph.UniformSignature("row-major", n, rowMaj)}, nil
	}
	return []graph.Signature{s}, nil
}

func planResize(p *planner, n *graph.Node) error {
	if r, other := regionResizingOf(n); other == nil {
		return planResizeRegion(p, n, r)
	}
	r, other := resizingOf(n)
	if other == nil && !r.linear && n.Inputs[0].Format != blocked {
		return planNearest(p, n, r)
	}
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	planes := other == nil && r.linear && r.factors == nil && len(dx) == 4 && dx[0] == dy[0] && dx[1] == dy[1] // as is known now
	if _, why := resizeImageSignatures(n); why != nil && !(planes && operators.IsFloat32(n.Inputs[0])) {
		return planResample(p, n)
	} else if why == nil && (!operators.IsFloat32(n.Inputs[0]) || resizedAxis(n) == 1) {
		return planResizeElements(p, n)
	}
	var axes [2]conv.ResizeAxis
	for i := range axes {
		if r.linear {
			axes[i] = conv.LinearAxis(dx[2+i], dy[2+i], r.scales[i], r.coordinates)
		} else {
			axes[i] = conv.NearestAxis(dx[2+i], dy[2+i], r.scales[i], r.coordinates, r.rounding)
		}
	}
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	var plan mover
	var err error
	if n.Inputs[0].Format == blocked {
		plan, err = conv.NewResize(p.target, dx[0], dx[1], dx[2], dx[3], axes[0], axes[1], src.Pitch/4, dst.Pitch/4)
	} else {
		plan, err = conv.NewPlaneResize(dx[0], dx[1], dx[2], dx[3], axes[0], axes[1])
	}
	if err != nil {
		return err
	}
	p.runMover(plan, src, dst)
	return nil
}

func init() {
	table.Register("Resize", operator{Signatures: resizeSignatures, Plan: planResize, Strided: imagesStrided})
	table.Register("Upsample", operator{Signatures: resizeSignatures, Plan: planResize, Strided: imagesStrided})
}
