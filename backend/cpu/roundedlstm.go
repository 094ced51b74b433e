package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// DynamicQuantizeLSTM: an LSTM whose products are of integers of 8 bits. The sequence is rounded before the first step, and the hidden
// state before each; the sums become floats when they are added to the gates, and everything else is as in lstm.go.

// quadsDKN is the format of W[directions, inputs, gates] and R: for each direction panels of 16 gates with quads of inputs side by side.
var quadsDKN = mustFormat("aCB16c4b")

func roundedLSTMSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	for _, i := range []int{0, 3, 5, 6} {
		if v := n.Input(i); v != nil && !operators.IsFloat32(v) {
			return nil, operators.NotFloat32(v)
		}
	}
	if why := plainRefused(n, lstmActivations); why != nil {
		return nil, why
	}
	if _, _, err := microsoft.DynamicLSTMParameters(n); err != nil || !isByte(n.Inputs[1]) || !isByte(n.Inputs[2]) {
		return nil, property.Because(property.Unsupported, "weights of %v: %v", n, err)
	}
	s := graph.UniformSignature("rounded", n, rowMaj)
	s.Inputs[1], s.Inputs[2] = graph.Fixed(quadsDKN), graph.Fixed(quadsDKN)
	return []graph.Signature{s}, nil
}

func planRoundedLSTM(p *planner, n *graph.Node) error {
	x, w, r := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	dx := p.Dims[x.ID]
	seq, batch, in := dx[0], dx[1], dx[2]
	dirs, hidden := p.Dims[w.ID][0], p.Dims[r.ID][1]
	gates := 4 * hidden
	wp, rp, err := microsoft.DynamicLSTMParameters(n)
	if err != nil {
		return err
	}
	bias, err := summedBias(p, n, dirs, gates)
	if err != nil {
		return err
	}
	y, lastH, lastC := p.Out(n.Output(0)), p.Out(n.Output(1)), p.Out(n.Output(2))
	if y.Slot < 0 {
		y = p.Temp(seq * dirs * batch * hidden * 4)
	}
	states := statesAt(y, seq, dirs, batch, hidden)
	block := max(lstmRows/max(batch, 1), lstmBytes/max(batch*gates*4, 1), 1)
	made, err := keep(p.e, n, func() (*[2]lstmWeights, error) { return &[2]lstmWeights{p.lstmWeights(w), p.lstmWeights(r)}, nil })
	if err != nil {
		return err
	}
	alone := p.e.threads <= dirs || dirs > 1 && batch*hidden*gates < sideBySide
	panels, inputPanels := roundedPanels, roundedPanels
	if alone && batch <= quant.Height {
		panels = alonePanels
	}
	if alone && p.integers.Prepares() {
		inputPanels = sumMost
	}
	var list []*roundedDirection
	for d := range dirs {
		q := &recurrence{kernels: p.kernels, lengths: p.lengthsOf(n, seq), x: p.In(x), in: in, block: block, seq: seq, batch: batch, hidden: hidden, d: d,
			reverse: n.Str("direction", "forward") == "reverse" || d == 1, all: p.Temp(min(block, seq) * batch * gates * 4), y: y, states: states,
			c: p.Temp(batch * hidden * 4), zero: p.Temp(batch * states.row * 4), h0: p.In(n.Input(5)), c0: p.In(n.Input(6)), lastH: lastH, lastC: lastC}
		list = append(list, &roundedDirection{q, p.roundedProduct(w, wp, &made[0], d, seq*batch, in, inputPanels), p.roundedProduct(r, rp, &made[1], d, batch, hidden, panels),
			bias[d*gates:][:gates]})
	}
	if alone {
		p.roundedDirections(list)
		return nil
	}
	for _, r := range list {
		p.roundedSteps(r)
	}
	return nil
}

// lstmWeights is what is made once of packed weights: the sums of their columns, each direction's in whole panels; and, where products of a row take less
// time with them, the weights with their upper bits turned around, integers that are 128 more.
type lstmWeights struct {
	sums   []int32
	turned []byte
}

