package reference

import (
	"math"
	"math/rand/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var generateKernels = []kernel{
	{"Constant", 1, constant},
	{"ConstantOfShape", 9, constantOfShape},
	{"Range", 11, rangeOp},
	{"EyeLike", 9, eyeLike},
	{"RandomNormal", 1, random(false, true)},
	{"RandomNormalLike", 1, random(true, true)},
	{"RandomUniform", 1, random(false, false)},
	{"RandomUniformLike", 1, random(true, false)},
	{"Multinomial", 7, multinomial},
}

func constant(c *Call) {
	for _, a := range c.Node.Attrs {
		switch a.Name {
		case "value", "sparse_value":
			if a.Tensor == nil {
				c.fail(a.Name, ErrAttribute, "no tensor")
			}
			c.Inputs = []tensor.Value{a.Tensor}
			c.copyWhole(a.Tensor.Shape)
			return
		case "value_float":
			c.putFloats(0, tensor.Float32, []int{}, []float64{float64(a.Float)})
			return
		case "value_floats":
			v := make([]float64, len(a.Floats))
			for i, f := range a.Floats {
				v[i] = float64(f)
			}
			c.putFloats(0, tensor.Float32, []int{len(v)}, v)
			return
		case "value_int":
			c.putInts(0, tensor.Int64, []int{}, []int64{a.Int})
			return
		case "value_ints":
			v, _ := c.Node.Ints(a.Name)
			c.putInts(0, tensor.Int64, []int{len(v)}, v)
			return
		case "value_string":
			c.putStrings([]int{}, []string{a.Str})
			return
		case "value_strings":
			c.putStrings([]int{len(a.Strs)}, a.Strs)
			return
		}
	}
	c.fail("value", ErrAttribute, "the value is missing")
}

func constantOfShape(c *Call) {
	shape := c.dims(c.portName(0), c.ints(0))
	value := c.Node.TensorAttr("value")
	if value == nil {
		value = tensor.From([]float32{0})
	}
	c.check("value", value.Check())
	c.require(value.Len() == 1, "value", "one element is expected, found %v", value)
	src := c.cellsOf(value)
	c.move(0, value.DType, shape, func(dst cells) {
		for i := range dst.len() {
			dst.copy(i, src, 0, 1)
			c.spend(1)
		}
	})
}

func rangeOp(c *Call) {
	t := c.input(0)
	if t.DType.IsFloat() {
		start, limit, delta := c.one(0, 0), c.one(1, 0), c.one(2, 0)
		n := math.Max(math.Ceil((limit-start)/delta), 0)
		if !(n < 1<<40) {
			c.fail(c.portName(2), tensor.ErrTooLarge, "from %v to %v by %v", start, limit, delta)
		}
		v := c.floatBuffer(int(n))
		for i := range v {
			v[i] = start + float64(i)*delta
			c.spend(1)
		}
		c.putFloats(0, t.DType, []int{len(v)}, v)
		return
	}
	start, limit, delta := c.oneInt(0, 0), c.oneInt(1, 0), c.oneInt(2, 0)
	if delta == 0 {
		c.fail(c.portName(2), ErrAttribute, "a step of 0")
	}
	n := graph.RangeLen(start, limit, delta)
	if n >= 1<<40 {
		c.fail(c.portName(2), tensor.ErrTooLarge, "from %d to %d by %d", start, limit, delta)
	}
	v := make([]int64, c.reserve("output output", []int{int(n)}, 8))
	for i := range v {
		v[i] = start + int64(i)*delta
		c.spend(1)
	}
	c.putInts(0, t.DType, []int{len(v)}, v)
}

func eyeLike(c *Call) {
	x := c.input(0)
	c.require(len(x.Shape) == 2, c.portName(0), "a matrix is expected, found %v", x)
	dt := c.dtypeAttr("dtype", x.DType)
	rows, cols := x.Shape[0], x.Shape[1]
	k := c.Node.Int("k", 0)
	v := make([]int64, c.reserve("output", x.Shape, 8))
	for r := range rows {
		if col := int64(r) + k; col >= 0 && col < int64(cols) && k < int64(cols) {
			v[r*cols+int(col)] = 1
		}
	}
	c.putInts(0, dt, x.Shape, v)
}

