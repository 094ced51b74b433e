package microsoft

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

const (
	convAttrs     = " auto_pad:string=NOTSET dilations:ints group:int=1 kernel_shape:ints pads:ints strides:ints"
	fusedConvText = "in X:T W:T B?:T Z?:T\nout Y:T\nat activation:string activation_params:floats" + convAttrs + "\nty T="
)

var productOperators = []operator{
	{name: "FusedMatMul", schema: "in A:T B:T\nout Y:T\nat alpha:float=1 transA:int=0 transB:int=0 transBatchA:int=0 transBatchB:int=0\nty T=" + floatTypes,
		expand: func(o *op) { o.set(0, o.fusedMatMul()) }},
	{name: "TransposeMatMul", schema: "in A:T B:T\nout Y:T\nat alpha:float=1 transA:int=0 transB:int=0\nty T=" + floatTypes,
		expand: func(o *op) { o.set(0, o.fusedMatMul()) }},
	{name: "FusedMatMulActivation", schema: "in A:T B:T\nout Y:T\nat activation:string! activation_alpha:float activation_axis:int activation_beta:float " +
		"activation_gamma:float alpha:float=1 transA:int=0 transB:int=0 transBatchA:int=0 transBatchB:int=0\nty T=" + floatTypes,
		expand: func(o *op) { o.set(0, o.namedActivation(o.fusedMatMul())) }},
	{name: "FusedGemm", schema: "in A:T B:T C?:T\nout Y:T\nat activation:string activation_alpha:float activation_beta:float activation_gamma:float " +
		"alpha:float=1 beta:float=1 transA:int=0 transB:int=0\nty T=double,float,float16,int32,int64,uint32,uint64", expand: func(o *op) {
		as := o.attrsWithout("activation", "activation_alpha", "activation_beta", "activation_gamma")
		o.set(0, o.namedActivation(o.call("Gemm", as, o.in...)))
	}},
	{name: "FusedConv", schema: fusedConvText + "double,float,float16", expand: func(o *op) { o.set(0, o.fusedConv(o.in[0], o.in[1], o.input(3))) }},
	{name: "NhwcFusedConv", schema: fusedConvText + "float,float16", expand: nhwcFusedConv},
	{name: "NhwcConv", schema: "in X:T W:T B?:T\nout Y:T\nat" + convAttrs + "\nty T=double,float,float16", expand: nhwcConv},
	{name: "MatMulInteger16", schema: "in A:T1 B:T2\nout Y:T3\nty T1=int16,uint16 T2=int16,uint16 T3=int32,uint32", expand: func(o *op) {
		to := tensor.Int32
		if o.dtype(o.in[0]) == tensor.Uint16 && o.dtype(o.in[1]) == tensor.Uint16 {
			to = tensor.Uint32
		}
		o.set(0, o.call("MatMul", nil, o.cast(o.in[0], to), o.cast(o.in[1], to)))
	}},
	{name: "CDist", schema: "in A:T B:T\nout C:T\nat metric:string=sqeuclidean\nty T=double,float", expand: distances},
	{name: "ConvTransposeWithDynamicPads", schema: "in X:T W:T Pads?:tensor(int64) B?:T\nout Y:T\nat auto_pad:string=NOTSET dilations:ints group:int=1 " +
		"kernel_shape:ints output_padding:ints strides:ints\nty T=double,float,float16", expand: func(o *op) {
		as := o.attrsWithout()
		if o.has(2) {
			c := o.in[2].Const
			o.refuse(c == nil, "pads that are no constant")
			pads := make([]int64, c.Len())
			for i := range pads {
				pads[i] = c.Int64At(i)
			}
			as = append(as, graph.IntsAttr("pads", pads...))
		}
		o.set(0, o.call("ConvTranspose", as, o.in[0], o.in[1], o.input(3)))
	}},
}

// fusedMatMul multiplies matrices, turned first where attributes say so, and scales the product.
func (o *op) fusedMatMul() *graph.Value {
	a := o.factor(o.in[0], o.flag("transA"), o.flag("transBatchA"))
	b := o.factor(o.in[1], o.flag("transB"), o.flag("transBatchB"))
	return o.scaled(o.call("MatMul", nil, a, b), float64(o.n.Float("alpha", 1)))
}

