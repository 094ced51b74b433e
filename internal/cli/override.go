package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
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
