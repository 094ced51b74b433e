package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
)

// planMaxRows emits a MaxPool of a row-major volume, one axis after the other: of the slices that a slice of results looks at the greatest, of these
// row by row, and of these along the rows. It is for volumes whose neighbours are row-major: blocks of channels have faster kernels, but changing to
// blocks and back takes longer than this.
func planMaxRows(p *planner, n *graph.Node) error {
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	l, err := newRowWindows(n, dx[2:], dy[2:])
	if err != nil {
		return err
	}
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	a := &l.axes
	m := &maxRows{rowWindows: l, kernels: p.kernels, down: wholeFirst(tapsOf(&a[1]), a[1].out)}
	l.taps = wholeFirst(l.taps, a[2].out)
	in, between, out := a[1].in*a[2].in, a[1].out*a[2].in, a[1].out*a[2].out
	room := p.scratch(4 * (in + between))
	nanos := float64(a[0].kernel*in)/8 + float64(len(m.down)*between)/8 + float64(len(l.taps)*out)
	p.emit(step{chunks: dx[0] * dx[1] * a[0].out, grain: grainFor(nanos), body: func(st *state, worker, lo, hi int) {
		x, y, free := st.F32(src), st.F32(dst), room.floats(st, worker)
		for i := lo; i < hi; i++ {
			m.slice(y[i*out:][:out], x[i/a[0].out*l.plane():][:l.plane()], free[:in], free[in:][:between], i%a[0].out)
		}
	}}, []place.Memory{src}, []place.Memory{dst, room.at})
	return nil
}

// maxRows is such a MaxPool; down are the taps along the axis of rows.
type maxRows struct {
	*rowWindows

	kernels vec.Kernels
	down    []rowTap
}

// slice writes slice i of a channel's results; deep has room for a slice of the source, and rows for as many of its rows as there are results.
func (m *maxRows) slice(out, channel, deep, rows []float32, i int) {
	a := &m.axes
	z0, z1, _ := a[0].window(i)
	if z0 >= z1 {
		setAll(out, -inf)
		return
	}
	most, size := channel[z0*len(deep):][:len(deep)], len(deep)
	for z := z0 + a[0].dilate; z < z1; z += a[0].dilate {
		m.kernels.Binary(vec.Max, deep, most, channel[z*size:][:size])
		most = deep
	}
	wide := a[2].in
	begin := begins(m.down, a[1].out, func() { setAll(rows, -inf) })
	for k, t := range m.down {
		to, before := rows[t.from*wide:], rows[t.from*wide:]
		if k == 0 && begin { // of a row with itself
			before = most[t.first*wide:]
			m.kernels.BinaryRows(vec.Max, vec.VV, to, wide, before, a[1].stride*wide, before, a[1].stride*wide, t.to-t.from, wide)
			continue
		}
		m.kernels.BinaryRows(vec.Max, vec.VV, to, wide, before, wide, most[t.first*wide:], a[1].stride*wide, t.to-t.from, wide)
	}
	begin = begins(m.taps, a[2].out, func() { setAll(out, -inf) })
	for k, t := range m.taps {
		for y := range a[1].out {
			to, from := out[y*a[2].out:][t.from:t.to], rows[y*wide+t.first:]
			if k == 0 && begin {
				everyOf(to, from, a[2].stride)
			} else {
				greaterAlong(to, from, a[2].stride)
			}
		}
	}
}

// wholeFirst puts a tap that all results have in front, which may set them.
func wholeFirst(taps []rowTap, results int) []rowTap {
	for i, t := range taps {
		if t.from == 0 && t.to == results {
			taps[0], taps[i] = taps[i], taps[0]
		}
	}
	return taps
}

// begins reports whether the first tap is one of all results, so that these need not be set before, and otherwise has them set.
func begins(taps []rowTap, results int, set func()) bool {
	if len(taps) > 0 && taps[0].from == 0 && taps[0].to == results {
		return true
	}
	set()
	return false
}

func setAll[T any](x []T, v T) {
	for i := range x {
		x[i] = v
	}
}

// everyOf sets results to elements of the row that lie a stride apart.
func everyOf(to, row []float32, stride int) {
	for k, at := 0, 0; k < len(to); k, at = k+1, at+stride {
		to[k] = row[at]
	}
}

// greaterAlong keeps the greater of each result and an element of the row, which lie a stride apart.
func greaterAlong(to, row []float32, stride int) {
	for k, at := 0, 0; k < len(to); k, at = k+1, at+stride {
		to[k] = max(to[k], row[at])
	}
}
