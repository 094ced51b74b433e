package cpu

import (
	"math"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// RoiAlign with mode max: a bin is the largest product of a pixel that a sample lies beside and its bilinear weight. The samples of a bin are a
// grid, and no weight is negative, so that of all weights of a pixel the least and the largest decide, and the maximum over a bin is one over its
// rows, of each column, and then one over its columns. Both are taken for 16 channels at once: images are blocked.

// maxRegions are such regions and their tables, of images of T.
type maxRegions[T float32 | float64] struct {
	regionGrid
	n                *graph.Node
	images, channels int
	rois, batch      place.Memory
	image, dst       place.Memory
	ints, weights    place.Memory // of the axes of all regions
}

// roiMax are such regions of blocked images.
type roiMax struct {
	maxRegions[float32]
	set      isa.Set
	inBlocks bool // the result
	room     scratch
}

// A maxAxis has the tables of an axis of a region. Each bin has three numbers: its first entry, how many entries it has, and what its samples are
// (unsampled, inside, outside). An entry is a pixel with its least and its largest weight.
type maxAxis[T float32 | float64] struct {
	bins, pixels []int32
	weights      []T
}

const (
	unsampled = iota // there are none
	inside           // all lie within a pixel of the image
	outside          // some lie further away, and count as 0
)

// most bounds the entries of an axis: two pixels for each sample; where there are as many samples as pixels, bins that follow each other share two.
func (a *maxRegions[T]) most(axis int) int {
	if a.ratio > 0 {
		return 2 * a.ratio * a.bins[axis]
	}
	return a.size[axis] + 3*a.bins[axis]
}

// maxRegionsOf returns the regions of a node, whose tables it emits.
func maxRegionsOf[T float32 | float64](p *planner, n *graph.Node) (maxRegions[T], error) {
	dx, count := p.Dims[n.Inputs[0].ID], p.Dims[n.Inputs[2].ID][0]
	a := maxRegions[T]{regionGrid: gridOf(n, [2]int{dx[2], dx[3]}), n: n, images: dx[0], channels: dx[1],
		image: p.In(n.Inputs[0]), rois: p.In(n.Inputs[1]), batch: p.In(n.Inputs[2]), dst: p.Out(n.Outputs[0])}
	if min(dx[2], dx[3]) < 1 || !sameDims(p.Dims[n.Inputs[1].ID], []int{count, 4}) {
		return a, property.Because(property.ShapeReason, "%d regions %v of images %v", count, p.Dims[n.Inputs[1].ID], dx)
	}
	p.mayFail = true
	a.ints, a.weights = p.Temp(4*count*a.numbers()), p.Temp(2*width[T]()*count*(a.most(0)+a.most(1)))
	p.emit(step{chunks: count, grain: grainFor(1000), body: func(st *state, _, lo, hi int) {
		for i := lo; i < hi; i++ {
			for axis := range 2 {
				a.locate(st, i, axis)
			}
		}
	}}, []place.Memory{a.rois}, []place.Memory{a.ints, a.weights})
	return a, nil
}

func planRoiMax(p *planner, n *graph.Node) error {
	regions, err := maxRegionsOf[float32](p, n)
	if err != nil {
		return err
	}
	a := &roiMax{maxRegions: regions, set: p.target.Set, inBlocks: n.Outputs[0].Format == blocked}
	count := p.Dims[n.Inputs[2].ID][0]
	a.room = p.scratch(4 * 16 * (a.size[1] + a.bins[0]*a.bins[1]))
	blocks := ceilDiv(a.channels, 16)
	grain := grainFor(float64(2*a.size[0]*a.size[1] + 20*a.bins[0]*a.bins[1]))
	p.emit(step{work: 1, chunks: count * blocks, grain: grain, body: func(st *state, worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			a.block(st, worker, i/blocks, i%blocks)
		}
	}}, []place.Memory{a.image, a.batch, a.ints, a.weights}, []place.Memory{a.dst, a.room.at})
	return nil
}

// numbers is how many integers the tables of a region are.
func (a *maxRegions[T]) numbers() int { return 3*(a.bins[0]+a.bins[1]) + a.most(0) + a.most(1) }

// table returns the tables of a region's axis.
func (a *maxRegions[T]) table(st *state, region, axis int) maxAxis[T] {
	first, most := 0, 0
	if axis == 1 {
		first, most = 3*a.bins[0]+a.most(0), a.most(0)
	}
	ints := of[int32](st, a.ints)[region*a.numbers()+first:]
	weights := of[T](st, a.weights)[2*(region*(a.most(0)+a.most(1))+most):]
	return maxAxis[T]{ints[:3*a.bins[axis]], ints[3*a.bins[axis]:][:a.most(axis)], weights[:2*a.most(axis)]}
}

// of returns the pixels of a bin, their weights, and what its samples are.
func (x *maxAxis[T]) of(bin int) (pixels []int32, weights []T, samples int32) {
	b := x.bins[3*bin:][:3]
	return x.pixels[b[0]:][:b[1]], x.weights[2*b[0]:][:2*b[1]], b[2]
}

