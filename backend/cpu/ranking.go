package cpu

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
)

// ranking gives elements numbers that are ordered as they are: equal numbers for equal elements, the largest for NaN. It reads
// len(ranks) elements of src, from base on, stride elements apart.
type ranking func(ranks []uint64, src []byte, base, stride int)

// rankingOf returns how elements of a type are ordered, nil for a type that is not ordered here. Ranks of elements of at most four bytes
// have 32 bits.
func rankingOf(dt tensor.DType) ranking {
	switch dt {
	case tensor.Float32:
		return ranksOfFloats
	case tensor.Float64:
		return ranksOfDoubles
	case tensor.Float16:
		return ranks(func(v uint16) uint64 { return rankHalf(v, 0x7c00) })
	case tensor.BFloat16:
		return ranks(func(v uint16) uint64 { return rank32(math.Float32frombits(uint32(v) << 16)) })
	}
	return integerKinds[dt].rank
}

// rankInteger moves signed integers to where they are positive.
func rankInteger[T integer](v T) uint64 {
	var least T
	switch signed := least-1 < least; {
	case !signed:
		return uint64(v)
	case unsafe.Sizeof(v) == 8:
		return uint64(v) ^ 1<<63
	}
	return uint64(uint32(v) ^ 1<<31)
}

func ranks[T tensor.Element](rank func(T) uint64) ranking {
	return func(ranks []uint64, src []byte, base, stride int) {
		s := place.Elements[T](src)[base:]
		for j := range ranks {
			ranks[j] = rank(s[j*stride])
		}
	}
}

// ranksOfIntegers is ranks of rankInteger, which is inlined here.
func ranksOfIntegers[T integer](ranks []uint64, src []byte, base, stride int) {
	s := place.Elements[T](src)[base:]
	for j := range ranks {
		ranks[j] = rankInteger(s[j*stride])
	}
}

// ranksOfFloats is ranks of rank32, which is inlined here: rows of distances are long and few of their elements are taken.
func ranksOfFloats(ranks []uint64, src []byte, base, stride int) {
	s := place.Elements[float32](src)[base:]
	if stride == 1 {
		for j, v := range s[:len(ranks)] {
			ranks[j] = rank32(v)
		}
		return
	}
	for j := range ranks {
		ranks[j] = rank32(s[j*stride])
	}
}

func rank32(v float32) uint64 {
	if v == 0 {
		return 1 << 31
	}
	if v != v {
		return math.MaxUint32
	}
	b := math.Float32bits(v)
	return uint64(b ^ (uint32(int32(b)>>31) | 1<<31)) // without a branch, as signs cannot be foreseen
}

// ranksOfDoubles is ranks of rank64, which is inlined here.
func ranksOfDoubles(ranks []uint64, src []byte, base, stride int) {
	s := place.Elements[float64](src)[base:]
	for j := range ranks {
		ranks[j] = rank64(s[j*stride])
	}
}

func rank64(v float64) uint64 {
	if v == 0 {
		return 1 << 63
	}
	if v != v {
		return math.MaxUint64
	}
	b := math.Float64bits(v)
	return b ^ (uint64(int64(b)>>63) | 1<<63) // as in rank32
}

// rankHalf ranks floats of 16 bits, whose infinity is given.
func rankHalf(v, inf uint16) uint64 {
	switch m := v & 0x7fff; {
	case m > inf:
		return math.MaxUint32
	case m == 0:
		return 1 << 15
	case v>>15 != 0:
		return uint64(^v)
	}
	return uint64(v | 1<<15)
}

// rows finds the first elements of rows, in scratch memory of its own.
type rows struct {
	keys, order []uint64
	near        []float32 // of a row of half precision
	all         []byte
}

// rowsIn returns that of rows of n elements, in topRows.rowBytes of memory.
func rowsIn(all []byte, n int) rows {
	both, near := place.Elements[uint64](all[:16*n]), place.Elements[float32](all[16*n:])
	return rows{keys: both[:n], order: both[n:], near: near[:min(n, len(near))], all: all}
}

