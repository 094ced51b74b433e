package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var recurrentKernels = []kernel{
	{"RNN", 7, func(c *Call) { c.recurrent(1, []string{"Tanh"}, rnnCell) }},
	{"GRU", 7, func(c *Call) { c.recurrent(3, []string{"Sigmoid", "Tanh"}, gruCell) }},
	{"LSTM", 7, func(c *Call) { c.recurrent(4, []string{"Sigmoid", "Tanh", "Tanh"}, lstmCell) }},
}

// cellState is one direction of a recurrent layer for one element of the batch.
type cellState struct {
	h, c     []float64 // hidden and, of LSTM, cell state
	gates    []float64 // input part of every gate, biases of the input included
	r        []float64 // recurrent weights [gates*hidden, hidden]
	rb       []float64 // recurrent biases
	peephole []float64 // of LSTM: i, o, f
	next     []float64 // scratch [gates*hidden]
	act      []func(float64) float64
	clip     float64
	linear   bool // GRU: the recurrent part of the hidden gate is computed before the reset
	coupled  bool // LSTM: the forget gate is 1 minus the input gate
}

// clipped bounds the argument of an activation.
func (s *cellState) clipped(x float64) float64 { return math.Max(-s.clip, math.Min(s.clip, x)) }

// recur returns the recurrent part of gate row g for hidden state h.
func (s *cellState) recur(g int, h []float64) float64 {
	sum := s.rb[g]
	row := s.r[g*len(h) : (g+1)*len(h)]
	for i, v := range h {
		sum += row[i] * v
	}
	return sum
}

func rnnCell(s *cellState) {
	for i := range s.h {
		s.next[i] = s.act[0](s.clipped(s.gates[i] + s.recur(i, s.h)))
	}
	copy(s.h, s.next)
}

// gruCell has the gates update, reset, hidden.
func gruCell(s *cellState) {
	n := len(s.h)
	z, r, h := s.next[:n], s.next[n:2*n], s.next[2*n:]
	for i := range n {
		z[i] = s.act[0](s.clipped(s.gates[i] + s.recur(i, s.h)))
		r[i] = s.act[0](s.clipped(s.gates[n+i] + s.recur(n+i, s.h)))
	}
	if s.linear {
		for i := range n {
			h[i] = s.gates[2*n+i] + r[i]*s.recur(2*n+i, s.h)
		}
	} else {
		reset := make([]float64, n)
		for i := range n {
			reset[i] = r[i] * s.h[i]
		}
		for i := range n {
			h[i] = s.gates[2*n+i] + s.recur(2*n+i, reset)
		}
	}
	for i := range n {
		s.h[i] = (1-z[i])*s.act[1](s.clipped(h[i])) + z[i]*s.h[i]
	}
}

// lstmCell has the gates input, output, forget, cell.
func lstmCell(s *cellState) {
	n := len(s.h)
	for g := range s.next {
		s.next[g] = s.gates[g] + s.recur(g, s.h)
	}
	p := func(k, i int) float64 {
		if s.peephole == nil {
			return 0
		}
		return s.peephole[k*n+i]
	}
	for i := range n {
		in := s.act[0](s.clipped(s.next[i] + p(0, i)*s.c[i]))
		forget := 1 - in
		if !s.coupled {
			forget = s.act[0](s.clipped(s.next[2*n+i] + p(2, i)*s.c[i]))
		}
		cell := forget*s.c[i] + in*s.act[1](s.clipped(s.next[3*n+i]))
		out := s.act[0](s.clipped(s.next[n+i] + p(1, i)*cell))
		s.c[i] = cell
		s.h[i] = out * s.act[2](cell)
	}
}