// source returns the generator of a random operator: seeded by the attribute, or else by the node's place in its graph,
// so that runs can be repeated.
func (c *Call) source() *rand.Rand {
	if a := c.Node.Attrs.Lookup("seed"); a != nil && a.Kind == graph.AttrFloat {
		return rand.New(rand.NewPCG(math.Float64bits(float64(a.Float)), 1))
	}
	return rand.New(rand.NewPCG(uint64(c.Node.ID), 2))
}

func random(like, normal bool) func(*Call) {
	return func(c *Call) {
		dt, shape := tensor.Float32, []int(nil)
		if like {
			shape = c.input(0).Shape
			if c.input(0).DType.IsFloat() {
				dt = c.input(0).DType
			}
		} else {
			v, _ := c.Node.Ints("shape")
			shape = c.dims("shape", v)
		}
		dt = c.dtypeAttr("dtype", dt)
		v, r := c.floatBuffer(shape...), c.source()
		mean, scale := c.float("mean", 0), c.float("scale", 1)
		low, high := c.float("low", 0), c.float("high", 1)
		for i := range v {
			if normal {
				v[i] = mean + scale*r.NormFloat64()
			} else {
				v[i] = low + (high-low)*r.Float64()
			}
			c.spend(8)
		}
		c.putFloats(0, dt, shape, v)
	}
}

// bernoulli draws 1 with the probability that the input gives.
func bernoulli(c *Call) {
	x, r := c.input(0), c.source()
	v := c.floats(0)
	for i, p := range v {
		v[i] = 0
		if r.Float64() < p {
			v[i] = 1
		}
		c.spend(4)
	}
	c.putFloats(0, c.dtypeAttr("dtype", x.DType), x.Shape, v)
}

// multinomial draws classes by their unnormalised log-probabilities [batch, classes].
func multinomial(c *Call) {
	x, r := c.input(0), c.source()
	c.require(len(x.Shape) == 2 && x.Shape[1] > 0, c.portName(0), "[batch, classes] is expected, found %v", x)
	n := c.positive("sample_size", 1)
	v := c.floats(0)
	out := make([]int64, c.reserve("output", []int{x.Shape[0], n}, 8))
	for b := range x.Shape[0] {
		row := v[b*x.Shape[1]:][:x.Shape[1]]
		softmax(row)
		for s := range n {
			u, k := r.Float64(), 0
			for ; k < len(row)-1 && u >= row[k]; k++ {
				u -= row[k]
			}
			out[b*n+s] = int64(k)
			c.spend(len(row) + 4)
		}
	}
	c.putInts(0, c.dtypeAttr("dtype", tensor.Int32), []int{x.Shape[0], n}, out)
}

// dropout passes its input on, with a mask of all true, unless training mode asks for elements to be dropped.
func dropout(c *Call) {
	x := c.input(0)
	ratio := c.one(1, 0.5)
	mask := make([]bool, x.Len())
	for i := range mask {
		mask[i] = true
	}
	if c.oneInt(2, 0) == 0 || ratio == 0 {
		c.copyWhole(x.Shape)
	} else {
		draw := rand.New(rand.NewPCG(uint64(c.Node.ID), 3)).Float64
		if a := c.Node.Attrs.Lookup("seed"); a != nil && a.Kind == graph.AttrInt {
			draw = newTwister(uint32(a.Int)).Float64
		}
		v := c.floats(0)
		for i := range v {
			if mask[i] = draw() >= ratio; mask[i] {
				v[i] /= 1 - ratio
			} else {
				v[i] = 0
			}
			c.spend(4)
		}
		c.putFloats(0, x.DType, x.Shape, v)
	}
	if !c.wants(1) {
		return
	}
	if c.version >= 10 {
		c.putBools(1, x.Shape, mask)
		return
	}
	ones := make([]float64, len(mask))
	for i := range ones {
		ones[i] = 1
	}
	c.putFloats(1, x.DType, x.Shape, ones)
}