func (p *planner) lstmWeights(w *graph.Value) lstmWeights {
	d, signed, packed := p.Dims[w.ID], w.Type.DType == tensor.Int8, w.Const.Data[w.Const.Offset:]
	panels, quads := d[0]*quant.Panels(d[2]), quant.Quads(d[1])
	m := lstmWeights{sums: make([]int32, panels*quant.Panel)}
	p.integers.ColumnSums(m.sums, packed, quads, panels, signed)
	if signed && p.integers.Turns() {
		m.turned = make([]byte, panels*quant.PanelBytes(quads))
		p.integers.Flip(m.turned, packed[:len(m.turned)])
	}
	return m
}

// summedBias returns the sums of both biases, [directions, gates], with room for a panel behind them.
func summedBias(p *planner, n *graph.Node, dirs, gates int) ([]float32, error) {
	out := make([]float32, dirs*gates+quant.Panel)
	if n.Input(3) == nil {
		return out, nil
	}
	b := n.Inputs[3].Const
	both, err := paddedFloats(b, b.Len())
	if err != nil {
		return nil, err
	}
	for d := range dirs {
		part := both[2*d*gates:][:2*gates]
		p.kernels.Binary(vec.Add, out[d*gates:][:gates], part[:gates], part[gates:])
	}
	return out, nil
}

// Panels of a chunk of a product: those of few rows, which no other thread shares, are more, since a call takes as long as some of them.
const (
	roundedPanels = 4
	alonePanels   = 64
)

// roundedProduct is a product of rows that are rounded in a run, and integers of 8 bits.
type roundedProduct struct {
	kernels *rowKernels
	product quant.Product
	k, n    int
	width   int          // bytes of a row
	panels  int          // of a chunk
	at      []int        // where rows begin
	weights place.Memory // of the direction
	scales  []float32
	zeros   []int32 // nil where all are 0
	columns []int32 // sums of the weights' columns
	sums    scratch

	// What a run makes of the rows: the integers; the factor of each column; what its sums begin with; and the sum of each row about its
	// zero point.
	near, factors, starts, rowSums place.Memory
}

// roundedProduct plans a product of at most so many rows of k floats and direction d of weights [directions, k, columns].
func (p *planner) roundedProduct(w *graph.Value, params microsoft.DynamicLSTMWeights, made *lstmWeights, d, rows, k, panels int) *roundedProduct {
	dirs, n := p.Dims[w.ID][0], p.Dims[w.ID][2]
	g := &roundedProduct{kernels: &rowKernels{p.integers, p.kernels}, k: k, panels: panels, n: n, width: 4 * quant.Quads(k), at: make([]int, rows), weights: direction(p.In(w), dirs, d),
		scales: params.Scales[d*n:][:n]}
	g.product = quant.Product{Segments: []int{0}, Quads: quant.Quads(k), Signed: w.Type.DType == tensor.Int8, LDC: panels * quant.Panel}
	for i := range g.at {
		g.at[i] = i * g.width
	}
	padded := quant.Panels(n) * quant.Panel
	g.columns = made.sums[d*padded:][:padded]
	for _, z := range params.Zeros[d*n:][:n] {
		if z != 0 {
			g.zeros = make([]int32, padded)
			copy(g.zeros, params.Zeros[d*n:][:n])
			break
		}
	}
	if made.turned != nil && rows <= mostTurned {
		g.turn(direction(p.Own(made.turned), dirs, d))
	}
	g.sums = p.scratch(4 * rows * g.product.LDC)
	g.near, g.factors, g.starts, g.rowSums = p.Temp(rows*g.width), p.Temp(4*n), p.Temp(4*padded), p.Temp(4*rows)
	return g
}

// mostTurned is the most rows of a product whose weights are turned around beforehand: of more of them, those that kernels turn serve them all.
const mostTurned = 3

// turn has the product read weights that are 128 more, and unsigned, as their zero points are then.
func (g *roundedProduct) turn(weights place.Memory) {
	g.weights, g.product.Signed = weights, false
	g.columns = slices.Clone(g.columns)
	if g.zeros == nil {
		g.zeros = make([]int32, len(g.columns))
	}
	for i := range g.columns {
		g.columns[i] += int32(128 * g.k)
		g.zeros[i] += 128
	}
}

