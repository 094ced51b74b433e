package microsoft

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// dynamicLSTM is an LSTM with weights of 8 bits. What they are multiplied by is rounded to 8 bits as well, which its results show: the
// sequence by one scale, as far as the longest row goes, and the hidden states before a step by one, of rows that have it. ONNX Runtime has the
// states of other rows change that scale, too: of which rows depends on the results that are asked for. With what its kernel does not know it is an
// LSTM whose weights were dequantised, on all backends.
var dynamicLSTM = operator{
	name: "DynamicQuantizeLSTM",
	schema: "in X:T W:T2 R:T2 B?:T sequence_lens?:T1 initial_h?:T initial_c?:T P?:T W_scale:T W_zero_point:T2 R_scale:T R_zero_point:T2\n" +
		"out Y?:T Y_h?:T Y_c?:T\nat " + recurrentText + "\nty T=float T1=int32 T2=int8,uint8",
	expand: func(o *op) {
		w, r := o.recurrentWeights(o.in[1], o.in[8], o.in[9]), o.recurrentWeights(o.in[2], o.in[10], o.in[11])
		for i, v := range o.calls("LSTM", 3, o.attrsWithout(), o.in[0], w, r, o.in[3], o.in[4], o.in[5], o.in[6], o.in[7]) {
			o.set(i, v)
		}
	},
	keep: keepsDynamicLSTM,
	eval: evalDynamicLSTM,
}

// keepsDynamicLSTM reports whether evalDynamicLSTM computes a node: one without peepholes, other activations, clipping or coupled
// gates, whose scales and zero points are constants.
func keepsDynamicLSTM(n *graph.Node) bool {
	for i, name := range n.Strs("activations") {
		if !strings.EqualFold(name, []string{"Sigmoid", "Tanh", "Tanh"}[i%3]) {
			return false
		}
	}
	_, _, err := DynamicLSTMParameters(n)
	return err == nil && n.Input(7) == nil && n.Attrs.Lookup("clip") == nil && n.Int("input_forget", 0) == 0
}

// DynamicLSTMWeights are the scales and zero points of one of the two weights of a DynamicQuantizeLSTM, for each direction and column.
type DynamicLSTMWeights struct {
	Scales []float32 // [directions, columns]
	Zeros  []int32   // likewise
}

// DynamicLSTMParameters returns the scales and zero points of W and R, each one for a whole direction or for each of its columns, of a
// node of DynamicQuantizeLSTM where all are constants.
func DynamicLSTMParameters(n *graph.Node) (w, r DynamicLSTMWeights, err error) {
	var in [4]*tensor.Tensor
	for i := range in {
		v := n.Input(8 + i)
		if v == nil || v.Const == nil {
			return w, r, fmt.Errorf("%v: %w: scales or zero points that are not constant", n, ErrUnsupported)
		}
		in[i] = v.Const
	}
	s := n.Inputs[1].Type.Shape
	if len(s) != 3 {
		return w, r, fmt.Errorf("%v: %w: weights of rank %d", n, ErrShape, len(s))
	}
	dirs, _ := s[0].Const()
	cols, ok := s[2].Const()
	if !ok || dirs < 1 || dirs > 2 || cols < 1 || cols > math.MaxInt32 {
		return w, r, fmt.Errorf("%v: %w: weights %v", n, ErrShape, s)
	}
	if w, err = lstmWeights(in[0], in[1], int(dirs), int(cols)); err == nil {
		r, err = lstmWeights(in[2], in[3], int(dirs), int(cols))
	}
	if err != nil {
		return w, r, fmt.Errorf("%v: %w", n, err)
	}
	return w, r, nil
}

func lstmWeights(scales, zeros *tensor.Tensor, dirs, cols int) (DynamicLSTMWeights, error) {
	out := DynamicLSTMWeights{make([]float32, dirs*cols), make([]int32, dirs*cols)}
	spread := func(t *tensor.Tensor, set func(i int, v float64)) error {
		n := t.Len()
		if n != dirs && n != dirs*cols {
			return fmt.Errorf("%w: %v for %d directions of %d columns", ErrShape, t, dirs, cols)
		}
		for i := range dirs * cols {
			set(i, t.Float64At(i*n/(dirs*cols)))
		}
		return nil
	}
	if err := spread(scales, func(i int, v float64) { out.Scales[i] = float32(v) }); err != nil {
		return out, err
	}
	return out, spread(zeros, func(i int, v float64) { out.Zeros[i] = int32(v) })
}