// recurrent runs a recurrent layer with that many gates: X [T, B, I] (or [B, T, I] with layout 1), W [D, G*H, I],
// R [D, G*H, H], B [D, 2*G*H], sequence_lens [B], initial_h [D, B, H], and for LSTM initial_c and P [D, 3*H].
func (c *Call) recurrent(gates int, activations []string, cell func(*cellState)) {
	x, w, r := c.input(0), c.input(1), c.input(2)
	lstm := gates == 4
	c.require(len(x.Shape) == 3, c.portName(0), "rank 3 is expected, found %v", x)
	batchFirst := c.Node.Int("layout", 0) != 0
	steps, batch, width := x.Shape[0], x.Shape[1], x.Shape[2]
	if batchFirst {
		steps, batch = batch, steps
	}
	dirs := 1
	direction := c.Node.Str("direction", "forward")
	switch direction {
	case "bidirectional":
		dirs = 2
	case "forward", "reverse":
	default:
		c.fail("direction", ErrAttribute, "%q", direction)
	}
	c.require(len(r.Shape) == 3, c.portName(2), "rank 3 is expected, found %v", r)
	h := r.Shape[2]
	c.require(sameShape(r.Shape, []int{dirs, gates * h, h}), c.portName(2), "%v for %d directions", r, dirs)
	c.require(sameShape(w.Shape, []int{dirs, gates * h, width}), c.portName(1), "%v for %v and %v", w, x, r)
	gh := gates * h
	state := func(i, n int) []float64 { // an optional input of n numbers per direction
		if t := c.optional(i); t != nil {
			c.require(t.Len() == dirs*n, c.portName(i), "%v for %d directions and %d hidden units", t, dirs, h)
			return c.floats(i)
		}
		return nil
	}
	bias, h0 := state(3, 2*gh), state(5, batch*h)
	var c0, peephole []float64
	if lstm {
		c0, peephole = state(6, batch*h), state(7, 3*h)
	}
	lens := c.sequenceLens(4, batch, steps)
	acts := c.activations(activations, dirs)
	clip := math.Inf(1)
	if c.Node.Attrs.Lookup("clip") != nil {
		clip = c.float("clip", 0)
	}
	l := &recurrence{c: c, cell: cell, dirs: dirs, steps: steps, batch: batch, h: h, gh: gh, batchFirst: batchFirst,
		reverse: direction == "reverse", lens: lens, h0: h0, c0: c0,
		hidden: c.floatBuffer(dirs, batch, h), cells: c.floatBuffer(dirs, batch, h), y: c.floatBuffer(steps, dirs, batch, h)}
	xs, ws, rs := c.floats(0), c.floats(1), c.floats(2)
	for d := range dirs {
		in := c.floatBuffer(x.Shape[0], x.Shape[1], gh)
		gemm(c, steps*batch, gh, width, matrix[float64]{xs, 0, width, 1}, matrix[float64]{ws, d * gh * width, 1, width}, in)
		s := cellState{r: rs[d*gh*h:][:gh*h], rb: make([]float64, gh), next: make([]float64, gh), act: acts[d], clip: clip,
			linear: c.Node.Int("linear_before_reset", 0) != 0, coupled: c.Node.Int("input_forget", 0) != 0}
		if bias != nil {
			wb := bias[d*2*gh:][:gh]
			s.rb = bias[d*2*gh+gh:][:gh]
			for i := range in {
				in[i] += wb[i%gh]
			}
		}
		if peephole != nil {
			s.peephole = peephole[d*3*h:][:3*h]
		}
		l.direction(d, in, &s)
	}
	c.putStates(x.DType, l.y, l.hidden, l.cells, steps, dirs, batch, h, batchFirst, lstm)
}

// recurrence is a recurrent layer of so many directions, steps, batch elements, hidden units and numbers of all gates.
type recurrence struct {
	c                         *Call
	cell                      func(*cellState)
	dirs, steps, batch, h, gh int
	batchFirst, reverse       bool
	lens                      []int     // steps of each batch element
	h0, c0                    []float64 // initial states, nil for zeros
	hidden, cells             []float64 // [D, B, H], the states after the last step
	y                         []float64 // [T, D, B, H]
}

// direction runs the cell over the steps of every batch element in direction d. in holds the gates' products with the inputs.
func (l *recurrence) direction(d int, in []float64, s *cellState) {
	for b := range l.batch {
		s.h, s.c = l.hidden[(d*l.batch+b)*l.h:][:l.h], l.cells[(d*l.batch+b)*l.h:][:l.h]
		if l.h0 != nil {
			copy(s.h, l.c.stateOf(l.h0, l.batchFirst, l.dirs, l.batch, d, b, l.h))
		}
		if l.c0 != nil {
			copy(s.c, l.c.stateOf(l.c0, l.batchFirst, l.dirs, l.batch, d, b, l.h))
		}
		for k := range l.lens[b] {
			t := k
			if l.reverse || d == 1 {
				t = l.lens[b] - 1 - k
			}
			row := t*l.batch + b
			if l.batchFirst {
				row = b*l.steps + t
			}
			s.gates = in[row*l.gh:][:l.gh]
			l.cell(s)
			copy(l.y[((t*l.dirs+d)*l.batch+b)*l.h:], s.h)
			l.c.spend(l.gh * (l.h + 8))
		}
	}
}

