package microsoft

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var attentionOperators = []operator{
	{name: "Attention", schema: "in input:T weights:T bias?:T mask_index?:M past?:T attention_bias?:T past_sequence_length?:M\nout output:T present?:T\n" +
		"at do_rotary:int mask_filter_value:float num_heads:int! past_present_share_buffer:int qkv_hidden_sizes:ints rotary_embedding_dim:int scale:float " +
		"unidirectional:int=0\nty T=bfloat16,float,float16 M=int32", expand: func(o *op) {
		o.refuse(o.has(6), "past and present in one buffer")
		qkv := o.withBias(o.call("MatMul", nil, o.in[0], o.in[1]), o.input(2))
		o.selfAttention(qkv, o.input(3), o.input(4), o.input(5))
	}},
	{name: "QAttention", schema: "in input:T1 weight:T2 bias:T3 input_scale:T3 weight_scale:T3 mask_index?:T4 input_zero_point?:T1 weight_zero_point?:T2 past?:T3\n" +
		"out output:T3 present?:T3\nat do_rotary:int mask_filter_value:float num_heads:int! past_present_share_buffer:int scale:float unidirectional:int=0\n" +
		"ty T1=int8,uint8 T2=int8,uint8 T3=float,float16 T4=int32", expand: func(o *op) {
		qkv := o.scaledProduct(o.in[0], o.in[1], o.in[3], o.in[4], o.input(6), o.input(7), o.in[2])
		o.selfAttention(qkv, o.input(5), o.input(8), nil)
	}},
	{name: "MultiHeadAttention", schema: "in query:T key?:T value?:T bias?:T key_padding_mask?:M attention_bias?:T past_key?:T past_value?:T " +
		"past_sequence_length?:M cache_indirection?:M\nout output:T present_key?:T present_value?:T qk?:QK\nat mask_filter_value:float num_heads:int! " +
		"scale:float unidirectional:int=0\nty T=bfloat16,float,float16 QK=bfloat16,float,float16 M=int32", expand: multiHead},
	{name: "DecoderMaskedMultiHeadAttention", schema: "in query:T key?:T value?:T mask_index?:M attention_bias?:T past_key?:T past_value?:T " +
		"past_sequence_length?:M beam_width?:M cache_indirection?:M bias?:T\nout output:T present_key?:T present_value?:T qk?:QK\nat mask_filter_value:float " +
		"num_heads:int! output_qk:int past_present_share_buffer:int scale:float\nty T=float,float16 QK=float,float16 M=int32", expand: decoderHeads},
}

// attention is one attention between matrices [batch, heads, length, size].
type attention struct {
	q, k, v  *graph.Value
	pastK    *graph.Value // keys and values in front of k and v, nil for none
	pastV    *graph.Value
	mask     *graph.Value // of integers, in one of the forms of ONNX Runtime; nil for none
	bias     *graph.Value // added to the scores; nil for none
	causal   bool
	k1, v1   *graph.Value // past and present in one, after attend
	score, p *graph.Value // scaled scores with mask and bias, and their softmax, after attend
}

// split makes heads of x [batch, length, heads·size]: [batch, heads, length, size]. The size is a number where it is known, so that an empty
// batch has it too.
func (o *op) split(x *graph.Value, heads int64) *graph.Value {
	o.ranked(x, 3)
	size := int64(-1)
	if n, ok := o.shape(x)[2].Const(); ok && heads > 0 && n%heads == 0 {
		size = n / heads
	}
	return o.transpose(o.reshape(x, 0, 0, heads, size), 0, 2, 1, 3)
}

// merge is the inverse of split.
func (o *op) merge(x *graph.Value) *graph.Value {
	s := o.shape(x)
	y := o.transpose(x, 0, 2, 1, 3)
	if n, ok := s[1].Mul(s[3]).Const(); ok {
		return o.reshape(y, 0, 0, n)
	}
	return o.reshape(y, 0, 0, -1)
}

func (o *op) heads() int64 {
	n := o.n.Int("num_heads", 0)
	o.require(n > 0 && n <= 1<<16, ErrAttribute, "%d heads", n)
	return n
}

