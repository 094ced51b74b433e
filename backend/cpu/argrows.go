package cpu

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
)

// argRows is ArgMax or ArgMin: of count elements that are inner apart, the place of the greatest or least, the first or the last of equals.
// NaN is passed over unless it comes first: then its place is 0.
type argRows struct {
	count, inner int
	least, last  bool
	kernels      vec.Kernels
	set          isa.Set
}

// argRowsAtOnce is how many rows' greatest elements are looked for by one call.
const argRowsAtOnce = 64

// ofFloats writes the places in rows[len(o), count] to o: a vector kernel finds how much the greatest element is, and a row is read until it comes.
// Where the kernel returns NaN, the row has one, and its elements are compared one after the other.
func (r *argRows) ofFloats(o []int64, rows []float32) {
	op := vec.ReduceMax
	if r.least {
		op = vec.ReduceMin
	}
	var found [argRowsAtOnce]float32
	for len(o) > 0 {
		n := min(len(o), argRowsAtOnce)
		r.kernels.ReduceRows(op, found[:n], rows, r.count, n, r.count)
		for i, most := range found[:n] {
			o[i] = argOf(r, rows[i*r.count:][:r.count], most)
		}
		o, rows = o[n:], rows[n*r.count:]
	}
}

// ofOthers is ofFloats of rows of other numbers, of which most returns the greatest, or least, element.
func ofOthers[T ordered](r *argRows, o []int64, rows []T, most func(row []T) T) {
	for i := range o {
		row := rows[i*r.count:][:r.count]
		o[i] = argOf(r, row, most(row))
	}
}

// argOf returns the place of a row's greatest, or least, element, which is most; NaN says that the row has one.
func argOf[T ordered](r *argRows, row []T, most T) int64 {
	switch {
	case most != most:
		return int64(argOfRow(r, row))
	case r.last:
		return int64(lastOf(row, most))
	}
	return int64(firstOf(row, most))
}

// firstOf returns where x, which a row has, is first.
func firstOf[T ordered](row []T, x T) int {
	for i, v := range row {
		if v == x {
			return i
		}
	}
	return 0
}

// lastOf returns where x, which a row has, is last.
func lastOf[T ordered](row []T, x T) int {
	for i := len(row) - 1; i > 0; i-- {
		if row[i] == x {
			return i
		}
	}
	return 0
}

// argOfRow returns the place in a row.
func argOfRow[T ordered](r *argRows, row []T) int {
	if !r.least && !r.last {
		return firstGreatest(row)
	}
	place, best := 0, row[0]
	switch {
	case !r.least:
		for i, v := range row[1:] {
			if v >= best {
				place, best = i+1, v
			}
		}
	case r.last:
		for i, v := range row[1:] {
			if v <= best {
				place, best = i+1, v
			}
		}
	default:
		for i, v := range row[1:] {
			if v < best {
				place, best = i+1, v
			}
		}
	}
	return place
}

// argColumns is how many columns are gone down at a time.
const argColumns = 256

// argOfColumns writes the places in at most argColumns columns that lie beside each other, from the first element of s on, to o: row by row, so
// that memory is read in order. Which elements win is found for a row at once, and taken without a branch, which data would mislead.
func argOfColumns[T ordered](r *argRows, o []int64, s []T) {
	var room [argColumns]T
	var wins [argColumns]bool
	var places [argColumns]uint32
	best, won, at := room[:len(o)], wins[:len(o)], places[:len(o)]
	copy(best, s)
	if b, ok := any(best).([]float32); ok && r.count > 1 && element.Extremes(r.set, r.beats(), b, at, any(s).([]float32)[r.inner:], r.inner, r.count-1, 1) {
		for i, k := range at {
			o[i] = int64(k)
		}
		return
	}
	for k := 1; k < r.count; k++ {
		row := s[k*r.inner:][:len(best)]
		element.Compare(r.set, r.beats(), won, row, best)
		chooseNumbers(r.set, best, asBytes(won), row, best)
		element.Choose(r.set, at, asBytes(won), []uint32{uint32(k)}, at)
	}
	for i, k := range at {
		o[i] = int64(k)
	}
}

// beats says how an element stands to the best of those before it whose place it takes.
func (r *argRows) beats() element.Comparison {
	switch {
	case r.least && r.last:
		return element.AtMost
	case r.least:
		return element.Less
	case r.last:
		return element.AtLeast
	}
	return element.Greater
}

// chooseNumbers is element.Choose of numbers of any type.
func chooseNumbers[T ordered](set isa.Set, dst []T, c []uint8, a, b []T) {
	switch d, x, y := asBytes(dst), asBytes(a), asBytes(b); unsafe.Sizeof(T(0)) {
	case 1:
		element.Choose(set, d, c, x, y)
	case 2:
		element.Choose(set, place.Elements[uint16](d), c, place.Elements[uint16](x), place.Elements[uint16](y))
	case 4:
		element.Choose(set, place.Elements[uint32](d), c, place.Elements[uint32](x), place.Elements[uint32](y))
	default:
		element.Choose(set, place.Elements[uint64](d), c, place.Elements[uint64](x), place.Elements[uint64](y))
	}
}
