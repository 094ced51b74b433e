package memplan

import "math"

// ascending maps x to a key that sorts as x does.
func ascending(x int64) uint64 { return uint64(x) ^ 1<<63 }

// descendingFloat maps x, which is not negative, to a key that sorts the
// largest first.
func descendingFloat(x float64) uint64 { return ^math.Float64bits(x) }

// descending maps x to a key that sorts the largest first.
func descending(x int64) uint64 { return ^ascending(x) }

// sorter sorts indices by 64-bit keys. Its scratch space is kept between
// calls. Unlike the standard library's sorts it can be stopped halfway.
type sorter struct {
	count [8][256]int32
	tmpK  []uint64
	tmpI  []int32
}

// sort returns the permutation of 0..n-1 that sorts keys stably, or false
// when h ended. The keys are permuted as well. Cost O(n) per byte in which
// the keys differ.
func (s *sorter) sort(keys []uint64, h halt) ([]int32, bool) {
	n := len(keys)
	idx := make([]int32, n)
	for i := range idx {
		idx[i] = int32(i)
	}
	if n < 2 {
		return idx, true
	}
	if n <= 48 {
		insertionSort(keys, idx)
		return idx, true
	}
	if cap(s.tmpK) < n {
		s.tmpK, s.tmpI = make([]uint64, n), make([]int32, n)
	}
	var differ uint64
	for _, k := range keys {
		differ |= k ^ keys[0]
	}
	for b := range s.count {
		if differ>>(8*b)&0xff != 0 {
			s.count[b] = [256]int32{}
			for _, k := range keys {
				s.count[b][k>>(8*b)&0xff]++
			}
			if h.stopped() {
				return nil, false
			}
		}
	}
	srcK, srcI, dstK, dstI := keys, idx, s.tmpK[:n], s.tmpI[:n]
	for b := range s.count {
		if differ>>(8*b)&0xff == 0 {
			continue
		}
		count, sum := &s.count[b], int32(0)
		for d := range count {
			count[d], sum = sum, sum+count[d]
		}
		for i, k := range srcK {
			d := k >> (8 * b) & 0xff
			dstK[count[d]], dstI[count[d]] = k, srcI[i]
			count[d]++
			if i&chunkMask == chunkMask && h.stopped() {
				return nil, false
			}
		}
		srcK, srcI, dstK, dstI = dstK, dstI, srcK, srcI
	}
	if &srcK[0] != &keys[0] {
		copy(keys, srcK)
		copy(idx, srcI)
	}
	return idx, true
}

func insertionSort(keys []uint64, idx []int32) {
	for i := 1; i < len(keys); i++ {
		k, x, j := keys[i], idx[i], i
		for ; j > 0 && keys[j-1] > k; j-- {
			keys[j], idx[j] = keys[j-1], idx[j-1]
		}
		keys[j], idx[j] = k, x
	}
}
