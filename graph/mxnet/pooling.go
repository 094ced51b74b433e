package mxnet

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

func poolingOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(pooling), "Pooling", "Pooling_v1", "_npx_pooling")
	named(table, single(adaptiveAverage), "_contrib_AdaptiveAvgPooling2D")
	return table
}

// pool is a pooling whose attributes were read.
type pool struct {
	kind           string // max, avg, sum
	kernel         []int
	stride         []int
	begin, end     []int // padding
	ceil, countPad bool
	old            bool // Pooling_v1: zeros stand in the padding for max too, and a mean is always by the whole window
}

func pooling(o *op) *graph.Value {
	o.inputs(1, 1)
	return o.pool(o.input(0))
}

// pool reads the attributes of a pooling and applies it.
func (o *op) pool(x *graph.Value) *graph.Value {
	kind := o.text("pool_type", "max", "max", "avg", "sum", "lp")
	global := o.flag("global_pool", false)
	convention := o.text("pooling_convention", "valid", "valid", "full", "same")
	o.ignore("cudnn_off", "workspace", "output_size") // of which the last one is for _contrib_AdaptiveAvgPooling2D
	p := pool{kind: kind, countPad: o.flag("count_include_pad", true)}
	power := o.integer("p_value", 2)
	axes := 0
	if list, ok := o.list("kernel"); ok && len(list) > 0 {
		p.kernel = o.kernel()
		axes = len(p.kernel)
	} else {
		o.require(global, "kernel is missing")
		axes = o.rank(x) - 2
		o.require(axes >= 1 && axes <= 3, "rank %d", o.rank(x))
	}
	last := o.channelsLast(axes)
	p.stride, p.begin = o.tuple("stride", axes, 1, 1), o.tuple("pad", axes, 0, 0)
	p.old = o.kind == "Pooling_v1"
	if last {
		x = o.toFirst(x)
	}
	var y *graph.Value
	switch {
	case kind == "lp":
		y = o.powerPool(x, p, power, global, convention)
	case global:
		y = o.globalPool(x, kind, axes)
	default:
		y = o.windowPool(x, p, convention)
	}
	if last {
		y = o.toLast(y)
	}
	return y
}

func (o *op) globalPool(x *graph.Value, kind string, axes int) *graph.Value {
	switch kind {
	case "max":
		return o.call("GlobalMaxPool", nil, x)
	case "avg":
		return o.call("GlobalAveragePool", nil, x)
	}
	over := make([]int, axes)
	for i := range over {
		over[i] = i + 2
	}
	return o.reduce("ReduceSum", x, true, over...)
}

// powerPool is the p-th root of the sum of p-th powers. MXNet keeps the sign of cubes.
func (o *op) powerPool(x *graph.Value, p pool, power int, global bool, convention string) *graph.Value {
	switch power {
	case 1:
	case 2:
		x = o.call("Mul", nil, x, x)
	case 3:
		x = o.call("Mul", nil, o.call("Mul", nil, x, x), x)
	default:
		o.fail(ErrAttribute, "p_value: 1, 2 or 3 is expected, found %d", power)
	}
	p.kind = "sum"
	var y *graph.Value
	if global {
		y = o.globalPool(x, "sum", len(p.stride))
	} else {
		y = o.windowPool(x, p, convention)
	}
	switch power {
	case 2:
		return o.call("Sqrt", nil, y)
	case 3:
		return cubeRoot(o, y)
	}
	return y
}

