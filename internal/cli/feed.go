package cli

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

// defaultData documents what inputs without a file get.
const defaultData = "An input without --input gets data that is the same in every run: element i of a float input is the number\n" +
	"(i+1)·2654435769 mod 2^32, divided by 2^32 and cut to the precision of its type, which spreads over [0,1); integers\n" +
	"and bools are 0, strings and sequences empty, optionals without a value."

// readInputs reads the files of --input. Inputs of g without a file are left out.
func (f *modelFlags) readInputs(g *graph.Graph) (map[string]tensor.Value, error) {
	out := map[string]tensor.Value{}
	for _, s := range f.inputs {
		v, file, err := inputOf(g, s)
		if err != nil {
			return nil, err
		}
		if _, twice := out[v.Name]; twice {
			return nil, fmt.Errorf("--input %s: %q is given twice", s, v.Name)
		}
		x, err := readValue(file, v.Type)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		out[v.Name] = x
	}
	return out, nil
}

// inputOf finds the input that NAME=FILE names; of several, the longest name, since names and paths may hold "=".
func inputOf(g *graph.Graph, s string) (in *graph.Value, file string, err error) {
	for _, v := range g.Inputs {
		if rest, ok := strings.CutPrefix(s, v.Name+"="); ok && (in == nil || len(v.Name) > len(in.Name)) {
			in, file = v, rest
		}
	}
	if in != nil {
		return in, file, nil
	}
	name, _, ok := strings.Cut(s, "=")
	if !ok {
		return nil, "", fmt.Errorf("--input %s: expected NAME=FILE", s)
	}
	return nil, "", fmt.Errorf("--input %s: %w", s, noInput(g, name))
}

// readValue reads a .npy or .pb file; a .pb by the type that the model gives its input.
func readValue(file string, t graph.Type) (tensor.Value, error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".npy":
		x, err := tensor.ReadNPYFile(file)
		if err != nil {
			return nil, err
		}
		return x, nil
	case ".pb":
		b, err := offheap.ReadRegular(file, math.MaxInt64)
		if err != nil {
			return nil, err
		}
		_, x, err := tensor.ParseValue(b, onnx.ValueKind(t), nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return x, nil
	}
	return nil, fmt.Errorf("%s: expected a .npy or .pb file", file)
}

// complete adds default data for the inputs that feeds lacks, but for those that are measured at several shapes.
func complete(g *graph.Graph, b *binding, feeds map[string]tensor.Value) error {
	for _, v := range g.Inputs {
		_, fed := feeds[v.Name]
		if _, measured := b.opened(v); fed || measured {
			continue
		}
		x, err := defaultValue(v, b)
		if err != nil {
			return fmt.Errorf("input %q: %w", v.Name, err)
		}
		feeds[v.Name] = x
	}
	return nil
}

// maxDefaultBytes bounds default data, whose size a model decides.
const maxDefaultBytes = 256 << 20

func defaultValue(v *graph.Value, b *binding) (tensor.Value, error) {
	switch v.Type.Kind {
	case graph.KindSequence:
		s := &tensor.Sequence{}
		if v.Type.Elem != nil && v.Type.Elem.IsTensor() {
			s.DType = v.Type.Elem.DType
		}
		return s, nil
	case graph.KindOptional:
		return &tensor.Optional{}, nil
	case graph.KindMap:
		return nil, fmt.Errorf("there is no default for %v: --input %s=FILE.pb", v.Type, v.Name)
	case graph.KindTensor, graph.KindUnknown:
	}
	dt := v.Type.DType
	if !dt.Valid() {
		return nil, fmt.Errorf("the model does not say the element type: --input %s=FILE", v.Name)
	}
	shape, err := b.shapeOf(v)
	if err != nil {
		return nil, err
	}
	n, err := tensor.NumElements(shape)
	if err != nil {
		return nil, err
	}
	if bytes := dt.Bytes(n); bytes < 0 || bytes > maxDefaultBytes || dt == tensor.String && n > maxDefaultBytes/16 {
		return nil, fmt.Errorf("%w: default data of %v%v, which is %d elements, limit %d bytes", tensor.ErrTooLarge, dt.Name(), shape, n, maxDefaultBytes)
	}
	t, err := tensor.New(dt, shape...)
	if err != nil {
		return nil, err
	}
	if dt.IsFloat() {
		return t, spread(t)
	}
	return t, nil
}

// precision is the number of bits that hold a fraction in [0,1) exactly, so that no rounding reaches 1.
func precision(dt tensor.DType) uint {
	switch dt {
	case tensor.Float16:
		return 11
	case tensor.BFloat16:
		return 8
	case tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ:
		return 4
	case tensor.Float8E5M2, tensor.Float8E5M2FNUZ:
		return 3
	case tensor.Float4E2M1, tensor.Float8E8M0:
		return 1
	}
	return 24
}

// spread fills a float tensor with the multiples of the golden ratio modulo 1.
func spread(t *tensor.Tensor) error {
	bits := precision(t.DType)
	scale := 1 / float64(uint64(1)<<bits)
	n := t.Len()
	if t.DType == tensor.Float32 {
		out := tensor.Of[float32](t)
		for i := range out {
			out[i] = float32(uint32(i+1)*2654435769>>(32-bits)) * float32(scale)
		}
		return nil
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(uint32(i+1)*2654435769>>(32-bits)) * scale
	}
	return tensor.Encode(t, v)
}
