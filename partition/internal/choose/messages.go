package choose

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// passing is sequential tree-reweighted message passing over a core: a bound from below, and a choice. Numbers are float64; what
// must not be costs hard, which is more than any choice that is considered.
type passing struct {
	m     *model
	order []int32 // variables by place
	arcs  [][]arc // of each variable, by rank: its place in order
	gamma []float64
	unary [][]float64
	hard  float64

	theta, base, out []float64 // of the variable at hand
	bound            float64
	open             [][]float64 // of the variables of values, by rank: costs of their labels, as a choice goes on
	best             []int32     // labels by rank
	least            float64
}

// arc is an edge as one of its ends sees it.
type arc struct {
	to   int32 // rank
	side bool  // the end is the rows of the table
	t    []float64
	msg  []float64 // the latest message along the edge, in either direction
}

// converter makes tables of float64, each once.
type converter struct {
	hard  float64
	known map[*int64][]float64
}

func (c *converter) table(t []int64) []float64 {
	out := c.known[&t[0]]
	if out == nil {
		out = make([]float64, len(t))
		for i, x := range t {
			out[i] = min(float64(x), c.hard)
		}
		c.known[&t[0]] = out
	}
	return out
}

func newPassing(ctx context.Context, m *model, core []int32, hard int64) (*passing, error) {
	p := &passing{m: m, order: slices.Clone(core), hard: float64(hard), least: math.Inf(1)}
	slices.SortStableFunc(p.order, func(a, b int32) int { return cmp.Compare(m.place[a], m.place[b]) })
	if m.rank == nil {
		m.rank, m.message = make([]int32, len(m.unary)), make([][]float64, len(m.tab))
	}
	widest, labels, edges, messages := 0, 0, 0, 0
	for i, v := range p.order {
		m.rank[v] = int32(i)
		widest = max(widest, len(m.unary[v]))
		labels += len(m.unary[v])
		edges += int(m.deg[v])
		for h := m.head[v]; h >= 0; h = m.next[h] {
			if h&1 == 0 {
				messages += max(len(m.unary[v]), len(m.unary[m.node[h^1]]))
			}
		}
	}
	p.arcs, p.gamma, p.unary = make([][]arc, len(core)), make([]float64, len(core)), make([][]float64, len(core))
	p.theta, p.base, p.out = make([]float64, widest), make([]float64, widest), make([]float64, widest)
	p.best, p.open = make([]int32, len(core)), make([][]float64, len(core))
	c := converter{p.hard, map[*int64][]float64{}}
	all, costs := make([]arc, 0, edges), make([]float64, 2*labels+messages)
	take := func(n int) []float64 {
		s := costs[:n:n]
		costs = costs[n:]
		return s
	}
	for i, v := range p.order {
		if i%often == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p.unary[i] = take(len(m.unary[v]))
		for x, cost := range m.unary[v] {
			p.unary[i][x] = min(float64(cost), p.hard)
		}
		if p.auxiliary(int32(i)) {
			p.open[i] = take(len(m.unary[v]))
		}
		before, after, first := 0, 0, len(all)
		for h := m.head[v]; h >= 0; h = m.next[h] {
			w := m.node[h^1]
			a := arc{to: m.rank[w], side: h&1 == 0, t: c.table(m.tab[h>>1])}
			if int(a.to) < i {
				before++
				a.msg = m.message[h>>1]
			} else {
				after++
				a.msg = take(max(len(m.unary[v]), len(m.unary[w])))
				m.message[h>>1] = a.msg
			}
			all = append(all, a)
		}
		p.arcs[i] = all[first:len(all):len(all)]
		slices.SortFunc(p.arcs[i], func(a, b arc) int { return cmp.Compare(a.to, b.to) })
		p.gamma[i] = 1 / float64(max(before, after, 1))
	}
	return p, nil
}

// auxiliary reports whether the variable at a rank is a value's.
func (p *passing) auxiliary(rank int32) bool { return int(p.order[rank]) >= len(p.m.f.p.Vars) }

// forward passes messages on along the order.
func (p *passing) forward(ctx context.Context) error {
	for i := range p.order {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		p.send(i, true)
	}
	return nil
}

// backward passes messages back, and renews the bound.
func (p *passing) backward(ctx context.Context) error {
	bound := 0.0
	for i := len(p.order) - 1; i >= 0; i-- {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		bound += p.send(i, false)
	}
	p.bound = max(p.bound, bound)
	return nil
}

// send sends the messages of the variable at a rank to those behind it, or before it. It returns what was taken off.
func (p *passing) send(i int, forth bool) float64 {
	theta := p.theta[:len(p.unary[i])]
	copy(theta, p.unary[i])
	for k := range p.arcs[i] {
		for x, c := range p.arcs[i][k].msg[:len(theta)] {
			theta[x] += c
		}
	}
	off := slices.Min(theta)
	for x := range theta {
		theta[x] = (theta[x] - off) * p.gamma[i]
	}
	for k := range p.arcs[i] {
		if a := &p.arcs[i][k]; int(a.to) > i == forth {
			off += p.update(theta, a)
		}
	}
	return off
}

