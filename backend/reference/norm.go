package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var normKernels = []kernel{
	{"BatchNormalization", 7, batchNorm},
	{"InstanceNormalization", 6, instanceNorm},
	{"LayerNormalization", 17, layerNorm},
	{"GroupNormalization", 18, groupNorm},
	{"RMSNormalization", 23, rmsNorm},
	{"LpNormalization", 1, lpNorm},
	{"MeanVarianceNormalization", 9, meanVariance},
	{"LRN", 1, lrn},
}

// channels returns input i as one number per channel of x [N, C, ...].
func (c *Call) channels(i int, x *tensor.Tensor) []float64 {
	c.require(len(x.Shape) >= 2, c.portName(0), "[N, C, ...] is expected, found %v", x)
	v := c.floats(i)
	c.require(len(v) == x.Shape[1], c.portName(i), "%v for %v", c.input(i), x)
	return v
}

// moments returns mean and variance.
func moments(v []float64) (mean, variance float64) {
	for _, x := range v {
		mean += x
	}
	mean /= float64(len(v))
	for _, x := range v {
		variance += (x - mean) * (x - mean)
	}
	return mean, variance / float64(len(v))
}

// batchNorm normalises by given moments, or in training mode by those of the batch. Before version 14 a node with more
// than one output was in training mode.
func batchNorm(c *Call) {
	x := c.input(0)
	if len(x.Shape) == 1 { // [N] counts as [N, 1]
		view, err := x.View(x.Shape[0], 1)
		c.check("", err)
		x = view
	}
	v := c.floats(0)
	scale, bias := c.channels(1, x), c.channels(2, x)
	mean, variance := c.channels(3, x), c.channels(4, x)
	eps := c.float("epsilon", 1e-5)
	channels, size := x.Shape[1], product(x.Shape[2:])
	training := c.Node.Int("training_mode", 0) != 0
	if c.version < 14 {
		training = c.wants(1) || c.wants(2)
	}
	if training {
		runningMean, runningVar := mean, variance
		mean, variance = make([]float64, channels), make([]float64, channels)
		row := c.floatBuffer(x.Shape[0], size)
		m := c.float("momentum", 0.9)
		for ch := range channels {
			for n := range x.Shape[0] {
				copy(row[n*size:], v[(n*channels+ch)*size:][:size])
			}
			mean[ch], variance[ch] = moments(row)
			runningMean[ch] = runningMean[ch]*m + mean[ch]*(1-m)
			runningVar[ch] = runningVar[ch]*m + variance[ch]*(1-m)
			c.spend(len(row) * 3)
		}
		c.putFloats(1, c.input(3).DType, []int{channels}, runningMean)
		c.putFloats(2, c.input(4).DType, []int{channels}, runningVar)
	}
	for p := 0; p*size < len(v); p++ {
		ch := p % channels
		f := scale[ch] / math.Sqrt(variance[ch]+eps)
		row := v[p*size : (p+1)*size]
		for i, s := range row {
			row[i] = (s-mean[ch])*f + bias[ch]
		}
		c.spend(size)
		if size == 0 {
			break
		}
	}
	c.putFloats(0, x.DType, c.input(0).Shape, v)
}

// standardise gives every row of that length mean 0 and variance 1.
func (c *Call) standardise(v []float64, length int, eps float64) {
	for o := 0; o+length <= len(v) && length > 0; o += length {
		row := v[o : o+length]
		mean, variance := moments(row)
		f := 1 / math.Sqrt(variance+eps)
		for i, x := range row {
			row[i] = (x - mean) * f
		}
		c.spend(3 * length)
	}
}

func instanceNorm(c *Call) {
	x := c.input(0)
	scale, bias := c.channels(1, x), c.channels(2, x)
	v, size := c.floats(0), product(x.Shape[2:])
	c.standardise(v, size, c.float("epsilon", 1e-5))
	for i := range v {
		ch := i / size % len(scale)
		v[i] = v[i]*scale[ch] + bias[ch]
	}
	c.putFloats(0, x.DType, x.Shape, v)
}

// groupNorm has scale and bias per group in version 18, per channel since 21.
func groupNorm(c *Call) {
	x := c.input(0)
	c.require(len(x.Shape) >= 2, c.portName(0), "[N, C, ...] is expected, found %v", x)
	groups := c.positive("num_groups", 0)
	channels, size := x.Shape[1], product(x.Shape[2:])
	c.require(channels%groups == 0, "num_groups", "%d groups of %d channels", groups, channels)
	v, scale, bias := c.floats(0), c.floats(1), c.floats(2)
	per := channels
	if c.version < 21 {
		per = groups
	}
	c.require(len(scale) == per, c.portName(1), "%v for %v", c.input(1), x)
	c.require(len(bias) == per, c.portName(2), "%v for %v", c.input(2), x)
	c.standardise(v, channels/groups*size, c.float("epsilon", 1e-5))
	for i := range v {
		k := i / size % channels * per / channels
		v[i] = v[i]*scale[k] + bias[k]
	}
	c.putFloats(0, x.DType, x.Shape, v)
}

