// Package paired compares times that were measured by turns.
package paired

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Ratio is how the times of one side compare with those of another, in rounds in which both ran one after the other.
type Ratio struct {
	// Median is the median of the rounds' ratios.
	Median float64
	// Low and High bound it with 95 %, by the percentile bootstrap (Efron, 1979): a limit is broken where Low is above it.
	Low, High float64
}

// resamples is the number of samples of the bootstrap.
const resamples = 1000

// Of returns the ratio of a's times to b's, round by round; both are of equal length, at least 1. Equal times give equal results.
func Of(a, b []float64) Ratio {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return Rounds(ratios)
}

// Rounds returns the same of numbers of rounds that have been compared, at least 1, which it sorts.
func Rounds(numbers []float64) Ratio {
	r := rand.New(rand.NewPCG(1, 1))
	medians, sample := make([]float64, resamples), make([]float64, len(numbers))
	for i := range medians {
		for k := range sample {
			sample[k] = numbers[r.IntN(len(numbers))]
		}
		medians[i] = Median(sample)
	}
	slices.Sort(medians)
	return Ratio{Median: Median(numbers), Low: medians[resamples*25/1000], High: medians[resamples*975/1000]}
}

// Median sorts x, which is not empty, and returns its median.
func Median(x []float64) float64 {
	slices.Sort(x)
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// String returns the median and the interval, such as "0.97 (0.95–0.99)".
func (r Ratio) String() string { return fmt.Sprintf("%.3f (%.3f–%.3f)", r.Median, r.Low, r.High) }