// locate makes the tables of a region for an axis.
func (a *maxRegions[T]) locate(st *state, region, axis int) {
	begin, bin, samples := binsAlong(&a.regionGrid, of[T](st, a.rois)[4*region:][:4], axis)
	if samples > mostSamples && a.ratio == 0 {
		st.fail(errManySamples)
		samples = 0
	}
	x := a.table(st, region, axis)
	end := 0
	for b := range a.bins[axis] {
		from, where := end, min(samples, inside)
		for k := range samples {
			p := begin + float64(b)*bin + (float64(k)+0.5)*bin/float64(samples)
			low, high, part, ok := sampleAt(p, a.size[axis])
			if !ok {
				where = outside
				continue
			}
			end = x.add(from, end, low, T(1-part))
			end = x.add(from, end, high, T(part))
		}
		x.bins[3*b], x.bins[3*b+1], x.bins[3*b+2] = int32(from), int32(end-from), int32(where)
	}
}

// add adds a weight of a pixel to the entries [from, end) of a bin, and returns their end. Samples follow each other along the axis, forwards or
// backwards, so that a pixel that has an entry has one of the last three.
func (x *maxAxis[T]) add(from, end, pixel int, weight T) int {
	for i := end - 1; i >= max(from, end-3); i-- {
		if int(x.pixels[i]) == pixel {
			x.weights[2*i], x.weights[2*i+1] = min(x.weights[2*i], weight), max(x.weights[2*i+1], weight)
			return end
		}
	}
	x.pixels[end], x.weights[2*end], x.weights[2*end+1] = int32(pixel), weight, weight
	return end + 1
}

// span returns the pixels [left, right) that the bins of an axis have.
func (x *maxAxis[T]) span() (left, right int) {
	last := x.bins[len(x.bins)-3:]
	for i, pixel := range x.pixels[:last[0]+last[1]] {
		if i == 0 {
			left = int(pixel)
		}
		left, right = min(left, int(pixel)), max(right, int(pixel)+1)
	}
	return left, right
}

var leastFloat = float32(math.Inf(-1))

// imageOf returns which image a region lies in.
func (a *maxRegions[T]) imageOf(st *state, region int) int {
	image := of[int64](st, a.batch)[region]
	if image < 0 || image >= int64(a.images) {
		panic(backend.OutOfRange(a.n, 2, image, 0, int64(a.images)-1))
	}
	return int(image)
}

// block writes the bins of 16 channels of a region.
func (a *roiMax) block(st *state, worker, region, block int) {
	image := a.imageOf(st, region)
	h, w, bins, blocks := a.size[0], a.size[1], a.bins[0]*a.bins[1], ceilDiv(a.channels, 16)
	src := st.F32(a.image)[(image*blocks+block)*16*h*w:][:16*h*w]
	rows, columns := a.table(st, region, 0), a.table(st, region, 1)
	left, right := columns.span()
	room := a.room.floats(st, worker)
	sums, out := room[:16*(right-left)], room[16*w:][:16*bins]
	if a.inBlocks {
		out = st.F32(a.dst)[16*(region*blocks+block)*bins:][:16*bins]
	}
	for y := range a.bins[0] {
		for i := range sums {
			sums[i] = leastFloat
		}
		pixels, weights, inRows := rows.of(y)
		for i, pixel := range pixels {
			element.MaxScaled(a.set, sums, src[16*(int(pixel)*w+left):], weights[2*i], weights[2*i+1])
		}
		for x := range a.bins[1] {
			a.bin(out[16*(y*a.bins[1]+x):][:16], sums, left, len(pixels) > 0, inRows, &columns, x)
		}
		a.settle(out[16*y*a.bins[1]:][:16*a.bins[1]], src, y, &rows, &columns)
	}
	if !a.inBlocks {
		first := 16 * block
		planes(st.F32(a.dst)[(region*a.channels+first)*bins:], out, bins, min(16, a.channels-first))
	}
}

// bin writes a bin of 16 channels, of a row of bins whose columns' maxima are sums, from pixel left on.
func (a *roiMax) bin(out, sums []float32, left int, any bool, inRows int32, columns *maxAxis[float32], x int) {
	pixels, weights, inColumns := columns.of(x)
	if inRows == unsampled || inColumns == unsampled {
		clear(out)
		return
	}
	for i := range out {
		out[i] = leastFloat
	}
	if any {
		for i, pixel := range pixels {
			element.MaxScaled(a.set, out, sums[16*(int(pixel)-left):], weights[2*i], weights[2*i+1])
		}
	}
	if inRows == outside || inColumns == outside {
		for i, v := range out {
			if v < 0 {
				out[i] = 0
			}
		}
	}
}

// settle computes the elements of a row of bins once more that are NaN: an infinity counts for more than NaN does, which it makes of a weight of 0.
func (a *roiMax) settle(out, src []float32, y int, rows, columns *maxAxis[float32]) {
	rowPixels, rowWeights, _ := rows.of(y)
	for i, v := range out {
		if v == v {
			continue
		}
		best, lane := math.Inf(-1), i%16
		pixels, weights, _ := columns.of(i / 16)
		for j, row := range rowPixels {
			for k, column := range pixels {
				v := float64(src[16*(int(row)*a.size[1]+int(column))+lane])
				best = math.Max(best, v*float64(rowWeights[2*j])*float64(weights[2*k]))
				best = math.Max(best, v*float64(rowWeights[2*j+1])*float64(weights[2*k+1]))
			}
		}
		out[i] = float32(best)
	}
}
