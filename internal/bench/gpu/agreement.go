package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// agreement is how far results lie from those in float64.
type agreement struct {
	Relative float64 `json:"relative"` // the largest ‖result − float64‖ / ‖float64‖ of an output
	Sigma    float64 `json:"sigma"`    // the largest difference, in standard deviations of its output
}

// agree compares the first and the last item of results with the two of reference values; both are folders. The first item is the only
// one of a batch of one, and of a network whose items are not counted all of it is compared.
func agree(results, references string) (agreement, error) {
	var a agreement
	got, err := readFeeds(results)
	if err != nil {
		return a, err
	}
	want, err := readFeeds(references)
	if err != nil {
		return a, err
	}
	if len(got) != len(want) || len(want) == 0 {
		return a, &fault{wrong, fmt.Sprintf("%d outputs, %d expected", len(got), len(want))}
	}
	for name, v := range want {
		w := v.(*tensor.Tensor)
		g, ok := got[name].(*tensor.Tensor)
		if !ok || len(g.Shape) != len(w.Shape) || len(g.Shape) == 0 || !slices.Equal(g.Shape[1:], w.Shape[1:]) || g.Shape[0] < 1 {
			return a, &fault{wrong, fmt.Sprintf("output %s is not of the shape of %v", name, w.Shape)}
		}
		one, err := agreeIn(g, w)
		if err != nil {
			return a, err
		}
		a.Relative, a.Sigma = max(a.Relative, one.Relative), max(a.Sigma, one.Sigma)
	}
	return a, nil
}

func agreeIn(got, want *tensor.Tensor) (a agreement, err error) {
	items := min(got.Shape[0], want.Shape[0])
	row := want.Len() / want.Shape[0]
	n := items * row
	var sum, squares, off float64
	worst := 0.0
	for i := range n {
		at := i
		if i >= row { // the last item
			at = got.Len() - row + i - row
		}
		w, g := want.Float64At(i), got.Float64At(at)
		if math.IsNaN(g) || math.IsInf(g, 0) {
			return a, &fault{wrong, "a result is no finite number"}
		}
		sum, squares, off, worst = sum+w, squares+w*w, off+(g-w)*(g-w), max(worst, math.Abs(g-w))
	}
	mean := sum / float64(n)
	a.Relative = math.Sqrt(off / max(squares, 1e-300))
	a.Sigma = worst / max(math.Sqrt(max(squares/float64(n)-mean*mean, 0)), 1e-300)
	return a, nil
}
