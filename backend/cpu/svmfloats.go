package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
)

// Regressors whose function of two vectors is one of their product: operands and vectors are float32 in the model, and so are the products,
// which are as near as if both had been rounded once more. Powers of them, which need not fit into float32, and what the vectors add up to are
// float64.

// inFloats reports whether a regressor on a value is computed so.
func (m *machine) inFloats(x *graph.Value) bool {
	return m.n > 0 && (m.kind == "POLY" || m.kind == "SIGMOID") && x.Type.DType == tensor.Float32
}

// packFloats packs vectors, which gamma multiplies.
func (m *machine) packFloats(t isa.Target, vectors []float64) {
	columns := len(vectors) / m.n
	list := make([]float32, len(vectors))
	for i, v := range vectors {
		list[i] = float32(v * m.gamma)
	}
	m.floats, m.columns = make([]float32, gemm.PackedLen(columns, m.n)), columns
	gemm.PackBT(t, m.floats, list, columns, m.n, columns)
}

// floatRows are the rows of a regressor, some of which are computed together: by a plan for so many, and one for those that are left.
type floatRows struct {
	*numberRows
	ld          int // of products
	plans       [2]*gemm.Plan
	terms, wide scratch // of a worker: products, and those of a row as float64 where powers are made of them
	out         scratch
	shift       []float32 // what is added to products
}

func newFloatRows(p *planner, m *machine, x *graph.Value) (*floatRows, error) {
	ld := ceilDiv(m.n, gemm.Panel) * gemm.Panel
	r := &floatRows{numberRows: newNumberRows(p, x, ld), ld: ld}
	r.together = min(r.together, max(2*nearNumbers/ld, 1))
	if m.kind == "SIGMOID" {
		r.shift = make([]float32, ld)
		for i := range r.shift {
			r.shift[i] = float32(m.coef0)
		}
	} else {
		r.wide = p.scratch(ld * 8)
	}
	r.terms, r.out = p.scratch(r.together*ld*4), p.scratch(r.together*8)
	for i, rows := range []int{r.together, r.rows % r.together} {
		plan, err := gemm.NewPlan(p.target, gemm.Spec{M: rows, N: m.n, K: m.columns, LDC: ld, B: gemm.Packed, Bias: r.shift != nil})
		if err != nil {
			return nil, err
		}
		r.plans[i] = plan
	}
	return r, nil
}

// scores writes what the vectors add up to for rows from lo on, and rho.
func (r *floatRows) scores(st *state, worker int, kernels vec.Kernels, m *machine, lo int, out []float64) {
	plan, terms := r.plans[0], r.terms.floats(st, worker)[:len(out)*r.ld]
	if len(out) < r.together {
		plan = r.plans[1]
	}
	plan.Run(0, plan.Chunks(), gemm.Args{A: of[float32](st, r.src)[lo*m.columns:], B: m.floats, Bias: r.shift, C: terms})
	if m.kind == "SIGMOID" {
		kernels.Apply(vec.Tanh, terms, terms, vec.Params{})
		r.kernels.Dots(out, terms, r.ld, m.single, m.rho[0])
		return
	}
	powers := r.wide.doubles(st, worker)[:r.ld]
	for i := range out {
		r.kernels.Widen(powers, terms[i*r.ld:][:r.ld])
		m.powers(r.kernels, powers)
		out[i] = m.rho[0] + r.kernels.Dot(powers[:m.n], m.single)
	}
}

// planFloats emits the step of such a regressor.
func (m *machine) planFloats(p *planner, n *graph.Node) error {
	r, err := newFloatRows(p, m, n.Inputs[0])
	if err != nil {
		return err
	}
	y, to := p.Out(n.Outputs[0]), n.Outputs[0].Type.DType
	writes := []place.Memory{y, r.terms.at, r.wide.at, r.out.at}
	p.emit(step{chunks: ceilDiv(r.rows, r.together), grain: grainFor(float64(r.together*m.n*(r.columns+12)) / 16), body: func(st *state, worker, lo, hi int) {
		for ; lo < hi; lo++ {
			first := lo * r.together
			out := r.out.doubles(st, worker)[:min(r.together, r.rows-first)]
			r.scores(st, worker, p.kernels, m, first, out)
			m.finishScores(r.kernels, out)
			put(r.kernels, st, y, to, first, out)
		}
	}}, []place.Memory{r.src}, writes)
	return nil
}
