package cpu

import (
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Slice and Split: views where what is taken is contiguous, else copies by strides or choices of channels.

func sliceSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if n.Op.Since < 10 {
		return operators.RowMajor(n), nil
	}
	if chooses(n) {
		return operators.RowMajor(n), nil
	}
	if why := known(n); why != nil {
		return nil, why
	}
	plain := operators.RowMajor(n)
	if _, ok := place.ChannelSlice(n); ok && is4D(n.Inputs[0]) {
		s := graph.UniformSignature("nchw16c", n, rowMaj)
		s.Inputs[0], s.Outputs[0] = graph.Fixed(blocked), graph.Fixed(blocked)
		return append([]graph.Signature{s}, plain...), nil
	}
	return plain, nil
}

func settleSlice(p *planner, n *graph.Node) {
	x, y := n.Inputs[0], n.Outputs[0]
	if x.Format == blocked {
		start, _ := place.ChannelSlice(n)
		p.ViewChannels(x, y, start)
	} else if c, err := p.sliceOf(n, p.strides(n.Inputs[0])); err == nil {
		p.viewOf(c, x, y)
	}
}

func planSlice(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if x.Format == blocked {
		start, _ := place.ChannelSlice(n)
		return p.TakeChannels(x, y, start, p.gather)
	}
	c, err := p.sliceOf(n, p.strides(n.Inputs[0]))
	if err == nil {
		p.take(c, x, y)
	}
	return err
}

// sliceOf returns which elements of its row-major operand, whose strides are given, a Slice takes.
func (p *planner) sliceOf(n *graph.Node, strides []int) (copySpec, error) {
	x := n.Inputs[0]
	dx := p.Dims[x.ID]
	var starts, axes, steps []int
	if n.Op.Since < 10 {
		starts, axes = toInts(n, "starts"), toInts(n, "axes")
	} else {
		var err error
		for i, at := range []*[]int{&starts, nil, &axes, &steps} {
			if at != nil {
				if *at, err = p.Ints(n.Input(i + 1)); err != nil {
					return copySpec{}, err
				}
			}
		}
	}
	c := copySpec{dims: p.Dims[n.Outputs[0].ID], src: slices.Clone(strides), size: x.Type.DType.Size()}
	for i, s := range starts {
		axis, step := i, 1
		if len(axes) > 0 {
			axis = axes[i]
		}
		if axis < 0 {
			axis += len(dx)
		}
		if i < len(steps) {
			step = steps[i]
		}
		c.srcOff += firstTaken(s, step, dx[axis]) * strides[axis]
		c.src[axis] = strides[axis] * step
	}
	return c, nil
}

// firstTaken returns where a Slice begins along an axis of d elements.
func firstTaken(start, step, d int) int {
	if start < 0 {
		start += d
	}
	if step > 0 {
		return min(max(start, 0), d)
	}
	return min(max(start, 0), d-1)
}

// taken returns how many elements a Slice takes from the first one on.
func taken(first, end, step, d int) int {
	if end < 0 {
		end += d
	}
	switch {
	case step > 0:
		if end = min(max(end, 0), d); end > first {
			return (end-first-1)/step + 1
		}
	case step < 0:
		if end = min(max(end, -1), d-1); first > end {
			return int(uint64(first-end-1)/-uint64(step)) + 1
		}
	}
	return 0
}

// slicing are the scratch lists of a Slice that a run decides: what its operands say, and which axes it has seen.
type slicing struct {
	lists [4][]int64 // starts, ends, axes, steps
	seen  []bool
	dims  []int
	src   []int
}

// sliceRun is Slice by places that the run finds: it has no plan for each of them, as loops go through many.
func sliceRun(c *choice) error {
	x, w := c.x[0], &c.slicing
	for i := range w.lists {
		w.lists[i] = w.lists[i][:0]
		if t := c.operand(i + 1); t != nil {
			w.lists[i] = slices.Grow(w.lists[i], t.Len())[:t.Len()]
			if err := tensor.DecodeInts(w.lists[i], t); err != nil {
				return err
			}
		}
	}
	rank := len(x.Shape)
	w.dims, w.src = append(w.dims[:0], x.Shape...), append(w.src[:0], x.Shape...)
	for k, inner := rank-1, 1; k >= 0; k-- {
		w.src[k], inner = inner, inner*x.Shape[k]
	}
	w.seen = append(w.seen[:0], make([]bool, rank)...)
	spec := copySpec{dims: w.dims, src: w.src, size: x.DType.Size()}
	if err := w.apply(c.in.n, &spec); err != nil {
		return err
	}
	y, err := c.result(0, x.DType, spec.dims)
	if err != nil || len(y) == 0 {
		return err
	}
	if contiguous(spec.dims, spec.src) && len(y) < leastShared {
		copy(y, x.Bytes()[spec.srcOff*spec.size:])
		return nil
	}
	spec.dst = tensor.CompactStrides(spec.dims)
	chunks, grain, body := spec.coalesced().pieces()
	from := x.Bytes()
	c.workers().For(chunks, grain, func(_ any, _, lo, hi int) { body(y, from, lo, hi) }, nil)
	return c.ctx.Err()
}

