package microsoft

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Operators on hidden states that are kept several times, as streams that networks mix: [..., C, H], or flat as [..., C·H], of which
// num_branches says C. They compute in float32.

const (
	streamTypes = "\nty T=bfloat16,float,float16"
	mixedTypes  = streamTypes + " M=bfloat16,float,float16"
)

var streamOperators = []operator{
	{name: "BranchwiseRMSNorm", schema: "in X:T scale?:M\nout Y:T\nat epsilon:float=1e-05 num_branches:int=0" + mixedTypes, expand: func(o *op) {
		x := o.streams()
		y := o.times(x, o.inverseRMS(x, -1, 1e-5))
		if o.has(1) {
			y = o.times(y, o.perStream(o.cast(o.in[1], tensor.Float32), x))
		}
		o.set(0, o.joinedStreams(y))
	}},
	{name: "HyperConnectionPreMix", schema: "in streams:T pre_mix:M\nout output:T\nat num_branches:int=0 reduction_scale:float=1" + mixedTypes, expand: func(o *op) {
		x := o.streams()
		y := o.call("ReduceSum", attrs(graph.IntAttr("keepdims", 0)), o.times(x, o.gates(o.in[1], x)), o.ints(-2))
		o.set(0, o.cast(o.scaled(y, float64(o.n.Float("reduction_scale", 1))), o.dtype(o.in[0])))
	}},
	{name: "HyperConnectionPostMix", schema: "in streams:T block_output:T post_mix:M stream_mix?:M\nout output:T\nat num_branches:int=0" + mixedTypes, expand: func(o *op) {
		x := o.streams()
		y := x
		if o.has(3) {
			y = o.call("MatMul", nil, o.turned(o.cast(o.in[3], tensor.Float32)), x)
		}
		block := o.unsqueeze(o.cast(o.in[1], tensor.Float32), -2)
		o.set(0, o.joinedStreams(o.sum(y, o.times(block, o.gates(o.in[2], x)))))
	}},
	{name: "EngramGate", schema: "in key:T query:T value:T key_norm_scale:T query_norm_scale:T conv_norm_scale?:T\nout output:T gated_value_normed?:T\n" +
		"at epsilon:float=1e-05" + streamTypes, expand: engramGate},
	{name: "LinearAttentionGate", schema: "in a:T dt_bias:TF decay_scale:TF b?:T\nout decay:T beta?:T" + streamTypes + " TF=float", expand: func(o *op) {
		x := o.sum(o.cast(o.in[0], tensor.Float32), o.in[1])
		o.set(0, o.cast(o.times(o.call("Softplus", nil, x), o.in[2]), o.dtype(o.in[0])))
		if o.has(3) {
			o.set(1, o.call("Sigmoid", nil, o.in[3]))
		}
	}},
}

// streams returns operand 0 as float32 [..., C, H].
func (o *op) streams() *graph.Value {
	x := o.cast(o.in[0], tensor.Float32)
	n := o.n.Int("num_branches", 0)
	if rank := o.rank(x); n == 0 {
		o.require(rank >= 2, ErrShape, "%s has rank %d", x, rank)
		return x
	}
	o.require(n > 0 && n <= 1<<20, ErrAttribute, "%d branches", n)
	rank := o.rank(x)
	o.require(rank >= 1, ErrShape, "streams of rank 0")
	width := int64(o.static(x, rank-1))
	o.require(width%n == 0, ErrShape, "%d columns for %d branches", width, n)
	dims := make([]int64, rank+1)
	dims[rank-1], dims[rank] = n, width/n
	return o.reshape(x, dims...)
}

// joinedStreams gives y [..., C, H] the shape and the type of operand 0.
func (o *op) joinedStreams(y *graph.Value) *graph.Value {
	if o.n.Int("num_branches", 0) != 0 {
		dims := make([]int64, o.rank(y)-1)
		dims[len(dims)-1] = int64(o.static(o.in[0], len(dims)-1))
		y = o.reshape(y, dims...)
	}
	return o.cast(y, o.dtype(o.in[0]))
}

// perStream returns weights of shape [C·H], [C, H] or [H] as they are broadcast over streams x.
func (o *op) perStream(w, x *graph.Value) *graph.Value {
	if h := o.static(x, o.rank(x)-1); o.rank(w) == 1 && o.static(w, 0) != h {
		return o.reshape(w, -1, int64(h))
	}
	return w
}

// gates returns factors of shape [..., C], [..., C, 1], [..., C, H] or [..., C·H] as float32 beside streams x.
func (o *op) gates(g, x *graph.Value) *graph.Value {
	g = o.cast(g, tensor.Float32)
	rank := o.rank(x)
	if o.rank(g) == rank {
		return g
	}
	o.ranked(g, rank-1)
	if o.n.Int("num_branches", 0) == 0 {
		return o.unsqueeze(g, -1)
	}
	n, h := int64(o.static(x, rank-2)), int64(o.static(x, rank-1))
	last := int64(o.static(g, rank-2))
	o.require(last == n || last == n*h, ErrShape, "%d gates for %d streams of %d", last, n, h)
	dims := make([]int64, rank)
	dims[rank-2], dims[rank-1] = n, last/n
	return o.reshape(g, dims...)
}

// engramGate lets a value through as far as keys and queries agree, which are normalised, by streams [batch, length, C, H].
func engramGate(o *op) {
	key, query := o.cast(o.in[0], tensor.Float32), o.cast(o.in[1], tensor.Float32)
	o.ranked(key, 4)
	o.ranked(query, 4)
	norm := func(x, scale *graph.Value) *graph.Value {
		return o.times(o.times(x, o.inverseRMS(x, -1, 1e-5)), o.cast(scale, tensor.Float32))
	}
	dot := o.call("ReduceSum", attrs(graph.IntAttr("keepdims", 1)), o.times(norm(key, o.in[3]), norm(query, o.in[4])), o.ints(-1))
	dot = o.scaled(dot, 1/math.Sqrt(float64(o.static(key, 3))))
	root := o.call("Sqrt", nil, o.call("Max", nil, o.call("Abs", nil, dot), o.like(dot, 1e-6)))
	gate := o.call("Sigmoid", nil, o.times(o.call("Sign", nil, dot), root))
	y := o.times(gate, o.unsqueeze(o.cast(o.in[2], tensor.Float32), 2))
	o.set(0, o.cast(y, o.dtype(o.in[0])))
	if o.wants(1) {
		o.require(o.has(5), ErrShape, "a normalised value without its scale")
		o.set(1, o.cast(norm(y, o.in[5]), o.dtype(o.in[0])))
	}
}
