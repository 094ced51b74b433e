package convert

import (
	"math"

	"gonum.org/v1/gonum/graph/path"
	"gonum.org/v1/gonum/graph/simple"
)

// edges are the cheapest converters between vertices.
type edges map[[2]int64]*Converter

// add keeps the cheaper of two converters between the same vertices, the earlier one where they cost the same.
func (e edges) add(k [2]int64, c *Converter) {
	if old := e[k]; old == nil || c.Cost.Of(typicalBytes) < old.Cost.Of(typicalBytes) {
		e[k] = c
	}
}

// weight is what a hop counts: a whole nanosecond more than it costs, so that of equally cheap paths the shorter is taken.
func weight(c *Converter) float64 { return c.Cost.Of(typicalBytes) + 1 }

// tie is how far apart, in parts of themselves, sums of weights are taken for the same: additions are rounded.
const tie = 1e-12

// routes returns the cheapest path between any two of so many vertices, by first vertex times vertices plus last; nil where
// there is none. Of equally cheap ones that with the lower vertices is taken, which stand for formats that were named
// earlier. It costs O(V³). The package gonum/graph/path knows distances; its own paths are random where there are several.
func (e edges) routes(vertices int) [][]*Converter {
	g := simple.NewWeightedDirectedGraph(0, math.Inf(1))
	for i := range vertices {
		g.AddNode(simple.Node(i))
	}
	for i := range int64(vertices) {
		for j := range int64(vertices) {
			if c := e[[2]int64{i, j}]; c != nil {
				g.SetWeightedEdge(simple.WeightedEdge{F: simple.Node(i), T: simple.Node(j), W: weight(c)})
			}
		}
	}
	all, _ := path.FloydWarshall(g)
	out := make([][]*Converter, vertices*vertices)
	for i := range int64(vertices) {
		for j := range int64(vertices) {
			if !math.IsInf(all.Weight(i, j), 1) {
				out[i*int64(vertices)+j] = e.walk(vertices, all, i, j)
			}
		}
	}
	return out
}

// walk returns the path from one vertex to another that has to exist.
func (e edges) walk(vertices int, all path.AllShortest, from, to int64) []*Converter {
	var hops []*Converter
	for from != to {
		next, least := int64(-1), math.Inf(1)
		for k := range int64(vertices) {
			if c := e[[2]int64{from, k}]; c != nil {
				if w := weight(c) + all.Weight(k, to); w < least*(1-tie) {
					next, least = k, w
				}
			}
		}
		hops = append(hops, e[[2]int64{from, next}])
		from = next
	}
	return hops[:len(hops):len(hops)] // others append to it
}
