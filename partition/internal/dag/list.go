package dag

// list keeps items in an order in which two of them can be compared in O(1) by their labels, and one can be put behind
// another in O(log n) amortised: where labels are too dense, the smallest surrounding range of labels that is sparse enough
// is spread evenly (Bender and others, ESA 2002).
type list struct {
	label        []int64
	next, before []int32 // -1 at the ends
	first        int32
}

// labelBits bounds labels to [0, 1<<labelBits).
const labelBits = 62

// reset makes the list 0, 1, …, n-1.
func (l *list) reset(w *work, n int32) {
	if cap(w.labels) < int(n) {
		w.labels = make([]int64, n)
	}
	l.label = w.labels[:n]
	l.next, l.before = w.take(n), w.take(n)
	gap := int64(1) << labelBits / (int64(n) + 1)
	for i := range n {
		l.label[i] = gap * int64(i+1)
		l.next[i], l.before[i] = i+1, i-1
	}
	l.first = 0
	if n == 0 {
		l.first = -1
	} else {
		l.next[n-1] = -1
	}
}

// remove takes x out.
func (l *list) remove(x int32) {
	a, b := l.before[x], l.next[x]
	if a >= 0 {
		l.next[a] = b
	} else {
		l.first = b
	}
	if b >= 0 {
		l.before[b] = a
	}
}

// insertAfter puts x, which is not in the list, behind at; at -1 means the beginning.
func (l *list) insertAfter(at, x int32) {
	lo, hi, b := l.gap(at)
	if hi-lo < 2 {
		if at >= 0 {
			l.spread(at)
		} else {
			l.spread(b)
		}
		lo, hi, b = l.gap(at)
	}
	l.label[x] = lo + (hi-lo)/2
	l.before[x], l.next[x] = at, b
	if at >= 0 {
		l.next[at] = x
	} else {
		l.first = x
	}
	if b >= 0 {
		l.before[b] = x
	}
}

// gap returns the labels around the place behind at, and the item there.
func (l *list) gap(at int32) (lo, hi int64, b int32) {
	lo, hi, b = -1, 1<<labelBits, l.first
	if at >= 0 {
		lo, b = l.label[at], l.next[at]
	}
	if b >= 0 {
		hi = l.label[b]
	}
	return lo, hi, b
}

// replace puts x, which is in the list, in the place of y, which leaves it.
func (l *list) replace(y, x int32) {
	l.remove(x)
	l.label[x], l.before[x], l.next[x] = l.label[y], l.before[y], l.next[y]
	if a := l.before[x]; a >= 0 {
		l.next[a] = x
	} else {
		l.first = x
	}
	if b := l.next[x]; b >= 0 {
		l.before[b] = x
	}
}

// spread relabels the items around at. Ranges of 2^i labels may hold up to (2/1.5)^i items.
func (l *list) spread(at int32) {
	lo, hi := at, at
	count := int64(1)
	most := 1.0
	for bits := uint(1); bits <= labelBits; bits++ {
		from := l.label[at] >> bits << bits
		to := from + 1<<bits
		for a := l.before[lo]; a >= 0 && l.label[a] >= from; a = l.before[lo] {
			lo = a
			count++
		}
		for b := l.next[hi]; b >= 0 && l.label[b] < to; b = l.next[hi] {
			hi = b
			count++
		}
		most *= 2 / 1.5
		step := (to - from) / (count + 1)
		if float64(count) > most && bits < labelBits || step < 2 {
			continue
		}
		for label := from + step; ; label += step {
			l.label[lo] = label
			if lo == hi {
				return
			}
			lo = l.next[lo]
		}
	}
}
