package cpu

import (
	"math"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// MaxRoiPool: the greatest pixels of the bins that regions of an image are divided into. Which pixels a bin has is the same for all channels.

func maxRoiSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, rois := n.Inputs[0], n.Inputs[1]
	if !is4D(x) || !operators.IsFloat32(rois) || len(rois.Type.Shape) != 2 {
		return nil, property.Because(property.DTypeReason, "float32 images and regions only, %v is %v, %v is %v", x, x.Type, rois, rois.Type)
	}
	if size, ok := n.Ints("pooled_shape"); !ok || len(size) != 2 || min(size[0], size[1]) < 1 || max(size[0], size[1]) > 1<<10 {
		return nil, property.Because(property.Attribute, "pooled_shape %v", size)
	}
	return operators.RowMajor(n), nil
}

// roiBins are the bins of regions: for each region the rows of each row of bins, from and to, and the columns of each of their columns.
type roiBins struct {
	n                *graph.Node
	images, h, w     int
	oh, ow           int
	scale            float64
	rois, dst, bins  place.Memory
	src              place.Memory
	channels, region int // numbers of a region's bins
}

func planMaxRoiPool(p *planner, n *graph.Node) error {
	dx, dr := p.Dims[n.Inputs[0].ID], p.Dims[n.Inputs[1].ID]
	size, _ := n.Ints("pooled_shape")
	if dr[1] != 5 {
		return property.Because(property.ShapeReason, "regions of %d numbers", dr[1])
	}
	b := &roiBins{n: n, images: dx[0], channels: dx[1], h: dx[2], w: dx[3], oh: int(size[0]), ow: int(size[1]), scale: float64(n.Float("spatial_scale", 1)),
		src: p.In(n.Inputs[0]), rois: p.In(n.Inputs[1]), dst: p.Out(n.Outputs[0])}
	b.region = 1 + 2*(b.oh+b.ow)
	b.bins = p.Temp(4 * dr[0] * b.region)
	p.emit(step{serial: func(st *state) {
		rois, bins := st.F32(b.rois), of[int32](st, b.bins)
		for r := range dr[0] {
			b.locate(rois[5*r:][:5], bins[r*b.region:][:b.region])
		}
	}}, []place.Memory{b.rois}, []place.Memory{b.bins})
	kernels, room := p.kernels, p.scratch(4*b.w)
	p.emit(step{chunks: dr[0] * b.channels, grain: grainFor(float64(4 * b.oh * b.ow)), body: func(st *state, worker, lo, hi int) {
		x, y, bins := st.F32(b.src), st.F32(b.dst), of[int32](st, b.bins)
		plane, out := b.h*b.w, b.oh*b.ow
		for i := lo; i < hi; i++ {
			region := bins[i/b.channels*b.region:][:b.region]
			b.pool(kernels, y[i*out:][:out], x[(int(region[0])*b.channels+i%b.channels)*plane:][:plane], room.floats(st, worker)[:b.w], region[1:])
		}
	}}, []place.Memory{b.src, b.bins}, []place.Memory{b.dst, room.at})
	return nil
}

// locate finds the image and the bins of a region [image, x0, y0, x1, y1].
func (b *roiBins) locate(roi []float32, bins []int32) {
	image := float64(roi[0])
	if !(image >= 0 && image < float64(b.images)) {
		panic(backend.OutOfRange(b.n, 1, int64(image), 0, int64(b.images)-1))
	}
	bins[0] = int32(image)
	rows, columns := bins[1:][:2*b.oh], bins[1+2*b.oh:]
	span(rows, math.Round(float64(roi[2])*b.scale), math.Round(float64(roi[4])*b.scale), b.h)
	span(columns, math.Round(float64(roi[1])*b.scale), math.Round(float64(roi[3])*b.scale), b.w)
}

// span divides what lies between two pixels, both included, into bins of an axis of so many pixels: from and to for each.
func span(bins []int32, first, last float64, pixels int) {
	count := float64(len(bins) / 2)
	size := math.Max(last-first+1, 1)
	within := func(v float64) int32 {
		if !(v > 0) { // NaN too: a bin of no pixels
			return 0
		}
		return int32(math.Min(v, float64(pixels)))
	}
	for i := range len(bins) / 2 {
		at := float64(i)
		bins[2*i], bins[2*i+1] = within(math.Floor(at*size/count)+first), within(math.Ceil((at+1)*size/count)+first)
	}
}

// pool writes the bins of a channel; those without pixels are 0. most has room for a row of pixels: the greatest of a row of bins, column by
// column, of which those of each bin are looked at then.
func (b *roiBins) pool(k vec.Kernels, out, plane, most []float32, bins []int32) {
	rows, columns := bins[:2*b.oh], bins[2*b.oh:]
	first, end := int(columns[0]), int(columns[2*b.ow-1])
	for y := range b.oh {
		from, to := int(rows[2*y]), int(rows[2*y+1])
		row := out[y*b.ow:][:b.ow]
		if from >= to || first >= end {
			clear(row)
			continue
		}
		wide := plane[from*b.w+first : from*b.w+end]
		for ; from+1 < to; from++ {
			k.Binary(vec.Max, most[:end-first], wide, plane[(from+1)*b.w+first:(from+1)*b.w+end])
			wide = most[:end-first]
		}
		for x := range row {
			left, right := int(columns[2*x])-first, int(columns[2*x+1])-first
			if left >= right {
				row[x] = 0
				continue
			}
			best := wide[left]
			for _, v := range wide[left+1 : right] {
				best = max(best, v)
			}
			row[x] = best
		}
	}
}

func init() {
	table.Register("MaxRoiPool", operator{Signatures: maxRoiSignatures, Plan: planMaxRoiPool})
}
