package schedule

import (
	"container/heap"
	"context"
	"fmt"
)

// Graph is what Order orders: nodes that read and make values. It is given in some topological order, the default order.
type Graph struct {
	Bytes []int64 // per value, aligned; 0 for values that take no memory (constants, inputs of the caller)
	Keep  []bool  // per value: alive to the end (outputs in the arena)
	Nodes []Node
}

// Node reads Inputs and makes Outputs (indices of values). InPlace is the index of an input value that the node's first
// output may overwrite where the node is its last reader, or -1. View says that the outputs take no memory of their own:
// they keep the inputs alive instead.
type Node struct {
	Inputs, Outputs []int
	InPlace         int
	View            bool
}

// OrderOptions bound the search.
type OrderOptions struct {
	Steps int // evaluated orders; 0 means 200 + what a million node visits allow
}

// Ordering is the result of Order.
type Ordering struct {
	Order     []int // node indices
	Before    int64 // peak of live bytes in the default order
	After     int64 // peak in Order; never above Before
	Evaluated int   // orders that were evaluated
}

// Order returns a topological order of g whose peak of live bytes is low: the best of the default order and greedy list
// schedules (by memory freed, by memory made, depth first), improved by local search, which moves a node that is alive at
// the peak to another place. It is a function of its arguments. The default order is kept unless another one lowers the
// peak.
//
// The problem (pebbling with weights) is NP-hard; the greedy rules are those of list scheduling for register pressure.
func Order(ctx context.Context, g *Graph, o *OrderOptions) (*Ordering, error) {
	s, err := newOrderer(g)
	if err != nil {
		return nil, err
	}
	n := len(g.Nodes)
	base := make([]int, n)
	for i := range base {
		base[i] = i
	}
	best := append([]int(nil), base...)
	before := s.evaluate(base)
	result := &Ordering{Before: before.peak}
	top := before
	steps := 200 + 1_000_000/max(n, 1)
	if o != nil && o.Steps > 0 {
		steps = o.Steps
	}
	try := func(order []int) bool {
		result.Evaluated++
		c := s.evaluate(order)
		if c.peak < top.peak || c.peak == top.peak && c.sum < top.sum && top.peak < before.peak {
			top = c
			copy(best, order)
			return true
		}
		return false
	}
	for rule := range greedyRules {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		try(s.greedy(rule))
	}
	if err := s.improve(ctx, best, &top, steps, result, try); err != nil {
		return nil, err
	}
	result.Order, result.After = best, top.peak
	return result, nil
}

type cost struct {
	peak, sum int64
	at        int // position of the peak
}

type orderer struct {
	g       *Graph
	maker   []int   // node that makes a value, -1 for none
	readers [][]int // nodes that read a value, in default order
	root    []int   // value whose memory a value lies in
	left    []int   // scratch: readers of a root that are still to come
	total   []int   // readers of a root, with kept values counted once more
	pos     []int   // scratch: position of a node
}

func newOrderer(g *Graph) (*orderer, error) {
	v := len(g.Bytes)
	s := &orderer{g: g, maker: make([]int, v), readers: make([][]int, v), root: make([]int, v), left: make([]int, v), total: make([]int, v),
		pos: make([]int, len(g.Nodes))}
	for i := range s.maker {
		s.maker[i], s.root[i] = -1, i
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		for _, x := range n.Inputs {
			if x < 0 || x >= v {
				return nil, fmt.Errorf("%w: node %d reads value %d", ErrProblem, i, x)
			}
			if m := s.maker[x]; m < 0 && g.Bytes[x] > 0 && !g.Keep[x] {
				return nil, fmt.Errorf("%w: node %d reads value %d before it is made", ErrProblem, i, x)
			}
			s.readers[x] = append(s.readers[x], i)
		}
		for _, x := range n.Outputs {
			if x < 0 || x >= v || s.maker[x] >= 0 {
				return nil, fmt.Errorf("%w: node %d makes value %d", ErrProblem, i, x)
			}
			s.maker[x] = i
			if n.View && len(n.Inputs) > 0 {
				s.root[x] = s.root[n.Inputs[0]]
			}
		}
	}
	for x := range s.root {
		s.total[s.root[x]] += len(s.readers[x])
		if g.Keep[x] {
			s.total[s.root[x]]++
		}
	}
	return s, nil
}

// evaluate returns the peak of live bytes of an order, and the sum over its steps.
func (s *orderer) evaluate(order []int) cost {
	copy(s.left, s.total)
	var live int64
	var c cost
	for at, i := range order {
		n := &s.g.Nodes[i]
		made := int64(0)
		if !n.View {
			for _, x := range n.Outputs {
				made += s.g.Bytes[x]
			}
		}
		if r, ok := s.overwrites(n); ok { // the first output takes the input's place
			made -= s.g.Bytes[n.Outputs[0]]
			shrink := s.g.Bytes[r] - s.g.Bytes[n.Outputs[0]]
			if live += made; live > c.peak {
				c.peak, c.at = live, at
			}
			live -= shrink
			s.left[r] = 0
			s.release(n, n.InPlace, &live)
			c.sum += live >> 10
			continue
		}
		if live += made; live > c.peak {
			c.peak, c.at = live, at
		}
		s.release(n, -1, &live)
		c.sum += live >> 10
	}
	return c
}

