package microsoft

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// groupQueryAttention is attention with a cache, in which groups of query heads share the heads of keys and values, rows of a batch
// have lengths of their own, and positions may turn queries and keys.
var groupQueryAttention = operator{
	name: "GroupQueryAttention",
	schema: "in query:T key?:T value?:T past_key?:T_CACHE past_value?:T_CACHE seqlens_k:M total_sequence_length:M cos_cache?:T sin_cache?:T " +
		"position_ids?:tensor(int64) attention_bias?:T head_sink?:T k_scale?:T_KV_SCALE v_scale?:T_KV_SCALE q_norm_weight?:T k_norm_weight?:T\n" +
		"out output:T present_key?:T_CACHE present_value?:T_CACHE output_qk?:T\nat causal:int=1 do_rotary:int k_quant_type:string=NONE kv_cache_bit_width:int " +
		"kv_num_heads:int! local_window_size:int=-1 num_heads:int! qk_norm_epsilon:float=1e-06 qk_output:int=0 rotary_interleaved:int scale:float " +
		"sliding_window_cache:int=0 smooth_softmax:int=-1 softcap:float v_quant_type:string=NONE\n" +
		"ty T=bfloat16,float,float16 T_CACHE=bfloat16,float,float16 T_KV_SCALE=float M=int32",
	infer: inferGroupQuery, eval: func(c *call) error { return groupQuery(c, nil) }, expand: expandGroupQuery, keep: keepsGroupQuery,
}

// Inputs of GroupQueryAttention, by their places.
const (
	GQAQuery = iota
	GQAKey
	GQAValue
	GQAPastKey
	GQAPastValue
	GQALengths // of the rows of the batch, each less one
	GQATotal   // the length of the longest row
	GQACos
	GQASin
	GQAPositions
	GQABias
	GQASink
	GQAKeyScale
	GQAValueScale
	GQAQueryNorm
	GQAKeyNorm
	GQAInputs // how many there are
)

// groupHeads returns the numbers of heads of queries and of keys.
func groupHeads(n *graph.Node) (q, kv int64, err error) {
	q, kv = n.Int("num_heads", 0), n.Int("kv_num_heads", 0)
	if q <= 0 || kv <= 0 || q > 1<<16 || q%kv != 0 {
		return 0, 0, fmt.Errorf("%w: %d heads that share %d", ErrAttribute, q, kv)
	}
	return q, kv, nil
}

// groupRefused returns why a form of the operator is not run.
func groupRefused(n *graph.Node) error {
	switch {
	case n.Str("k_quant_type", "NONE") != "NONE" || n.Str("v_quant_type", "NONE") != "NONE" || n.Input(GQAKeyScale) != nil || n.Input(GQAValueScale) != nil:
		return fmt.Errorf("%w: a quantised cache", ErrUnsupported)
	case n.Output(3) != nil:
		return fmt.Errorf("%w: scores as a result", ErrUnsupported)
	case GQASlides(n) && (n.Int("local_window_size", -1) < 1 || n.Int("causal", 1) == 0 || n.Input(GQAPastKey) == nil):
		return fmt.Errorf("%w: a cache that slides without a window, or without what is in it", ErrShape)
	case GQASlides(n) && n.Input(GQABias) != nil:
		return fmt.Errorf("%w: a bias of scores with a cache that slides", ErrUnsupported)
	case n.Input(GQALengths) == nil || n.Input(GQATotal) == nil:
		return fmt.Errorf("%w: lengths are missing", ErrShape)
	case (n.Input(GQAKey) == nil) != (n.Input(GQAValue) == nil) || (n.Input(GQAPastKey) == nil) != (n.Input(GQAPastValue) == nil):
		return fmt.Errorf("%w: keys without values, or values without keys", ErrShape)
	case n.Int("do_rotary", 0) != 0 && (n.Input(GQACos) == nil || n.Input(GQASin) == nil):
		return fmt.Errorf("%w: rotary embedding without its tables", ErrShape)
	}
	return nil
}

// GQASlides reports whether the caches of a GroupQueryAttention have room for a window, and lose what lies before it.
func GQASlides(n *graph.Node) bool { return n.Int("sliding_window_cache", 0) != 0 }

// GQAResident returns how many rows a cache that slides holds after that many tokens: as many as it has room for, of which those before the
// window are lost at once when it is full.
func GQAResident(tokens, room, window int) int {
	if tokens <= room {
		return tokens
	}
	lost := room - window + 1
	return tokens - lost*((tokens-room+lost-1)/lost)
}

