package serve

import (
	"slices"
	"strconv"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/graph/tensor"
)

// classify returns the n largest elements of each row of t, or of t where it is no batch, in descending order, as BYTES
// "value:index" or "value:index:label". Equal ones come in the order of their index.
func classify(t *tensor.Tensor, n int, batched bool, labels []string) (*tensor.Tensor, error) {
	if t.DType == tensor.String || t.DType.IsComplex() {
		return nil, oip.Errorf(oip.InvalidArgument, "classification of %v", t.DType)
	}
	rows := 1
	if batched && len(t.Shape) > 0 {
		rows = t.Shape[0]
	}
	size := 0
	if rows > 0 {
		size = t.Len() / rows
	}
	values := make([]float64, t.Len())
	if err := tensor.Decode(values, t); err != nil {
		return nil, oip.Errorf(oip.Internal, "%w", err)
	}
	n = min(n, size)
	out := make([]string, 0, rows*n)
	order := make([]int, size)
	for r := range rows {
		row := values[r*size : (r+1)*size]
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return descending(row[a], row[b]) })
		for _, i := range order[:n] {
			out = append(out, class(t, row[i], i, labels))
		}
	}
	if batched {
		return tensor.FromStrings(out, rows, n), nil
	}
	return tensor.FromStrings(out, n), nil
}

// descending orders numbers from the largest, what is not a number last.
func descending(a, b float64) int {
	switch {
	case a > b, a == a && b != b: // NaN differs from itself
		return -1
	case a < b, b == b && a != a: // NaN differs from itself
		return 1
	}
	return 0
}

// class writes one class. Floats have six decimals, as clients know them from Triton.
func class(t *tensor.Tensor, v float64, i int, labels []string) string {
	b := strconv.AppendFloat(nil, v, 'f', 6, 64)
	if !t.DType.IsFloat() {
		b = strconv.AppendFloat(nil, v, 'f', 0, 64)
	}
	b = strconv.AppendInt(append(b, ':'), int64(i), 10)
	if i < len(labels) {
		b = append(append(b, ':'), labels[i]...)
	}
	return string(b)
}
