package choose

import (
	"cmp"
	"context"
	"slices"
)

// facts are what the stages need of a problem beside itself: who reads and makes what, by variable, and which alternatives
// are left.
type facts struct {
	p      *Problem
	price  pricer
	makes  lists     // values by their maker
	reads  lists     // values by reader, twice where it reads twice
	joined lists     // variables by the value that they join
	alts   [][]int32 // alternatives that are left, by variable
	claims []tie     // tied's
	known  bool      // claims are
	sets   *claimed  // claimed's, nil before it is asked
	worst  worst     // of the variable that is pruned
}

// lists are lists of numbers in one piece of memory.
type lists struct{ first, of []int32 }

func (l *lists) at(i int32) []int32 { return l.of[l.first[i]:l.first[i+1]] }

// makeLists sorts pairs, which each calls its argument with in order, into n lists.
func makeLists(n int, each func(add func(list, x int32))) lists {
	l := lists{first: make([]int32, n+1)}
	each(func(list, _ int32) { l.first[list+1]++ })
	for i := range n {
		l.first[i+1] += l.first[i]
	}
	l.of = make([]int32, l.first[n])
	at := append([]int32(nil), l.first[:n]...)
	each(func(list, x int32) {
		l.of[at[list]] = x
		at[list]++
	})
	return l
}

