package onnx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
)

func ExampleParse() {
	file := relu() // the bytes of a model
	m, err := onnx.Parse(context.Background(), file, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(m.Graph)
	// Output:
	// graph "g" {
	//   opset 21
	//   input %x: f32[N,3]
	//   %y = Relu(%x) "r"
	//   output %y
	// }
}

func ExampleError() {
	file := relu(gnode(node("Exp", "e", names("ghost"), names("z"))))
	_, err := onnx.Parse(context.Background(), file, nil)
	fmt.Println(err)
	fmt.Println(errors.Is(err, onnx.ErrDangling))
	// Output:
	// onnx: load: node e: value ghost: value that nothing defines
	// true
}

func ExampleWrite() {
	ctx := context.Background()
	g, err := graph.Parse(`graph "g" {
		opset 21
		input %x: f32[N,3]
		%y: f32[N,3] = Relu(%x) "r"
		output %y
	}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	var file bytes.Buffer // or Save, to a path
	if err := onnx.Write(ctx, &file, nil, &onnx.Model{Graph: g, Opsets: g.Opsets}, nil); err != nil {
		fmt.Println(err)
		return
	}
	m, err := onnx.Parse(ctx, file.Bytes(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Graph.NumNodes(), m.Graph.Inputs[0].Type)
	// Output:
	// 1 f32[N,3]
}
