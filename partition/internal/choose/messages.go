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
	order []int32   // variables by place
	arcs  [][]arc   // of each variable, by rank
	gamma []float64 // by rank
	hard  float64

	theta []float64 // of the variable at hand
	bound float64
	best  []int32 // labels by rank
	least float64
}

// arc is an edge as one of its ends sees it.
type arc struct {
	to  int32 // rank
	d   end
	msg []float64 // the latest message along the edge, in either direction
}

func newPassing(m *model, core []int32, hard int64) *passing {
	p := &passing{m: m, order: slices.Clone(core), hard: float64(hard), least: math.Inf(1)}
	slices.SortStableFunc(p.order, func(a, b int32) int { return cmp.Compare(m.place[a], m.place[b]) })
	if m.rank == nil {
		m.rank, m.message = make([]int32, len(m.unary)), make([][]float64, len(m.tab))
	}
	widest := 0
	for i, v := range p.order {
		m.rank[v] = int32(i)
		widest = max(widest, len(m.unary[v]))
	}
	p.arcs, p.gamma = make([][]arc, len(core)), make([]float64, len(core))
	p.theta, p.best = make([]float64, widest), make([]int32, len(core))
	for i, v := range p.order {
		before, after := 0, 0
		list := make([]arc, 0, m.deg[v])
		for h := m.head[v]; h >= 0; h = m.next[h] {
			d := m.end(h)
			to := m.rank[d.v]
			a := arc{to: to, d: d}
			if int(to) < i {
				before++
				a.msg = m.message[h>>1]
			} else {
				after++
				a.msg = make([]float64, max(len(m.unary[v]), len(m.unary[d.v])))
				m.message[h>>1] = a.msg
			}
			list = append(list, a)
		}
		slices.SortFunc(list, func(a, b arc) int { return cmp.Compare(a.to, b.to) })
		p.arcs[i], p.gamma[i] = list, 1/float64(max(before, after, 1))
	}
	return p
}

// float returns a cost as message passing counts it.
func (p *passing) float(c int64) float64 { return min(float64(c), p.hard) }

// forward passes messages on along the order and makes a choice on the way: each variable takes its best label given those of
// the variables before it and what those behind it have sent.
func (p *passing) forward(ctx context.Context) error {
	labels := make([]int32, len(p.order))
	total := 0.0
	for i := range p.order {
		if i%512 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		u := p.m.unary[p.order[i]]
		best, least := int32(0), math.Inf(1)
		for x := range u {
			own := p.float(u[x])
			c := own
			for k := range p.arcs[i] {
				if a := &p.arcs[i][k]; int(a.to) < i {
					t := p.float(a.d.at(int32(x), labels[a.to]))
					own += t
					c += t
				} else {
					c += a.msg[x]
				}
			}
			if c < least {
				best, least = int32(x), c
			}
		}
		labels[i] = best
		total += p.float(u[best])
		for k := range p.arcs[i] {
			if a := &p.arcs[i][k]; int(a.to) < i {
				total += p.float(a.d.at(best, labels[a.to]))
			}
		}
		p.send(i, true)
	}
	if total < p.least {
		p.least = total
		copy(p.best, labels)
	}
	return nil
}

// backward passes messages back, and renews the bound.
func (p *passing) backward(ctx context.Context) error {
	bound := 0.0
	for i := len(p.order) - 1; i >= 0; i-- {
		if i%512 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		bound += p.send(i, false)
	}
	p.bound = max(p.bound, bound)
	return nil
}

// send sends the messages of the variable at a rank to those behind it, or before it. It returns what was taken off.
func (p *passing) send(i int, forth bool) float64 {
	u := p.m.unary[p.order[i]]
	theta := p.theta[:len(u)]
	for x := range u {
		theta[x] = p.float(u[x])
	}
	for k := range p.arcs[i] {
		for x, c := range p.arcs[i][k].msg[:len(u)] {
			theta[x] += c
		}
	}
	off := slices.Min(theta)
	for x := range theta {
		theta[x] = (theta[x] - off) * p.gamma[i]
	}
	for k := range p.arcs[i] {
		a := &p.arcs[i][k]
		if int(a.to) > i != forth {
			continue
		}
		off += p.update(theta, a)
	}
	return off
}

// update replaces the message that came along an edge by the one that goes back. It returns what was taken off.
func (p *passing) update(theta []float64, a *arc) float64 {
	n := len(p.m.unary[a.d.v])
	var buffer [128]float64
	out := buffer[:0]
	if n > len(buffer) {
		out = make([]float64, 0, n)
	}
	out = out[:n]
	for y := range out {
		out[y] = math.Inf(1)
	}
	for x := range theta {
		base := theta[x] - a.msg[x]
		at := int32(x) * a.d.by
		for y := range out {
			c := a.d.t[at]
			at += a.d.per
			if v := base + min(float64(c), p.hard); v < out[y] {
				out[y] = v
			}
		}
	}
	off := slices.Min(out)
	for y := range out {
		a.msg[y] = out[y] - off
	}
	return off
}
