package cpu

import (
	"fmt"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// planConvert emits a change of layout inside of a group.
func planConvert(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.dims[x.ID]
	if x.Type.DType == tensor.Float32 && len(d) == 4 {
		from, ok1 := reorderLayout(x.Format)
		to, ok2 := reorderLayout(y.Format)
		if ok1 && ok2 {
			return p.reorder(reorder.Spec{N: d[0], C: d[1], HW: d[2] * d[3], From: from, To: to}, x, y)
		}
	}
	move, err := convert.PlanHost(x.Format.Layout, y.Format.Layout, x.Type.DType, d)
	if err != nil {
		return fmt.Errorf("%v to %v: %w", x.Format, y.Format, err)
	}
	src, dst := p.in(x), p.out(y)
	dt := x.Type.DType
	p.emit(step{serial: func(st *state) {
		s := tensor.Tensor{DType: dt, Shape: d, Data: st.bytes(src)}
		t := tensor.Tensor{DType: dt, Shape: d, Data: st.bytes(dst)}
		if err := move(st.ctx, &t, &s, nil); err != nil {
			panic(err)
		}
	}}, []memory{src}, []memory{dst})
	return nil
}

func reorderLayout(f graph.Format) (reorder.Layout, bool) {
	switch f {
	case rowMaj:
		return reorder.NCHW, true
	case blocked:
		return reorder.NCHW16c, true
	case graph.On(graph.NHWC):
		return reorder.NHWC, true
	}
	return 0, false
}

func (p *planner) reorder(spec reorder.Spec, x, y *graph.Value) error {
	same := spec.HW == 1 && spec.C%16 == 0
	if same && p.where[y.ID].slot < 0 { // the same bytes
		p.alias(y, x)
		return nil
	}
	plan, err := reorder.New(spec)
	if err != nil {
		return err
	}
	src, dst := p.in(x), p.out(y)
	p.emit(step{chunks: plan.Chunks(), grain: grainFor(float64(dst.size) * 0.1 / float64(max(plan.Chunks(), 1))), body: func(st *state, _, lo, hi int) {
		if err := plan.Run(lo, hi, st.f32(dst), st.f32(src)); err != nil {
			panic(err)
		}
	}}, []memory{src}, []memory{dst})
	return nil
}
