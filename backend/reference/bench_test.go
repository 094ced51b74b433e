package reference_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

func zeros(shape ...int) *tensor.Tensor {
	t, err := tensor.New(tensor.Float32, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

func benchmark(b *testing.B, n *graph.Node, in []*tensor.Tensor, flops float64) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reference.Evaluate(context.Background(), n, values(in)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

func BenchmarkMatMul(b *testing.B) {
	for _, n := range []int{64, 512} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			in := []*tensor.Tensor{zeros(n, n), zeros(n, n)}
			benchmark(b, node("MatMul", 13, in), in, 2*float64(n)*float64(n)*float64(n))
		})
	}
}

func BenchmarkConv(b *testing.B) {
	for _, c := range []struct{ channels, size, kernel int }{{64, 56, 3}, {256, 14, 3}, {256, 28, 1}} {
		b.Run(fmt.Sprintf("channels=%d/size=%d/kernel=%d", c.channels, c.size, c.kernel), func(b *testing.B) {
			in := []*tensor.Tensor{zeros(1, c.channels, c.size, c.size), zeros(c.channels, c.channels, c.kernel, c.kernel)}
			p := int64(c.kernel / 2)
			flops := 2 * float64(c.channels*c.channels*c.kernel*c.kernel*c.size*c.size)
			benchmark(b, node("Conv", 13, in, graph.IntsAttr("pads", p, p, p, p)), in, flops)
		})
	}
}

func BenchmarkAdd(b *testing.B) {
	in := []*tensor.Tensor{zeros(64, 56, 56), zeros(64, 1, 1)}
	benchmark(b, node("Add", 13, in), in, 64*56*56)
}
