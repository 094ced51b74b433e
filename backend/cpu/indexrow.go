package cpu

import "github.com/carve-dev/carve/internal/place"

// indexRow is where a row of indices, along their last axis, reaches in a tensor: element k of the row, with index x, stands for element
// base + k·next + x·stride.
type indexRow struct {
	base, next, stride int
	length             int // of the axis that indices count along
}

// place returns how far from the base an index reaches, and whether the axis has it.
func (r *indexRow) place(i int) (int, bool) {
	if uint(i) >= uint(r.length) {
		if i += r.length; uint(i) >= uint(r.length) {
			return 0, false
		}
	}
	return i * r.stride, true
}

// rowFrom returns where the rest of a row of a tensor of indices of dims idx reaches in one of dims d, from its element i on.
func rowFrom(d, idx []int, axis, i int) indexRow {
	r := indexRow{length: d[axis]}
	r.base, r.stride = along(d, idx, axis, i)
	if axis != len(d)-1 {
		r.next = 1
	}
	return r
}

// gather sets elements i to i+n-1 of o, of size bytes, to those of s that the indices in the same places name.
func (x *indices) gather(o, s []byte, size, i, n int, r indexRow) {
	switch size {
	case 1:
		gatherRow(x, o[i:i+n], s, i, r)
	case 2:
		gatherRow(x, place.Elements[uint16](o)[i:i+n], place.Elements[uint16](s), i, r)
	case 4:
		gatherRow(x, place.Elements[uint32](o)[i:i+n], place.Elements[uint32](s), i, r)
	case 8:
		gatherRow(x, place.Elements[uint64](o)[i:i+n], place.Elements[uint64](s), i, r)
	default:
		for k := range n {
			at := r.base + k*r.next + x.at(i+k, r.length)*r.stride
			move(o[(i+k)*size:], s[at*size:], size)
		}
	}
}

func gatherRow[T any](x *indices, o, s []T, i int, r indexRow) {
	var bad int
	if x.wide != nil {
		bad = gatherBy(o, s, x.wide[i:i+len(o)], r)
	} else {
		bad = gatherBy(o, s, x.narrow[i:i+len(o)], r)
	}
	if bad >= 0 {
		x.at(i+bad, r.length) // which says what is wrong with it
	}
}

// gatherBy returns the place of the first index that the axis does not have, -1 where there is none.
func gatherBy[T any, I int32 | int64](o, s []T, index []I, r indexRow) int {
	o = o[:len(index)]
	if r.next == 0 && r.stride == 1 {
		row := s[r.base:][:r.length]
		for k, i := range index {
			at := int(i)
			if uint(at) >= uint(len(row)) {
				if at += len(row); uint(at) >= uint(len(row)) {
					return k
				}
			}
			o[k] = row[at]
		}
		return -1
	}
	base := r.base
	for k, i := range index {
		at := int(i)
		if uint(at) >= uint(r.length) {
			if at += r.length; uint(at) >= uint(r.length) {
				return k
			}
		}
		o[k] = s[base+at*r.stride]
		base += r.next
	}
	return -1
}

// scatter sets those elements of o that the indices i to i+n-1 name to the elements of u in the same places, in order.
func (x *indices) scatter(o, u []byte, size, i, n int, r indexRow) {
	switch size {
	case 1:
		scatterRow(x, o, u[i:i+n], i, r)
	case 2:
		scatterRow(x, place.Elements[uint16](o), place.Elements[uint16](u)[i:i+n], i, r)
	case 4:
		scatterRow(x, place.Elements[uint32](o), place.Elements[uint32](u)[i:i+n], i, r)
	case 8:
		scatterRow(x, place.Elements[uint64](o), place.Elements[uint64](u)[i:i+n], i, r)
	default:
		for k := range n {
			at := r.base + k*r.next + x.at(i+k, r.length)*r.stride
			move(o[at*size:], u[(i+k)*size:], size)
		}
	}
}

func scatterRow[T any](x *indices, o, u []T, i int, r indexRow) {
	var bad int
	if x.wide != nil {
		bad = scatterBy(o, u, x.wide[i:i+len(u)], r)
	} else {
		bad = scatterBy(o, u, x.narrow[i:i+len(u)], r)
	}
	if bad >= 0 {
		x.at(i+bad, r.length)
	}
}

// scatterBy returns what gatherBy does.
func scatterBy[T any, I int32 | int64](o, u []T, index []I, r indexRow) int {
	u = u[:len(index)]
	base := r.base
	for k, i := range index {
		at := int(i)
		if uint(at) >= uint(r.length) {
			if at += r.length; uint(at) >= uint(r.length) {
				return k
			}
		}
		o[base+at*r.stride] = u[k]
		base += r.next
	}
	return -1
}
