package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// LSTM, GRU and RNN of float64 with the activations that those of float32 have. The input's part of all gates is one product over a
// block of the sequence; each time step adds the recurrent part, and the cell goes over the gates row by row.

// packedDoubleGates is the format of W[directions, gates, inputs], and of R: for each direction panels of 8 gates.
var packedDoubleGates = mustFormat("aBc8b")

// doubleBlockBytes bounds the gates of a block of the sequence, doubleBlockRows is how many rows of them there are at least.
const (
	doubleBlockBytes = 512 << 10
	doubleBlockRows  = 16
)

// doubleCell is what an operator does with the gates of a time step: of hidden elements each, in its order.
type doubleCell struct {
	gates int
	// apply makes the next state of a row of the batch from its gates and the state before; c is LSTM's cell.
	apply func(k double.Kernels, gates, before, c, next []float64)
}

// recurrentSignatures are those of an operator with these activations: weights in panels, but for a GRU's recurrent ones, whose
// parts are multiplied one after the other.
func recurrentSignatures(activations []string) func(n *graph.Node) ([]graph.Signature, *property.Reason) {
	return func(n *graph.Node) ([]graph.Signature, *property.Reason) {
		if why := recurrentRefused(n, isDouble); why != nil {
			return nil, why
		}
		if why := lengthsRefused(n); why != nil {
			return nil, why
		}
		if why := plainRefused(n, activations); why != nil {
			return nil, why
		}
		s := graph.UniformSignature("packed", n, rowMaj)
		s.Inputs[1] = graph.Fixed(packedDoubleGates)
		if !n.Is("GRU") {
			s.Inputs[2] = graph.Fixed(packedDoubleGates)
		}
		return []graph.Signature{s}, nil
	}
}

// doubleRecurrence is one direction of a recurrent operator.
type doubleRecurrence struct {
	kernels                             double.Kernels
	seq, batch, in, hidden, gates, dirs int
	d, block                            int // the direction, time steps of a block
	reverse                             bool
	bias, recurrent                     []float64 // of the input's part and, where they are apart, of the recurrent one
	x, w, r, y, all, before, c          place.Memory
	h0, c0, lastH, lastC                place.Memory
}

func planDoubleRecurrent(gates int, emit func(p *planner, n *graph.Node, q *doubleRecurrence) error) func(p *planner, n *graph.Node) error {
	return func(p *planner, n *graph.Node) error {
		x, w, r := n.Inputs[0], n.Inputs[1], n.Inputs[2]
		dx := p.Dims[x.ID]
		q := doubleRecurrence{kernels: p.doubles(), seq: dx[0], batch: dx[1], in: dx[2], hidden: p.Dims[r.ID][2], gates: gates, dirs: p.Dims[w.ID][0], x: p.In(x),
			y: p.Out(n.Output(0)), lastH: p.Out(n.Output(1)), lastC: p.Out(n.Output(2)), h0: p.In(n.Input(5)), c0: p.In(n.Input(6))}
		rows := q.batch * q.hidden
		if q.y.Slot < 0 {
			q.y = p.Temp(8 * q.seq * q.dirs * rows)
		}
		wide := gates * q.hidden
		bias := make([]float64, q.dirs*2*wide)
		if b := n.Input(3); b != nil {
			if err := tensor.Decode(bias, b.Const); err != nil {
				return err
			}
		}
		q.block = max(doubleBlockRows/max(q.batch, 1), doubleBlockBytes/max(8*q.batch*wide, 1), 1)
		for d := range q.dirs {
			one := q
			one.d, one.reverse = d, n.Str("direction", "forward") == "reverse" || d == 1
			one.bias, one.recurrent = bias[2*d*wide:][:wide], bias[(2*d+1)*wide:][:wide]
			one.w, one.r = direction(p.In(w), q.dirs, d), direction(p.In(r), q.dirs, d)
			one.all, one.before, one.c = p.Temp(8*min(q.block, q.seq)*q.batch*wide), p.Temp(8*rows), p.Temp(8*rows)
			p.emit(step{serial: one.begin}, []place.Memory{one.h0, one.c0}, []place.Memory{one.before, one.c})
			if err := emit(p, n, &one); err != nil {
				return err
			}
			p.emit(step{serial: one.finish}, []place.Memory{one.before, one.y, one.c}, []place.Memory{one.lastH, one.lastC})
		}
		return nil
	}
}

