package place

import (
	"iter"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Values in strided rows. Offsets into a value are counted here as if it were contiguous; its place says where they lie.

// Rows returns the place of a part of the value at m: count rows of row bytes, the first at byte off of the value, each pitch
// bytes behind the one before. ok is false where a Memory cannot describe that, for example because a row of the part is cut
// by the rows of m.
func (m Memory) Rows(off, row, pitch, count int) (part Memory, ok bool) {
	if row == pitch || count == 1 {
		row, pitch, count = row*count, row*count, 1
	}
	if m.Pitch == 0 {
		return m.rows(off, row, pitch, count), true
	}
	switch within := off % m.Row; {
	case within+row <= m.Row && (count == 1 || pitch%m.Row == 0):
		return m.rows(off/m.Row*m.Pitch+within, row, pitch/m.Row*m.Pitch, count), true
	case within == 0 && row%m.Row == 0 && count == 1:
		return m.rows(off/m.Row*m.Pitch, m.Row, m.Pitch, row/m.Row), true
	}
	return Nowhere, false
}

// rows returns rows off bytes behind the beginning of m.
func (m Memory) rows(off, row, pitch, count int) Memory {
	if count == 1 {
		return m.Part(off, row)
	}
	part := m.Part(off, (count-1)*pitch+row)
	part.Row, part.Pitch = row, pitch
	return part
}

// Piece returns the offset from the beginning of m of byte at of the value, and how many of the n bytes from there on are
// contiguous.
func (m Memory) Piece(at, n int) (off, size int) {
	if m.Pitch == 0 {
		return at, n
	}
	return at/m.Row*m.Pitch + at%m.Row, min(n, m.Row-at%m.Row)
}

// Strides returns the strides, in elements of size bytes, of a row-major value of these dims at m. ok is false where the rows
// of m do not consist of whole inner dims, so that no strides describe them.
func (m Memory) Strides(dims []int, size int) (strides []int, ok bool) {
	strides = tensor.CompactStrides(dims)
	if m.Pitch == 0 {
		return strides, true
	}
	if m.Pitch%size != 0 {
		return nil, false
	}
	k, n := len(dims), size
	for ; k > 0 && n < m.Row; k-- {
		n *= dims[k-1]
	}
	for i := range k {
		strides[i] = strides[i] * size / m.Row * (m.Pitch / size)
	}
	return strides, n == m.Row
}

// Runs returns where the runs of n bytes lie that a value at m consists of. ok is false where a run is not contiguous.
func (m Memory) Runs(n int) (r Runs, ok bool) {
	switch {
	case m.Pitch == 0:
		return Runs{Near: n}, true
	case n == m.Row:
		return Runs{Near: m.Pitch}, true
	}
	return Runs{Near: n, Far: m.Pitch, Group: m.Row / max(n, 1)}, n > 0 && m.Row%n == 0
}

// Runs are runs of bytes, each Near bytes behind the one before. Where Group is not 0, so many runs form a group, and groups
// begin at distances of Far: run i begins at i/Group·Far + i%Group·Near.
type Runs struct{ Near, Far, Group int }

// At returns the offset of run i, and how many runs from it on, at most n, have the pitch Near.
func (r Runs) At(i, n int) (off, count int) {
	if r.Group == 0 {
		return i * r.Near, n
	}
	return i/r.Group*r.Far + i%r.Group*r.Near, min(n, r.Group-i%r.Group)
}

// InRows goes through the operands of a node that lie in strided rows, and the results that are wanted so.
func (p *Plan) InRows(n *graph.Node) iter.Seq2[*graph.Value, Memory] {
	return func(yield func(*graph.Value, Memory) bool) {
		for i, vs := range [][]*graph.Value{n.Inputs, n.Outputs} {
			at := [][]Memory{p.Where, p.Want}[i]
			for _, v := range vs {
				if v != nil && at[v.ID].Pitch != 0 && !yield(v, at[v.ID]) {
					return
				}
			}
		}
	}
}
