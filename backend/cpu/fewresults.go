package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/fewconv"
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
	bias := place.Nowhere
	if len(in) > 2 && in[2] != nil {
		bias = p.In(in[2])
	}
	p.finishPlanes(dst, bias, dy[0]*dy[1], dy[1], dy[2]*dy[3], t)
	return nil
}
