package cpu

import (
	"math"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Pooling of row-major images over one to three axes that the blocked kernels have not: MaxPool that says where it found its results,
// MaxUnpool, which puts them back there, and LpPool.

// rowWindows are the windows of a pooling, tap by tap: a row of results reads elements of a row of the source that lie a stride apart.
type rowWindows struct {
	axes [3]poolAxis
	taps rowTaps // along the last axis
}

// tapsOf returns the taps along an axis that read the source somewhere.
func tapsOf(x *poolAxis) (taps rowTaps) {
	for k := range x.kernel {
		shift := k*x.dilate - x.begin
		from := ceilDiv(max(-shift, 0), x.stride)
		to := min(x.out, ceilDiv(max(x.in-shift, 0), x.stride))
		if from < to {
			taps = append(taps, rowTap{from, to, from*x.stride + shift, k})
		}
	}
	return taps
}

// rowTap is tap number tap along a row: results [from, to) read it within the source, the first of them at element first.
type rowTap struct{ from, to, first, tap int }

// rowTaps are taps of an axis.
type rowTaps []rowTap

// same reports whether each result of an axis is the element at its place.
func (t rowTaps) same(x *poolAxis) bool {
	return len(t) == 1 && t[0] == rowTap{to: x.in, tap: t[0].tap} && x.out == x.in && x.stride == 1
}

// lastPlace is the last number of an element of a channel that fits beside its rank.
const lastPlace = math.MaxInt32

func newRowWindows(n *graph.Node, in, out []int) (*rowWindows, error) {
	w, err := graph.PoolAttrs(n)
	if err != nil {
		return nil, err
	}
	l := &rowWindows{axes: poolAxes(&w, in, out)}
	l.taps = tapsOf(&l.axes[2])
	return l, nil
}

// rows is the number of rows of results of a channel, plane that of its elements in the source.
func (l *rowWindows) rows() int  { return l.axes[0].out * l.axes[1].out }
func (l *rowWindows) plane() int { return l.axes[0].in * l.axes[1].in * l.axes[2].in }

// each calls do with all taps of row i of a channel's results, in the order of the source: elements from at on, for results [from, to).
func (l *rowWindows) each(i int, do func(at, from, to int)) {
	a := &l.axes
	z0, z1, _ := a[0].window(i / a[1].out)
	y0, y1, _ := a[1].window(i % a[1].out)
	for z := z0; z < z1; z += a[0].dilate {
		for y := y0; y < y1; y += a[1].dilate {
			row := (z*a[1].in + y) * a[2].in
			for _, t := range l.taps {
				do(row+t.first, t.from, t.to)
			}
		}
	}
}

// nanos is about what a row of results takes, where a tap of one takes that.
func (l *rowWindows) nanos(tap float64) float64 {
	return tap*float64(l.axes[2].out*l.axes[0].kernel*l.axes[1].kernel*l.axes[2].kernel) + 20
}

// hasIndices reports whether a MaxPool says where it found its results.
func hasIndices(n *graph.Node) bool {
	return n.Is("MaxPool") && n.Output(1) != nil
}

// planeSignatures are those of row-major pooling.
func planeSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if !operators.IsFloat32(x) && !isDouble(x) && !(n.Is("MaxPool") && byteDType(x.Type.DType)) {
		return nil, operators.NotFloat32(x)
	}
	rank := len(x.Type.Shape)
	if w, err := graph.PoolAttrs(n); err != nil || rank < 3 || rank > 5 || len(w.Kernel) != rank-2 {
		return nil, property.Because(property.ShapeReason, "windows over one to three axes only, %v is %v", x, x.Type)
	}
	return operators.RowMajor(n), nil
}

// planMaxIndices plans a MaxPool with its second result: numbers of elements in the whole source, row by row, or where storage_order says
// so in each channel column by column.
func planMaxIndices(p *planner, n *graph.Node) error {
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[1].ID]
	l, err := newRowWindows(n, dx[2:], dy[2:])
	if err != nil {
		return err
	}
	if l.plane() > lastPlace {
		return property.Because(property.ShapeReason, "channels of %d elements", l.plane())
	}
	m := &indexedMax{rowWindows: l, columns: n.Int("storage_order", 0) != 0}
	switch n.Inputs[0].Type.DType {
	case tensor.Float64:
		planIndexed(p, n, m, math.Inf(-1), greatest64)
	case tensor.Int8:
		planIndexed(p, n, m, math.MinInt8, greatestByte[int8])
	case tensor.Uint8:
		planIndexed(p, n, m, 0, greatestByte[uint8])
	default:
		planIndexed(p, n, m, float32(math.Inf(-1)), greatest32)
	}
	return nil
}

