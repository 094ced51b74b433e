package schedule

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
)

// class is memory that a segment's nodes touch.
type class struct {
	bytes   int64
	alive   bool  // before the segment
	beyond  int   // reads after the segment
	readers []int // nodes of the segment, once per read
	makers  []int
}

// local is a node of a segment in terms of its classes.
type local struct {
	reads     []read
	makes     []int
	overwrite []int // classes that the first output may take; nil where it may none
	first     int   // class of the first output where it is that value's own, -1 otherwise
	work      int64
	before    []int // nodes of the segment that have to be done first, once each
	after     []int // nodes that wait for it, once each
}

type read struct{ class, times int }

// beam searches the orders of a segment, one node after another: a state is the set of nodes that are done. With all states
// kept that is the dynamic programming of Ahn and others, Ordering chaos: memory-aware scheduling of irregularly wired neural
// networks for edge devices, MLSys 2020; a budget keeps the best.
type beam struct {
	nodes   []local
	classes []class
	words   int
	hash    []uint64
	ctx     context.Context
	floor   int64    // peaks below it are as good as it
	limit   int64    // peaks from it on are of no use
	budget  int      // places to try, at most twice that
	trail   [][]link // per level, how each of its states was reached
	slabs   [2]slab  // storage of the states of this level and of the next
}

// slab is storage of the sets and lists of one level's states.
type slab struct {
	sets  []uint64
	lists []int32
}

type link struct{ parent, node int32 }

type state struct {
	done       []uint64
	hash       uint64
	live, peak int64
	ready      []int32 // nodes that could be next, ascending
	link
}

// searchSegment returns an order of the segment with a lower peak than the default's, nil where it found none, its peak, at
// least floor, and whether no order has a lower one.
func (s *orderer) searchSegment(order []int, g segment, floor int64) (found []int, peak int64, exact bool) {
	s.evaluate(order[:g.lo])
	b := s.newBeam(order[g.lo:g.hi])
	b.ctx, b.floor, b.limit = s.ctx, floor, g.peak
	var live int64
	for i := range s.alive {
		if s.alive[i] && s.left[i] > 0 && s.root[i] == i {
			live += s.g.Bytes[i]
		}
	}
	b.budget = s.budget - s.steps
	last, tried, complete := b.run(live)
	s.steps += tried
	if last == nil {
		return nil, g.peak, complete
	}
	found = make([]int, len(b.nodes))
	at := last.link
	for level := len(b.nodes) - 1; ; level-- {
		found[level] = order[g.lo+int(at.node)]
		if level == 0 {
			break
		}
		at = b.trail[level-1][at.parent]
	}
	return found, last.peak, complete || last.peak == floor
}

