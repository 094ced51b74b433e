package cpu

import (
	"math"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
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
	p.emit(step{chunks: dr[0] * b.channels, grain: grainFor(float64(4 * b.oh * b.ow)), body: func(st *state, _, lo, hi int) {
		x, y, bins := st.F32(b.src), st.F32(b.dst), of[int32](st, b.bins)
		plane, out := b.h*b.w, b.oh*b.ow
		for i := lo; i < hi; i++ {
			region := bins[i/b.channels*b.region:][:b.region]
			b.pool(y[i*out:][:out], x[(int(region[0])*b.channels+i%b.channels)*plane:][:plane], region[1:])
		}
	}}, []place.Memory{b.src, b.bins}, []place.Memory{b.dst})
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

// pool writes the bins of a channel; those without pixels are 0.
func (b *roiBins) pool(out, plane []float32, bins []int32) {
	rows, columns := bins[:2*b.oh], bins[2*b.oh:]
	for y := range b.oh {
		from, to := int(rows[2*y]), int(rows[2*y+1])
		for x := range b.ow {
			left, right := int(columns[2*x]), int(columns[2*x+1])
			best := -inf
			if from >= to || left >= right {
				best = 0
			}
			for row := from; row < to && left < right; row++ {
				for _, v := range plane[row*b.w+left : row*b.w+right] {
					best = max(best, v)
				}
			}
			out[y*b.ow+x] = best
		}
	}
}

func init() {
	table.Register("MaxRoiPool", operator{Signatures: maxRoiSignatures, Plan: planMaxRoiPool})
}