// factor moves the first axis behind the batch, where batch is set, and swaps the last two, where turn is.
func (o *op) factor(x *graph.Value, turn, batch bool) *graph.Value {
	if rank := o.rankIf(x, batch); rank > 2 {
		perm := make([]int64, 0, rank)
		for i := 1; i < rank-1; i++ {
			perm = append(perm, int64(i))
		}
		x = o.transpose(x, append(perm, 0, int64(rank-1))...)
	}
	if turn {
		x = o.turned(x)
	}
	return x
}

// rankIf returns the rank of x where it is needed, so that it need not be known elsewhere.
func (o *op) rankIf(x *graph.Value, needed bool) int {
	if !needed {
		return 0
	}
	return o.rank(x)
}

// namedActivation applies the activation whose parameters are attributes.
func (o *op) namedActivation(y *graph.Value) *graph.Value {
	p := [2]float64{math.NaN(), math.NaN()}
	for i, name := range []string{"activation_alpha", "activation_beta"} {
		if o.n.Attrs.Lookup(name) != nil {
			p[i] = float64(o.n.Float(name, 0))
		}
	}
	return o.activation(y, o.n.Str("activation", ""), p[0], p[1])
}

// fusedConv is a convolution of x with w, the sum with z where there is one, and an activation.
func (o *op) fusedConv(x, w, z *graph.Value) *graph.Value {
	y := o.call("Conv", o.attrsWithout("activation", "activation_params"), x, w, o.input(2))
	return o.listedActivation(o.withBias(y, z))
}

// nhwcConv is a convolution of images whose channels are the last axis, as are those of the weights: so ONNX Runtime's optimiser writes it for
// devices, whatever its documentation says.
func nhwcConv(o *op) {
	o.set(0, o.channelsLast(o.fusedConv(o.channelsFirst(o.in[0]), o.channelsFirst(o.in[1]), nil)))
}

// nhwcFusedConv has weights as those of Conv.
func nhwcFusedConv(o *op) {
	z := o.input(3)
	if z != nil {
		z = o.channelsFirst(z)
	}
	o.set(0, o.channelsLast(o.fusedConv(o.channelsFirst(o.in[0]), o.in[1], z)))
}

// channelsFirst moves the last axis behind the batch, channelsLast is the inverse.
func (o *op) channelsFirst(x *graph.Value) *graph.Value {
	rank := int64(o.rank(x))
	o.require(rank >= 3, ErrShape, "%s has rank %d, expected a batch of images", x, rank)
	perm := []int64{0, rank - 1}
	for i := int64(1); i < rank-1; i++ {
		perm = append(perm, i)
	}
	return o.transpose(x, perm...)
}

func (o *op) channelsLast(x *graph.Value) *graph.Value {
	rank := int64(o.rank(x))
	o.require(rank >= 3, ErrShape, "%s has rank %d, expected a batch of images", x, rank)
	perm := []int64{0}
	for i := int64(2); i < rank; i++ {
		perm = append(perm, i)
	}
	return o.transpose(x, append(perm, 1)...)
}

// lastOr applies f to an image with channels behind the batch, whichever way the node has them.
func (o *op) lastOr(x *graph.Value, f func(*graph.Value) *graph.Value) *graph.Value {
	if !o.flag("channels_last") {
		return f(x)
	}
	return o.channelsLast(f(o.channelsFirst(x)))
}

// distances are those between all rows of two matrices: |a|² - 2ab + |b|².
func distances(o *op) {
	a, b := o.in[0], o.in[1]
	o.ranked(a, 2)
	o.ranked(b, 2)
	metric := o.n.Str("metric", "sqeuclidean")
	o.require(metric == "sqeuclidean" || metric == "euclidean", ErrAttribute, "metric %q", metric)
	squares := func(x *graph.Value) *graph.Value {
		return o.call("ReduceSumSquare", attrs(graph.IntAttr("keepdims", 1)), x, o.ints(1))
	}
	y := o.sum(squares(a), o.scaled(o.call("MatMul", nil, a, o.turned(b)), -2))
	y = o.call("Max", nil, o.sum(y, o.turned(squares(b))), o.like(y, 0))
	if metric == "euclidean" {
		y = o.call("Sqrt", nil, y)
	}
	o.set(0, y)
}
