package cpu

import (
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/place"
)

// A convolution with a single tap and the depthwise one behind it are one unit where what is between them, which nobody else reads, does not stay in
// the second-level cache: conv.Pair. That is decided when sizes are known. The first of the nodes emits nothing then, so that its result takes
// no memory, and the second one step, which profiles name by pairName.

// pairName is how profiles call the unit.
const pairName = "pointwise-depthwise"

// convNode is a convolution with its tail: a node, its head, the operands of that, and what is behind.
type convNode struct {
	n    *graph.Node
	head *graph.Node
	in   []*graph.Value
	t    tail
}

// convNodeOf reads a node; ok is false where it is no convolution.
func (p *planner) convNodeOf(n *graph.Node) (part convNode, ok bool) {
	switch {
	case p.e.kernels.Has(n):
		return part, false
	case n.Is("Conv"):
		return convNode{n: n, head: n, in: n.Inputs}, true
	case !n.IsCarve(graph.OpFused) || n.Str("pattern", "") != convTail.Name:
		return part, false
	}
	l, err := p.linksOf(convTail, n)
	if err != nil || !l.Head.Is("Conv") {
		return part, false
	}
	return convNode{n, l.Head, fuse.Outers(n, l.Head.Inputs), tailOf(l, n)}, true
}

// constant reports whether a convolution has constant weights in float32 of that format, a constant bias if any, adds nothing, and does nothing else by channel.
func (c *convNode) constant(weights graph.Format) bool {
	w := c.in[1]
	return w.IsConst() && w.Format == weights && pairsOf(w.Format) == pairs.Float32 && (len(c.in) < 3 || c.in[2] == nil || c.in[2].IsConst()) &&
		c.t.residual == nil && c.t.slopes == nil && is4D(c.in[0]) && c.in[0].Format == blocked && c.n.Outputs[0].Format == blocked
}

// spec returns the convolution's sizes and epilogue.
func (c *convNode) spec(p *planner) (s conv.Spec, err error) {
	x, w, y := p.Dims[c.in[0].ID], p.Dims[c.in[1].ID], p.Dims[c.n.Outputs[0].ID]
	s = conv.Spec{N: x[0], C: x[1], OC: y[1], Groups: int(c.head.Int("group", 1))}
	s.SrcImage, s.DstImage = p.In(c.in[0]).Pitch/4, p.Want[c.n.Outputs[0].ID].Pitch/4
	c.t.epilogue(p.kernels, &s.Epilogue)
	s.Map, err = convWindow(c.head, x[2:], w[2:], y[2:])
	return s, err
}

// behind returns the depthwise convolution that makes a unit with a convolution of a single tap; ok is false where there is none, or where the two
// apart are as fast.
func (p *planner) behind(first convNode) (second convNode, ok bool) {
	v := first.n.Outputs[0]
	if v.IsOutput() || !first.constant(denseWeights) || first.head.Int("group", 1) != 1 || !conv.PairPays(p.target, p.Bytes(v)) {
		return second, false
	}
	reader := fuse.Next(v)
	if reader == nil {
		return second, false
	}
	if second, ok = p.convNodeOf(reader); !ok || second.in[0] != v || !second.constant(slimWeights) {
		return second, false
	}
	channels := p.Dims[v.ID][1]
	if kind, why := convKindOf(second.head); why != nil || kind != convDepthwise || channels%16 == 1 || p.nothing(reader) {
		return second, false
	}
	// What the first reads may be overwritten by a node between them.
	if i := slices.Index(p.Order, first.n); i < 0 || i+1 == len(p.Order) || p.Order[i+1] != reader {
		return second, false
	}
	s, err := first.spec(p)
	return second, err == nil && s.Kernel == [2]int{1, 1} && s.Stride == [2]int{1, 1} && s.Pad == [4]int{} && s.OH == s.H && s.OW == s.W
}

// convOrPair emits a convolution, alone or with the one before it, or nothing where the one behind it does that. Each of the two decides by sizes
// alone, and nothing is kept, as one may be planned again without the other.
func (p *planner) convOrPair(c convNode) error {
	if _, ok := p.behind(c); ok {
		return nil
	}
	if before := c.in[0].Producer; before != nil {
		if first, ok := p.convNodeOf(before); ok {
			if second, ok := p.behind(first); ok && second.n == c.n {
				return p.convPair(first, c)
			}
		}
	}
	return p.conv(c.head, c.in, c.n.Outputs[0], c.t)
}

// convPair emits two convolutions as one step.
func (p *planner) convPair(first, second convNode) error {
	point, err := first.spec(p)
	if err != nil {
		return err
	}
	depth, err := second.spec(p)
	if err != nil {
		return err
	}
	point.DstImage, depth.SrcImage = 0, 0
	plan, err := conv.NewPair(p.target, conv.PairSpec{Point: point, Depth: depth})
	if err != nil {
		return err
	}
	var bias [2][]float32
	for i, part := range [2]convNode{first, second} {
		if len(part.in) > 2 && part.in[2] != nil {
			if bias[i], err = p.paddedBias(part.in[2], ceilDiv(point.OC, 16)*16); err != nil {
				return err
			}
		}
	}
	p.Unit(pairName, first.n)
	a, b := plan.WeightFloats()
	src, dst := p.In(first.in[0]), p.Out(second.n.Outputs[0])
	w, v := p.ConstantIn(first.in[1], denseWeights, 4*a), p.ConstantIn(second.in[1], slimWeights, 4*b)
	work, chunks := p.scratch(4*plan.Workspace()), plan.Chunks()
	p.emit(step{work: 1, chunks: chunks, grain: grainFor(float64(plan.Cost()) / 3 / float64(chunks)), body: func(st *state, worker, lo, hi int) {
		t := conv.PairTensors{Src: st.F32(src), PointWeights: st.F32(w), PointBias: bias[0], DepthWeights: st.F32(v), DepthBias: bias[1], Dst: st.F32(dst)}
		if err := plan.Run(lo, hi, work.floats(st, worker), &t); err != nil {
			panic(err)
		}
	}}, []place.Memory{src, w, v}, []place.Memory{dst, work.at})
	return nil
}

// withinSources says in an estimate that what is between the convolutions of a unit takes no memory, and that what the first reads is there until the
// second has run.
func (p *planner) withinSources(f *backend.Footprint) {
	for _, n := range p.Order {
		first, ok := p.convNodeOf(n)
		if !ok {
			continue
		}
		if _, ok := p.behind(first); ok {
			v := n.Outputs[0].ID
			f.Within[v], f.Bytes[v] = f.Within[first.in[0].ID], 0
		}
	}
}
