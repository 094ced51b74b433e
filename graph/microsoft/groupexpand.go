package microsoft

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// keepsGroupQuery reports whether standard operators do not say a GroupQueryAttention: rows of a batch have caches of lengths of their
// own, a score without a key takes part, or caches slide.
func keepsGroupQuery(n *graph.Node) bool {
	q := n.Inputs[GQAQuery].Type.Shape
	return len(q) != 3 || !q[0].Is(1) || n.Input(GQASink) != nil || n.Int("smooth_softmax", -1) > 0 || GQASlides(n)
}

// expandGroupQuery says GroupQueryAttention for a batch of one.
func expandGroupQuery(o *op) {
	if err := groupRefused(o.n); err != nil {
		panic(fault{err})
	}
	heads, kv, err := groupHeads(o.n)
	if err != nil {
		panic(fault{err})
	}
	q, k, v := o.groupParts(heads, kv)
	total := o.reshape(o.cast(o.in[GQATotal], tensor.Int64), 1)
	before := o.call("Sub", nil, total, o.dim(o.in[GQAQuery], 1))
	if o.flag("do_rotary") {
		ids := o.input(GQAPositions)
		if ids == nil {
			ids = o.unsqueeze(o.positions(before, total), 0)
		}
		cos, sin := o.call("Gather", nil, o.in[GQACos], ids), o.call("Gather", nil, o.in[GQASin], ids)
		width := 2 * int64(o.static(o.in[GQACos], 1))
		q = o.turnedPairs(q, cos, sin, width, o.flag("rotary_interleaved"))
		k = o.turnedPairs(k, cos, sin, width, o.flag("rotary_interleaved"))
	}
	k, v = o.joined(GQAPastKey, 1, k, before, total), o.joined(GQAPastValue, 2, v, before, total)
	size := int64(o.static(q, 3))
	scale := float64(o.n.Float("scale", 0))
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(size))
	}
	// Queries of the heads of a group are rows of one matrix.
	s := o.scaled(o.call("MatMul", nil, o.reshape(q, 0, kv, -1, size), o.turned(k)), scale)
	s = o.reshape(s, 0, heads, -1, 0)
	if c := float64(o.n.Float("softcap", 0)); c > 0 {
		s = o.scaled(o.call("Tanh", nil, o.scaled(s, 1/c)), c)
	}
	if o.has(GQABias) {
		s = o.sum(s, o.sliceTo(o.in[GQABias], 3, o.ints(0), o.dim(k, 2)))
	}
	if allowed := o.seen(before, total, k); allowed != nil {
		s = o.sum(s, o.choose(allowed, s, lowest(o.dtype(s))))
	}
	p := o.reshape(o.call("Softmax", attrs(graph.IntAttr("axis", -1)), s), 0, kv, -1, 0)
	o.set(0, o.merge(o.reshape(o.call("MatMul", nil, p, v), 0, heads, -1, size)))
}

// groupParts returns queries, keys and values by heads, normalised where there are weights for that.
func (o *op) groupParts(heads, kv int64) (q, k, v *graph.Value) {
	q, k, v = o.in[GQAQuery], o.input(GQAKey), o.input(GQAValue)
	if k == nil {
		n := int64(o.static(q, 2))
		o.require(n%(heads+2*kv) == 0, ErrShape, "%d columns for %d heads", n, heads+2*kv)
		size := n / (heads + 2*kv)
		parts := o.calls("Split", 3, attrs(graph.IntAttr("axis", 2)), q, o.ints(heads*size, kv*size, kv*size))
		q, k, v = parts[0], parts[1], parts[2]
	}
	q, k, v = o.split(q, heads), o.split(k, kv), o.split(v, kv)
	as := attrs(graph.IntAttr("axis", -1), graph.FloatAttr("epsilon", o.n.Float("qk_norm_epsilon", 1e-6)))
	if o.has(GQAQueryNorm) {
		q = o.call("RMSNormalization", as, q, o.in[GQAQueryNorm])
	}
	if o.has(GQAKeyNorm) {
		k = o.call("RMSNormalization", as, k, o.in[GQAKeyNorm])
	}
	return q, k, v
}

// joined returns what is cached with what is new behind it, and sets the result that is the cache: of the length of the old one where
// that is longer.
func (o *op) joined(past, result int, now, before, total *graph.Value) *graph.Value {
	if !o.has(past) {
		o.set(result, now)
		return now
	}
	all := o.concat(2, o.sliceTo(o.in[past], 2, o.ints(0), before), now)
	if o.wants(result) {
		o.set(result, o.concat(2, all, o.sliceTo(o.in[past], 2, total, o.ints(toEnd))))
	}
	return all
}

// seen reports which keys a query sees [queries, keys], nil for all.
func (o *op) seen(before, total, k *graph.Value) *graph.Value {
	window, causal := o.n.Int("local_window_size", -1), o.n.Int("causal", 1) != 0
	if window < 0 && !causal {
		return nil
	}
	rows, columns := o.unsqueeze(o.positions(before, total), 1), o.positions(o.ints(0), o.dim(k, 2))
	var allowed *graph.Value
	if causal {
		allowed = o.call("LessOrEqual", nil, columns, rows)
	}
	if window >= 0 {
		near := o.call("Greater", nil, columns, o.call("Sub", nil, rows, o.int(window)))
		if allowed != nil {
			near = o.call("And", nil, allowed, near)
		}
		allowed = near
	}
	return allowed
}