// selfAttention is attention within a sequence, whose queries, keys and values are the parts of qkv [batch, length, 3·heads·size].
func (o *op) selfAttention(qkv, mask, past, bias *graph.Value) {
	o.refuse(o.flag("do_rotary"), "rotary embedding within attention")
	o.refuse(o.flag("past_present_share_buffer"), "past and present in one buffer")
	heads := o.heads()
	o.ranked(qkv, 3)
	sizes, ok := o.n.Ints("qkv_hidden_sizes")
	if !ok || len(sizes) == 0 {
		h := int64(o.static(qkv, 2))
		o.require(h%3 == 0, ErrShape, "%d columns for queries, keys and values", h)
		sizes = []int64{h / 3, h / 3, h / 3}
	}
	o.require(len(sizes) == 3, ErrAttribute, "%d hidden sizes", len(sizes))
	for _, n := range sizes {
		o.require(n > 0 && n%heads == 0, ErrAttribute, "a hidden size of %d for %d heads", n, heads)
	}
	parts := o.calls("Split", 3, attrs(graph.IntAttr("axis", 2)), qkv, o.ints(sizes...))
	a := &attention{q: o.split(parts[0], heads), k: o.split(parts[1], heads), v: o.split(parts[2], heads), mask: mask, bias: bias, causal: o.flag("unidirectional")}
	if past != nil {
		o.ranked(past, 5)
		a.pastK, a.pastV = o.call("Gather", nil, past, o.int(0)), o.call("Gather", nil, past, o.int(1))
	}
	y := o.attend(a)
	o.set(0, o.merge(y))
	if o.wants(1) {
		o.set(1, o.concat(0, o.unsqueeze(a.k1, 0), o.unsqueeze(a.v1, 0)))
	}
}

// attend computes softmax(q·kᵀ·scale + bias)·v.
func (o *op) attend(a *attention) *graph.Value {
	past := o.ints(0)
	a.k1, a.v1 = a.k, a.v
	if a.pastK != nil {
		past = o.dim(a.pastK, 2)
		a.k1, a.v1 = o.concat(2, a.pastK, a.k), o.concat(2, a.pastV, a.v)
	}
	scale := float64(o.n.Float("scale", 0))
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(o.static(a.q, 3)))
	}
	s := o.scaled(o.call("MatMul", nil, a.q, o.turned(a.k1)), scale)
	if a.bias != nil {
		s = o.sum(s, a.bias)
	}
	if a.mask != nil {
		s = o.sum(s, o.maskBias(a, past))
	}
	if a.causal {
		s = o.sum(s, o.causalBias(a, past))
	}
	a.score = s
	a.p = o.call("Softmax", attrs(graph.IntAttr("axis", -1)), s)
	return o.call("MatMul", nil, a.p, a.v1)
}

// choose returns 0 where allowed holds, else low, in the type of the scores.
func (o *op) choose(allowed, like *graph.Value, low float64) *graph.Value {
	return o.call("Where", nil, allowed, o.like(like, 0), o.like(like, low))
}

// causalBias forbids keys behind a query; past keys stand in front of the first.
func (o *op) causalBias(a *attention, past *graph.Value) *graph.Value {
	rows := o.unsqueeze(o.positions(past, o.call("Add", nil, past, o.dim(a.q, 2))), 1)
	columns := o.positions(o.ints(0), o.dim(a.k1, 2))
	return o.choose(o.call("LessOrEqual", nil, columns, rows), a.q, lowest(o.dtype(a.q)))
}

// lowest is the least finite number of a type.
func lowest(dt tensor.DType) float64 {
	switch dt {
	case tensor.Float16:
		return -65504
	case tensor.BFloat16:
		return -0x1.fep127
	}
	return -math.MaxFloat32
}

// maskBias makes a bias of a mask of integers: lengths [batch], ends and starts [2·batch], or what keys may be seen, in rank 2
// [batch, keys], 3 [batch, queries, keys], or 4 [batch, 1, most, most].
func (o *op) maskBias(a *attention, past *graph.Value) *graph.Value {
	m := a.mask
	low := float64(o.n.Float("mask_filter_value", -10000))
	positive := func(m *graph.Value) *graph.Value { return o.choose(o.call("Greater", nil, m, o.like(m, 0)), a.q, low) }
	switch o.rank(m) {
	case 1:
		return o.choose(o.withinLengths(a, m), a.q, low)
	case 2:
		return positive(o.unsqueeze(m, 1, 2))
	case 3:
		return positive(o.unsqueeze(m, 1))
	case 4:
		total := o.dim(a.k1, 2)
		m = o.sliceTo(o.sliceTo(m, 2, past, total), 3, o.ints(0), total)
		return positive(m)
	}
	o.fail(ErrShape, "a mask of rank %d", o.rank(m))
	return nil
}

