package choose

import (
	"context"
	"slices"
)

// factor is a table over several variables; the labels of the last one lie together.
type factor struct {
	vars []int32
	t    []int64
}

// Bounds of the exact elimination of a core.
const (
	maxCore  = 4096    // variables
	maxCells = 1 << 23 // of all tables together
	maxTable = 1 << 18 // of one
)

// planner finds an order in which to eliminate a core's variables.
type planner struct {
	m     *model
	near  map[int32][]int32 // sorted
	limit int
	total int
}

// size returns the entries of the table that eliminating v makes, at most a bit above the limit.
func (p *planner) size(v int32) int {
	n := 1
	for _, w := range p.near[v] {
		if n *= len(p.m.unary[w]); n > p.limit {
			return n
		}
	}
	return n
}

// order returns an order of elimination whose tables are within bounds; false where it found none. Next comes the variable that
// makes the smallest table, the first of them.
func (p *planner) order(core []int32) ([]int32, bool) {
	p.near = map[int32][]int32{}
	for _, v := range core {
		for h := p.m.head[v]; h >= 0; h = p.m.next[h] {
			p.near[v] = append(p.near[v], p.m.node[h^1])
		}
		slices.Sort(p.near[v])
		p.near[v] = slices.Compact(p.near[v])
	}
	sizes := make(map[int32]int, len(core))
	for _, v := range core {
		sizes[v] = p.size(v)
	}
	left := slices.Clone(core)
	var order []int32
	for len(left) > 0 {
		at := 0
		for i, v := range left {
			if sizes[v] < sizes[left[at]] {
				at = i
			}
		}
		v := left[at]
		p.total += sizes[v]
		if sizes[v] > p.limit || p.total > maxCells {
			return nil, false
		}
		left = slices.Delete(left, at, at+1)
		order = append(order, v)
		around := p.near[v]
		for _, w := range around {
			list := slices.Concat(p.near[w], around)
			slices.Sort(list)
			list = slices.Compact(list)
			p.near[w] = slices.DeleteFunc(list, func(u int32) bool { return u == v || u == w })
		}
		for _, w := range around {
			sizes[w] = p.size(w)
		}
		delete(p.near, v)
	}
	return order, true
}

// exact finds the best labels of a core by eliminating its variables with tables over several; false where these would be too
// large. It adds the cost to the model's.
func (m *model) exact(ctx context.Context, core []int32, labels []int32, limit int) (bool, error) {
	if len(core) > maxCore || limit <= 0 {
		return false, nil
	}
	p := planner{m: m, limit: min(limit, maxTable)}
	order, ok := p.order(core)
	if !ok {
		return false, nil
	}
	buckets := make(map[int32][]*factor, len(core))
	for _, v := range core {
		buckets[v] = append(buckets[v], &factor{[]int32{v}, m.unary[v]})
		for h := m.head[v]; h >= 0; h = m.next[h] {
			if h&1 == 0 {
				f := &factor{[]int32{v, m.node[h^1]}, m.tab[h>>1]}
				buckets[v] = append(buckets[v], f)
				buckets[f.vars[1]] = append(buckets[f.vars[1]], f)
			}
		}
	}
	used := make([][]*factor, len(order))
	for i, v := range order {
		used[i] = buckets[v]
		delete(buckets, v)
		f, err := m.project(ctx, v, used[i])
		if err != nil {
			return false, err
		}
		if len(f.vars) == 0 {
			m.base = sum(m.base, f.t[0])
		}
		for _, g := range used[i] {
			for _, w := range g.vars {
				if w != v {
					buckets[w] = slices.DeleteFunc(buckets[w], func(x *factor) bool { return x == g })
				}
			}
		}
		for _, w := range f.vars {
			buckets[w] = append(buckets[w], f)
		}
	}
	for i := len(order) - 1; i >= 0; i-- {
		v := order[i]
		best, least := int32(0), 2*Hard
		for k := range m.unary[v] {
			labels[v] = int32(k)
			c := int64(0)
			for _, f := range used[i] {
				c = sum(c, f.t[m.index(f, labels)])
			}
			if c < least {
				best, least = int32(k), c
			}
		}
		labels[v] = best
	}
	return true, nil
}

// index returns where a factor has the cost of these labels.
func (m *model) index(f *factor, labels []int32) int {
	at := 0
	for _, v := range f.vars {
		at = at*len(m.unary[v]) + int(labels[v])
	}
	return at
}

// project returns the least sum of factors over the labels of v, as a factor of their other variables.
func (m *model) project(ctx context.Context, v int32, fs []*factor) (*factor, error) {
	out := &factor{}
	for _, f := range fs {
		out.vars = append(out.vars, f.vars...)
	}
	slices.Sort(out.vars)
	out.vars = slices.DeleteFunc(slices.Compact(out.vars), func(w int32) bool { return w == v })
	size := 1
	for _, w := range out.vars {
		size *= len(m.unary[w])
	}
	out.t = make([]int64, size)
	strides, of := make([][]int, len(fs)), make([]int, len(fs)) // of out's variables, and of v, in each factor
	for i, f := range fs {
		strides[i] = make([]int, len(out.vars))
		n := 1
		for k := len(f.vars) - 1; k >= 0; k-- {
			if f.vars[k] == v {
				of[i] = n
			} else {
				strides[i][slices.Index(out.vars, f.vars[k])] = n
			}
			n *= len(m.unary[f.vars[k]])
		}
	}
	at, digits := make([]int, len(fs)), make([]int, len(out.vars))
	for cell := range out.t {
		if cell%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		least := Hard
		for k := range m.unary[v] {
			c := int64(0)
			for i, f := range fs {
				if c = c + f.t[at[i]+k*of[i]]; c >= least {
					break
				}
			}
			least = min(least, c)
		}
		out.t[cell] = least
		for d := len(digits) - 1; d >= 0; d-- {
			digits[d]++
			wrap := digits[d] == len(m.unary[out.vars[d]])
			for i := range fs {
				at[i] += strides[i][d]
				if wrap {
					at[i] -= strides[i][d] * digits[d]
				}
			}
			if !wrap {
				break
			}
			digits[d] = 0
		}
	}
	return out, nil
}

// cores returns the variables that are left, by connected component, each in the order of numbers.
func (m *model) cores() [][]int32 {
	var out [][]int32
	seen := make([]bool, len(m.unary))
	for v := range m.unary {
		if m.gone[v] || seen[v] {
			continue
		}
		core := []int32{int32(v)}
		seen[v] = true
		for i := 0; i < len(core); i++ {
			for h := m.head[core[i]]; h >= 0; h = m.next[h] {
				if w := m.node[h^1]; !seen[w] {
					seen[w] = true
					core = append(core, w)
				}
			}
		}
		slices.Sort(core)
		out = append(out, core)
	}
	return out
}
