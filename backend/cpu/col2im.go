package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Col2Im adds up blocks that overlap, [N, C·block..., positions], in images [N, C, image...] of one to three axes. Elements of rows of an image that
// lie a stride apart, a phase of them, are sums of the same taps of blocks at positions that follow each other: of rows of the operand, which are added as they
// lie. Phases are interleaved when all is added. Blocks that lie beside each other are a transposition.

func colImSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; !operators.IsFloat32(x) && !isDouble(x) {
		return nil, operators.NotFloat32(x)
	}
	if why := known(n); why != nil {
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
	size            int     // bytes of an element
	taps, positions int     // of a block, and of an image
	along           rowTaps // along a row
	phases, wide    int     // of a row, and elements of each, some of which may lie behind it
	band            int     // rows of an image that are added up at once
}

// addedBytes is about how much of an image is added up at once, so that it stays in the second-level cache.
const addedBytes = 64 << 10

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
	l := newOverlapped(poolAxes(&w, dy[2:], out), n.Inputs[0].Type.DType.Size())
	if dx[2] != l.positions || dx[1] != dy[1]*l.taps {
		return property.Because(property.ShapeReason, "%v for blocks of %v at %v positions", dx, block, out)
	}
	p.addBlocks(l, p.In(n.Inputs[0]), p.Out(n.Outputs[0]), dy[0]*dy[1])
	return nil
}

// newOverlapped returns blocks of elements of so many bytes over the last of these axes.
func newOverlapped(axes [3]poolAxis, size int) *overlapped {
	l := &overlapped{axes: axes, size: size, taps: 1, positions: 1}
	for _, a := range axes {
		l.taps, l.positions = l.taps*a.kernel, l.positions*a.out
	}
	x := &l.axes[2]
	l.phases = max(1, min(x.stride, x.in))
	l.wide = ceilDiv(x.in, l.phases)
	l.along = tapsOf(x)
	l.band = max(1, min(addedBytes/(size*max(x.in, 1)), l.axes[1].in))
	return l
}

// addBlocks emits what adds up the blocks of so many images of one channel.
func (p *planner) addBlocks(l *overlapped, src, dst place.Memory, planes int) {
	a := &l.axes
	few := a[2].kernel == 3 || a[2].kernel == 4 // phases of whole images are interleaved in half the time of those of rows
	if !few && !slices.ContainsFunc(a[:], func(a poolAxis) bool { return !a.tiled() }) {
		dims := []int{planes, a[0].kernel, a[1].kernel, a[2].kernel, a[0].out, a[1].out, a[2].out}
		p.permute(dims, []int{0, 4, 1, 5, 2, 6, 3}, l.size, src, dst)
		return
	}
	if l.size == 8 {
		kernels := p.doubles()
		planOverlapped(p, l, src, dst, planes, func(to []float64, ldd int, x []float64, ldx, rows, cols int) {
			for i := range rows {
				to := to[i*ldd:][:cols]
				kernels.Binary(double.Add, double.VV, to, to, x[i*ldx:][:cols])
			}
		}, interleave)
		return
	}
	kernels, target := p.kernels, p.target
	planOverlapped(p, l, src, dst, planes, func(to []float32, ldd int, x []float32, ldx, rows, cols int) {
		kernels.BinaryRows(vec.Add, vec.VV, to, ldd, to, ldd, x, ldx, rows, cols)
	}, func(to, from []float32, phases, apart, n int) {
		reorder.Transpose2D(target, to, from, phases, n, apart, phases)
	})
}

// tiled reports whether blocks cover the axis, each element once.
func (a *poolAxis) tiled() bool {
	return a.stride == a.kernel && a.begin == 0 && a.in == a.out*a.kernel && (a.dilate == 1 || a.kernel == 1)
}

// position returns where a window lies whose tap k is element at of the source; ok is false where a stride has none.
func (a *poolAxis) position(at, k int) (i int, ok bool) {
	i = at + a.begin - k*a.dilate
	ok = i%a.stride == 0
	return i / a.stride, ok
}

// planOverlapped emits a step whose chunks are bands of rows of an image of a channel. add adds rows, and weave interleaves n elements of phases that lie apart.
func planOverlapped[T float32 | float64](p *planner, l *overlapped, src, dst place.Memory, planes int, add func(to []T, ldd int, x []T, ldx, rows, cols int), weave func(to, from []T, phases, apart, n int)) {
	a := &l.axes
	width, height, channel := a[2].in, a[1].in, l.taps*l.positions
	bands := ceilDiv(height, l.band)
	each := a[0].in * bands // chunks of a channel
	size := 0
	if l.phases > 1 {
		size = l.phases * l.wide * l.band
	}
	room := p.scratch(l.size * size)
	p.emit(step{chunks: planes * each, grain: grainFor(float64(channel)/float64(4*max(each, 1)) + float64(l.band*width)/4), body: func(st *state, worker, lo, hi int) {
		x, y, free := of[T](st, src), of[T](st, dst), place.Elements[T](room.bytes(st, worker))
		for i := lo; i < hi; i++ {
			first := i % bands * l.band
			rows := min(l.band, height-first)
			out := y[(i/bands*height+first)*width:][:rows*width]
			from, sums := x[i/each*channel:][:channel], out
			if l.phases > 1 {
				sums = free[:l.phases*rows*l.wide]
			}
			clear(sums)
			addBlocks(l, sums, from, i/bands%a[0].in, first, rows, add)
			if l.phases == 1 {
				continue
			}
			if width%l.phases == 0 {
				weave(out, sums, l.phases, rows*l.wide, rows*l.wide)
				continue
			}
			for y := range rows {
				row, whole := out[y*width:][:width], width/l.phases
				weave(row, sums[y*l.wide:], l.phases, rows*l.wide, whole)
				for k := whole * l.phases; k < width; k++ {
					row[k] = sums[(k%l.phases*rows+y)*l.wide+whole]
				}
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst, room.at})
}

// addBlocks adds, for each tap, the operand's rows to phases of some rows of slice z of an image.
func addBlocks[T float32 | float64](l *overlapped, sums, x []T, z, first, rows int, add func(to []T, ldd int, x []T, ldx, rows, cols int)) {
	a := &l.axes
	for kz := range a[0].kernel {
		oz, ok := a[0].position(z, kz)
		if !ok || oz < 0 || oz >= a[0].out {
			continue
		}
		for ky := range a[1].kernel {
			shift := ky*a[1].dilate - a[1].begin - first
			from, to := ceilDiv(max(-shift, 0), a[1].stride), min(a[1].out, ceilDiv(max(rows-shift, 0), a[1].stride))
			for _, t := range l.along {
				if from >= to {
					break
				}
				block := (kz*a[1].kernel+ky)*a[2].kernel + t.tap
				at := (t.first%l.phases*rows+from*a[1].stride+shift)*l.wide + t.first/l.phases
				add(sums[at:], a[1].stride*l.wide, x[block*l.positions+(oz*a[1].out+from)*a[2].out+t.from:], a[2].out, to-from, t.to-t.from)
			}
		}
	}
}

// interleave is Transpose2D for any type: it makes rows of an element of each phase.
func interleave[T any](to, from []T, phases, apart, n int) {
	for p := range phases {
		for k, v := range from[p*apart:][:n] {
			to[phases*k+p] = v
		}
	}
}

func init() {
	table.Register("Col2Im", operator{Signatures: colImSignatures, Plan: planColIm})
}