// newBeam describes nodes in terms of classes. The orderer's left and alive hold what is so before the segment.
func (s *orderer) newBeam(nodes []int) *beam {
	b := &beam{nodes: make([]local, len(nodes)), words: (len(nodes) + 63) / 64, hash: make([]uint64, len(nodes))}
	index := map[int]int{}
	classOf := func(x int) int {
		r := s.root[x]
		k, ok := index[r]
		if !ok {
			k = len(b.classes)
			index[r] = k
			b.classes = append(b.classes, class{bytes: s.g.Bytes[r], alive: s.alive[r], beyond: s.left[r]})
		}
		return k
	}
	at := map[int]int{}
	seed := uint64(1)
	for i, k := range nodes {
		at[k] = i
		seed += 0x9e3779b97f4a7c15
		z := (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		b.hash[i] = z ^ z>>31
	}
	for i, k := range nodes {
		n, l := &s.g.Nodes[k], &b.nodes[i]
		l.work, l.first = n.Work, -1
		for _, x := range n.Inputs {
			if m := s.maker[x]; m >= 0 {
				if p, ok := at[m]; ok && !slices.Contains(l.before, p) {
					b.nodes[p].after = append(b.nodes[p].after, i)
					l.before = append(l.before, p)
				}
			}
			if s.g.Bytes[s.root[x]] == 0 {
				continue
			}
			c := classOf(x)
			b.classes[c].readers = append(b.classes[c].readers, i)
			b.classes[c].beyond--
			if j := slices.IndexFunc(l.reads, func(r read) bool { return r.class == c }); j >= 0 {
				l.reads[j].times++
			} else {
				l.reads = append(l.reads, read{c, 1})
			}
		}
		for j, x := range n.Outputs {
			if s.g.Bytes[s.root[x]] == 0 {
				continue
			}
			c := classOf(x)
			if !slices.Contains(l.makes, c) {
				l.makes = append(l.makes, c)
				b.classes[c].makers = append(b.classes[c].makers, i)
			}
			if j == 0 && s.root[x] == x {
				l.first = c
				for _, in := range n.Overwrite {
					if s.g.Bytes[s.root[in]] >= s.g.Bytes[x] {
						l.overwrite = append(l.overwrite, classOf(in))
					}
				}
			}
		}
	}
	return b
}

func (st *state) has(i int) bool { return st.done[i>>6]&(1<<(i&63)) != 0 }

// left returns how often a class is still read.
func (b *beam) left(st *state, c *class) int {
	n := c.beyond
	for _, i := range c.readers {
		if !st.has(i) {
			n++
		}
	}
	return n
}

func (b *beam) isAlive(st *state, c *class) bool {
	if c.alive {
		return true
	}
	for _, i := range c.makers {
		if st.has(i) {
			return true
		}
	}
	return false
}

// place returns the live bytes after node i runs in a state, and the peak up to then.
func (b *beam) place(st *state, i int) (live, peak int64) {
	n := &b.nodes[i]
	var made, saved, freed int64
	fresh := false // the first output's memory is new
	for _, c := range n.makes {
		if k := &b.classes[c]; !b.isAlive(st, k) {
			made += k.bytes
			fresh = fresh || c == n.first
			if k.beyond == 0 && len(k.readers) == 0 {
				freed += k.bytes // nobody reads it
			}
		}
	}
	for _, r := range n.reads {
		c := &b.classes[r.class]
		left := b.left(st, c)
		if left == r.times {
			if b.isAlive(st, c) || slices.Contains(n.makes, r.class) {
				freed += c.bytes
			}
			if left == 1 && fresh && slices.Contains(n.overwrite, r.class) && b.isAlive(st, c) {
				saved = b.classes[n.first].bytes
			}
		}
	}
	return st.live + made - freed, max(st.peak, st.live+made-saved+n.work)
}

// run places the nodes one after another and keeps the best states. It returns the best last state, nil where none is of
// use, the number of places tried, and whether no state that could be of use was dropped.
func (b *beam) run(live int64) (best *state, tried int, complete bool) {
	complete = true
	level := []state{{done: make([]uint64, b.words), live: live, peak: b.floor}}
	for i := range b.nodes {
		if len(b.nodes[i].before) == 0 {
			level[0].ready = append(level[0].ready, int32(i))
		}
	}
	var spare []state
	at := map[uint64]int{}
	for depth := range b.nodes {
		if tried > 2*b.budget || b.ctx.Err() != nil {
			return nil, tried, false
		}
		next, before := spare[:0], tried
		clear(at)
		b.slabs[0], b.slabs[1] = b.slabs[1], slab{b.slabs[0].sets[:0], b.slabs[0].lists[:0]}
		for p := range level {
			st := &level[p]
			for _, next32 := range st.ready {
				i := int(next32)
				tried++
				live, peak := b.place(st, i)
				if peak >= b.limit {
					continue
				}
				h := st.hash ^ b.hash[i]
				k, seen := at[h]
				if seen && !b.same(&next[k], st, i) { // two sets with one hash: keep the first
					complete = false
					continue
				}
				if seen {
					if peak < next[k].peak {
						next[k].peak, next[k].link = peak, link{int32(p), int32(i)}
					}
					continue
				}
				at[h] = len(next)
				next = append(next, b.after(st, i, state{hash: h, live: live, peak: peak, link: link{int32(p), int32(i)}}))
			}
		}
		// The width that the rest of the budget allows where the levels to come are like this one.
		perState := (tried-before)/len(level) + 1
		if width := max((b.budget-tried)/((len(b.nodes)-depth)*perState), 1); len(next) > width {
			complete = false
			slices.SortStableFunc(next, func(x, y state) int {
				if d := cmp.Compare(x.peak, y.peak); d != 0 {
					return d
				}
				return cmp.Compare(x.live, y.live)
			})
			next = next[:width]
		}
		if len(next) == 0 {
			return nil, tried, complete
		}
		links := make([]link, len(next))
		for i := range next {
			links[i] = next[i].link
			b.findReady(&level[links[i].parent], &next[i])
		}
		b.trail = append(b.trail, links)
		level, spare = next, level
	}
	best = &level[0]
	for i := range level {
		if level[i].peak < best.peak {
			best = &level[i]
		}
	}
	return best, tried, complete
}

// after fills in what is done once node i has run in state st.
func (b *beam) after(st *state, i int, next state) state {
	m := &b.slabs[1]
	m.sets = append(m.sets, st.done...)
	next.done = m.sets[len(m.sets)-b.words:]
	next.done[i>>6] |= 1 << (i & 63)
	return next
}

// findReady fills in what is ready in a state that was reached from st.
func (b *beam) findReady(st, next *state) {
	m, i := &b.slabs[1], next.node
	from := len(m.lists)
	for _, r := range st.ready {
		if r != i {
			m.lists = append(m.lists, r)
		}
	}
	for _, a := range b.nodes[i].after {
		if !slices.ContainsFunc(b.nodes[a].before, func(p int) bool { return !next.has(p) }) {
			m.lists = append(m.lists, int32(a))
		}
	}
	next.ready = m.lists[from:]
	slices.Sort(next.ready)
}

// same reports whether st is the set of prev and node i.
func (b *beam) same(st, prev *state, i int) bool {
	differ := 0
	for w := range st.done {
		differ += bits.OnesCount64(st.done[w] ^ prev.done[w])
	}
	return differ == 1 && st.has(i)
}