func inferGroupQuery(c *graph.Inference) error {
	if err := groupRefused(c.Node); err != nil {
		return err
	}
	heads, kv, err := groupHeads(c.Node)
	if err != nil {
		return err
	}
	q := c.Shape(GQAQuery)
	if q == nil {
		return nil
	}
	if len(q) != 3 {
		return fmt.Errorf("%w: queries of rank %d", ErrShape, len(q))
	}
	width := q[2]
	if !c.Has(GQAKey) {
		width = width.FloorDiv(graph.D(int(heads + 2*kv))).Scale(heads)
	}
	c.SetType(0, graph.TensorType(c.DType(GQAQuery), graph.Shape{q[0], q[1], width}))
	total, known := groupTotal(c)
	if past := c.Shape(GQAPastKey); c.Has(GQAPastKey) && known {
		if known = len(past) == 4; known {
			total = total.Max(past[2])
		}
	}
	if past := c.Shape(GQAPastKey); GQASlides(c.Node) {
		if known = len(past) == 4; known {
			total = past[2]
		}
	}
	if !known {
		total = c.Fresh()
	}
	cache := graph.Shape{q[0], graph.D(int(kv)), total, width.FloorDiv(graph.D(int(heads)))}
	dt := c.DType(GQAQuery)
	if c.Has(GQAPastKey) {
		dt = c.DType(GQAPastKey)
	}
	c.SetType(1, graph.TensorType(dt, cache))
	c.SetType(2, graph.TensorType(dt, cache))
	return nil
}

// groupTotal returns the length of the longest row, where it is known before a run.
func groupTotal(c *graph.Inference) (total graph.Dim, known bool) {
	if t := c.Const(GQATotal); t != nil && t.Len() == 1 {
		n := t.Int64At(0)
		return graph.D(int(max(n, 0))), true
	}
	if dims, ok := c.Dims(GQATotal); ok && len(dims) == 1 {
		return dims[0], true
	}
	return graph.Dim{}, false
}

// group is one run of GroupQueryAttention.
type group struct {
	c                              *call
	dt, cacheType                  tensor.DType
	batch, length, heads, kv, size int
	past, present                  int       // lengths of the caches; of present ones that slide, before they do
	q                              []float32 // [batch, length, heads, size]
	k, v                           []float32 // [batch, length, kv, size]
	keys, values                   []float32 // [batch, kv, present, size]
	lengths                        []int64   // of each row, without the last
	total                          int
	cos, sin                       []float32
	angles, positions              int // rows and columns of these
	ids                            []int64
	bias, sink                     []float32
	biasShape                      []int
	scale, cap                     float64
	window                         int
	causal, interleaved, smooth    bool
	slides                         bool
	mask                           *blockMask // nil where queries see all keys
}

func groupQuery(c *call, mask *blockMask) error {
	g := &group{c: c, mask: mask}
	for _, f := range []func() error{g.read, g.readCache, g.readExtras, g.normalise, g.rotate, g.fill} {
		if err := f(); err != nil {
			return err
		}
	}
	out := make([]float32, g.batch*g.length*g.heads*g.size)
	scores := make([]float64, g.present)
	for b := range g.batch {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		for h := range g.heads {
			for s := range g.length {
				g.attend(b, h, s, scores, out[((b*g.length+s)*g.heads+h)*g.size:][:g.size])
			}
		}
	}
	if err := c.put(0, g.dt, out, g.batch, g.length, g.heads*g.size); err != nil {
		return err
	}
	if g.slides {
		g.slide()
	}
	if err := c.put(1, g.cacheType, g.keys, g.batch, g.kv, g.present, g.size); err != nil {
		return err
	}
	return c.put(2, g.cacheType, g.values, g.batch, g.kv, g.present, g.size)
}

// slide leaves the latest rows in the caches.
func (g *group) slide() {
	for _, x := range []*[]float32{&g.keys, &g.values} {
		out := make([]float32, g.batch*g.kv*g.past*g.size)
		for head := range g.batch * g.kv {
			b := head / g.kv
			stay, end := GQAResident(g.tokens(b), g.past, g.window), g.before(b)+g.fresh(b)
			copy(out[head*g.past*g.size:], (*x)[(head*g.present+end-stay)*g.size:][:stay*g.size])
		}
		*x = out
	}
	g.present = g.past
}