// overwrites returns the value whose memory n's first output takes, where n is its last reader.
func (s *orderer) overwrites(n *Node) (root int, ok bool) {
	if n.InPlace < 0 || len(n.Outputs) == 0 {
		return 0, false
	}
	r := s.root[n.InPlace]
	return r, s.left[r] == 1 && s.maker[r] >= 0 && s.g.Bytes[r] >= s.g.Bytes[n.Outputs[0]]
}

// release drops what n read last, and outputs that nobody reads.
func (s *orderer) release(n *Node, skip int, live *int64) {
	for _, x := range n.Inputs {
		if x == skip {
			skip = -1
			continue
		}
		r := s.root[x]
		if s.left[r]--; s.left[r] == 0 && s.maker[r] >= 0 {
			*live -= s.g.Bytes[r]
		}
	}
	for _, x := range n.Outputs {
		if s.root[x] == x && s.total[x] == 0 {
			*live -= s.g.Bytes[x]
		}
	}
}

// greedyRules is the number of rules of greedy.
const greedyRules = 3

// ready is a heap of nodes by key, ties by index.
type ready struct {
	key  []int64
	list []int
}

func (r *ready) Len() int { return len(r.list) }
func (r *ready) Less(i, j int) bool {
	a, b := r.list[i], r.list[j]
	if r.key[a] != r.key[b] {
		return r.key[a] < r.key[b]
	}
	return a < b
}
func (r *ready) Swap(i, j int) { r.list[i], r.list[j] = r.list[j], r.list[i] }
func (r *ready) Push(x any)    { r.list = append(r.list, x.(int)) }
func (r *ready) Pop() any {
	x := r.list[len(r.list)-1]
	r.list = r.list[:len(r.list)-1]
	return x
}

// greedy is list scheduling: of the nodes that could run next, the one with the least key. Rule 0 weighs what a node makes
// against what all of its operands hold, rule 1 is what it makes, rule 2 prefers readers of the newest values.
func (s *orderer) greedy(rule int) []int {
	n := len(s.g.Nodes)
	missing := make([]int, n)
	r := &ready{key: make([]int64, n)}
	for i := range s.g.Nodes {
		node := &s.g.Nodes[i]
		for _, x := range node.Inputs {
			if s.maker[x] >= 0 {
				missing[i]++
			}
		}
		for _, x := range node.Outputs {
			if s.root[x] == x {
				r.key[i] += s.g.Bytes[x]
			}
		}
		if rule == 0 {
			for _, x := range node.Inputs {
				if root := s.root[x]; s.maker[root] >= 0 && s.total[root] > 0 {
					r.key[i] -= s.g.Bytes[root] / int64(s.total[root])
				}
			}
		}
	}
	for i := range s.g.Nodes {
		if missing[i] == 0 {
			heap.Push(r, i)
		}
	}
	order := make([]int, 0, n)
	for r.Len() > 0 {
		i := heap.Pop(r).(int)
		order = append(order, i)
		for _, x := range s.g.Nodes[i].Outputs {
			for _, c := range s.readers[x] {
				if missing[c]--; missing[c] == 0 {
					if rule == 2 {
						r.key[c] = -int64(len(order))
					}
					heap.Push(r, c)
				}
			}
		}
	}
	return order
}

// improve moves nodes near the peak: each node before the peak as late as possible, and each after it as early as
// possible, keeping what lowers the cost, until nothing does or the steps are spent.
func (s *orderer) improve(ctx context.Context, best []int, top *cost, steps int, result *Ordering, try func([]int) bool) error {
	work := make([]int, len(best))
	for result.Evaluated < steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		better := false
		for i, n := range best {
			s.pos[n] = i
		}
		peak := top.at
		for _, from := range s.candidates(best, peak) {
			lo, hi := s.window(best, from)
			for _, to := range []int{hi, peak, lo, peak + 1} {
				if to < lo || to > hi || to == from || result.Evaluated >= steps {
					continue
				}
				copy(work, best)
				move(work, from, to)
				if try(work) {
					better = true
					break
				}
			}
			if better {
				break
			}
		}
		if !better {
			return nil
		}
		c := s.evaluate(best)
		top.at = c.at
	}
	return nil
}

// candidates returns positions worth moving: makers of values alive at the peak, and readers of them, nearest first.
func (s *orderer) candidates(order []int, peak int) []int {
	var out []int
	for d := 0; d < len(order) && len(out) < 128; d++ {
		if p := peak - d; p >= 0 {
			out = append(out, p)
		}
		if p := peak + d; d > 0 && p < len(order) {
			out = append(out, p)
		}
	}
	return out
}

// window returns the positions between which the node at from may move.
func (s *orderer) window(order []int, from int) (lo, hi int) {
	n := &s.g.Nodes[order[from]]
	lo, hi = 0, len(order)-1
	for _, x := range n.Inputs {
		if m := s.maker[x]; m >= 0 {
			lo = max(lo, s.pos[m]+1)
		}
	}
	for _, x := range n.Outputs {
		for _, c := range s.readers[x] {
			hi = min(hi, s.pos[c]-1)
		}
	}
	return lo, hi
}

// move takes the element at from to position to.
func move(list []int, from, to int) {
	x := list[from]
	if from < to {
		copy(list[from:to], list[from+1:to+1])
	} else {
		copy(list[to+1:from+1], list[to:from])
	}
	list[to] = x
}
