package memplan

// setArena holds sets of items as bits, on a stack. A set is named by its
// position; set 0 is empty. Sets named by several items need no copies, and a
// union over many items reads each set once.
type setArena struct {
	words int
	bits  []uint64
	seen  []int32 // per set: number of the last union that read it
	round int32
}

func newSetArena(items int32) *setArena {
	a := &setArena{words: max(1, int(items+63)/64)}
	a.push()
	return a
}

// size is the number of sets; drop returns to it.
func (a *setArena) size() int32 { return int32(len(a.seen)) }

func (a *setArena) drop(size int32) {
	a.seen = a.seen[:size]
	a.bits = a.bits[:int(size)*a.words]
}

// push adds an empty set.
func (a *setArena) push() int32 {
	for range a.words {
		a.bits = append(a.bits, 0)
	}
	a.seen = append(a.seen, 0)
	return int32(len(a.seen)) - 1
}

// pushCopy adds a copy of set x.
func (a *setArena) pushCopy(x int32) int32 {
	id := a.push()
	copy(a.set(id), a.set(x))
	return id
}

// set returns the bits of x, valid until the next push.
func (a *setArena) set(x int32) []uint64 {
	from := int(x) * a.words
	return a.bits[from : from+a.words : from+a.words]
}

// begin starts a union of many sets into one.
func (a *setArena) begin() {
	if a.round++; a.round < 0 {
		clear(a.seen[:cap(a.seen)])
		a.round = 1
	}
}

// unite adds set x to dst, unless it was read since begin.
func (a *setArena) unite(dst []uint64, x int32) {
	if a.seen[x] == a.round {
		return
	}
	a.seen[x] = a.round
	union(dst, a.set(x))
}

// union adds src to dst.
func union(dst, src []uint64) {
	for i, w := range src {
		dst[i] |= w
	}
}

func addItem(set []uint64, b int32)      { set[b>>6] |= 1 << (b & 63) }
func removeItem(set []uint64, b int32)   { set[b>>6] &^= 1 << (b & 63) }
func hasItem(set []uint64, b int32) bool { return set[b>>6]>>(b&63)&1 != 0 }
