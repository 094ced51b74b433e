package reference

import (
	"github.com/carve-dev/carve/graph/tensor"
)

var lossKernels = []kernel{
	{"NegativeLogLikelihoodLoss", 12, func(c *Call) {
		x := c.input(0)
		c.likelihoodLoss(x, c.floats(0))
	}},
	{"SoftmaxCrossEntropyLoss", 12, softmaxCrossEntropy},
}

func softmaxCrossEntropy(c *Call) {
	x := c.input(0)
	c.require(len(x.Shape) >= 2, c.portName(0), "[N, C, ...] is expected, found %v", x)
	v := c.floats(0)
	alongAxis(c, v, x.Shape[0], x.Shape[1], product(x.Shape[2:]), func(row []float64) {
		s := logSumExp(row)
		for i := range row {
			row[i] -= s
		}
	})
	if c.wants(1) {
		c.putFloats(1, x.DType, x.Shape, v)
	}
	c.likelihoodLoss(x, v)
}

// likelihoodLoss stores the negated log-probabilities v [N, C, ...] of the target classes [N, ...], weighted by class, as
// output 0: each, their sum, or their weighted mean.
func (c *Call) likelihoodLoss(x *tensor.Tensor, v []float64) {
	target := c.input(1)
	c.require(len(x.Shape) >= 2, c.portName(0), "[N, C, ...] is expected, found %v", x)
	want := append([]int{x.Shape[0]}, x.Shape[2:]...)
	c.require(sameShape(target.Shape, want), c.portName(1), "%v is expected, found %v", want, target)
	classes, size := x.Shape[1], product(x.Shape[2:])
	var weights []float64
	if c.has(2) {
		weights = c.floats(2)
		c.require(len(weights) == classes, c.portName(2), "%d weights of %d classes", len(weights), classes)
	}
	ignore := c.Node.Attrs.Lookup("ignore_index")
	loss := c.floatBuffer(target.Shape...)
	sum, total := 0.0, 0.0
	for i, t := range c.ints(1) {
		if ignore != nil && t == ignore.Int {
			continue
		}
		if t < 0 || t >= int64(classes) {
			c.outOfRange(1, t, 0, int64(classes)-1)
		}
		w := 1.0
		if weights != nil {
			w = weights[t]
		}
		loss[i] = -v[(i/size*classes+int(t))*size+i%size] * w
		sum += loss[i]
		total += w
		c.spend(1)
	}
	switch mode := c.Node.Str("reduction", "mean"); mode {
	case "none":
		c.putFloats(0, x.DType, target.Shape, loss)
	case "sum":
		c.putFloats(0, x.DType, []int{}, []float64{sum})
	case "mean":
		c.putFloats(0, x.DType, []int{}, []float64{sum / total})
	default:
		c.fail("reduction", ErrAttribute, "%q", mode)
	}
}
