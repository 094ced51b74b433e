package microsoft

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// standardOperators are operators of the default domain that others of it say. A node that keeps names stays.
var standardOperators = map[string]*operator{
	"Attention": {expand: standardAttention, keep: keepsAttention},
	"CastLike": {expand: func(o *op) {
		o.set(0, o.call("Cast", append(o.attrsWithout(), graph.IntAttr("to", int64(o.dtype(o.in[1])))), o.in[0]))
	}, keep: func(n *graph.Node) bool {
		x, like := n.Inputs[0].Type, n.Inputs[1].Type // Cast has types of less than a byte in later versions
		return !x.IsTensor() || !like.IsTensor() || x.DType.Size() == 0 || like.DType.Size() == 0
	}},
	"LayerNormalization": {expand: func(o *op) {
		o.layerNorm(o.in[0], o.in[1], o.input(2), o.n.Int("axis", -1), 1e-5)
	}, keep: func(n *graph.Node) bool { return !SpreadsScale(n) }},
	"RMSNormalization": {expand: func(o *op) {
		o.set(0, o.rmsNorm(o.in[0], o.in[1], o.n.Int("axis", -1), 1e-5))
	}, keep: func(n *graph.Node) bool { return !SpreadsScale(n) }},
	"LSTM": {expand: batchFirst, keep: keepsLayout},
	"GRU":  {expand: batchFirst, keep: keepsLayout},
	"RNN":  {expand: batchFirst, keep: keepsLayout},
	"CausalConvWithState": {expand: expandCausalConv, keep: func(n *graph.Node) bool {
		w := n.Inputs[1].Type.Shape
		return len(n.Inputs[0].Type.Shape) != 3 || len(w) != 3 || !w[1].Equal(graph.D(1)) || n.Input(3) != nil && len(n.Inputs[3].Type.Shape) != 3 || !positive(w[0]) || !positive(w[2])
	}},
	"LinearAttention": {expand: func(o *op) {
		for i, v := range o.add(graph.Op{Domain: Domain, Name: "LinearAttention", Since: 1}, 2, o.attrsWithout("chunk_size"), o.in...) {
			o.set(i, v)
		}
	}, keep: func(n *graph.Node) bool {
		_, _, err := linearHeads(n)
		return err != nil || len(n.Inputs[0].Type.Shape) != 3 || len(n.Inputs[2].Type.Shape) != 3
	}},
	"QLinearConv":   {expand: quantisedConv, keep: keepsScales},
	"QLinearMatMul": {expand: quantisedMatMul, keep: keepsScales},
	"Resize":        {expand: allAxes, keep: keepsAxes},
	"SwiGLU": {expand: func(o *op) {
		gate := o.call("Sigmoid", nil, o.scaled(o.in[0], float64(o.n.Float("alpha", 1))))
		o.set(0, o.times(o.times(o.in[0], gate), o.in[1]))
	}},
}

// expansionOf returns what says a node, nil where nothing does.
func expansionOf(n *graph.Node) *operator {
	if n.Op.Domain == "" && n.Schema != nil {
		if x := standardOperators[n.Op.Name]; x != nil && expansions[n.Schema] == nil {
			return x
		}
	}
	return expansions[n.Schema]
}

// positive reports whether a dim is a number that is not 0, and no more than a dim of weights is.
func positive(d graph.Dim) bool {
	n, ok := d.Const()
	return ok && n > 0 && n <= 1<<20
}

// Operands of Attention.
const (
	attentionMask    = 3
	attentionPastKey = 4
	attentionPast    = 5
	attentionLengths = 6
)

// standardHeads returns the number of heads of operand i, whose attribute that is where it has rank 3, and the number of rows; ok is false where one of them is not
// known, or no heads of one size are.
func standardHeads(n *graph.Node, i int, attr string) (heads int64, rows graph.Dim, ok bool) {
	switch s := n.Inputs[i].Type.Shape; len(s) {
	case 3:
		width, ok := s[2].Const()
		heads = n.Int(attr, 0)
		return heads, s[1], ok && heads > 0 && width%heads == 0
	case 4:
		heads, ok1 := s[1].Const()
		_, ok2 := s[3].Const()
		return heads, s[2], ok1 && ok2 && heads > 0
	}
	return 0, graph.Dim{}, false
}

