package microsoft

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

const (
	bytesType     = "\nty T=int8,uint8"
	twoOperands   = "in A:T A_scale:tensor(float) A_zero_point?:T B:T B_scale:tensor(float) B_zero_point?:T C_scale:tensor(float) C_zero_point?:T\nout C:T" + bytesType
	oneOperand    = "in X:T X_scale:tensor(float) X_zero_point?:T Y_scale:tensor(float) Y_zero_point?:T\nout Y:T"
	poolAttrs     = " auto_pad:string=NOTSET ceil_mode:int=0 kernel_shape:ints! pads:ints strides:ints"
	recurrentText = "activation_alpha:floats activation_beta:floats activations:strings clip:float direction:string=forward hidden_size:int input_forget:int=0"
)

// quantisedOperators compute on integers that stand for real numbers. They become DequantizeLinear and QuantizeLinear around an
// operator on real numbers, or products of integers that are scaled, the two forms in which backends find what they run on integers.
var quantisedOperators = []operator{
	{name: "QLinearAdd", schema: twoOperands, expand: func(o *op) { o.binaryOnReal("Add") }},
	{name: "QLinearMul", schema: twoOperands, expand: func(o *op) { o.binaryOnReal("Mul") }},
	{name: "QLinearSigmoid", schema: oneOperand + bytesType, expand: func(o *op) {
		o.onReal(func(x *graph.Value) *graph.Value { return o.call("Sigmoid", nil, x) })
	}},
	{name: "QLinearLeakyRelu", schema: oneOperand + "\nat alpha:float=0.01" + bytesType, expand: func(o *op) {
		o.onReal(func(x *graph.Value) *graph.Value {
			return o.call("LeakyRelu", attrs(graph.FloatAttr("alpha", o.n.Float("alpha", 0.01))), x)
		})
	}},
	{name: "QLinearSoftmax", schema: oneOperand + "\nat axis:int=-1 opset:int!" + bytesType, expand: func(o *op) {
		since := 13
		if o.n.Int("opset", 13) < 13 {
			since = 11
		}
		o.onReal(func(x *graph.Value) *graph.Value {
			return o.add(graph.Op{Name: "Softmax", Since: since}, 1, attrs(graph.IntAttr("axis", o.n.Int("axis", -1))), x)[0]
		})
	}},
	{name: "QLinearAveragePool", schema: oneOperand + "\nat channels_last:int=0 count_include_pad:int=0" + poolAttrs + bytesType, expand: func(o *op) {
		o.onImages(func(x *graph.Value) *graph.Value { return o.call("AveragePool", o.attrsWithout("channels_last"), x) })
	}},
	{name: "QLinearGlobalAveragePool", schema: "in X:T x_scale:tensor(float) x_zero_point:T y_scale:tensor(float) y_zero_point:T\nout Y:T\nat channels_last:int=0" + bytesType,
		expand: func(o *op) {
			o.onImages(func(x *graph.Value) *graph.Value { return o.call("GlobalAveragePool", nil, x) })
		}},
	{name: "QLinearReduceMean", schema: "in data:T data_scale:tensor(float) data_zero_point?:T reduced_scale:tensor(float) reduced_zero_point?:T\nout reduced:T\n" +
		"at axes:ints! keepdims:int!" + bytesType, expand: func(o *op) {
		axes, _ := o.n.Ints("axes")
		o.onReal(func(x *graph.Value) *graph.Value {
			return o.call("ReduceMean", attrs(graph.IntAttr("keepdims", o.n.Int("keepdims", 1))), x, o.ints(axes...))
		})
	}},
	{name: "QLinearConcat", schema: "in Y_scale:TF Y_zero_point:T8 inputs*+:TV\nout Y:T8\nat axis:int!\nty T8=int8,uint8 TF=float TV=float,int8,uint8", expand: func(o *op) {
		o.require(len(o.in) >= 5 && len(o.in)%3 == 2, ErrShape, "%d inputs: each operand has a scale and a zero point", len(o.in))
		var parts []*graph.Value
		for i := 2; i < len(o.in); i += 3 {
			o.require(o.has(i) && o.has(i+1), ErrShape, "input %d or %d is missing", i, i+1)
			parts = append(parts, o.dequantize(o.in[i], o.in[i+1], o.in[i+2]))
		}
		o.set(0, o.quantize(o.concat(o.n.Int("axis", 0), parts...), o.in[0], o.in[1]))
	}},
	{name: "QLinearWhere", schema: "in condition:B X:T x_scale:TF x_zero_point:T Y:T y_scale:TF y_zero_point:T z_scale:TF z_zero_point:T\nout Z:T\nty B=bool TF=float T=int8,uint8",
		expand: func(o *op) {
			y := o.call("Where", nil, o.in[0], o.dequantize(o.in[1], o.in[2], o.in[3]), o.dequantize(o.in[4], o.in[5], o.in[6]))
			o.set(0, o.quantize(y, o.in[7], o.in[8]))
		}},
	{name: "QLinearConv", schema: "in x:T1 x_scale:tensor(float) x_zero_point:T1 w:T2 w_scale:tensor(float) w_zero_point:T2 y_scale:tensor(float) y_zero_point:T3 B?:T4\n" +
		"out y:T3\nat channels_last:int=0" + convAttrs + "\nty T1=int8,uint8 T2=int8,uint8 T3=int8,uint8 T4=int32", expand: func(o *op) {
		o.set(0, o.lastOr(o.in[0], func(x *graph.Value) *graph.Value {
			return o.call("QLinearConv", o.attrsWithout("channels_last"), append([]*graph.Value{x}, o.in[1:]...)...)
		}))
	}},
	{name: "NhwcMaxPool", schema: "in x:T\nout y:T\nat dilations:ints" + poolAttrs + bytesType, expand: func(o *op) {
		o.set(0, o.channelsLast(o.call("MaxPool", o.attrsWithout(), o.channelsFirst(o.in[0]))))
	}},
	{name: "QGemm", schema: "in A:TA a_scale:T a_zero_point:TA B:TB b_scale:T b_zero_point:TB C?:TC y_scale?:T y_zero_point?:TYZ\nout Y:TY\n" +
		"at alpha:float=1 transA:int=0 transB:int=0\nty T=float TA=int8,uint8 TB=int8,uint8 TC=int32 TYZ=int8,uint8 TY=float,int8,uint8", expand: quantisedGemm},
	{name: "QuantizeLinear", schema: "in x:T1 y_scale:T1 y_zero_point?:T2\nout y:T2\nat axis:int\nty T1=float,float16 T2=int16,int4,int8,uint16,uint4,uint8",
		expand: func(o *op) { o.set(0, o.quantizeAlong(o.in[0], o.in[1], o.input(2), o.n.Int("axis", 1))) }},
	{name: "DequantizeLinear", schema: "in x:T1 x_scale:T2 x_zero_point?:T1\nout y:T2\nat axis:int\nty T1=int16,int32,int4,int8,uint16,uint4,uint8 T2=float,float16",
		expand: func(o *op) { o.set(0, o.dequantizeAlong(o.in[0], o.in[1], o.input(2), o.n.Int("axis", 1))) }},
	{name: "DynamicQuantizeMatMul", schema: "in A:T1 B:T2 b_scale:T1 b_zero_point?:T2 bias?:T1\nout Y:T1\nty T1=float T2=int8,uint8", expand: func(o *op) {
		a := o.calls("DynamicQuantizeLinear", 3, nil, o.in[0])
		o.set(0, o.scaledProduct(a[0], o.in[1], a[1], o.in[2], a[2], o.input(3), o.input(4)))
	}},
	{name: "MatMulIntegerToFloat", schema: "in A:T1 B:T2 a_scale:T3 b_scale:T3 a_zero_point?:T1 b_zero_point?:T2 bias?:T3\nout Y:T3\n" +
		"ty T1=int8,uint8 T2=int8,uint8 T3=float,float16", expand: func(o *op) {
		o.set(0, o.scaledProduct(o.in[0], o.in[1], o.in[2], o.in[3], o.input(4), o.input(5), o.input(6)))
	}},
	dynamicLSTM,
}

