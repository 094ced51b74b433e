package tune

import (
	"fmt"
	"maps"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// mostFeedBytes bounds an operand that is made up.
const mostFeedBytes = 1 << 30

// Feed returns data for an input of a type, with these values of the symbols: floats that spread over [0, 1), and zeros else. The
// error wraps tensor.ErrTooLarge, graph.ErrUnbound, or tells of a type that there is no such data for.
func Feed(t graph.Type, at graph.Bindings) (*tensor.Tensor, error) {
	if !t.IsTensor() || !t.Shape.Known() || !t.DType.Valid() || t.DType == tensor.String {
		return nil, fmt.Errorf("there is no data for %v", t)
	}
	dims, err := t.Shape.Eval(at, nil)
	if err != nil {
		return nil, err
	}
	n, err := tensor.NumElements(dims)
	if err != nil {
		return nil, err
	}
	if bytes := t.DType.Bytes(n); bytes < 0 || bytes > mostFeedBytes {
		return nil, fmt.Errorf("%w: %v%v", tensor.ErrTooLarge, t.DType.Name(), dims)
	}
	x, err := tensor.New(t.DType, dims...)
	if err != nil || !t.DType.IsFloat() {
		return x, err
	}
	if t.DType == tensor.Float32 {
		for i, out := 0, tensor.Of[float32](x); i < len(out); i++ {
			out[i] = float32(spread(i))
		}
		return x, nil
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = spread(i)
	}
	return x, tensor.Encode(x, v)
}

// Fitting returns what is given for inputs whose shapes at these values of symbols it has.
func Fitting(inputs []*graph.Value, given map[string]tensor.Value, at graph.Bindings) map[string]tensor.Value {
	out := maps.Clone(given)
	for _, v := range inputs {
		t, ok := given[v.Name].(*tensor.Tensor)
		if !ok || !v.Type.Shape.Known() {
			continue
		}
		if dims, err := v.Type.Shape.Eval(at, nil); err == nil && !slices.Equal(dims, t.Shape) {
			delete(out, v.Name)
		}
	}
	return out
}

// spread returns the multiples of the golden ratio modulo 1, in steps that small types have as well.
func spread(i int) float64 { return float64(uint32(i+1)*2654435769>>28) / 16 }
