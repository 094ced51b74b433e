package schedule

import (
	"context"
	"fmt"
	"slices"
)

// Graph is what Order orders: nodes that read and make values, in some topological order, the default order.
type Graph struct {
	// Bytes per value; 0 for what takes no memory of the arena's: constants, the caller's. A value that no node makes is there
	// from the start.
	Bytes []int64
	Keep  []bool // per value: alive to the end; nil for none
	// Within names per value another one in whose memory it lies, itself for none: a view lies in what it is a view of, a
	// part in the whole that is concatenated of it. Such values take no memory of their own; what they lie in is alive from
	// the first of them that is made to the last that is read. Nil where every value has its own.
	Within []int
	Nodes  []Node
}

// Node reads Inputs and makes Outputs (values). Overwrite lists the inputs whose memory the first output may take where
// the node is the last reader. Work is memory beside the values while the node runs.
type Node struct {
	Inputs, Outputs []int
	Overwrite       []int
	Work            int64
}

// OrderOptions bound the search.
type OrderOptions struct {
	// Steps is the budget: places of nodes that are tried, each well under a microsecond. 0 means DefaultOrderSteps.
	Steps int
}

// DefaultOrderSteps takes some 10 ms where the default order is not at its best.
const DefaultOrderSteps = 50_000

// Ordering is the result of Order.
type Ordering struct {
	Order     []int // node indices
	Before    int64 // peak of live bytes in the default order
	After     int64 // peak in Order; never above Before
	Optimal   bool  // no order has a lower peak
	Reordered bool  // Order is not the default order
}