// leastShared is how many bytes are worth several threads.
const leastShared = 1 << 17

// apply leaves in s what is taken along the axes that w lists.
func (w *slicing) apply(n *graph.Node, s *copySpec) error {
	starts, ends, axes, steps := w.lists[0], w.lists[1], w.lists[2], w.lists[3]
	if len(ends) != len(starts) || n.Input(3) != nil && len(axes) != len(starts) || n.Input(4) != nil && len(steps) != len(starts) {
		return property.Because(property.ShapeReason, "%v has %d starts, %d ends, %d axes, %d steps", n, len(starts), len(ends), len(axes), len(steps))
	}
	rank := len(s.dims)
	for i, start := range starts {
		axis, step := i, 1
		if n.Input(3) != nil {
			if axes[i] < -int64(rank) || axes[i] >= int64(rank) {
				return backend.BadIndex(n, 3, axes[i], rank)
			}
			axis = (int(axes[i]) + rank) % rank
		}
		if n.Input(4) != nil {
			step = int(steps[i])
		}
		if axis >= rank || w.seen[axis] || step == 0 {
			return property.Because(property.ShapeReason, "%v takes %v by %v of %d axes", n, axes, steps, rank)
		}
		w.seen[axis] = true
		d := s.dims[axis]
		first := firstTaken(int(start), step, d)
		s.srcOff += first * s.src[axis]
		if s.dims[axis] = taken(first, int(ends[i]), step, d); s.dims[axis] > 1 {
			s.src[axis] *= step
		}
	}
	return nil
}

func contiguous(dims, strides []int) bool {
	want := 1
	for k := len(dims) - 1; k >= 0; k-- {
		if dims[k] != 1 && strides[k] != want {
			return false
		}
		want *= dims[k]
	}
	return true
}

func toInts(n *graph.Node, name string) []int {
	v, _ := n.Ints(name)
	out := make([]int, len(v))
	for i, x := range v {
		out[i] = int(x)
	}
	return out
}

func splitSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	blocks := is4D(n.Inputs[0]) && axisOf(n, 0, 4) == 1
	for i, v := range n.Outputs {
		if v == nil {
			return nil, property.Because(property.Unsupported, "part %d is omitted, so that its size is not known", i)
		}
		_, ok := operators.ConstDim(v, 1)
		blocks = blocks && ok
	}
	plain := operators.RowMajor(n)
	if !blocks {
		return plain, nil
	}
	s := graph.UniformSignature("nchw16c", n, rowMaj)
	s.Inputs[0] = graph.Fixed(blocked)
	for i := range s.Outputs {
		s.Outputs[i] = graph.Fixed(blocked)
	}
	return append([]graph.Signature{s}, plain...), nil
}

func planSplit(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	dx := p.Dims[x.ID]
	axis := axisOf(n, 0, len(dx))
	if x.Format == blocked {
		start := 0
		for _, y := range n.Outputs {
			if err := p.TakeChannels(x, y, start, p.gather); err != nil {
				return err
			}
			start += p.Dims[y.ID][1]
		}
		return nil
	}
	for k, y := range n.Outputs {
		p.take(p.splitOf(n, k, axis), x, y)
	}
	return nil
}

func settleSplit(p *planner, n *graph.Node) {
	x := n.Inputs[0]
	axis, start := axisOf(n, 0, len(p.Dims[x.ID])), 0
	for k, y := range n.Outputs {
		if x.Format == blocked {
			p.ViewChannels(x, y, start)
			start += p.Dims[y.ID][1]
		} else {
			p.viewOf(p.splitOf(n, k, axis), x, y)
		}
	}
}

// splitOf returns which elements of its row-major operand are part k of a Split.
func (p *planner) splitOf(n *graph.Node, k, axis int) copySpec {
	x := n.Inputs[0]
	strides := p.strides(x)
	c := copySpec{dims: p.Dims[n.Outputs[k].ID], src: strides, size: x.Type.DType.Size()}
	for _, y := range n.Outputs[:k] {
		c.srcOff += p.Dims[y.ID][axis] * strides[axis]
	}
	return c
}

// viewOf makes y the part of x that c describes where its elements are contiguous, and reports whether it did.
func (p *planner) viewOf(c copySpec, x, y *graph.Value) bool {
	return contiguous(c.dims, c.src) && p.Part(y, x, c.srcOff*c.size)
}

// take makes y the part of x that c describes, but for the strides of y: a view where it can be, else a copy.
func (p *planner) take(c copySpec, x, y *graph.Value) {
	if p.viewOf(c, x, y) {
		return
	}
	dst := p.Out(y)
	c.dst = p.strides(y)
	p.strided(c, p.In(x), dst)
}

func init() {
	table.Register("Slice", operator{Signatures: sliceSignatures, Settle: settleSlice, Plan: planSlice, Strided: operators.WholeDims[*planner]})
	table.Register("Split", operator{Signatures: splitSignatures, Settle: settleSplit, Plan: planSplit, Strided: operators.WholeDims[*planner]})
}
