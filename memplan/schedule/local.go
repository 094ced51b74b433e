package schedule

import "container/heap"

// searchWhole looks for a better order of the whole graph: list schedules, then moves of single nodes, while the budget
// lasts. best and top are the order to beat and its cost.
func (s *orderer) searchWhole(best []int, top *cost) error {
	first := top.peak
	try := func(order []int) bool {
		c := s.evaluate(order)
		if c.peak > top.peak || c.peak == top.peak && (c.sum >= top.sum || top.peak == first) {
			return false
		}
		*top = c
		copy(best, order)
		return true
	}
	for rule := range greedyRules {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		try(s.greedy(rule))
	}
	return s.improve(best, top, try)
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
// against its shares of what it reads, rule 1 is what it makes, rule 2 prefers readers of the newest values.
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
				root := s.root[x]
				r.key[i] -= s.g.Bytes[root] / int64(s.total[root])
			}
		}
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

// improve moves nodes near the peak: as late and as early as they may run, and to either side of the peak, keeping what
// lowers the cost, until nothing does or the budget is spent.
func (s *orderer) improve(best []int, top *cost, try func([]int) bool) error {
	work := make([]int, len(best))
	for better := true; better; {
		better = false
		if err := s.ctx.Err(); err != nil {
			return err
		}
		for i, n := range best {
			s.pos[n] = i
		}
		for _, from := range nearest(top.at, len(best)) {
			lo, hi := s.window(best, from)
			for _, to := range []int{hi, top.at, lo, top.at + 1} {
				if to < lo || to > hi || to == from {
					continue
				}
				if s.steps >= s.budget {
					return nil
				}
				if err := s.ctx.Err(); err != nil {
					return err
				}
				copy(work, best)
				move(work, from, to)
				if better = try(work); better {
					break
				}
			}
			if better {
				break
			}
		}
	}
	return nil
}

// nearest returns the positions around peak, nearest first, at most 128 of n.
func nearest(peak, n int) []int {
	var out []int
	for d := 0; d < n && len(out) < 128; d++ {
		if p := peak - d; p >= 0 {
			out = append(out, p)
		}
		if p := peak + d; d > 0 && p < n {
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