// indexedMax is such a MaxPool.
type indexedMax struct {
	*rowWindows

	columns bool
}

// nothingFound is what a window of padding alone found.
const nothingFound = math.MinInt64

// planIndexed emits it: find writes, for row i of a channel's results, what has in its lower 31 bits how far in front of the last element that may be the
// greatest lies, and leaves nothingFound where there is none, which makes least.
func planIndexed[T float32 | float64 | int8 | uint8](p *planner, n *graph.Node, m *indexedMax, least T, find func(l *rowWindows, found []int64, plane []T, i int)) {
	src, dst, places := p.In(n.Inputs[0]), p.Out(n.Output(0)), p.Out(n.Output(1))
	rows, size, width := m.rows(), m.plane(), m.axes[2].out
	room := p.scratch(8 * width)
	p.emit(step{chunks: product(p.Dims[n.Outputs[1].ID]) / max(width, 1), grain: grainFor(m.nanos(1.2)), body: func(st *state, worker, lo, hi int) {
		x, y, index, found := of[T](st, src), of[T](st, dst), of[int64](st, places), place.Elements[int64](room.bytes(st, worker))[:width]
		for i := lo; i < hi; i++ {
			first := i / rows * size
			plane := x[first:][:size]
			for k := range found {
				found[k] = nothingFound
			}
			find(m.rowWindows, found, plane, i%rows)
			to := index[i*width:][:width]
			for k, f := range found {
				if to[k] = int64(first) - 1; f != nothingFound {
					to[k] = int64(first + lastPlace - int(f&lastPlace))
				}
			}
			if len(y) > 0 {
				out := y[i*width:][:width]
				for k, at := range to {
					if out[k] = least; at >= int64(first) {
						out[k] = x[at]
					}
				}
			}
			if m.columns {
				m.byColumns(to, first)
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst, places, room.at})
}

// byColumns numbers elements of a channel, which begins at first, column by column.
func (m *indexedMax) byColumns(to []int64, first int) {
	a := &m.axes
	for k, at := range to {
		if i := int(at) - first; i >= 0 {
			z, y, x := i/(a[1].in*a[2].in), i/a[2].in%a[1].in, i%a[2].in
			to[k] = int64(first + (x*a[1].in+y)*a[0].in + z)
		}
	}
}

// greatest32 compares numbers and places as one integer, which no branch depends on: the first of equals is the greatest, and NaN more than any
// number.
func greatest32(l *rowWindows, found []int64, plane []float32, i int) {
	stride := l.axes[2].stride
	l.each(i, func(at, from, to int) {
		place, s := int64(lastPlace-at), plane[at:]
		for k := range found[from:to] {
			f := &found[from+k]
			*f = max(*f, rankOf(s[k*stride])<<32|place)
			place -= int64(stride)
		}
	})
}

// rankOf orders float32 as integers of 32 bits; both zeros are one, and all NaN.
func rankOf(x float32) int64 {
	b := int32(math.Float32bits(x + 0)) // the bits
	b ^= int32(uint32(b>>31) >> 1)      // the bits
	if x != x {
		b = math.MaxInt32
	}
	return int64(b)
}

func greatestByte[T int8 | uint8](l *rowWindows, found []int64, plane []T, i int) {
	stride := l.axes[2].stride
	l.each(i, func(at, from, to int) {
		place, s := int64(lastPlace-at), plane[at:]
		for k := range found[from:to] {
			f := &found[from+k]
			*f = max(*f, int64(s[k*stride])<<32|place)
			place -= int64(stride)
		}
	})
}

// greatest64 looks at the number that was found each time.
func greatest64(l *rowWindows, found []int64, plane []float64, i int) {
	stride := l.axes[2].stride
	l.each(i, func(at, from, to int) {
		for k := from; k < to; k++ {
			x, f := plane[at], found[k]
			if f == nothingFound {
				found[k] = int64(lastPlace - at)
			} else if best := plane[lastPlace-int(f)]; x > best || x != x && best == best {
				found[k] = int64(lastPlace - at)
			}
			at += stride
		}
	})
}

func maxUnpoolSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if size := x.Type.DType.Size(); size != 2 && size != 4 && size != 8 || n.Inputs[1].Type.DType != tensor.Int64 {
		return nil, property.Because(property.DTypeReason, "%v is %v", x, x.Type.DType)
	}
	rank := len(x.Type.Shape)
	if w, err := graph.PoolAttrs(n); err != nil || rank < 3 || len(w.Kernel) != rank-2 || w.AutoPad != graph.PadExplicit {
		return nil, property.Because(property.Attribute, "window of %v", n)
	}
	return operators.RowMajor(n), nil
}

// unpooling is a MaxUnpool: places count in images [channels, natural...], which lie in the corner of the result's [channels, made...].
type unpooling struct {
	n                            *graph.Node
	natural, made                []int
	channels, plane, size, count int // of all images; elements of a channel as places count, of one of the result, and of one of the source
}

func planMaxUnpool(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	dx, dy := p.Dims[x.ID], p.Dims[y.ID]
	w, err := graph.PoolAttrs(n)
	if err != nil {
		return err
	}
	u := &unpooling{n: n, made: dy[2:], channels: dx[0] * dx[1], plane: 1, size: product(dy[2:]), count: product(dx[2:])}
	for i, d := range dx[2:] {
		natural := (d-1)*w.Strides[i] - w.Begin[i] - w.End[i] + w.Kernel[i]
		u.natural = append(u.natural, natural)
		u.plane *= natural
		if natural < 0 || natural > dy[2+i] {
			return property.Because(property.ShapeReason, "%v in a result of %v", u.natural, dy)
		}
	}
	if dy[0] != dx[0] || dy[1] != dx[1] || !sameDims(dx, p.Dims[n.Inputs[1].ID]) {
		return property.Because(property.ShapeReason, "%v and %v in a result of %v", dx, p.Dims[n.Inputs[1].ID], dy)
	}
	switch x.Type.DType.Size() {
	case 2:
		planUnpool[uint16](p, u)
	case 4:
		planUnpool[uint32](p, u)
	default:
		planUnpool[uint64](p, u)
	}
	return nil
}

// planUnpool emits a step that puts the elements of each channel back, and says of those that belong to another one, and a step that puts all back one
// by one where there are such: of elements for one place the last one counts.
func planUnpool[T uint16 | uint32 | uint64](p *planner, u *unpooling) {
	src, index, dst := p.In(u.n.Inputs[0]), p.In(u.n.Inputs[1]), p.Out(u.n.Outputs[0])
	astray := p.Temp(u.channels)
	p.emit(step{chunks: u.channels, grain: grainFor(float64(u.size)/8 + float64(u.count)*1.5), body: func(st *state, _, lo, hi int) {
		from, to, at, flags := of[T](st, src), of[T](st, dst), of[int64](st, index), st.Bytes(astray)
		for c := lo; c < hi; c++ {
			flags[c] = 0
			if !unpool(u, to[c*u.size:][:u.size], from[c*u.count:][:u.count], at[c*u.count:][:u.count], c) {
				flags[c] = 1
			}
		}
	}}, []place.Memory{src, index}, []place.Memory{dst, astray})
	p.emit(step{serial: func(st *state) {
		any := byte(0)
		for _, f := range st.Bytes(astray) {
			any |= f
		}
		if any == 0 {
			return
		}
		from, to := of[T](st, src), of[T](st, dst)
		clear(to)
		for i, at := range of[int64](st, index) {
			if total := int64(u.channels) * int64(u.plane); at < 0 || at >= total {
				panic(backend.OutOfRange(u.n, 1, at, 0, total-1))
			}
			c := int(at) / u.plane
			to[c*u.size+u.placed(int(at)-c*u.plane)] = from[i]
		}
	}}, []place.Memory{src, index, astray}, []place.Memory{dst})
}

// placed returns where an element of a channel lies in the result.
func (u *unpooling) placed(at int) int {
	to, stride := 0, 1
	for a := len(u.made) - 1; a >= 0; a-- {
		to += at % u.natural[a] * stride
		at /= u.natural[a]
		stride *= u.made[a]
	}
	return to
}

// unpool puts the elements of channel c back, and reports whether all belong to it.
func unpool[T uint16 | uint32 | uint64](u *unpooling, to, from []T, at []int64, c int) bool {
	clear(to)
	first := int64(c) * int64(u.plane)
	at = at[:len(from)]
	if u.plane == u.size { // so that no dim is longer
		for i, x := range from {
			k := uint64(at[i] - first) // what is in front becomes large
			if k >= uint64(len(to)) {
				return false
			}
			to[k] = x
		}
		return true
	}
	for i, x := range from {
		k := at[i] - first
		if k < 0 || k >= int64(u.plane) {
			return false
		}
		to[u.placed(int(k))] = x
	}
	return true
}

func planLpPool(p *planner, n *graph.Node) error {
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	l, err := newRowWindows(n, dx[2:], dy[2:])
	if err != nil {
		return err
	}
	if isDouble(n.Inputs[0]) {
		planLp[float64](p, n, l)
	} else {
		planLp[float32](p, n, l)
	}
	return nil
}

// planLp emits an LpPool, whose sums are float64.
func planLp[T float32 | float64](p *planner, n *graph.Node, l *rowWindows) {
	src, dst, power := p.In(n.Inputs[0]), p.Out(n.Outputs[0]), float64(n.Int("p", 2))
	rows, size, width, stride := l.rows(), l.plane(), l.axes[2].out, l.axes[2].stride
	room, tap := p.scratch(8*width), 1.0
	if power > 3 {
		tap = 30
	}
	p.emit(step{chunks: product(p.Dims[n.Outputs[0].ID]) / max(width, 1), grain: grainFor(l.nanos(tap)), body: func(st *state, worker, lo, hi int) {
		x, y, sums := of[T](st, src), of[T](st, dst), room.doubles(st, worker)[:width]
		for i := lo; i < hi; i++ {
			clear(sums)
			plane := x[i/rows*size:][:size]
			l.each(i%rows, func(at, from, to int) { addPowers(sums[from:to], plane[at:], stride, power) })
			out := y[i*width:][:width]
			switch power {
			case 1:
				for k, s := range sums {
					out[k] = T(s)
				}
			case 2:
				for k, s := range sums {
					out[k] = T(math.Sqrt(s))
				}
			case 3:
				for k, s := range sums {
					out[k] = T(math.Cbrt(s))
				}
			default:
				for k, s := range sums {
					out[k] = T(math.Pow(s, 1/power))
				}
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst, room.at})
}

// addPowers adds powers of the sizes of elements that lie a stride apart.
func addPowers[T float32 | float64](sums []float64, x []T, stride int, power float64) {
	switch power {
	case 1:
		for k := range sums {
			sums[k] += math.Abs(float64(x[k*stride]))
		}
	case 2:
		for k := range sums {
			v := float64(x[k*stride])
			sums[k] += v * v
		}
	case 3:
		for k := range sums {
			v := math.Abs(float64(x[k*stride]))
			sums[k] += v * v * v
		}
	default:
		for k := range sums {
			sums[k] += math.Pow(math.Abs(float64(x[k*stride])), power)
		}
	}
}

func globalLpSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; !operators.IsFloat32(x) || len(x.Type.Shape) < 3 {
		return nil, property.Because(property.ShapeReason, "float32 images only, %v is %v", x, x.Type)
	}
	if p := n.Int("p", 2); p != 1 && p != 2 {
		return nil, property.Because(property.Attribute, "p = %d", p)
	}
	return operators.RowMajor(n), nil
}

func planGlobalLp(p *planner, n *graph.Node) error {
	d, r := p.Dims[n.Inputs[0].ID], reductions["ReduceL2"]
	if n.Int("p", 2) == 1 {
		r = reductions["ReduceL1"]
	}
	p.reduceRows(r, p.In(n.Inputs[0]), p.Out(n.Outputs[0]), d[0]*d[1], product(d[2:]))
	return nil
}

func init() {
	table.Register("MaxUnpool", operator{Signatures: maxUnpoolSignatures, Plan: planMaxUnpool})
	table.Register("LpPool", operator{Signatures: planeSignatures, Plan: planLpPool})
	table.Register("GlobalLpPool", operator{Signatures: globalLpSignatures, Plan: planGlobalLp})
}
