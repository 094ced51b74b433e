package forest

import (
	"math"
	"unsafe"
)

// Aggregate is how the votes of all trees for a target become its score.
type Aggregate uint8

// The aggregates, in the order of TreeEnsemble's enumeration.
const (
	Average Aggregate = iota
	Sum
	Min
	Max
)

// Features returns how many columns a row needs at least.
func (t *Trees[T]) Features() int { return t.features }

// Len returns the number of trees.
func (t *Trees[T]) Len() int { return len(t.roots) }

// Nanos returns about what a row takes, in nanoseconds: by kernels, or where nodes come from the second cache, four walks being under way.
func (t *Trees[T]) Nanos() float64 {
	if t.packed != nil {
		return 0.7 * t.visits
	}
	return 2 * t.visits
}

// step returns where a walk goes from node i. Compile has checked that branches lead to nodes, and Add that rows have all
// features, so that nothing is checked here.
func step[T float32 | float64](nodes *flat[T], row *T, i int32) int32 {
	n := (*flat[T])(unsafe.Add(unsafe.Pointer(nodes), uintptr(uint32(i))*unsafe.Sizeof(*nodes)))
	x := *(*T)(unsafe.Add(unsafe.Pointer(row), uintptr(uint32(n.feature&^nanYes))*unsafe.Sizeof(*row)))
	var mask int32 // -1 for yes: a number and no branch, which no processor could foresee
	if x <= n.split {
		mask = 1
	}
	mask = -mask
	if x != x && n.feature < 0 { // foreseen: there are few
		mask = -1
	}
	return n.no ^ (n.no^n.yes)&mask
}

// Begin sets scores [rows, targets] to what no votes give.
func (t *Trees[T]) Begin(scores []float64, a Aggregate) {
	v := 0.0
	switch a {
	case Min:
		v = math.Inf(1)
	case Max:
		v = math.Inf(-1)
	case Average, Sum:
		clear(scores)
		return
	}
	for i := range scores {
		scores[i] = v
	}
}

// Add walks trees [lo, hi) with some rows, which lie pitch elements apart, and adds their votes to scores [rows, targets]. Rows
// have at least Features elements, or Add panics. The votes of a row are added in the order of the trees.
func (t *Trees[T]) Add(scores []float64, rows []T, n, pitch int, a Aggregate, lo, hi int) {
	if t.features == 0 { // leaves alone, which read element 0: rows may be empty
		rows, pitch = make([]T, 1), 0
	}
	if n > 0 && (pitch < 0 || len(rows) < (n-1)*pitch+max(t.features, 1)) {
		panic("forest: rows without all features")
	}
	if t.packed != nil {
		t.addPacked(scores, unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(rows))), len(rows)), n, pitch, a, lo, hi)
		return
	}
	if n < 4 {
		for r := range n {
			t.across(scores[r*t.targets:][:t.targets], &rows[r*pitch], a, lo, hi)
		}
		return
	}
	nodes := unsafe.SliceData(t.nodes)
	for _, root := range t.roots[lo:hi] {
		r := 0
		for ; r+4 <= n; r += 4 {
			at := [4]int32{root, root, root, root}
			walk4(nodes, &rows[r*pitch], &rows[(r+1)*pitch], &rows[(r+2)*pitch], &rows[(r+3)*pitch], &at)
			if t.single && a <= Sum {
				s := scores[r : r+4 : r+4]
				s[0] += float64(t.nodes[at[0]].split)
				s[1] += float64(t.nodes[at[1]].split)
				s[2] += float64(t.nodes[at[2]].split)
				s[3] += float64(t.nodes[at[3]].split)
				continue
			}
			for k, i := range at {
				t.vote(scores[(r+k)*t.targets:][:t.targets], i, a)
			}
		}
		for ; r < n; r++ {
			t.vote(scores[r*t.targets:][:t.targets], walk(nodes, &rows[r*pitch], root), a)
		}
	}
}

// across walks trees with one row, four of them side by side.
func (t *Trees[T]) across(scores []float64, row *T, a Aggregate, lo, hi int) {
	roots, nodes := t.roots[lo:hi], unsafe.SliceData(t.nodes)
	for ; len(roots) >= 4; roots = roots[4:] {
		at := [4]int32(roots)
		walk4(nodes, row, row, row, row, &at)
		for _, i := range at {
			t.vote(scores, i, a)
		}
	}
	for _, root := range roots {
		t.vote(scores, walk(nodes, row, root), a)
	}
}

func walk[T float32 | float64](nodes *flat[T], row *T, i int32) int32 {
	for {
		next := step(nodes, row, i)
		if next == i {
			return i
		}
		i = next
	}
}

// walk4 goes on until none of four walks moves.
func walk4[T float32 | float64](nodes *flat[T], r0, r1, r2, r3 *T, at *[4]int32) {
	a, b, c, d := at[0], at[1], at[2], at[3]
	for {
		na, nb, nc, nd := step(nodes, r0, a), step(nodes, r1, b), step(nodes, r2, c), step(nodes, r3, d)
		if (na^a)|(nb^b)|(nc^c)|(nd^d) == 0 {
			break
		}
		a, b, c, d = na, nb, nc, nd
	}
	at[0], at[1], at[2], at[3] = a, b, c, d
}

// vote adds the votes of a leaf.
func (t *Trees[T]) vote(scores []float64, leaf int32, a Aggregate) {
	if t.single {
		scores[0] = a.with(scores[0], float64(t.nodes[leaf].split))
		return
	}
	votes := t.votes[t.votesAt[leaf]:t.votesAt[leaf+1]]
	if a <= Sum {
		for _, v := range votes {
			scores[v.Target] += v.Weight
		}
		return
	}
	for _, v := range votes {
		scores[v.Target] = a.with(scores[v.Target], v.Weight)
	}
}

func (a Aggregate) with(score, weight float64) float64 {
	switch a {
	case Min:
		return math.Min(score, weight)
	case Max:
		return math.Max(score, weight)
	case Average, Sum:
	}
	return score + weight
}

// Merge adds scores of other trees to scores of the same rows.
func (a Aggregate) Merge(scores, others []float64) {
	for i, x := range others {
		scores[i] = a.with(scores[i], x)
	}
}

// End turns what Begin and Add made into scores: the mean for Average, 0 for targets without votes, and base values added, one
// for each target, one for all, or none.
func (t *Trees[T]) End(scores []float64, a Aggregate, base []float64) {
	if a == Sum && len(base) == 0 {
		return
	}
	for i := range scores {
		if (a == Min || a == Max) && math.IsInf(scores[i], 0) {
			scores[i] = 0
		}
		if a == Average {
			scores[i] /= float64(max(len(t.roots), 1))
		}
		if len(base) > 0 {
			scores[i] += base[i%t.targets%len(base)]
		}
	}
}
