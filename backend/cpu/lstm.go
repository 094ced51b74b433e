package cpu

import (
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// LSTM: the input's part of all gates is one matrix product over a block of the sequence; each
// time step of the block then adds the recurrent part and applies the cell.

func lstmSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := recurrentRefused(n, operators.IsFloat32); why != nil {
		return nil, why
	}
	if _, why := cellActivations(n, lstmActivations, directionsOf(n)); why != nil {
		return nil, why
	}
	s := graph.UniformSignature("packed", n, rowMaj)
	s.Inputs[1], s.Inputs[2] = graph.Fixed(packedGates), graph.Fixed(packedGates)
	return []graph.Signature{s}, nil
}

// recurrentRefused tells why a recurrent operator, all of whose operands but lengths have to be of a type, is none that the backend runs, as
// far as all of them have the same reasons.
func recurrentRefused(n *graph.Node, is func(...*graph.Value) bool) *property.Reason {
	for i, v := range n.Inputs {
		if i != 4 && !is(v) {
			return operators.NotFloat32(v)
		}
	}
	if n.Int("layout", 0) != 0 { // graph/microsoft says it by transpositions, where the ranks are known
		return property.Because(property.Attribute, "layout of %v", n)
	}
	if clip := n.Float("clip", inf); !(clip >= 0) { // bounds in the wrong order
		return property.Because(property.Attribute, "clip %v of %v", clip, n)
	}
	return nil
}

// plainRefused tells why a recurrent operator has more than constant weights and the kernels' cell, whose activations these are; an RNN may have
// another one of doubleActivations.
func plainRefused(n *graph.Node, activations []string) *property.Reason {
	if n.Attrs.Lookup("clip") != nil || n.Input(7) != nil || n.Int("input_forget", 0) != 0 {
		return property.Because(property.Attribute, "clip, peepholes or coupled gates of %v", n)
	}
	for _, i := range []int{1, 2, 3} {
		if v := n.Input(i); v != nil && !v.IsConst() {
			return property.Because(property.Unsupported, "weights %v are not constant", v)
		}
	}
	for i, a := range n.Strs("activations") {
		if _, ok := doubleActivations[a]; !ok || !n.Is("RNN") && a != activations[i%len(activations)] {
			return property.Because(property.Attribute, "activation %q of %v", a, n)
		}
	}
	return nil
}

// lengthsRefused tells of lengths of sequences, where all have to be as long as the operand.
func lengthsRefused(n *graph.Node) *property.Reason {
	if n.Input(4) != nil {
		return property.Because(property.Attribute, "sequence lengths of %v", n)
	}
	return nil
}

// lengths are how many time steps each row of a batch has, where they are not all. Behind its last step a row's state stays as it is, from
// either end of the sequence, and its results are zero.
type lengths struct {
	n   *graph.Node
	in  place.Memory // Nowhere where all rows have all steps
	seq int
}

func (p *planner) lengthsOf(n *graph.Node, seq int) lengths {
	if v := n.Input(4); v != nil {
		return lengths{n, p.In(v), seq}
	}
	return lengths{in: place.Nowhere, seq: seq}
}

// check panics with a *backend.RangeError where a row has more steps than there are.
func (l lengths) check(st *state, batch int) {
	if l.in.Slot < 0 {
		return
	}
	for _, x := range of[int32](st, l.in)[:batch] {
		if x < 0 || int(x) > l.seq {
			panic(backend.OutOfRange(l.n, 4, int64(x), 0, int64(l.seq)))
		}
	}
}

// over reports whether row b has no step at a time.
func (l lengths) over(st *state, b, time int) bool {
	return l.in.Slot >= 0 && time >= int(of[int32](st, l.in)[b])
}

// idle reports whether no row has a step at a time, which then leaves the states as they are.
func (l lengths) idle(st *state, batch, time int) bool {
	return l.in.Slot >= 0 && time >= l.longest(st, batch)
}

// longest returns the most steps that a row has.
func (l lengths) longest(st *state, batch int) int {
	if l.in.Slot < 0 || batch == 0 {
		return l.seq
	}
	return int(slices.Max(of[int32](st, l.in)[:batch]))
}

