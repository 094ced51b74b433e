package cli

import (
	"fmt"
	"math"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// statistics are what run prints of a tensor: of the finite elements the extremes, the mean and the standard deviation.
type statistics struct {
	n, nan, inf    int
	min, max, mean float64
	std            float64
}

// measure returns the statistics of a tensor of numbers. It reads the elements twice, in pieces.
func measure(t *tensor.Tensor) (statistics, error) {
	s := statistics{n: t.Len(), min: math.Inf(1), max: math.Inf(-1)}
	finite, sum := 0, 0.0
	err := eachPiece(t, func(v []float64) {
		for _, x := range v {
			switch {
			case math.IsNaN(x):
				s.nan++
			case math.IsInf(x, 0):
				s.inf++
			default:
				finite++
				sum += x
				s.min, s.max = min(s.min, x), max(s.max, x)
			}
		}
	})
	if err != nil {
		return s, err
	}
	if finite == 0 {
		s.min, s.max = math.NaN(), math.NaN()
		s.mean, s.std = math.NaN(), math.NaN()
		return s, nil
	}
	s.mean = sum / float64(finite)
	var squares float64
	err = eachPiece(t, func(v []float64) {
		for _, x := range v {
			if !math.IsNaN(x) && !math.IsInf(x, 0) {
				squares += (x - s.mean) * (x - s.mean)
			}
		}
	})
	s.std = math.Sqrt(squares / float64(finite))
	return s, err
}

// eachPiece calls fn with the elements of t, some at a time, so that a large tensor needs no copy of its own size.
func eachPiece(t *tensor.Tensor, fn func([]float64)) error {
	data := t.Bytes()
	if data == nil {
		return fmt.Errorf("%w: statistics of %v", tensor.ErrUnsupported, t)
	}
	const piece = 1 << 14 // whole bytes of packed types too
	buf := make([]float64, min(piece, t.Len()))
	for from := 0; from < t.Len(); from += piece {
		n := min(piece, t.Len()-from)
		at := t.DType.Bytes(from)
		part := &tensor.Tensor{DType: t.DType, Shape: []int{n}, Data: data[at : at+t.DType.Bytes(n)]}
		if err := tensor.Decode(buf[:n], part); err != nil {
			return err
		}
		fn(buf[:n])
	}
	return nil
}

// String returns the statistics in words.
func (s statistics) String() string {
	if s.n == 0 {
		return "empty"
	}
	out := fmt.Sprintf("min %.6g  max %.6g  mean %.6g  std %.6g", s.min, s.max, s.mean, s.std)
	if s.nan > 0 {
		out += fmt.Sprintf("  nan %d", s.nan)
	}
	if s.inf > 0 {
		out += fmt.Sprintf("  inf %d", s.inf)
	}
	return out
}

// dimList returns "[1,3,224,224]".
func dimList(shape []int) string {
	return "[" + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(shape), "[]")), ",") + "]"
}