// windowPool pools windows. "full" rounds the size of the result up: where ONNX's ceil_mode means the same for all sizes, since
// no window begins in the padding behind the image, it says so; elsewhere the padding is written out.
func (o *op) windowPool(x *graph.Value, p pool, convention string) *graph.Value {
	o.require(convention != "same", "pooling_convention same is not supported")
	p.end = slices.Clone(p.begin)
	if p.old && p.kind == "avg" {
		n := 1
		for _, k := range p.kernel {
			n *= k
		}
		p.kind = "sum"
		return o.times(o.windowPool(x, p, convention), 1/float64(n))
	}
	if p.kind != "max" && p.countPad && slices.Max(p.begin) > 0 || p.kind == "sum" || p.old {
		// What lies in the padding counts: zeros that are there, while what rounding adds does not count.
		if slices.Max(p.begin) > 0 {
			zeros := make([]int64, 4+2*len(p.begin))
			for i, n := range p.begin {
				zeros[2+i], zeros[4+len(p.begin)+i] = int64(n), int64(n)
			}
			x = o.call("Pad", nil, x, o.ints(zeros...), o.like(x, 0))
			p.begin = make([]int, len(p.begin))
			p.end = make([]int, len(p.begin))
		}
		p.countPad = false
	}
	hollow := false // windows may lie in the padding alone
	if convention == "full" {
		simple := p.kind != "sum"
		for i, k := range p.kernel {
			simple = simple && p.begin[i]+p.stride[i] <= k
		}
		if simple {
			p.ceil = true
		} else {
			hollow = p.kind == "max"
			for i, k := range p.kernel {
				size := o.static(x, i+2) + p.begin[i] + p.end[i]
				out := 1 + (size-k+p.stride[i]-1)/p.stride[i]
				p.end[i] += max((out-1)*p.stride[i]+k-size, 0)
			}
		}
	}
	x = o.wide(x, &p)
	as := attrs(intsAttr("kernel_shape", p.kernel), intsAttr("strides", p.stride),
		intsAttr("pads", append(slices.Clone(p.begin), p.end...)), flagAttr("ceil_mode", p.ceil))
	switch p.kind {
	case "max":
		y := o.call("MaxPool", as, x)
		if hollow && o.typeOf(x) == tensor.Float32 { // of nothing MXNet says the least number
			y = o.call("Max", nil, y, o.like(x, -math.MaxFloat32))
		}
		return y
	case "sum":
		n := 1
		for _, k := range p.kernel {
			n *= k
		}
		return o.times(o.call("AveragePool", append(as, graph.IntAttr("count_include_pad", 1)), x), float64(n))
	}
	return o.call("AveragePool", append(as, flagAttr("count_include_pad", p.countPad)), x)
}

// wide writes padding at the end that is as wide as the window or wider in a node of its own, where the padding's value is known: ONNX
// Runtime takes no such pooling.
func (o *op) wide(x *graph.Value, p *pool) *graph.Value {
	v, n := 0.0, len(p.kernel)
	switch dt := o.typeOf(x); {
	case p.kind == "max" && dt == tensor.Float32:
		v = -math.MaxFloat32
	case p.kind != "sum":
		return x
	}
	pads, found := make([]int64, 4+2*n), false
	for i, k := range p.kernel {
		if p.end[i] >= k {
			pads[4+n+i], found = int64(p.end[i]), true
			p.end[i] = 0
		}
	}
	if !found {
		return x
	}
	return o.call("Pad", nil, x, o.ints(pads...), o.like(x, v))
}

// adaptiveAverage averages cells of a grid over the image: row i of the result is the mean of rows [i·H/h, ceil((i+1)·H/h)).
func adaptiveAverage(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	size, _ := o.list("output_size")
	o.ignore("kernel", "pool_type", "global_pool", "cudnn_off", "pooling_convention", "stride", "pad", "p_value", "count_include_pad")
	o.text("layout", "NCHW", "NCHW")
	switch len(size) {
	case 0:
		size = []int{1, 1}
	case 1:
		size = []int{size[0], size[0]}
	}
	o.require(len(size) == 2 && size[0] > 0 && size[1] > 0 && size[0] <= 1<<12 && size[1] <= 1<<12, "output_size %v", size)
	o.require(o.rank(x) == 4, "rank %d", o.rank(x))
	if size[0] == 1 && size[1] == 1 {
		return o.call("GlobalAveragePool", nil, x)
	}
	mean := func(n, out int) []float64 { // [out, n]
		o.made(8 * n * out)
		m := make([]float64, out*n)
		for i := range out {
			lo, hi := i*n/out, ((i+1)*n+out-1)/out
			for k := lo; k < hi; k++ {
				m[i*n+k] = 1 / float64(hi-lo)
			}
		}
		return m
	}
	h, w := o.static(x, 2), o.static(x, 3)
	y := o.call("MatMul", nil, o.values(o.typeOf(x), mean(h, size[0]), size[0], h), x)
	return o.call("MatMul", nil, y, o.transpose(o.values(o.typeOf(x), mean(w, size[1]), size[1], w), 1, 0))
}
