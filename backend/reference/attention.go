package reference

import (
	"context"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var attentionKernels = []kernel{
	{"Attention", 23, attention},
	{"RotaryEmbedding", 23, rotaryEmbedding},
}

var previewKernels = []kernel{
	{"FlexAttention", 1, flexAttention},
}

// heads are the rows of a [batch, heads, length, size] tensor.
type heads struct {
	v              []float64
	b, n, len, dim int
}

func (h *heads) shape() []int { return []int{h.b, h.n, h.len, h.dim} }

// row returns the vector at a position of a head.
func (h *heads) row(b, n, i int) []float64 {
	return h.v[((b*h.n+n)*h.len+i)*h.dim:][:h.dim]
}

// headsOf reads an input of rank 4, or one of rank 3, [batch, length, heads*size], with the number of heads given.
func (c *Call) headsOf(i int, count int64) *heads {
	t, v := c.input(i), c.floats(i)
	if len(t.Shape) == 4 {
		return &heads{v, t.Shape[0], t.Shape[1], t.Shape[2], t.Shape[3]}
	}
	c.require(len(t.Shape) == 3, c.portName(i), "rank 3 or 4 is expected, found %v", t)
	c.require(count > 0 && count <= 1<<20 && int64(t.Shape[2])%count == 0, c.portName(i), "%v for %d heads", t, count)
	n := int(count)
	h := &heads{make([]float64, len(v)), t.Shape[0], n, t.Shape[1], t.Shape[2] / n}
	for b := range h.b {
		for s := range h.len {
			for k := range n {
				copy(h.row(b, k, s), v[((b*h.len+s)*n+k)*h.dim:])
			}
			c.spend(n * (h.dim + 1))
		}
	}
	return h
}

// putHeads stores h as output i, in rank 3 where packed.
func (c *Call) putHeads(i int, dt tensor.DType, h *heads, packed bool) {
	if !packed {
		c.putFloats(i, dt, h.shape(), h.v)
		return
	}
	v := make([]float64, 0, len(h.v))
	for b := range h.b {
		for s := range h.len {
			for k := range h.n {
				v = append(v, h.row(b, k, s)...)
			}
			c.spend(h.n * (h.dim + 1))
		}
	}
	c.putFloats(i, dt, []int{h.b, h.len, h.n * h.dim}, v)
}

// appendHeads returns the concatenation of two along the length.
func (c *Call) appendHeads(i int, past, h *heads) *heads {
	c.require(past.b == h.b && past.n == h.n && past.dim == h.dim, c.portName(i), "%v before %v", past.shape(), h.shape())
	out := &heads{b: h.b, n: h.n, len: past.len + h.len, dim: h.dim}
	out.v = c.floatBuffer(out.shape()...)
	for b := range h.b {
		for k := range h.n {
			for s := range out.len {
				if s < past.len {
					copy(out.row(b, k, s), past.row(b, k, s))
				} else {
					copy(out.row(b, k, s), h.row(b, k, s-past.len))
				}
				c.spend(h.dim + 1)
			}
		}
	}
	return out
}

// checkHeads requires that keys and values fit queries, whose heads may share them in groups.
func (c *Call) checkHeads(q, k, v *heads) {
	c.require(k.b == q.b && k.dim == q.dim && k.n > 0 && q.n%k.n == 0, c.portName(1), "%v for %v", k.shape(), q.shape())
	c.require(v.b == k.b && v.n == k.n && v.len == k.len, c.portName(2), "%v for %v", v.shape(), k.shape())
}

// scores returns scaled products of queries and keys [batch, heads, queries, keys].
func (c *Call) scores(q, k *heads, scale float64) []float64 {
	out := c.floatBuffer(q.b, q.n, q.len, k.len)
	group := q.n / k.n
	for b := range q.b {
		for h := range q.n {
			for i := range q.len {
				row := q.row(b, h, i)
				dst := out[((b*q.n+h)*q.len+i)*k.len:][:k.len]
				for j := range dst {
					s := 0.0
					for d, x := range k.row(b, h/group, j) {
						s += row[d] * x
					}
					dst[j] = s * scale
				}
				c.spend(k.len * (q.dim + 1))
			}
		}
	}
	return out
}

// weigh returns the values weighted by probabilities [batch, heads, queries, keys].
func (c *Call) weigh(p []float64, q, v *heads) *heads {
	out := &heads{b: q.b, n: q.n, len: q.len, dim: v.dim}
	out.v = c.floatBuffer(out.shape()...)
	group := q.n / v.n
	for b := range q.b {
		for h := range q.n {
			for i := range q.len {
				dst := out.row(b, h, i)
				for j, w := range p[((b*q.n+h)*q.len+i)*v.len:][:v.len] {
					for d, x := range v.row(b, h/group, j) {
						dst[d] += w * x
					}
				}
				c.spend(v.len * (v.dim + 1))
			}
		}
	}
	return out
}

// scaleAttr returns the attribute "scale", by default one over the root of the head's size.
func (c *Call) scaleAttr(dim int) float64 {
	if c.Node.Attrs.Lookup("scale") != nil {
		return c.float("scale", 1)
	}
	return 1 / math.Sqrt(float64(dim))
}

func attention(c *Call) {
	packed := len(c.input(0).Shape) == 3
	qn, kn := c.Node.Int("q_num_heads", 0), c.Node.Int("kv_num_heads", 0)
	q, k, v := c.headsOf(0, qn), c.headsOf(1, kn), c.headsOf(2, kn)
	past := 0
	if c.has(4) || c.has(5) {
		pk, pv := c.headsOf(4, kn), c.headsOf(5, kn)
		past = pk.len
		k, v = c.appendHeads(4, pk, k), c.appendHeads(5, pv, v)
	}
	c.checkHeads(q, k, v)
	dt := c.input(0).DType
	scores := c.scores(q, k, c.scaleAttr(q.dim))
	shape := []int{q.b, q.n, q.len, k.len}
	mode := c.Node.Int("qk_matmul_output_mode", 0)
	keep := func(m int64) {
		if mode == m && c.wants(3) {
			c.putFloats(3, dt, shape, scores)
		}
	}
	keep(0)
	if limit := c.float("softcap", 0); limit > 0 {
		scores = each(c, scores, func(x float64) float64 { return limit * math.Tanh(x/limit) })
	}
	keep(1)
	bias := c.attentionBias(q, k.len, past)
	for i, b := range bias {
		scores[i] += b
	}
	keep(2)
	if p := c.dtypeAttr("softmax_precision", tensor.Float64); p != tensor.Float64 {
		scores = c.round(p, scores)
	}
	for o := 0; o < len(scores); o += k.len {
		masked := true
		for _, b := range bias[o : o+k.len] {
			masked = masked && math.IsInf(b, -1)
		}
		if masked {
			clear(scores[o : o+k.len])
		} else {
			softmax(scores[o : o+k.len])
		}
		c.spend(8 * k.len)
		if k.len == 0 {
			break
		}
	}
	keep(3)
	c.putHeads(0, dt, c.weigh(c.round(dt, scores), q, v), packed)
	if c.wants(1) {
		c.putHeads(1, c.input(1).DType, k, false)
	}
	if c.wants(2) {
		c.putHeads(2, c.input(2).DType, v, false)
	}
}

// attentionBias returns what is added to the scores: the mask, and -Inf where causality, a window or padding forbids a
// key. offset is the number of keys before the first query.
func (c *Call) attentionBias(q *heads, keys, past int) []float64 {
	shape := []int{q.b, q.n, q.len, keys}
	bias := c.maskBias(shape)
	var lens []int64
	if c.has(6) {
		lens = c.ints(6)
		c.require(len(lens) == q.b, c.portName(6), "%d lengths for a batch of %d", len(lens), q.b)
	}
	causal := c.Node.Int("is_causal", 0) != 0
	left, right := c.Node.Int("left_window_size", -1), c.Node.Int("right_window_size", -1)
	if left < -1 || right < -1 {
		c.fail("left_window_size", ErrAttribute, "window [%d, %d]", left, right)
	}
	for b := range q.b {
		offset, valid := int64(past), int64(keys)
		if lens != nil {
			valid = lens[b]
			if !c.has(4) {
				offset = lens[b] - int64(q.len)
			}
		}
		for h := range q.n {
			for i := range q.len {
				p := offset + int64(i)
				row := bias[((b*q.n+h)*q.len+i)*keys:][:keys]
				for j := range row {
					k := int64(j)
					if k >= valid || causal && k > p || left >= 0 && k < p-left || right >= 0 && k > p+right {
						row[j] += math.Inf(-1)
					}
				}
				c.spend(keys)
			}
		}
	}
	return bias
}

// maskBias returns attn_mask as a bias; a last dim that is too short is continued with -Inf.
func (c *Call) maskBias(shape []int) []float64 {
	m := c.optional(3)
	if m == nil {
		return c.floatBuffer(shape...)
	}
	c.require(len(m.Shape) > 0, c.portName(3), "a scalar mask")
	v := c.floats(3)
	if m.DType == tensor.Bool {
		for i, x := range v {
			v[i] = 0
			if x == 0 {
				v[i] = math.Inf(-1)
			}
		}
	}
	keys := shape[3]
	dims := append([]int{}, m.Shape...)
	last := len(dims) - 1
	if n := dims[last]; n < keys && n != 1 || n == 1 && keys > 1 && m.DType == tensor.Bool {
		wide := make([]float64, 0, len(v)/max(n, 1)*keys)
		for o := range product(dims[:last]) {
			wide = append(wide, v[o*n:(o+1)*n]...)
			for range keys - n {
				wide = append(wide, math.Inf(-1))
			}
		}
		v, dims[last] = wide, keys
	}
	out := spread(c, c.portName(3), v, dims, shape)
	return append([]float64{}, out...)
}

// rotaryEmbedding turns pairs of elements by angles that depend on the position.
func rotaryEmbedding(c *Call) {
	x := c.input(0)
	h := c.headsOf(0, c.Node.Int("num_heads", 0))
	dim := int(min(max(c.Node.Int("rotary_embedding_dim", 0), -1), 1<<30))
	if dim == 0 {
		dim = h.dim
	}
	if dim < 0 || dim > h.dim || dim%2 != 0 {
		c.fail("rotary_embedding_dim", ErrAttribute, "%d of %d", dim, h.dim)
	}
	half := dim / 2
	cos, sin := c.floats(1), c.floats(2)
	ct := c.input(1)
	c.require(sameShape(ct.Shape, c.input(2).Shape), c.portName(2), "%v and %v differ", c.input(2), ct)
	rows := h.b * h.len
	at := make([]int, rows)
	if c.has(3) {
		c.require(len(ct.Shape) == 2 && ct.Shape[1] == half, c.portName(1), "%v for %d angles", ct, half)
		ids := spread(c, c.portName(3), c.ints(3), c.input(3).Shape, []int{h.b, h.len})
		for i, id := range ids {
			at[i] = c.index(3, id, ct.Shape[0])
		}
	} else {
		c.require(sameShape(ct.Shape, []int{h.b, h.len, half}), c.portName(1), "%v for %v", ct, x)
		for i := range at {
			at[i] = i
		}
	}
	interleaved := c.Node.Int("interleaved", 0) != 0
	for b := range h.b {
		for n := range h.n {
			for s := range h.len {
				row := h.row(b, n, s)
				angle := at[b*h.len+s] * half
				for k := range half {
					i, j := k, k+half
					if interleaved {
						i, j = 2*k, 2*k+1
					}
					co, si := cos[angle+k], sin[angle+k]
					row[i], row[j] = co*row[i]-si*row[j], si*row[i]+co*row[j]
				}
				c.spend(dim)
			}
		}
	}
	c.putHeads(0, x.DType, h, len(x.Shape) == 3)
}

// flexAttention is attention with regions that change the scores and the probabilities.
func flexAttention(c *Call) {
	for i := range 3 {
		c.require(len(c.input(i).Shape) == 4, c.portName(i), "rank 4 is expected, found %v", c.input(i))
	}
	q, k, v := c.headsOf(0, 0), c.headsOf(1, 0), c.headsOf(2, 0)
	c.checkHeads(q, k, v)
	dt := c.input(0).DType
	precision := tensor.Float32
	if dt == tensor.Float64 {
		precision = dt
	}
	precision = c.dtypeAttr("softmax_precision", precision)
	shape := []int{q.b, q.n, q.len, k.len}
	p := c.modify("score_mod", precision, shape, c.scores(q, k, c.scaleAttr(q.dim)))
	for o := 0; o+k.len <= len(p) && k.len > 0; o += k.len {
		softmax(p[o : o+k.len])
		c.spend(8 * k.len)
	}
	p = c.modify("prob_mod", precision, shape, p)
	c.putHeads(0, dt, c.weigh(p, q, v), false)
}

// modify runs the region of that name, where the node has it, on v.
func (c *Call) modify(name string, dt tensor.DType, shape []int, v []float64) []float64 {
	g := c.Node.Region(name)
	if g == nil {
		return v
	}
	x, err := tensor.New(dt, shape...)
	c.check(name, err)
	c.check(name, tensor.Encode(x, v))
	out, err := evaluateRegion(c.Ctx, g, x)
	c.check(name, err)
	t, ok := out.(*tensor.Tensor)
	if !ok || !sameShape(t.Shape, shape) {
		c.fail(name, tensor.ErrShape, "the result is %v, expected %v", out, shape)
	}
	return c.floatsOf(name, t)
}

// evaluateRegion runs a region of one input and one output that captures nothing.
func evaluateRegion(ctx context.Context, g *graph.Graph, in tensor.Value) (tensor.Value, error) {
	values := make([]tensor.Value, g.ValueIDs())
	if len(g.Inputs) != 1 || len(g.Outputs) != 1 || len(g.Captures) != 0 {
		return nil, tensor.ErrUnsupported
	}
	values[g.Inputs[0].ID] = in
	for v := range g.Constants() {
		if v.Const == nil {
			return nil, tensor.ErrUnsupported
		}
		values[v.ID] = v.Const
	}
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	for _, n := range order {
		ins := make([]tensor.Value, len(n.Inputs))
		for i, v := range n.Inputs {
			if v != nil {
				ins[i] = values[v.ID]
			}
		}
		outs, err := Evaluate(ctx, n, ins)
		if err != nil {
			return nil, err
		}
		for i, v := range n.Outputs {
			if v != nil {
				values[v.ID] = outs[i]
			}
		}
	}
	return values[g.Outputs[0].ID], nil
}
