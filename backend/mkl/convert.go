package mkl

import (
	"context"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
)

// sameBytes reports whether a Convert changes none.
func (p *planner) sameBytes(n *graph.Node) bool {
	x, y := n.Inputs[0], n.Outputs[0]
	return p.Bytes(x) == p.Bytes(y) && sameOrder(x.Format.Layout, y.Format.Layout, p.Dims[x.ID])
}

func settleConvert(p *planner, n *graph.Node) {
	if p.sameBytes(n) {
		operators.View(p, n)
	}
}

// planConvert emits a change of layout inside of a group.
func planConvert(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	if p.sameBytes(n) {
		p.ViewOr(y, x, p.copyStep)
		return nil
	}
	if dtypeOf(x.Type.DType) == 0 || p.reordered(p.shape(x), p.shape(y), p.In(x), p.Out(y)) != nil {
		return p.hostConvert(x, y)
	}
	return nil
}

// reordered emits a change of layout alone, by the library; nothing is emitted where it knows no way.
func (p *planner) reordered(from, to shape, src, dst place.Memory) error {
	pr, err := p.make(p.l.reorder(from, to))
	if err != nil {
		return err
	}
	p.run(pr, arg{argSrc, src, pr.src, false}, arg{argDst, dst, pr.dst, true})
	return nil
}

// hostConvert is a reorder of carve's own, for what the library does not reorder.
func (p *planner) hostConvert(x, y *graph.Value) error {
	move, err := planMove(x, y, p.Dims[x.ID])
	if err != nil {
		return err
	}
	src, dst := p.In(x), p.Out(y)
	p.emit(step{host: func(st *state) error { return move(st.ctx, st.Bytes(dst), st.Bytes(src)) }}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

// hostMove copies between two places.
type hostMove func(ctx context.Context, dst, src []byte) error

func init() {
	table.Register(operators.Convert, operator{Settle: settleConvert, Plan: planConvert, Strided: byImages, Single: true})
}