// made is the memory of what is made of rows.
func (g *roundedProduct) made() []place.Memory {
	return []place.Memory{g.near, g.factors, g.starts, g.rowSums}
}

// round rounds so many rows, which lie ld apart, by one scale; what rows that have no step at a time are is of no account.
func (g *roundedProduct) round(st *state, src []float32, rows, ld int, over lengths, time int) {
	var all quant.Range
	for r := range rows {
		if over.over(st, r, time) {
			continue
		}
		all.Join(g.kernels.integers.Range(src[r*ld:][:g.k]))
	}
	l := dynamicLevels(all)
	if !g.product.Signed { // the rows are
		l.Signed, l.Zero = true, l.Zero-128
	}
	near, rowSums := st.Bytes(g.near), of[int32](st, g.rowSums)
	for r := range rows {
		if over.over(st, r, time) {
			continue
		}
		row := near[r*g.width:][:g.width]
		clear(row[g.k:])
		if !(l.Scale > 0) { // nothing but zeros, or NaN among them
			clear(row)
			rowSums[r] = 0
			continue
		}
		g.kernels.integers.Quantize(row[:g.k], src[r*ld:][:g.k], l)
		if g.zeros != nil {
			rowSums[r] = g.kernels.integers.Sum(row[:g.k], l.Signed) - int32(g.k*l.Zero)
		}
	}
	g.kernels.floats.BinaryScalar(vec.Mul, st.F32(g.factors), g.scales, l.Scale)
	starts := of[int32](st, g.starts)
	clear(starts)
	g.kernels.integers.Subtract(starts, g.columns, int32(l.Zero))
}

// chunks is the number of parts of the columns.
func (g *roundedProduct) chunks() int { return ceilDiv(quant.Panels(g.n), g.panels) }

func (g *roundedProduct) grain(rows int) int {
	return grainFor(float64(rows*g.product.Quads*g.panels)*0.5 + 20)
}

// multiply writes the products of rows [first, first+rows) and the columns of chunks [lo, hi) to dst, compact rows of all columns, and adds
// bias, or, where that is nil, what is there.
func (g *roundedProduct) multiply(st *state, worker, lo, hi, first, rows int, dst, bias []float32) {
	near, w, sums := st.Bytes(g.near)[first*g.width:], st.Bytes(g.weights), g.sums.of(st, worker)
	factors, starts, rowSums := st.F32(g.factors), of[int32](st, g.starts), of[int32](st, g.rowSums)[first:]
	for c := lo; c < hi; c++ {
		panel := c * g.panels
		panels := min(g.panels, quant.Panels(g.n)-panel)
		col, ld := panel*quant.Panel, g.product.LDC
		cols := min(panels*quant.Panel, g.n-col)
		product := g.product
		product.Columns = g.columns[col:][:panels*quant.Panel]
		g.kernels.integers.Multiply(&product, sums, near, g.at[:rows], w[panel*quant.PanelBytes(g.product.Quads):], starts[col:], panels)
		s := quant.Sums{Rows: 1, Cols: cols, LD: ld, Factors: factors[col:]}
		for r := range rows {
			s.Sums = sums[r*ld:][:cols]
			if g.zeros != nil {
				g.kernels.integers.Subtract(s.Sums, g.zeros[col:][:cols], rowSums[r])
			}
			to := dst[r*g.n+col:][:cols]
			if s.Bias = to; bias != nil {
				s.Bias = bias[col:][:cols]
			}
			g.kernels.integers.Scale(to, cols, s)
		}
	}
}

// roundedDirection is a direction: what is sequential, the products of the input and of the state, and the bias of the gates.
type roundedDirection struct {
	*recurrence

	input, hiddenState *roundedProduct
	gateBias           []float32
}

// begin prepares the first step, and rounds the sequence.
func (r *roundedDirection) begin(st *state) {
	r.prepare(st)
	r.input.round(st, st.F32(r.x), r.lengths.longest(st, r.batch)*r.batch, r.in, lengths{in: place.Nowhere}, 0)
}

