package dag

import "math"

// Graph is a directed graph on the nodes 0..Len()-1 in compressed rows, both ways. An edge leads from a node to one that
// needs its result. Parallel edges are kept: an edge is known by its position in the lists given to New. A Graph is
// immutable and safe for concurrent use.
type Graph struct {
	n        int32
	succPtr  []int32 // row of node u: [succPtr[u], succPtr[u+1])
	succ     []int32
	succEdge []int32 // edge of each successor slot
	predPtr  []int32
	pred     []int32
}

// New returns the graph with n nodes and the edges from[e] → to[e]. It fails with an *Error wrapping ErrSize for lists of
// unequal length or more than 2³¹−2 nodes or edges, ErrRange for an end outside [0, n), and ErrCycle for an edge from a node
// to itself; longer cycles are found by Group and Verify. The lists are not kept. The cost is O(n + edges).
func New(n int, from, to []int32) (*Graph, error) {
	if n < 0 || n > math.MaxInt32-1 || len(from) > math.MaxInt32-1 || len(from) != len(to) {
		return nil, &Error{Op: "new graph", Node: -1, Err: ErrSize}
	}
	g := &Graph{
		n:       int32(n),
		succPtr: make([]int32, n+1), succ: make([]int32, len(from)), succEdge: make([]int32, len(from)),
		predPtr: make([]int32, n+1), pred: make([]int32, len(from)),
	}
	for e, u := range from {
		v := to[e]
		if uint32(u) >= uint32(n) || uint32(v) >= uint32(n) {
			return nil, &Error{Op: "new graph", Node: max(u, v), Err: ErrRange}
		}
		if u == v {
			return nil, &Error{Op: "new graph", Node: u, Err: ErrCycle}
		}
		g.succPtr[u+1]++
		g.predPtr[v+1]++
	}
	for i := range n {
		g.succPtr[i+1] += g.succPtr[i]
		g.predPtr[i+1] += g.predPtr[i]
	}
	// Filling from the back turns the ends of the rows into their beginnings without a second array.
	for e := len(from) - 1; e >= 0; e-- {
		u, v := from[e], to[e]
		g.succPtr[u+1]--
		g.predPtr[v+1]--
		s := g.succPtr[u+1]
		g.succ[s], g.succEdge[s] = v, int32(e)
		g.pred[g.predPtr[v+1]] = u
	}
	// Row u now begins at ptr[u+1]: shift back.
	copy(g.succPtr, g.succPtr[1:])
	copy(g.predPtr, g.predPtr[1:])
	g.succPtr[n], g.predPtr[n] = int32(len(from)), int32(len(from))
	return g, nil
}

// Len returns the number of nodes.
func (g *Graph) Len() int { return int(g.n) }

// Edges returns the number of edges.
func (g *Graph) Edges() int { return len(g.succ) }

// Succ returns the heads of the edges from u, in the order of the edges. The slice is the graph's own.
func (g *Graph) Succ(u int32) []int32 { return g.succ[g.succPtr[u]:g.succPtr[u+1]] }

// Pred returns the tails of the edges to v, in the order of the edges. The slice is the graph's own.
func (g *Graph) Pred(v int32) []int32 { return g.pred[g.predPtr[v]:g.predPtr[v+1]] }

// cycle returns the nodes of one cycle among the nodes that are left, in the order of its edges. Every left node must have
// a left predecessor, as is so for what Kahn's algorithm cannot order.
func cycle(predPtr, pred []int32, left func(int32) bool, start int32) []int32 {
	at := map[int32]int{} // position on the walk
	var walk []int32
	for v := start; ; {
		if i, ok := at[v]; ok {
			walk = walk[i:]
			break
		}
		at[v] = len(walk)
		walk = append(walk, v)
		next := int32(-1)
		for _, u := range pred[predPtr[v]:predPtr[v+1]] {
			if left(u) {
				next = u
				break
			}
		}
		if next < 0 {
			return nil
		}
		v = next
	}
	for i, j := 0, len(walk)-1; i < j; i, j = i+1, j-1 {
		walk[i], walk[j] = walk[j], walk[i]
	}
	return walk
}