// number makes a scalar of a vector of one element: a scale, or a zero point, of a whole tensor.
func (o *op) number(v *graph.Value) *graph.Value {
	if v != nil && len(v.Type.Shape) == 1 && v.Type.Shape[0].Is(1) {
		return o.reshape(v)
	}
	return v
}

func (o *op) dequantize(x, scale, zero *graph.Value) *graph.Value {
	return o.dequantizeAlong(x, scale, zero, 1)
}

func (o *op) quantize(x, scale, zero *graph.Value) *graph.Value {
	return o.quantizeAlong(x, scale, zero, 1)
}

func (o *op) dequantizeAlong(x, scale, zero *graph.Value, axis int64) *graph.Value {
	return o.call("DequantizeLinear", along(scale, axis), x, o.number(scale), o.number(zero))
}

func (o *op) quantizeAlong(x, scale, zero *graph.Value, axis int64) *graph.Value {
	return o.call("QuantizeLinear", along(scale, axis), x, o.number(scale), o.number(zero))
}

// along is the attribute axis where a tensor has several scales.
func along(scale *graph.Value, axis int64) []graph.Attr {
	if s := scale.Type.Shape; s != nil && (len(s) == 0 || len(s) == 1 && s[0].Is(1)) {
		return nil
	}
	return attrs(graph.IntAttr("axis", axis))
}