// evalDynamicLSTM computes a node that keepsDynamicLSTM accepts.
func evalDynamicLSTM(c *call) error {
	x, err := c.input(0, 3)
	if err != nil {
		return err
	}
	wp, rp, err := DynamicLSTMParameters(c.n)
	if err != nil {
		return err
	}
	w, r := c.in[1], c.in[2]
	l := lstmRun{seq: x.Shape[0], batch: x.Shape[1], in: x.Shape[2], dirs: w.Shape[0], hidden: w.Shape[2] / 4}
	if w.Shape[1] != l.in || r.Rank() != 3 || r.Shape[0] != l.dirs || r.Shape[1] != l.hidden || r.Shape[2] != w.Shape[2] || w.Shape[2] != 4*l.hidden {
		return fmt.Errorf("%w: weights %v and %v for %v", ErrShape, w, r, x)
	}
	if err := l.readLengths(c); err != nil {
		return err
	}
	state := l.dirs * l.batch * l.hidden
	var bias []float32
	h, cell := make([]float32, state), make([]float32, state)
	for _, o := range []struct {
		i, n int
		to   *[]float32
	}{{0, x.Len(), &l.x}, {3, 8 * l.dirs * l.hidden, &bias}, {5, state, &h}, {6, state, &cell}} {
		if !c.has(o.i) {
			continue
		}
		v, err := c.floats(o.i)
		if err != nil {
			return err
		}
		if len(v) != o.n {
			return fmt.Errorf("%w: input %d has %d elements, expected %d", ErrShape, o.i, len(v), o.n)
		}
		*o.to = append([]float32{}, v...)
	}
	l.y = make([]float32, l.seq*state)
	gates := 4 * l.hidden
	for d := range l.dirs {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		l.bias = make([]float32, gates)
		for j := range l.bias {
			if bias != nil {
				l.bias[j] = bias[2*d*gates+j] + bias[(2*d+1)*gates+j]
			}
		}
		l.w, l.r = integersOf(w, wp, d), integersOf(r, rp, d)
		part := l.batch * l.hidden
		l.direction(d, c.n.Str("direction", "forward") == "reverse" || d == 1, h[d*part:][:part], cell[d*part:][:part])
	}
	if err := c.put(0, tensor.Float32, l.y, l.seq, l.dirs, l.batch, l.hidden); err != nil {
		return err
	}
	if err := c.put(1, tensor.Float32, h, l.dirs, l.batch, l.hidden); err != nil {
		return err
	}
	return c.put(2, tensor.Float32, cell, l.dirs, l.batch, l.hidden)
}

// integers are the weights of one direction about their zero points, [k, columns], with the scale of each column.
type integers struct {
	v      []int32
	scales []float32
}

func integersOf(t *tensor.Tensor, p DynamicLSTMWeights, d int) integers {
	rows, cols := t.Shape[1], t.Shape[2]
	out := integers{make([]int32, rows*cols), p.Scales[d*cols:][:cols]}
	for i := range out.v {
		out.v[i] = int32(t.Int64At(d*rows*cols+i)) - p.Zeros[d*cols+i%cols]
	}
	return out
}

// addTo adds the product of rows, rounded to 8 bits by one scale, to out [rows, columns].
func (w *integers) addTo(out, rows []float32) {
	cols := len(w.scales)
	k := len(w.v) / cols
	a, scale := roundedRows(rows)
	for i := range out {
		var sum int32
		for j, q := range a[i/cols*k:][:k] {
			sum += q * w.v[j*cols+i%cols]
		}
		out[i] += float32(sum) * (scale * w.scales[i%cols])
	}
}

// roundedRows rounds numbers as DynamicQuantizeLinear does, and returns the integers less their zero point.
func roundedRows(x []float32) ([]int32, float32) {
	var lo, hi float64
	for _, v := range x {
		lo, hi = min(lo, float64(v)), max(hi, float64(v)) // NaN stays
	}
	scale := float32(hi-lo) / math.MaxUint8
	out := make([]int32, len(x))
	if !(scale > 0) {
		return out, scale
	}
	zero := min(max(math.RoundToEven(float64(-float32(lo)/scale)), 0), math.MaxUint8)
	for i, v := range x {
		out[i] = int32(min(max(math.RoundToEven(float64(v/scale))+zero, 0), math.MaxUint8) - zero)
	}
	return out, scale
}

// lstmRun is a run of the layer.
type lstmRun struct {
	seq, batch, in, dirs, hidden int

	lengths    []int64   // steps of each row of the batch
	x, y, bias []float32 // bias of one direction
	w, r       integers
}

// readLengths reads the lengths of rows, which are all steps where there are none.
func (l *lstmRun) readLengths(c *call) error {
	l.lengths = slices.Repeat([]int64{int64(l.seq)}, l.batch)
	if !c.has(4) {
		return nil
	}
	list, err := c.ints(4)
	if err != nil {
		return err
	}
	if len(list) != l.batch {
		return fmt.Errorf("%w: %d lengths for %d rows", ErrShape, len(list), l.batch)
	}
	for _, n := range list {
		if n < 0 || n > int64(l.seq) {
			return fmt.Errorf("%w: length %d of %d steps", ErrShape, n, l.seq)
		}
	}
	l.lengths = list
	return nil
}

// direction computes direction d from the states h and cell, which become the last ones.
func (l *lstmRun) direction(d int, reverse bool, h, cell []float32) {
	gates, longest := 4*l.hidden, 0
	for _, n := range l.lengths {
		longest = max(longest, int(n))
	}
	all := make([]float32, longest*l.batch*gates)
	for i := range all {
		all[i] = l.bias[i%gates]
	}
	l.w.addTo(all, l.x[:longest*l.batch*l.in])
	before := make([]float32, len(h))
	sigmoid := func(v float32) float32 { return float32(1 / (1 + math.Exp(-float64(v)))) }
	tanh := func(v float32) float32 { return float32(math.Tanh(float64(v))) }
	for k := range longest {
		if reverse {
			k = longest - 1 - k
		}
		g := all[k*l.batch*gates:][:l.batch*gates]
		out := l.y[(k*l.dirs+d)*l.batch*l.hidden:]
		copy(before, h)
		for i := range before {
			if int64(k) >= l.lengths[i/l.hidden] {
				before[i] = 0
			}
		}
		l.r.addTo(g, before)
		for i := range h {
			if int64(k) >= l.lengths[i/l.hidden] {
				continue
			}
			row, j := g[i/l.hidden*gates:], i%l.hidden // ONNX orders the gates i, o, f, c
			cell[i] = sigmoid(row[2*l.hidden+j])*cell[i] + sigmoid(row[j])*tanh(row[3*l.hidden+j])
			h[i] = sigmoid(row[l.hidden+j]) * tanh(cell[i])
			out[i] = h[i]
		}
	}
}
