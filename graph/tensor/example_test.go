package tensor_test

import (
	"bytes"
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
)

func ExampleConvert() {
	t := tensor.From([]float32{0.1, 1e6, -2.5})
	h, err := tensor.Convert(t, tensor.Float8E4M3FN, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h, h.Float64At(0), h.Float64At(1), h.Float64At(2))
	// Output: f8e4m3fn[3] 0.1015625 448 -2.5
}

func ExampleReadNPY() {
	var file bytes.Buffer
	if err := tensor.WriteNPY(&file, tensor.From([]int64{1, 2, 3, 4}, 2, 2)); err != nil {
		fmt.Println(err)
		return
	}
	t, err := tensor.ReadNPY(&file)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t, tensor.Elements[int64](t))
	// Output: i64[2,2] [1 2 3 4]
}

func ExampleParseProto() {
	b, err := tensor.AppendProto(nil, "bias", tensor.From([]float32{0.5, 1.5}))
	if err != nil {
		fmt.Println(err)
		return
	}
	name, t, err := tensor.ParseProto(b, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(name, t, t.Float64At(1))
	// Output: bias f32[2] 1.5
}
