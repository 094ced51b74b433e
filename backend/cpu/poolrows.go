package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
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
	m := &maxRows{rowWindows: l, kernels: p.kernels, target: p.target, down: wholeFirst(tapsOf(&a[1]), a[1].out)}
	l.taps = wholeFirst(l.taps, a[2].out)
	m.asRows, m.asColumns = m.down.same(&a[1]), l.taps.same(&a[2])
	m.pitch = ceilDiv(a[2].in, a[2].stride) * a[2].stride
	in, out := a[1].in*a[2].in, a[1].out*a[2].out
	room := p.scratch(4 * (in + 2*a[1].out*m.pitch))
	nanos := float64(a[0].kernel*in+len(m.down)*a[1].out*a[2].in+len(l.taps)*out) / 8
	p.emit(step{chunks: dx[0] * dx[1] * a[0].out, grain: grainFor(nanos), body: func(st *state, worker, lo, hi int) {
		x, y, free := st.F32(src), st.F32(dst), room.floats(st, worker)
		for i := lo; i < hi; i++ {
			m.slice(y[i*out:][:out], x[i/a[0].out*l.plane():][:l.plane()], free, i%a[0].out)
		}
	}}, []place.Memory{src}, []place.Memory{dst, room.at})
	return nil
}

// maxRows is such a MaxPool; down are the taps along the axis of rows. asRows and asColumns say that these axes stay as they are.
type maxRows struct {
	*rowWindows

	kernels           vec.Kernels
	target            isa.Target
	down              rowTaps
	asRows, asColumns bool
	pitch             int // of rows in between, which are cut to elements a stride apart
}

// slice writes slice i of a channel's results; free has room for a slice of the source, and twice for as many of its rows as there are results.
func (m *maxRows) slice(out, channel, free []float32, i int) {
	a := &m.axes
	z0, z1, _ := a[0].window(i)
	if z0 >= z1 {
		setAll(out, -inf)
		return
	}
	wide, size, same := a[2].in, a[1].in*a[2].in, m.asRows && m.asColumns
	most, deep := channel[z0*size:][:size], free[:size]
	if same {
		deep = out
	}
	for z := z0 + a[0].dilate; z < z1; z += a[0].dilate {
		m.kernels.Binary(vec.Max, deep, most, channel[z*size:][:size])
		most = deep
	}
	if same {
		if z0+a[0].dilate >= z1 { // the only slice
			copy(out, most)
		}
		return
	}
	rows, pitch, free := most, wide, free[size:]
	if !m.asRows || pitch != m.pitch {
		if rows, pitch = free[:a[1].out*m.pitch], m.pitch; m.asColumns {
			rows, pitch = out, wide
		}
		begin := begins(m.down, a[1].out, func() { setAll(rows, -inf) })
		for k, t := range m.down {
			m.keep(k == 0 && begin, rows[t.from*pitch:], pitch, most[t.first*wide:], a[1].stride*wide, t.to-t.from, wide)
		}
	}
	if m.asColumns {
		return
	}
	if stride := a[2].stride; stride > 1 {
		phases, n := free[a[1].out*m.pitch:], a[1].out*pitch/stride
		reorder.Transpose2D(m.target, phases, rows, n, stride, stride, n)
		rows = phases
	}
	stride, pitch := a[2].stride, pitch/a[2].stride
	begin := begins(m.taps, a[2].out, func() { setAll(out, -inf) })
	for k, t := range m.taps {
		m.keep(k == 0 && begin, out[t.from:], a[2].out, rows[t.first%stride*a[1].out*pitch+t.first/stride:], pitch, a[1].out, t.to-t.from)
	}
}

// keep keeps the greater of results so far, if any, and elements.
func (m *maxRows) keep(first bool, to []float32, ldd int, from []float32, lds, rows, cols int) {
	before, ldb := to, ldd
	if first { // of elements with themselves
		before, ldb = from, lds
	}
	m.kernels.BinaryRows(vec.Max, vec.VV, to, ldd, before, ldb, from, lds, rows, cols)
}

// wholeFirst puts a tap that all results have in front, which may set them.
func wholeFirst(taps rowTaps, results int) rowTaps {
	for i, t := range taps {
		if t.from == 0 && t.to == results {
			taps[0], taps[i] = taps[i], taps[0]
		}
	}
	return taps
}

// begins reports whether the first tap is one of all results, so that these need not be set before, and otherwise has them set.
func begins(taps rowTaps, results int, set func()) bool {
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
