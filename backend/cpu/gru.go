package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// GRU: the input's part of all gates is one matrix product over the whole sequence; each time
// step adds the recurrent part of the gates z and r, then that of the candidate.

func gruSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := recurrentRefused(n, operators.IsFloat32); why != nil {
		return nil, why
	}
	if _, why := cellActivations(n, gruActivations, directionsOf(n)); why != nil {
		return nil, why
	}
	s := graph.UniformSignature("packed", n, rowMaj)
	s.Inputs[1] = graph.Fixed(packedGates)
	return []graph.Signature{s}, nil
}

// gru is one direction of a GRU. Gates are ordered z, r, h.
type gru struct {
	kernels                     vec.Kernels
	seq, batch, hidden, dirs, d int
	linear, reverse             bool
	first, second               *gemm.Plan   // recurrent products: of z and r (and h, where linear), and of h
	cell                        *cell        // nil: the default functions
	recurrentBias               rowBias      // where linear
	input                       place.Memory // the input's part of the gates, [seq, batch, 3·hidden]
	r                           place.Memory // recurrent weights of the direction, [3·hidden, hidden]
	y                           place.Memory // [seq, dirs, batch, hidden]
	states                      states       // in y
	h0                          place.Memory // state before the first step, [batch, hidden]
	gates, reset, candidate     place.Memory // scratch of a time step
	lengths                     lengths
}

func planGRU(p *planner, n *graph.Node) error {
	x, w, r := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	dx := p.Dims[x.ID]
	g := gru{kernels: p.kernels, seq: dx[0], batch: dx[1], dirs: p.Dims[w.ID][0], hidden: p.Dims[r.ID][2], linear: n.Int("linear_before_reset", 0) != 0}
	in, bh := dx[2], g.batch*g.hidden
	g.y = p.Out(n.Output(0))
	if g.y.Slot < 0 {
		g.y = p.Temp(g.seq * g.dirs * bh * 4)
	}
	g.lengths = p.lengthsOf(n, g.seq)
	g.states = statesAt(g.y, g.seq, g.dirs, g.batch, g.hidden)
	last := p.Out(n.Output(1))
	cells, err := p.cellsOf(n, gruActivations, g.dirs, g.hidden)
	if err != nil {
		return err
	}
	pre, err := gemm.NewPlan(p.target, gateSpec(gemm.Spec{M: g.seq * g.batch, N: 3 * g.hidden, K: in, B: gemm.Packed, Bias: true}, w.Format))
	if err != nil {
		return err
	}
	if err := g.plan(p.target); err != nil {
		return err
	}
	source, _ := p.gateInputs(w, p.In(x), g.seq*g.batch, in)
	initial, packed := place.Nowhere, p.gateWeights(w)
	if v := n.Input(5); v != nil {
		initial = p.In(v)
	}
	for d := range g.dirs {
		g.d, g.reverse = d, n.Str("direction", "forward") == "reverse" || d == 1
		var inputBias rowBias
		if inputBias, g.recurrentBias, err = p.gateBias(n, d, 3*g.hidden, !g.linear); err != nil {
			return err
		}
		g.cell = cells[d]
		g.r = direction(p.In(r), g.dirs, d)
		g.input, g.h0 = p.Temp(g.seq*g.batch*3*g.hidden*4), p.Temp(g.batch*g.states.row*4)
		g.gates, g.reset, g.candidate = p.Temp(bh*3*4), p.Temp(bh*4), p.Temp(bh*4)
		weights, all, h0 := direction(packed, g.dirs, d), g.input, g.h0
		s := step{work: pre.Cost(), chunks: pre.Chunks(), grain: 1, body: func(st *state, _, lo, hi int) {
			pre.Run(lo, hi, gemm.Args{A: st.F32(source), B: st.F32(weights), Bias: inputBias.of(st), C: st.F32(all)})
		}}
		p.emit(s, []place.Memory{source, weights, inputBias.at}, []place.Memory{all})
		p.emit(step{serial: func(st *state) {
			g.lengths.check(st, g.batch)
			var rows []float32
			if initial.Slot >= 0 {
				rows = st.F32(initial)[d*bh:]
			}
			g.states.begin(st.F32(h0), rows, g.batch, g.hidden)
		}}, []place.Memory{initial, g.lengths.in}, []place.Memory{h0})
		one := g
		for k := range g.seq {
			p.gruStep(&one, k)
		}
		if last.Slot >= 0 {
			p.emit(step{serial: func(st *state) { g.states.end(st.F32(last)[d*bh:], one.state(st, one.seq), g.batch, g.hidden) }}, []place.Memory{one.y, h0}, []place.Memory{last})
		}
		p.padded(g.lengths, g.y, g.states, d, g.batch, g.hidden)
	}
	return nil
}

