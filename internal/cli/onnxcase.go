package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// testCase is an ONNX backend test case.
type testCase struct {
	name  string // path below the folder that was named
	model string // file
	sets  []dataSet
	err   error // why its data cannot be used
}

// dataSet is the files of one test_data_set folder, by index; "" for one that is missing.
type dataSet struct {
	inputs, outputs []string
	arange          bool // no inputs are stored: they are 0 to n-1, divided by n
}

// findCases finds the cases below folders, sorted by folder and path.
func findCases(dirs []string) ([]testCase, error) {
	var out []testCase
	taken := map[string]bool{}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("%s: not a folder", dir)
		}
		before := len(out)
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			c, err := caseAt(path, d)
			if err != nil || c == nil {
				return err
			}
			if c.name, err = caseName(dir, path, d.IsDir(), taken); err != nil {
				return err
			}
			out = append(out, *c)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(out) == before {
			return nil, fmt.Errorf("%s: no ONNX backend test case below it", dir)
		}
	}
	return out, nil
}

// caseName returns the path below dir; below dir's own name where that is taken by a case of another folder.
func caseName(dir, path string, isDir bool, taken map[string]bool) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return "", err
	}
	if !isDir {
		name = strings.TrimSuffix(name, ".onnx")
	}
	if name == "." {
		name = filepath.Base(abs)
	}
	if taken[name] {
		name = filepath.Join(filepath.Base(abs), name)
	}
	taken[name] = true
	return filepath.ToSlash(name), nil
}

// caseAt returns the case at a path, nil where there is none.
func caseAt(path string, d fs.DirEntry) (*testCase, error) {
	if d.IsDir() {
		model := filepath.Join(path, "model.onnx")
		if _, err := os.Stat(model); err != nil {
			return nil, nil
		}
		folders, err := filepath.Glob(filepath.Join(escapeGlob(path), "test_data_set_*"))
		if err != nil || len(folders) == 0 {
			return nil, err
		}
		c := &testCase{model: model}
		for _, f := range folders {
			set, err := readSet(f)
			if err != nil {
				c.err = err // the case fails, and others go on
				break
			}
			c.sets = append(c.sets, set)
		}
		return c, nil
	}
	base, ok := strings.CutSuffix(path, ".onnx")
	if !ok {
		return nil, nil
	}
	set := dataSet{arange: true}
	for i := 0; ; i++ {
		file := fmt.Sprintf("%s_output_%d.pb", base, i)
		if _, err := os.Stat(file); err != nil {
			break
		}
		set.outputs = append(set.outputs, file)
	}
	if len(set.outputs) == 0 {
		return nil, nil
	}
	return &testCase{model: path, sets: []dataSet{set}}, nil
}

// escapeGlob makes a path match itself.
func escapeGlob(path string) string {
	return regexp.MustCompile(`[*?\[\\]`).ReplaceAllStringFunc(path, func(s string) string {
		if filepath.Separator == '\\' {
			return s // Windows has no escapes
		}
		return `\` + s
	})
}

var dataFile = regexp.MustCompile(`^(input|output)_([0-9]{1,4})\.pb$`)

func readSet(dir string) (dataSet, error) {
	var s dataSet
	entries, err := os.ReadDir(dir)
	if err != nil {
		return s, err
	}
	for _, e := range entries {
		m := dataFile.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		i, err := strconv.Atoi(m[2])
		if err != nil {
			return s, err
		}
		list := &s.inputs
		if m[1] == "output" {
			list = &s.outputs
		}
		if i >= len(*list) {
			*list = append(*list, make([]string, i+1-len(*list))...)
		}
		(*list)[i] = filepath.Join(dir, e.Name())
	}
	if len(s.outputs) == 0 {
		return s, fmt.Errorf("%s: no outputs", dir)
	}
	return s, nil
}

// feeds returns the inputs of a data set for a model.
func (s *dataSet) feeds(g *graph.Graph) (map[string]tensor.Value, error) {
	out := map[string]tensor.Value{}
	if s.arange {
		b, err := bind(g, &modelFlags{}, nil)
		if err != nil {
			return nil, err
		}
		for _, v := range g.Inputs {
			if out[v.Name], err = arange(v, b); err != nil {
				return nil, fmt.Errorf("input %q: %w", v.Name, err)
			}
		}
		return out, nil
	}
	for i, v := range g.Inputs {
		if i >= len(s.inputs) || s.inputs[i] == "" {
			continue // the run says what is missing
		}
		x, err := readValue(s.inputs[i], v.Type)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		out[v.Name] = x
	}
	if len(s.inputs) > len(g.Inputs) {
		return nil, fmt.Errorf("the case has %s, the model %d", counted(len(s.inputs), "input"), len(g.Inputs))
	}
	return out, nil
}

// arange returns the numbers 0 to n-1, divided by n, as float32 in the shape of an input.
func arange(v *graph.Value, b *binding) (tensor.Value, error) {
	shape, err := b.shapeOf(v)
	if err != nil {
		return nil, err
	}
	n, err := tensor.NumElements(shape)
	if err != nil {
		return nil, err
	}
	if n > maxDefaultBytes/4 {
		return nil, fmt.Errorf("%w: default data of %v needs %d bytes, limit %d", tensor.ErrTooLarge, shape, 4*n, maxDefaultBytes)
	}
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(float64(i) / float64(n))
	}
	return tensor.From(data, slices.Clone(shape)...), nil
}

// tolerance returns that of the case: data.json's where there is one.
func (c *testCase) tolerance() (tolerance, error) {
	t := tolerance{relative: 1e-3, absolute: 1e-7}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(c.model), "data.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	var d struct {
		Rtol *float64 `json:"rtol"`
		Atol *float64 `json:"atol"`
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return t, fmt.Errorf("data.json: %w", err)
	}
	if d.Rtol != nil {
		t.relative = *d.Rtol
	}
	if d.Atol != nil {
		t.absolute = *d.Atol
	}
	return t, nil
}