// pad clears results [seq, dirs, batch, hidden] of a direction where rows are over.
func (l lengths) pad(st *state, y []float32, s states, dir, batch, hidden int) {
	if l.in.Slot < 0 {
		return
	}
	for b, x := range of[int32](st, l.in)[:batch] {
		for time := int(x); time < l.seq; time++ {
			clear(s.of(y, time, dir)[b*s.row:][:hidden])
		}
	}
}

// padded emits a pad of results in y where there are lengths.
func (p *planner) padded(l lengths, y place.Memory, s states, dir, batch, hidden int) {
	if l.in.Slot >= 0 {
		p.emit(step{serial: func(st *state) { l.pad(st, st.F32(y), s, dir, batch, hidden) }}, []place.Memory{y, l.in}, []place.Memory{y})
	}
}

// packedGates is the format of W[directions, gates, inputs] and R: for each direction panels of 16 gates, as gemm.PackBT
// writes them.
var packedGates = mustFormat("aBc16b")

func planLSTM(p *planner, n *graph.Node) error {
	x, w, r := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	dx := p.Dims[x.ID]
	seq, batch, in := dx[0], dx[1], dx[2]
	dirs, hidden := p.Dims[w.ID][0], p.Dims[r.ID][2]
	gates := 4 * hidden
	y, lastH, lastC := p.Out(n.Output(0)), p.Out(n.Output(1)), p.Out(n.Output(2))
	if y.Slot < 0 { // [seq, dirs, batch, hidden]
		y = p.Temp(seq * dirs * batch * hidden * 4)
	}
	initial := func(i int) place.Memory {
		if v := n.Input(i); v != nil {
			return p.In(v)
		}
		return place.Nowhere
	}
	h0, c0 := initial(5), initial(6)
	functions, err := p.cellsOf(n, lstmActivations, dirs, hidden)
	if err != nil {
		return err
	}
	states := statesAt(y, seq, dirs, batch, hidden)
	product, err := gemm.NewPlan(p.target, gateSpec(gemm.Spec{M: batch, N: gates, K: hidden, B: gemm.Packed, Residual: true, LDA: states.row}, r.Format))
	if err != nil {
		return err
	}
	source, words := p.gateInputs(w, p.In(x), seq*batch, in)
	allW, allR, rounded := p.gateWeights(w), p.gateWeights(r), place.Nowhere
	if pairsOf(r.Format) != pairs.Float32 {
		rounded = p.Temp(4 * batch * pairs.Words(hidden))
	}
	for d := range dirs {
		packedW, packedR := direction(allW, dirs, d), direction(allR, dirs, d)
		bias, _, err := p.gateBias(n, d, gates, true)
		if err != nil {
			return err
		}
		block := max(lstmRows/max(batch, 1), lstmBytes/max(batch*gates*4, 1), 1)
		err = p.recurrence(&recurrence{kernels: p.kernels, product: product, cell: functions[d], r: packedR, w: packedW, x: source, rounded: rounded, bias: bias, in: words, narrow: w.Format, block: block,
			seq: seq, batch: batch, hidden: hidden, d: d, reverse: n.Str("direction", "forward") == "reverse" || d == 1,
			all: p.Temp(min(block, seq) * batch * gates * 4), y: y, states: states, c: p.Temp(batch * hidden * 4), zero: p.Temp(batch * states.row * 4),
			h0: h0, c0: c0, lastH: lastH, lastC: lastC, lengths: p.lengthsOf(n, seq)})
		if err != nil {
			return err
		}
	}
	return nil
}

// A block of the sequence has as many rows of gates as lstmBytes hold, which keeps the arena small, but enough rows that the matrix
// product reads its weights at the speed of multiplying, and that the recurrent weights, which each step reads and each product of a
// block drives out of the second cache, come back to it few times.
const (
	lstmBytes = 256 << 10
	lstmRows  = 12
)

// directionsOf returns how many directions a recurrent operator has.
func directionsOf(n *graph.Node) int {
	if n.Str("direction", "forward") == "bidirectional" {
		return 2
	}
	return 1
}

// direction returns the part of packed weights that belongs to direction d.
func direction(m place.Memory, dirs, d int) place.Memory {
	size := m.Size / dirs
	return m.Part(d*size, size)
}

// states is where the hidden states lie of a recurrent operator's result [seq, dirs, batch, hidden]: the distances of time
// steps, directions and rows of the batch, in elements. The state before the first step, which lies elsewhere, has rows at
// the same distance.
type states struct{ time, dir, row int }