// room makes room for rows of n elements, of so many bytes.
func (r *rows) room(bytes, n int) {
	if cap(r.all) < bytes {
		r.all = asBytes(make([]uint64, ceilDiv(bytes, 8)))
	}
	*r = rowsIn(r.all[:bytes], n)
}

// first returns the places of the k elements of lowest or of highest rank in a row, in their order, equal ones by their place.
// wide says that ranks have more than 32 bits. The result is valid until the next call.
func (r *rows) first(k int, wide, largest bool) []uint64 {
	flip := uint64(0)
	switch {
	case largest && wide:
		flip = math.MaxUint64
	case largest:
		flip = math.MaxUint32
	}
	switch short := k <= few && 4*k <= len(r.keys); {
	case short && wide:
		return r.insert(k, flip)
	case short:
		return r.insertKeys(k, flip)
	case wide:
		return r.firstWide(k, flip)
	}
	for j, rank := range r.keys {
		r.keys[j] = (rank^flip)<<32 | uint64(j)
	}
	lowest(r.keys, k)
	for j, key := range r.keys[:k] {
		r.order[j] = key & math.MaxUint32
	}
	return r.order[:k]
}

// firstWide is first for ranks of 64 bits: by the upper 32 bits of what they have beyond the lowest, with places below these, and of those that may be among the first k so, by
// whole ranks.
func (r *rows) firstWide(k int, flip uint64) []uint64 {
	if k == 0 {
		return nil
	}
	least, most := uint64(math.MaxUint64), uint64(0)
	for j, rank := range r.keys {
		rank ^= flip
		r.keys[j], least, most = rank, min(least, rank), max(most, rank)
	}
	shift := max(bits.Len64(most-least)-32, 0)
	for j, rank := range r.keys {
		r.order[j] = (rank-least)>>shift<<32 | uint64(j)
	}
	if shift == 0 { // whole ranks
		lowest(r.order, k)
		return placesOf(r.order[:k])
	}
	toFront(r.order, k)
	last, n := slices.Max(r.order[:k])>>32, k
	for j, key := range r.order[k:] {
		if key>>32 == last {
			r.order[n], r.order[k+j] = key, r.order[n]
			n++
		}
	}
	r.sortWide(r.order[:n])
	return r.order[:k]
}

// sortWide sorts keys of upper halves of ranks and places, and leaves the places: by keys first, and those of equal upper halves, which are few mostly, by whole ranks.
func (r *rows) sortWide(keys []uint64) {
	slices.Sort(keys)
	for lo := 0; lo < len(keys); {
		hi, upper := lo+1, keys[lo]>>32
		for hi < len(keys) && keys[hi]>>32 == upper {
			hi++
		}
		if equals := placesOf(keys[lo:hi]); len(equals) > 1 {
			slices.SortStableFunc(equals, func(a, b uint64) int { return cmp.Compare(r.keys[a], r.keys[b]) }) // places are in order
		}
		lo = hi
	}
}

// placesOf leaves the places of keys.
func placesOf(keys []uint64) []uint64 {
	for j := range keys {
		keys[j] &= math.MaxUint32
	}
	return keys
}

// siftBlock is how many floats are compared with the limit at once.
const siftBlock = 128

// sift is first for a row of floats of which few are taken: those that come before the last of the first k so far are kept, blocks of floats compared
// with that one at once. Where k is small they are kept in order, else whenever there are twice as many the first k of them.
func (r *rows) sift(target isa.Target, row []float32, k int, flip uint64) []uint64 {
	s := sifted{k: k, room: min(max(2*k, 64), len(row)), flip: flip, last: r.bound(target, row, k, flip), kept: r.keys[:0]}
	skip := element.AtLeast
	if flip != 0 {
		skip = element.AtMost
	}
	var words [siftBlock / 8]uint64
	skipped := (*[siftBlock]bool)(unsafe.Pointer(&words))
	limit := unsafe.Slice((*float32)(unsafe.Pointer(&r.order[0])), 1) // order is written at the end
	for lo := 0; lo < len(row); lo += siftBlock {
		block := row[lo:min(lo+siftBlock, len(row))]
		limit[0] = floatOf(s.last, s.flip)
		element.Compare(target.Set, skip, skipped[:len(block)], block, limit) // NaN is not skipped
		for w := range words[:ceilDiv(len(block), 8)] {
			for taken := words[w] ^ 0x0101010101010101; taken != 0; taken &= taken - 1 {
				if j := 8*w + bits.TrailingZeros64(taken)/8; j < len(block) {
					s.offer(lo+j, block[j])
				}
			}
		}
	}
	if k > few {
		lowest(s.kept, k)
	}
	for j, key := range s.kept[:k] {
		r.order[j] = key & math.MaxUint32
	}
	return r.order[:k]
}