func newFacts(ctx context.Context, p *Problem) (*facts, error) {
	f := &facts{p: p, price: pricer{p: p}, alts: make([][]int32, len(p.Vars))}
	f.makes = makeLists(len(p.Vars), func(add func(list, x int32)) {
		for i := range p.Values {
			if m := p.Values[i].Maker; m >= 0 {
				add(m, int32(i))
			}
		}
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	f.reads = makeLists(len(p.Vars), func(add func(list, x int32)) {
		for i := range p.Values {
			for k := range p.Values[i].Uses {
				add(p.Values[i].Uses[k].Var, int32(i))
			}
		}
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	f.joined = makeLists(len(p.Values), func(add func(list, x int32)) {
		for v := range p.Vars {
			if j := p.Vars[v].Joins; j >= 0 {
				add(j, int32(v))
			}
		}
	})
	total := 0
	for v := range p.Vars {
		total += len(p.Vars[v].Alts)
	}
	slab := make([]int32, 0, total)
	for v := range p.Vars {
		first := len(slab)
		for a := range p.Vars[v].Alts {
			slab = append(slab, int32(a))
		}
		f.alts[v] = slab[first:len(slab):len(slab)]
	}
	return f, ctx.Err()
}

// pruneRounds bounds how often alternatives are compared: what goes may make room for others to go.
const pruneRounds = 3

// forbidden drops alternatives that must not be, with claims of which one is such, where a variable has others.
func (f *facts) forbidden() {
	dead := map[int32]bool{}
	some := false
	for v := range f.p.Vars {
		for _, a := range f.p.Vars[v].Alts {
			if a.Cost >= Hard {
				some = true
				if a.Claim >= 0 {
					dead[a.Claim] = true
				}
			}
		}
	}
	if !some {
		return
	}
	for v := range f.alts {
		alts := f.p.Vars[v].Alts
		kept := f.alts[v][:0:0]
		for _, i := range f.alts[v] {
			if alts[i].Cost < Hard && (alts[i].Claim < 0 || !dead[alts[i].Claim]) {
				kept = append(kept, i)
			}
		}
		if len(kept) > 0 {
			f.alts[v] = kept
		}
	}
}

// prune drops alternatives that another one of the variable beats, or equals and comes before, whatever is chosen elsewhere. An
// optimum is left.
func (f *facts) prune(ctx context.Context) error {
	f.forbidden()
	for range pruneRounds {
		some := false
		for v := range f.alts {
			if v%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if len(f.alts[v]) > 1 && f.pruneVar(int32(v)) {
				some = true
			}
		}
		if !some {
			break
		}
	}
	return nil
}

func (f *facts) pruneVar(v int32) bool {
	alts, alive := f.p.Vars[v].Alts, f.alts[v]
	f.worst.begin(f, v)
	kept := alive[:0:0]
	gone := make([]bool, len(alts))
	for _, i := range alive {
		if alts[i].Claim >= 0 {
			kept = append(kept, i)
			continue
		}
		for _, j := range alive {
			if j == i || gone[j] || alts[j].Claim >= 0 {
				continue
			}
			if d := f.most(v, i, j); d < 0 || d == 0 && j < i {
				gone[i] = true
				break
			}
		}
		if !gone[i] {
			kept = append(kept, i)
		}
	}
	f.alts[v] = kept
	return len(kept) < len(alive)
}

// most returns a bound of what the sum may grow by when v changes from alternative i to j.
func (f *facts) most(v, i, j int32) int64 {
	p := f.p
	from, to := &p.Vars[v].Alts[i], &p.Vars[v].Alts[j]
	d := to.Cost - from.Cost
	if to.Color >= 0 && to.Color != from.Color {
		d += p.Launch[to.Color]
	}
	if d >= Hard/2 {
		return d
	}
	for k, value := range f.reads.at(v) {
		d = sum(d, f.mostRead(k, value, v, i, j))
	}
	for k, value := range f.makes.at(v) {
		if from.Color != to.Color && from.Color >= 0 {
			for _, w := range f.joined.at(value) {
				if f.hasColor(w, from.Color) {
					d += p.Launch[from.Color]
				}
			}
		}
		d = sum(d, f.mostMade(k, value, i, j))
	}
	return d
}

func (f *facts) hasColor(v, color int32) bool {
	for _, a := range f.alts[v] {
		if f.p.Vars[v].Alts[a].Color == color {
			return true
		}
	}
	return false
}

// worst is what the conversions of values that one variable reads and makes cost at most, by alternative: -1 for what nobody has asked
// for yet.
type worst struct {
	alts       int
	uses       []int   // by read: the first use of the value that is the variable's
	read, made []int64 // by read or result, and alternative
}

// begin forgets another variable.
func (w *worst) begin(f *facts, v int32) {
	w.alts = len(f.p.Vars[v].Alts)
	reads, makes := f.reads.at(v), f.makes.at(v)
	w.uses = w.uses[:0]
	for _, value := range reads {
		uses := f.p.Values[value].Uses
		at, _ := slices.BinarySearchFunc(uses, v, func(u Use, v int32) int { return cmp.Compare(u.Var, v) })
		w.uses = append(w.uses, at)
	}
	w.read, w.made = unknown(w.read, len(reads)*w.alts), unknown(w.made, len(makes)*w.alts)
}

// unknown returns n numbers of -1 in the memory of others.
func unknown(list []int64, n int) []int64 {
	list = slices.Grow(list[:0], n)[:n]
	for i := range list {
		list[i] = -1
	}
	return list
}

// mostRead bounds what the conversions of a value, the k-th that v reads, cost more when v reads it as alternative j does and not as i
// does.
func (f *facts) mostRead(k int, value, v, i, j int32) int64 {
	x, w := &f.p.Values[value], &f.worst
	total := int64(0)
	for at := w.uses[k]; at < len(x.Uses) && x.Uses[at].Var == v; at++ {
		u := &x.Uses[at]
		if u.Wants[i] == u.Wants[j] || u.Wants[j] == None {
			continue
		}
		if at > w.uses[k] { // it reads the value twice
			total = sum(total, f.converted(value, u.Wants[j]))
			continue
		}
		most := &w.read[k*w.alts+int(j)]
		if *most < 0 {
			*most = f.converted(value, u.Wants[j])
		}
		total = sum(total, *most)
	}
	return total
}

// converted returns what it costs at most to have a value in a state.
func (f *facts) converted(value, to int32) int64 {
	x := &f.p.Values[value]
	if x.Maker < 0 {
		return f.price.cost(int(value), x.Made[0], to)
	}
	most := int64(0)
	for _, a := range f.alts[x.Maker] {
		most = max(most, f.price.cost(int(value), x.Made[a], to))
	}
	return most
}

// mostMade bounds what the conversions of a value, the k-th of its maker, cost more when that makes it as alternative j does and not as
// i does.
func (f *facts) mostMade(k int, value, i, j int32) int64 {
	x, w := &f.p.Values[value], &f.worst
	if x.Made[i] == x.Made[j] {
		return 0
	}
	most := &w.made[k*w.alts+int(j)]
	if *most >= 0 {
		return *most
	}
	wants := append(f.price.wants[:0], x.Fixed...)
	for k := range x.Uses {
		u := &x.Uses[k]
		for _, a := range f.alts[u.Var] {
			if w := u.Wants[a]; w != None && !contains(wants, w) {
				wants = append(wants, w)
			}
		}
	}
	f.price.wants = wants
	*most = f.price.cost(int(value), x.Made[j], wants...)
	return *most
}
