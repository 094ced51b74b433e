package cpu

import (
	"math"

	"github.com/carve-dev/carve/internal/kernel/pairwise"
)

// transform is a function of domain ai.onnx.ml on the scores of rows of some numbers each; nil for nothing.
type transform func(k pairwise.Kernels, scores []float64, width int)

// on changes rows of scores, in place.
func (t transform) on(k pairwise.Kernels, scores []float64, width int) {
	if t != nil {
		t(k, scores, width)
	}
}

var postTransforms = map[string]transform{
	"NONE":    nil,
	"SOFTMAX": softmaxRows,
	"SOFTMAX_ZERO": func(_ pairwise.Kernels, scores []float64, width int) { // scores of exactly zero stay zero
		for ; len(scores) > 0; scores = scores[width:] {
			row := scores[:width]
			m := greatest(row)
			for i, x := range row {
				if x != 0 {
					row[i] = math.Exp(x - m)
				}
			}
			shares(row)
		}
	},
	"LOGISTIC": func(k pairwise.Kernels, scores []float64, _ int) { k.Logistic(scores) },
	"PROBIT": func(_ pairwise.Kernels, scores []float64, _ int) {
		for i, x := range scores {
			scores[i] = math.Sqrt2 * math.Erfinv(2*x-1)
		}
	},
}

// softmaxRows has loops of their own for rows of two to four numbers, which most classifiers have.
func softmaxRows(k pairwise.Kernels, scores []float64, width int) {
	switch rows := scores; width {
	case 2:
		for ; len(rows) >= 2; rows = rows[2:] {
			row := (*[2]float64)(rows)
			m := max(row[0], row[1])
			row[0], row[1] = row[0]-m, row[1]-m
		}
	case 3:
		for ; len(rows) >= 3; rows = rows[3:] {
			row := (*[3]float64)(rows)
			m := max(row[0], row[1], row[2])
			row[0], row[1], row[2] = row[0]-m, row[1]-m, row[2]-m
		}
	case 4:
		for ; len(rows) >= 4; rows = rows[4:] {
			row := (*[4]float64)(rows)
			m := max(row[0], row[1], row[2], row[3])
			row[0], row[1], row[2], row[3] = row[0]-m, row[1]-m, row[2]-m, row[3]-m
		}
	default:
		for ; len(rows) > 0; rows = rows[width:] {
			row := rows[:width]
			m := greatest(row)
			for i := range row {
				row[i] -= m
			}
		}
	}
	k.Exp(scores, 1)
	divideBySums(scores, width)
}

// divideBySums divides rows of width numbers by their sums, where these are positive, as exponentials' are of which the greatest is 1.
func divideBySums(scores []float64, width int) {
	switch rows := scores; width {
	case 2:
		for ; len(rows) >= 2; rows = rows[2:] {
			row := (*[2]float64)(rows)
			if s := row[0] + row[1]; s > 0 {
				by := 1 / s
				row[0], row[1] = row[0]*by, row[1]*by
			}
		}
	case 3:
		for ; len(rows) >= 3; rows = rows[3:] {
			row := (*[3]float64)(rows)
			if s := row[0] + row[1] + row[2]; s > 0 {
				by := 1 / s
				row[0], row[1], row[2] = row[0]*by, row[1]*by, row[2]*by
			}
		}
	case 4:
		for ; len(rows) >= 4; rows = rows[4:] {
			row := (*[4]float64)(rows)
			if s := row[0] + row[1] + row[2] + row[3]; s > 0 {
				by := 1 / s
				row[0], row[1], row[2], row[3] = row[0]*by, row[1]*by, row[2]*by, row[3]*by
			}
		}
	default:
		for ; len(rows) > 0; rows = rows[width:] {
			row, s := rows[:width], 0.0
			for _, x := range row {
				s += x
			}
			if !(s > 0) {
				continue
			}
			by := 1 / s
			for i := range row {
				row[i] *= by
			}
		}
	}
}

// greatest returns the greatest number of a row, NaN where there is one.
func greatest(row []float64) float64 {
	m := math.Inf(-1)
	for _, x := range row {
		m = max(m, x)
	}
	return m
}

// shares divides numbers by their sum where that is positive.
func shares(row []float64) {
	s := 0.0
	for _, x := range row {
		s += x
	}
	for i := range row {
		if s > 0 {
			row[i] /= s
		}
	}
}
