package gpugroup

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/lower"
	"github.com/carve-dev/carve/internal/place"
)

// attentionChain is an Attention as two products with what is rendered around them: for caches, types, results and masks that the
// one kernel does not have. The scores of all queries and keys are in memory.
type attentionChain struct {
	n                  *graph.Node
	batch, heads, kv   int
	queries, past, own int // keys of the cache, and others
	depth, width       int
	qHeads, kvHeads    int            // as attributes say, where heads are a part of the last dim
	typ                gpukernel.Type // in which it is computed
}

// keys returns how many keys there are.
func (s *attentionChain) keys() int { return s.past + s.own }

// side is an operand that is brought into the order [batch, heads, rows, columns], in the type in which it is computed.
type side struct {
	input, cache int // operands
	present      int // the result that holds it; 0 where there is none
	program      *gpukernel.Program
}

// chainOf returns an Attention of static shapes as a chain.
func chainOf(n *graph.Node) (*attentionChain, error) {
	double := n.Inputs[0].Type.DType == tensor.Float64
	if precision := n.Int("softmax_precision", 0); double && precision != 0 && precision != int64(tensor.Float64) {
		return nil, fmt.Errorf("softmax_precision %d of float64", precision)
	}
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		t, _, err := lower.TypeOf(v)
		if err != nil {
			return nil, err
		}
		switch {
		case i == 3 && t == gpukernel.Bool, i == 6 && t == gpukernel.I64:
		case i == 6 || t != gpukernel.F32 && t != gpukernel.F16 && t != gpukernel.BF16 && t != gpukernel.F64, (t == gpukernel.F64) != double:
			return nil, fmt.Errorf("input %d of type %s", i, t)
		}
	}
	s := &attentionChain{n: n, typ: keptAs(n.Inputs[0])}
	if len(dims(n.Inputs[0])) == 3 {
		s.qHeads, s.kvHeads = int(max(min(n.Int("q_num_heads", 0), 1<<16), 0)), int(max(min(n.Int("kv_num_heads", 0), 1<<16), 0))
	}
	q, err := fourDims(n.Inputs[0], s.qHeads)
	if err != nil {
		return nil, err
	}
	k, err := fourDims(n.Inputs[1], s.kvHeads)
	if err != nil {
		return nil, err
	}
	v, err := fourDims(n.Inputs[2], s.kvHeads)
	if err != nil {
		return nil, err
	}
	s.batch, s.heads, s.queries, s.depth = q[0], q[1], q[2], q[3]
	s.kv, s.own, s.width = k[1], k[2], v[3]
	if k[0] != s.batch || v[0] != s.batch || v[1] != s.kv || v[2] != s.own || k[3] != s.depth || s.kv < 1 || s.heads%s.kv != 0 {
		return nil, fmt.Errorf("attention of %v, %v and %v", q, k, v)
	}
	if (n.Input(4) == nil) != (n.Input(5) == nil) {
		return nil, fmt.Errorf("one of two caches")
	}
	if n.Input(4) != nil {
		pk, pv := dims(n.Inputs[4]), dims(n.Inputs[5])
		if len(pk) != 4 || !slices.Equal(pk, []int{s.batch, s.kv, pk[2], s.depth}) || !slices.Equal(pv, []int{s.batch, s.kv, pk[2], s.width}) {
			return nil, fmt.Errorf("caches %v and %v", pk, pv)
		}
		s.past = pk[2]
	}
	if s.batch*s.heads > 1<<12 || s.batch*s.heads*s.queries > 1<<28/s.keys() {
		return nil, fmt.Errorf("%d×%d heads of %d queries and %d keys", s.batch, s.heads, s.queries, s.keys())
	}
	return s, nil
}

// fourDims returns the dims [batch, heads, rows, columns] of an operand.
func fourDims(v *graph.Value, heads int) ([]int, error) {
	d := dims(v)
	switch {
	case len(d) == 4:
		return d, nil
	case len(d) != 3 || heads < 1 || d[2]%heads != 0:
		return nil, fmt.Errorf("%d heads of %v", heads, d)
	}
	return []int{d[0], heads, d[1], d[2] / heads}, nil
}

