package microsoft

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

const skipNormText = "bias?:T\nout output:T mean?:U inv_std_var?:U input_skip_bias_sum?:T\nat epsilon:float=1e-12\nty T=bfloat16,float,float16 U=float"

var normOperators = []operator{
	{name: "SkipLayerNormalization", schema: "in input:T skip:T gamma:T beta?:T " + skipNormText, expand: func(o *op) {
		x := o.withBias(o.sum(o.in[0], o.in[1]), o.input(4))
		o.set(3, x)
		o.layerNorm(x, o.in[2], o.input(3), -1, 1e-12)
	}},
	{name: "SkipSimplifiedLayerNormalization", schema: "in input:T skip:T gamma:T " + skipNormText, expand: func(o *op) {
		x := o.withBias(o.sum(o.in[0], o.in[1]), o.input(3))
		o.set(3, x)
		o.set(0, o.rmsNorm(x, o.in[2], -1, 1e-12))
		o.refuse(o.wants(1), "the mean of a normalisation without one")
		if o.wants(2) {
			o.set(2, o.inverseRMS(x, -1, 1e-12))
		}
	}},
	{name: "EmbedLayerNormalization", schema: "in input_ids:T1 segment_ids?:T1 word_embedding:T position_embedding:T segment_embedding?:T gamma:T beta:T " +
		"mask?:T1 position_ids?:T1\nout output:T mask_index?:T1 embedding_sum?:T\nat epsilon:float=1e-12 mask_index_type:int\nty T1=int32 T=float,float16",
		expand: func(o *op) {
			o.embedding([3]*graph.Value{o.in[2], o.in[3], o.input(4)}, o.input(8), o.input(7), o.in[5], o.in[6])
		}},
	{name: "QEmbedLayerNormalization", schema: "in input_ids:T1 segment_ids?:T1 word_embedding_quant:T2 position_embedding_quant:T2 " +
		"segment_embedding?:T2 gamma_quant:T2 beta_quant:T2 mask?:T1 word_embedding_scale:T position_embedding_scale:T segment_embedding_scale?:T " +
		"gamma_scale:T beta_scale:T word_embedding_zero_point:T2 position_embedding_zero_point:T2 segment_embedding_zero_point?:T2 " +
		"gamma_zero_point:T2 beta_zero_point:T2\nout layernorm_out:T mask_index_out:T1\nat epsilon:float=1e-12\nty T1=int32 T2=int8,uint8 T=float",
		expand: func(o *op) {
			var real [5]*graph.Value
			for i := range real {
				if o.has(2 + i) {
					real[i] = o.dequantize(o.in[2+i], o.in[8+i], o.input(13+i))
				}
			}
			o.embedding([3]*graph.Value{real[0], real[1], real[2]}, nil, o.input(7), real[3], real[4])
		}},
	{name: "GroupNorm", schema: "in X:T gamma:M beta:M\nout Y:T\nat activation:int! channels_last:int=1 epsilon:float=1e-05 groups:int!\nty T=float,float16 M=float,float16",
		expand: func(o *op) { o.set(0, o.groupNorm(o.in[0])) }},
	{name: "SkipGroupNorm", schema: "in X:T gamma:M beta:M skip:T bias?:T\nout Y:T S?:T\nat activation:int! channels_last:int=1 epsilon:float=1e-05 groups:int!\nty T=float,float16 M=float,float16",
		expand: func(o *op) {
			skip := o.in[3]
			if o.n.Int("channels_last", 1) != 0 && o.rank(skip) == 2 {
				skip = o.unsqueeze(skip, 1, 2)
			}
			x := o.withBias(o.sum(o.in[0], skip), o.input(4))
			o.set(1, x)
			o.set(0, o.groupNorm(x))
		}},
	{name: "GatedRMSNorm", schema: "in X:T scale:T gate:T\nout Y:T\nat activation:string=silu epsilon:float=1e-05\nty T=bfloat16,float,float16", expand: func(o *op) {
		gate := o.in[2]
		switch a := o.n.Str("activation", "silu"); a {
		case "silu", "swish":
			gate = o.swish(gate, 1)
		case "sigmoid":
			gate = o.call("Sigmoid", nil, gate)
		default:
			o.fail(ErrAttribute, "activation %q", a)
		}
		o.set(0, o.times(o.rmsNorm(o.in[0], o.in[1], -1, 1e-5), gate))
	}},
}

