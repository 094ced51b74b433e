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
		err = move(context.Background(), &tensor.Tensor{DType: x.DType, Shape: x.Shape, Data: y.Data}, x, convert.Exec{})
	}
	fmt.Println(len(path), size, err)
	fmt.Println(tensor.Of[float32](y)[:3], tensor.Of[float32](y)[16:19])
	// Output:
	// 1 128 <nil>
	// [1 10 0] [2 20 0]
}

// A backend that keeps float32 values as bfloat16 in blocks names its layout, and brings converters that change layout and
// element type in one step.
func ExamplePlanHostCast() {
	layout, err := graph.OpaqueLayout("tpu", "1", "NCHW16c-bfloat16")
	if err != nil {
		fmt.Println(err)
		return
	}
	half := graph.On(layout)
	size := func(_ graph.Format, _ tensor.DType, dims []int) (int64, error) {
		return graph.PhysicalSize(graph.On(graph.NCHW16c), tensor.BFloat16, dims)
	}
	float := func(dt tensor.DType, rank int) bool { return dt == tensor.Float32 && rank == 4 }
	r, err := convert.NewRegistry([]convert.Converter{
		{Name: "tpu-shorten", From: graph.HostFormat, To: half, Cost: convert.HostCost, Size: size, Supports: float,
			Plan: func(_ tensor.DType, dims []int) (convert.Move, error) {
				return convert.PlanHostCast(graph.RowMajor, graph.NCHW16c, tensor.Float32, tensor.BFloat16, dims)
			}},
		{Name: "tpu-widen", From: half, To: graph.HostFormat, Cost: convert.HostCost, Size: size, Supports: float,
			Plan: func(_ tensor.DType, dims []int) (convert.Move, error) {
				return convert.PlanHostCast(graph.NCHW16c, graph.RowMajor, tensor.BFloat16, tensor.Float32, dims)
			}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	x := tensor.From([]float32{1, 2, 3.14159, 20}, 1, 2, 1, 2)
	for _, to := range []graph.Format{half, graph.HostFormat} {
		from := half
		if to == half {
			from = graph.HostFormat
		}
		path, err := r.Path(from, to)
		if err != nil {
			fmt.Println(err)
			return
		}
		bytes, err := r.Size(to, tensor.Float32, x.Shape)
		if err != nil {
			fmt.Println(err)
			return
		}
		y := &tensor.Tensor{DType: tensor.Float32, Shape: x.Shape, Data: make([]byte, bytes)}
		move, err := path[0].Plan(tensor.Float32, x.Shape)
		if err == nil {
			err = move(context.Background(), y, x, convert.Exec{})
		}
		fmt.Println(path[0].Name, bytes, err)
		x = y
	}
	fmt.Println(tensor.Of[float32](x))
	// Output:
	// tpu-shorten 64 <nil>
	// tpu-widen 16 <nil>
	// [1 2 3.140625 20]
}