// stateOf returns the initial state of a direction and batch element.
func (c *Call) stateOf(v []float64, batchFirst bool, dirs, batch, d, b, h int) []float64 {
	if batchFirst {
		return v[(b*dirs+d)*h:][:h]
	}
	return v[(d*batch+b)*h:][:h]
}

func (c *Call) putStates(dt tensor.DType, y, hidden, cells []float64, steps, dirs, batch, h int, batchFirst, lstm bool) {
	put := func(i int, v []float64, shape, perm []int) {
		if !c.wants(i) {
			return
		}
		if !batchFirst {
			c.putFloats(i, dt, shape, v)
			return
		}
		strides := tensor.CompactStrides(shape)
		out, from := make([]int, len(shape)), make([]int, len(shape))
		for k, p := range perm {
			out[k], from[k] = shape[p], strides[p]
		}
		w := make([]float64, 0, len(v))
		c.walk(out, []int{0}, [][]int{from}, func(off, step []int, n int) {
			for k := range n {
				w = append(w, v[off[0]+k*step[0]])
			}
		})
		c.putFloats(i, dt, out, w)
	}
	put(0, y, []int{steps, dirs, batch, h}, []int{2, 0, 1, 3})
	put(1, hidden, []int{dirs, batch, h}, []int{1, 0, 2})
	if lstm {
		put(2, cells, []int{dirs, batch, h}, []int{1, 0, 2})
	}
}

// sequenceLens returns the number of valid steps per batch element.
func (c *Call) sequenceLens(i, batch, steps int) []int {
	lens := make([]int, batch)
	for b := range lens {
		lens[b] = steps
	}
	if !c.has(i) {
		return lens
	}
	v := c.ints(i)
	c.require(len(v) == batch, c.portName(i), "%d lengths for a batch of %d", len(v), batch)
	for b, n := range v {
		if n < 0 || n > int64(steps) {
			c.outOfRange(i, n, 0, int64(steps))
		}
		lens[b] = int(n)
	}
	return lens
}

// activations returns the activation functions of every direction.
func (c *Call) activations(def []string, dirs int) [][]func(float64) float64 {
	names := c.Node.Strs("activations")
	if names == nil {
		for range dirs {
			names = append(names, def...)
		}
	}
	if len(names) != dirs*len(def) {
		c.fail("activations", ErrAttribute, "%d functions for %d directions", len(names), dirs)
	}
	alphas, betas := c.Node.Floats("activation_alpha"), c.Node.Floats("activation_beta")
	take := func(list *[]float32, def float64) float64 {
		if len(*list) == 0 {
			return float64(float32(def))
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return float64(v)
	}
	out := make([][]func(float64) float64, dirs)
	for i, name := range names {
		var f func(float64) float64
		switch name {
		case "Relu":
			f = relu
		case "Tanh":
			f = math.Tanh
		case "Sigmoid":
			f = sigmoid
		case "Softsign":
			f = func(x float64) float64 { return x / (1 + math.Abs(x)) }
		case "Softplus":
			f = softplus
		case "Affine":
			a, b := take(&alphas, 1), take(&betas, 0)
			f = func(x float64) float64 { return a*x + b }
		case "ScaledTanh":
			a, b := take(&alphas, 1), take(&betas, 1)
			f = func(x float64) float64 { return a * math.Tanh(b*x) }
		case "HardSigmoid":
			a, b := take(&alphas, 0.2), take(&betas, 0.5)
			f = func(x float64) float64 { return hardSigmoid(x, a, b) }
		case "LeakyRelu":
			a := take(&alphas, 0.01)
			f = func(x float64) float64 {
				if x < 0 {
					return a * x
				}
				return x
			}
		case "ThresholdedRelu":
			a := take(&alphas, 1)
			f = func(x float64) float64 {
				if x > a {
					return x
				}
				return 0
			}
		case "Elu":
			a := take(&alphas, 1)
			f = func(x float64) float64 {
				if x < 0 {
					return a * math.Expm1(x)
				}
				return x
			}
		default:
			c.fail("activations", ErrAttribute, "%q", name)
		}
		out[i/len(def)] = append(out[i/len(def)], f)
	}
	return out
}
