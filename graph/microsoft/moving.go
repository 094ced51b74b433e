package microsoft

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

const (
	allTypes  = "bool,complex128,complex64,double,float,float16,int16,int32,int64,int8,string,uint16,uint32,uint64,uint8"
	trilTypes = "bfloat16,bool,double,float,float16,int16,int32,int64,int8,uint16,uint32,uint64,uint8"
)

// movingOperators move, choose and count elements.
var movingOperators = []operator{
	{name: "ExpandDims", schema: "in X:T axis:tensor(int32)\nout Y:T\nty T=" + allTypes, expand: func(o *op) {
		o.set(0, o.call("Unsqueeze", nil, o.in[0], o.reshape(o.cast(o.in[1], tensor.Int64), -1)))
	}},
	{name: "GatherND", schema: "in data:T indices:Tind\nout output:T\nty T=" + allTypes + " Tind=int32,int64", expand: func(o *op) {
		o.set(0, o.call("GatherND", nil, o.in[0], o.cast(o.in[1], tensor.Int64)))
	}},
	{name: "GridSample", schema: "in X:T1 Grid:T1\nout Y:T2\nat align_corners:int=0 mode:string=bilinear padding_mode:string=zeros\nty T1=" + allTypes + " T2=double,float,float16",
		expand: func(o *op) { o.set(0, o.add(graph.Op{Name: "GridSample", Since: 16}, 1, o.attrsWithout(), o.in...)[0]) }},
	{name: "IsAllFinite", schema: "in input*:V\nout output:T\nat isinf_only:int=0 isnan_only:int=0\nty V=" + floatTypes + " T=bool", expand: isAllFinite},
	{name: "MulInteger", schema: "in A:T A_zero_point?:T B:T B_zero_point?:T\nout C:T1\nty T=int8,uint8 T1=int32", expand: func(o *op) {
		o.set(0, o.times(o.centred(o.in[0], o.input(1)), o.centred(o.in[2], o.input(3))))
	}},
	{name: "Pad", schema: "in data:T pads:tensor(int64) value?:T\nout output:T\nat mode:string=constant\nty T=double,float,float16", expand: func(o *op) {
		value := o.input(2)
		if value != nil {
			value = o.reshape(value)
		}
		o.set(0, o.call("Pad", o.attrsWithout(), o.in[0], o.reshape(o.in[1], -1), value))
	}},
	{name: "Range", schema: "in start:T limit:T delta?:T\nout Y:T\nty T=double,float,int16,int32,int64", expand: func(o *op) {
		delta := o.input(2)
		if delta == nil {
			delta = o.like(o.in[0], 1)
		}
		o.set(0, o.call("Range", nil, o.reshape(o.in[0]), o.reshape(o.in[1]), o.reshape(delta)))
	}},
	{name: "ReduceSumInteger", schema: "in data:T1\nout reduced:T2\nat axes:ints! keepdims:int!\nty T1=int8,uint8 T2=int32,uint32", expand: func(o *op) {
		to := tensor.Int32
		if o.dtype(o.in[0]) == tensor.Uint8 {
			to = tensor.Uint32
		}
		axes, _ := o.n.Ints("axes")
		o.set(0, o.call("ReduceSum", attrs(graph.IntAttr("keepdims", o.n.Int("keepdims", 1))), o.cast(o.in[0], to), o.ints(axes...)))
	}},
	{name: "SampleOp", schema: "in X:T\nout Y:T\nty T=double,float,float16,int32,int64,uint32,uint64", expand: func(o *op) { o.set(0, o.in[0]) }},
	{name: "Trilu", schema: "in X:T k?:tensor(int64)\nout Y:T\nat upper:int=1\nty T=" + trilTypes, expand: func(o *op) {
		k := o.input(1)
		if k != nil {
			k = o.reshape(k)
		}
		o.set(0, o.call("Trilu", o.attrsWithout(), o.in[0], k))
	}},
	{name: "Unique", schema: "in x:T\nout y:T idx:tensor(int64) counts:tensor(int64)\nty T=" + allTypes, expand: func(o *op) {
		r := o.calls("Unique", 4, attrs(graph.IntAttr("sorted", 0)), o.in[0])
		o.set(0, r[0])
		o.set(1, r[2])
		o.set(2, r[3])
	}},
	{name: "UnfoldTensor", schema: "in input:T\nout output:T\nat dim:int=-1 size:int! step:int=1\nty T=bfloat16," + allTypes, expand: unfold},
	{name: "TorchEmbedding", schema: "in weight:T indices:tensor(int64) padding_idx?:tensor(int64) scale_grad_by_freq?:tensor(bool)\nout Y:T\nty T=" +
		"bfloat16,double,float,float16,int16,int32,int64,int8,uint16,uint32,uint64,uint8",
		expand: func(o *op) { o.set(0, o.call("Gather", nil, o.in[0], o.in[1])) }},
}

// centred returns integers less their zero point, in 32 bits.
func (o *op) centred(x, zero *graph.Value) *graph.Value {
	x = o.cast(x, tensor.Int32)
	if zero == nil {
		return x
	}
	return o.call("Sub", nil, x, o.cast(zero, tensor.Int32))
}

func isAllFinite(o *op) {
	var bad *graph.Value
	inf, nan := o.flag("isinf_only"), o.flag("isnan_only")
	o.require(!inf || !nan, ErrAttribute, "isinf_only and isnan_only exclude each other")
	or := func(v *graph.Value) {
		if bad != nil {
			v = o.call("Max", nil, bad, v)
		}
		bad = v
	}
	for _, x := range o.in {
		if !inf {
			or(o.call("ReduceMax", attrs(graph.IntAttr("keepdims", 0)), o.cast(o.call("IsNaN", nil, x), tensor.Int32)))
		}
		if !nan {
			or(o.call("ReduceMax", attrs(graph.IntAttr("keepdims", 0)), o.cast(o.call("IsInf", nil, o.cast(x, tensor.Float32)), tensor.Int32)))
		}
	}
	o.require(bad != nil, ErrShape, "it has no inputs")
	o.set(0, o.call("Not", nil, o.cast(bad, tensor.Bool)))
}

// unfold makes windows over an axis; what stands in a window becomes the last axis.
func unfold(o *op) {
	x := o.in[0]
	rank := o.rank(x)
	axis, err := graph.NormAxis(o.n.Int("dim", -1), rank)
	if err != nil {
		o.fail(ErrAttribute, "%v", err)
	}
	length, size, step := o.static(x, axis), o.n.Int("size", 0), o.n.Int("step", 1)
	o.require(size > 0 && step > 0 && size <= int64(length), ErrAttribute, "windows of %d every %d of %d", size, step, length)
	count := (int64(length)-size)/step + 1
	o.require(count <= maxTable/size, ErrUnsupported, "%d windows of %d elements", count, size)
	places := make([]int64, 0, count*size)
	for i := range count {
		for j := range size {
			places = append(places, i*step+j)
		}
	}
	y := o.call("Gather", attrs(graph.IntAttr("axis", int64(axis))), x, o.constant(tensor.From(places, int(count), int(size))))
	perm := make([]int64, 0, rank+1)
	for i := range rank + 1 {
		if i != axis+1 {
			perm = append(perm, int64(i))
		}
	}
	o.set(0, o.transpose(y, append(perm, int64(axis+1))...))
}

// maxTable bounds the elements of constants that expansions make beside the model's own.
const maxTable = 1 << 24