// bound returns a key that those of the first k elements of a row of floats are below: of columns of the row, taken as a matrix, k have an element that is no worse than the k-th
// best of theirs. Few others are as good. Keys and the lower half of order are overwritten.
func (r *rows) bound(target isa.Target, row []float32, k int, flip uint64) uint64 {
	const group = 32
	columns := ceilDiv(2*k, group) * group
	best, op := place.Elements[float32](asBytes(r.order))[:columns], vec.ReduceMin
	if flip != 0 {
		op = vec.ReduceMax
	}
	vec.For(target).ReduceColumns(op, best, row, columns, len(row)/columns, columns)
	keys := r.keys[:columns]
	for i, x := range best {
		keys[i] = keyOf(i, x, flip)
	}
	last := kth(keys, k)>>32 + 2 // -0 ranks as 0 does, but its float is that of the rank below
	if last > math.MaxUint32 {
		return math.MaxUint64
	}
	return last << 32
}

// notBehind returns the places of the floats of a row that do not come behind one of them, and of NaN, in order, or nil where they are more than half. They lie in the
// upper half of the keys.
func (r *rows) notBehind(set isa.Set, row []float32, limit float32, flip uint64) []uint64 {
	places := r.keys[ceilDiv(len(row), 2):]
	behind, n := element.Greater, 0
	if flip != 0 {
		behind = element.Less
	}
	var words [siftBlock / 8]uint64
	skipped := (*[siftBlock]bool)(unsafe.Pointer(&words))
	one := [1]float32{limit}
	for lo := 0; lo < len(row); lo += siftBlock {
		block := row[lo:min(lo+siftBlock, len(row))]
		element.Compare(set, behind, skipped[:len(block)], block, one[:])
		for w := range words[:ceilDiv(len(block), 8)] {
			for taken := words[w] ^ 0x0101010101010101; taken != 0; taken &= taken - 1 {
				j := 8*w + bits.TrailingZeros64(taken)/8
				if j >= len(block) {
					break
				}
				if n == len(places) {
					return nil
				}
				places[n] = uint64(lo + j) // a place
				n++
			}
		}
	}
	return places[:n]
}

// sifted are the keys of the floats of a row that may be among the first k: all of the first few in order, or any.
type sifted struct {
	k, room    int
	flip, last uint64 // last: of the first k so far
	kept       []uint64
}

// offer keeps element j where it comes before the last.
func (s *sifted) offer(j int, v float32) {
	key := keyOf(j, v, s.flip)
	if key >= s.last {
		return
	}
	s.kept = append(s.kept, key)
	if s.k > few {
		if len(s.kept) == s.room {
			toFront(s.kept, s.k)
			s.kept = s.kept[:s.k]
			s.last = slices.Max(s.kept)
		}
		return
	}
	insertKey(s.kept, key)
	if s.kept = s.kept[:min(len(s.kept), s.k)]; len(s.kept) == s.k {
		s.last = s.kept[s.k-1]
	}
}

// keyOf returns the key of element j of a row.
func keyOf(j int, v float32, flip uint64) uint64 { return (rank32(v)^flip)<<32 | uint64(j) }

// floatOf returns the float of a key, and NaN where there is none yet.
func floatOf(key, flip uint64) float32 {
	b := uint32(key>>32 ^ flip) // a rank of 32 bits
	if key == math.MaxUint64 || b == math.MaxUint32 {
		return float32(math.NaN())
	}
	return math.Float32frombits(b ^ (^uint32(int32(b)>>31) | 1<<31)) // as in rank32
}

