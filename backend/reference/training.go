package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var trainingKernels = []kernel{
	{"Adagrad", 1, func(c *Call) {
		r, t := c.learningRate()
		r /= 1 + t*c.float("decay_factor", 0)
		eps, norm := c.float("epsilon", 1e-6), c.float("norm_coefficient", 0)
		c.optimize(1, func(x, g float64, state []float64) float64 {
			g += norm * x
			state[0] += g * g
			return x - r*g/(math.Sqrt(state[0])+eps)
		})
	}},
	{"Momentum", 1, func(c *Call) {
		r, t := c.learningRate()
		alpha, beta, norm := c.float("alpha", 0), c.float("beta", 0), c.float("norm_coefficient", 0)
		nesterov := c.Node.Str("mode", "standard") == "nesterov"
		if t <= 0 {
			beta = 1
		}
		c.optimize(1, func(x, g float64, state []float64) float64 {
			g += norm * x
			state[0] = alpha*state[0] + beta*g
			if nesterov {
				return x - r*(g+alpha*state[0])
			}
			return x - r*state[0]
		})
	}},
	{"Adam", 1, func(c *Call) {
		r, t := c.learningRate()
		alpha, beta, eps := c.float("alpha", 0.9), c.float("beta", 0.999), c.float("epsilon", 1e-6)
		norm, post := c.float("norm_coefficient", 0), c.float("norm_coefficient_post", 0)
		if t > 0 {
			r *= math.Sqrt(1-math.Pow(beta, t)) / (1 - math.Pow(alpha, t))
		}
		c.optimize(2, func(x, g float64, state []float64) float64 {
			g += norm * x
			state[0] = alpha*state[0] + (1-alpha)*g
			state[1] = beta*state[1] + (1-beta)*g*g
			return (1 - post) * (x - r*state[0]/(math.Sqrt(state[1])+eps))
		})
	}},
}

// learningRate returns inputs R and T, the rate and the number of updates so far.
func (c *Call) learningRate() (r, t float64) { return c.one(0, 0), c.one(1, 0) }

// optimize updates parameters: inputs from 2 on are all parameters, all gradients and, states times, all of one state;
// outputs are the new parameters and states in the same order.
func (c *Call) optimize(states int, f func(x, g float64, state []float64) float64) {
	groups := states + 2
	c.require(len(c.Inputs) > 2 && (len(c.Inputs)-2)%groups == 0, "inputs", "%d tensors in groups of %d", len(c.Inputs)-2, groups)
	n := (len(c.Inputs) - 2) / groups
	for k := range n {
		x := c.input(2 + k)
		all := make([][]float64, groups)
		for g := range all {
			i := 2 + g*n + k
			c.require(sameShape(c.input(i).Shape, x.Shape), c.portName(i), "%v and %v differ", c.input(i), x)
			all[g] = c.floats(i)
		}
		state := make([]float64, states)
		for i := range all[0] {
			for s := range state {
				state[s] = all[2+s][i]
			}
			all[0][i] = f(all[0][i], all[1][i], state)
			for s := range state {
				all[2+s][i] = state[s]
			}
			c.spend(4)
		}
		c.putUpdated(k, x, all[0])
		for s := range states {
			c.putUpdated((1+s)*n+k, x, all[2+s])
		}
	}
}

func (c *Call) putUpdated(i int, x *tensor.Tensor, v []float64) {
	if c.wants(i) {
		c.putFloats(i, x.DType, x.Shape, v)
	}
}
