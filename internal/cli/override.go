package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bundle"
)

// overrideHelp documents --override.
const overrideHelp = "Initializers that the model lists among its inputs are constants. --override NAME keeps one an input that has the\n" +
	"initializer's data where nothing else is given, and so does --input NAME=FILE."

// open loads the model at path, with those initializers as inputs that --override names, or --input.
func (f *modelFlags) open(ctx context.Context, path string) (*carve.Model, error) {
	if bundle.IsFile(path) {
		if len(f.override) > 0 {
			return nil, fmt.Errorf("--override %s: %s is a bundle, whose inputs are what they were when it was made", f.override[0], path)
		}
		return carve.Open(ctx, path)
	}
	if mxnet.IsModel(path) {
		return f.openMXNet(ctx, path)
	}
	if f.params != "" || len(f.outputLayers) > 0 {
		return nil, fmt.Errorf("%s: --params and --output-layer are for models of Apache MXNet", path)
	}
	m, err := onnx.Load(ctx, path, &onnx.Options{Override: f.override})
	if err != nil {
		return nil, err
	}
	if more := fed(m, f.inputs); len(more) > 0 {
		if err := m.Close(); err != nil {
			return nil, err
		}
		if m, err = onnx.Load(ctx, path, &onnx.Options{Override: append(more, f.override...)}); err != nil {
			return nil, err
		}
	}
	return carve.FromONNX(m), nil
}

// openMXNet loads a model of Apache MXNet. Its inputs have the shapes of --shape, or of the files of --input.
func (f *modelFlags) openMXNet(ctx context.Context, path string) (*carve.Model, error) {
	if len(f.override) > 0 {
		return nil, fmt.Errorf("--override %s: %s has no initializers among its inputs", f.override[0], path)
	}
	_, shapes, err := f.parseShapes()
	if err != nil {
		return nil, err
	}
	o := &mxnet.Options{Params: f.params, Outputs: f.outputLayers, Shapes: shapes, Types: map[string]tensor.DType{}}
	for _, s := range f.inputs {
		name, file, ok := strings.Cut(s, "=")
		if !ok || !strings.HasSuffix(file, ".npy") {
			continue // reported, or read as protobuf, when inputs are read
		}
		t, err := tensor.ReadNPYFile(file)
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", s, err)
		}
		o.Types[name] = t.DType
		if _, given := shapes[name]; !given {
			shapes[name] = t.Shape
		}
	}
	m, err := mxnet.Load(ctx, path, o)
	if err != nil {
		return nil, err
	}
	return carve.FromMXNet(m), nil
}

// fed returns the initializers that are constants so far and that files are named for.
func fed(m *onnx.Model, inputs []string) []string {
	var out []string
	for _, s := range inputs {
		longest := "" // of the names that s may begin with
		for _, name := range m.Overridable {
			if strings.HasPrefix(s, name+"=") && len(name) > len(longest) {
				longest = name
			}
		}
		isInput := slices.ContainsFunc(m.Graph.Inputs, func(v *graph.Value) bool {
			return strings.HasPrefix(s, v.Name+"=") && len(v.Name) >= len(longest)
		})
		if longest != "" && !isInput && !slices.Contains(out, longest) {
			out = append(out, longest)
		}
	}
	return out
}
