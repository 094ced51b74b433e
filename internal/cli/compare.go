package cli

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// tolerance is how far a float may lie from the expected one: absolute + relative·|expected|.
type tolerance struct {
	relative, absolute float64
}

var errDiffers = errors.New("differs")

// compare returns an error that says where got differs from want.
func (t tolerance) compare(got, want tensor.Value) error {
	switch want := want.(type) {
	case *tensor.Tensor:
		g, ok := got.(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("%w: %v, expected a tensor", errDiffers, tensor.KindOf(got))
		}
		return t.tensors(g, want)
	case *tensor.Sequence:
		g, ok := got.(*tensor.Sequence)
		if !ok {
			return fmt.Errorf("%w: %v, expected a sequence", errDiffers, tensor.KindOf(got))
		}
		if len(g.Items) != len(want.Items) {
			return fmt.Errorf("%w: %d items, expected %d", errDiffers, len(g.Items), len(want.Items))
		}
		for i := range want.Items {
			if err := t.compare(g.Items[i], want.Items[i]); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nil
	case *tensor.Optional:
		g, ok := got.(*tensor.Optional)
		if !ok {
			g = &tensor.Optional{Item: got}
		}
		if (g.Item == nil) != (want.Item == nil) {
			return fmt.Errorf("%w: optional with %v, expected one with %v", errDiffers, tensor.KindOf(g.Item), tensor.KindOf(want.Item))
		}
		if want.Item == nil {
			return nil
		}
		return t.compare(g.Item, want.Item)
	case *tensor.Map:
		g, ok := got.(*tensor.Map)
		if !ok {
			return fmt.Errorf("%w: %v, expected a map", errDiffers, tensor.KindOf(got))
		}
		if !slices.Equal(g.IntKeys, want.IntKeys) || !slices.Equal(g.StringKeys, want.StringKeys) {
			return fmt.Errorf("%w: keys of a map", errDiffers)
		}
		return t.values(g, want)
	}
	if got != nil {
		return fmt.Errorf("%w: %v, expected nothing", errDiffers, tensor.KindOf(got))
	}
	return nil
}

// values compares what two maps of the same keys hold.
func (t tolerance) values(got, want *tensor.Map) error {
	g, err := got.Items()
	if err != nil {
		return err
	}
	w, err := want.Items()
	if err != nil {
		return err
	}
	for i := range w {
		if err := t.compare(g[i], w[i]); err != nil {
			return fmt.Errorf("value %d of a map: %w", i, err)
		}
	}
	return nil
}

func (t tolerance) tensors(got, want *tensor.Tensor) error {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("%w: %v, expected %v", errDiffers, got, want)
	}
	switch {
	case want.DType == tensor.String:
		for i, w := range want.Strings[:want.Len()] {
			if got.Strings[i] != w {
				return fmt.Errorf("%w: element %d is %.40q, expected %.40q", errDiffers, i, got.Strings[i], w)
			}
		}
		return nil
	case want.DType.IsFloat() || want.DType.IsComplex():
		return t.floats(got, want)
	}
	for i := range want.Len() {
		if g, w := got.Int64At(i), want.Int64At(i); g != w {
			return fmt.Errorf("%w: element %d is %d, expected %d", errDiffers, i, g, w)
		}
	}
	return nil
}

// floats compares floats and the parts of complex numbers.
func (t tolerance) floats(got, want *tensor.Tensor) error {
	if bytes.Equal(got.Bytes(), want.Bytes()) && got.Bytes() != nil {
		return nil
	}
	g, err := components(got)
	if err != nil {
		return err
	}
	w, err := components(want)
	if err != nil {
		return err
	}
	differ, first := 0, -1
	for i := range w {
		if t.close(g[i], w[i]) {
			continue
		}
		if differ++; first < 0 {
			first = i
		}
	}
	if differ == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d elements; element %d is %g, expected %g", errDiffers, differ, len(w), first, g[first], w[first])
}

// close reports whether g is as good as w: equal infinities, both NaN, or within the tolerance.
func (t tolerance) close(g, w float64) bool {
	if math.IsNaN(w) {
		return math.IsNaN(g)
	}
	return g == w || math.Abs(g-w) <= t.absolute+t.relative*math.Abs(w) && !math.IsInf(w, 0)
}

// components returns the elements of a float tensor, and real and imaginary parts in turn of a complex one.
func components(t *tensor.Tensor) ([]float64, error) {
	v := *t
	switch t.DType {
	case tensor.Complex64:
		v.DType = tensor.Float32
	case tensor.Complex128:
		v.DType = tensor.Float64
	}
	if v.DType != t.DType {
		c, err := t.Clone() // compact
		if err != nil {
			return nil, err
		}
		v.Data, v.Offset, v.Strides = c.Data, c.Offset, nil
		v.Shape = append(slices.Clone(t.Shape), 2)
	}
	out := make([]float64, v.Len())
	return out, tensor.Decode(out, &v)
}