// oldOperators are those that ONNX Runtime has in the default domain since version 1.
var oldOperators = []operator{
	{name: "LayerNormalization", schema: "in X:T Scale:V B?:V\nout Y:V Mean?:U InvStdDev?:U\nat axis:int=-1 epsilon:float=1e-05 stash_type:int=1\nty T=" + floatTypes + " U=double,float V=" + floatTypes,
		expand: func(o *op) {
			o.layerNorm(o.cast(o.in[0], o.dtype(o.in[1])), o.in[1], o.input(2), o.n.Int("axis", -1), 1e-5)
		}},
	{name: "SimplifiedLayerNormalization", schema: "in X:T scale:V\nout Y:V inv_std_var?:U\nat axis:int=-1 epsilon:float=1e-05 stash_type:int=1\nty T=" + floatTypes + " U=double,float V=" + floatTypes,
		expand: func(o *op) {
			axis := o.n.Int("axis", -1)
			x := o.cast(o.in[0], o.dtype(o.in[1]))
			o.set(0, o.rmsNorm(x, o.in[1], axis, 1e-5))
			if o.wants(1) {
				o.set(1, o.inverseRMS(x, axis, 1e-5))
			}
		}},
}

// layerNorm sets results 0 to 2 to those of LayerNormalization.
func (o *op) layerNorm(x, gamma, beta *graph.Value, axis int64, epsilon float32) {
	results := 1
	if o.wants(1) || o.wants(2) {
		results = 3
	}
	as := attrs(graph.IntAttr("axis", axis), graph.FloatAttr("epsilon", o.n.Float("epsilon", epsilon)))
	if o.n.Attrs.Lookup("stash_type") != nil {
		as = append(as, graph.IntAttr("stash_type", o.n.Int("stash_type", 1)))
	}
	gamma, beta, scale, shift := o.rowScales(x, gamma, beta, axis)
	list := slices.Clone(o.calls("LayerNormalization", results, as, x, gamma, beta))
	if scale != nil {
		list[0] = o.times(list[0], scale)
	}
	if shift != nil {
		list[0] = o.sum(list[0], shift)
	}
	for i, v := range list {
		o.set(i, v)
	}
}

func (o *op) rmsNorm(x, gamma *graph.Value, axis int64, epsilon float32) *graph.Value {
	as := attrs(graph.IntAttr("axis", axis), graph.FloatAttr("epsilon", o.n.Float("epsilon", epsilon)))
	if o.n.Is("RMSNormalization") && o.n.Attrs.Lookup("stash_type") != nil {
		as = append(as, graph.IntAttr("stash_type", o.n.Int("stash_type", 1)))
	}
	gamma, _, scale, _ := o.rowScales(x, gamma, nil, axis)
	y := o.call("RMSNormalization", as, x, gamma)
	if scale != nil {
		y = o.times(y, scale)
	}
	return y
}

// broadcastsRows reports whether a scale or bias of a normalisation of rows of some shape is spread over them: it is not of their shape, and
// no run makes it so, unless rows are of one element along an axis whose size is open.
func broadcastsRows(v *graph.Value, row graph.Shape) bool {
	return v != nil && v.Type.Shape != nil && row != nil && !slices.EqualFunc(v.Type.Shape, row, func(a, b graph.Dim) bool {
		_, known := a.Const()
		_, both := b.Const()
		return a.Equal(b) || !known || !both && !a.Is(1)
	})
}

// SpreadsScale reports whether a LayerNormalization or RMSNormalization spreads its scale, or its bias, over rows, or over all of them.
func SpreadsScale(n *graph.Node) bool {
	row := rowShape(n.Inputs[0], n.Int("axis", -1))
	return broadcastsRows(n.Inputs[1], row) || broadcastsRows(n.Input(2), row)
}

// rowShape returns the shape of the rows of x, nil where it is not known.
func rowShape(x *graph.Value, axis int64) graph.Shape {
	s := x.Type.Shape
	first, err := graph.NormAxis(axis, len(s))
	if s == nil || err != nil {
		return nil
	}
	return s[first:]
}

