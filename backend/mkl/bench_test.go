package mkl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

const benchElements = 16

// chainOf is a graph of that many element-wise steps.
func chainOf(steps int) *graph.Graph {
	var s strings.Builder
	fmt.Fprintf(&s, "graph {\n  opset 17\n  input %%v0: f32[%d]\n", benchElements)
	for i := range steps {
		fmt.Fprintf(&s, "  %%v%d = Tanh(%%v%d) \"v%d\"\n", i+1, i, i+1)
	}
	fmt.Fprintf(&s, "  output %%v%d\n}", steps)
	g, err := graph.Parse(s.String())
	if err == nil {
		err = graph.InferGraph(g)
	}
	if err != nil {
		panic(err)
	}
	return g
}

// BenchmarkExecute is the library's own execution of the primitive of BenchmarkSteps.
func BenchmarkExecute(b *testing.B) {
	m, err := mkl.Open(backend.Config{})
	if err != nil {
		b.Skip(err)
	}
	b.ReportAllocs()
	if err := mkl.Executions(m, benchElements, b.N); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkHandOver is what it costs to hand a run over to an executor and to wait for it. Groups whose primitives all have
// one thread run without.
func BenchmarkHandOver(b *testing.B) {
	m, err := mkl.Open(backend.Config{})
	if err != nil {
		b.Skip(err)
	}
	b.ReportAllocs()
	if err := mkl.HandOvers(m, b.N); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSteps is a run of many small steps, in nanoseconds per step; with one step it is what a run costs.
func BenchmarkSteps(b *testing.B) {
	if _, err := mkl.Open(backend.Config{}); err != nil {
		b.Skip(err)
	}
	for _, threads := range []int{1, 2} {
		for _, steps := range []int{1, 256} {
			b.Run(fmt.Sprintf("threads=%d/steps=%d", threads, steps), func(b *testing.B) {
				p, err := carve.Compile(context.Background(), carve.FromGraph(chainOf(steps)), &carve.Options{Placement: carve.Priority, Threads: threads,
					Backends: []backend.Config{{Name: "mkl"}}})
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				x, y := tensor.From(make([]float32, benchElements), benchElements), tensor.From(make([]float32, benchElements), benchElements)
				in, out := []*tensor.Tensor{x}, []*tensor.Tensor{y}
				if err := p.RunInto(context.Background(), in, out); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := p.RunInto(context.Background(), in, out); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(steps), "ns/step")
			})
		}
	}
}
