package cpu

import (
	"errors"
	"math"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// RoiAlign whose bins have as many samples as they have pixels, which the regions tell. The mean of bilinear samples on a grid is a sum over pixels
// whose weights are products of one for the row and one for the column: for each axis of a region the weights of each bin's pixels are summed up
// once, before the channels are read. Images are row-major.

// adaptive are such regions. The tables of a region's axis are, for each bin, its first pixel, how many it has and where their weights begin, and
// the weights.
type adaptive struct {
	regionGrid
	n                   *graph.Node
	images, channels    int
	rois, batch, image  place.Memory
	dst, spans, weights place.Memory
	room                scratch
}

// regionGrid is how the bins of regions lie in images, and the samples in bins.
type regionGrid struct {
	size, bins   [2]int // of the height and the width
	ratio        int    // samples of a bin along an axis, 0 for as many as it has pixels
	scale, shift float64
}

// gridOf returns the grid of a node whose images have that size.
func gridOf(n *graph.Node, size [2]int) regionGrid {
	g := regionGrid{size: size, bins: [2]int{int(n.Int("output_height", 1)), int(n.Int("output_width", 1))},
		ratio: int(max(n.Int("sampling_ratio", 0), 0)), scale: float64(n.Float("spatial_scale", 1))}
	if roiHalfPixel(n) {
		g.shift = 0.5
	}
	return g
}

// along returns where the bins of a region [x0, y0, x1, y1] begin along an axis, how long a bin is, and how many samples it has.
func (g *regionGrid) along(roi []float32, axis int) (begin, bin float64, samples int) {
	begin = float64(roi[1-axis])*g.scale - g.shift
	length := float64(roi[3-axis])*g.scale - g.shift - begin
	if g.shift == 0 {
		length = math.Max(length, 1)
	}
	bin = length / float64(g.bins[axis])
	switch {
	case g.ratio > 0:
		samples = g.ratio
	case bin > 0:
		samples = int(math.Min(math.Ceil(bin), mostSamples+1))
	}
	return begin, bin, samples
}

// sampleAt returns the two pixels that a position lies between and the second's weight; ok is false more than a pixel outside.
func sampleAt(p float64, size int) (low, high int, part float64, ok bool) {
	if !(p >= -1 && p <= float64(size)) {
		return 0, 0, 0, false
	}
	p = math.Max(p, 0)
	low = min(int(p), size-1)
	if high = min(low+1, size-1); high > low {
		part = p - float64(low)
	}
	return low, high, part, true
}

// entries bounds the weights of an axis: bins follow each other, so that two of them share two pixels at most.
func (a *adaptive) entries(axis int) int { return a.size[axis] + 3*a.bins[axis] }

// mostSamples is how many samples of a bin along an axis the reference kernels take.
const mostSamples = 1 << 14

// errManySamples is what regions of more fail with. The run is done again by package reference, which says which region it is.
var errManySamples = errors.New("too many samples")

func planRoiAdaptive(p *planner, n *graph.Node) error {
	dx, count := p.Dims[n.Inputs[0].ID], p.Dims[n.Inputs[2].ID][0]
	a := &adaptive{regionGrid: gridOf(n, [2]int{dx[2], dx[3]}), n: n, images: dx[0], channels: dx[1], image: p.In(n.Inputs[0]), rois: p.In(n.Inputs[1]), batch: p.In(n.Inputs[2]), dst: p.Out(n.Outputs[0])}
	if min(dx[2], dx[3]) < 1 || !sameDims(p.Dims[n.Inputs[1].ID], []int{count, 4}) {
		return property.Because(property.ShapeReason, "%d regions %v of images %v", count, p.Dims[n.Inputs[1].ID], dx)
	}
	p.mayFail = true
	a.spans, a.weights = p.Temp(4*3*count*(a.bins[0]+a.bins[1])), p.Temp(4*count*(a.entries(0)+a.entries(1)))
	a.room = p.scratch(4 * dx[3])
	p.emit(step{chunks: count, grain: grainFor(1000), body: func(st *state, _, lo, hi int) {
		for i := lo; i < hi; i++ {
			for axis := range 2 {
				a.locate(st, i, axis)
			}
		}
	}}, []place.Memory{a.rois}, []place.Memory{a.spans, a.weights})
	grain := grainFor(float64(a.size[0]*a.size[1]) / 2)
	p.emit(step{work: 1, chunks: count * a.channels, grain: grain, body: func(st *state, worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			a.sample(st, worker, i/a.channels, i%a.channels)
		}
	}}, []place.Memory{a.image, a.batch, a.spans, a.weights}, []place.Memory{a.dst, a.room.at})
	return nil
}