// joined adds the recurrent bias to that of the input's part.
func (q *doubleRecurrence) joined() {
	sum := make([]float64, len(q.bias))
	for i, b := range q.bias {
		sum[i] = b + q.recurrent[i]
	}
	q.bias = sum
}

// begin sets the states before the first step.
func (q *doubleRecurrence) begin(st *state) {
	for _, m := range [2][2]place.Memory{{q.before, q.h0}, {q.c, q.c0}} {
		to, from := f64(st, m[0]), f64(st, m[1])
		if from == nil {
			clear(to)
		} else {
			copy(to, from[q.d*len(to):])
		}
	}
}

// finish writes the last states.
func (q *doubleRecurrence) finish(st *state) {
	n := q.batch * q.hidden
	for _, s := range [2]struct {
		to   place.Memory
		from []float64
	}{{q.lastH, q.state(st, q.seq)}, {q.lastC, f64(st, q.c)}} {
		if to := f64(st, s.to); to != nil {
			copy(to[q.d*n:][:n], s.from)
		}
	}
}

// at returns the time that step k computes.
func (q *doubleRecurrence) at(k int) int {
	if q.reverse {
		return q.seq - 1 - k
	}
	return k
}

// state returns the hidden state before step k.
func (q *doubleRecurrence) state(st *state, k int) []float64 {
	n := q.batch * q.hidden
	if k == 0 {
		return f64(st, q.before)[:n]
	}
	return f64(st, q.y)[(q.at(k-1)*q.dirs+q.d)*n:][:n]
}

// first returns the earliest time of the block that step k belongs to.
func (q *doubleRecurrence) first(k int) int {
	k -= k % q.block
	if q.reverse {
		return q.seq - min(k+q.block, q.seq)
	}
	return k
}

// step returns the gates of step k.
func (q *doubleRecurrence) step(st *state, k int) []float64 {
	n := q.batch * q.gates * q.hidden
	return f64(st, q.all)[(q.at(k)-q.first(k))*n:][:n]
}

// inputs emits the input's part of the gates of the block that begins with step k.
func (p *planner) doubleInputs(q *doubleRecurrence, k int) error {
	rows := min(q.block, q.seq-k) * q.batch
	plan, err := gemm.NewPlan(p.target, gemm.Spec{M: rows, N: q.gates * q.hidden, K: q.in, B: gemm.Packed, Bias: true, Double: true})
	if err != nil {
		return err
	}
	source, weights, all, bias := q.x.Part(8*q.first(k)*q.batch*q.in, 8*rows*q.in), q.w, q.all, q.bias
	p.emit(step{work: plan.Cost(), chunks: plan.Chunks(), grain: productGrain(plan), body: func(st *state, _, lo, hi int) {
		plan.RunDouble(lo, hi, gemm.Doubles{A: f64(st, source), B: f64(st, weights), Bias: bias, C: f64(st, all)})
	}}, []place.Memory{source, weights}, []place.Memory{all})
	return nil
}

