package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// LinearAttention, whose states are matrices that change from token to token. States of a batch and its heads are independent.

func linearAttentionSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, v := range n.Inputs {
		if !operators.IsFloat32(v) {
			return nil, operators.NotFloat32(v)
		}
	}
	return operators.RowMajor(n), nil
}

// linearRun is LinearAttention of known shapes, and where everything is.
type linearRun struct {
	*microsoft.LinearAttention
	kernels               vec.Kernels
	recall, write, answer *gemm.Plan // what a state has for a key; the product that is added; what it has for queries
	in                    [microsoft.LinearInputs]place.Memory
	y, state              place.Memory
}

func planLinearAttention(p *planner, n *graph.Node) error {
	dims := make([][]int, microsoft.LinearInputs)
	r := &linearRun{kernels: p.kernels, y: p.Out(n.Output(0)), state: p.Out(n.Output(1))}
	var reads []place.Memory
	for i := range r.in {
		r.in[i] = place.Nowhere
		if v := n.Input(i); v != nil {
			dims[i], r.in[i] = p.Dims[v.ID], p.In(v)
			reads = append(reads, r.in[i])
		}
	}
	var err error
	if r.LinearAttention, err = microsoft.ReadLinearAttention(n, dims); err != nil {
		return property.Because(property.ShapeReason, "%v", err)
	}
	if r.state.Slot < 0 {
		r.state = p.Temp(4 * r.Batch * r.Own * r.Size * r.Width)
	}
	if r.y.Slot < 0 {
		r.y = p.Temp(4 * r.Batch * r.Length * max(r.Queries, r.Own) * r.Width)
	}
	_, queries, _ := r.QueriesOf(0)
	for _, x := range []struct {
		plan **gemm.Plan
		spec gemm.Spec
	}{
		{&r.recall, gemm.Spec{M: 1, N: r.Width, K: r.Size, B: gemm.Rows}},
		{&r.write, gemm.Spec{M: r.Size, N: r.Width, K: 1, B: gemm.Rows, Residual: true}},
		{&r.answer, gemm.Spec{M: queries, N: r.Width, K: r.Size, B: gemm.Rows}},
	} {
		if *x.plan, err = gemm.NewPlan(p.target, x.spec); err != nil {
			return err
		}
	}
	near := p.scratch(4 * (r.Width + r.Size))
	p.emit(step{work: 1, chunks: r.Batch * r.Own, grain: grainFor(float64(r.Length*r.Size*r.Width) / 4), body: func(st *state, worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			r.run(st, near.floats(st, worker), i/r.Own, i%r.Own)
		}
	}}, reads, []place.Memory{r.y, r.state, near.at})
	return nil
}

// run goes through all tokens for one state.
func (r *linearRun) run(st *state, scratch []float32, b, own int) {
	var in [microsoft.LinearInputs][]float32
	for i, at := range r.in {
		in[i] = st.F32(at)
	}
	size := r.Size * r.Width
	s := st.F32(r.state)[(b*r.Own+own)*size:][:size]
	if past := in[microsoft.LinearPast]; past != nil {
		copy(s, past[(b*r.Own+own)*size:])
	} else {
		clear(s)
	}
	add, factors := scratch[:r.Width], scratch[r.Width:][:r.Size]
	first, n, result := r.QueriesOf(own)
	for t := range r.Length {
		if t&63 == 63 && st.ctx.Err() != nil {
			return
		}
		at := b*r.Length + t
		r.decay(s, factors, in[microsoft.LinearDecay], at, own)
		k := in[microsoft.LinearKey][(at*r.Keys+own/(r.Own/r.Keys))*r.Size:][:r.Size]
		v := in[microsoft.LinearValue][(at*r.Own+own)*r.Width:][:r.Width]
		if r.Delta {
			beta := in[microsoft.LinearBeta][at]
			if r.BetaPerState {
				beta = in[microsoft.LinearBeta][at*r.Own+own]
			}
			r.recall.Run(0, r.recall.Chunks(), gemm.Args{A: k, B: s, C: add})
			r.kernels.Binary(vec.Sub, add, v, add)
			r.kernels.BinaryScalar(vec.Mul, add, add, beta)
			v = add
		}
		r.write.Run(0, r.write.Chunks(), gemm.Args{A: k, B: v, Res: s, C: s})
		y := st.F32(r.y)[(at*max(r.Queries, r.Own)+result)*r.Width:][:n*r.Width]
		r.answer.Run(0, r.answer.Chunks(), gemm.Args{A: in[microsoft.LinearQuery][(at*r.Queries+first)*r.Size:], B: s, C: y})
		r.kernels.BinaryScalar(vec.Mul, y, y, r.Scale)
	}
}

// decay lets a state decay by the logarithms of a token: one for all rows, or one for each.
func (r *linearRun) decay(s, factors, g []float32, at, own int) {
	switch {
	case !r.Decays:
	case r.PerKey:
		r.kernels.Apply(vec.Exp, factors, g[(at*r.Own+own)*r.Size:][:r.Size], vec.Params{})
		r.kernels.BinaryRows(vec.Mul, vec.VS, s, r.Width, s, r.Width, factors, 1, r.Size, r.Width)
	default:
		r.kernels.BinaryScalar(vec.Mul, s, s, float32(math.Exp(float64(g[at*r.Own+own]))))
	}
}

func init() {
	table.Register(operators.Of(microsoft.Domain, "LinearAttention"), operator{Signatures: linearAttentionSignatures, Plan: planLinearAttention})
}
