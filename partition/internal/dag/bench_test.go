package dag_test

import (
	"fmt"
	"testing"

	"github.com/carve-dev/carve/partition/internal/dag"
	"github.com/carve-dev/carve/partition/internal/dagtest"
)

// BenchmarkGroup measures Group and Verify together, from coloured nodes to verified groups. Every backend claims half of
// all nodes at random.
func BenchmarkGroup(b *testing.B) {
	graphs := []struct {
		name string
		make func(n int) *dagtest.Graph
	}{
		{"chain", dagtest.Chain},
		{"random", func(n int) *dagtest.Graph { return dagtest.Random(n, 20, 1) }},
		{"resnet50", dagtest.ResNet50},
		{"shuffled", func(n int) *dagtest.Graph {
			g, _ := dagtest.Shuffle(dagtest.Random(n, 20, 1), 1)
			return g
		}},
	}
	for _, kind := range graphs {
		for _, backends := range []int{1, 2, 4} {
			for _, n := range []int{100_000, 1_000_000} {
				b.Run(fmt.Sprintf("graph=%s/backends=%d/nodes=%d", kind.name, backends, n), func(b *testing.B) {
					p := problem(kind.make(n), dagtest.Colors(n, backends, 0.5, 1))
					b.ReportAllocs()
					for b.Loop() {
						r, err := dag.Group(b.Context(), p)
						if err == nil {
							err = dag.Verify(p, r)
						}
						if err != nil {
							b.Fatal(err)
						}
						b.ReportMetric(float64(r.Colored()), "groups")
					}
				})
			}
		}
	}
}
