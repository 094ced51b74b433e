// Package dagtest generates the graphs that grouping is tested and measured on. It depends on the standard library alone.
package dagtest

import "math/rand/v2"

// Graph is a list of edges on the nodes 0..Nodes-1. Edges are sorted by head (To), as they are when nodes list their
// operands.
type Graph struct {
	Nodes    int
	From, To []int32
}

func (g *Graph) edge(from, to int) {
	g.From = append(g.From, int32(from))
	g.To = append(g.To, int32(to))
}

// Chain is n nodes in a row.
func Chain(n int) *Graph {
	g := &Graph{Nodes: n}
	for v := 1; v < n; v++ {
		g.edge(v-1, v)
	}
	return g
}

// Random has n nodes, each with one or two inputs (possibly the same) from the window nodes before it.
func Random(n, window int, seed uint64) *Graph {
	r := rand.New(rand.NewPCG(seed, 1))
	g := &Graph{Nodes: n}
	for v := 1; v < n; v++ {
		for range 1 + r.IntN(2) {
			g.edge(v-1-r.IntN(min(v, window)), v)
		}
	}
	return g
}

// ResNet50 is the operators of ResNet-50 (convolutions, batch normalisations, activations, additions, pooling and the
// classifier), repeated one behind the other until there are n nodes.
func ResNet50(n int) *Graph {
	g := &Graph{}
	last := -1
	op := func(inputs ...int) int {
		for _, u := range inputs {
			if u >= 0 && g.Nodes < n {
				g.edge(u, g.Nodes)
			}
		}
		g.Nodes++
		return g.Nodes - 1
	}
	for g.Nodes < n {
		x := op(op(op(op(last)))) // conv, bn, relu, maxpool
		for _, blocks := range []int{3, 4, 6, 3} {
			for b := range blocks {
				y := op(op(op(op(op(op(op(op(x)))))))) // conv bn relu conv bn relu conv bn
				if b == 0 {
					x = op(op(x)) // conv bn
				}
				x = op(op(y, x)) // add relu
			}
		}
		last = op(op(op(x))) // average, flatten, gemm
	}
	g.Nodes = n
	return g
}

// Shuffle returns the graph with node v renamed number[v], and number. Edges keep their order.
func Shuffle(g *Graph, seed uint64) (shuffled *Graph, number []int32) {
	r := rand.New(rand.NewPCG(seed, 2))
	number = make([]int32, g.Nodes)
	for v, x := range r.Perm(g.Nodes) {
		number[v] = int32(x)
	}
	s := &Graph{Nodes: g.Nodes, From: make([]int32, len(g.From)), To: make([]int32, len(g.To))}
	for e := range g.From {
		s.From[e], s.To[e] = number[g.From[e]], number[g.To[e]]
	}
	return s, number
}

// Colors returns a colour for each of n nodes: every backend claims a share of all nodes at random, and of several claims
// the first backend's wins. Nodes that nobody claims get -1.
func Colors(n, backends int, share float64, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, 3))
	color := make([]int32, n)
	for v := range color {
		color[v] = -1
		for b := range backends {
			if claimed := r.Float64() < share; claimed && color[v] < 0 {
				color[v] = int32(b)
			}
		}
	}
	return color
}
