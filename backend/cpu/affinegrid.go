package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
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
		return planGrid[float64](p, n)
	}
	return planGrid[float32](p, n)
}

func planGrid[T float32 | float64](p *planner, n *graph.Node) error {
	d := p.Dims[n.Outputs[0].ID]
	axes := len(d) - 2
	if t := p.Dims[n.Inputs[0].ID]; d[axes+1] != axes || !sameDims(t, []int{d[0], axes, axes + 1}) {
		return property.Because(property.ShapeReason, "theta %v for a grid of %v", t, d)
	}
	places, align := make([][]float64, axes), n.Int("align_corners", 0) != 0
	for a := range places {
		places[a] = gridPlaces(d[1+a], align)
	}
	theta, dst, rows, width := p.In(n.Inputs[0]), p.Out(n.Outputs[0]), product(d[1:axes]), d[axes]
	p.emit(step{chunks: d[0] * rows, grain: grainFor(float64(width*axes) + 10), body: func(st *state, _, lo, hi int) {
		t, y := of[T](st, theta), of[T](st, dst)
		for i := lo; i < hi; i++ {
			affineRow(y[i*width*axes:][:width*axes], t[i/rows*axes*(axes+1):], places, i%rows)
		}
	}}, []place.Memory{theta}, []place.Memory{dst})
	return nil
}

// affineRow writes row i of a grid: for each point of the last axis as many numbers as there are axes.
func affineRow[T float32 | float64](y, theta []T, places [][]float64, i int) {
	axes := len(places)
	last := places[axes-1]
	var by, sum [3]float64
	for r := range axes {
		t, k := theta[r*(axes+1):][:axes+1], i
		by[r], sum[r] = float64(t[0]), float64(t[axes])
		for a := axes - 2; a >= 0; a-- { // the numbers of theta belong to the axes from the last to the first
			sum[r] += float64(t[axes-1-a]) * places[a][k%len(places[a])]
			k /= len(places[a])
		}
	}
	if axes == 2 {
		for _, at := range last {
			y[0], y[1] = T(by[0]*at+sum[0]), T(by[1]*at+sum[1])
			y = y[2:]
		}
		return
	}
	for _, at := range last {
		y[0], y[1], y[2] = T(by[0]*at+sum[0]), T(by[1]*at+sum[1]), T(by[2]*at+sum[2])
		y = y[3:]
	}
}

func init() {
	table.Register("AffineGrid", operator{Signatures: affineGridSignatures, Plan: planAffineGrid})
}
