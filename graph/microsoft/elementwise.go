package microsoft

import (
	"math"

	"github.com/carve-dev/carve/graph"
)

const floatTypes = "bfloat16,double,float,float16"

var elementwiseOperators = []operator{
	{name: "Gelu", schema: "in X:T\nout Y:T\nty T=" + floatTypes, expand: func(o *op) { o.set(0, o.call("Gelu", nil, o.in[0])) }},
	{name: "BiasGelu", schema: "in A:T B:T\nout C:T\nty T=" + floatTypes,
		expand: func(o *op) { o.set(0, o.call("Gelu", nil, o.sum(o.in[0], o.in[1]))) }},
	{name: "FastGelu", schema: "in X:T bias?:T\nout Y:T\nty T=" + floatTypes, expand: func(o *op) { o.set(0, o.fastGelu(o.withBias(o.in[0], o.input(1)))) }},
	{name: "GemmFastGelu", schema: "in X:T W:T bias?:T\nout Y:T\nty T=bfloat16,float,float16",
		expand: func(o *op) { o.set(0, o.fastGelu(o.withBias(o.call("MatMul", nil, o.in[0], o.in[1]), o.input(2)))) }},
	{name: "QuickGelu", schema: "in X:T\nout Y:T\nat alpha:float=1.702\nty T=" + floatTypes,
		expand: func(o *op) { o.set(0, o.swish(o.in[0], float64(o.n.Float("alpha", 1.702)))) }},
	{name: "ScaledSiLU", schema: "in X:T scale?:M\nout Y:T\nat alpha:float=1\nty T=bfloat16,float,float16 M=bfloat16,float,float16", expand: scaledSiLU},
	{name: "GatedAdd", schema: "in X:T Y:T gate:T\nout output:T\nty T=bfloat16,float,float16",
		expand: func(o *op) { o.set(0, o.sum(o.in[0], o.times(o.in[1], o.in[2]))) }},
	{name: "BiasAdd", schema: "in X:T bias:T skip:T\nout Y:T\nty T=float,float16",
		expand: func(o *op) { o.set(0, o.sum(o.sum(o.in[0], o.in[1]), o.in[2])) }},
	{name: "BiasSplitGelu", schema: "in X:T bias:T\nout Y:T\nty T=float,float16", expand: func(o *op) {
		x := o.sum(o.in[0], o.in[1])
		parts := o.calls("Split", 2, attrs(graph.IntAttr("axis", int64(o.rank(x)-1)), graph.IntAttr("num_outputs", 2)), x)
		o.set(0, o.times(parts[0], o.call("Gelu", nil, parts[1])))
	}},
	{name: "BiasDropout", schema: "in data:T bias:T residual?:T ratio?:T1 training_mode?:T2\nout output:T mask?:T2\nat seed:int\nty T=" + floatTypes +
		" T1=" + floatTypes + " T2=bool", expand: func(o *op) {
		o.refuse(o.has(4) && (o.in[4].Const == nil || o.in[4].Const.Int64At(0) != 0), "training")
		o.set(0, o.withBias(o.sum(o.in[0], o.in[1]), o.input(2)))
	}},
	{name: "BiasSoftmax", schema: "in data:T bias:T\nout output:T\nat axis:int=1 is_inner_broadcast:int!\nty T=double,float,float16", expand: func(o *op) {
		o.refuse(!o.flag("is_inner_broadcast"), "a bias that is broadcast over outer dims")
		as := attrs(graph.IntAttr("axis", o.n.Int("axis", 1)))
		o.set(0, o.add(graph.Op{Name: "Softmax", Since: 11}, 1, as, o.sum(o.in[0], o.in[1]))[0])
	}},
}

// withBias adds a bias that may be omitted.
func (o *op) withBias(x, bias *graph.Value) *graph.Value {
	if bias == nil {
		return x
	}
	return o.sum(x, bias)
}

func (o *op) fastGelu(x *graph.Value) *graph.Value {
	return o.call("Gelu", attrs(graph.StringAttr("approximate", "tanh")), x)
}

// swish returns x·σ(αx).
func (o *op) swish(x *graph.Value, alpha float64) *graph.Value {
	return o.call("Swish", attrs(graph.FloatAttr("alpha", float32(alpha))), x)
}

func scaledSiLU(o *op) {
	y := o.swish(o.scaled(o.in[0], float64(o.n.Float("alpha", 1))), 1)
	if o.has(1) {
		y = o.times(y, o.cast(o.in[1], o.dtype(y)))
	}
	o.set(0, y)
}

// activation applies the function that a fused operator names, with its parameters; a parameter that is NaN has its default.
func (o *op) activation(y *graph.Value, name string, alpha, beta float64) *graph.Value {
	or := func(v, def float64) graph.Attr {
		if math.IsNaN(v) {
			v = def
		}
		return graph.FloatAttr("alpha", float32(v))
	}
	switch name {
	case "":
		return y
	case "Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "HardSwish":
		return o.call(name, nil, y)
	case "LeakyRelu":
		return o.call(name, attrs(or(alpha, 0.01)), y)
	case "Elu":
		return o.call(name, attrs(or(alpha, 1)), y)
	case "ThresholdedRelu":
		return o.call(name, attrs(or(alpha, 1)), y)
	case "HardSigmoid":
		b := or(beta, 0.5)
		b.Name = "beta"
		return o.call(name, attrs(or(alpha, 0.2), b), y)
	case "Clip":
		var lo, hi *graph.Value
		if !math.IsNaN(alpha) {
			lo = o.like(y, alpha)
		}
		if !math.IsNaN(beta) {
			hi = o.like(y, beta)
		}
		return o.call(name, nil, y, lo, hi)
	}
	o.fail(ErrAttribute, "activation %q", name)
	return nil
}

// listedActivation is activation with the parameters as a list.
func (o *op) listedActivation(y *graph.Value) *graph.Value {
	p := []float64{math.NaN(), math.NaN()}
	list := o.n.Floats("activation_params")
	o.require(len(list) <= len(p), ErrAttribute, "%d parameters of an activation", len(list))
	for i, x := range list {
		p[i] = float64(x)
	}
	return o.activation(y, o.n.Str("activation", ""), p[0], p[1])
}
