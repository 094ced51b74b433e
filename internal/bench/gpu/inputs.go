package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

// network is a model with what is known of its inputs.
type network struct {
	name, path string
	inputs     []zootest.Input
	symbol     string // of the dim that counts items, "" where there is none
}

// openNetwork finds a model: a file, or one of the zoo in a folder, for which it writes the weights.
func openNetwork(ctx context.Context, name, zoo string) (*network, error) {
	n := &network{name: strings.TrimSuffix(filepath.Base(name), ".onnx"), path: name}
	if !strings.HasSuffix(name, ".onnx") {
		ref, err := zootest.ReadReferenceFrom(zoo, name)
		if err != nil {
			return nil, err
		}
		n.inputs = ref.Inputs
		if n.path, err = zootest.MaterializeFrom(zoo, name); err != nil {
			return nil, err
		}
	}
	m, err := onnx.Load(ctx, n.path, nil)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	known := n.inputs != nil
	for i, v := range m.Graph.Inputs {
		if len(v.Type.Shape) == 0 {
			return nil, &fault{unsupported, "input " + v.Name + " has no dims"}
		}
		symbol, open := v.Type.Shape[0].Symbol()
		if i > 0 && symbol != n.symbol {
			return nil, &fault{unsupported, "inputs of which not all have one open dim in front"}
		}
		if open {
			n.symbol = symbol
		}
		if !known {
			in, err := described(v, i)
			if err != nil {
				return nil, err
			}
			n.inputs = append(n.inputs, in)
		}
	}
	return n, nil
}

// described describes an input that nothing is known of but its type: floats spread over [0, 1), and zeros else.
func described(v *graph.Value, i int) (zootest.Input, error) {
	in := zootest.Input{Name: v.Name, DType: v.Type.DType.Name(), Seed: strconv.Itoa(i + 1), Kind: "uniform"}
	if !v.Type.DType.IsFloat() {
		in.Kind = "zeros"
	}
	for k, d := range v.Type.Shape {
		n, ok := d.Const()
		if !ok && k > 0 {
			return in, &fault{unsupported, fmt.Sprintf("input %s has open dims beside the first", v.Name)}
		}
		in.Dims = append(in.Dims, int(max(n, 1)))
	}
	return in, nil
}

// batched returns the inputs of so many items. The first and the last are the same in every batch of two or more, and in that of two, of
// which there are reference values; those between differ from each other.
func (n *network) batched(items int) (map[string]tensor.Value, error) {
	feeds := map[string]tensor.Value{}
	for i := range n.inputs {
		in := n.inputs[i]
		seed, err := strconv.ParseUint(in.Seed, 16, 64)
		if err != nil {
			return nil, err
		}
		in.Dims = slices.Clone(in.Dims)
		in.Dims[0] = 1
		var data []byte
		var first *tensor.Tensor
		for item := range items {
			which := uint64(item)
			if item > 0 {
				which = uint64(items - item) // the last is number 1
			}
			in.Seed = strconv.FormatUint(seed^which*0x9E3779B97F4A7C15, 16)
			t, err := in.Tensor()
			if err != nil {
				return nil, err
			}
			first, data = cmp.Or(first, t), append(data, t.Bytes()...)
		}
		feeds[in.Name] = &tensor.Tensor{DType: first.DType, Shape: append([]int{items}, first.Shape[1:]...), Data: data}
	}
	return feeds, nil
}

// dims are the values of open dims.
func (n *network) dims(items int) map[string]int {
	if n.symbol == "" {
		return nil
	}
	list := map[string]int{n.symbol: items}
	for _, in := range n.inputs {
		for i, d := range in.Shape {
			if name, ok := d.(string); ok && name != n.symbol && i < len(in.Dims) {
				list[name] = in.Dims[i]
			}
		}
	}
	return list
}