// update replaces the message that came along an edge by the one that goes back. It returns what was taken off.
func (p *passing) update(theta []float64, a *arc) float64 {
	base := p.base[:len(theta)]
	for x := range base {
		base[x] = theta[x] - a.msg[x]
	}
	out := p.out[:len(p.unary[a.to])]
	a.least(out, base)
	off := slices.Min(out)
	for y, c := range out {
		a.msg[y] = c - off
	}
	return off
}

// least sets out[y] to the least sum of base[x] and the cost of x and y.
func (a *arc) least(out, base []float64) {
	if a.side {
		for y := range out {
			out[y] = math.Inf(1)
		}
		for x, b := range base {
			row := a.t[x*len(out):][:len(out)]
			for y, c := range row {
				if s := b + c; s < out[y] {
					out[y] = s
				}
			}
		}
		return
	}
	for y := range out {
		least := math.Inf(1)
		row := a.t[y*len(base):][:len(base)]
		for x, c := range row {
			if s := base[x] + c; s < least {
				least = s
			}
		}
		out[y] = least
	}
}

// add adds the costs of the labels y of the far end, by label of the near one, to out.
func (a *arc) add(out []float64, y int32, far int) {
	for x := range out {
		if a.side {
			out[x] += a.t[x*far+int(y)]
		} else {
			out[x] += a.t[int(y)*len(out)+x]
		}
	}
}

// round makes a choice from the messages after a pass back: variable by variable, each its best label given those before it,
// and what those behind it have sent. Those of values are decided when all others are: until then they keep the cost of each
// label, given what has been decided.
func (p *passing) round(ctx context.Context) error {
	labels := make([]int32, len(p.order))
	for i := range p.order {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		own := p.theta[:len(p.unary[i])]
		copy(own, p.unary[i])
		for k := range p.arcs[i] {
			a := &p.arcs[i][k]
			switch {
			case int(a.to) > i:
				for x := range own {
					own[x] += a.msg[x]
				}
			case p.open[a.to] == nil:
				a.add(own, labels[a.to], len(p.unary[a.to]))
			default:
				p.ask(own, a)
			}
		}
		if p.open[i] != nil {
			copy(p.open[i], own)
			continue
		}
		labels[i] = int32(slices.Index(own, slices.Min(own)))
		for k := range p.arcs[i] {
			if a := &p.arcs[i][k]; int(a.to) < i && p.open[a.to] != nil {
				p.tell(p.open[a.to], a, labels[i], len(own))
			}
		}
	}
	p.settle(labels)
	return nil
}

// ask adds what each label costs at the open variable behind an arc.
func (p *passing) ask(own []float64, a *arc) {
	vec := p.open[a.to]
	base := p.base[:len(vec)]
	for l := range base {
		base[l] = vec[l] - a.msg[l]
	}
	out := p.out[:len(own)]
	back := arc{t: a.t, side: !a.side}
	back.least(out, base)
	for x := range own {
		own[x] += out[x]
	}
}

// tell replaces what a variable has sent to an open one by the cost of its label.
func (p *passing) tell(vec []float64, a *arc, label int32, labels int) {
	for l := range vec {
		vec[l] -= a.msg[l]
	}
	back := arc{t: a.t, side: !a.side}
	back.add(vec, label, labels)
}

// settle decides open variables, and keeps the choice where it is the best so far.
func (p *passing) settle(labels []int32) {
	total := 0.0
	for i := range p.order {
		own := p.theta[:len(p.unary[i])]
		if p.open[i] != nil {
			copy(own, p.unary[i])
			for k := range p.arcs[i] {
				if a := &p.arcs[i][k]; p.open[a.to] == nil || int(a.to) < i {
					a.add(own, labels[a.to], len(p.unary[a.to]))
				}
			}
			labels[i] = int32(slices.Index(own, slices.Min(own)))
		}
	}
	for i := range p.order {
		total += p.unary[i][labels[i]]
		for k := range p.arcs[i] {
			if a := &p.arcs[i][k]; int(a.to) < i {
				x, y := int(labels[i]), int(labels[a.to])
				if a.side {
					total += a.t[x*len(p.unary[a.to])+y]
				} else {
					total += a.t[y*len(p.unary[i])+x]
				}
			}
		}
	}
	if total < p.least {
		p.least = total
		copy(p.best, labels)
	}
}

// floor returns the bound as a whole number, less what sums of float64 may be off.
func (p *passing) floor() int64 {
	if p.bound <= 0 {
		return 0
	}
	return int64(p.bound*(1-1e-9) - 1e-6)
}