// doubleSteps emits an operator whose recurrent part is one product a step.
func (p *planner) doubleSteps(q *doubleRecurrence, cell doubleCell) error {
	q.joined()
	h := q.hidden
	plan, err := gemm.NewPlan(p.target, gemm.Spec{M: q.batch, N: q.gates * h, K: h, B: gemm.Packed, Residual: true, Double: true})
	if err != nil {
		return err
	}
	for k := range q.seq {
		if k%q.block == 0 {
			if err := p.doubleInputs(q, k); err != nil {
				return err
			}
		}
		p.emit(step{work: plan.Cost(), chunks: plan.Chunks(), grain: productGrain(plan), body: func(st *state, _, lo, hi int) {
			g := q.step(st, k)
			plan.RunDouble(lo, hi, gemm.Doubles{A: q.state(st, k), B: f64(st, q.r), Res: g, C: g})
		}}, []place.Memory{q.all, q.before, q.y, q.r}, []place.Memory{q.all})
		p.emit(step{serial: func(st *state) {
			g, c, before, next := q.step(st, k), f64(st, q.c), q.state(st, k), q.state(st, k+1)
			for b := range q.batch {
				cell.apply(q.kernels, g[b*q.gates*h:(b+1)*q.gates*h], before[b*h:(b+1)*h], c[b*h:(b+1)*h], next[b*h:(b+1)*h])
			}
		}}, []place.Memory{q.all, q.before, q.y, q.c}, []place.Memory{q.all, q.y, q.c})
	}
	return nil
}

// lstmCell has gates i, o, f, c.
func lstmCell(k double.Kernels, g, _, c, next []float64) {
	h := len(c)
	i, o, f, own := g[:h], g[h:2*h], g[2*h:3*h], g[3*h:]
	k.Apply(double.Sigmoid, g[:3*h], g[:3*h])
	k.Apply(double.Tanh, own, own)
	k.Binary(double.Mul, double.VV, own, own, i)
	k.Binary(double.Mul, double.VV, c, c, f)
	k.Binary(double.Add, double.VV, c, c, own)
	k.Apply(double.Tanh, next, c)
	k.Binary(double.Mul, double.VV, next, next, o)
}

var doubleActivations = map[string]func(k double.Kernels, d, s []float64){
	"Tanh":    func(k double.Kernels, d, s []float64) { k.Apply(double.Tanh, d, s) },
	"Sigmoid": func(k double.Kernels, d, s []float64) { k.Apply(double.Sigmoid, d, s) },
	"Relu": func(k double.Kernels, d, s []float64) {
		var zero [1]float64
		k.Binary(double.Max, double.VS, d, s, zero[:])
	},
}

func planDoubleLSTM(p *planner, _ *graph.Node, q *doubleRecurrence) error {
	return p.doubleSteps(q, doubleCell{4, lstmCell})
}

func planDoubleRNN(p *planner, n *graph.Node, q *doubleRecurrence) error {
	name := "Tanh"
	if list := n.Strs("activations"); q.d < len(list) {
		name = list[q.d]
	}
	act := doubleActivations[name]
	return p.doubleSteps(q, doubleCell{1, func(k double.Kernels, g, _, _, next []float64) { act(k, next, g) }})
}

// planDoubleGRU emits a GRU: gates z, r, h. The reset gate is applied to the state in front of the candidate's product, or where
// linear_before_reset is set to what the product gives.
func planDoubleGRU(p *planner, n *graph.Node, q *doubleRecurrence) error {
	h, batch := q.hidden, q.batch
	linear := n.Int("linear_before_reset", 0) != 0
	if !linear {
		q.joined()
	}
	weights := p.Temp(8 * 3 * h * h) // [hidden, gates]
	p.permute([]int{3 * h, h}, []int{1, 0}, 8, q.r, weights)
	wide := 2 * h
	if linear {
		wide = 3 * h
	}
	first, err := gemm.NewPlan(p.target, gemm.Spec{M: batch, N: wide, K: h, LDB: 3 * h, B: gemm.Rows, Bias: linear, Double: true})
	if err != nil {
		return err
	}
	second, err := gemm.NewPlan(p.target, gemm.Spec{M: batch, N: h, K: h, LDB: 3 * h, B: gemm.Rows, Double: true})
	if err != nil {
		return err
	}
	own, candidate := p.Temp(8*batch*wide), p.Temp(8*batch*h)
	g := &doubleGRU{q, linear, wide, own, candidate}
	for k := range q.seq {
		if k%q.block == 0 {
			if err := p.doubleInputs(q, k); err != nil {
				return err
			}
		}
		p.emit(step{work: first.Cost(), chunks: first.Chunks(), grain: productGrain(first), body: func(st *state, _, lo, hi int) {
			first.RunDouble(lo, hi, gemm.Doubles{A: q.state(st, k), B: f64(st, weights), Bias: q.recurrent, C: f64(st, own)})
		}}, []place.Memory{q.before, q.y, weights}, []place.Memory{own})
		p.emit(step{serial: func(st *state) { g.reset(st, k) }}, []place.Memory{q.all, q.before, q.y, own}, []place.Memory{q.all, candidate, q.c})
		if !linear {
			p.emit(step{work: second.Cost(), chunks: second.Chunks(), grain: productGrain(second), body: func(st *state, _, lo, hi int) {
				second.RunDouble(lo, hi, gemm.Doubles{A: f64(st, q.c), B: f64(st, weights)[2*h:], C: f64(st, candidate)})
			}}, []place.Memory{q.c, weights}, []place.Memory{candidate})
		}
		p.emit(step{serial: func(st *state) { g.next(st, k) }}, []place.Memory{q.all, q.before, q.y, candidate}, []place.Memory{q.all, q.y})
	}
	return nil
}

