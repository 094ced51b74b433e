package microsoft

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

const halfOrMore = "double,float,float16"

// experimentalOperators are those that ONNX had as experiments in its operator sets 1 to 9, which converters of those days wrote, and those that ONNX
// Runtime has in versions before ONNX's first.
var experimentalOperators = []operator{
	{name: "Affine", schema: "in X:T\nout Y:T\nat alpha:float=1 beta:float=0\nty T=" + halfOrMore, expand: func(o *op) {
		o.set(0, o.sum(o.scaled(o.in[0], o.factorOf("alpha")), o.like(o.in[0], float64(o.n.Float("beta", 0)))))
	}},
	{name: "ConstantFill", schema: "in input?:T1\nout output:T2\nat dtype:int=1 extra_shape:ints input_as_shape:int=0 shape:ints value:float=0\n" +
		"ty T1=bool,float,int32,int64 T2=bool,float,int32,int64", expand: constantFill},
	{name: "Crop", schema: "in input:T\nout output:T\nat border:ints! scale:ints\nty T=" + halfOrMore, expand: crop},
	{name: "DynamicSlice", schema: "in data:T starts:Tind ends:Tind axes?:Tind\nout output:T\nty T=" + allTypes + " Tind=int32,int64",
		expand: func(o *op) { o.set(0, o.call("Slice", nil, o.in...)) }},
	{name: "ImageScaler", schema: "in input:T\nout output:T\nat bias:floats scale:float=1\nty T=" + halfOrMore, expand: imageScaler},
	{name: "MeanVarianceNormalization", schema: "in input:T\nout output:T\nat across_channels:int=0 normalize_variance:int=1\nty T=" + halfOrMore, expand: oldNormalization},
	{name: "ParametricSoftplus", schema: "in X:T\nout Y:T\nat alpha:float! beta:float!\nty T=" + halfOrMore, expand: func(o *op) {
		o.set(0, o.scaled(o.call("Softplus", nil, o.scaled(o.in[0], o.factorOf("beta"))), o.factorOf("alpha")))
	}},
	{name: "Scale", schema: "in input:T\nout output:T\nat scale:float=1\nty T=" + halfOrMore,
		expand: func(o *op) { o.set(0, o.scaled(o.in[0], o.factorOf("scale"))) }},
	{name: "ScaledTanh", schema: "in input:T\nout output:T\nat alpha:float! beta:float!\nty T=" + halfOrMore, expand: func(o *op) {
		o.set(0, o.scaled(o.call("Tanh", nil, o.scaled(o.in[0], o.factorOf("beta"))), o.factorOf("alpha")))
	}},
	{name: "ThresholdedRelu", schema: "in X:T\nout Y:T\nat alpha:float=1\nty T=" + halfOrMore,
		expand: func(o *op) { o.set(0, o.call("ThresholdedRelu", o.attrsWithout(), o.in[0])) }},
}

// factorOf reads an attribute that is 1 where it is left out.
func (o *op) factorOf(name string) float64 { return float64(o.n.Float(name, 1)) }

// constantFill makes a tensor of one number, of a shape that is an attribute, the operand's or in the operand, with further dims behind.
func constantFill(o *op) {
	var fill *graph.Value
	switch dt := o.n.Int("dtype", int64(tensor.Float32)); dt {
	case int64(tensor.Float32), int64(tensor.Int32), int64(tensor.Int64), int64(tensor.Bool):
		fill = o.scalar(tensor.DType(dt), float64(o.n.Float("value", 0)))
	default:
		o.fail(ErrAttribute, "dtype %d", dt)
	}
	extra, _ := o.n.Ints("extra_shape")
	var shape *graph.Value
	switch dims, given := o.n.Ints("shape"); {
	case !o.has(0):
		o.refuse(len(extra) > 0, "extra_shape without an operand")
		shape = o.ints(dims...)
	case given && len(dims) > 0:
		o.fail(ErrAttribute, "a shape beside an operand")
	case o.flag("input_as_shape"):
		shape = o.cast(o.in[0], tensor.Int64)
	default:
		shape = o.call("Shape", nil, o.in[0])
	}
	if len(extra) > 0 {
		shape = o.concat(0, shape, o.ints(extra...))
	}
	o.set(0, o.call("Expand", nil, fill, shape))
}

// crop takes borders from the left, the top, the right and the bottom of pictures, or height and width from what is behind the first two.
func crop(o *op) {
	o.ranked(o.in[0], 4)
	border, _ := o.n.Ints("border")
	size, _ := o.n.Ints("scale")
	o.require(len(border) == 4, ErrAttribute, "%d borders", len(border))
	o.require(len(size) == 0 || len(size) == 2, ErrAttribute, "%d sizes", len(size))
	o.require(slices.Min(append(size, border...)) >= 0, ErrAttribute, "borders %d and size %d", border, size)
	y := o.in[0]
	for k, axis := range []int64{2, 3} {
		begin, end := border[1-k], -border[3-k] // from the end
		switch {
		case len(size) > 0:
			end = begin + size[k]
		case end == 0:
			end = math.MaxInt64
		}
		y = o.slice(y, axis, begin, end)
	}
	o.set(0, y)
}

// imageScaler scales pictures, and adds a number to each channel.
func imageScaler(o *op) {
	o.ranked(o.in[0], 4)
	y := o.scaled(o.in[0], o.factorOf("scale"))
	if bias := o.n.Floats("bias"); len(bias) > 0 {
		b := o.constant(tensor.From(append([]float32{}, bias...), len(bias), 1, 1))
		y = o.sum(y, o.cast(b, o.dtype(y)))
	}
	o.set(0, y)
}

// oldNormalization takes mean and deviation over all axes but the channels, or over these, too. ONNX Runtime takes them over the batch, as the
// later versions of the operator do.
func oldNormalization(o *op) {
	rank := o.rank(o.in[0])
	var axes []int64
	for k := range int64(rank) {
		if k != 1 || o.flag("across_channels") {
			axes = append(axes, k)
		}
	}
	if o.n.Int("normalize_variance", 1) != 0 {
		o.set(0, o.call("MeanVarianceNormalization", attrs(graph.IntsAttr("axes", axes...)), o.in[0]))
		return
	}
	mean := o.call("ReduceMean", nil, o.in[0], o.ints(axes...))
	o.set(0, o.call("Sub", nil, o.in[0], mean))
}
