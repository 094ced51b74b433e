package convert_test

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// The registry answers for the cheapest path between two formats. Here it is one hop: two channels become the first of a
// block of 16.
func Example() {
	blocked := graph.On(graph.NCHW16c)
	r, err := convert.NewRegistry(nil, blocked)
	if err != nil {
		fmt.Println(err)
		return
	}
	path, err := r.Path(graph.HostFormat, blocked)
	if err != nil {
		fmt.Println(err)
		return
	}
	x := tensor.From([]float32{1, 2, 10, 20}, 1, 2, 1, 2)
	size, err := r.Size(blocked, x.DType, x.Shape)
	if err != nil {
		fmt.Println(err)
		return
	}
	y := tensor.From(make([]float32, size/4))
	move, err := path[0].Plan(x.DType, x.Shape)
	if err == nil {
		err = move(context.Background(), &tensor.Tensor{DType: x.DType, Shape: x.Shape, Data: y.Data}, x, nil)
	}
	fmt.Println(len(path), size, err)
	fmt.Println(tensor.Of[float32](y)[:3], tensor.Of[float32](y)[16:19])
	// Output:
	// 1 128 <nil>
	// [1 10 0] [2 20 0]
}
