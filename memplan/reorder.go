package memplan

import (
	"math"
	"math/rand/v2"
)

// localSearch changes the orders in which items are placed greedily: it draws
// items that reach up to the height forward and shuffles the rest a little,
// and goes on from what is no higher than before. It is a function of the
// problem and of the budgets it is given, unless a context ends.
type localSearch struct {
	k     *packer
	p     *problem
	late  []tactic // still to be tried as they are
	walks []*walk
	g     *greedy
	rand  *rand.Rand
	moves int
}

func newLocalSearch(k *packer, p *problem) *localSearch {
	l := &localSearch{k: k, p: p, late: tactics[len(tacticsFor(p)):]}
	l.g = newGreedy(p)
	l.rand = rand.New(rand.NewPCG(uint64(len(p.items)), 0x72656f72646572))
	return l
}

// run spends up to budget steps; one step is one item placed.
func (l *localSearch) run(budget int64) {
	k, n := l.k, int64(len(l.p.items))
	for n > 0 && budget >= n && !k.done() && !k.h.stopped() {
		budget -= n
		k.nodes += n
		switch {
		case len(l.late) > 0:
			if height, ok := l.late[0].run(l.g, k.ceiling(), k.h); ok {
				k.accept(l.p, l.g.offs, height, l.late[0].name)
			}
			l.late = l.late[1:]
		case len(l.walks) < len(walkStarts):
			l.start(walkStarts[len(l.walks)])
		default:
			l.move()
		}
	}
}

// walkStarts are the orders that walks begin with.
var walkStarts = []struct {
	rule rule
	fit  fit
}{
	{sizeFirst, bestFit}, {birthFirst, bestFit}, {durationFirst, bestFit}, {areaFirst, firstFit},
}

// start adds a walk.
func (l *localSearch) start(from struct {
	rule rule
	fit  fit
}) {
	w := &walk{fit: from.fit, height: math.MaxInt64, offs: make([]int64, len(l.p.items))}
	if order, ok := l.g.order(from.rule, l.k.h); ok {
		l.step(w, order)
	}
	l.walks = append(l.walks, w)
}

// move takes a step of the lowest walk or, every fourth time, of any.
func (l *localSearch) move() {
	l.moves++
	w := l.walks[l.rand.IntN(len(l.walks))]
	if l.moves%4 != 0 {
		for _, v := range l.walks {
			if v.height < w.height {
				w = v
			}
		}
	}
	if w.order != nil {
		l.step(w, w.propose(l.g, l.rand))
	}
}

// step tries an order and keeps it in w unless it is higher than before.
func (l *localSearch) step(w *walk, order []int32) {
	height, ok := l.g.place(order, w.fit, w.height, l.k.h)
	if !ok {
		return
	}
	w.order, w.height = order, height
	copy(w.offs, l.g.offs)
	l.k.accept(l.p, w.offs, height, "local search")
}

// walk is an order that changes from step to step.
type walk struct {
	order  []int32
	fit    fit
	offs   []int64
	height int64
}

// propose returns a changed copy of the order: items that reach high are drawn
// forward, and in some proposals others move about.
func (w *walk) propose(g *greedy, r *rand.Rand) []int32 {
	n := len(w.order)
	depth := r.Float64()
	if r.IntN(2) == 0 {
		depth *= r.Float64() * r.Float64()
	}
	high := w.height - int64(float64(w.height-g.p.bound)*depth)
	chance, reach := 0.0, 0.0 // of an item to move, and how far
	if r.IntN(4) == 0 {
		chance = math.Exp(-r.Float64() * math.Log(float64(n)+1))
		reach = float64(n) * math.Exp(-r.Float64()*6)
	}
	keys := g.keys
	for pos, i := range w.order {
		at := float64(pos)
		switch {
		case w.offs[i]+g.p.items[i].size >= high && r.IntN(4) > 0:
			at *= r.Float64()
		case chance > 0 && r.Float64() < chance:
			at += reach * r.NormFloat64()
		}
		keys[pos] = math.Float64bits(max(0, at+1))
	}
	perm, ok := g.sorter.sort(keys, halt{})
	if !ok {
		return w.order
	}
	for k, pos := range perm {
		perm[k] = w.order[pos]
	}
	return perm
}