// before does what comes before the gates of step k: the cell of the step before, where its gates' memory is not yet needed by others, and
// the rounding of its hidden state.
func (r *roundedDirection) before(st *state, k int) {
	if k%r.block > 0 {
		r.pointwise(st, k-1)
	}
	if time := r.at(k); !r.lengths.idle(st, r.batch, time) {
		r.hiddenState.round(st, r.state(st, k), r.batch, r.states.row, r.lengths, time)
	}
}

// inputs writes chunks of the input's part of the gates of a block, that of step k.
func (r *roundedDirection) inputs(st *state, worker, lo, hi, k int) {
	first := r.first(k)
	if times := min(r.block, r.seq-k, r.lengths.longest(st, r.batch)-first); times > 0 {
		r.input.multiply(st, worker, lo, hi, first*r.batch, times*r.batch, st.F32(r.all), r.gateBias)
	}
}

// adds adds chunks of the state's part to the gates of step k.
func (r *roundedDirection) adds(st *state, worker, lo, hi, k int) {
	if !r.lengths.idle(st, r.batch, r.at(k)) {
		r.hiddenState.multiply(st, worker, lo, hi, 0, r.batch, r.gates(st, k), nil)
	}
}

// memory returns what a direction reads, and what it writes.
func (r *roundedDirection) memory() (reads, writes []place.Memory) {
	reads = []place.Memory{r.h0, r.c0, r.x, r.lengths.in, r.input.weights, r.hiddenState.weights}
	writes = append([]place.Memory{r.all, r.zero, r.c, r.y, r.lastH, r.lastC, r.input.sums.at, r.hiddenState.sums.at}, r.input.made()...)
	return reads, append(writes, r.hiddenState.made()...)
}

// sideBySide is the most products of a step, of one direction, that threads do not share: they take less time than it takes to share them.
const sideBySide = 1 << 20

// roundedDirections emits directions side by side, each on one thread.
func (p *planner) roundedDirections(list []*roundedDirection) {
	var reads, writes []place.Memory
	for _, r := range list {
		a, b := r.memory()
		reads, writes = append(reads, a...), append(writes, b...)
	}
	p.emit(step{work: 1, chunks: len(list), grain: 1, body: func(st *state, worker, lo, hi int) {
		for _, r := range list[lo:hi] {
			r.run(st, worker)
		}
	}}, reads, writes)
}

// run does all steps of a direction, until the run's context ends.
func (r *roundedDirection) run(st *state, worker int) {
	r.begin(st)
	for k := range r.seq {
		if st.ctx.Err() != nil {
			return
		}
		if k%r.block == 0 {
			if k > 0 {
				r.pointwise(st, k-1)
			}
			r.inputs(st, worker, 0, r.input.chunks(), k)
		}
		r.before(st, k)
		r.adds(st, worker, 0, r.hiddenState.chunks(), k)
	}
	r.finish(st)
}

// roundedSteps emits the steps of a direction, whose products threads share. The cell of a step is applied before what needs its hidden
// state, or its gates' memory.
func (p *planner) roundedSteps(r *roundedDirection) {
	reads, writes := r.memory()
	p.emit(step{serial: r.begin}, reads, writes)
	for k := range r.seq {
		if k%r.block == 0 {
			s := step{work: 1, chunks: r.input.chunks(), grain: r.input.grain(min(r.block, r.seq-k) * r.batch), body: func(st *state, worker, lo, hi int) {
				r.inputs(st, worker, lo, hi, k)
			}}
			if k > 0 {
				s.serial = func(st *state) { r.pointwise(st, k-1) }
			}
			p.emit(s, reads, writes)
		}
		p.emit(step{work: 1, chunks: r.hiddenState.chunks(), grain: r.hiddenState.grain(r.batch), serial: func(st *state) { r.before(st, k) },
			body: func(st *state, worker, lo, hi int) { r.adds(st, worker, lo, hi, k) }}, reads, writes)
	}
	p.emit(step{serial: r.finish}, reads, writes)
}

func init() {
	table.Register(operators.Of(microsoft.Domain, "DynamicQuantizeLSTM"), operator{Signatures: roundedLSTMSignatures, Plan: planRoundedLSTM, Strided: recurrentStrided})
}