// layerNorm normalises over the dims from the axis on. Mean and inverse deviation, outputs 1 and 2, have the type of
// stash_type.
func layerNorm(c *Call) {
	x := c.input(0)
	axis := c.axisAttr(-1, len(x.Shape))
	v := c.floats(0)
	n, eps := product(x.Shape[axis:]), c.float("epsilon", 1e-5)
	stats := append([]int{}, x.Shape...)
	for a := axis; a < len(stats); a++ {
		stats[a] = 1
	}
	means, inverse := c.floatBuffer(stats...), c.floatBuffer(stats...)
	for r := range means {
		row := v[r*n : (r+1)*n]
		mean, variance := moments(row)
		means[r], inverse[r] = mean, 1/math.Sqrt(variance+eps)
		for i, s := range row {
			row[i] = (s - mean) * inverse[r]
		}
		c.spend(3 * n)
	}
	c.scaleAndShift(v, x)
	c.putFloats(0, c.input(1).DType, x.Shape, v)
	stash := c.dtypeAttr("stash_type", tensor.Float32)
	if c.wants(1) {
		c.putFloats(1, stash, stats, means)
	}
	if c.wants(2) {
		c.putFloats(2, stash, stats, inverse)
	}
}

// scaleAndShift multiplies v by input 1 and adds input 2, where it is present, both broadcast to x.
func (c *Call) scaleAndShift(v []float64, x *tensor.Tensor) {
	for i, s := range spread(c, c.portName(1), c.floats(1), c.input(1).Shape, x.Shape) {
		v[i] *= s
	}
	if b := c.optional(2); b != nil {
		for i, s := range spread(c, c.portName(2), c.floats(2), b.Shape, x.Shape) {
			v[i] += s
		}
	}
}

func rmsNorm(c *Call) {
	x := c.input(0)
	axis := c.axisAttr(-1, len(x.Shape))
	v := c.floats(0)
	n, eps := product(x.Shape[axis:]), c.float("epsilon", 1e-5)
	for o := 0; o+n <= len(v) && n > 0; o += n {
		s := 0.0
		for _, x := range v[o : o+n] {
			s += x * x
		}
		f := 1 / math.Sqrt(s/float64(n)+eps)
		for i := range v[o : o+n] {
			v[o+i] *= f
		}
		c.spend(2 * n)
	}
	c.scaleAndShift(v, x)
	c.putFloats(0, c.input(1).DType, x.Shape, v)
}

// lpNorm divides rows by their norm; rows of norm 0 stay 0.
func lpNorm(c *Call) {
	x := c.input(0)
	p := c.Node.Int("p", 2)
	if p != 1 && p != 2 {
		c.fail("p", ErrAttribute, "%d", p)
	}
	v := c.floats(0)
	outer, n, inner := split3(x.Shape, c.axisAttr(-1, len(x.Shape)))
	alongAxis(c, v, outer, n, inner, func(row []float64) {
		s := 0.0
		for _, x := range row {
			if p == 1 {
				s += math.Abs(x)
			} else {
				s += x * x
			}
		}
		if p == 2 {
			s = math.Sqrt(s)
		}
		if s == 0 {
			clear(row)
			return
		}
		for i := range row {
			row[i] /= s
		}
	})
	c.putFloats(0, x.DType, x.Shape, v)
}

func meanVariance(c *Call) {
	x := c.input(0)
	axes, ok := c.Node.Ints("axes")
	if !ok {
		axes = []int64{0, 2, 3}
	}
	gone := make([]bool, len(x.Shape))
	for _, a := range axes {
		gone[c.axis(a, len(x.Shape))] = true
	}
	r := reduction{}
	strides := tensor.CompactStrides(x.Shape)
	stats := append([]int{}, x.Shape...)
	for a, d := range x.Shape {
		if gone[a] {
			r.lost, r.ls = append(r.lost, d), append(r.ls, strides[a])
			stats[a] = 1
		} else {
			r.kept, r.ks = append(r.kept, d), append(r.ks, strides[a])
		}
	}
	v := c.floats(0)
	means, scale := c.floatBuffer(stats...), c.floatBuffer(stats...)
	rows(c, v, r, func(o int, row []float64) {
		m, s := moments(row)
		means[o], scale[o] = m, math.Sqrt(s)+1e-9
	})
	v = zip(c, x.Shape, v, x.Shape, means, stats, func(a, b float64) float64 { return a - b })
	v = zip(c, x.Shape, v, x.Shape, scale, stats, func(a, b float64) float64 { return a / b })
	c.putFloats(0, x.DType, x.Shape, v)
}

func lrn(c *Call) {
	x := c.input(0)
	c.require(len(x.Shape) >= 2, c.portName(0), "[N, C, ...] is expected, found %v", x)
	size := c.positive("size", 0)
	alpha, beta, bias := c.float("alpha", 1e-4), c.float("beta", 0.75), c.float("bias", 1)
	v := c.floats(0)
	out := make([]float64, len(v))
	channels, plane := x.Shape[1], product(x.Shape[2:])
	for n := range x.Shape[0] {
		for ch := range channels {
			lo, hi := max(0, ch-(size-1)/2), min(channels-1, ch+size/2)
			for p := range plane {
				s := 0.0
				for k := lo; k <= hi; k++ {
					y := v[(n*channels+k)*plane+p]
					s += y * y
				}
				i := (n*channels+ch)*plane + p
				out[i] = v[i] / math.Pow(bias+alpha/float64(size)*s, beta)
			}
			c.spend(plane * (hi - lo + 10))
		}
	}
	c.putFloats(0, x.DType, x.Shape, out)
}