// headDims returns the numbers of heads of an Attention and their sizes.
func headDims(n *graph.Node) (dims []graph.Dim) {
	for i := range 3 {
		switch s := n.Inputs[i].Type.Shape; len(s) {
		case 3:
			dims = append(dims, s[2])
		case 4:
			dims = append(dims, s[1], s[3])
		}
	}
	return dims
}

// keepsAttention reports whether standard operators do not say an Attention: types differ, heads are not known, or a mask may have one column for all keys or
// for the first.
func keepsAttention(n *graph.Node) bool {
	dt := n.Inputs[0].Type.DType
	for i, v := range n.Inputs {
		if v != nil && (!v.Type.IsTensor() || !v.Type.Shape.Known() || i != attentionMask && i != attentionLengths && v.Type.DType != dt) {
			return true
		}
	}
	heads, _, ok1 := standardHeads(n, 0, "q_num_heads")
	own, keys, ok2 := standardHeads(n, 1, "kv_num_heads")
	values, _, ok3 := standardHeads(n, 2, "kv_num_heads")
	past, with := n.Input(attentionPastKey), n.Input(attentionPast)
	if !ok1 || !ok2 || !ok3 || own != values || heads%own != 0 || (past == nil) != (with == nil) || len(n.Inputs[0].Type.Shape) != len(n.Inputs[1].Type.Shape) {
		return true
	}
	if past != nil {
		if len(past.Type.Shape) != 4 || len(with.Type.Shape) != 4 {
			return true
		}
		keys = keys.Add(past.Type.Shape[2])
	}
	if m := n.Input(attentionMask); m != nil {
		s := m.Type.Shape
		if len(s) == 0 || len(s) > 4 || m.Type.DType != tensor.Bool && m.Type.DType != dt {
			return true
		}
		columns, known := s[len(s)-1].Const()
		return !s[len(s)-1].Equal(keys) && known && columns == 1
	}
	return false
}

// standardAttention says Attention. Rows of which no key may be seen, whatever their scores are, are 0.
func standardAttention(o *op) {
	q, k, v := o.attentionHeads(0, "q_num_heads"), o.attentionHeads(1, "kv_num_heads"), o.attentionHeads(2, "kv_num_heads")
	past := o.ints(0)
	if o.has(attentionPastKey) {
		past = o.dim(o.in[attentionPastKey], 2)
		k, v = o.concat(2, o.in[attentionPastKey], k), o.concat(2, o.in[attentionPast], v)
	}
	o.set(1, k)
	o.set(2, v)
	heads, own := int64(o.static(q, 1)), int64(o.static(k, 1))
	scale := 1 / math.Sqrt(float64(o.static(q, 3)))
	if o.n.Attrs.Lookup("scale") != nil {
		scale = float64(o.n.Float("scale", 1))
	}
	shown := k
	k, v = o.repeated(k, heads/own), o.repeated(v, heads/own)
	dt, mode := o.dtype(q), o.n.Int("qk_matmul_output_mode", 0)
	s := o.scaled(o.call("MatMul", nil, q, o.turned(k)), scale)
	keep := func(m int64) {
		if mode == m {
			o.set(3, s)
		}
	}
	keep(0)
	if c := float64(o.n.Float("softcap", 0)); c > 0 {
		s = o.scaled(o.call("Tanh", nil, o.scaled(s, 1/c)), c)
	}
	keep(1)
	bias, hidden := o.attentionBias(q, shown, past)
	if bias != nil {
		s = o.sum(s, bias)
	}
	keep(2)
	p := o.cast(o.call("Softmax", attrs(graph.IntAttr("axis", -1)), o.cast(s, tensor.DType(o.n.Int("softmax_precision", int64(dt))))), dt)
	if hidden {
		most := o.call("ReduceMax", nil, bias, o.ints(-1))
		p = o.call("Where", nil, o.call("Equal", nil, most, o.like(most, math.Inf(-1))), o.like(p, 0), p)
	}
	if mode == 3 {
		o.set(3, p)
	}
	y := o.call("MatMul", nil, p, v)
	if o.rank(o.in[0]) == 3 {
		y = o.merge(y)
	}
	o.set(0, y)
}