// rowScales returns scale and bias of a normalisation of rows of x that have the shape of a row. Those that are the same for all rows are spread; where they
// differ from row to row the normalisation has ones, and what to multiply by and to add behind it is returned.
func (o *op) rowScales(x, gamma, beta *graph.Value, axis int64) (rowGamma, rowBeta, scale, shift *graph.Value) {
	row := rowShape(x, axis)
	if !broadcastsRows(gamma, row) && !broadcastsRows(beta, row) {
		return gamma, beta, nil, nil
	}
	var dims []*graph.Value
	for i := range row {
		dims = append(dims, o.dim(x, o.rank(x)-len(row)+i))
	}
	shape := o.concat(0, dims...)
	ofRow := func(v *graph.Value) *graph.Value { // nil where it is another in other rows
		if v == nil || !broadcastsRows(v, row) {
			return v
		}
		more := len(v.Type.Shape) - len(row)
		for _, d := range v.Type.Shape[:max(more, 0)] {
			if !d.Is(1) {
				return nil
			}
		}
		if more > 0 {
			axes := make([]int64, more)
			for i := range axes {
				axes[i] = int64(i)
			}
			v = o.call("Squeeze", nil, v, o.ints(axes...))
		}
		return o.call("Expand", nil, v, shape)
	}
	rowGamma, rowBeta = ofRow(gamma), ofRow(beta)
	if rowGamma == nil || beta != nil && rowBeta == nil {
		ones := o.call("Expand", nil, o.like(gamma, 1), shape)
		return ones, nil, gamma, beta
	}
	return rowGamma, rowBeta, nil, nil
}

// inverseRMS returns 1/√(mean(x²)+ε) over the axes from axis on, as float32.
func (o *op) inverseRMS(x *graph.Value, axis int64, epsilon float32) *graph.Value {
	rank := o.rank(x)
	first, err := graph.NormAxis(axis, rank)
	if err != nil {
		o.fail(ErrAttribute, "%v", err)
	}
	var axes []int64
	for i := first; i < rank; i++ {
		axes = append(axes, int64(i))
	}
	x = o.cast(x, tensor.Float32)
	mean := o.call("ReduceMean", attrs(graph.IntAttr("keepdims", 1)), o.times(x, x), o.ints(axes...))
	return o.call("Reciprocal", nil, o.call("Sqrt", nil, o.sum(mean, o.like(mean, float64(o.n.Float("epsilon", epsilon))))))
}

// embedding sums rows of the tables of words, positions and segments, and normalises the sum; and counts the tokens that the mask
// leaves in each row.
func (o *op) embedding(tables [3]*graph.Value, positions, mask, gamma, beta *graph.Value) {
	ids := o.in[0]
	o.ranked(ids, 2)
	x := o.call("Gather", nil, tables[0], ids)
	if positions == nil {
		positions = o.positions(o.ints(0), o.dim(ids, 1))
	}
	x = o.sum(x, o.call("Gather", nil, tables[1], positions))
	if o.has(1) && tables[2] != nil {
		x = o.sum(x, o.call("Gather", nil, tables[2], o.in[1]))
	}
	out := o.call("LayerNormalization", attrs(graph.IntAttr("axis", -1), graph.FloatAttr("epsilon", o.n.Float("epsilon", 1e-12))), x, gamma, beta)
	o.set(0, out)
	o.set(2, x)
	switch {
	case !o.wants(1):
	case mask == nil:
		o.set(1, o.call("Expand", nil, o.scalar(tensor.Int32, 0), o.dim(ids, 0)))
	default:
		o.set(1, o.call("ReduceSum", attrs(graph.IntAttr("keepdims", 0)), mask, o.ints(1)))
	}
}

// groupNorm normalises groups of channels, which are the last axis by default, and applies SiLU where that is asked for.
func (o *op) groupNorm(x *graph.Value) *graph.Value {
	last := o.n.Int("channels_last", 1) != 0
	if last {
		x = o.channelsFirst(x)
	}
	as := attrs(graph.IntAttr("num_groups", o.n.Int("groups", 1)), graph.FloatAttr("epsilon", o.n.Float("epsilon", 1e-5)))
	y := o.call("GroupNormalization", as, x, o.cast(o.in[1], o.dtype(x)), o.cast(o.in[2], o.dtype(x)))
	switch a := o.n.Int("activation", 0); a {
	case 0:
	case 1:
		y = o.swish(y, 1)
	default:
		o.fail(ErrAttribute, "activation %d", a)
	}
	if last {
		y = o.channelsLast(y)
	}
	return y
}