// tokens returns how many there are of row b, new ones included.
func (g *group) tokens(b int) int { return int(g.lengths[b]) + 1 }

// fresh returns how many of them are new.
func (g *group) fresh(b int) int { return min(g.length, g.tokens(b)) }

// read takes queries, keys and values, apart or packed as heads of one tensor.
func (g *group) read() error {
	if err := groupRefused(g.c.n); err != nil {
		return err
	}
	heads, kv, err := groupHeads(g.c.n)
	if err != nil {
		return err
	}
	g.heads, g.kv = int(heads), int(kv)
	x, err := g.c.input(GQAQuery, 3)
	if err != nil {
		return err
	}
	g.dt, g.cacheType, g.batch, g.length = x.DType, x.DType, x.Shape[0], x.Shape[1]
	in := g.heads
	if !g.c.has(GQAKey) {
		in += 2 * g.kv
	}
	if x.Shape[2] == 0 || x.Shape[2]%in != 0 {
		return fmt.Errorf("%w: %v for %d heads", ErrShape, x, in)
	}
	g.size = x.Shape[2] / in
	all, err := g.c.floats(GQAQuery)
	if err != nil {
		return err
	}
	if g.c.has(GQAKey) {
		g.q = append([]float32{}, all...)
		for i, dst := range []*[]float32{&g.k, &g.v} {
			t := g.c.in[GQAKey+i]
			if t.Rank() != 3 || t.Shape[0] != g.batch || t.Shape[1] != g.length || t.Shape[2] != g.kv*g.size {
				return fmt.Errorf("%w: %v beside %v", ErrShape, t, x)
			}
			v, err := g.c.floats(GQAKey + i)
			if err != nil {
				return err
			}
			*dst = append([]float32{}, v...)
		}
		return nil
	}
	for row := range g.batch * g.length {
		at := all[row*in*g.size:]
		a, b := g.heads*g.size, (g.heads+g.kv)*g.size
		g.q, g.k, g.v = append(g.q, at[:a]...), append(g.k, at[a:b]...), append(g.v, at[b:in*g.size]...)
	}
	return nil
}

// readCache takes the lengths and makes room for past and new keys and values.
func (g *group) readCache() error {
	var err error
	if g.lengths, err = g.c.ints(GQALengths); err != nil {
		return err
	}
	total, err := g.c.ints(GQATotal)
	if err != nil || len(total) != 1 || len(g.lengths) != g.batch || total[0] < 0 || total[0] > 1<<30 {
		return fmt.Errorf("%w: lengths %v in total %v for a batch of %d", ErrShape, g.lengths, total, g.batch)
	}
	g.total = int(total[0])
	if g.c.has(GQAPastKey) {
		for _, i := range []int{GQAPastKey, GQAPastValue} {
			t := g.c.in[i]
			if t.Rank() != 4 || t.Shape[0] != g.batch || t.Shape[1] != g.kv || t.Shape[3] != g.size || i == GQAPastValue && t.Shape[2] != g.past {
				return fmt.Errorf("%w: a cache %v for %d heads of %d", ErrShape, t, g.kv, g.size)
			}
			g.past, g.cacheType = t.Shape[2], t.DType
		}
	}
	if g.mask != nil && g.total > g.mask.blocks*g.mask.size {
		return fmt.Errorf("%w: %d keys in %d blocks of %d", ErrShape, g.total, g.mask.blocks, g.mask.size)
	}
	g.present = max(g.past, g.total)
	g.window = int(min(max(g.c.n.Int("local_window_size", -1), -1), 1<<30))
	if g.slides = GQASlides(g.c.n); g.slides {
		if g.past < g.window {
			return fmt.Errorf("%w: a cache of %d for a window of %d", ErrShape, g.past, g.window)
		}
		g.present = g.past + g.length
	}
	for b := range g.batch {
		n := int(g.lengths[b]) + 1
		if g.lengths[b] < 0 || n > g.total || g.before(b)+g.length > g.present || g.before(b) < 0 || g.before(b) > g.past {
			return fmt.Errorf("%w: a row of length %d, of which %d are new, with a cache of %d for %d", ErrShape, n, g.length, g.past, g.total)
		}
	}
	if n := g.batch * g.kv * g.size; n > 0 && g.present > (1<<33)/n {
		return fmt.Errorf("%w: a cache for %d", ErrShape, g.present)
	}
	g.keys, g.values = make([]float32, g.batch*g.kv*g.present*g.size), make([]float32, g.batch*g.kv*g.present*g.size)
	return nil
}

