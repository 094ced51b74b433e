package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// What recurrent operators may do otherwise than by default: other activations, bounds of what enters them, LSTM's peepholes and a forget
// gate that is what the input gate leaves, and biases that a run computes. The kernels of vec are of the default cells; other ones go over a
// row of gates once for each of their functions.

// cellFunction applies an activation in place.
type cellFunction func(k vec.Kernels, x []float32)

// cellFunctions make the activations of the definition from alpha and beta, whose defaults stand beside.
var cellFunctions = map[string]struct {
	alpha, beta float32
	takes       int // how many of both
	of          func(a, b float32) cellFunction
}{
	"Relu":        {of: func(_, _ float32) cellFunction { return simply(vec.Relu, vec.Params{}) }},
	"Tanh":        {of: func(_, _ float32) cellFunction { return simply(vec.Tanh, vec.Params{}) }},
	"Sigmoid":     {of: func(_, _ float32) cellFunction { return simply(vec.Sigmoid, vec.Params{}) }},
	"Softplus":    {of: func(_, _ float32) cellFunction { return simply(vec.Softplus, vec.Params{}) }},
	"HardSigmoid": {0.2, 0.5, 2, func(a, b float32) cellFunction { return simply(vec.HardSigmoid, vec.Params{A: a, B: b}) }},
	"LeakyRelu":   {0.01, 0, 1, func(a, _ float32) cellFunction { return simply(vec.LeakyRelu, vec.Params{A: a}) }},
	"Elu":         {1, 0, 1, func(a, _ float32) cellFunction { return simply(vec.Elu, vec.EluParams(a)) }},
	"Softsign": {of: func(_, _ float32) cellFunction {
		return func(_ vec.Kernels, x []float32) {
			for i, v := range x {
				x[i] = v / (1 + float32(math.Abs(float64(v))))
			}
		}
	}},
	"ThresholdedRelu": {1, 0, 1, func(a, _ float32) cellFunction {
		return func(_ vec.Kernels, x []float32) {
			for i, v := range x {
				if !(v > a) {
					x[i] = 0
				}
			}
		}
	}},
	"Affine": {1, 0, 2, func(a, b float32) cellFunction {
		return func(k vec.Kernels, x []float32) {
			k.BinaryScalar(vec.Mul, x, x, a)
			k.BinaryScalar(vec.Add, x, x, b)
		}
	}},
	"ScaledTanh": {1, 1, 2, func(a, b float32) cellFunction {
		return func(k vec.Kernels, x []float32) {
			k.BinaryScalar(vec.Mul, x, x, b)
			k.Apply(vec.Tanh, x, x, vec.Params{})
			k.BinaryScalar(vec.Mul, x, x, a)
		}
	}},
}

func simply(op vec.Op, p vec.Params) cellFunction {
	return func(k vec.Kernels, x []float32) { k.Apply(op, x, x, p) }
}

// cellActivations returns the activations of each of so many directions; def are an operator's own. Of activation_alpha and activation_beta each
// function takes as many as it has, in order.
func cellActivations(n *graph.Node, def []string, dirs int) ([][]cellFunction, *property.Reason) {
	names := n.Strs("activations")
	for d := 0; len(n.Strs("activations")) == 0 && d < dirs; d++ {
		names = append(names, def...)
	}
	if len(names) != dirs*len(def) {
		return nil, property.Because(property.Attribute, "%d activations of %v", len(names), n)
	}
	alphas, betas := n.Floats("activation_alpha"), n.Floats("activation_beta")
	take := func(list *[]float32, def float32) float32 {
		if len(*list) > 0 {
			def, *list = (*list)[0], (*list)[1:]
		}
		return def
	}
	out := make([][]cellFunction, dirs)
	for i, name := range names {
		f, ok := cellFunctions[name]
		if !ok {
			return nil, property.Because(property.Attribute, "activation %q of %v", name, n)
		}
		if f.takes > 0 {
			f.alpha = take(&alphas, f.alpha)
		}
		if f.takes > 1 {
			f.beta = take(&betas, f.beta)
		}
		out[i/len(def)] = append(out[i/len(def)], f.of(f.alpha, f.beta))
	}
	return out, nil
}

// The activations that operators have by default.
var (
	lstmActivations = []string{"Sigmoid", "Tanh", "Tanh"}
	gruActivations  = []string{"Sigmoid", "Tanh"}
	rnnActivations  = []string{"Tanh"}
)

// cell is one direction's functions, where they are not the default ones that the kernels have.
type cell struct {
	kernels   vec.Kernels
	act       []cellFunction
	clip      float32 // what enters activations lies in [-clip, clip]
	coupled   bool    // LSTM's forget gate is 1 minus the input gate
	peepholes place.Memory
}

