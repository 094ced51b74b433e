// Package layered draws directed acyclic graphs in layers, from top to bottom, so that every edge points down: a node's layer
// follows from the longest path to it, the order within layers from barycentres, with few crossings, and the places from least
// squares, so that edges are short and long ones straight (Sugiyama, Tagawa, Toda 1981, 10.1109/TSMC.1981.4308636). An edge
// that passes layers has a place of its own in each; edges of one node share these, as they are one line until they part.
//
// Effort is bounded: cost is O((V+E)·log V) for each of at most 24 sweeps, of which large graphs get two or three. The same graph has the
// same layout. The package imports nothing of carve.
package layered

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrOrder is wrapped by the error about an edge that does not lead from a node to one behind it.
var ErrOrder = errors.New("edges must lead from a node to one behind it")

// Graph is what is drawn. Nodes are numbered in a topological order.
type Graph struct {
	Widths []float64 // of nodes
	Edges  [][2]int  // from and to, from < to; pairs that occur again change nothing
	Gap    float64   // between neighbours of a layer
}

// Layout is where things are. Layers count from 0, at the top; x is that of centres, and no left edge is below 0.
type Layout struct {
	Layers int
	Layer  []int
	X      []float64
	// Lines has, by node, where the edges from it pass the layers below its own: an edge that spans k layers follows the first
	// k-1 places. Of graphs with very many long edges the longest have none: their lines end before.
	Lines [][]float64
}

// element is what has a place in a layer: a node, or where an edge passes.
type element struct {
	width    float64
	layer    int
	passes   bool
	up, down []int32
}

type drawing struct {
	g       *Graph
	out     *Layout
	layers  [][]int32 // elements, from left to right
	e       []element // nodes first
	lines   [][]int32 // by node: elements that its edges pass
	pos     []int32   // of elements, in their layers
	x       []float64
	effort  int
	scratch []float64
}

// Draw lays a graph out. The error wraps ErrOrder.
func Draw(g *Graph) (*Layout, error) {
	n := len(g.Widths)
	for _, e := range g.Edges {
		if e[0] < 0 || e[0] >= e[1] || e[1] >= n {
			return nil, fmt.Errorf("%w: %d to %d, of %d nodes", ErrOrder, e[0], e[1], n)
		}
	}
	d := &drawing{g: g, out: &Layout{Layer: make([]int, n), X: make([]float64, n), Lines: make([][]float64, n)}}
	if n == 0 {
		return d.out, nil
	}
	d.chooseLayers()
	d.placeElements()
	d.effort = min(max(500_000/(len(d.e)+len(g.Edges)+1), 2), 24)
	d.order()
	d.coordinates()
	for v := range n {
		d.out.X[v] = d.x[v]
		for _, at := range d.lines[v] {
			d.out.Lines[v] = append(d.out.Lines[v], d.x[at])
		}
	}
	return d.out, nil
}

// chooseLayers puts every node one layer below the last of those that it reads from, or further down where that layer is full, and
// what reads less than it is read close to its first reader.
func (d *drawing) chooseLayers() {
	n := len(d.g.Widths)
	layer, most := d.out.Layer, max(12, int(math.Sqrt(float64(n))))
	in, out, first := make([]int, n), make([]int, n), make([]int, n)
	next := make([][]int32, n)
	for _, e := range d.g.Edges {
		next[e[0]] = append(next[e[0]], int32(e[1]))
		out[e[0]]++
		in[e[1]]++
	}
	count, free := make([]int, n+1), make([]int, n+1) // free has the next layer that is not full, with shortcuts
	for l := range free {
		free[l] = l
	}
	find := func(l int) int {
		for free[l] != l {
			free[l] = free[free[l]]
			l = free[l]
		}
		return l
	}
	for v := range n {
		l := find(first[v])
		layer[v] = l
		if count[l]++; count[l] >= most {
			free[l] = l + 1
		}
		for _, w := range next[v] {
			first[w] = max(first[w], l+1)
		}
	}
	for v := n - 1; v >= 0; v-- {
		if out[v] == 0 || in[v] >= out[v] && in[v] > 0 {
			continue
		}
		l := math.MaxInt
		for _, w := range next[v] {
			l = min(l, layer[w]-1)
		}
		for l > layer[v] && count[l] >= most {
			l--
		}
		count[layer[v]]--
		count[l]++
		layer[v] = l
	}
	d.pack()
}

// pack numbers the layers that hold something.
func (d *drawing) pack() {
	used := slices.Clone(d.out.Layer)
	slices.Sort(used)
	used = slices.Compact(used)
	for v, l := range d.out.Layer {
		d.out.Layer[v], _ = slices.BinarySearch(used, l)
	}
	d.out.Layers = len(used)
}

// placeElements makes the elements of nodes and of edges that pass layers, in a first order.
func (d *drawing) placeElements() {
	n, layer := len(d.g.Widths), d.out.Layer
	d.e = make([]element, n)
	d.lines = make([][]int32, n)
	for v := range n {
		d.e[v] = element{width: d.g.Widths[v], layer: layer[v]}
	}
	edges := slices.Clone(d.g.Edges)
	slices.SortFunc(edges, func(a, b [2]int) int {
		if by := (layer[a[1]] - layer[a[0]]) - (layer[b[1]] - layer[b[0]]); by != 0 {
			return by // short ones have their places first
		}
		if a[0] != b[0] {
			return a[0] - b[0]
		}
		return a[1] - b[1]
	})
	edges = slices.Compact(edges)
	budget := 2*(n+len(edges)) + 2000
	for _, e := range edges {
		u, span := e[0], layer[e[1]]-layer[e[0]]
		if need := span - 1 - len(d.lines[u]); need > 0 {
			if need > budget {
				continue
			}
			budget -= need
			for len(d.lines[u]) < span-1 {
				at := int32(u)
				if k := len(d.lines[u]); k > 0 {
					at = d.lines[u][k-1]
				}
				d.lines[u] = append(d.lines[u], int32(len(d.e)))
				d.e = append(d.e, element{width: d.g.Gap / 2, layer: layer[u] + len(d.lines[u]), passes: true})
				d.link(at, int32(len(d.e)-1))
			}
		}
		from := int32(u)
		if span > 1 {
			from = d.lines[u][span-2]
		}
		d.link(from, int32(e[1]))
	}
	d.layers = make([][]int32, d.out.Layers)
	for v := range n {
		d.layers[layer[v]] = append(d.layers[layer[v]], int32(v))
		for _, at := range d.lines[v] {
			d.layers[d.e[at].layer] = append(d.layers[d.e[at].layer], at)
		}
	}
	d.pos = make([]int32, len(d.e))
	for _, l := range d.layers {
		d.number(l)
	}
}

func (d *drawing) link(from, to int32) {
	d.e[from].down = append(d.e[from].down, to)
	d.e[to].up = append(d.e[to].up, from)
}

func (d *drawing) number(layer []int32) {
	for i, at := range layer {
		d.pos[at] = int32(i)
	}
}