// table returns the tables of a region's axis.
func (a *adaptive) table(st *state, region, axis int) (spans []int32, weights []float32) {
	before := [2]int{0, a.bins[0]}[axis]
	spans = of[int32](st, a.spans)[3*(region*(a.bins[0]+a.bins[1])+before):][:3*a.bins[axis]]
	first := [2]int{0, a.entries(0)}[axis]
	weights = st.F32(a.weights)[region*(a.entries(0)+a.entries(1))+first:][:a.entries(axis)]
	return spans, weights
}

// locate makes the tables of a region [x0, y0, x1, y1] for an axis.
func (a *adaptive) locate(st *state, region, axis int) {
	roi := st.F32(a.rois)[4*region:][:4]
	begin, bin, samples := a.along(roi, axis)
	if samples > mostSamples {
		st.fail(errManySamples)
		samples = 0
	}
	spans, weights := a.table(st, region, axis)
	at := 0
	for b := range a.bins[axis] {
		first, end := 0, 0
		for k := range samples {
			p := begin + float64(b)*bin + (float64(k)+0.5)*bin/float64(samples)
			low, high, part, ok := sampleAt(p, a.size[axis])
			if !ok {
				continue
			}
			if end == 0 {
				first = low
			}
			for ; end < high+1-first; end++ {
				weights[at+end] = 0
			}
			weights[at+low-first] += float32((1 - part) / float64(samples))
			weights[at+high-first] += float32(part / float64(samples))
		}
		spans[3*b], spans[3*b+1], spans[3*b+2] = int32(first), int32(end), int32(at)
		at += end
	}
}

// sample writes the bins of a channel of a region.
func (a *adaptive) sample(st *state, worker, region, channel int) {
	image := of[int64](st, a.batch)[region]
	if image < 0 || image >= int64(a.images) {
		panic(backend.OutOfRange(a.n, 2, image, 0, int64(a.images)-1))
	}
	h, w := a.size[0], a.size[1]
	plane := st.F32(a.image)[(int(image)*a.channels+channel)*h*w:][:h*w]
	out := st.F32(a.dst)[(region*a.channels+channel)*a.bins[0]*a.bins[1]:][:a.bins[0]*a.bins[1]]
	rows, rowWeights := a.table(st, region, 0)
	columns, columnWeights := a.table(st, region, 1)
	left, right := w, 0 // of all bins
	for b := range a.bins[1] {
		if n := int(columns[3*b+1]); n > 0 {
			left, right = min(left, int(columns[3*b])), max(right, int(columns[3*b])+n)
		}
	}
	sums := a.room.floats(st, worker)[:max(right-left, 0)]
	for y := range a.bins[0] {
		clear(sums)
		first, n := int(rows[3*y]), int(rows[3*y+1])
		for k, weight := range rowWeights[rows[3*y+2]:][:n] {
			for x, v := range plane[(first+k)*w+left:][:len(sums)] {
				sums[x] += weight * v
			}
		}
		for x := range a.bins[1] {
			from, n, sum := int(columns[3*x])-left, int(columns[3*x+1]), float32(0)
			for k, weight := range columnWeights[columns[3*x+2]:][:n] {
				sum += weight * sums[from+k]
			}
			out[y*a.bins[1]+x] = sum
		}
	}
}
