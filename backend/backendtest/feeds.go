package backendtest

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// feeds returns data for the inputs of a graph, the same for the same seed: floats in (-1, 1), small integers and booleans.
func feeds(g *graph.Graph, b graph.Bindings, seed uint64) (map[string]tensor.Value, error) {
	out := map[string]tensor.Value{}
	r := source(seed*2654435769 + 1)
	for _, v := range g.Inputs {
		dims, err := v.Type.Shape.Eval(b, nil)
		if err != nil {
			return nil, err
		}
		t, err := tensor.New(v.Type.DType, dims...)
		if err != nil {
			return nil, err
		}
		if err := r.fill(t); err != nil {
			return nil, fmt.Errorf("input %v: %w", v, err)
		}
		out[v.Name] = t
	}
	return out, nil
}

// source is a generator of numbers, by Vigna's splitmix64.
type source uint64

func (s *source) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unit returns a number in (-1, 1).
func (s *source) unit() float64 { return float64(int64(s.next())>>11) / (1 << 52) }

func (s *source) fill(t *tensor.Tensor) error {
	switch t.DType {
	case tensor.Float32:
		for i := range tensor.Of[float32](t) {
			tensor.Of[float32](t)[i] = float32(s.unit())
		}
	case tensor.Float64:
		for i := range tensor.Of[float64](t) {
			tensor.Of[float64](t)[i] = s.unit()
		}
	case tensor.Int64:
		for i := range tensor.Of[int64](t) {
			tensor.Of[int64](t)[i] = int64(s.next() % 4)
		}
	case tensor.Int32:
		for i := range tensor.Of[int32](t) {
			tensor.Of[int32](t)[i] = int32(s.next() % 4)
		}
	case tensor.Int8, tensor.Uint8:
		for i := range t.Data {
			t.Data[i] = byte(s.next())
		}
	default:
		return fmt.Errorf("no data of type %v", t.DType)
	}
	return nil
}

// Results may differ from the oracle's by a share of themselves and a share of the output's largest value.
const (
	relative = 1e-3
	ofLarge  = 1e-5
)

// compare returns what is wrong with a result, "" where nothing is.
func compare(got, want tensor.Value) string {
	g, ok1 := got.(*tensor.Tensor)
	w, ok2 := want.(*tensor.Tensor)
	if !ok1 || !ok2 {
		return fmt.Sprintf("is %T, expected %T", got, want)
	}
	if g.DType != w.DType || fmt.Sprint(g.Shape) != fmt.Sprint(w.Shape) {
		return fmt.Sprintf("is %v, expected %v", g, w)
	}
	a, b := numbers(g), numbers(w)
	if a == nil {
		if string(g.Bytes()) != string(w.Bytes()) {
			return "bytes differ"
		}
		return ""
	}
	large := 0.0
	for _, x := range b {
		if !math.IsInf(x, 0) && !math.IsNaN(x) {
			large = max(large, math.Abs(x))
		}
	}
	for i := range b {
		if a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i]) {
			continue
		}
		if !(math.Abs(a[i]-b[i]) <= relative*math.Abs(b[i])+ofLarge*large) {
			return fmt.Sprintf("[%d] is %g, expected %g", i, a[i], b[i])
		}
	}
	return ""
}

// numbers returns the elements of a float tensor, nil for others.
func numbers(t *tensor.Tensor) []float64 {
	var out []float64
	switch t.DType {
	case tensor.Float32:
		for _, x := range tensor.Of[float32](t) {
			out = append(out, float64(x))
		}
	case tensor.Float64:
		out = append(out, tensor.Of[float64](t)...)
	}
	return out
}
