package cpu

import (
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
	if n.Input(4) != nil || n.Attrs.Lookup("clip") != nil {
		return nil, property.Because(property.Attribute, "sequence lengths or clip of %v", n)
	}
	if why := lstmRefused(n); why != nil {
		return nil, why
	}
	for _, i := range []int{1, 2, 3} {
		if v := n.Input(i); v != nil && !v.IsConst() {
			return nil, property.Because(property.Unsupported, "weights %v are not constant", v)
		}
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
	for d := range dirs {
		q := &recurrence{kernels: p.kernels, x: p.In(x), in: in, block: block, seq: seq, batch: batch, hidden: hidden, dirs: dirs, d: d,
			reverse: n.Str("direction", "forward") == "reverse" || d == 1, all: p.Temp(min(block, seq) * batch * gates * 4), y: y, states: states,
			c: p.Temp(batch * hidden * 4), zero: p.Temp(batch * states.row * 4), h0: p.In(n.Input(5)), c0: p.In(n.Input(6)), lastH: lastH, lastC: lastC}
		p.roundedRecurrence(q, p.roundedProduct(w, wp, d, seq*batch, in), p.roundedProduct(r, rp, d, batch, hidden), bias[d*gates:][:gates])
	}
	return nil
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

// roundedPanels is the number of panels of a chunk of a product.
const roundedPanels = 4

// roundedProduct is a product of rows that are rounded in a run, and integers of 8 bits.
type roundedProduct struct {
	kernels quant.Kernels
	product quant.Product
	k, n    int
	width   int          // bytes of a row
	at      []int        // where rows begin
	weights place.Memory // of the direction
	scales  []float32
	zeros   []int32 // nil where all are 0
	sums    scratch

	// What a run makes of the rows: the integers; the factor of each column; what its sums begin with; and the sum of each row about its
	// zero point.
	near, factors, starts, rowSums place.Memory
}

// roundedProduct plans a product of at most so many rows of k floats and direction d of weights [directions, k, columns].
func (p *planner) roundedProduct(w *graph.Value, params microsoft.DynamicLSTMWeights, d, rows, k int) *roundedProduct {
	dirs, n := p.Dims[w.ID][0], p.Dims[w.ID][2]
	g := &roundedProduct{kernels: p.integers, k: k, n: n, width: 4 * quant.Quads(k), at: make([]int, rows), weights: direction(p.In(w), dirs, d),
		scales: params.Scales[d*n:][:n]}
	g.product = quant.Product{Segments: []int{0}, Quads: quant.Quads(k), Signed: w.Type.DType == tensor.Int8, LDC: roundedPanels * quant.Panel}
	for i := range g.at {
		g.at[i] = i * g.width
	}
	padded := quant.Panels(n) * quant.Panel
	for _, z := range params.Zeros[d*n:][:n] {
		if z != 0 {
			g.zeros = make([]int32, padded)
			copy(g.zeros, params.Zeros[d*n:][:n])
			break
		}
	}
	g.sums = p.scratch(4 * rows * g.product.LDC)
	g.near, g.factors, g.starts, g.rowSums = p.Temp(rows*g.width), p.Temp(4*n), p.Temp(8*padded), p.Temp(4*rows)
	return g
}

// made is the memory of what is made of rows.
func (g *roundedProduct) made() []place.Memory {
	return []place.Memory{g.near, g.factors, g.starts, g.rowSums}
}

// sumColumns writes the sums of the weights' columns behind what sums begin with.
func (g *roundedProduct) sumColumns(st *state) {
	sums := of[int32](st, g.starts)
	g.kernels.ColumnSums(sums[len(sums)/2:], st.Bytes(g.weights), g.product.Quads, quant.Panels(g.n), g.product.Signed)
}

// round rounds so many rows, which lie ld apart, by one scale.
func (g *roundedProduct) round(st *state, src []float32, rows, ld int) {
	var all quant.Range
	for r := range rows {
		all.Join(g.kernels.Range(src[r*ld:][:g.k]))
	}
	l := dynamicLevels(all)
	if !g.product.Signed { // the rows are
		l.Signed, l.Zero = true, l.Zero-128
	}
	near, rowSums := st.Bytes(g.near), of[int32](st, g.rowSums)
	for r := range rows {
		row := near[r*g.width:][:g.width]
		clear(row[g.k:])
		if !(l.Scale > 0) { // nothing but zeros, or NaN among them
			clear(row)
			rowSums[r] = 0
			continue
		}
		g.kernels.Quantize(row[:g.k], src[r*ld:][:g.k], l)
		if g.zeros != nil {
			rowSums[r] = g.kernels.Sum(row[:g.k], l.Signed) - int32(g.k*l.Zero)
		}
	}
	for i, f := 0, st.F32(g.factors); i < len(f); i++ {
		f[i] = l.Scale * g.scales[i]
	}
	starts := of[int32](st, g.starts)
	half := len(starts) / 2
	clear(starts[:half])
	g.kernels.Subtract(starts[:half], starts[half:], int32(l.Zero))
}

// chunks is the number of parts of the columns.
func (g *roundedProduct) chunks() int { return ceilDiv(quant.Panels(g.n), roundedPanels) }

func (g *roundedProduct) grain(rows int) int {
	return grainFor(float64(rows*g.product.Quads*roundedPanels)*0.5 + 20)
}

// multiply writes the products of rows [first, first+rows) and the columns of chunks [lo, hi) to dst, compact rows of all columns, and adds
// bias, or, where that is nil, what is there.
func (g *roundedProduct) multiply(st *state, worker, lo, hi, first, rows int, dst, bias []float32) {
	near, w, sums := st.Bytes(g.near)[first*g.width:], st.Bytes(g.weights), g.sums.of(st, worker)
	factors, starts, rowSums := st.F32(g.factors), of[int32](st, g.starts), of[int32](st, g.rowSums)[first:]
	for c := lo; c < hi; c++ {
		panel := c * roundedPanels
		panels := min(roundedPanels, quant.Panels(g.n)-panel)
		col, ld := panel*quant.Panel, g.product.LDC
		cols := min(panels*quant.Panel, g.n-col)
		g.kernels.Multiply(&g.product, sums, near, g.at[:rows], w[panel*quant.PanelBytes(g.product.Quads):], starts[col:], panels)
		s := quant.Sums{Rows: 1, Cols: cols, LD: ld, Factors: factors[col:]}
		for r := range rows {
			s.Sums = sums[r*ld:][:cols]
			if g.zeros != nil {
				g.kernels.Subtract(s.Sums, g.zeros[col:][:cols], rowSums[r])
			}
			to := dst[r*g.n+col:][:cols]
			if s.Bias = to; bias != nil {
				s.Bias = bias[col:][:cols]
			}
			g.kernels.Scale(to, cols, s)
		}
	}
}

// roundedRecurrence emits a direction. The cell of a step is applied before what needs its hidden state, or its gates' memory.
func (p *planner) roundedRecurrence(q *recurrence, x, h *roundedProduct, bias []float32) {
	states := []place.Memory{q.c, q.zero}
	begin := func(st *state) {
		q.prepare(st)
		x.sumColumns(st)
		h.sumColumns(st)
		x.round(st, st.F32(q.x), q.seq*q.batch, q.in)
	}
	p.emit(step{serial: begin}, []place.Memory{q.h0, q.c0, q.x, x.weights, h.weights}, append(append(x.made(), h.starts), states...))
	for k := range q.seq {
		if k%q.block == 0 {
			rows, first := min(q.block, q.seq-k)*q.batch, q.first(k)*q.batch
			s := step{work: 1, chunks: x.chunks(), grain: x.grain(rows), body: func(st *state, worker, lo, hi int) {
				x.multiply(st, worker, lo, hi, first, rows, st.F32(q.all), bias)
			}}
			if k > 0 {
				s.serial = func(st *state) { q.pointwise(st, k-1) }
			}
			p.emit(s, append(x.made(), x.weights, q.zero), []place.Memory{q.all, q.y, q.c, x.sums.at})
		}
		s := step{work: 1, chunks: h.chunks(), grain: h.grain(q.batch), serial: func(st *state) {
			if k%q.block > 0 {
				q.pointwise(st, k-1)
			}
			h.round(st, q.state(st, k), q.batch, q.states.row)
		}, body: func(st *state, worker, lo, hi int) {
			h.multiply(st, worker, lo, hi, 0, q.batch, q.gates(st, k), nil)
		}}
		p.emit(s, []place.Memory{q.all, q.zero, h.weights, h.starts}, append(h.made(), q.all, q.y, q.c, h.sums.at))
	}
	p.emit(step{serial: q.finish}, []place.Memory{q.all, q.c, q.y, q.zero}, []place.Memory{q.y, q.c, q.lastH, q.lastC})
}

func init() {
	table.Register(operators.Of(microsoft.Domain, "DynamicQuantizeLSTM"), operator{Signatures: roundedLSTMSignatures, Plan: planRoundedLSTM, Strided: recurrentStrided})
}
