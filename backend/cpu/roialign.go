package cpu

import (
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// RoiAlign of blocked images: the mean of a fixed number of bilinear samples per bin. Where the samples of a region lie is the same for
// all channels, so that it is computed once, before they are read. Maxima stand in roimax.go, means of as many samples as a bin has pixels in
// roiadaptive.go.

func roiAlignSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, rois := n.Inputs[0], n.Inputs[1]
	switch {
	case !is4D(x) || !operators.IsFloat32(rois):
		return nil, property.Because(property.DTypeReason, "float32 images and regions only, %v is %v, %v is %v", x, x.Type, rois, rois.Type)
	case n.Str("mode", "avg") != "avg" && !roiMaximum(n):
		return nil, property.Because(property.Attribute, "mode %q", n.Str("mode", "avg"))
	}
	rowMajor, why := roiAlignNumbers(n, n.Inputs[2])
	if why != nil || n.Int("sampling_ratio", 0) < 1 && !roiMaximum(n) {
		return rowMajor, why
	}
	s := graph.UniformSignature("nchw16c", n, rowMaj)
	s.Inputs[0], s.Outputs[0] = graph.Fixed(blocked), graph.Fixed(blocked)
	rows := graph.UniformSignature("nchw16c-rows", n, rowMaj)
	rows.Inputs[0] = graph.Fixed(blocked)
	return []graph.Signature{s, rows}, nil
}

// doubleRoiAlignSignatures are those of float64.
func doubleRoiAlignSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, batch := n.Inputs[0], n.Inputs[2]
	switch {
	case len(x.Type.Shape) != 4:
		return nil, property.Because(property.ShapeReason, "two-dimensional images only, %v is %v", x, x.Type)
	case n.Str("mode", "avg") != "avg" && !roiMaximum(n):
		return nil, property.Because(property.Attribute, "mode %q", n.Str("mode", "avg"))
	}
	return roiAlignNumbers(n, batch)
}

// roiAlignNumbers refuses attributes out of bounds, and numbers of images that are no int64.
func roiAlignNumbers(n *graph.Node, batch *graph.Value) ([]graph.Signature, *property.Reason) {
	if batch.Type.DType != tensor.Int64 {
		return nil, operators.NotFloat32(batch)
	}
	for _, name := range []string{"output_height", "output_width", "sampling_ratio"} {
		if k := n.Int(name, 1); k < 1 && name != "sampling_ratio" || k > 1<<10 {
			return nil, property.Because(property.Attribute, "%s %d", name, k)
		}
	}
	return operators.RowMajor(n), nil
}

// regionTables are where the tables of regions lie in memory: numbers of positions, and weights.
type regionTables struct {
	height, width  int // positions of an axis
	ints, floats   place.Memory
	count, weights int // of a region's ints and floats
}

// of returns the tables of a region.
func (t *regionTables) of(st *state, region int) (y, x conv.RegionAxis) {
	ints, floats := of[int32](st, t.ints)[region*t.count:][:t.count], st.F32(t.floats)[region*t.weights:][:t.weights]
	y = conv.RegionAxis{From: int(ints[0]), To: int(ints[1]), At: ints[4:][:2*t.height], Weight: floats[:t.height]}
	x = conv.RegionAxis{From: int(ints[2]), To: int(ints[3]), At: ints[4+2*t.height:], Weight: floats[t.height:]}
	return y, x
}

// roiMaximum reports whether a bin is the largest of its weighted pixels.
func roiMaximum(n *graph.Node) bool { return n.Str("mode", "avg") == "max" }

// roiHalfPixel reports whether corners of regions are half a pixel off.
func roiHalfPixel(n *graph.Node) bool {
	return n.Op.Since >= 16 && n.Str("coordinate_transformation_mode", "half_pixel") == "half_pixel"
}

// roiShapes refuses regions, images and numbers of images of unexpected ranks.
func roiShapes(p *planner, n *graph.Node) error {
	if dx, boxes, of := p.Dims[n.Inputs[0].ID], p.Dims[n.Inputs[1].ID], p.Dims[n.Inputs[2].ID]; len(dx) != 4 || len(boxes) != 2 || len(of) != 1 {
		return property.Because(property.ShapeReason, "regions %v of images %v with indices %v", boxes, dx, of)
	}
	return nil
}