// before returns how many of row b are in the cache: none of a prompt, whose rows may be padded on the right.
func (g *group) before(b int) int {
	n := g.seen(b)
	if g.slides && n >= 0 {
		return GQAResident(n, g.past, g.window)
	}
	return n
}

// seen returns how many of row b came before.
func (g *group) seen(b int) int {
	if g.length == g.total {
		return 0
	}
	return g.tokens(b) - g.length
}

// readExtras takes what may be there beside.
func (g *group) readExtras() (err error) {
	n := g.c.n
	if g.scale = float64(n.Float("scale", 0)); g.scale == 0 {
		g.scale = 1 / math.Sqrt(float64(g.size))
	}
	g.cap = float64(n.Float("softcap", 0))
	g.causal, g.interleaved, g.smooth = n.Int("causal", 1) != 0, n.Int("rotary_interleaved", 0) != 0, n.Int("smooth_softmax", -1) > 0
	if g.c.has(GQASink) {
		if g.sink, err = g.c.floats(GQASink); err != nil || len(g.sink) != g.heads {
			return fmt.Errorf("%w: %d sinks for %d heads: %w", ErrShape, len(g.sink), g.heads, err)
		}
	}
	if g.c.has(GQABias) {
		t, err := g.c.input(GQABias, 4)
		if err != nil {
			return err
		}
		if t.Shape[0] != 1 && t.Shape[0] != g.batch || t.Shape[1] != 1 && t.Shape[1] != g.heads || t.Shape[2] != g.length || t.Shape[3] < g.total {
			return fmt.Errorf("%w: a bias %v for %d queries of %d keys", ErrShape, t, g.length, g.total)
		}
		g.biasShape = t.Shape
		if g.bias, err = g.c.floats(GQABias); err != nil {
			return err
		}
	}
	return nil
}

// normalise divides queries and keys of each head by the root of their mean square, where there are weights for that.
func (g *group) normalise() error {
	for _, x := range []struct {
		weight int
		v      []float32
	}{{GQAQueryNorm, g.q}, {GQAKeyNorm, g.k}} {
		if !g.c.has(x.weight) {
			continue
		}
		w, err := g.c.floats(x.weight)
		if err != nil {
			return err
		}
		if len(w) != g.size {
			return fmt.Errorf("%w: %d weights for heads of %d", ErrShape, len(w), g.size)
		}
		eps := float64(g.c.n.Float("qk_norm_epsilon", 1e-6))
		for at := 0; at < len(x.v); at += g.size {
			row, sum := x.v[at:][:g.size], 0.0
			for _, e := range row {
				sum += float64(e) * float64(e)
			}
			r := 1 / math.Sqrt(sum/float64(g.size)+eps)
			for i, e := range row {
				row[i] = float32(float64(e) * r * float64(w[i]))
			}
		}
	}
	return nil
}

// rotate turns queries and keys by the angles of their positions.
func (g *group) rotate() (err error) {
	if g.c.n.Int("do_rotary", 0) == 0 {
		return nil
	}
	if g.cos, err = g.c.floats(GQACos); err != nil {
		return err
	}
	if g.sin, err = g.c.floats(GQASin); err != nil {
		return err
	}
	t, u := g.c.in[GQACos], g.c.in[GQASin]
	if t.Rank() != 2 || u.Rank() != 2 || t.Shape[0] != u.Shape[0] || t.Shape[1] != u.Shape[1] || 2*t.Shape[1] > g.size {
		return fmt.Errorf("%w: tables %v and %v for heads of %d", ErrShape, t, u, g.size)
	}
	if g.positions, g.angles = t.Shape[0], t.Shape[1]; g.c.has(GQAPositions) {
		if g.ids, err = g.c.ints(GQAPositions); err != nil {
			return err
		}
		if len(g.ids) != g.batch*g.length {
			return fmt.Errorf("%w: %d positions", ErrShape, len(g.ids))
		}
	}
	for b := range g.batch {
		for s := range g.length {
			at := int64(g.seen(b) + s)
			if g.ids != nil {
				at = g.ids[b*g.length+s]
			}
			if at < 0 || at >= int64(g.positions) {
				return fmt.Errorf("%w: position %d of %d", ErrShape, at, g.positions)
			}
			row := b*g.length + s
			g.turn(g.q[row*g.heads*g.size:][:g.heads*g.size], int(at))
			g.turn(g.k[row*g.kv*g.size:][:g.kv*g.size], int(at))
		}
	}
	return nil
}

