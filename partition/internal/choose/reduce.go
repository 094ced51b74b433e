package choose

import "context"

// step is a variable that was eliminated, with its tables to the neighbours that it had then.
type step struct {
	x    int32
	ends [2]end
}

// end is a neighbour, with the table between: by is how far apart the entries of x's next label lie, per those of the
// neighbour's.
type end struct {
	v       int32 // None where there is none
	t       table
	by, per int32
}

// at returns the cost with these labels of x and of the neighbour.
func (d *end) at(x, y int32) int64 { return d.t[x*d.by+y*d.per] }

// end returns what the other end of half-edge h, which is x's, is.
func (m *model) end(h int32) end {
	e := h >> 1
	v := m.node[h^1]
	cols := int32(len(m.unary[m.node[2*e+1]]))
	if h&1 == 0 {
		return end{v, m.tab[e], cols, 1}
	}
	return end{v, m.tab[e], 1, cols}
}

// reduce eliminates variables with at most two neighbours, and those with one label, until there are none. The order is that of
// the variables, but for those that become ready on the way, which come at once. It costs O(variables + edges) tables.
func (m *model) reduce(ctx context.Context) error {
	var ready [2][]int32 // those with less than two neighbours or one label come before others
	push := func(v int32) {
		switch {
		case m.gone[v]:
		case m.deg[v] < 2 || len(m.unary[v]) == 1:
			ready[0] = append(ready[0], v)
		case m.deg[v] == 2:
			ready[1] = append(ready[1], v)
		}
	}
	for v := range m.unary {
		push(int32(v))
	}
	for i := 0; ; i++ {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		k := 0
		if len(ready[0]) == 0 {
			k = 1
		}
		if len(ready[k]) == 0 {
			return nil
		}
		v := ready[k][len(ready[k])-1]
		ready[k] = ready[k][:len(ready[k])-1]
		if m.gone[v] || m.deg[v] > 2 && len(m.unary[v]) > 1 {
			continue
		}
		m.eliminate(v, push)
	}
}

// eliminate takes variable x out: one with one label, or with at most two neighbours.
func (m *model) eliminate(x int32, push func(v int32)) {
	m.gone[x] = true
	if len(m.unary[x]) == 1 {
		m.base = sum(m.base, m.unary[x][0])
		for h := m.head[x]; h >= 0; h = m.next[h] {
			d := m.end(h)
			for y := range m.unary[d.v] {
				m.unary[d.v][y] = sum(m.unary[d.v][y], d.at(0, int32(y)))
			}
			m.unlink(h ^ 1)
			push(d.v)
		}
		m.head[x] = -1
		m.steps = append(m.steps, step{x: x, ends: [2]end{{v: None}, {v: None}}})
		return
	}
	s := step{x: x, ends: [2]end{{v: None}, {v: None}}}
	n := 0
	for h := m.head[x]; h >= 0; h = m.next[h] {
		s.ends[n] = m.end(h)
		n++
		m.unlink(h ^ 1)
	}
	m.head[x] = -1
	m.steps = append(m.steps, s)
	switch n {
	case 0:
		least := Hard
		for _, c := range m.unary[x] {
			least = min(least, c)
		}
		m.base = sum(m.base, least)
	case 1:
		d := &s.ends[0]
		u := m.unary[d.v]
		for y := range u {
			least := Hard
			for i, c := range m.unary[x] {
				least = min(least, c+d.at(int32(i), int32(y)))
			}
			u[y] = sum(u[y], least)
		}
		push(d.v)
	case 2:
		m.fold(&s)
		push(s.ends[0].v)
		push(s.ends[1].v)
	}
}

// fold puts the table between the two neighbours of a variable in the place of it.
func (m *model) fold(s *step) {
	a, b := &s.ends[0], &s.ends[1]
	rows, cols := len(m.unary[a.v]), len(m.unary[b.v])
	t := table(m.cells.make(rows * cols))
	for i := range t {
		t[i] = Hard
	}
	zero := true
	for i, c := range m.unary[s.x] {
		if c >= Hard {
			continue
		}
		for y := range rows {
			ca := c + a.at(int32(i), int32(y))
			if ca >= Hard {
				continue
			}
			row, at := t[y*cols:(y+1)*cols], int32(i)*b.by
			for z := range row {
				row[z] = min(row[z], ca+b.t[at])
				at += b.per
			}
		}
	}
	m.normalise(t, a.v, b.v, cols)
	for _, c := range t {
		zero = zero && c == 0
	}
	if !zero {
		m.connect(a.v, b.v, t)
	}
}

// normalise moves what all entries of a row, or a column, of a table cost at least to the unary costs of its ends, so that
// tables that connect nothing become zeros.
func (m *model) normalise(t table, a, b int32, cols int) {
	for y := range m.unary[a] {
		row := t[y*cols : (y+1)*cols]
		least := Hard
		for _, c := range row {
			least = min(least, c)
		}
		shift(row, 0, 1, least)
		m.unary[a][y] = sum(m.unary[a][y], least)
	}
	for z := range cols {
		least := Hard
		for i := z; i < len(t); i += cols {
			if m.unary[a][i/cols] < Hard {
				least = min(least, t[i])
			}
		}
		if least > 0 {
			shift(t, z, cols, least)
			m.unary[b][z] = sum(m.unary[b][z], least)
		}
	}
}

// shift takes a cost off every step-th entry. Where all must not be, nothing is left of them: the unary cost says so.
func shift(t table, first, step int, by int64) {
	for i := first; i < len(t); i += step {
		switch {
		case by >= Hard || t[i] <= by:
			t[i] = 0
		case t[i] < Hard:
			t[i] -= by
		}
	}
}

// finish gives the variables that were eliminated their labels, given those of all others: the first of the best.
func (m *model) finish(ctx context.Context, labels []int32) error {
	for k := len(m.steps) - 1; k >= 0; k-- {
		if k%often == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s := &m.steps[k]
		best, least := int32(0), 2*Hard
		for i, c := range m.unary[s.x] {
			for e := range s.ends {
				if d := &s.ends[e]; d.v >= 0 {
					c += d.at(int32(i), labels[d.v])
				}
			}
			if c < least {
				best, least = int32(i), c
			}
		}
		labels[s.x] = best
	}
	return nil
}
