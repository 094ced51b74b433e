package cpu

import (
	"math"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// RoiAlign of row-major images: the mean of a fixed number of bilinear samples per bin. Where the samples of a region lie is
// the same for all channels, so that it is computed once, before they are read.

func roiAlignSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, rois, batch := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	switch {
	case !is4D(x) || !operators.IsFloat32(rois):
		return nil, property.Because(property.DTypeReason, "float32 images and regions only, %v is %v, %v is %v", x, x.Type, rois, rois.Type)
	case batch.Type.DType != tensor.Int64:
		return nil, operators.NotFloat32(batch)
	case n.Str("mode", "avg") != "avg":
		return nil, property.Because(property.Attribute, "mode %q", n.Str("mode", "avg"))
	case n.Int("sampling_ratio", 0) < 1:
		return nil, property.Because(property.Attribute, "the number of samples depends on the regions")
	}
	for _, name := range []string{"sampling_ratio", "output_height", "output_width"} {
		if k := n.Int(name, 1); k < 1 || k > 1<<10 {
			return nil, property.Because(property.Attribute, "%s %d", name, k)
		}
	}
	return operators.RowMajor(n), nil
}

// regions is how a RoiAlign samples.
type regions struct {
	h, w, oh, ow, ratio int
	scale, shift        float64
	half                bool
}

// taps is how many elements of a plane a sample reads.
const taps = 4

func planRoiAlign(p *planner, n *graph.Node) error {
	dx := p.Dims[n.Inputs[0].ID]
	r := regions{h: dx[2], w: dx[3], oh: int(n.Int("output_height", 1)), ow: int(n.Int("output_width", 1)),
		ratio: int(n.Int("sampling_ratio", 1)), scale: float64(n.Float("spatial_scale", 1))}
	if r.h == 0 || r.w == 0 {
		return property.Because(property.ShapeReason, "nothing to sample in %v", dx)
	}
	if n.Op.Since >= 16 && n.Str("coordinate_transformation_mode", "half_pixel") == "half_pixel" {
		r.half, r.shift = true, 0.5
	}
	src, rois, batch, dst := p.In(n.Inputs[0]), p.In(n.Inputs[1]), p.In(n.Inputs[2]), p.Out(n.Outputs[0])
	count, images, channels, plane, bins := p.Dims[n.Inputs[2].ID][0], dx[0], dx[1], r.h*r.w, r.oh*r.ow
	samples := bins * r.ratio * r.ratio
	// Offsets of the taps, -1 for samples outside of the image, and their weights.
	offsets, weights := p.Temp(count*samples*taps*4), p.Temp(count*samples*taps*4)
	p.emit(step{chunks: count, grain: grainFor(float64(samples) * 20), body: func(st *state, _, lo, hi int) {
		boxes, off, weight := st.F32(rois), of[int32](st, offsets), st.F32(weights)
		for i := lo; i < hi; i++ {
			at := i * samples * taps
			r.sample(boxes[4*i:4*i+4], off[at:at+samples*taps], weight[at:at+samples*taps])
		}
	}}, []place.Memory{rois}, []place.Memory{offsets, weights})
	p.emit(step{chunks: count * channels, grain: grainFor(float64(samples) * 4), body: func(st *state, _, lo, hi int) {
		x, y, off, weight, image := st.F32(src), st.F32(dst), of[int32](st, offsets), st.F32(weights), of[int64](st, batch)
		for i := lo; i < hi; i++ {
			roi, c := i/channels, i%channels
			b := image[roi]
			if b < 0 || b >= int64(images) {
				panic(backend.OutOfRange(n, 2, b, 0, int64(images)-1))
			}
			at, from := roi*samples*taps, (int(b)*channels+c)*plane
			r.bins(y[i*bins:(i+1)*bins], x[from:from+plane], off[at:at+samples*taps], weight[at:at+samples*taps])
		}
	}}, []place.Memory{src, batch, offsets, weights}, []place.Memory{dst})
	return nil
}

// sample finds the taps of all samples of a region [x0, y0, x1, y1], bin by bin.
func (r *regions) sample(box []float32, off []int32, weight []float32) {
	x0, y0 := float64(box[0])*r.scale-r.shift, float64(box[1])*r.scale-r.shift
	rw, rh := float64(box[2])*r.scale-r.shift-x0, float64(box[3])*r.scale-r.shift-y0
	if !r.half {
		rw, rh = math.Max(rw, 1), math.Max(rh, 1)
	}
	bw, bh := rw/float64(r.ow), rh/float64(r.oh)
	k := 0
	for bin := range r.oh * r.ow {
		for iy := range r.ratio {
			y := y0 + float64(bin/r.ow)*bh + (float64(iy)+0.5)*bh/float64(r.ratio)
			for ix := range r.ratio {
				x := x0 + float64(bin%r.ow)*bw + (float64(ix)+0.5)*bw/float64(r.ratio)
				r.tap(y, x, off[k:k+taps], weight[k:k+taps])
				k += taps
			}
		}
	}
}

// tap finds the four elements that a sample at (y, x) lies between. Further than one pixel outside there are none; within
// that border the nearest pixels count.
func (r *regions) tap(y, x float64, off []int32, weight []float32) {
	if !(y >= -1 && y <= float64(r.h) && x >= -1 && x <= float64(r.w)) {
		off[0] = -1
		return
	}
	y, x = math.Max(y, 0), math.Max(x, 0)
	ya, xa := min(int(y), r.h-1), min(int(x), r.w-1)
	yb, xb := min(ya+1, r.h-1), min(xa+1, r.w-1)
	fy, fx := y-float64(ya), x-float64(xa)
	if ya == r.h-1 {
		fy = 0
	}
	if xa == r.w-1 {
		fx = 0
	}
	off[0], off[1], off[2], off[3] = int32(ya*r.w+xa), int32(ya*r.w+xb), int32(yb*r.w+xa), int32(yb*r.w+xb)
	weight[0], weight[1], weight[2], weight[3] = float32((1-fy)*(1-fx)), float32((1-fy)*fx), float32(fy*(1-fx)), float32(fy*fx)
}

// bins computes the bins of one channel.
func (r *regions) bins(out, plane []float32, off []int32, weight []float32) {
	each := r.ratio * r.ratio
	scale := 1 / float32(each)
	for i := range out {
		sum := float32(0)
		for range each {
			o, w := off[:taps:taps], weight[:taps:taps]
			off, weight = off[taps:], weight[taps:]
			if o[0] >= 0 {
				sum += plane[o[0]]*w[0] + plane[o[1]]*w[1] + plane[o[2]]*w[2] + plane[o[3]]*w[3]
			}
		}
		out[i] = sum * scale
	}
}

func init() {
	table.Register("RoiAlign", operator{Signatures: roiAlignSignatures, Plan: planRoiAlign})
}