func planDoubleRoiAlign(p *planner, n *graph.Node) error {
	if err := roiShapes(p, n); err != nil {
		return err
	}
	if roiMaximum(n) {
		return planRoiMaxPlanes(p, n)
	}
	return planRoiAdaptive(p, n, p.doubles().MulAdd)
}

func planRoiAlign(p *planner, n *graph.Node) error {
	if err := roiShapes(p, n); err != nil {
		return err
	}
	if roiMaximum(n) {
		return planRoiMax(p, n)
	}
	if n.Int("sampling_ratio", 0) < 1 {
		return planRoiAdaptive(p, n, addScaled)
	}
	dx := p.Dims[n.Inputs[0].ID]
	spec := conv.RegionSpec{H: dx[2], W: dx[3], OH: int(n.Int("output_height", 1)), OW: int(n.Int("output_width", 1)),
		Ratio: int(n.Int("sampling_ratio", 1)), Scale: float64(n.Float("spatial_scale", 1)),
		HalfPixel: roiHalfPixel(n)}
	r, err := conv.NewRegions(p.target, spec)
	if err != nil {
		return property.Because(property.ShapeReason, "%v", err)
	}
	src, rois, batch, dst := p.In(n.Inputs[0]), p.In(n.Inputs[1]), p.In(n.Inputs[2]), p.Out(n.Outputs[0])
	count, images, channels, plane := p.Dims[n.Inputs[2].ID][0], dx[0], dx[1], spec.H*spec.W
	t := &regionTables{}
	t.height, t.width = r.Positions()
	t.count, t.weights = 4+2*(t.height+t.width), t.height+t.width
	t.ints, t.floats = p.Temp(4*count*t.count), p.Temp(4*count*t.weights)
	p.emit(step{chunks: count, grain: grainFor(float64(t.weights) * 10), body: func(st *state, _, lo, hi int) {
		boxes := st.F32(rois)
		for i := lo; i < hi; i++ {
			y, x := t.of(st, i)
			r.Locate(boxes[4*i:4*i+4], &y, &x)
			from := of[int32](st, t.ints)[i*t.count:]
			from[0], from[1], from[2], from[3] = int32(y.From), int32(y.To), int32(x.From), int32(x.To)
		}
	}}, []place.Memory{rois}, []place.Memory{t.ints, t.floats})
	blocks, bins, each := ceilDiv(channels, 16), r.Bins(), r.Scratch()
	inBlocks := n.Outputs[0].Format == blocked
	work := each + 16*bins
	scratch := p.Temp(4 * work * p.e.threads)
	p.emit(step{work: 1, chunks: count * blocks, grain: grainFor(float64(t.height*t.width) * 6), body: func(st *state, worker, lo, hi int) {
		from, y, image := st.F32(src), st.F32(dst), of[int64](st, batch)
		room := st.F32(scratch)[worker*work:][:work]
		for i := lo; i < hi; i++ {
			region, block := i/blocks, i%blocks
			b := image[region]
			if b < 0 || b >= int64(images) {
				panic(backend.OutOfRange(n, 2, b, 0, int64(images)-1))
			}
			rows, columns := t.of(st, region)
			out := room[each:]
			if inBlocks {
				out = y[16*i*bins:][:16*bins]
			}
			r.Sample(out, from[(int(b)*blocks+block)*16*plane:][:16*plane], &rows, &columns, room[:each])
			if !inBlocks {
				first := 16 * block
				planes(y[(region*channels+first)*bins:], out, bins, min(16, channels-first))
			}
		}
	}}, []place.Memory{src, batch, t.ints, t.floats, scratch}, []place.Memory{dst, scratch})
	return nil
}

// planes writes the first channels of a block [pixels][16] as planes.
func planes(dst, block []float32, pixels, channels int) {
	for c := range channels {
		plane := dst[c*pixels:][:pixels]
		for i := range plane {
			plane[i] = block[16*i+c]
		}
	}
}

func init() {
	table.Register("RoiAlign", operator{Signatures: roiAlignSignatures, Plan: planRoiAlign})
	registerDoubles(operator{Signatures: doubleRoiAlignSignatures, Plan: planDoubleRoiAlign}, 2, "RoiAlign")
}