// plan makes the recurrent products.
func (g *gru) plan(t isa.Target) (err error) {
	gates := 2
	if g.linear {
		gates = 3
	}
	h := g.hidden
	spec := gemm.Spec{M: g.batch, N: gates * h, K: h, B: gemm.Columns, LDA: g.states.row, LDC: 3 * h, LDR: 3 * h, Bias: g.linear, Residual: !g.linear}
	if g.first, err = gemm.NewPlan(t, spec); err != nil {
		return err
	}
	g.second, err = gemm.NewPlan(t, gemm.Spec{M: g.batch, N: h, K: h, B: gemm.Columns, LDR: 3 * h, Residual: true})
	return err
}

// at returns the time that step k computes.
func (g *gru) at(k int) int {
	if g.reverse {
		return g.seq - 1 - k
	}
	return k
}

// state returns the hidden state before step k.
func (g *gru) state(st *state, k int) []float32 {
	if k == 0 {
		return st.F32(g.h0)
	}
	return g.states.of(st.F32(g.y), g.at(k-1), g.d)
}

// inputs returns the input's part of the gates of step k.
func (g *gru) inputs(st *state, k int) []float32 {
	n := g.batch * 3 * g.hidden
	return st.F32(g.input)[g.at(k)*n : (g.at(k)+1)*n]
}

// gruStep emits a time step.
func (p *planner) gruStep(g *gru, k int) {
	h := g.hidden
	grain := productGrain(g.first)
	p.emit(step{work: g.first.Cost(), chunks: g.first.Chunks(), grain: grain, body: func(st *state, _, lo, hi int) {
		if g.lengths.idle(st, g.batch, g.at(k)) {
			return
		}
		runTurning(g.first, k, lo, hi, gemm.Args{A: g.state(st, k), B: st.F32(g.r), Bias: g.recurrentBias.of(st), Res: g.inputs(st, k), C: st.F32(g.gates)})
	}}, []place.Memory{g.h0, g.y, g.r, g.input, g.recurrentBias.at, g.lengths.in}, []place.Memory{g.gates})
	if !g.linear {
		p.emit(step{serial: func(st *state) { g.resetState(st, k) }}, []place.Memory{g.gates, g.h0, g.y, g.lengths.in}, []place.Memory{g.reset, g.gates})
		p.emit(step{work: g.second.Cost(), chunks: g.second.Chunks(), grain: grain, body: func(st *state, _, lo, hi int) {
			if g.lengths.idle(st, g.batch, g.at(k)) {
				return
			}
			runTurning(g.second, k, lo, hi, gemm.Args{A: st.F32(g.reset), B: st.F32(g.r)[2*h*h:], Res: g.inputs(st, k)[2*h:], C: st.F32(g.candidate)})
		}}, []place.Memory{g.reset, g.r, g.input, g.lengths.in}, []place.Memory{g.candidate})
	}
	p.emit(step{serial: func(st *state) { g.finish(st, k) }}, []place.Memory{g.gates, g.candidate, g.input, g.h0, g.lengths.in}, []place.Memory{g.y})
}

// resetState writes what the candidate's recurrent weights are applied to: the state, as far as the reset gate lets it.
func (g *gru) resetState(st *state, k int) {
	h, gates, reset, prev := g.hidden, st.F32(g.gates), st.F32(g.reset), g.state(st, k)
	for b := range g.batch {
		if g.lengths.over(st, b, g.at(k)) {
			continue
		}
		g.letThrough(reset[b*h:(b+1)*h], gates[b*3*h+h:b*3*h+2*h], prev[b*g.states.row:][:h], nil)
	}
}

// finish writes the state behind step k.
func (g *gru) finish(st *state, k int) {
	h, gates, candidate, prev, next, input := g.hidden, st.F32(g.gates), st.F32(g.candidate), g.state(st, k), g.state(st, k+1), g.inputs(st, k)
	for b := range g.batch {
		if row := b * g.states.row; g.lengths.over(st, b, g.at(k)) {
			copy(next[row:][:h], prev[row:])
			continue
		}
		z, c := gates[b*3*h:b*3*h+h], candidate[b*h:(b+1)*h]
		if g.linear {
			own, in := gates[b*3*h:(b+1)*3*h], input[b*3*h:(b+1)*3*h]
			g.kernels.Binary(vec.Add, own[:2*h], own[:2*h], in[:2*h])
			g.letThrough(c, own[h:2*h], own[2*h:], in[2*h:])
		}
		if row := b * g.states.row; g.cell != nil {
			g.cell.gru(next[row:][:h], z, c, prev[row:][:h])
		} else {
			g.kernels.GRU(next[row:][:h], z, c, prev[row:][:h])
		}
	}
}

// letThrough writes what is left of x when the reset gate r is applied, and y added.
func (g *gru) letThrough(dst, r, x, y []float32) {
	if g.cell != nil {
		g.cell.reset(dst, r, x, y)
	} else {
		g.kernels.GRUReset(dst, r, x, y)
	}
}

func init() {
	table.Register("GRU", operator{Signatures: gruSignatures, Plan: planGRU, Strided: recurrentStrided})
}
