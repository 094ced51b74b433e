package conv

import "slices"

// rowBody names the code for a whole row of a depthwise kernel under one pixel group of a tile: kernel taps over width
// pixels that lie stride source pixels apart; the first lo and the last hi of the source pixels lie outside the map. One
// jump to it is for all taps of a row, and of the rows below; and where registers hold a row of weights it loads every source pixel once.
type rowBody struct{ kernel, stride, width, group, lo, hi int }

// rowList appends a tap list whose taps are whole rows, where the kernel has code for all of them. Arguments and results are
// as for list; col is the first column of the tile, n0 and n1 are the pixels of its groups.
func (t *table) rowList(l *lattice, rows []byte, cols []span, col, n0, n1 int) (offset, steps int64, ok bool) {
	taps := l.x.taps
	if l.merge != 1 || l.pieces[0].steps != 0 || len(t.places.rows) == 0 || len(taps) == 0 || taps[len(taps)-1] != (axisTap{len(taps) - 1, taps[0].at + len(taps) - 1}) || taps[0].k != 0 {
		return 0, 0, false
	}
	from := col*l.x.step + taps[0].at
	body := func(width, group int) (uintptr, bool) {
		n := (width-1)*l.x.step + len(taps)
		i, ok := t.places.rows[rowBody{len(taps), l.x.step, width, group, max(0, -from), max(0, from+n-l.x.size)}]
		if !ok {
			return 0, false
		}
		return t.bodies[i], true
	}
	// Where tiles are pairs of rows, each group is a row; otherwise both together are one.
	bodies := [2]uintptr{}
	if t.pairs {
		a, okA := body(n0, 0)
		b, okB := body(n0, 1)
		bodies, ok = [2]uintptr{a, b}, okA && okB
	} else {
		bodies[0], ok = body(n0+n1, 0)
	}
	if !ok {
		return 0, 0, false
	}
	offset = int64(len(t.taps)) * tapSize
	reached := 0
	for _, s := range cols {
		reached += max(0, s.hi-s.lo)
	}
	for iy := 0; iy < len(rows); {
		run := t.runOf(l, rows, iy)
		for g, b := range bodies {
			if rows[iy]>>g&1 == 0 {
				continue
			}
			ty := l.y.taps[iy]
			t.taps = append(t.taps, tap{
				src:   int64((ty.at*l.sourceRow + taps[0].at) * l.sourcePixel),
				w:     int64(ty.k * l.kernelWidth * l.pieces[0].tapBytes),
				count: int64(64 * run),
				body:  b,
			})
			steps += int64(reached * run)
		}
		iy += run
	}
	t.taps = append(t.taps, tap{body: t.bodies[t.places.end]})
	return offset, steps, true
}

// planarList appends a tap list of one tap, for all rows of the kernel that reach a tile of one row, in all channels of a planar source, where the kernel has code for
// them: the place behind the tap has the bytes from channel to channel and the number of channels. Arguments and results are as for rowList.
func (t *table) planarList(l *lattice, rows []byte, cols []span, col, width int) (offset, steps int64, ok bool) {
	taps, first := l.x.taps, slices.Index(rows, 1)
	if t.pairs || l.dstCol != 1 || l.merge != 1 || l.pieces[0].steps != 1 || len(t.places.rows) == 0 || len(taps) == 0 || first < 0 ||
		taps[len(taps)-1] != (axisTap{len(taps) - 1, taps[0].at + len(taps) - 1}) || taps[0].k != 0 {
		return 0, 0, false
	}
	run := t.runOf(l, rows, first)
	if slices.ContainsFunc(rows[first+run:], func(b byte) bool { return b != 0 }) {
		return 0, 0, false
	}
	from := col*l.x.step + taps[0].at
	key := rowBody{kernel: len(taps), stride: l.x.step, width: width, lo: max(0, -from), hi: max(0, from+(width-1)*l.x.step+len(taps)-l.x.size)}
	if key.lo == 0 && key.hi == 0 {
		key.stride = 1
	}
	i, ok := t.places.rows[key]
	if !ok {
		return 0, 0, false
	}
	offset = int64(len(t.taps)) * tapSize
	ty := l.y.taps[first]
	row := tap{
		src:   int64((ty.at*l.sourceRow + taps[0].at) * l.sourcePixel),
		w:     int64(ty.k * l.kernelWidth * l.pieces[0].tapBytes),
		count: int64(run * len(taps) * l.pieces[0].tapBytes),
		body:  t.bodies[i],
	}
	next := tap{count: int64(len(l.pieces)), body: t.bodies[t.places.end]}
	if len(l.pieces) > 1 {
		next.src = int64(l.pieces[1].src - run*l.down*l.sourceRow*l.sourcePixel)
		next.w = int64(l.pieces[1].w) - row.count
	}
	t.taps = append(t.taps, row, next)
	for _, s := range cols {
		steps += int64(len(l.pieces) * run * max(0, s.hi-s.lo))
	}
	return offset, steps, true
}

// runOf returns how many rows of the kernel from iy on reach the same rows of a tile and lie below each other, in the source and in the
// kernel: one tap goes through them.
func (t *table) runOf(l *lattice, rows []byte, iy int) int {
	run, first := 1, l.y.taps[iy]
	for iy+run < len(rows) && rows[iy+run] == rows[iy] && l.y.taps[iy+run] == (axisTap{first.k + run, first.at + run*l.down}) {
		run++
	}
	return run
}
