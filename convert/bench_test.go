package convert_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// BenchmarkHost compares reorders of about 4 MiB on one goroutine with copying as much.
func BenchmarkHost(b *testing.B) {
	for _, c := range []struct {
		from, to string
		dt       tensor.DType
		dims     []int
	}{
		{"", "", tensor.Float32, []int{1, 64, 128, 128}},
		{"", "aBcd16b", tensor.Float32, []int{1, 64, 128, 128}},
		{"aBcd16b", "", tensor.Float32, []int{1, 64, 128, 128}},
		{"", "acdb", tensor.Float32, []int{1, 64, 128, 128}},
		{"acdb", "aBcd16b", tensor.Float32, []int{1, 64, 128, 128}},
		{"", "ba", tensor.Float32, []int{1024, 1024}},
		{"", "ABcd16b16a", tensor.Float32, []int{336, 336, 3, 3}},
		{"", "ABcd16b16a", tensor.Float32, []int{1024, 1024, 1, 1}},
		{"", "BAcd16a16b", tensor.Float32, []int{512, 512, 2, 2}},
		{"", "Abcd16a", tensor.Float32, []int{6400, 3, 7, 7}},
		{"", "Abcd16a", tensor.Float32, []int{102400, 1, 3, 3}},
		{"", "Ab16a", tensor.Float32, []int{1024, 1024}},
		{"", "Ba16b", tensor.Float32, []int{1024, 1024}},
		{"Ba16b", "", tensor.Float32, []int{1024, 1024}},
		{"", "aBcd8b", tensor.Float32, []int{1, 64, 128, 128}},
		{"", "acdb", tensor.Float64, []int{1, 64, 128, 64}},
		{"", "acdb", tensor.Int8, []int{1, 64, 256, 256}},
	} {
		b.Run(fmt.Sprintf("from=%v/to=%v/dtype=%v", layout(c.from), layout(c.to), c.dt), func(b *testing.B) {
			n, err := graph.PhysicalSize(graph.On(layout(c.from)), c.dt, c.dims)
			if err != nil {
				b.Fatal(err)
			}
			m, err := graph.PhysicalSize(graph.On(layout(c.to)), c.dt, c.dims)
			if err != nil {
				b.Fatal(err)
			}
			src, dst := &tensor.Tensor{Data: make([]byte, n)}, &tensor.Tensor{Data: make([]byte, m)}
			for i := range src.Data {
				src.Data[i] = byte(i)
			}
			move, err := convert.PlanHost(layout(c.from), layout(c.to), c.dt, c.dims)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(n)
			b.ReportAllocs()
			for b.Loop() {
				if err := move(context.Background(), dst, src, convert.Exec{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
