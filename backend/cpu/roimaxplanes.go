package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/place"
)

// RoiAlign with mode max of row-major images of float64, a channel at a time: of a row of bins the maxima over its rows are taken first, of each
// column that the region has, and then those over the columns of each bin.

// roiMaxPlanes are such regions.
type roiMaxPlanes struct {
	maxRegions[float64]
	set  isa.Set
	room scratch
}

func planRoiMaxPlanes(p *planner, n *graph.Node) error {
	regions, err := maxRegionsOf[float64](p, n)
	if err != nil {
		return err
	}
	a := &roiMaxPlanes{maxRegions: regions, set: p.target.Set}
	count := p.Dims[n.Inputs[2].ID][0]
	a.room = p.scratch(8 * a.size[1])
	p.emit(step{work: 1, chunks: count * a.channels, grain: grainFor(float64(a.size[0]*a.size[1])/4 + 10*float64(a.bins[0]*a.bins[1])), body: func(st *state, worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			a.plane(st, worker, i/a.channels, i%a.channels)
		}
	}}, []place.Memory{a.image, a.batch, a.ints, a.weights}, []place.Memory{a.dst, a.room.at})
	return nil
}

// plane writes the bins of a channel of a region.
func (a *roiMaxPlanes) plane(st *state, worker, region, channel int) {
	h, w, bins := a.size[0], a.size[1], a.bins[0]*a.bins[1]
	src := of[float64](st, a.image)[(a.imageOf(st, region)*a.channels+channel)*h*w:][:h*w]
	dst := of[float64](st, a.dst)[(region*a.channels+channel)*bins:][:bins]
	rows, columns := a.table(st, region, 0), a.table(st, region, 1)
	left, right := columns.span()
	most := place.Elements[float64](a.room.bytes(st, worker))[:right-left]
	valid := true
	for y := range a.bins[0] {
		out := dst[y*a.bins[1]:][:a.bins[1]]
		pixels, weights, inRows := rows.of(y)
		if inRows == unsampled {
			clear(out)
			continue
		}
		for i := range most {
			most[i] = math.Inf(-1)
		}
		for i, pixel := range pixels {
			element.MaxScaled(a.set, most, src[int(pixel)*w+left:], weights[2*i], weights[2*i+1])
		}
		for x := range out {
			out[x] = a.bin(most, left, inRows, &columns, x)
			valid = valid && out[x] == out[x]
		}
	}
	if !valid {
		a.settle(dst, src, &rows, &columns)
	}
}

// bin returns a bin of a row of bins whose columns' maxima, from pixel left on, are given: NaN where one of the products is.
func (a *roiMaxPlanes) bin(most []float64, left int, inRows int32, columns *maxAxis[float64], x int) float64 {
	pixels, weights, inColumns := columns.of(x)
	if inColumns == unsampled {
		return 0
	}
	best := math.Inf(-1)
	for i, pixel := range pixels {
		v, weight := most[int(pixel)-left], weights[2*i+1]
		if v < 0 {
			weight = weights[2*i]
		}
		best = max(best, v*weight)
	}
	if inRows == outside || inColumns == outside {
		best = max(best, 0)
	}
	return best
}

// settle computes the bins of a channel once more, product by product: an infinity counts for more than NaN does, which it makes of a weight of 0.
func (a *roiMaxPlanes) settle(dst, src []float64, rows, columns *maxAxis[float64]) {
	for bin := range dst {
		rowPixels, rowWeights, inRows := rows.of(bin / a.bins[1])
		pixels, weights, inColumns := columns.of(bin % a.bins[1])
		if inRows == unsampled || inColumns == unsampled {
			continue
		}
		best := math.Inf(-1)
		if inRows == outside || inColumns == outside {
			best = 0
		}
		for j, row := range rowPixels {
			for k, column := range pixels {
				v := src[int(row)*a.size[1]+int(column)]
				best = math.Max(best, v*rowWeights[2*j]*weights[2*k])
				best = math.Max(best, v*rowWeights[2*j+1]*weights[2*k+1])
			}
		}
		dst[bin] = best
	}
}
