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

func softmaxRows(k pairwise.Kernels, scores []float64, width int) {
	for o := 0; o < len(scores); o += width {
		row := scores[o:][:width]
		m := greatest(row)
		for i := range row {
			row[i] -= m
		}
	}
	k.Exp(scores, 1)
	for o := 0; o < len(scores); o += width {
		row, s := scores[o:][:width], 0.0
		for _, x := range row {
			s += x
		}
		by := 1 / s // the greatest has added 1
		if !(s > 0) {
			continue
		}
		for i := range row {
			row[i] *= by
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
