package choose

import (
	"container/heap"
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

// planner finds an order in which to eliminate variables.
type planner struct {
	m      *model
	inside func(v int32) bool // that v is one of them
	near   map[int32][]int32  // sorted
	limit  int
	total  int
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
func (p *planner) order(ctx context.Context, core []int32) ([]int32, bool, error) {
	p.near = map[int32][]int32{}
	for _, v := range core {
		for h := p.m.head[v]; h >= 0; h = p.m.next[h] {
			if w := p.m.node[h^1]; p.inside(w) {
				p.near[v] = append(p.near[v], w)
			}
		}
		slices.Sort(p.near[v])
		p.near[v] = slices.Compact(p.near[v])
	}
	var next waiting
	for _, v := range core {
		next = append(next, sized{p.size(v), v})
	}
	heap.Init(&next)
	done := map[int32]bool{}
	var order []int32
	for k := 0; len(order) < len(core); k++ {
		if k%64 == 0 && ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		x := heap.Pop(&next).(sized)
		if done[x.v] || p.size(x.v) != x.size {
			continue // its size has changed since
		}
		p.total += x.size
		if x.size > p.limit || p.total > maxCells {
			return nil, false, nil
		}
		done[x.v] = true
		order = append(order, x.v)
		around := p.near[x.v]
		for _, w := range around {
			list := slices.Concat(p.near[w], around)
			slices.Sort(list)
			list = slices.Compact(list)
			p.near[w] = slices.DeleteFunc(list, func(u int32) bool { return u == x.v || u == w })
		}
		for _, w := range around {
			heap.Push(&next, sized{p.size(w), w})
		}
		delete(p.near, x.v)
	}
	return order, true, nil
}

// sized is a variable with the entries of the table that eliminating it makes.
type sized struct {
	size int
	v    int32
}

// waiting is a heap of variables, the smallest table first, then the lowest number.
type waiting []sized

func (w waiting) Len() int { return len(w) }
func (w waiting) Less(i, j int) bool {
	return w[i].size < w[j].size || w[i].size == w[j].size && w[i].v < w[j].v
}
func (w waiting) Swap(i, j int) { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *waiting) Push(x any) { *w = append(*w, x.(sized)) }

// Pop implements heap.Interface.
func (w *waiting) Pop() any {
	x := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return x
}

// exact finds the best labels of a core by eliminating its variables with tables over several; false where these would be too
// large. It adds the cost to the model's.
func (m *model) exact(ctx context.Context, core []int32, labels []int32, limit int) (bool, error) {
	if len(core) > maxCore || limit <= 0 {
		return false, nil
	}
	cost, ok, err := m.tables(ctx, core, labels, limit, func(int32) bool { return true })
	if ok {
		m.base = sum(m.base, cost)
	}
	return ok, err
}

// tables finds the best labels of some variables, those inside, given those of all others. It returns what they cost; false where
// it would take larger tables than that.
func (m *model) tables(ctx context.Context, vars []int32, labels []int32, limit int, inside func(v int32) bool) (int64, bool, error) {
	p := planner{m: m, inside: inside, limit: min(limit, maxTable)}
	order, ok, err := p.order(ctx, vars)
	if !ok {
		return 0, false, err
	}
	buckets := make(map[int32][]*factor, len(vars))
	for _, v := range vars {
		own := m.unary[v]
		for h := m.head[v]; h >= 0; h = m.next[h] {
			w := m.node[h^1]
			if !inside(w) {
				if &own[0] == &m.unary[v][0] {
					own = slices.Clone(own)
				}
				d := m.end(h)
				m.given(own, &d, labels[w])
				continue
			}
			if h&1 == 0 {
				f := &factor{[]int32{v, w}, m.tab[h>>1]}
				buckets[v] = append(buckets[v], f)
				buckets[w] = append(buckets[w], f)
			}
		}
		buckets[v] = append(buckets[v], &factor{[]int32{v}, own})
	}
	total := int64(0)
	used := make([][]*factor, len(order))
	for i, v := range order {
		used[i] = buckets[v]
		delete(buckets, v)
		f, err := m.project(ctx, v, used[i])
		if err != nil {
			return 0, false, err
		}
		if len(f.vars) == 0 {
			total = sum(total, f.t[0])
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
	return total, true, nil
}

// given adds what each label costs with a neighbour's.
func (m *model) given(own []int64, d *end, label int32) {
	for x := range own {
		own[x] = sum(own[x], d.at(int32(x), label))
	}
}

// Bounds of windows.
const (
	windowVars  = 14
	windowTable = 1 << 12
	windowCore  = 3000 // variables of a core
	windowRuns  = 6    // sweeps over it
)

// windows makes the labels of a core better by exact elimination of small parts of it, with all else as it is: those around each
// variable in turn, until none changes.
func (m *model) windows(ctx context.Context, core []int32, labels []int32) error {
	if len(core) > windowCore {
		return nil
	}
	in := make([]bool, len(m.unary))
	for range windowRuns {
		changed := false
		for _, seed := range core {
			if err := ctx.Err(); err != nil {
				return err
			}
			vars := []int32{seed}
			in[seed] = true
			for k := 0; k < len(vars) && len(vars) < windowVars; k++ {
				for h := m.head[vars[k]]; h >= 0 && len(vars) < windowVars; h = m.next[h] {
					if w := m.node[h^1]; !in[w] {
						in[w] = true
						vars = append(vars, w)
					}
				}
			}
			better, err := m.window(ctx, vars, labels, in)
			if err != nil {
				return err
			}
			changed = changed || better
			for _, v := range vars {
				in[v] = false
			}
		}
		if !changed {
			break
		}
	}
	return nil
}

// window eliminates the variables of one window, fewer where the tables are too large. It reports whether that made the sum less.
func (m *model) window(ctx context.Context, vars []int32, labels []int32, in []bool) (bool, error) {
	for n := len(vars); n > 1; n = n * 2 / 3 {
		part := vars[:n]
		for _, v := range vars[n:] {
			in[v] = false
		}
		before := m.within(part, labels, in)
		was := make([]int32, n)
		for k, v := range part {
			was[k] = labels[v]
		}
		cost, ok, err := m.tables(ctx, part, labels, windowTable, func(v int32) bool { return in[v] })
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		if cost < before {
			return true, nil
		}
		for k, v := range part {
			labels[v] = was[k]
		}
		return false, nil
	}
	return false, nil
}

// within returns what the variables inside cost, with their tables to all neighbours.
func (m *model) within(vars []int32, labels []int32, in []bool) int64 {
	total := int64(0)
	for _, v := range vars {
		total = sum(total, m.unary[v][labels[v]])
		for h := m.head[v]; h >= 0; h = m.next[h] {
			if d := m.end(h); !in[d.v] || h&1 == 0 {
				total = sum(total, d.at(labels[v], labels[d.v]))
			}
		}
	}
	return total
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
func (m *model) cores(ctx context.Context) ([][]int32, error) {
	var out [][]int32
	seen := make([]bool, len(m.unary))
	for v := range m.unary {
		if m.gone[v] || seen[v] {
			continue
		}
		core := []int32{int32(v)}
		seen[v] = true
		for i := 0; i < len(core); i++ {
			if i%often == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
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
	return out, nil
}