// Order returns a topological order of g whose peak of live bytes is low. It is a function of its arguments; the default
// order is kept wherever another one does not lower the peak of the whole.
//
// The graph falls into segments at nodes that everything else comes before or after. Only segments whose peak is above
// what every order needs are searched, those with the highest peak first: a beam search over the sets of nodes that may be
// done at a time, which is exact (dynamic programming) where the beam holds all of them. Where it does not, list schedules
// by three greedy rules over the whole graph and a local search that moves nodes near the peak follow. The problem, pebbling
// with weights, is NP-hard.
//
// Errors wrap ErrProblem, or are ctx's.
func Order(ctx context.Context, g *Graph, o *OrderOptions) (*Ordering, error) {
	s, err := newOrderer(g)
	if err != nil {
		return nil, err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	s.ctx, s.budget = ctx, DefaultOrderSteps
	if o != nil && o.Steps > 0 {
		s.budget = o.Steps
	}
	n := len(g.Nodes)
	best := make([]int, n)
	for i := range best {
		best[i] = i
	}
	before := s.evaluate(best)
	r := &Ordering{Before: before.peak}
	exact, err := s.solveSegments(best)
	if err != nil {
		return nil, err
	}
	top := s.evaluate(best)
	if !exact {
		if err := s.searchWhole(best, &top); err != nil {
			return nil, err
		}
	}
	r.Order, r.After, r.Optimal = best, top.peak, exact
	for i, k := range best {
		r.Reordered = r.Reordered || i != k
	}
	return r, nil
}

// Peak returns the largest sum of bytes that are alive at one time when the nodes of g run in the given order, which must
// name every node once, makers before readers.
func Peak(g *Graph, order []int) (int64, error) {
	s, err := newOrderer(g)
	if err != nil {
		return 0, err
	}
	if len(order) != len(g.Nodes) {
		return 0, fmt.Errorf("%w: an order of %d nodes for %d", ErrProblem, len(order), len(g.Nodes))
	}
	for i := range s.pos {
		s.pos[i] = -1
	}
	for at, i := range order {
		if i < 0 || i >= len(g.Nodes) || s.pos[i] >= 0 {
			return 0, fmt.Errorf("%w: place %d of the order has node %d", ErrProblem, at, i)
		}
		s.pos[i] = at
		for _, x := range g.Nodes[i].Inputs {
			if m := s.maker[x]; m >= 0 && s.pos[m] < 0 {
				return 0, fmt.Errorf("%w: node %d runs before node %d, which makes value %d for it", ErrProblem, i, m, x)
			}
		}
	}
	return s.evaluate(order).peak, nil
}

// cost of an order.
type cost struct {
	peak int64
	sum  int64 // of live KiB over all steps
	at   int   // position of the peak
}

// orderer holds what Order knows of a graph. Values that share memory form a class, named by its root.
type orderer struct {
	g       *Graph
	ctx     context.Context
	budget  int
	steps   int
	maker   []int   // node that makes a value, -1 for none
	readers [][]int // nodes that read a value, in default order, once per operand
	root    []int   // value whose memory a value lies in
	total   []int   // reads of a class, kept values counted as one more
	left    []int   // scratch: reads of a class that are still to come
	given   []bool  // classes with a value that is there from the start
	alive   []bool  // scratch: a value of the class has been made
	pos     []int   // scratch: position of a node
	usage   []int64 // where it is not nil: bytes alive at each position
}

func newOrderer(g *Graph) (*orderer, error) {
	if g == nil {
		return nil, fmt.Errorf("%w: it is nil", ErrProblem)
	}
	v, n := len(g.Bytes), len(g.Nodes)
	if (g.Keep != nil && len(g.Keep) != v) || (g.Within != nil && len(g.Within) != v) {
		return nil, fmt.Errorf("%w: %d values, but %d in Keep and %d in Within", ErrProblem, v, len(g.Keep), len(g.Within))
	}
	s := &orderer{g: g, maker: make([]int, v), readers: make([][]int, v), root: make([]int, v), left: make([]int, v), total: make([]int, v),
		given: make([]bool, v), alive: make([]bool, v), pos: make([]int, n)}
	for i := range s.maker {
		s.maker[i], s.root[i] = -1, i
	}
	if err := s.findRoots(); err != nil {
		return nil, err
	}
	bad := func(x int) bool { return x < 0 || x >= v }
	for i := range g.Nodes {
		for _, x := range g.Nodes[i].Outputs {
			if bad(x) || s.maker[x] >= 0 {
				return nil, fmt.Errorf("%w: node %d makes value %d", ErrProblem, i, x)
			}
			s.maker[x] = i
		}
	}
	for i := range g.Nodes {
		node := &g.Nodes[i]
		for _, x := range node.Inputs {
			if bad(x) || s.maker[x] >= i {
				return nil, fmt.Errorf("%w: node %d reads value %d before it is made", ErrProblem, i, x)
			}
			s.readers[x] = append(s.readers[x], i)
			s.total[s.root[x]]++
		}
		for _, x := range node.Overwrite {
			if !slices.Contains(node.Inputs, x) {
				return nil, fmt.Errorf("%w: node %d overwrites value %d, which it does not read", ErrProblem, i, x)
			}
		}
		if node.Work < 0 {
			return nil, fmt.Errorf("%w: node %d needs %d bytes", ErrProblem, i, node.Work)
		}
	}
	for x, b := range g.Bytes {
		if b < 0 {
			return nil, fmt.Errorf("%w: value %d has %d bytes", ErrProblem, x, b)
		}
		r := s.root[x]
		if g.Keep != nil && g.Keep[x] {
			s.total[r]++
		}
		s.given[r] = s.given[r] || s.maker[x] < 0
	}
	return s, nil
}

// findRoots follows Within to the ends.
func (s *orderer) findRoots() error {
	if s.g.Within == nil {
		return nil
	}
	v := len(s.root)
	for x, in := range s.g.Within {
		if in < 0 || in >= v {
			return fmt.Errorf("%w: value %d lies in value %d", ErrProblem, x, in)
		}
		s.root[x] = -1
	}
	var path []int
	for x := range s.root {
		path = path[:0]
		for r := x; s.root[r] < 0; r = s.g.Within[r] {
			if len(path) > v {
				return fmt.Errorf("%w: value %d lies in itself", ErrProblem, x)
			}
			path = append(path, r)
			if s.g.Within[r] == r {
				s.root[r] = r
			}
		}
		for i := len(path) - 1; i >= 0; i-- {
			s.root[path[i]] = s.root[s.g.Within[path[i]]]
		}
	}
	return nil
}

// evaluate returns the peak of live bytes of an order, and the sum over its steps. Afterwards left and alive tell what
// holds after its last node: it serves prefixes as well.
func (s *orderer) evaluate(order []int) cost {
	copy(s.left, s.total)
	copy(s.alive, s.given)
	s.steps += len(order)
	live := s.there()
	c := cost{peak: live}
	for at, i := range order {
		made, saved, freed := s.apply(&s.g.Nodes[i])
		most := live + made - saved + s.g.Nodes[i].Work
		if most > c.peak {
			c.peak, c.at = most, at
		}
		if s.usage != nil {
			s.usage[at] = most
		}
		live += made - freed
		c.sum += live >> 10
	}
	return c
}

// there returns the bytes that are alive from the start.
func (s *orderer) there() int64 {
	var n int64
	for r, given := range s.given {
		if given && s.total[r] > 0 {
			n += s.g.Bytes[r]
		}
	}
	return n
}

// apply runs a node: it returns the bytes that it makes, how many of them it needs not where it overwrites an input, and
// the bytes that are free afterwards.
func (s *orderer) apply(n *Node) (made, saved, freed int64) {
	for k, x := range n.Outputs {
		r := s.root[x]
		if s.alive[r] {
			continue
		}
		s.alive[r] = true
		made += s.g.Bytes[r]
		if k > 0 || r != x {
			continue
		}
		for _, in := range n.Overwrite {
			if o := s.root[in]; s.left[o] == 1 && s.alive[o] && s.g.Bytes[o] >= s.g.Bytes[x] {
				saved = s.g.Bytes[x]
				break
			}
		}
	}
	for _, x := range n.Inputs {
		r := s.root[x]
		if s.left[r]--; s.left[r] == 0 && s.alive[r] {
			freed += s.g.Bytes[r]
		}
	}
	for _, x := range n.Outputs {
		if r := s.root[x]; s.total[r] == 0 && r == x {
			freed += s.g.Bytes[x]
		}
	}
	return made, saved, freed
}
