package cpu

import (
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
)

// The first few elements of a row without ranks: most are compared with the last of the first ones so far, and no more.

// fewScanned is the most elements that are found so.
const fewScanned = 8

// scanning finds the places of the first elements of a row of count, from base on in src, as many as first has: equal ones by their place. It is nil where one is NaN.
type scanning func(first []uint64, src []byte, base, count int, largest bool) []uint64

var scannings = map[tensor.DType]scanning{
	tensor.Float32: scanRow[float32], tensor.Float64: scanRow[float64],
	tensor.Int8: scanRow[int8], tensor.Int16: scanRow[int16], tensor.Int32: scanRow[int32], tensor.Int64: scanRow[int64],
	tensor.Uint8: scanRow[uint8], tensor.Uint16: scanRow[uint16], tensor.Uint32: scanRow[uint32], tensor.Uint64: scanRow[uint64],
}

func scanRow[T ordered](first []uint64, src []byte, base, count int, largest bool) []uint64 {
	row := place.Elements[T](src)[base:][:count]
	if largest {
		return greatestOf(first, row)
	}
	return leastOfRow(first, row)
}

func greatestOf[T ordered](first []uint64, row []T) []uint64 {
	var best [fewScanned]T
	k := min(len(first), len(best))
	for i, x := range row[:k] {
		at := i
		for ; at > 0 && x > best[at-1]; at-- {
			best[at], first[at] = best[at-1], first[at-1]
		}
		if best[at], first[at] = x, uint64(i); x != x {
			return nil
		}
	}
	last := best[k-1]
	for i := k; i < len(row); i++ {
		if len(row)-i >= 4 { // of most four none comes before the last
			if four := (*[4]T)(row[i:]); four[0] <= last && four[1] <= last && four[2] <= last && four[3] <= last {
				i += 3
				continue
			}
		}
		x := row[i]
		if x <= last {
			continue
		}
		if x != x {
			return nil
		}
		at := k - 1
		for ; at > 0 && x > best[at-1]; at-- {
			best[at], first[at] = best[at-1], first[at-1]
		}
		best[at], first[at] = x, uint64(i)
		last = best[k-1]
	}
	return first
}

func leastOfRow[T ordered](first []uint64, row []T) []uint64 {
	var best [fewScanned]T
	k := min(len(first), len(best))
	for i, x := range row[:k] {
		at := i
		for ; at > 0 && x < best[at-1]; at-- {
			best[at], first[at] = best[at-1], first[at-1]
		}
		if best[at], first[at] = x, uint64(i); x != x {
			return nil
		}
	}
	last := best[k-1]
	for i := k; i < len(row); i++ {
		if len(row)-i >= 4 { // of most four none comes before the last
			if four := (*[4]T)(row[i:]); four[0] >= last && four[1] >= last && four[2] >= last && four[3] >= last {
				i += 3
				continue
			}
		}
		x := row[i]
		if x >= last {
			continue
		}
		if x != x {
			return nil
		}
		at := k - 1
		for ; at > 0 && x < best[at-1]; at-- {
			best[at], first[at] = best[at-1], first[at-1]
		}
		best[at], first[at] = x, uint64(i)
		last = best[k-1]
	}
	return first
}
