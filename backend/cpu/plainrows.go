package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/place"
)

// Plain loops over rows of two operands, each of which steps by 1, or by 0 where it has one element for the whole row. The
// function is written out in each loop: what is called for every element takes several times as long.

// row2 sets out to what an operator makes of elements of s and t, dx and dy apart.
type row2[A, B, R tensor.Element] func(out []R, s []A, dx int, t []B, dy int)

// elementwise2Rows emits a broadcasting operator by a loop over rows.
func elementwise2Rows[A, B, R tensor.Element](p *planner, n *graph.Node, row row2[A, B, R]) error {
	x, y, r := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	dst := p.Out(r)
	rows2(p, newBroadcast(p.laid(r), p.laid(x), p.laid(y)), p.In(x), p.In(y), dst, row)
	return nil
}

func rows2[A, B, R tensor.Element](p *planner, b *broadcast, mx, my, dst place.Memory, row row2[A, B, R]) {
	if b.total == 0 {
		return
	}
	if b.rows == 1 { // of which everybody gets a part
		p.emit(step{chunks: ceilDiv(b.inner, elementsPerChunk), grain: grainFor(elementsPerChunk), body: func(st *state, _, lo, hi int) {
			lo, hi = lo*elementsPerChunk, min(hi*elementsPerChunk, b.inner)
			at := b.result(0)
			row(of[R](st, dst)[at+lo:at+hi], of[A](st, mx)[b.offset(0, 0)+lo*b.step[0]:], b.step[0], of[B](st, my)[b.offset(1, 0)+lo*b.step[1]:], b.step[1])
		}}, []place.Memory{mx, my}, []place.Memory{dst})
		return
	}
	if j := p.joinRows(b, sizeOf[A](), sizeOf[B]()); j != nil {
		joinedRows2(p, j, mx, my, dst, row)
		return
	}
	p.emit(step{chunks: b.rows, grain: grainFor(float64(b.inner) + 10), body: func(st *state, _, lo, hi int) {
		d, s, t := of[R](st, dst), of[A](st, mx), of[B](st, my)
		if len(b.outer) == 1 {
			dx, dy, to := b.strides[0][0], b.strides[1][0], b.strides[2][0]
			for i := lo; i < hi; i++ {
				row(d[i*to:][:b.inner], s[i*dx:], b.step[0], t[i*dy:], b.step[1])
			}
			return
		}
		for i := lo; i < hi; i++ {
			at := b.result(i)
			row(d[at:at+b.inner], s[b.offset(0, i):], b.step[0], t[b.offset(1, i):], b.step[1])
		}
	}}, []place.Memory{mx, my}, []place.Memory{dst})
}

// each2 is the loop over a row of an operator that has none of its own.
func each2[A, B, R tensor.Element](fn func(a A, b B) R) row2[A, B, R] {
	return func(out []R, s []A, dx int, t []B, dy int) {
		for i := range out {
			out[i] = fn(s[i*dx], t[i*dy])
		}
	}
}

// vectorRow is the loop over a row of a function of two integers, or of two truth values, which are bytes of 0 and 1.
func vectorRow[T integer](set isa.Set, op element.Op) row2[T, T, T] {
	return func(out, s []T, dx int, t []T, dy int) {
		switch {
		case dx == 1 && dy == 1:
			element.Binary(set, op, out, s, t)
		case dx == 1:
			element.Binary(set, op, out, s, t[:1])
		case dy == 1 && op == element.Div:
			setAll(out, s[0])
			element.Binary(set, op, out, out, t)
		case dy == 1 && op != element.Sub:
			element.Binary(set, op, out, t, s[:1])
		case dy == 1: // s - t is ^(t + ^s)
			not, all := [1]T{^s[0]}, [1]T{^T(0)}
			element.Binary(set, element.Add, out, t, not[:])
			element.Binary(set, element.Xor, out, out, all[:])
		default:
			element.Binary(set, op, out[:1], s[:1], t[:1])
			setAll(out, out[0])
		}
	}
}

// compareRow returns the loop of a comparison.
func compareRow[T ordered](set isa.Set, name string) row2[T, T, bool] {
	c := map[string]element.Comparison{"Equal": element.Equal, "Less": element.Less, "LessOrEqual": element.AtMost, "Greater": element.Greater, "GreaterOrEqual": element.AtLeast}[name]
	return func(out []bool, s []T, dx int, t []T, dy int) {
		switch {
		case len(out) < fewElements:
			compareFew(c, out, s, dx, t, dy)
		case dx == 1 && dy == 1:
			element.Compare(set, c, out, s, t)
		case dx == 1 && dy == 0:
			element.Compare(set, c, out, s, t[:1])
		case dx == 0 && dy == 1:
			element.Compare(set, c.Turned(), out, t, s[:1])
		default:
			for i := range out {
				element.Compare(set, c, out[i:i+1], s[i*dx:][:1], t[i*dy:][:1])
			}
		}
	}
}

// fewElements is the length of rows from which on the preparation of a kernel is worth it.
const fewElements = 8

func compareFew[T ordered](c element.Comparison, out []bool, s []T, dx int, t []T, dy int) {
	switch c {
	case element.Equal:
		for i := range out {
			out[i] = s[i*dx] == t[i*dy]
		}
	case element.Less:
		for i := range out {
			out[i] = s[i*dx] < t[i*dy]
		}
	case element.AtMost:
		for i := range out {
			out[i] = s[i*dx] <= t[i*dy]
		}
	case element.Greater:
		for i := range out {
			out[i] = s[i*dx] > t[i*dy]
		}
	case element.AtLeast:
		for i := range out {
			out[i] = s[i*dx] >= t[i*dy]
		}
	}
}

// whereRow sets out to elements of s where those of c are 1, and of t where they are 0.
func whereRow[T element.Bits](set isa.Set, out []T, c []uint8, dc int, s []T, ds int, t []T, dt int) {
	switch {
	case dc == 0 && (c[0] != 0 && ds == 1 || c[0] == 0 && dt == 1):
		if c[0] == 0 {
			s = t
		}
		copy(out, s)
		return
	case dc == 0 && (c[0] != 0 && ds == 0 || c[0] == 0 && dt == 0):
		if c[0] == 0 {
			s = t
		}
		setAll(out, s[0])
		return
	case dc != 1 || ds > 1 || dt > 1:
		for i := range out {
			v := t[i*dt]
			out[i] = v ^ (s[i*ds]^v)&-T(c[i*dc]) // without a branch, which data would mislead
		}
		return
	}
	if ds == 0 {
		s = s[:1]
	}
	if dt == 0 {
		t = t[:1]
	}
	element.Choose(set, out, c, s, t)
}

// shortRow is how long a row is in which firstOfFew is sooner found than by comparing, which data would mislead.
const shortRow = 24

// firstOfFew is firstGreatest of float32 without a branch: by keys of the numbers, in their order, above the places.
func firstOfFew(row []float32) int {
	best := int64(math.MinInt64)
	for i, v := range row {
		bits := int32(math.Float32bits(v + 0)) // of no -0
		key := int64(bits ^ int32(uint32(bits>>31)>>1))
		if v != v {
			key = math.MinInt32
		}
		best = max(best, key<<32|int64(^uint32(i)))
	}
	if row[0] != row[0] {
		return 0
	}
	return int(^uint32(best))
}

// firstGreatest returns the place of the first of the greatest elements. A NaN in front is passed by none, others are passed over.
func firstGreatest[T ordered](row []T) int {
	best, most := 0, row[0]
	for i, v := range row {
		if v > most {
			best, most = i, v
		}
	}
	return best
}
