package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// RNN: the input's part is one matrix product over the whole sequence; each time step adds the
// recurrent part and applies the activation.

func rnnSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := recurrentRefused(n, operators.IsFloat32); why != nil {
		return nil, why
	}
	if _, why := cellActivations(n, rnnActivations, directionsOf(n)); why != nil {
		return nil, why
	}
	s := graph.UniformSignature("packed", n, rowMaj)
	s.Inputs[1], s.Inputs[2] = graph.Fixed(packedGates), graph.Fixed(packedGates)
	return []graph.Signature{s}, nil
}

func planRNN(p *planner, n *graph.Node) error {
	x, w, r := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	dx := p.Dims[x.ID]
	seq, batch, dirs, hidden := dx[0], dx[1], p.Dims[w.ID][0], p.Dims[r.ID][2]
	bh := batch * hidden
	y, last, initial := p.Out(n.Output(0)), p.Out(n.Output(1)), place.Nowhere
	source, _ := p.gateInputs(w, p.In(x), seq*batch, dx[2])
	packedW, packedR := p.gateWeights(w), p.gateWeights(r)
	if y.Slot < 0 {
		y = p.Temp(seq * dirs * bh * 4)
	}
	if v := n.Input(5); v != nil {
		initial = p.In(v)
	}
	acts, why := cellActivations(n, rnnActivations, dirs)
	if why != nil {
		return why
	}
	pre, err := gemm.NewPlan(p.target, gateSpec(gemm.Spec{M: seq * batch, N: hidden, K: dx[2], B: gemm.Packed, Bias: true}, w.Format))
	if err != nil {
		return err
	}
	product, err := gemm.NewPlan(p.target, gateSpec(gemm.Spec{M: batch, N: hidden, K: hidden, B: gemm.Packed, Residual: true}, r.Format))
	if err != nil {
		return err
	}
	grain := productGrain(product)
	kernels, lengths := p.kernels, p.lengthsOf(n, seq)
	if lengths.in.Slot >= 0 {
		p.emit(step{serial: func(st *state) { lengths.check(st, batch) }}, []place.Memory{lengths.in}, nil)
	}
	for d := range dirs {
		functions := &cell{kernels: kernels, act: acts[d], clip: n.Float("clip", inf)}
		reverse := n.Str("direction", "forward") == "reverse" || d == 1
		bias, _, err := p.gateBias(n, d, hidden, true)
		if err != nil {
			return err
		}
		weights, recurrent := direction(packedW, dirs, d), direction(packedR, dirs, d)
		input := p.Temp(seq * bh * 4)
		p.emit(step{work: pre.Cost(), chunks: pre.Chunks(), grain: 1, body: func(st *state, _, lo, hi int) {
			pre.Run(lo, hi, gemm.Args{A: st.F32(source), B: st.F32(weights), Bias: bias.of(st), C: st.F32(input)})
		}}, []place.Memory{source, weights, bias.at}, []place.Memory{input})
		prev := p.firstState(initial, d, bh)
		for k := range seq {
			t := k
			if reverse {
				t = seq - 1 - k
			}
			before, own, next := prev, input.Part(t*bh*4, bh*4), y.Part((t*dirs+d)*bh*4, bh*4)
			before, _ = p.gateInputs(r, before, batch, hidden)
			p.emit(step{work: product.Cost(), chunks: product.Chunks(), grain: grain, body: func(st *state, _, lo, hi int) {
				if lengths.idle(st, batch, t) {
					return
				}
				runTurning(product, k, lo, hi, gemm.Args{A: st.F32(before), B: st.F32(recurrent), Res: st.F32(own), C: st.F32(next)})
			}}, []place.Memory{before, recurrent, own, lengths.in}, []place.Memory{next})
			kept := prev
			p.emit(step{serial: func(st *state) {
				h := st.F32(next)
				if !lengths.idle(st, batch, t) {
					functions.apply(0, h)
				}
				for b := range batch {
					if lengths.over(st, b, t) {
						copy(h[b*hidden:][:hidden], st.F32(kept)[b*hidden:])
					}
				}
			}}, []place.Memory{next, kept, lengths.in}, []place.Memory{next})
			prev = next
		}
		if last.Slot >= 0 {
			p.copyStep(last.Part(d*bh*4, bh*4), prev, bh*4)
		}
		p.padded(lengths, y, statesAt(y, seq, dirs, batch, hidden), d, batch, hidden)
	}
	return nil
}

// firstState returns the state of n floats before the first step of a direction: a part of what is given, or zeros.
func (p *planner) firstState(given place.Memory, d, n int) place.Memory {
	if given.Slot >= 0 {
		return given.Part(d*n*4, n*4)
	}
	zero := p.Temp(n * 4)
	p.emit(step{serial: func(st *state) { clear(st.F32(zero)) }}, nil, []place.Memory{zero})
	return zero
}

func init() { table.Register("RNN", operator{Signatures: rnnSignatures, Plan: planRNN}) }
