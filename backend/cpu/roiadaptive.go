package cpu

import (
	"errors"
	"math"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// RoiAlign of row-major images: of float64, and whose bins have as many samples as they have pixels, which the regions tell. The mean of bilinear
// samples on a grid is a sum over pixels whose weights are products of one for the row and one for the column: for each axis of a region the
// weights of each bin's pixels are summed up once, before the channels are read. Bins of few pixels are sums over a list of them; of more, the rows
// of a bin are summed up first.

// adaptive are such regions. The tables of a region's axis are, for each bin, its first pixel, how many it has and where their weights begin, and
// the weights.
type adaptive[T float32 | float64] struct {
	regionGrid
	n                   *graph.Node
	images, channels    int
	rois, batch, image  place.Memory
	dst, spans, weights place.Memory
	room, lists         scratch
	add                 func(dst, x []T, weight T)
}

// fewTaps is how many pixels a bin has on average where they are listed.
const fewTaps = 16

// addScaled adds weight·x to dst.
func addScaled(dst, x []float32, weight float32) {
	for i, v := range x[:len(dst)] {
		dst[i] += weight * v
	}
}

// listChannels is how many channels are computed by one list.
const listChannels = 32

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

// binsAlong returns where the bins of a region [x0, y0, x1, y1] begin along an axis, how long a bin is, and how many samples it has.
func binsAlong[T float32 | float64](g *regionGrid, roi []T, axis int) (begin, bin float64, samples int) {
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
func (a *adaptive[T]) entries(axis int) int { return a.size[axis] + 3*a.bins[axis] }

// mostSamples is how many samples of a bin along an axis the reference kernels take.
const mostSamples = 1 << 14

// errManySamples is what regions of more fail with. The run is done again by package reference, which says which region it is.
var errManySamples = errors.New("too many samples")

// width is the size of an element in bytes.
func width[T tensor.Element]() int {
	var one T
	return int(unsafe.Sizeof(one))
}

// planRoiAdaptive emits such regions; add adds weight·x to dst.
func planRoiAdaptive[T float32 | float64](p *planner, n *graph.Node, add func(dst, x []T, weight T)) error {
	dx, count := p.Dims[n.Inputs[0].ID], p.Dims[n.Inputs[2].ID][0]
	a := &adaptive[T]{regionGrid: gridOf(n, [2]int{dx[2], dx[3]}), n: n, images: dx[0], channels: dx[1], add: add,
		image: p.In(n.Inputs[0]), rois: p.In(n.Inputs[1]), batch: p.In(n.Inputs[2]), dst: p.Out(n.Outputs[0])}
	if min(dx[2], dx[3]) < 1 || dx[2]*dx[3] > math.MaxInt32 || !sameDims(p.Dims[n.Inputs[1].ID], []int{count, 4}) {
		return property.Because(property.ShapeReason, "%d regions %v of images %v", count, p.Dims[n.Inputs[1].ID], dx)
	}
	p.mayFail = true
	bins := a.bins[0] * a.bins[1]
	a.spans, a.weights = p.Temp(4*3*count*(a.bins[0]+a.bins[1])), p.Temp(width[T]()*count*(a.entries(0)+a.entries(1)))
	a.room, a.lists = p.scratch(width[T]()*(dx[3]+fewTaps*bins)), p.scratch(4*(1+fewTaps)*bins)
	p.emit(step{chunks: count, grain: grainFor(1000), body: func(st *state, _, lo, hi int) {
		for i := lo; i < hi; i++ {
			for axis := range 2 {
				a.locate(st, i, axis)
			}
		}
	}}, []place.Memory{a.rois}, []place.Memory{a.spans, a.weights})
	blocks := ceilDiv(a.channels, listChannels)
	grain := grainFor(float64(a.size[0]*a.size[1]) / 2 * min(float64(a.channels), listChannels))
	p.emit(step{work: 1, chunks: count * blocks, grain: grain, body: func(st *state, worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			first := i % blocks * listChannels
			a.sample(st, worker, i/blocks, first, min(first+listChannels, a.channels))
		}
	}}, []place.Memory{a.image, a.batch, a.spans, a.weights}, []place.Memory{a.dst, a.room.at, a.lists.at})
	return nil
}

// A binAxis has the tables of an axis of a region: of each bin its first pixel, how many it has, and where their weights begin.
type binAxis[T float32 | float64] struct {
	spans   []int32
	weights []T
}

// of returns the first pixel of a bin and the weights of its pixels.
func (x *binAxis[T]) of(bin int) (first int, weights []T) {
	s := (*[3]int32)(x.spans[3*bin:])
	return int(s[0]), x.weights[s[2]:][:s[1]]
}

// table returns the tables of a region's axis.
func (a *adaptive[T]) table(st *state, region, axis int) binAxis[T] {
	before, first := [2]int{0, a.bins[0]}[axis], [2]int{0, a.entries(0)}[axis]
	return binAxis[T]{of[int32](st, a.spans)[3*(region*(a.bins[0]+a.bins[1])+before):][:3*a.bins[axis]],
		of[T](st, a.weights)[region*(a.entries(0)+a.entries(1))+first:][:a.entries(axis)]}
}

// locate makes the tables of a region [x0, y0, x1, y1] for an axis.
func (a *adaptive[T]) locate(st *state, region, axis int) {
	begin, bin, samples := binsAlong(&a.regionGrid, of[T](st, a.rois)[4*region:][:4], axis)
	if samples > mostSamples && a.ratio == 0 {
		st.fail(errManySamples)
		samples = 0
	}
	x := a.table(st, region, axis)
	at := 0
	for b := range a.bins[axis] {
		first, end := 0, 0
		for k := range samples {
			if bin < 0 { // of a region that is turned over
				k = samples - 1 - k
			}
			p := begin + float64(b)*bin + (float64(k)+0.5)*bin/float64(samples)
			low, high, part, ok := sampleAt(p, a.size[axis])
			if !ok {
				continue
			}
			if end == 0 {
				first = low
			}
			for ; end < high+1-first; end++ {
				x.weights[at+end] = 0
			}
			x.weights[at+low-first] += T((1 - part) / float64(samples))
			x.weights[at+high-first] += T(part / float64(samples))
		}
		x.spans[3*b], x.spans[3*b+1], x.spans[3*b+2] = int32(first), int32(end), int32(at)
		at += end
	}
}

// sample writes the bins of the channels [from, to) of a region.
func (a *adaptive[T]) sample(st *state, worker, region, from, to int) {
	image := of[int64](st, a.batch)[region]
	if image < 0 || image >= int64(a.images) {
		panic(backend.OutOfRange(a.n, 2, image, 0, int64(a.images)-1))
	}
	plane, bins := a.size[0]*a.size[1], a.bins[0]*a.bins[1]
	src := of[T](st, a.image)[(int(image)*a.channels+from)*plane:][:(to-from)*plane]
	dst := of[T](st, a.dst)[(region*a.channels+from)*bins:][:(to-from)*bins]
	rows, columns := a.table(st, region, 0), a.table(st, region, 1)
	room := place.Elements[T](a.room.bytes(st, worker))
	if list, ok := a.list(a.lists.of(st, worker), room[a.size[1]:], &rows, &columns); ok {
		for ; len(dst) >= 4*bins; dst, src = dst[4*bins:], src[4*plane:] {
			list.four(dst[:4*bins], src[:4*plane], plane)
		}
		for ; len(dst) > 0; dst, src = dst[bins:], src[plane:] {
			list.one(dst[:bins], src[:plane])
		}
		return
	}
	left, right := a.size[1], 0 // of all bins
	for b := range a.bins[1] {
		if first, weights := columns.of(b); len(weights) > 0 {
			left, right = min(left, first), max(right, first+len(weights))
		}
	}
	for ; len(dst) > 0; dst, src = dst[bins:], src[plane:] {
		a.byRows(dst[:bins], src[left:plane], room[:right-left], left, &rows, &columns)
	}
}

// tapList are the pixels of the bins of a region, and their weights: those of bin i are [ends[i-1], ends[i]).
type tapList[T float32 | float64] struct {
	ends, pixels []int32
	weights      []T
}

// list lists the pixels of a region; ok is false where they are many.
func (a *adaptive[T]) list(ints []int32, weights []T, rows, columns *binAxis[T]) (l tapList[T], ok bool) {
	bins, count := a.bins[0]*a.bins[1], [2]int{}
	for i, x := range [2]*binAxis[T]{rows, columns} {
		for b := range a.bins[i] {
			count[i] += int(x.spans[3*b+1])
		}
	}
	if count[0]*count[1] > fewTaps*bins {
		return l, false
	}
	l = tapList[T]{ints[:bins], ints[bins:][:fewTaps*bins], weights[:fewTaps*bins]}
	end := 0
	for y := range a.bins[0] {
		top, down := rows.of(y)
		for x := range a.bins[1] {
			left, along := columns.of(x)
			for i, v := range down {
				row := (top+i)*a.size[1] + left
				for j, w := range along {
					l.pixels[end], l.weights[end] = int32(row+j), v*w // a pixel's number
					end++
				}
			}
			l.ends[y*a.bins[1]+x] = int32(end) // at most fewTaps for a bin
		}
	}
	return l, true
}

// one writes the bins of a channel.
func (l *tapList[T]) one(dst, plane []T) {
	from := int32(0)
	for i, to := range l.ends {
		sum, weights := T(0), l.weights[from:to]
		for k, pixel := range l.pixels[from:to] {
			sum += weights[k] * plane[pixel]
		}
		dst[i], from = sum, to
	}
}

// four writes the bins of four channels, whose planes have that size.
func (l *tapList[T]) four(dst, src []T, plane int) {
	x, bins := [4][]T{src[:plane], src[plane:][:plane], src[2*plane:][:plane], src[3*plane:][:plane]}, len(l.ends)
	from := int32(0)
	for i, to := range l.ends {
		var a, b, c, d T
		weights := l.weights[from:to]
		for k, pixel := range l.pixels[from:to] {
			weight := weights[k]
			a += weight * x[0][pixel]
			b += weight * x[1][pixel]
			c += weight * x[2][pixel]
			d += weight * x[3][pixel]
		}
		dst[i], dst[bins+i], dst[2*bins+i], dst[3*bins+i] = a, b, c, d
		from = to
	}
}

// byRows writes the bins of a channel; sums has room for a row of the pixels that the region has, which begins at column left, as the plane does.
func (a *adaptive[T]) byRows(dst, plane, sums []T, left int, rows, columns *binAxis[T]) {
	for y := range a.bins[0] {
		clear(sums)
		first, down := rows.of(y)
		for k, weight := range down {
			a.add(sums, plane[(first+k)*a.size[1]:][:len(sums)], weight)
		}
		for x := range a.bins[1] {
			from, along := columns.of(x)
			sum := T(0)
			for k, weight := range along {
				sum += weight * sums[from-left+k]
			}
			dst[y*a.bins[1]+x] = sum
		}
	}
}
