package cpu

import (
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
)

// Short rows of a broadcasting operator are taken together along the dim above them: operands that have one row, or one element a row, there are laid out as
// many times as rows are taken. A call for each row, and the divisions that tell where it begins, take longer.

const (
	shortInner = 256  // elements of rows that are taken together, at most
	joinedRoom = 1024 // elements of rows together
	fewJoined  = 4    // rows of a dim at least
)

// joined is how rows are taken together.
type joined struct {
	*broadcast
	of, some, parts int // rows of the dim, of those at a time, and times that makes
	operands        []joinedOperand
}

// joinedOperand is an operand of such rows: it repeats a row or has one element a row, for which it has room, or lies as the result does, or is one element.
type joinedOperand struct {
	repeats, column bool
	stride          int
	room            scratch
}

// joinRows returns how the rows of a broadcast are taken together, nil where they are long, few or lie apart. sizes are the bytes of the operands' elements.
func (p *planner) joinRows(b *broadcast, sizes ...int) *joined {
	last := len(b.outer) - 1
	if last < 0 || b.inner >= shortInner || b.outer[last] < fewJoined || b.step[len(sizes)] != 1 || b.strides[len(sizes)][last] != b.inner {
		return nil
	}
	j := &joined{broadcast: b, of: b.outer[last]}
	j.some = min(j.of, max(joinedRoom/b.inner, 2))
	j.parts = ceilDiv(j.of, j.some)
	for i := range sizes {
		o := joinedOperand{stride: b.strides[i][last]}
		switch step := b.step[i]; {
		case step == 1 && o.stride == 0:
			o.repeats = true
		case step == 0 && o.stride != 0:
			o.column = true
		case step == 1 && o.stride != b.inner || step > 1:
			return nil
		}
		j.operands = append(j.operands, o)
	}
	for i := range j.operands {
		if o := &j.operands[i]; o.repeats || o.column {
			o.room = p.scratch(j.some * b.inner * sizes[i])
		}
	}
	return j
}

// memory returns the room of operands, for a step's list.
func (j *joined) memory() (list []place.Memory) {
	for _, o := range j.operands {
		if o.repeats || o.column {
			list = append(list, o.room.at)
		}
	}
	return list
}

// chunks is how many times rows are taken together.
func (j *joined) chunks() int { return j.rows / j.of * j.parts }

// each calls f for chunks [lo, hi) with the first row of the dim, the number of rows, and whether they follow others of which repeated rows are there yet.
func (j *joined) each(lo, hi int, f func(row, rows int, again bool)) {
	for i := lo; i < hi; i++ {
		first := i % j.parts * j.some
		f(i/j.parts*j.of+first, min(j.some, j.of-first), i > lo && first > 0)
	}
}

// layRows returns rows of operand i from row on, and 1, or its one element, and 0.
func layRows[T tensor.Element](j *joined, st *state, worker, i int, x []T, row, rows int, again bool) ([]T, int) {
	o, n := &j.operands[i], j.inner
	x = x[j.offset(i, row):]
	if !o.repeats && !o.column {
		return x, j.step[i]
	}
	room := of[T](st, o.room.at.Part(worker*o.room.size, o.room.size))[:j.some*n]
	switch {
	case o.column:
		for r := range rows {
			setAll(room[r*n:][:n], x[r*o.stride])
		}
	case !again:
		for done := copy(room, x[:n]); done < rows*n; {
			done += copy(room[done:rows*n], room[:done])
		}
	}
	return room, 1
}

// joinedRows2 emits a loop over rows of two operands that are taken together.
func joinedRows2[A, B, R tensor.Element](p *planner, j *joined, mx, my, dst place.Memory, row row2[A, B, R]) {
	p.emit(step{chunks: j.chunks(), grain: grainFor(float64(j.some*j.inner) + 20), body: func(st *state, worker, lo, hi int) {
		d, s, t := of[R](st, dst), of[A](st, mx), of[B](st, my)
		j.each(lo, hi, func(first, rows int, again bool) {
			x, dx := layRows(j, st, worker, 0, s, first, rows, again)
			y, dy := layRows(j, st, worker, 1, t, first, rows, again)
			row(d[j.result(first):][:rows*j.inner], x, dx, y, dy)
		})
	}}, []place.Memory{mx, my}, append(j.memory(), dst))
}

func sizeOf[T tensor.Element]() int { return int(unsafe.Sizeof(*new(T))) }
