package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/fewconv"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
)

// fewResultsWeights is the format of the weights of a convolution of few results: [C/16, KH, KW, OC, 16].
var fewResultsWeights = mustFormat("Bcda16b")

// sumsChannels reports whether a convolution of images has so few results for its channels, and constant weights, that their sums over lanes of channels (package fewconv)
// take less than half of the multiply-adds that results in lanes take, of which at least eight are computed.
func sumsChannels(w *graph.Value) bool {
	d, static := w.Type.Shape.Static()
	if !static || len(d) != 4 || !w.IsConst() || d[0] < 1 || d[0] > fewconv.MostResults || d[1] <= planarChannels {
		return false
	}
	return 4*d[0]*ceilDiv(d[1], 16) <= d[1]
}

// fewResults emits such a convolution with its tail.
func (p *planner) fewResults(n *graph.Node, in []*graph.Value, out *graph.Value, t tail) error {
	x, w := in[0], in[1]
	dx, dw, dy := p.Dims[x.ID], p.Dims[w.ID], p.Dims[out.ID]
	window, err := convWindow(n, dx[2:], dw[2:], dy[2:])
	if err != nil {
		return err
	}
	plan, err := fewconv.New(p.target, fewconv.Spec{N: dx[0], C: dx[1], OC: dy[1], Map: window, SrcImage: p.In(x).Pitch / 4})
	if err != nil {
		return err
	}
	src, weights, dst := p.In(x), p.ConstantIn(w, w.Format, 4*plan.WeightFloats()), p.Out(out)
	chunks := plan.Chunks()
	p.emit(step{work: 1, chunks: chunks, grain: grainFor(float64(plan.Cost()) / 5 / float64(chunks)), body: func(st *state, _, lo, hi int) {
		plan.Run(lo, hi, st.F32(dst), st.F32(src), st.F32(weights))
	}}, []place.Memory{src, weights}, []place.Memory{dst})
	p.finishFew(in, dst, dy, t)
	return nil
}

// finishFew emits what follows the sums of images of dims d: the bias, where the operands have one, and the tail.
func (p *planner) finishFew(in []*graph.Value, dst place.Memory, d []int, t tail) {
	bias := place.Nowhere
	if len(in) > 2 && in[2] != nil {
		bias = p.In(in[2])
	}
	p.finishPlanes(dst, bias, d[0]*d[1], d[1], d[2]*d[3], t)
}

// A convolution at stride 1 of few results, over one axis, or of images of few channels, is computed from the row-major source, with pixels in lanes: results in lanes
// would leave some of them idle, and to change the layout of the source, or of results, takes as long as short sums. Measured over one axis with AVX2 (AMD Zen 3), of the time
// that blocked ones take: 1 to 4 results 0.1 to 0.55, 5 to 8 0.4 to 0.9, 12 0.6 to 0.9, where vectors of 512 bits would have to be twice as fast to be even, and 16 0.7 to 1.2;
// and with 50 positions, 8 results, 1.0 to 2.
const (
	mostLineResults = 8
	leastPositions  = 24 // of up to fewconv.PlanarTile results
	positionsEach   = 40 // for each result of more
)

// fewPlanar reports whether a Conv is one of those.
func fewPlanar(n *graph.Node) bool {
	if !n.Is("Conv") {
		return false
	}
	groups := int(n.Int("group", 1))
	d, static := n.Inputs[1].Type.Shape.Static()
	if !static || groups < 1 || len(d) < 3 || slices.Min(d) < 1 || d[0]%groups != 0 {
		return false
	}
	few := groups <= planarChannels && d[1]*groups <= planarChannels
	switch {
	case len(d) == 4:
		if !few || d[0] > fewconv.PlanarTile {
			return false
		}
	case len(d) > 4 || d[0] > mostLineResults || groups > 1 && !few:
		return false
	default:
		least := leastPositions
		if d[0] > fewconv.PlanarTile {
			least = positionsEach * d[0]
		}
		if positions, known := operators.ConstDim(n.Inputs[0], 2); known && positions < least {
			return false
		}
	}
	w, err := graph.ConvAttrs(n, d[2:])
	if err != nil || slices.Max(w.Strides) > 1 {
		return false
	}
	m := windowMap(&w, d[2:], d[2:])
	return fewconv.FitsPlanar(d[1], m.Kernel, m.Dilate)
}

// fewPlanar emits such a convolution with its tail.
func (p *planner) fewPlanar(s *conv.Spec, in []*graph.Value, out *graph.Value, t tail) error {
	plan, err := fewconv.NewPlanar(p.target, fewconv.Spec{N: s.N, C: s.C, OC: s.OC, Map: s.Map, SrcImage: s.SrcImage}, s.Groups)
	if err != nil {
		return err
	}
	x, w := in[0], in[1]
	weights := p.In(w)
	if w.IsConst() {
		weights = p.ConstantIn(w, w.Format, 4*s.OC*s.C/s.Groups*s.Kernel[0]*s.Kernel[1])
	}
	src, dst, room, chunks := p.In(x), p.Out(out), p.scratch(4*plan.Scratch()), plan.Chunks()
	p.emit(step{work: 1, chunks: chunks, grain: grainFor(float64(plan.Cost()) / 5 / float64(chunks)), body: func(st *state, worker, lo, hi int) {
		plan.Run(lo, hi, st.F32(dst), st.F32(src), st.F32(weights), room.floats(st, worker))
	}}, []place.Memory{src, weights}, []place.Memory{dst, room.at})
	p.finishFew(in, dst, []int{s.N, s.OC, s.OH, s.OW}, t)
	return nil
}
