package graph_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carve-dev/carve/graph"
)

func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{10000, 100000} {
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) {
			g := addChain(n)
			if err := graph.InferGraph(g); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := graph.Verify(g); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPrint(b *testing.B) {
	g := addChain(100000)
	b.ReportAllocs()
	for b.Loop() {
		var size counting
		if err := graph.Print(&size, g, nil); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(size))
	}
}

func BenchmarkParse(b *testing.B) {
	text := addChain(100000).String()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := graph.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClone(b *testing.B) {
	g := addChain(100000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Clone(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSimplify(b *testing.B) {
	g := addChain(100000)
	if err := graph.InferGraph(g); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := graph.Simplify(context.Background(), g, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExtract contracts all nodes of a graph in groups of ten, one Extract after another.
func BenchmarkExtract(b *testing.B) {
	for _, kind := range []string{"chain", "random"} {
		for _, n := range []int{10000, 100000} {
			b.Run(fmt.Sprintf("graph=%s/nodes=%d", kind, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					g := addChain(n)
					if kind == "random" {
						g = randomDAG(rand.New(rand.NewPCG(1, 1)), n, 20)
					}
					all := slices.Collect(g.Nodes())
					b.StartTimer()
					for lo := 0; lo < n; lo += 10 {
						if _, err := g.Extract(all[lo:lo+10], fused("u")); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// BenchmarkInline extracts groups of ten and puts every other one back at once.
func BenchmarkInline(b *testing.B) {
	for _, n := range []int{10000, 100000} {
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				g := randomDAG(rand.New(rand.NewPCG(1, 1)), n, 20)
				all := slices.Collect(g.Nodes())
				b.StartTimer()
				for lo := 0; lo < n; lo += 10 {
					u, err := g.Extract(all[lo:lo+10], fused("u"))
					if err != nil {
						b.Fatal(err)
					}
					if lo%20 == 0 {
						if _, err := g.Inline(u); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
		})
	}
}