// sides returns Q, K and V.
func (s *attentionChain) sides() ([]side, error) {
	list := []side{{input: 0}, {input: 1, cache: 4, present: 1}, {input: 2, cache: 5, present: 2}}
	for i := range list {
		x := &list[i]
		if x.present >= len(s.n.Outputs) || s.n.Outputs[x.present] == nil {
			x.present = 0
		}
		var err error
		if x.program, err = s.bring(x); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// bring returns the program of a side; nil where it is as it should be.
func (s *attentionChain) bring(x *side) (*gpukernel.Program, error) {
	v := s.n.Inputs[x.input]
	t, d, err := lower.TypeOf(v)
	if err != nil {
		return nil, err
	}
	cached := x.cache > 0 && s.n.Input(x.cache) != nil
	if t == s.typ && len(d) == 4 && !cached && x.present == 0 {
		return nil, nil
	}
	p := &gpukernel.Program{}
	y := p.Input("given", t, d...)
	if len(d) == 3 {
		heads := s.kvHeads
		if x.input == 0 {
			heads = s.qHeads
		}
		y = p.Transpose(p.Reshape(y, d[0], d[1], heads, d[2]/heads), 0, 2, 1, 3)
	}
	if cached {
		c := s.n.Inputs[x.cache]
		if c.Type.DType != v.Type.DType {
			return nil, fmt.Errorf("a cache of %s for %s", c.Type.DType, v.Type.DType)
		}
		y = p.Concat(2, p.Input("cache", t, dims(c)...), y)
	}
	if x.present > 0 {
		p.Output(y, "present")
	}
	if x.present == 0 || t != s.typ {
		p.Output(p.Cast(y, s.typ), "made")
	}
	return p, nil
}

// products returns the products of queries and keys, and of probabilities and values: heads that share keys are rows of a batch.
func (s *attentionChain) products() (scores, values gpukernel.ProductShape) {
	share, keys := s.heads/s.kv, s.keys()
	f32 := func(rows, columns, outer, inner int) gpukernel.Matrix {
		return gpukernel.Matrix{Type: s.typ, Stride: columns, Batch0: outer * rows * columns, Batch1: inner * rows * columns}
	}
	scores = gpukernel.ProductShape{M: s.queries, N: keys, K: s.depth, Batch0: s.batch * s.kv, Batch1: share, TransposedB: true,
		A: f32(s.queries, s.depth, share, 1), B: f32(keys, s.depth, 1, 0), C: f32(s.queries, keys, share, 1)}
	if s.typ != gpukernel.F64 { // else weights scales: steps have numbers of float32
		scores.Finish = []gpukernel.Step{{Op: gpukernel.Scale, Alpha: float32(s.scale())}}
	}
	values = gpukernel.ProductShape{M: s.queries, N: s.width, K: keys, Batch0: s.batch * s.kv, Batch1: share,
		A: f32(s.queries, keys, share, 1), B: f32(keys, s.width, 1, 0), C: f32(s.queries, s.width, share, 1)}
	return scores, values
}

// scale is what products are multiplied with.
func (s *attentionChain) scale() float64 {
	if s.n.Attrs.Lookup("scale") != nil {
		return float64(s.n.Float("scale", 0))
	}
	return 1 / math.Sqrt(float64(s.depth))
}

// weights returns the program that makes probabilities of scores, and the scores that are a result on the way.
func (s *attentionChain) weights() (*gpukernel.Program, error) {
	p := &gpukernel.Program{}
	f := func(text string, in ...gpukernel.Value) gpukernel.Value { return p.Scalar(s.typ, text, in...) }
	x := p.Input("scores", s.typ, s.batch, s.heads, s.queries, s.keys())
	mode := s.n.Int("qk_matmul_output_mode", 0)
	kept := s.typ
	if len(s.n.Outputs) > 3 && s.n.Outputs[3] != nil {
		var err error
		if kept, _, err = lower.TypeOf(s.n.Outputs[3]); err != nil {
			return nil, err
		}
	}
	keep := func(m int64) {
		if mode == m && len(s.n.Outputs) > 3 && s.n.Outputs[3] != nil {
			p.Output(p.Cast(x, kept), "kept")
		}
	}
	if mode < 0 || mode > 3 {
		return nil, fmt.Errorf("qk_matmul_output_mode %d", mode)
	}
	if x = f("$0", x); s.typ == gpukernel.F64 {
		x = f("$0 * $1", x, p.Constant(s.typ, fmt.Sprintf("%.17e", s.scale())))
	}
	keep(0)
	if limit := s.n.Float("softcap", 0); limit > 0 {
		c := gpukernel.FloatLiteral(limit)
		x = f(c+" * tanh_f32($0 / "+c+")", x)
	}
	keep(1)
	bias, ok, err := s.bias(p)
	if err != nil {
		return nil, err
	}
	if ok {
		x = f("$0 + $1", x, bias)
	}
	keep(2)
	if precision := s.n.Int("softmax_precision", 0); precision == int64(tensor.Float16) || precision == int64(tensor.BFloat16) {
		t := gpukernel.F16
		if precision == int64(tensor.BFloat16) {
			t = gpukernel.BF16
		}
		x = p.Cast(p.Cast(x, t), s.typ)
	}
	e := f("exp_f32($0 - $1)", x, p.Reduce(gpukernel.ReduceMax, x, 3))
	sum := p.Reduce(gpukernel.ReduceSum, e, 3)
	if ok { // nothing is left of a row whose keys are all masked
		most := p.Expand(bias, s.batch, s.heads, s.queries, s.keys())
		x = f("($2 == NEGATIVE_INFINITY ? 0.0f : $0 / $1)", e, sum, p.Reduce(gpukernel.ReduceMax, most, 3))
	} else {
		x = f("$0 / $1", e, sum)
	}
	keep(3)
	if t, _, _ := lower.TypeOf(s.n.Inputs[0]); t != s.typ {
		x = p.Cast(p.Cast(x, t), s.typ)
	}
	p.Output(x, "made")
	return p, nil
}

// bias adds what is added to scores: the mask, and nothing that is left where a key is not to be seen. ok is false where there is
// neither.
func (s *attentionChain) bias(p *gpukernel.Program) (bias gpukernel.Value, ok bool, err error) {
	if v := s.n.Input(3); v != nil {
		if bias, err = s.mask(p, v); err != nil {
			return 0, false, err
		}
		ok = true
	}
	column := func(n int, more ...int) gpukernel.Value { return p.Reshape(p.Iota(n), append([]int{n}, more...)...) }
	in := []gpukernel.Value{column(s.keys()), column(s.queries, 1)}
	at, tests := fmt.Sprintf("($1 + %d)", s.past), []string{}
	if s.n.Input(6) != nil {
		lens := p.Cast(p.Reshape(p.Input("lens", gpukernel.I64, s.batch), s.batch, 1, 1, 1), gpukernel.I32)
		in, tests = append(in, lens), append(tests, "$0 >= $2")
		if s.n.Input(4) == nil {
			at = fmt.Sprintf("($1 + $2 - %d)", s.queries)
		}
	}
	if s.n.Int("is_causal", 0) != 0 {
		tests = append(tests, "$0 > "+at)
	}
	left, right := s.n.Int("left_window_size", -1), s.n.Int("right_window_size", -1)
	if left < -1 || right < -1 || max(left, right) > 1<<29 {
		return 0, false, fmt.Errorf("a window of %d and %d", left, right)
	}
	if left >= 0 {
		tests = append(tests, fmt.Sprintf("$0 < %s - %d", at, left))
	}
	if right >= 0 {
		tests = append(tests, fmt.Sprintf("$0 > %s + %d", at, right))
	}
	if len(tests) == 0 {
		return bias, ok, nil
	}
	hidden := p.Scalar(s.typ, "("+strings.Join(tests, " || ")+" ? NEGATIVE_INFINITY : 0.0f)", in...)
	if ok {
		return p.Scalar(s.typ, "$0 + $1", bias, hidden), true, nil
	}
	return hidden, true, nil
}

// mask adds a mask as addends that broadcast to [batch, heads, queries, keys]. One of fewer keys leaves nothing of the others.
func (s *attentionChain) mask(p *gpukernel.Program, v *graph.Value) (gpukernel.Value, error) {
	t, d, err := lower.TypeOf(v)
	if err != nil {
		return 0, err
	}
	if len(d) < 1 || len(d) > 4 {
		return 0, fmt.Errorf("a mask of %v", d)
	}
	x := p.Input("mask", t, d...)
	if t == gpukernel.Bool {
		x = p.Scalar(s.typ, "($0 ? 0.0f : NEGATIVE_INFINITY)", x)
	} else {
		x = p.Cast(x, s.typ)
	}
	last := len(d) - 1
	if n, keys := d[last], s.keys(); n < keys && n != 1 || n == 1 && keys > 1 && t == gpukernel.Bool {
		after := make([]int, len(d))
		after[last] = keys - n
		x = p.Pad(x, p.Constant(s.typ, "NEGATIVE_INFINITY"), make([]int, len(d)), after)
	}
	want := []int{s.batch, s.heads, s.queries, s.keys()}
	for i, n := range p.Shape(x) {
		if n != 1 && n != want[4-len(d)+i] {
			return 0, fmt.Errorf("a mask of %v for %v", d, want)
		}
	}
	return x, nil
}

// result returns the program that gives the result its order and type; nil where the second product does.
func (s *attentionChain) result() (*gpukernel.Program, error) {
	t, d, err := lower.TypeOf(s.n.Outputs[0])
	if err != nil || t == s.typ && len(d) == 4 {
		return nil, err
	}
	p := &gpukernel.Program{}
	x := p.Input("given", s.typ, s.batch, s.heads, s.queries, s.width)
	if len(d) == 3 {
		x = p.Reshape(p.Transpose(x, 0, 2, 1, 3), d...)
	}
	p.Output(p.Cast(x, t), "made")
	return p, nil
}

// emit adds the launches of the chain. p is nil where it is only asked whether there are kernels.
func (s *attentionChain) emit(d gpukernel.Device, p *planner) error {
	sides, err := s.sides()
	if err != nil {
		return err
	}
	var at [3]place.Memory
	for i, x := range sides {
		if at[i], err = s.emitSide(d, p, &x); err != nil {
			return err
		}
	}
	first, second := s.products()
	weights, err := s.weights()
	if err != nil {
		return err
	}
	result, err := s.result()
	if err != nil {
		return err
	}
	cells := s.batch * s.heads * s.queries
	b := &buffers{p: p, d: d}
	scores := b.temp(s.typ.Size() * cells * s.keys())
	b.product("scores", first, map[string]place.Memory{"a": at[0], "b": at[1], "c": scores})
	probabilities := b.temp(s.typ.Size() * cells * s.keys())
	b.render("weights", weights, map[string]place.Memory{"scores": scores, "made": probabilities, "mask": b.in(s.n.Input(3)), "lens": b.in(s.n.Input(6)),
		"kept": b.out(s.n, 3)})
	last := b.out(s.n, 0)
	if result != nil {
		last = b.temp(s.typ.Size() * cells * s.width)
	}
	b.product("values", second, map[string]place.Memory{"a": probabilities, "b": at[2], "c": last})
	if result != nil {
		b.render("result", result, map[string]place.Memory{"given": last, "made": b.out(s.n, 0)})
	}
	return b.err
}

// emitSide adds what brings an operand into order, and returns where it lies then.
func (s *attentionChain) emitSide(d gpukernel.Device, p *planner, x *side) (place.Memory, error) {
	b := &buffers{p: p, d: d}
	v := s.n.Inputs[x.input]
	if x.program == nil {
		return b.in(v), nil
	}
	at, present := place.Nowhere, place.Nowhere
	if x.present > 0 {
		present = b.out(s.n, x.present)
		at = present
	}
	if x.present == 0 || v.Type.DType != floats[s.typ] {
		rows, columns := s.queries, s.depth
		heads := s.heads
		if x.input > 0 {
			rows, heads = s.keys(), s.kv
		}
		if x.input == 2 {
			columns = s.width
		}
		at = b.temp(s.typ.Size() * s.batch * heads * rows * columns)
	}
	var cache *graph.Value
	if x.cache > 0 {
		cache = s.n.Input(x.cache)
	}
	b.render("bring", x.program, map[string]place.Memory{"given": b.in(v), "cache": b.in(cache), "present": present, "made": at})
	return at, b.err
}
