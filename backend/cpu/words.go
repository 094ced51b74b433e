package cpu

import "math/bits"

// words finds strings in a table of open addresses. Few bytes of a string choose where it is looked for; where those are the same for
// too many keys it is some more of them, and then a map of Go's takes the table's place.
type words struct {
	keys   []string
	slots  []int32 // one more than the number of a key, 0 for none; a power of two of them
	closer bool    // all bytes of strings of four to seven count
	sparse map[string]int32
}

// longestSearch is how many slots a string may be looked for in.
const longestSearch = 16

// newWords maps keys to their numbers.
func newWords(keys []string, c counting) *words {
	w := &words{keys: keys, slots: make([]int32, 4<<bits.Len(uint(len(keys))))}
	for !w.enter(c) {
		if w.closer {
			w.slots, w.sparse = nil, make(map[string]int32, len(keys))
			enter(w.sparse, keys, c)
			break
		}
		w.closer = true
		clear(w.slots)
	}
	return w
}

// enter enters the keys, and reports whether each is found soon.
func (w *words) enter(c counting) bool {
	for i, k := range w.keys {
		at, steps := w.slot(k), 0
		for ; w.slots[at] > 0 && w.keys[w.slots[at]-1] != k; steps++ {
			at = (at + 1) & (len(w.slots) - 1)
		}
		if steps >= longestSearch {
			return false
		}
		if w.slots[at] == 0 || c == lastCounts {
			w.slots[at] = int32(i) + 1
		}
	}
	return true
}

// slot returns where a string is looked for first: by its length, and its first and last bytes.
func (w *words) slot(s string) int {
	n := len(s)
	var a, b uint64
	switch {
	case n >= 8:
		a, b = eight(s), eight(s[n-8:])
	case w.closer && n >= 4:
		a, b = four(s), four(s[n-4:])
	case n > 0: // without branches on the length, which may change from string to string
		a, b = uint64(s[0])|uint64(s[n/4])<<8, uint64(s[n/2])|uint64(s[n-1])<<8
	}
	high, low := bits.Mul64(a^0x9e3779b97f4a7c15, b^uint64(n)^0xd1b54a32d192ed03)
	return int((high ^ low) & uint64(len(w.slots)-1))
}

// four returns the first four bytes of a string.
func four(s string) uint64 {
	_ = s[3]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

// eight returns the first eight bytes of a string.
func eight(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// find returns the number of a key, and other for a string that is none.
func (w *words) find(s string, other int32) int32 {
	if w.sparse != nil {
		if i, ok := w.sparse[s]; ok {
			return i
		}
		return other
	}
	at := w.slot(s)
	for range longestSearch {
		i := w.slots[at] - 1
		if i < 0 {
			break
		}
		if w.keys[i] == s {
			return i
		}
		at = (at + 1) & (len(w.slots) - 1)
	}
	return other
}

// among returns what finds the numbers of strings that lie somewhere, from number lo on.
func (w *words) among(from texts, other int32) func(st *state, places []int32, lo int) {
	return func(st *state, places []int32, lo int) {
		list, at := from.list(st), from.first+lo*from.step
		for i := range places {
			places[i] = w.find(list[at], other)
			at += from.step
		}
	}
}
