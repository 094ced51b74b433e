// Package onnxruntimetest is what specs share that compare carve with ONNX Runtime: scripts in Python write models, operands, and what
// ONNX Runtime computes of them, in the form of ONNX's own test data.
package onnxruntimetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// ErrAbsent says that there is no python3 with the packages that a script wants.
var ErrAbsent = errors.New("python3 with these packages is not on this machine")

// Make runs a script, which wants some packages of Python, with an empty folder and some arguments. It returns the models that
// the script wrote, each in a folder of its own, and the lines "left out: …" that it printed, for want of something else.
func Make(ctx context.Context, packages, script, dir string, args ...string) (models, left []string, err error) {
	if err := exec.CommandContext(ctx, "python3", "-c", "import "+packages).Run(); err != nil {
		return nil, nil, fmt.Errorf("%w: %s", ErrAbsent, packages)
	}
	out, err := exec.CommandContext(ctx, "python3", append([]string{script, dir}, args...)...).CombinedOutput()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %s", script, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "left out:") {
			left = append(left, strings.TrimSpace(line))
		}
	}
	models, err = filepath.Glob(filepath.Join(dir, "*", "model.onnx"))
	return models, left, err
}

// Tensors reads the files NAME_0.pb, NAME_1.pb … of a folder.
func Tensors(dir, name string) ([]tensor.Named, error) {
	var out []tensor.Named
	for i := 0; ; i++ {
		b, err := os.ReadFile(filepath.Join(dir, name+"_"+strconv.Itoa(i)+".pb"))
		if errors.Is(err, os.ErrNotExist) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		n, t, err := tensor.ParseProto(b, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, tensor.Named{Name: n, Tensor: t})
	}
}

// Wanted returns what ONNX Runtime computes of a model.
func Wanted(path string) ([]tensor.Named, error) {
	return Tensors(filepath.Join(filepath.Dir(path), "test_data_set_0"), "output")
}

// Results runs a model on the operands beside it, with these backends, or the default ones where none are named.
func Results(ctx context.Context, path string, backends ...string) (map[string]tensor.Value, error) {
	in, err := Tensors(filepath.Join(filepath.Dir(path), "test_data_set_0"), "input")
	if err != nil {
		return nil, err
	}
	m, err := carve.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Close() }()
	list := make([]backend.Config, len(backends))
	for i, name := range backends {
		list[i].Name = name
	}
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: list, Verify: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Close() }()
	feeds := map[string]tensor.Value{}
	for _, x := range in {
		feeds[x.Name] = x.Tensor
	}
	return p.Run(ctx, feeds)
}

// Apart returns how two tensors differ, nil where they do not: in type or shape, in an element of a floating-point type by more than a
// thousandth of itself and what float32 loses, in an integer by more than step, in a string.
func Apart(got tensor.Value, want *tensor.Tensor, step float64) error {
	t, ok := got.(*tensor.Tensor)
	if !ok || t.DType != want.DType || fmt.Sprint(t.Shape) != fmt.Sprint(want.Shape) {
		return fmt.Errorf("%v, expected %v", got, want)
	}
	if t.DType == tensor.String {
		if fmt.Sprint(t.Strings) != fmt.Sprint(want.Strings) {
			return fmt.Errorf("%q, expected %q", t.Strings, want.Strings)
		}
		return nil
	}
	a, b := make([]float64, t.Len()), make([]float64, t.Len())
	if err := errors.Join(tensor.Decode(a, t), tensor.Decode(b, want)); err != nil {
		return err
	}
	for i := range a {
		most := step
		if t.DType.IsFloat() {
			most = 1e-3*math.Abs(b[i]) + 1e-5
		}
		if !(math.Abs(a[i]-b[i]) <= most) && !(a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i])) {
			return fmt.Errorf("element %d is %v, expected %v", i, a[i], b[i])
		}
	}
	return nil
}

// Flat returns a sequence of tensors, or of maps, as one vector: of a map the values, in the order of its keys. Other values stay as
// they are. The elements of the vector have the type of the first item's.
func Flat(v tensor.Value) (tensor.Value, error) {
	s, ok := v.(*tensor.Sequence)
	if !ok || len(s.Items) == 0 {
		return v, nil
	}
	var all []float64
	var dt tensor.DType
	for i, item := range s.Items {
		t, ok := item.(*tensor.Tensor)
		if m, isMap := item.(*tensor.Map); isMap {
			var err error
			if t, err = m.Dense(); err != nil {
				return nil, err
			}
		} else if !ok {
			return nil, fmt.Errorf("item %d is a %T", i, item)
		}
		if i == 0 {
			dt = t.DType
		}
		row := make([]float64, t.Len())
		if err := tensor.Decode(row, t); err != nil {
			return nil, err
		}
		all = append(all, row...)
	}
	return tensor.Convert(tensor.From(all), dt, nil)
}
