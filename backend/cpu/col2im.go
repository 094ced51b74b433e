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

// planOverlapped emits a step whose chunks are the elements of a row that lie a stride apart.
func planOverlapped[T float32 | float64](p *planner, n *graph.Node, l *overlapped, add func(to, x []T)) {
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	a := &l.axes
	width, rows, phases, stride := a[2].in, a[0].in*a[1].in, len(l.phases), a[2].stride
	wide, channel := ceilDiv(width, stride), l.taps*l.positions
	room := p.scratch(n.Inputs[0].Type.DType.Size() * wide)
	nanos := float64(channel)/float64(max(rows*phases, 1))*0.3 + float64(wide) + 20
	p.emit(step{chunks: product(p.Dims[n.Outputs[0].ID]) / max(width, 1) * phases, grain: grainFor(nanos), body: func(st *state, worker, lo, hi int) {
		x, y, sums := of[T](st, src), of[T](st, dst), place.Elements[T](room.bytes(st, worker))
		for i := lo; i < hi; i++ {
			row, phase := i/phases, i%phases
			out := y[row*width:][:width]
			s := sums[:ceilDiv(width-phase, stride)]
			if stride == 1 {
				s = out
			}
			clear(s)
			from := x[row/rows*channel:][:channel]
			l.each(row%rows, phase, len(s), func(at, first, n int) { add(s[at:at+n], from[first:first+n]) })
			if stride > 1 {
				for k, v := range s {
					out[phase+k*stride] = v
				}
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst, room.at})
}

// each calls do for what is added to the elements of a row of an image that belong to a phase, count of them: n elements of a channel of the operand from first
// on to those from at on.
func (l *overlapped) each(row, phase, count int, do func(at, first, n int)) {
	a := &l.axes
	z, y := row/a[1].in, row%a[1].in
	for kz := range a[0].kernel {
		oz, ok := a[0].position(z, kz)
		if !ok || oz < 0 || oz >= a[0].out {
			continue
		}
		for ky := range a[1].kernel {
			oy, ok := a[1].position(y, ky)
			if !ok || oy < 0 || oy >= a[1].out {
				continue
			}
			for _, t := range l.phases[phase] {
				from, to := max(0, -t.ahead), min(count, a[2].out-t.ahead)
				if from < to {
					tap := (kz*a[1].kernel+ky)*a[2].kernel + t.tap
					do(from, tap*l.positions+(oz*a[1].out+oy)*a[2].out+from+t.ahead, to-from)
				}
			}
		}
	}
}

func init() {
	table.Register("Col2Im", operator{Signatures: colImSignatures, Plan: planColIm})
}
