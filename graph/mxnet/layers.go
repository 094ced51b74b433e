package mxnet

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// layerOperators are layers with weights, normalisations and activations.
func layerOperators() map[string]operator {
	table := map[string]operator{}
	named(table, single(activation), "Activation", "_npx_activation")
	named(table, operator{do: leakyRelu}, "LeakyReLU", "_npx_leaky_relu")
	named(table, single(fullyConnected), "FullyConnected", "_npx_fully_connected")
	named(table, single(convolution), "Convolution", "Convolution_v1", "_npx_convolution")
	named(table, single(deconvolution), "Deconvolution", "_npx_deconvolution")
	named(table, operator{do: batchNorm}, "BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "_contrib_SyncBatchNorm", "_npx_batch_norm")
	named(table, operator{do: func(o *op) []*graph.Value {
		out := batchNorm(o)
		out[0] = o.call("Relu", nil, out[0])
		return out
	}}, "_contrib_BatchNormWithReLU")
	named(table, operator{do: layerNorm}, "LayerNorm", "_npx_layer_norm")
	named(table, operator{do: groupNorm}, "GroupNorm", "_npx_group_norm")
	named(table, single(instanceNorm), "InstanceNorm", "_npx_instance_norm")
	named(table, single(l2Normalization), "L2Normalization")
	named(table, single(localResponse), "LRN")
	named(table, single(dropout), "Dropout", "_npx_dropout")
	named(table, single(func(o *op) *graph.Value { return softmaxLike(o, "Softmax", 1) }), "softmax", "_npx_softmax")
	named(table, single(func(o *op) *graph.Value { return softmaxLike(o, "LogSoftmax", 1) }), "log_softmax", "_npx_log_softmax")
	named(table, single(func(o *op) *graph.Value { return softmaxLike(o, "Softmax", -1) }), "softmin")
	named(table, single(softmaxActivation), "SoftmaxActivation")
	named(table, single(softmaxOutput), "SoftmaxOutput", "Softmax")
	named(table, single(func(o *op) *graph.Value {
		o.ignore("grad_scale", "margin", "regularization_coefficient", "use_linear")
		return o.input(0)
	}), "LinearRegressionOutput", "MAERegressionOutput", "SVMOutput")
	named(table, single(func(o *op) *graph.Value {
		o.ignore("grad_scale")
		return o.call("Sigmoid", nil, o.input(0))
	}), "LogisticRegressionOutput")
	named(table, single(embedding), "Embedding", "_npx_embedding", "_contrib_SparseEmbedding")
	return table
}

// activate applies an activation by MXNet's name.
func (o *op) activate(x *graph.Value, name string) *graph.Value {
	switch name {
	case "relu":
		return o.call("Relu", nil, x)
	case "sigmoid":
		return o.call("Sigmoid", nil, x)
	case "tanh":
		return o.call("Tanh", nil, x)
	case "softsign":
		return o.call("Softsign", nil, x)
	case "log_sigmoid":
		return o.call("Neg", nil, o.call("Softplus", nil, o.call("Neg", nil, x)))
	case "mish":
		return o.call("Mish", nil, x)
	}
	return o.call("Softplus", nil, x)
}

func activation(o *op) *graph.Value {
	o.inputs(1, 1)
	if _, ok := o.n.Attr("act_type"); !ok {
		o.fail(ErrAttribute, "act_type is missing")
	}
	return o.activate(o.input(0), o.text("act_type", "", "relu", "sigmoid", "tanh", "softrelu", "softsign", "log_sigmoid", "mish"))
}

// leakyRelu applies the activations with a slope. The second result, for rrelu, is a mask that is 0 in inference.
func leakyRelu(o *op) []*graph.Value {
	y := leaky(o)
	if kind, _ := o.n.Attr("act_type"); kind == "rrelu" {
		return []*graph.Value{y, o.fill(o.input(0), o.typeOf(o.input(0)), 0)}
	}
	return []*graph.Value{y}
}

func leaky(o *op) *graph.Value {
	kind := o.text("act_type", "leaky", "leaky", "elu", "selu", "gelu", "prelu", "rrelu", "gelu_erf", "gelu_tanh")
	slope := o.number("slope", 0.25)
	lo, hi := o.number("lower_bound", 0.125), o.number("upper_bound", 0.334)
	x := o.input(0)
	alpha := func(v float64) []graph.Attr { return attrs(graph.FloatAttr("alpha", float32(v))) }
	switch kind {
	case "prelu":
		o.inputs(2, 2)
		gamma := o.input(1)
		if s := gamma.Type.Shape; len(s) == 1 && !s[0].Is(1) {
			// A slope for each channel: behind it stand the other dims.
			axes := axesFrom(1, o.rank(x)-1)
			if len(axes) > 0 {
				gamma = o.unsqueeze(gamma, axes...)
			}
		}
		return o.call("PRelu", nil, x, gamma)
	case "elu":
		return o.call("Elu", alpha(slope), x)
	case "selu":
		return o.call("Selu", nil, x)
	case "gelu", "gelu_erf":
		return o.call("Gelu", nil, x)
	case "gelu_tanh":
		return o.call("Gelu", attrs(graph.StringAttr("approximate", "tanh")), x)
	case "rrelu": // the mean of the slopes in inference
		return o.call("LeakyRelu", alpha((lo+hi)/2), x)
	}
	return o.call("LeakyRelu", alpha(slope), x)
}

// biased returns operands data, weight and, without no_bias, bias.
func (o *op) biased(noBias bool) (x, w, b *graph.Value) {
	want := 3
	if o.flag("no_bias", noBias) {
		want = 2
	}
	o.inputs(want, want)
	if want == 3 {
		b = o.input(2)
	}
	return o.input(0), o.input(1), b
}

// fullyConnected is x·wᵀ + b with w [hidden, columns]; x is made a matrix first unless flatten is off.
func fullyConnected(o *op) *graph.Value {
	hidden := o.required("num_hidden")
	flatten := o.flag("flatten", true)
	x, w, b := o.biased(false)
	o.require(hidden > 0 && (w.Type.Shape == nil || len(w.Type.Shape) == 2 && w.Type.Shape[0].Is(int64(hidden))),
		"a weight of %d rows is expected, found %v", hidden, w.Type)
	if flatten {
		if len(x.Type.Shape) != 2 {
			x = o.call("Flatten", nil, x)
		}
		ins := []*graph.Value{x, w}
		if b != nil {
			ins = append(ins, b)
		}
		return o.call("Gemm", attrs(graph.IntAttr("transB", 1)), ins...)
	}
	y := o.call("MatMul", nil, x, o.transpose(w, 1, 0))
	if b != nil {
		y = o.call("Add", nil, y, b)
	}
	return y
}

// window reads kernel, stride, dilate and pad of a convolution over that many axes.
func (o *op) window(kernel []int) (stride, dilate, pad []int) {
	n := len(kernel)
	return o.tuple("stride", n, 1, 1), o.tuple("dilate", n, 1, 1), o.tuple("pad", n, 0, 0)
}

// kernel reads the attribute kernel, which has an entry for each of 1 to 3 axes.
func (o *op) kernel() []int {
	list, ok := o.list("kernel")
	if !ok {
		o.fail(ErrAttribute, "kernel is missing")
	}
	if len(list) < 1 || len(list) > 3 {
		o.fail(ErrAttribute, "kernel: from 1 to 3 numbers are expected, found %d", len(list))
	}
	return o.tuple("kernel", len(list), 1, 1)
}

// channelsLast reads the attribute layout, and reports whether channels stand behind the axes of the image.
func (o *op) channelsLast(axes int) bool {
	first := []string{"NCW", "NCHW", "NCDHW"}[axes-1]
	last := []string{"NWC", "NHWC", "NDHWC"}[axes-1]
	return o.text("layout", first, first, last) == last
}

// toFirst moves the channels of x behind the batch; toLast moves them back.
func (o *op) toFirst(x *graph.Value) *graph.Value {
	n := o.rank(x)
	perm := []int{0, n - 1}
	for i := 1; i < n-1; i++ {
		perm = append(perm, i)
	}
	return o.transpose(x, perm...)
}

func (o *op) toLast(x *graph.Value) *graph.Value {
	n := o.rank(x)
	perm := []int{0}
	for i := 2; i < n; i++ {
		perm = append(perm, i)
	}
	return o.transpose(x, append(perm, 1)...)
}

func convolution(o *op) *graph.Value {
	k := o.kernel()
	stride, dilate, pad := o.window(k)
	filters, groups := o.required("num_filter"), o.integer("num_group", 1)
	last := o.channelsLast(len(k))
	o.ignore("workspace", "cudnn_tune", "cudnn_off")
	x, w, b := o.biased(false)
	o.require(filters > 0 && groups > 0 && filters%groups == 0, "%d filters in %d groups", filters, groups)
	o.require(w.Type.Shape == nil || len(w.Type.Shape) == len(k)+2 && w.Type.Shape[0].Is(int64(filters)),
		"a weight of %d filters over %d axes is expected, found %v", filters, len(k), w.Type)
	if last {
		x, w = o.toFirst(x), o.toFirst(w)
	}
	ins := []*graph.Value{x, w}
	if b != nil {
		ins = append(ins, b)
	}
	y := o.call("Conv", attrs(intsAttr("kernel_shape", k), intsAttr("strides", stride), intsAttr("dilations", dilate),
		intsAttr("pads", append(append([]int{}, pad...), pad...)), graph.IntAttr("group", int64(groups))), ins...)
	if last {
		y = o.toLast(y)
	}
	return y
}

func deconvolution(o *op) *graph.Value {
	k := o.kernel()
	stride, dilate, pad := o.window(k)
	adj := o.tuple("adj", len(k), 0, 0)
	target := o.tuple("target_shape", len(k), 0, 0)
	filters, groups := o.required("num_filter"), o.integer("num_group", 1)
	last := o.channelsLast(len(k))
	o.ignore("workspace", "cudnn_tune", "cudnn_off")
	x, w, b := o.biased(true)
	o.require(filters > 0 && groups > 0 && filters%groups == 0, "%d filters in %d groups", filters, groups)
	if last {
		x, w = o.toFirst(x), o.toFirst(w)
	}
	bySize := false
	for _, t := range target {
		bySize = bySize || t != 0
	}
	if bySize { // padding follows from the size that is wanted
		for i := range k {
			full := stride[i]*(o.static(x, i+2)-1) + dilate[i]*(k[i]-1) + 1
			o.require(target[i] <= full, "target_shape %d of at most %d", target[i], full)
			cut := full - target[i]
			adj[i], pad[i] = cut%2, (cut+1)/2
		}
	}
	ins := []*graph.Value{x, w}
	if b != nil {
		ins = append(ins, b)
	}
	y := o.call("ConvTranspose", attrs(intsAttr("kernel_shape", k), intsAttr("strides", stride), intsAttr("dilations", dilate),
		intsAttr("pads", append(append([]int{}, pad...), pad...)), intsAttr("output_padding", adj), graph.IntAttr("group", int64(groups))), ins...)
	if last {
		y = o.toLast(y)
	}
	return y
}

// batchNorm normalises with the moving mean and variance. With fix_gamma, the default, the stored gamma says nothing.
func batchNorm(o *op) []*graph.Value {
	eps := o.number("eps", 1e-3)
	axis := o.integer("axis", 1)
	fixGamma := o.flag("fix_gamma", true)
	more := o.flag("output_mean_var", false)
	o.ignore("momentum", "use_global_stats", "cudnn_off", "min_calib_range", "max_calib_range", "ndev", "key")
	o.inputs(5, 5)
	x, gamma, beta, mean, variance := o.input(0), o.input(1), o.input(2), o.input(3), o.input(4)
	if fixGamma {
		switch n, ok := gamma.Type.Shape[:min(1, len(gamma.Type.Shape))].Static(); {
		case ok && len(n) == 1 && n[0] <= 1<<20:
			ones := make([]float64, n[0])
			for i := range ones {
				ones[i] = 1
			}
			gamma = o.values(o.typeOf(gamma), ones, n[0])
		default:
			gamma = o.fill(gamma, o.typeOf(gamma), 1)
		}
	}
	if axis != 1 {
		rank := o.rank(x)
		if axis = o.axisOf(axis, rank); axis != 1 {
			o.require(rank > 1, "rank %d", rank)
			x = o.swapped(x, 1, axis)
		}
	}
	y := o.call("BatchNormalization", attrs(graph.FloatAttr("epsilon", float32(eps))), x, gamma, beta, mean, variance)
	if axis != 1 {
		y = o.swapped(y, 1, axis)
	}
	if more {
		return []*graph.Value{y, mean, o.call("Reciprocal", nil, o.call("Sqrt", nil, o.plus(variance, eps)))}
	}
	return []*graph.Value{y, nil, nil}
}

func layerNorm(o *op) []*graph.Value {
	axis, eps := o.integer("axis", -1), o.number("eps", 1e-5)
	o.require(!o.flag("output_mean_var", false), "output_mean_var is for training")
	o.inputs(3, 3)
	x := o.input(0)
	a := []graph.Attr{graph.FloatAttr("epsilon", float32(eps)), graph.IntAttr("axis", -1)}
	if axis == -1 || x.Type.Shape != nil && o.axisOf(axis, o.rank(x)) == o.rank(x)-1 {
		return []*graph.Value{o.call("LayerNormalization", a, x, o.input(1), o.input(2)), nil, nil}
	}
	last := o.rank(x) - 1
	axis = o.axisOf(axis, last+1)
	y := o.call("LayerNormalization", a, o.swapped(x, axis, last), o.input(1), o.input(2))
	return []*graph.Value{o.swapped(y, axis, last), nil, nil}
}

// groupNorm normalises groups of channels. Gamma and beta have an entry for each channel, or, before 1.7, for each group.
func groupNorm(o *op) []*graph.Value {
	groups, eps := o.integer("num_groups", 1), o.number("eps", 1e-5)
	o.require(!o.flag("output_mean_var", false), "output_mean_var is for training")
	o.inputs(3, 3)
	x := o.input(0)
	channels := o.static(x, o.axisOf(1, o.rank(x)))
	o.require(groups > 0 && channels%groups == 0, "%d channels in %d groups", channels, groups)
	a := attrs(graph.FloatAttr("epsilon", float32(eps)), graph.IntAttr("num_groups", int64(groups)))
	each := func(v *graph.Value) *graph.Value {
		n := o.static(v, 0)
		if n == channels {
			return v
		}
		o.require(n == groups, "%d or %d elements are expected, found %v", channels, groups, v.Type)
		return o.reshape(o.call("Expand", nil, o.unsqueeze(v, 1), o.ints(int64(groups), int64(channels/groups))), fixed(channels))
	}
	return []*graph.Value{o.call("GroupNormalization", a, x, each(o.input(1)), each(o.input(2))), nil, nil}
}

func instanceNorm(o *op) *graph.Value {
	o.inputs(3, 3)
	return o.call("InstanceNormalization", attrs(graph.FloatAttr("epsilon", float32(o.number("eps", 1e-3)))), o.in...)
}

// l2Normalization divides by the root of the sum of squares over an instance, over the channels or over an image.
func l2Normalization(o *op) *graph.Value {
	o.inputs(1, 1)
	x := o.input(0)
	eps := o.number("eps", 1e-10)
	var axes []int
	switch o.text("mode", "instance", "instance", "channel", "spatial") {
	case "channel":
		axes = []int{1}
	case "spatial":
		axes = axesFrom(2, o.rank(x))
	default:
		axes = axesFrom(1, o.rank(x))
	}
	o.require(len(axes) > 0, "rank %d", o.rank(x))
	sum := o.reduce("ReduceSumSquare", x, true, axes...)
	return o.call("Div", nil, x, o.call("Sqrt", nil, o.plus(sum, eps)))
}

func localResponse(o *op) *graph.Value {
	o.inputs(1, 1)
	return o.call("LRN", attrs(graph.FloatAttr("alpha", float32(o.number("alpha", 1e-4))), graph.FloatAttr("beta", float32(o.number("beta", 0.75))),
		graph.FloatAttr("bias", float32(o.number("knorm", 2))), graph.IntAttr("size", int64(o.required("nsize")))), o.input(0))
}

func dropout(o *op) *graph.Value {
	o.inputs(1, 1)
	o.ignore("p", "axes", "cudnn_off")
	if o.text("mode", "training", "training", "always") == "always" {
		o.fail(ErrUnsupported, "its results are random in inference too")
	}
	return o.input(0)
}

// softmaxLike is softmax of sign·x/temperature. With use_length, each row counts its first elements only; the others are 0.
func softmaxLike(o *op, name string, sign float64) *graph.Value {
	axis := o.integer("axis", -1)
	temperature := o.number("temperature", 1)
	o.require(temperature != 0, "temperature is 0")
	dt := o.dtype("dtype", tensor.Invalid)
	x := o.input(0)
	if dt != tensor.Invalid {
		x = o.cast(x, dt)
	}
	if s := sign / temperature; s != 1 {
		x = o.times(x, s)
	}
	a := attrs(graph.IntAttr("axis", int64(axis)))
	if !o.flag("use_length", false) {
		o.inputs(1, 1)
		return o.call(name, a, x)
	}
	o.inputs(2, 2)
	o.require(name == "Softmax", "use_length of %s", name)
	rank := o.rank(x)
	axis = o.axisOf(axis, rank)
	pos := o.positions(o.dim(x, axis))
	shape := []extent{}
	for i := range rank {
		if shape = append(shape, fixed(1)); i == axis {
			shape[i] = rest
		}
	}
	mask := o.call("Less", nil, o.reshape(pos, shape...), o.unsqueeze(o.index(o.input(1)), axis))
	y := o.call(name, a, o.call("Where", nil, mask, x, o.like(x, -1e30)))
	return o.call("Where", nil, mask, y, o.like(x, 0))
}

func softmaxActivation(o *op) *graph.Value {
	o.inputs(1, 1)
	if o.text("mode", "instance", "instance", "channel") == "channel" {
		return o.call("Softmax", attrs(graph.IntAttr("axis", 1)), o.input(0))
	}
	return o.call("Softmax", attrs(graph.IntAttr("axis", -1)), o.input(0))
}

// flatSoftmax is softmax over all axes but the first.
func (o *op) flatSoftmax(x *graph.Value) *graph.Value {
	if o.rank(x) == 2 {
		return o.call("Softmax", attrs(graph.IntAttr("axis", -1)), x)
	}
	y := o.call("Softmax", attrs(graph.IntAttr("axis", -1)), o.call("Flatten", nil, x))
	return o.reshape(y, o.dims(x)...)
}

func softmaxOutput(o *op) *graph.Value {
	o.ignore("grad_scale", "ignore_label", "use_ignore", "normalization", "out_grad", "smooth_alpha")
	multi, preserve := o.flag("multi_output", false), o.flag("preserve_shape", false)
	switch x := o.input(0); {
	case multi:
		return o.call("Softmax", attrs(graph.IntAttr("axis", 1)), x)
	case preserve:
		return o.call("Softmax", attrs(graph.IntAttr("axis", -1)), x)
	default:
		return o.flatSoftmax(x)
	}
}

// embedding takes rows of the weight; numbers beyond it count as the last.
func embedding(o *op) *graph.Value {
	o.inputs(2, 2)
	rows := o.required("input_dim")
	o.required("output_dim")
	o.ignore("sparse_grad", "dtype", "deterministic")
	o.require(rows > 0, "input_dim is %d", rows)
	w := o.input(1)
	o.require(w.Type.Shape == nil || len(w.Type.Shape) == 2, "a weight of two dims is expected, found %v", w.Type)
	i := o.call("Clip", nil, o.index(o.input(0)), o.scalar(tensor.Int64, 0), o.scalar(tensor.Int64, float64(rows-1)))
	return o.call("Gather", attrs(graph.IntAttr("axis", 0)), w, i)
}
