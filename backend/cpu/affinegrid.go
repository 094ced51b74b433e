package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// AffineGrid: theta [N, 2, 3] or [N, 3, 4] applied to the places of an image's or a volume's points, in (-1, 1), or with align_corners in
// [-1, 1]. The result, [N, H, W, 2] or [N, D, H, W, 3], is computed in float64 row by row, of which the last place alone changes.

func affineGridSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	theta := n.Inputs[0]
	if !operators.IsFloat32(theta) && !isDouble(theta) {
		return nil, operators.NotFloat32(theta)
	}
	if rank := len(n.Outputs[0].Type.Shape); rank != 4 && rank != 5 {
		return nil, property.Because(property.ShapeReason, "grids of two and three axes only, %v is %v", n.Outputs[0], n.Outputs[0].Type)
	}
	return operators.RowMajor(n), nil
}

// gridPlaces returns the places of so many points along an axis.
func gridPlaces(count int, align bool) []float64 {
	out := make([]float64, count)
	for i := range out {
		switch {
		case !align:
			out[i] = (2*float64(i)+1)/float64(count) - 1
		case count > 1:
			out[i] = 2*float64(i)/float64(count-1) - 1
		default:
			out[i] = -1
		}
	}
	return out
}

func planAffineGrid(p *planner, n *graph.Node) error {
	if n.Inputs[0].Type.DType == tensor.Float64 {
		return planGrid(p, n, affineNumbers)
	}
	set := p.target.Set
	return planGrid(p, n, func(dst []float32, at []float64, by, from *[element.Period]float64) {
		element.Affine(set, dst, at, by, from)
	})
}

// affineNumbers is element.Affine for float64.
func affineNumbers(dst, at []float64, by, from *[element.Period]float64) {
	k := 0
	for i, x := range at {
		if k == element.Period {
			k = 0
		}
		dst[i] = x*by[k] + from[k]
		k++
	}
}

// planGrid emits the rows of a grid, of which affine writes one: the places of its points along the last axis, each as often as there are axes, times numbers of theta, and sums.
func planGrid[T float32 | float64](p *planner, n *graph.Node, affine func(dst []T, at []float64, by, from *[element.Period]float64)) error {
	d := p.Dims[n.Outputs[0].ID]
	axes := len(d) - 2
	if t := p.Dims[n.Inputs[0].ID]; d[axes+1] != axes || !sameDims(t, []int{d[0], axes, axes + 1}) {
		return property.Because(property.ShapeReason, "theta %v for a grid of %v", t, d)
	}
	places, align := make([][]float64, axes), n.Int("align_corners", 0) != 0
	for a := range places {
		places[a] = gridPlaces(d[1+a], align)
	}
	width := d[axes] * axes
	last := make([]float64, width)
	for i := range last {
		last[i] = places[axes-1][i/axes]
	}
	theta, dst, rows := p.In(n.Inputs[0]), p.Out(n.Outputs[0]), product(d[1:axes])
	room := p.scratch(8 * 2 * element.Period)
	p.emit(step{chunks: d[0] * rows, grain: grainFor(float64(width)*0.2 + 30), body: func(st *state, worker, lo, hi int) {
		t, y, free := of[T](st, theta), of[T](st, dst), room.doubles(st, worker)
		by, from := (*[element.Period]float64)(free), (*[element.Period]float64)(free[element.Period:])
		for i := lo; i < hi; i++ {
			affineRow(by, from, t[i/rows*axes*(axes+1):], places, i%rows)
			affine(y[i*width:][:width], last, by, from)
		}
	}}, []place.Memory{theta}, []place.Memory{dst, room.at})
	return nil
}

// affineRow writes what the places along the last axis are multiplied by in row i of a grid, and what is added then: for each axis a number, again and again.
func affineRow[T float32 | float64](by, from *[element.Period]float64, theta []T, places [][]float64, i int) {
	axes := len(places)
	for r := range axes {
		t, k := theta[r*(axes+1):][:axes+1], i
		sum := float64(t[axes])
		for a := axes - 2; a >= 0; a-- { // the numbers of theta belong to the axes from the last to the first
			sum += float64(t[axes-1-a]) * places[a][k%len(places[a])]
			k /= len(places[a])
		}
		for k := r; k < element.Period; k += axes {
			by[k], from[k] = float64(t[0]), sum
		}
	}
}

func init() {
	table.Register("AffineGrid", operator{Signatures: affineGridSignatures, Plan: planAffineGrid})
}
