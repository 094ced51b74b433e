package dag

import "slices"

// work holds the memory of one call of Group: lists that a step no longer needs serve the next one.
type work struct {
	free [][]int32
	// labels and list serve the one merger that there is at a time.
	labels []int64
	list   []candidate
	steps  int64 // search steps that may still be spent
	short  bool  // a search was given up for want of steps
}

// take returns a list of n items with undefined contents.
func (w *work) take(n int32) []int32 {
	best := -1
	for i, s := range w.free {
		if cap(s) >= int(n) && (best < 0 || cap(s) < cap(w.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return make([]int32, n)
	}
	s := w.free[best]
	w.free = slices.Delete(w.free, best, best+1)
	return s[:n]
}

// give returns lists to the stock. Nil lists are ignored.
func (w *work) give(lists ...[]int32) {
	for _, s := range lists {
		if cap(s) > 0 {
			w.free = append(w.free, s[:0])
		}
	}
}

// find returns the root of v and shortens the path to it.
func find(parent []int32, v int32) int32 {
	for parent[v] != v {
		parent[v] = parent[parent[v]]
		v = parent[v]
	}
	return v
}

// unite joins the sets of u and v under the lower root and reports whether they were two.
func unite(parent []int32, u, v int32) bool {
	u, v = find(parent, u), find(parent, v)
	if u == v {
		return false
	}
	if v < u {
		u, v = v, u
	}
	parent[v] = u
	return true
}

// singletons makes every item a set of its own.
func singletons(parent []int32) {
	for i := range parent {
		parent[i] = int32(i)
	}
}