func statesAt(y place.Memory, seq, dirs, batch, hidden int) states {
	s := stridesAt(y, []int{seq, dirs, batch, hidden}, 4)
	return states{s[0], s[1], s[2]}
}

// of returns the hidden state of a time in a direction.
func (s states) of(y []float32, time, dir int) []float32 { return y[time*s.time+dir*s.dir:] }

// begin writes the state before the first step: compact rows, or zeros where there are none.
func (s states) begin(to, rows []float32, batch, hidden int) {
	for b := range batch {
		row := to[b*s.row:][:hidden]
		if rows == nil {
			clear(row)
		} else {
			copy(row, rows[b*hidden:])
		}
	}
}

// end writes a state as compact rows.
func (s states) end(rows, state []float32, batch, hidden int) {
	for b := range batch {
		copy(rows[b*hidden:(b+1)*hidden], state[b*s.row:])
	}
}

// recurrentStrided is the Strided of recurrent layers: of the states of all steps, where strided rows hold whole rows of the
// batch.
func recurrentStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	return v == n.Output(0) && operators.WholeDims(p, n, v, m)
}

// recurrence is the sequential part of one direction.
type recurrence struct {
	kernels               vec.Kernels
	product               *gemm.Plan
	cell                  *cell // nil: the default functions
	r, w, x               place.Memory
	rounded               place.Memory // a state in bfloat16, where weights are
	narrow                graph.Format // of w
	bias                  rowBias
	in, block             int // elements of 4 bytes of a row of x, time steps of a block
	seq, batch, hidden, d int
	reverse               bool
	all, y, c, zero       place.Memory // all holds the gates of one block
	h0, c0, lastH, lastC  place.Memory
	states                states // in y
	lengths               lengths
}

// at returns the time that step k computes.
func (q *recurrence) at(k int) int {
	if q.reverse {
		return q.seq - 1 - k
	}
	return k
}

// first returns the earliest time of the block that step k belongs to.
func (q *recurrence) first(k int) int {
	k -= k % q.block
	if q.reverse {
		return q.seq - min(k+q.block, q.seq)
	}
	return k
}

// part returns the direction's part of a state [dirs, batch, hidden].
func (q *recurrence) part(m []float32) []float32 {
	bh := q.batch * q.hidden
	return m[q.d*bh : (q.d+1)*bh]
}

// gates returns the gates of step k.
func (q *recurrence) gates(st *state, k int) []float32 {
	n := q.batch * 4 * q.hidden
	row := (q.at(k) - q.first(k)) * n
	return st.F32(q.all)[row : row+n]
}

// state returns the hidden state before step k.
func (q *recurrence) state(st *state, k int) []float32 {
	if k == 0 {
		return st.F32(q.zero)
	}
	return q.states.of(st.F32(q.y), q.at(k-1), q.d)
}

// prepare sets the states before the first step.
func (q *recurrence) prepare(st *state) {
	q.lengths.check(st, q.batch)
	if q.c0.Slot >= 0 {
		copy(st.F32(q.c), q.part(st.F32(q.c0)))
	} else {
		clear(st.F32(q.c))
	}
	var rows []float32
	if q.h0.Slot >= 0 {
		rows = q.part(st.F32(q.h0))
	}
	q.states.begin(st.F32(q.zero), rows, q.batch, q.hidden)
}

// pointwise applies the cell of step k to its gates.
func (q *recurrence) pointwise(st *state, k int) {
	g, c, y, h, peepholes := q.gates(st, k), st.F32(q.c), q.state(st, k+1), q.hidden, st.F32(q.cell.at())
	for b := range q.batch {
		if q.lengths.over(st, b, q.at(k)) {
			copy(y[b*q.states.row:][:h], q.state(st, k)[b*q.states.row:])
			continue
		}
		row, cb := g[b*4*h:(b+1)*4*h], c[b*h:(b+1)*h]
		if q.cell != nil {
			q.cell.lstm(peepholes, cb, y[b*q.states.row:][:h], row)
			continue
		}
		// ONNX orders the gates i, o, f, c.
		q.kernels.LSTM(cb, y[b*q.states.row:][:h], row[:h], row[h:2*h], row[2*h:3*h], row[3*h:], cb)
	}
}