// doubleGRU is one direction of a GRU.
type doubleGRU struct {
	*doubleRecurrence
	linear         bool
	wide           int          // of a row of own
	own, candidate place.Memory // recurrent parts: of the gates that are multiplied first, and of the candidate
}

// reset makes gates z and r of step k, and of the latter what the candidate's product reads, in c, or of its result the part that counts.
func (g *doubleGRU) reset(st *state, k int) {
	h := g.hidden
	all, own, before, candidate, c := g.step(st, k), f64(st, g.own), g.state(st, k), f64(st, g.candidate), f64(st, g.c)
	for b := range g.batch {
		row, rec := all[b*3*h:(b+1)*3*h], own[b*g.wide:(b+1)*g.wide]
		g.kernels.Binary(double.Add, double.VV, row[:2*h], row[:2*h], rec[:2*h])
		g.kernels.Apply(double.Sigmoid, row[:2*h], row[:2*h])
		if g.linear {
			g.kernels.Binary(double.Mul, double.VV, candidate[b*h:(b+1)*h], row[h:2*h], rec[2*h:])
		} else {
			g.kernels.Binary(double.Mul, double.VV, c[b*h:(b+1)*h], row[h:2*h], before[b*h:(b+1)*h])
		}
	}
}

// next makes the state behind step k: (1 - z)·tanh(candidate) + z·before.
func (g *doubleGRU) next(st *state, k int) {
	h := g.hidden
	all, candidate, before, next := g.step(st, k), f64(st, g.candidate), g.state(st, k), g.state(st, k+1)
	for b := range g.batch {
		row, to, old := all[b*3*h:(b+1)*3*h], next[b*h:(b+1)*h], before[b*h:(b+1)*h]
		z, own := row[:h], row[2*h:]
		g.kernels.Binary(double.Add, double.VV, own, own, candidate[b*h:(b+1)*h])
		g.kernels.Apply(double.Tanh, own, own)
		for i, x := range own {
			to[i] = (1-z[i])*x + z[i]*old[i]
		}
	}
}

func init() {
	// Of the inputs only X, W, R and B come before the lengths; recurrentRefused looks at those behind them.
	for _, op := range []struct {
		name        string
		activations []string
		gates       int
		emit        func(p *planner, n *graph.Node, q *doubleRecurrence) error
	}{{"LSTM", lstmActivations, 4, planDoubleLSTM}, {"GRU", gruActivations, 3, planDoubleGRU}, {"RNN", rnnActivations, 1, planDoubleRNN}} {
		registerDoubles(operator{Signatures: recurrentSignatures(op.activations), Plan: planDoubleRecurrent(op.gates, op.emit)}, 4, op.name)
	}
}
