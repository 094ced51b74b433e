package choose

import "context"

// Bounds of windows.
const (
	windowVars  = 14
	windowTable = 1 << 12
	windowCore  = 3000 // variables of a core
	windowRuns  = 6    // sweeps over it
)

// windows are small parts of a core, each of which is solved exactly, with all else as it is.
type windows struct {
	m       *model
	labels  []int32
	solver  *elimination
	in      []bool  // by variable: it is in the window
	vars    []int32 // of the window, its seed first
	was     []int32 // labels of them
	now     int32   // counts changes
	changed []int32 // by variable: when its label changed last
	looked  []int32 // by variable: when the window around it was solved last; -1 for never
}

// windows makes the labels of a core better by exact elimination of small parts of it, with all else as it is: those around each
// variable in turn, until none changes. A part that nothing has changed in, nor around, since it was solved is left out.
func (m *model) windows(ctx context.Context, core []int32, labels []int32) error {
	if len(core) > windowCore {
		return nil
	}
	n := len(m.unary)
	w := &windows{m: m, labels: labels, solver: newElimination(m), in: make([]bool, n), changed: make([]int32, n), looked: make([]int32, n)}
	for _, v := range core {
		w.looked[v] = -1
	}
	for range windowRuns {
		before := w.now
		for _, seed := range core {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := w.around(ctx, seed); err != nil {
				return err
			}
		}
		if w.now == before {
			break
		}
	}
	return nil
}

// around solves the window around a variable.
func (w *windows) around(ctx context.Context, seed int32) error {
	m := w.m
	w.vars = append(w.vars[:0], seed)
	w.in[seed] = true
	for k := 0; k < len(w.vars) && len(w.vars) < windowVars; k++ {
		for h := m.head[w.vars[k]]; h >= 0 && len(w.vars) < windowVars; h = m.next[h] {
			if u := m.node[h^1]; !w.in[u] {
				w.in[u] = true
				w.vars = append(w.vars, u)
			}
		}
	}
	var err error
	if w.stale(seed) {
		err = w.solve(ctx)
		w.looked[seed] = w.now
	}
	for _, v := range w.vars {
		w.in[v] = false
	}
	return err
}

// stale reports whether something in the window or next to it has changed since it was solved.
func (w *windows) stale(seed int32) bool {
	looked := w.looked[seed]
	for _, v := range w.vars {
		if w.changed[v] > looked {
			return true
		}
		for h := w.m.head[v]; h >= 0; h = w.m.next[h] {
			if w.changed[w.m.node[h^1]] > looked {
				return true
			}
		}
	}
	return false
}

// solve eliminates the variables of the window, fewer where the tables are too large, and keeps the labels that come of it where the
// sum is less with them.
func (w *windows) solve(ctx context.Context) error {
	for n := len(w.vars); n > 1; n = n * 2 / 3 {
		part := w.vars[:n]
		for _, v := range w.vars[n:] {
			w.in[v] = false
		}
		before := w.within(part)
		w.was = w.was[:0]
		for _, v := range part {
			w.was = append(w.was, w.labels[v])
		}
		cost, ok, err := w.solver.solve(ctx, part, w.labels, windowTable)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if cost < before {
			w.now++
		}
		for k, v := range part {
			switch {
			case cost >= before:
				w.labels[v] = w.was[k]
			case w.labels[v] != w.was[k]:
				w.changed[v] = w.now
			}
		}
		return nil
	}
	return nil
}

// within returns what the variables inside cost, with their tables to all neighbours.
func (w *windows) within(vars []int32) int64 {
	total := int64(0)
	for _, v := range vars {
		total = sum(total, w.m.unary[v][w.labels[v]])
		for h := w.m.head[v]; h >= 0; h = w.m.next[h] {
			if d := w.m.end(h); !w.in[d.v] || h&1 == 0 {
				total = sum(total, d.at(w.labels[v], w.labels[d.v]))
			}
		}
	}
	return total
}