// withinLengths reports which keys lie within the lengths of their rows [batch, 1, 1, keys]. Where a mask of starts behind the ends is
// not known to be there, zeros stand behind it.
func (o *op) withinLengths(a *attention, m *graph.Value) *graph.Value {
	columns := o.cast(o.positions(o.ints(0), o.dim(a.k1, 2)), o.dtype(m))
	batch, n := o.shape(a.q)[0], o.shape(m)[0]
	if n.Equal(batch) {
		return o.call("Less", nil, columns, o.unsqueeze(m, 1, 2, 3))
	}
	if size, ok := n.Const(); ok {
		b, known := batch.Const()
		o.require(!known || size == b || size == 2*b, ErrUnsupported, "a mask of %d elements for a batch of %d", size, b)
	}
	count := o.dim(a.q, 0)
	if !n.Equal(batch.Scale(2)) {
		m = o.concat(0, m, o.call("Expand", nil, o.like(m, 0), count))
	}
	one := o.concat(0, count, o.ints(1, 1, 1)) // which says that there is a number for each row, and fails where there is none
	ends := o.call("Reshape", nil, o.sliceTo(m, 0, o.ints(0), count), one)
	starts := o.call("Reshape", nil, o.sliceTo(m, 0, count, o.sum(count, count)), one)
	return o.call("And", nil, o.call("Less", nil, columns, ends), o.call("GreaterOrEqual", nil, columns, starts))
}

// multiHead is attention whose queries, keys and values are given: apart, or packed as [batch, length, heads, 3, size], or keys and
// values as [batch, length, heads, 2, size].
func multiHead(o *op) {
	o.refuse(o.has(8) && o.has(6), "past and present in one buffer")
	o.refuse(o.has(9), "cache_indirection")
	a := o.parts(o.input(3))
	a.mask, a.bias, a.pastK, a.pastV, a.causal = o.input(4), o.input(5), o.input(6), o.input(7), o.flag("unidirectional")
	o.require((a.pastK == nil) == (a.pastV == nil), ErrUnsupported, "one of past_key and past_value alone")
	o.set(0, o.merge(o.attend(a)))
	o.set(1, a.k1)
	o.set(2, a.v1)
	o.set(3, a.score)
}

// parts reads queries, keys and values from inputs 0 to 2; a bias has a part for each.
func (o *op) parts(bias *graph.Value) *attention {
	heads := o.heads()
	q, k, v := o.in[0], o.input(1), o.input(2)
	packed := func(x *graph.Value, parts int64) []*graph.Value {
		o.ranked(x, 5)
		list := o.calls("Split", int(parts), attrs(graph.IntAttr("axis", 3), graph.IntAttr("num_outputs", parts)), x)
		out := make([]*graph.Value, parts)
		for i, p := range list {
			out[i] = o.transpose(o.squeeze(p, 3), 0, 2, 1, 3)
		}
		return out
	}
	switch {
	case k == nil:
		o.refuse(v != nil || bias != nil, "values or a bias beside packed queries, keys and values")
		list := packed(q, 3)
		return &attention{q: list[0], k: list[1], v: list[2]}
	case v == nil:
		o.refuse(bias != nil, "a bias beside packed keys and values")
		list := packed(k, 2)
		return &attention{q: o.split(q, heads), k: list[0], v: list[1]}
	}
	o.ranked(q, 3)
	ready := o.rank(k) == 4
	if bias != nil {
		width := int64(o.static(q, 2))
		q = o.sum(q, o.slice(bias, 0, 0, width))
		if !ready {
			inner := width + int64(o.static(k, 2))
			k, v = o.sum(k, o.slice(bias, 0, width, inner)), o.sum(v, o.slice(bias, 0, inner, toEnd))
		}
	}
	if ready {
		o.ranked(v, 4)
		return &attention{q: o.split(q, heads), k: k, v: v}
	}
	return &attention{q: o.split(q, heads), k: o.split(k, heads), v: o.split(v, heads)}
}

// decoderHeads is multiHead for one query behind a cache, which lies in a buffer that is longer than it where past_sequence_length
// says so.
func decoderHeads(o *op) {
	o.refuse(o.has(9) || o.has(8), "beams")
	a := o.parts(o.input(10))
	a.mask, a.bias = o.input(3), o.input(4)
	past := o.input(7)
	if past == nil {
		a.pastK, a.pastV = o.input(5), o.input(6)
		o.set(0, o.merge(o.attend(a)))
		o.set(1, a.k1)
		o.set(2, a.v1)
		o.set(3, a.score)
		return
	}
	o.require(o.has(5) && o.has(6), ErrUnsupported, "past_sequence_length without a past")
	at := o.reshape(o.cast(past, tensor.Int64), 1)
	a.pastK, a.pastV = o.sliceTo(o.in[5], 2, o.ints(0), at), o.sliceTo(o.in[6], 2, o.ints(0), at)
	o.set(0, o.merge(o.attend(a)))
	o.set(3, a.score)
	end := o.sum(at, o.dim(a.k, 2))
	rest := func(buffer, now *graph.Value) *graph.Value {
		return o.concat(2, now, o.sliceTo(buffer, 2, end, o.ints(toEnd)))
	}
	o.set(1, rest(o.in[5], a.k1))
	o.set(2, rest(o.in[6], a.v1))
}