// binaryOnReal applies an operator to the numbers that inputs 0 and 3 stand for.
func (o *op) binaryOnReal(name string) {
	y := o.call(name, nil, o.dequantize(o.in[0], o.in[1], o.in[2]), o.dequantize(o.in[3], o.in[4], o.in[5]))
	o.set(0, o.quantize(y, o.in[6], o.input(7)))
}

// onReal applies f to the numbers that input 0 stands for.
func (o *op) onReal(f func(*graph.Value) *graph.Value) {
	o.set(0, o.quantize(f(o.dequantize(o.in[0], o.in[1], o.in[2])), o.in[3], o.input(4)))
}

// onImages is onReal on images whose channels stand where the node says: it is the integers that are turned around.
func (o *op) onImages(f func(*graph.Value) *graph.Value) {
	o.rank(o.in[0]) // where a run tells it, what is around the middle stays with it
	o.set(0, o.lastOr(o.in[0], func(x *graph.Value) *graph.Value {
		return o.quantize(f(o.dequantize(x, o.in[1], o.in[2])), o.in[3], o.input(4))
	}))
}

// scaledProduct is a product of integers, times both scales, plus a bias that may be nil.
func (o *op) scaledProduct(a, b, aScale, bScale, aZero, bZero, bias *graph.Value) *graph.Value {
	y := o.call("MatMulInteger", nil, a, b, o.number(aZero), o.number(bZero))
	y = o.times(o.cast(y, o.dtype(aScale)), o.times(o.number(aScale), o.number(bScale)))
	return o.withBias(y, bias)
}

// quantisedGemm is a product of integers whose bias has the product of both scales as its own.
func quantisedGemm(o *op) {
	a, b := o.in[0], o.in[3]
	o.ranked(a, 2)
	o.ranked(b, 2)
	if o.flag("transA") {
		a = o.turned(a)
	}
	bScale, bZero := o.in[4], o.in[5]
	if o.flag("transB") {
		b = o.turned(b)
	}
	scale := o.scaled(o.times(o.number(o.in[1]), o.number(bScale)), float64(o.n.Float("alpha", 1)))
	y := o.call("MatMulInteger", nil, a, b, o.number(o.in[2]), o.number(bZero))
	y = o.times(o.cast(y, tensor.Float32), scale)
	if o.has(6) {
		y = o.sum(y, o.times(o.cast(o.in[6], tensor.Float32), scale))
	}
	if o.has(7) {
		y = o.quantize(y, o.in[7], o.input(8))
	}
	o.set(0, y)
}

// recurrentWeights returns weights [directions, rows, gates] as real numbers in the order of LSTM, [directions, gates, rows].
func (o *op) recurrentWeights(w, scale, zero *graph.Value) *graph.Value {
	o.ranked(w, 3)
	wide := func(v *graph.Value) *graph.Value {
		switch o.rank(v) {
		case 1:
			return o.unsqueeze(v, 1, 2)
		case 2:
			return o.unsqueeze(v, 1)
		}
		return v
	}
	real := o.call("Sub", nil, o.cast(w, tensor.Float32), o.cast(wide(zero), tensor.Float32))
	return o.transpose(o.times(real, wide(scale)), 0, 2, 1)
}
