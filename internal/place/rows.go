package place

import (
	"iter"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Values in rows. Bytes of a value are counted here as if it lay together, whatever rows its place has.

// Rows returns the place of count rows of row bytes, from byte off of the value at m on, each pitch bytes behind the one
// before. ok is false where that is nothing that a Memory describes: rows of which some are divided further, for example.
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

// Piece returns how far behind the beginning of m byte at of the value lies, and how many of n bytes lie together there.
func (m Memory) Piece(at, n int) (off, size int) {
	if m.Pitch == 0 {
		return at, n
	}
	return at/m.Row*m.Pitch + at%m.Row, min(n, m.Row-at%m.Row)
}

// Strides returns the distances of the elements, of size bytes, of a row-major value of these dims at m. ok is false where
// its rows are not whole dims.
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

// Runs returns how a value at m that consists of runs of n bytes steps from one to the next: run i lies i/group·far +
// i%group·near bytes behind the beginning. ok is false where a run does not lie together.
func (m Memory) Runs(n int) (r Runs, ok bool) {
	switch {
	case m.Pitch == 0:
		return Runs{Near: n}, true
	case n == m.Row:
		return Runs{Near: m.Pitch}, true
	}
	return Runs{Near: n, Far: m.Pitch, Group: m.Row / max(n, 1)}, n > 0 && m.Row%n == 0
}

// Runs are runs of bytes at distances of Near; where Group is not 0, groups of so many begin at distances of Far.
type Runs struct{ Near, Far, Group int }

// At returns where run i begins, and how many runs from it on, at most n, are at distances of Near.
func (r Runs) At(i, n int) (off, count int) {
	if r.Group == 0 {
		return i * r.Near, n
	}
	return i/r.Group*r.Far + i%r.Group*r.Near, min(n, r.Group-i%r.Group)
}

// InRows goes through the operands of a node that lie in rows apart, and the results that are wanted so.
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
