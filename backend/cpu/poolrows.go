package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
)

// planPoolRows emits a pooling of a row-major volume, one axis after the other: of the slices that a slice of results looks at the greatest, or the sum,
// of these row by row, and of these along the rows. It is for volumes whose neighbours are row-major: blocks of channels have faster kernels, but changing to
// blocks and back takes longer than this.
func planPoolRows(p *planner, n *graph.Node) error {
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	l, err := newRowWindows(n, dx[2:], dy[2:])
	if err != nil {
		return err
	}
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	a := &l.axes
	m := &poolRows{rowWindows: l, kernels: p.kernels, target: p.target, op: vec.Max, none: -inf, down: wholeFirst(tapsOf(&a[1]), a[1].out)}
	if n.Is("AveragePool") {
		m.op, m.none = vec.Add, 0
		for i := range a {
			m.shares[i] = a[i].shares(n.Int("count_include_pad", 0) != 0)
		}
		m.equal = allEqual(m.shares[1]) && allEqual(m.shares[2])
	}
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

// shares returns what an element counts in the mean of each window along an axis; padding counts where include says so. The mean of no elements is 0.
func (a *poolAxis) shares(include bool) []float32 {
	out := make([]float32, a.out)
	for i := range out {
		from, to, count := a.window(i)
		if !include {
			count = ceilDiv(max(to-from, 0), a.dilate)
		}
		out[i] = 1 / float32(max(count, 1))
	}
	return out
}

func allEqual(x []float32) bool {
	return !slices.ContainsFunc(x, func(v float32) bool { return v != x[0] })
}

// poolRows is such a pooling; down are the taps along the axis of rows. asRows and asColumns say that these axes stay as they are.
type poolRows struct {
	*rowWindows

	kernels           vec.Kernels
	target            isa.Target
	op                vec.BinaryOp
	none              float32      // of no elements
	shares            [3][]float32 // of means along each axis
	equal             bool         // those of a slice are
	down              rowTaps
	asRows, asColumns bool
	pitch             int // of rows in between, which are cut to elements a stride apart
}

// slice writes slice i of a channel's results: what it is folded to, and of sums the means.
func (m *poolRows) slice(out, channel, free []float32, i int) {
	m.fold(out, channel, free, i)
	if m.op != vec.Add || len(out) == 0 {
		return
	}
	deep, high, wide := m.shares[0][i], m.shares[1], m.shares[2]
	if m.equal {
		m.kernels.BinaryScalar(vec.Mul, out, out, deep*high[0]*wide[0])
		return
	}
	for y, share := range high {
		row := out[y*len(wide):][:len(wide)]
		m.kernels.BinaryScalar(vec.Mul, row, row, deep*share)
		m.kernels.Binary(vec.Mul, row, row, wide)
	}
}

// fold writes what slice i of a channel's results is folded to; free has room for a slice of the source, and twice for as many of its rows as there are results.
func (m *poolRows) fold(out, channel, free []float32, i int) {
	a := &m.axes
	z0, z1, _ := a[0].window(i)
	if z0 >= z1 {
		setAll(out, m.none)
		return
	}
	wide, size, same := a[2].in, a[1].in*a[2].in, m.asRows && m.asColumns
	most, deep := channel[z0*size:][:size], free[:size]
	if same {
		deep = out
	}
	for z := z0 + a[0].dilate; z < z1; z += a[0].dilate {
		m.kernels.Binary(m.op, deep, most, channel[z*size:][:size])
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
		begin := begins(m.down, a[1].out, func() { setAll(rows, m.none) })
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
	begin := begins(m.taps, a[2].out, func() { setAll(out, m.none) })
	for k, t := range m.taps {
		m.keep(k == 0 && begin, out[t.from:], a[2].out, rows[t.first%stride*a[1].out*pitch+t.first/stride:], pitch, a[1].out, t.to-t.from)
	}
}

// keep keeps the greater of results so far, if any, and elements, or their sum.
func (m *poolRows) keep(first bool, to []float32, ldd int, from []float32, lds, rows, cols int) {
	op, before, ldb := m.op, to, ldd
	if first { // the greater of elements and themselves
		op, before, ldb = vec.Max, from, lds
	}
	m.kernels.BinaryRows(op, vec.VV, to, ldd, before, ldb, from, lds, rows, cols)
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