// cellsOf returns the cells of all directions, nil where they are the default ones. Nodes whose activations cellActivations refuses are none that
// the backend takes.
func (p *planner) cellsOf(n *graph.Node, def []string, dirs, hidden int) ([]*cell, error) {
	acts, why := cellActivations(n, def, dirs)
	if why != nil {
		return nil, why
	}
	plain := n.Attrs.Lookup("clip") == nil && n.Input(7) == nil && n.Int("input_forget", 0) == 0
	for i, a := range n.Strs("activations") {
		plain = plain && a == def[i%len(def)]
	}
	out := make([]*cell, dirs)
	for d := 0; d < dirs && !plain; d++ {
		c := &cell{kernels: p.kernels, act: acts[d], clip: n.Float("clip", inf), coupled: n.Int("input_forget", 0) != 0, peepholes: place.Nowhere}
		if v := n.Input(7); v != nil {
			c.peepholes = p.In(v).Part(d*3*hidden*4, 3*hidden*4)
		}
		out[d] = c
	}
	return out, nil
}

// at returns where a cell's peepholes lie.
func (c *cell) at() place.Memory {
	if c == nil {
		return place.Nowhere
	}
	return c.peepholes
}

// apply clips what enters an activation, and applies it.
func (c *cell) apply(i int, x []float32) {
	if c.clip < inf {
		c.kernels.Apply(vec.Clip, x, x, vec.Params{A: -c.clip, B: c.clip})
	}
	c.act[i](c.kernels, x)
}

// lstm applies the cell to a row of gates i, o, f and c, of which it leaves nothing, and to the cell state; peepholes are those of i, o and f,
// or nil. hidden is the next hidden state.
func (c *cell) lstm(peepholes, state, hidden, gates []float32) {
	h := len(state)
	i, o, f, g := gates[:h], gates[h:2*h], gates[2*h:3*h], gates[3*h:4*h]
	peep := func(gate []float32, k int) {
		if peepholes != nil {
			c.kernels.Binary(vec.Mul, hidden, state, peepholes[k*h:][:h])
			c.kernels.Binary(vec.Add, gate, gate, hidden)
		}
	}
	peep(i, 0)
	c.apply(0, i)
	if c.coupled {
		c.kernels.ScalarBinary(vec.Sub, f, 1, i)
	} else {
		peep(f, 2)
		c.apply(0, f)
	}
	c.apply(1, g)
	c.kernels.Binary(vec.Mul, g, g, i)
	c.kernels.Binary(vec.Mul, state, state, f)
	c.kernels.Binary(vec.Add, state, state, g)
	peep(o, 1)
	c.apply(0, o)
	copy(hidden, state)
	c.act[2](c.kernels, hidden)
	c.kernels.Binary(vec.Mul, hidden, hidden, o)
}

// reset is GRUReset: it activates the reset gate r and writes r·x + y.
func (c *cell) reset(dst, r, x, y []float32) {
	c.apply(0, r)
	c.kernels.Binary(vec.Mul, dst, r, x)
	if y != nil {
		c.kernels.Binary(vec.Add, dst, dst, y)
	}
}

// gru writes the next state of a row from the update gate and the candidate, of which it leaves nothing, and the state before.
func (c *cell) gru(dst, z, h, prev []float32) {
	c.apply(0, z)
	c.apply(1, h)
	c.kernels.Binary(vec.Sub, dst, prev, h)
	c.kernels.Binary(vec.Mul, dst, dst, z)
	c.kernels.Binary(vec.Add, dst, dst, h)
}

// rowBias is a row that a product adds: known when the plan is made, or where it lies in a run.
type rowBias struct {
	fixed []float32
	at    place.Memory
}

func (b rowBias) of(st *state) []float32 {
	if b.fixed != nil {
		return b.fixed
	}
	return st.F32(b.at)
}

// gateBias returns the biases of a direction, of the input's part of all gates and of the state's; with joined their sum and nothing. A bias
// that a run computes is added up by a step of its own.
func (p *planner) gateBias(n *graph.Node, d, wide int, joined bool) (input, recurrent rowBias, err error) {
	input, recurrent = rowBias{at: place.Nowhere}, rowBias{at: place.Nowhere}
	b := n.Input(3)
	if b == nil || b.IsConst() {
		both := make([]float32, (d+1)*2*wide)
		if b != nil {
			if both, err = paddedFloats(b.Const, b.Const.Len()); err != nil {
				return input, recurrent, err
			}
		}
		both = both[d*2*wide:][:2*wide]
		input.fixed, recurrent.fixed = make([]float32, wide), both[wide:]
		copy(input.fixed, both)
		if joined {
			p.kernels.Binary(vec.Add, input.fixed, input.fixed, recurrent.fixed)
		}
		return input, recurrent, nil
	}
	all := p.In(b).Part(d*2*wide*4, 2*wide*4)
	input.at, recurrent.at = all.Part(0, wide*4), all.Part(wide*4, wide*4)
	if joined {
		sum, parts, kernels := p.Temp(wide*4), [2]place.Memory{input.at, recurrent.at}, p.kernels
		p.emit(step{serial: func(st *state) {
			kernels.Binary(vec.Add, st.F32(sum)[:wide], st.F32(parts[0]), st.F32(parts[1]))
		}}, []place.Memory{all}, []place.Memory{sum})
		input.at = sum
	}
	return input, recurrent, nil
}