// turn turns all heads of one token.
func (g *group) turn(x []float32, at int) {
	cos, sin := g.cos[at*g.angles:][:g.angles], g.sin[at*g.angles:][:g.angles]
	for ; len(x) >= g.size; x = x[g.size:] {
		for i := range cos {
			j, k := i, i+g.angles
			if g.interleaved {
				j, k = 2*i, 2*i+1
			}
			a, b := x[j], x[k]
			x[j], x[k] = a*cos[i]-b*sin[i], b*cos[i]+a*sin[i]
		}
	}
}

// fill puts past and new keys and values into the caches.
func (g *group) fill() error {
	for i, x := range []struct{ dst, now []float32 }{{g.keys, g.k}, {g.values, g.v}} {
		var past []float32
		if g.c.has(GQAPastKey) {
			var err error
			if past, err = g.c.floats(GQAPastKey + i); err != nil {
				return err
			}
		}
		for b := range g.batch {
			n := g.before(b)
			for h := range g.kv {
				dst := x.dst[(b*g.kv+h)*g.present*g.size:][:g.present*g.size]
				if past != nil && g.past == g.present && !g.slides { // one buffer: what is behind the end stays
					copy(dst, past[(b*g.kv+h)*g.past*g.size:])
				} else if past != nil {
					copy(dst[:n*g.size], past[(b*g.kv+h)*g.past*g.size:])
				}
				for s := range g.length {
					copy(dst[(n+s)*g.size:][:g.size], x.now[((b*g.length+s)*g.kv+h)*g.size:])
				}
			}
		}
		if err := rounded(x.dst, g.cacheType); err != nil { // queries see what the caches hold
			return err
		}
	}
	return nil
}

// rounded rounds numbers to those of a type.
func rounded(x []float32, dt tensor.DType) error {
	if dt == tensor.Float32 {
		return nil
	}
	t, err := tensor.Convert(tensor.From(x, len(x)), dt, nil)
	if err != nil {
		return err
	}
	if t, err = tensor.Convert(t, tensor.Float32, nil); err == nil {
		copy(x, tensor.Of[float32](t))
	}
	return err
}

// attend computes one query of one head.
func (g *group) attend(b, h, s int, scores []float64, out []float32) {
	end := int(g.lengths[b]) + 1
	at := g.before(b) + s
	if g.causal {
		end = at + 1
	}
	begin := 0
	if g.window >= 0 {
		begin = max(0, at+1-g.window)
	}
	kv := (b*g.kv + h/(g.heads/g.kv)) * g.present * g.size
	q := g.q[((b*g.length+s)*g.heads+h)*g.size:][:g.size]
	most := math.Inf(-1)
	if g.smooth {
		most = 0
	}
	if g.sink != nil {
		most = float64(g.sink[h])
	}
	for j := begin; j < end; j++ {
		if !g.mask.sees(h, at, j) {
			scores[j] = math.Inf(-1)
			continue
		}
		var dot float32
		for i, k := range g.keys[kv+j*g.size:][:g.size] {
			dot += q[i] * k
		}
		x := float64(dot) * g.scale
		if g.cap > 0 {
			x = g.cap * math.Tanh(x/g.cap)
		}
		x += g.biasAt(b, h, s, j)
		scores[j] = x
		most = max(most, x)
	}
	sum := 0.0
	if g.sink != nil {
		sum = math.Exp(float64(g.sink[h]) - most)
	} else if g.smooth {
		sum = math.Exp(-most)
	}
	for j := begin; j < end; j++ {
		scores[j] = math.Exp(scores[j] - most)
		sum += scores[j]
	}
	for j := begin; j < end; j++ {
		p := float32(scores[j] / sum)
		for i, v := range g.values[kv+j*g.size:][:g.size] {
			out[i] += p * v
		}
	}
}

func (g *group) biasAt(b, h, s, j int) float64 {
	if g.bias == nil || j >= g.biasShape[3] {
		return 0
	}
	b, h = min(b, g.biasShape[0]-1), min(h, g.biasShape[1]-1)
	return float64(g.bias[((b*g.biasShape[1]+h)*g.biasShape[2]+s)*g.biasShape[3]+j])
}
