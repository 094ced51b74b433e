package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Col2Im adds up blocks that overlap, [N, C·block..., positions], in images [N, C, image...] of one to three axes. Elements of a row of an image that
// lie a stride apart are sums of the same taps of blocks at positions that follow each other: of rows of the operand, which are added as they lie.

func colImSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; !operators.IsFloat32(x) && !isDouble(x) {
		return nil, operators.NotFloat32(x)
	}
	if why := known(n, 1); why != nil {
		return nil, why
	}
	if rank := len(n.Outputs[0].Type.Shape) - 2; rank < 1 || rank > 3 {
		return nil, property.Because(property.ShapeReason, "images of %d axes", rank)
	}
	return operators.RowMajor(n), nil
}

// overlapped is a Col2Im: in is the image, and out the positions of blocks, of each axis.
type overlapped struct {
	axes            [3]poolAxis
	taps, positions int            // of a block, and of an image
	phases          [][]overlapTap // along a row
}

// overlapTap is a tap that reaches elements of a phase of a row: element i by position i + ahead.
type overlapTap struct{ tap, ahead int }

func planColIm(p *planner, n *graph.Node) error {
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	block, err := p.Ints(n.Inputs[2])
	if err != nil {
		return err
	}
	w, err := graph.ConvAttrs(n, block)
	if err != nil {
		return err
	}
	out, _, _, err := w.Resolve(dy[2:])
	if err != nil {
		return err
	}
	l := &overlapped{axes: poolAxes(&w, dy[2:], out), taps: product(block), positions: product(out)}
	if dx[2] != l.positions || dx[1] != dy[1]*l.taps {
		return property.Because(property.ShapeReason, "%v for blocks of %v at %v positions", dx, block, out)
	}
	x := &l.axes[2]
	for phase := range min(x.stride, x.in) {
		var taps []overlapTap
		for k := range x.kernel {
			if ahead, ok := x.position(phase, k); ok {
				taps = append(taps, overlapTap{k, ahead})
			}
		}
		l.phases = append(l.phases, taps)
	}
	if n.Inputs[0].Type.DType == tensor.Float64 {
		kernels := p.doubles()
		planOverlapped(p, n, l, func(to, x []float64) { kernels.Binary(double.Add, double.VV, to, to, x) })
		return nil
	}
	kernels := p.kernels
	planOverlapped(p, n, l, func(to, x []float32) { kernels.Binary(vec.Add, to, to, x) })
	return nil
}

// position returns where a window lies whose tap k is element at of the source; ok is false where a stride has none.
func (a *poolAxis) position(at, k int) (i int, ok bool) {
	i = at + a.begin - k*a.dilate
	ok = i%a.stride == 0
	return i / a.stride, ok
}

const (
	longPhase = 64 // elements of a phase of a row, at least, for it to be added up for itself
	longAdded = 24 // elements that a kernel is called to add, at least
)

// planOverlapped emits a step whose chunks are images of a channel, which the operand is read once for from front to back, or where rows have long phases these.
func planOverlapped[T float32 | float64](p *planner, n *graph.Node, l *overlapped, add func(to, x []T)) {
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	a := &l.axes
	width, rows, phases, stride := a[2].in, a[0].in*a[1].in, len(l.phases), a[2].stride
	wide, channel := ceilDiv(width, stride), l.taps*l.positions
	count := product(p.Dims[n.Outputs[0].ID]) / max(width, 1)
	if stride == 1 || wide < longPhase {
		plane := rows * width
		p.emit(step{chunks: count / max(rows, 1), grain: grainFor(float64(channel) + float64(plane)/8), body: func(st *state, _, lo, hi int) {
			x, y := of[T](st, src), of[T](st, dst)
			for i := lo; i < hi; i++ {
				addBlocks(l, y[i*plane:][:plane], x[i*channel:][:channel], add)
			}
		}}, []place.Memory{src}, []place.Memory{dst})
		return
	}
	nanos := float64(channel)/float64(max(rows, 1)) + float64(width) + 20
	room := p.scratch(n.Inputs[0].Type.DType.Size() * wide)
	p.emit(step{chunks: count * phases, grain: grainFor(nanos / float64(phases)), body: func(st *state, worker, lo, hi int) {
		x, y, sums := of[T](st, src), of[T](st, dst), place.Elements[T](room.bytes(st, worker))
		for i := lo; i < hi; i++ {
			row, phase := i/phases, i%phases
			s := sums[:ceilDiv(width-phase, stride)]
			clear(s)
			from := x[row/rows*channel:][:channel]
			l.blockRows(row%rows, func(tap, first int) {
				for _, t := range l.phases[phase] {
					if lo, hi := max(0, -t.ahead), min(len(s), a[2].out-t.ahead); lo < hi {
						add(s[lo:hi], from[(tap+t.tap)*l.positions+first+lo+t.ahead:][:hi-lo])
					}
				}
			})
			out := y[row*width:][:width]
			for k, v := range s {
				out[phase+k*stride] = v
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst, room.at})
}

// addBlocks makes the image of a channel: for each tap it adds the operand's rows, one for each row of positions, where they belong.
func addBlocks[T float32 | float64](l *overlapped, plane, x []T, add func(to, x []T)) {
	clear(plane)
	a := &l.axes
	for tap := range l.taps {
		kz, ky, kx := tap/(a[1].kernel*a[2].kernel), tap/a[2].kernel%a[1].kernel, tap%a[2].kernel
		shift := kx*a[2].dilate - a[2].begin
		from := ceilDiv(max(-shift, 0), a[2].stride)
		n := min(a[2].out, ceilDiv(max(a[2].in-shift, 0), a[2].stride)) - from
		if n <= 0 {
			continue
		}
		for oz := range a[0].out {
			z := oz*a[0].stride + kz*a[0].dilate - a[0].begin
			if z < 0 || z >= a[0].in {
				continue
			}
			for oy := range a[1].out {
				y := oy*a[1].stride + ky*a[1].dilate - a[1].begin
				if y < 0 || y >= a[1].in {
					continue
				}
				s := x[tap*l.positions+(oz*a[1].out+oy)*a[2].out+from:][:n]
				d := plane[(z*a[1].in+y)*a[2].in+from*a[2].stride+shift:]
				switch {
				case a[2].stride > 1:
					addApart(d, s, a[2].stride)
				case n >= longAdded:
					add(d[:n], s)
				default:
					d = d[:len(s)]
					for i, v := range s {
						d[i] += v
					}
				}
			}
		}
	}
}

// addApart adds elements to others that lie a stride apart.
func addApart[T float32 | float64](d, s []T, stride int) {
	at := 0
	for _, v := range s {
		d[at] += v
		at += stride
	}
}

// blockRows calls do for the taps of blocks, first those along the last axis, that reach a row of an image, and the positions at which they do, first those of a
// row of positions.
func (l *overlapped) blockRows(row int, do func(tap, first int)) {
	a := &l.axes
	z, y := row/a[1].in, row%a[1].in
	for kz := range a[0].kernel {
		oz, ok := a[0].position(z, kz)
		if !ok || oz < 0 || oz >= a[0].out {
			continue
		}
		for ky := range a[1].kernel {
			if oy, ok := a[1].position(y, ky); ok && oy >= 0 && oy < a[1].out {
				do((kz*a[1].kernel+ky)*a[2].kernel, (oz*a[1].out+oy)*a[2].out)
			}
		}
	}
}

func init() {
	table.Register("Col2Im", operator{Signatures: colImSignatures, Plan: planColIm})
}
