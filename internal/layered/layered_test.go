package layered_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/layered"
)

// uniform is a graph of n nodes of width 100 with these edges.
func uniform(n int, edges ...[2]int) *layered.Graph {
	g := &layered.Graph{Edges: edges, Gap: 20}
	for range n {
		g.Widths = append(g.Widths, 100)
	}
	return g
}

// random is a graph whose nodes read from up to three of the nodes before them, most from close by.
func random(seed uint64, n int) *layered.Graph {
	rng := rand.New(rand.NewPCG(seed, 1))
	g := &layered.Graph{Gap: 20}
	for v := range n {
		g.Widths = append(g.Widths, 40+100*rng.Float64())
		for range min(rng.IntN(4), v) {
			u := rng.IntN(v)
			if rng.IntN(8) > 0 {
				u = max(v-1-rng.IntN(12), 0)
			}
			g.Edges = append(g.Edges, [2]int{u, v})
		}
	}
	return g
}

// residual is a chain of blocks of three nodes with an edge around each block.
func residual(blocks int) *layered.Graph {
	g := uniform(1)
	for range blocks {
		v := len(g.Widths)
		g.Widths = append(g.Widths, 100, 100, 100, 100)
		g.Edges = append(g.Edges, [2]int{v - 1, v}, [2]int{v, v + 1}, [2]int{v + 1, v + 2}, [2]int{v + 2, v + 3}, [2]int{v - 1, v + 3})
	}
	return g
}

// sound checks what holds of every layout.
func sound(g *layered.Graph, l *layered.Layout) {
	GinkgoHelper()
	type place struct{ left, right float64 }
	in := make([][]place, l.Layers)
	for v, w := range g.Widths {
		at := l.Layer[v]
		in[at] = append(in[at], place{l.X[v] - w/2, l.X[v] + w/2})
		for k, x := range l.Lines[v] {
			in[at+1+k] = append(in[at+1+k], place{x, x})
		}
	}
	for _, list := range in {
		Expect(list).NotTo(BeEmpty(), "a layer without anything")
		slices.SortFunc(list, func(a, b place) int { return cmp.Compare(a.left, b.left) })
		Expect(list[0].left).To(BeNumerically(">=", -1e-6))
		for i := 1; i < len(list); i++ {
			Expect(list[i].left-list[i-1].right).To(BeNumerically(">=", g.Gap/2-1e-6), "neighbours overlap")
		}
	}
	for _, e := range g.Edges {
		Expect(l.Layer[e[0]]).To(BeNumerically("<", l.Layer[e[1]]), "edge %v does not point down", e)
	}
}

var _ = Describe("a layered drawing", func() {
	It("is sound, and the same again", func() {
		for seed := range uint64(60) {
			g := random(seed, 1+3*int(seed))
			l, err := layered.Draw(g)
			Expect(err).NotTo(HaveOccurred())
			sound(g, l)
			again, err := layered.Draw(g)
			Expect(err).NotTo(HaveOccurred())
			Expect(again).To(Equal(l))
		}
	})

	It("has a chain in a straight line", func() {
		l, err := layered.Draw(uniform(5, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 3}, [2]int{3, 4}))
		Expect(err).NotTo(HaveOccurred())
		Expect(l.Layers).To(Equal(5))
		for v := range 5 {
			Expect(l.X[v]).To(BeNumerically("~", 50, 1e-6))
		}
	})

	It("crosses no edges where that can be", func() {
		// A tree, the children of whose nodes come in a shuffled order.
		g := uniform(13, [2]int{0, 1}, [2]int{0, 2}, [2]int{0, 3}, [2]int{2, 4}, [2]int{1, 5}, [2]int{3, 6}, [2]int{1, 7}, [2]int{3, 8},
			[2]int{2, 9}, [2]int{2, 10}, [2]int{3, 11}, [2]int{1, 12})
		l, err := layered.Draw(g)
		Expect(err).NotTo(HaveOccurred())
		for i, a := range g.Edges {
			for _, b := range g.Edges[:i] {
				if l.Layer[a[0]] == l.Layer[b[0]] {
					Expect((l.X[a[0]]-l.X[b[0]])*(l.X[a[1]]-l.X[b[1]])).To(BeNumerically(">=", 0), "%v and %v cross", a, b)
				}
			}
		}
	})

	It("leads long edges past what lies between, in nearly straight lines", func() {
		g := residual(16)
		l, err := layered.Draw(g)
		Expect(err).NotTo(HaveOccurred())
		sound(g, l)
		Expect(l.Layers).To(Equal(65))
		for v, line := range l.Lines {
			if v%4 == 0 && v < 64 {
				Expect(line).To(HaveLen(3))
				Expect(slices.Max(line)-slices.Min(line)).To(BeNumerically("<", 2), "the line from %d", v)
			}
		}
	})

	It("has parameters where they are read, and layers of bounded length", func() {
		l, err := layered.Draw(uniform(4, [2]int{0, 1}, [2]int{1, 3}, [2]int{2, 3}))
		Expect(err).NotTo(HaveOccurred())
		Expect(l.Layer).To(Equal([]int{0, 1, 1, 2}))
		l, err = layered.Draw(uniform(10_000))
		Expect(err).NotTo(HaveOccurred())
		Expect(l.Layers).To(Equal(100))
		Expect(slices.Max(l.X)).To(BeNumerically("<", 100*121))
	})

	It("draws nothing, and turns edges back down", func() {
		l, err := layered.Draw(&layered.Graph{})
		Expect(err).NotTo(HaveOccurred())
		Expect(l.Layers).To(BeZero())
		for _, e := range [][2]int{{1, 0}, {1, 1}, {-1, 0}, {0, 2}} {
			_, err := layered.Draw(uniform(2, e))
			Expect(err).To(MatchError(layered.ErrOrder))
		}
	})

	It("ends soon on dense graphs, whose longest edges have no places", func() {
		g := uniform(300)
		for v := range 300 {
			for u := range v {
				g.Edges = append(g.Edges, [2]int{u, v})
			}
		}
		l, err := layered.Draw(g)
		Expect(err).NotTo(HaveOccurred())
		sound(g, l)
		Expect(l.Layers).To(Equal(300))
		for _, x := range l.X {
			Expect(math.IsNaN(x)).To(BeFalse())
		}
	})
})

func BenchmarkDraw(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		for name, g := range map[string]*layered.Graph{"random": random(1, n), "residual": residual(n / 4)} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := layered.Draw(g); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
