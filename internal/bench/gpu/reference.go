package main

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// reference computes a network in float64 on the host, and writes the results: what float32 and less are compared with.
func reference(ctx context.Context, l *loading) error {
	feeds, err := readFeeds(l.Feeds)
	if err != nil {
		return err
	}
	file, err := onnx.Load(ctx, l.Path, nil)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := double(file.Graph); err != nil {
		return err
	}
	for name, v := range feeds {
		if feeds[name], err = doubled(v.(*tensor.Tensor)); err != nil {
			return err
		}
	}
	m := carve.FromGraph(file.Graph)
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Dims: l.Dims})
	if err != nil {
		return err
	}
	defer p.Close()
	out, err := p.Run(ctx, feeds)
	if err != nil {
		return err
	}
	return write(l.Out, out)
}

// double makes everything in a graph that is float32 float64.
func double(g *graph.Graph) error {
	for _, v := range g.Inputs {
		if v.Type.DType == tensor.Float32 {
			v.Type.DType = tensor.Float64
		}
	}
	for v := range g.Constants() {
		if v.Const == nil {
			continue
		}
		t, err := doubled(v.Const)
		if err != nil {
			return err
		}
		v.Const, v.Type.DType = t, t.DType
	}
	for n := range g.Nodes() {
		if len(n.Regions) > 0 {
			return &fault{unsupported, fmt.Sprintf("%s has graphs within it", n.Op.Name)}
		}
		for _, a := range n.Attrs {
			switch {
			case n.Is("Cast") && a.Name == "to" && a.Int == int64(tensor.Float32):
				n.Attrs = n.Attrs.With(graph.IntAttr("to", int64(tensor.Float64)))
			case a.Tensor != nil:
				t, err := doubled(a.Tensor)
				if err != nil {
					return err
				}
				n.Attrs = n.Attrs.With(graph.TensorAttr(a.Name, t))
			}
		}
		for _, v := range n.Outputs {
			if v != nil && v.Type.DType == tensor.Float32 {
				v.Type.DType = tensor.Float64
			}
		}
	}
	return graph.InferGraph(g)
}

// doubled returns a tensor in float64 if it is of float32, else as it is.
func doubled(t *tensor.Tensor) (*tensor.Tensor, error) {
	if t.DType != tensor.Float32 {
		return t, nil
	}
	return tensor.Convert(t, tensor.Float64, nil)
}