// wholeMask returns a mask with a column for each of the keys [batch, heads, keys, size]: those that it has not are hidden, by false or none. Where a
// run finds more columns than keys, or none, the Expand says so. Of floats a column that a run finds alone is that of all keys.
func (o *op) wholeMask(m, keys *graph.Value, none float64) *graph.Value {
	rank, s := int64(o.rank(m)), o.shape(m)
	if s[rank-1].Equal(o.shape(keys)[2]) {
		return m
	}
	columns := o.dim(m, int(rank-1))
	rest := o.like(m, 0)
	if o.dtype(m) != tensor.Bool {
		alone := o.call("Equal", nil, columns, o.ints(1))
		rest = o.call("Where", nil, alone, o.slice(m, rank-1, -1, toEnd), o.like(m, none))
	}
	front := func(last *graph.Value) *graph.Value {
		if rank == 1 {
			return last
		}
		return o.concat(0, o.call("Shape", attrs(graph.IntAttr("end", rank-1)), m), last)
	}
	more := o.call("Sub", nil, o.dim(keys, 2), columns)
	all := o.concat(rank-1, m, o.call("Expand", nil, rest, front(more)))
	return o.call("Reshape", attrs(graph.IntAttr("allowzero", 1)), all, front(o.dim(keys, 2)))
}

// attentionHeads returns operand i by heads.
func (o *op) attentionHeads(i int, attr string) *graph.Value {
	if o.rank(o.in[i]) == 4 {
		return o.in[i]
	}
	return o.split(o.in[i], o.n.Int(attr, 0))
}

// repeated returns x [batch, heads, rows, size] with each head so many times.
func (o *op) repeated(x *graph.Value, times int64) *graph.Value {
	if times == 1 {
		return x
	}
	wide := o.call("Expand", nil, o.unsqueeze(x, 2), o.ints(1, 1, times, 1, 1))
	return o.reshape(wide, 0, times*int64(o.static(x, 1)), -1, int64(o.static(x, 3)))
}

// attentionBias returns what is added to scores, -inf where a key may not be seen, nil for nothing. hidden says that there may be a query that sees none: one
// whose row is all -inf.
func (o *op) attentionBias(q, k, past *graph.Value) (bias *graph.Value, hidden bool) {
	none := math.Inf(-1)
	if bias = o.input(attentionMask); bias != nil {
		if bias = o.wholeMask(bias, k, none); o.dtype(bias) == tensor.Bool {
			bias = o.choose(bias, q, none)
		}
	}
	hidden = bias != nil
	allowed, more := o.seenKeys(q, k, past)
	if allowed == nil {
		return bias, hidden
	}
	seen := o.choose(allowed, q, none)
	if bias != nil {
		seen = o.sum(bias, seen)
	}
	return seen, hidden || more
}

// seenKeys returns which keys queries see, by causality, a window and the lengths of rows, [queries, keys] or [batch, 1, queries or 1, keys], nil for all. hidden
// says that there may be a query that sees none.
func (o *op) seenKeys(q, k, past *graph.Value) (allowed *graph.Value, hidden bool) {
	causal, left, right := o.flag("is_causal"), o.n.Int("left_window_size", -1), o.n.Int("right_window_size", -1)
	o.require(left >= -1 && right >= -1, ErrAttribute, "a window of %d and %d", left, right)
	lengths := o.input(attentionLengths)
	if !causal && left < 0 && right < 0 && lengths == nil {
		return nil, false
	}
	columns := o.positions(o.ints(0), o.dim(k, 2))
	and := func(more *graph.Value) {
		if allowed != nil {
			more = o.call("And", nil, allowed, more)
		}
		allowed = more
	}
	rows := o.unsqueeze(o.positions(past, o.sum(past, o.dim(q, 2))), 1)
	if lengths != nil {
		of := o.unsqueeze(lengths, 1, 2, 3)
		if s := o.shape(lengths); len(s) != 1 || !s[0].Equal(o.shape(q)[0]) { // a run that finds another number than that of the batch says so
			of = o.call("Reshape", nil, lengths, o.concat(0, o.dim(q, 0), o.ints(1, 1, 1)))
		}
		and(o.call("Less", nil, columns, of))
		if !o.has(attentionPastKey) {
			rows = o.sum(rows, o.call("Sub", nil, of, o.dim(q, 2)))
		}
	}
	if causal {
		and(o.call("LessOrEqual", nil, columns, rows))
	}
	if left >= 0 {
		and(o.call("GreaterOrEqual", nil, columns, o.call("Sub", nil, rows, o.int(left))))
	}
	if right >= 0 {
		and(o.call("LessOrEqual", nil, columns, o.sum(rows, o.int(right))))
	}
	return allowed, lengths != nil || left >= 0 || right >= 0
}
