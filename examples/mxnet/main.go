// Command mxnet runs a classifier that Gluon exported on a picture that is all grey, and prints the most probable classes.
//
//	go run ./examples/mxnet resnet-symbol.json
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/tensor"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("the name of a symbol is expected, such as resnet-symbol.json")
	}
	if err := classify(context.Background(), os.Stdout, os.Args[1], 1, 3, 224, 224); err != nil {
		log.Fatal(err)
	}
}

// classify writes the three largest results of a model with one input, data, of that shape.
func classify(ctx context.Context, w io.Writer, symbol string, shape ...int) error {
	loaded, err := mxnet.Load(ctx, symbol, &mxnet.Options{Shapes: map[string][]int{"data": shape}})
	if err != nil {
		return err
	}
	model := carve.FromMXNet(loaded)
	defer model.Close()
	program, err := carve.Compile(ctx, model, nil)
	if err != nil {
		return err
	}
	defer program.Close()
	grey, err := tensor.New(tensor.Float32, shape...)
	if err != nil {
		return err
	}
	for i := range tensor.Elements[float32](grey) {
		tensor.Elements[float32](grey)[i] = 0.5
	}
	out, err := program.Run(ctx, map[string]tensor.Value{"data": grey})
	if err != nil {
		return err
	}
	scores := tensor.Elements[float32](out[loaded.Outputs[0]].(*tensor.Tensor))
	classes := make([]int, len(scores))
	for i := range classes {
		classes[i] = i
	}
	slices.SortStableFunc(classes, func(a, b int) int {
		if scores[a] > scores[b] {
			return -1
		}
		return 1
	})
	for _, c := range classes[:min(3, len(classes))] {
		fmt.Fprintf(w, "class %d: %.4g\n", c, scores[c])
	}
	return nil
}