// insertKey puts a key where it belongs in a list in order whose last place is free: without a branch, which data would mislead.
func insertKey(list []uint64, key uint64) {
	last := len(list) - 1
	for at, other := range list[:last] {
		list[at], key = min(other, key), max(other, key)
	}
	list[last] = key
}

// kth returns the k-th lowest key, of which no two are equal; keys are overwritten.
func kth(keys []uint64, k int) uint64 {
	if k > few {
		toFront(keys, k)
		return slices.Max(keys[:k])
	}
	for j, key := range keys {
		if j < k {
			insertKey(keys[:j+1], key)
		} else if key < keys[k-1] {
			insertKey(keys[:k], key)
		}
	}
	return keys[k-1]
}

// few is the most elements that are found by insertion.
const few = 32

// insertKeys is insert for ranks of 32 bits, with the places below them.
func (r *rows) insertKeys(k int, flip uint64) []uint64 {
	if k == 0 {
		return nil
	}
	first := r.order[:k]
	for j := range first {
		first[j] = math.MaxUint64
	}
	last := uint64(math.MaxUint64)
	for j, rank := range r.keys {
		key := (rank^flip)<<32 | uint64(j)
		if key >= last {
			continue
		}
		insertKey(first, key)
		last = first[k-1]
	}
	return placesOf(first)
}

// insert finds the first k places one by one: each that comes before the last of those so far takes its place among them.
func (r *rows) insert(k int, flip uint64) []uint64 {
	if k == 0 {
		return nil
	}
	first, last := r.order[:0:k], uint64(math.MaxUint64)
	for j, rank := range r.keys {
		key := rank ^ flip
		r.keys[j] = key
		if len(first) == k {
			if key >= last {
				continue
			}
			first = first[:k-1]
		}
		at := len(first)
		first = first[:at+1]
		for ; at > 0 && r.keys[first[at-1]] > key; at-- {
			first[at] = first[at-1]
		}
		first[at] = uint64(j)
		last = r.keys[first[len(first)-1]]
	}
	return first
}

// lowest puts the k lowest keys, of which no two are equal, to the front and sorts them.
func lowest(keys []uint64, k int) {
	toFront(keys, k)
	slices.Sort(keys[:k])
}

// toFront puts the k lowest keys, of which no two are equal, to the front: of few keys those that are lower than the last of the first k so far, some at a time.
func toFront(keys []uint64, k int) {
	if k == 0 || 4*k > len(keys) {
		divide(keys, k)
		return
	}
	room := min(max(2*k, 64), len(keys))
	divide(keys[:room], k)
	last, kept := slices.Max(keys[:k]), k
	for j := room; j < len(keys); j++ {
		key := keys[j]
		if key >= last {
			continue
		}
		keys[j], keys[kept] = keys[kept], key
		if kept++; kept == room {
			divide(keys[:room], k)
			last, kept = slices.Max(keys[:k]), k
		}
	}
	divide(keys[:kept], k)
}

// divide is toFront by parting keys at one of them, and then what has the place in question.
func divide(keys []uint64, k int) {
	rest, rounds := keys, 2*bits.Len(uint(len(keys)))
	for n := k; n > 0 && n < len(rest); rounds-- {
		if len(rest) < 32 || rounds == 0 { // or pivots were bad
			slices.Sort(rest)
			break
		}
		pivot := median(rest)
		below := partition(rest, pivot)
		switch {
		case below == n:
			n = 0
		case below > n:
			rest = rest[:below]
		default:
			rest, n = rest[below:], n-below
		}
	}
}

// median returns a key near the middle: the median of nine, of which at least one key is lower.
func median(s []uint64) uint64 {
	var nine [9]uint64
	for i := range nine {
		nine[i] = s[i*(len(s)-1)/8]
	}
	slices.Sort(nine[:])
	return nine[4]
}

// partition puts the keys below pivot to the front and returns how many there are.
func partition(s []uint64, pivot uint64) int {
	n := 0
	for i, v := range s {
		s[i] = s[n]
		s[n] = v
		if v < pivot {
			n++
		}
	}
	return n
}
