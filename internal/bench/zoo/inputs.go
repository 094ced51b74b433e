package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// inputs are where models that are files find theirs.
type inputs struct {
	folder string         // of folders of NAME.npy, one a model; beside the models' files where it is ""
	open   graph.Bindings // of open dims; 1 where they are not named
}

// bindings reads values of symbols: NAME=NUMBER separated by commas.
func bindings(text string) (graph.Bindings, error) {
	b := graph.Bindings{}
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(one, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("dim %q is not NAME=NUMBER", one)
		}
		b[name] = n
	}
	return b, nil
}

// of returns the folder of a model file's inputs. Where there is none, it makes inputs and writes them to a folder in dir.
func (in inputs) of(path, dir string) (string, error) {
	folder := strings.TrimSuffix(path, ".onnx")
	name := filepath.Base(folder)
	if in.folder != "" {
		folder = filepath.Join(in.folder, name)
	}
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	m, err := carve.Open(context.Background(), path)
	if err != nil {
		return "", err
	}
	defer m.Close()
	folder = filepath.Join(dir, name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	for i, v := range m.Graph().Inputs {
		t, err := in.made(v, uint64(i))
		if err == nil {
			err = write(filepath.Join(folder, v.Name+".npy"), t)
		}
		if err != nil {
			return "", fmt.Errorf("input %s: %w", v.Name, err)
		}
	}
	return folder, nil
}

// made returns an input that is the same each time: floats from 0 to 1, and integers below 100 as numbers of tokens; ones where the name speaks
// of a mask, and zeros where of a type.
func (in inputs) made(v *graph.Value, seed uint64) (*tensor.Tensor, error) {
	b := graph.Bindings{}
	set := map[string]bool{}
	for _, d := range v.Type.Shape {
		d.Symbols(set)
	}
	for s := range set {
		if b[s] = 1; in.open[s] > 0 {
			b[s] = in.open[s]
		}
	}
	dims, err := v.Type.Shape.Eval(b, nil)
	if err != nil {
		return nil, err
	}
	t, err := tensor.New(v.Type.DType, dims...)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	whole := func() int64 {
		switch {
		case strings.Contains(v.Name, "mask"):
			return 1
		case strings.Contains(v.Name, "type"):
			return 0
		}
		return r.Int64N(100)
	}
	for i := range t.Len() {
		switch t.DType {
		case tensor.Float32:
			tensor.Of[float32](t)[i] = r.Float32()
		case tensor.Int64:
			tensor.Of[int64](t)[i] = whole()
		case tensor.Int32:
			tensor.Of[int32](t)[i] = int32(whole())
		default:
			return nil, fmt.Errorf("numbers of type %v are not made here: write them as files", t.DType)
		}
	}
	return t, nil
}

// write writes a tensor as a file of numpy's.
func write(path string, t *tensor.Tensor) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(tensor.WriteNPY(f, t), f.Close())
}
