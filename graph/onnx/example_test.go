package onnx_test

import (
	"context"
	"errors"
	"fmt"

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