// finish applies the last cell and writes the last states.
func (q *recurrence) finish(st *state) {
	if q.seq > 0 {
		q.pointwise(st, q.seq-1)
	}
	if q.lastH.Slot >= 0 {
		q.states.end(q.part(st.F32(q.lastH)), q.state(st, q.seq), q.batch, q.hidden)
	}
	if q.lastC.Slot >= 0 {
		copy(q.part(st.F32(q.lastC)), st.F32(q.c))
	}
	q.lengths.pad(st, st.F32(q.y), q.states, q.d, q.batch, q.hidden)
}

func (p *planner) recurrence(q *recurrence) error {
	p.emit(step{serial: q.prepare}, []place.Memory{q.h0, q.c0, q.lengths.in}, []place.Memory{q.c, q.zero})
	target := p.target
	for k := range q.seq {
		if k%q.block == 0 {
			if err := p.lstmGates(q, k); err != nil {
				return err
			}
		}
		s := step{work: q.product.Cost(), chunks: q.product.Chunks(), grain: productGrain(q.product), body: func(st *state, _, lo, hi int) {
			if q.lengths.idle(st, q.batch, q.at(k)) {
				return
			}
			g := q.gates(st, k)
			before := q.state(st, k)
			if q.rounded.Slot >= 0 {
				before = st.F32(q.rounded)
			}
			runTurning(q.product, k, lo, hi, gemm.Args{A: before, B: st.F32(q.r), Res: g, C: g})
		}}
		if k%q.block > 0 || q.rounded.Slot >= 0 {
			s.serial = func(st *state) {
				if k%q.block > 0 {
					q.pointwise(st, k-1)
				}
				if q.rounded.Slot >= 0 {
					q.product.Spec().Pairs.Matrix(target, of[uint32](st, q.rounded), q.state(st, k), q.batch, q.hidden, q.states.row)
				}
			}
		}
		p.emit(s, []place.Memory{q.all, q.zero, q.r, q.lengths.in, q.cell.at()}, []place.Memory{q.all, q.y, q.c, q.rounded})
	}
	p.emit(step{serial: q.finish}, []place.Memory{q.all, q.c, q.y, q.zero, q.lengths.in, q.cell.at()}, []place.Memory{q.y, q.c, q.lastH, q.lastC})
	return nil
}

// runTurning runs chunks of a step's product, from the last to the first in every other step: what a step has read last of
// weights that do not fit the second-level cache is there still when the next one begins.
func runTurning(cell *gemm.Plan, step, lo, hi int, x gemm.Args) {
	if step%2 == 0 {
		cell.Run(lo, hi, x)
		return
	}
	for i := hi - 1; i >= lo; i-- {
		cell.Run(i, i+1, x)
	}
}

// lstmGates emits the input's part of the gates of a block, that of step k. The cell of the step before reads the gates of
// the block before, and goes first.
func (p *planner) lstmGates(q *recurrence, k int) error {
	rows := min(q.block, q.seq-k) * q.batch
	pre, err := gemm.NewPlan(p.target, gemm.Spec{M: rows, N: 4 * q.hidden, K: q.in, B: gemm.Packed, Bias: true, Pairs: pairsOf(q.narrow), Half: inHalf(q.narrow)})
	if err != nil {
		return err
	}
	source := q.x.Part(q.first(k)*q.batch*q.in*4, rows*q.in*4)
	all, weights, bias := q.all, q.w, q.bias
	s := step{work: pre.Cost(), chunks: pre.Chunks(), grain: 1, body: func(st *state, _, lo, hi int) {
		if q.lengths.idle(st, q.batch, q.first(k)) {
			return
		}
		pre.Run(lo, hi, gemm.Args{A: st.F32(source), B: st.F32(weights), Bias: bias.of(st), C: st.F32(all)})
	}}
	if k > 0 {
		s.serial = func(st *state) { q.pointwise(st, k-1) }
	}
	p.emit(s, []place.Memory{source, weights, bias.at, q.zero, q.lengths.in, q.cell.at()}, []place.Memory{all, q.y, q.c})
	return nil
}

func init() {
	table.Register("LSTM", operator{Signatures: lstmSignatures, Plan: planLSTM, Strided: recurrentStrided})
}
