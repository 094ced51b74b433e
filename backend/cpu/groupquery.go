package cpu

import (
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// GroupQueryAttention, attention with a cache of keys and values, whose rows of a batch have lengths of their own that are known in a
// run only. The new keys and values are written into the cache first, behind the past ones or in their tensor; then the queries of the
// heads that share keys are rows of one product.

func groupQuerySignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if n.Output(1) == nil || n.Output(2) == nil || n.Output(3) != nil {
		return nil, property.Because(property.Unsupported, "%v without resulting caches, or with scores", n)
	}
	cached := n.Outputs[1].Type.DType
	for i, v := range n.Inputs {
		switch {
		case v == nil || i == microsoft.GQALengths || i == microsoft.GQATotal || i == microsoft.GQAPositions:
		case i == microsoft.GQAPastKey || i == microsoft.GQAPastValue:
			if v.Type.DType != cached {
				return nil, property.Because(property.DTypeReason, "%v with caches of several types", n)
			}
		case !operators.IsFloat32(v):
			return nil, operators.NotFloat32(v)
		}
	}
	if cached != n.Outputs[2].Type.DType || cached != tensor.Float32 && !isHalf(cached) {
		return nil, property.Because(property.DTypeReason, "%v with caches of %v", n, cached)
	}
	return operators.RowMajor(n), nil
}

// groupQuery is GroupQueryAttention of known shapes.
type groupQuery struct {
	n                                     *graph.Node
	kernels                               vec.Kernels
	target                                isa.Target
	batch, rows, heads, own, share, size  int // share heads of queries in a row have one of the own heads of keys
	past, present                         int // rows of the operands' caches, and of the results'
	packed                                bool
	angles, positions                     int // columns and rows of the rotary tables; no angles without rotary embedding
	bias                                  [4]int
	scale, limit, epsilon                 float32 // limit is softcap, 0 for none
	window                                int     // -1 for none
	causal, smooth, interleaved, identity bool    // identity: positions are those of the tokens
	slides                                bool    // caches have room for room rows, and are written into present ones before
	room                                  int
	block, blocks                         int             // rows of a product, of the share·rows of a head of keys, and products
	width                                 int             // from one row of scores to the next
	half                                  reorder.Element // of the caches, where halved is set
	halved                                bool
	products                              [2]*groupProducts
}

// newGroupQuery reads a node, given the dims of its operands, nil for omitted ones, and the rows of the resulting caches.
func newGroupQuery(e *executable, n *graph.Node, dims [][]int, present int) (*groupQuery, error) {
	q := dims[microsoft.GQAQuery]
	g := &groupQuery{n: n, kernels: vec.For(e.target), target: e.target, batch: q[0], rows: q[1], heads: int(n.Int("num_heads", 0)), own: int(n.Int("kv_num_heads", 0)),
		present: present, packed: dims[microsoft.GQAKey] == nil, limit: n.Float("softcap", 0), epsilon: n.Float("qk_norm_epsilon", 1e-6),
		window: int(min(max(n.Int("local_window_size", -1), -1), math.MaxInt32)), causal: n.Int("causal", 1) != 0, smooth: n.Int("smooth_softmax", -1) > 0,
		interleaved: n.Int("rotary_interleaved", 0) != 0, identity: dims[microsoft.GQAPositions] == nil, scale: n.Float("scale", 0)}
	g.half, g.halved = halves[n.Outputs[1].Type.DType]
	all := g.heads
	if g.packed {
		all += 2 * g.own
	}
	if g.own < 1 || g.heads < 1 || g.heads%g.own != 0 || q[2] == 0 || q[2]%all != 0 {
		return nil, property.Because(property.ShapeReason, "%v for %d heads that share %d", q, g.heads, g.own)
	}
	g.share, g.size = g.heads/g.own, q[2]/all
	if g.slides = microsoft.GQASlides(n); g.slides {
		g.room, g.present = present, present+g.rows
	}
	if g.scale == 0 {
		g.scale = float32(1 / math.Sqrt(float64(g.size)))
	}
	if dims[microsoft.GQAPastKey] != nil {
		g.past = dims[microsoft.GQAPastKey][2]
	}
	if n.Int("do_rotary", 0) != 0 {
		g.positions, g.angles = dims[microsoft.GQACos][0], dims[microsoft.GQACos][1]
	}
	if why := g.misfit(dims); why != nil {
		return nil, why
	}
	const scores = 1 << 19 // of a worker
	g.width = 1<<bits.Len(uint(g.present)) + 16
	g.block = max(min(g.share*g.rows, blockRows, max(scores/g.width, directRows)), 1)
	g.blocks = ceilDiv(g.share*g.rows, g.block)
	plans, err := keep(e, n, func() (*groupPlans, error) { return &groupPlans{made: map[[2]int]*groupProducts{}}, nil })
	if err != nil {
		return nil, err
	}
	for i, rows := range []int{g.block, g.share*g.rows - (g.blocks-1)*g.block} {
		if g.products[i], err = plans.of(g, rows); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// misfit returns why operands do not fit together, nil where they do.
func (g *groupQuery) misfit(dims [][]int) *property.Reason {
	fits := func(i int, want ...int) bool { return dims[i] == nil || slices.Equal(dims[i], want) }
	switch {
	case dims[microsoft.GQALengths] == nil || dims[microsoft.GQATotal] == nil:
		return property.Because(property.ShapeReason, "%v without lengths", g.n)
	case !fits(microsoft.GQAKey, g.batch, g.rows, g.own*g.size) || !fits(microsoft.GQAValue, g.batch, g.rows, g.own*g.size):
		return property.Because(property.ShapeReason, "keys %v and values %v of %v", dims[microsoft.GQAKey], dims[microsoft.GQAValue], g.n)
	case g.slides && (g.past != g.room || g.window > g.room):
		return property.Because(property.ShapeReason, "caches of %d rows and %d for a window of %d", g.past, g.room, g.window)
	case !fits(microsoft.GQAPastKey, g.batch, g.own, g.past, g.size) || !fits(microsoft.GQAPastValue, g.batch, g.own, g.past, g.size) || g.past > g.present:
		return property.Because(property.ShapeReason, "caches %v and %v of %v, for %d", dims[microsoft.GQAPastKey], dims[microsoft.GQAPastValue], g.n, g.present)
	case product(dims[microsoft.GQALengths]) != g.batch || product(dims[microsoft.GQATotal]) != 1 || !g.identity && product(dims[microsoft.GQAPositions]) != g.batch*g.rows:
		return property.Because(property.ShapeReason, "lengths %v, %v and positions %v of %v", dims[microsoft.GQALengths], dims[microsoft.GQATotal], dims[microsoft.GQAPositions], g.n)
	case g.angles > 0 && (2*g.angles > g.size || !fits(microsoft.GQASin, g.positions, g.angles)):
		return property.Because(property.ShapeReason, "tables %v and %v for heads of %d", dims[microsoft.GQACos], dims[microsoft.GQASin], g.size)
	case !fits(microsoft.GQASink, g.heads) || !fits(microsoft.GQAQueryNorm, g.size) || !fits(microsoft.GQAKeyNorm, g.size):
		return property.Because(property.ShapeReason, "sinks %v and weights %v, %v of %v", dims[microsoft.GQASink], dims[microsoft.GQAQueryNorm], dims[microsoft.GQAKeyNorm], g.n)
	}
	if b := dims[microsoft.GQABias]; b != nil {
		if len(b) != 4 || b[0] != 1 && b[0] != g.batch || b[1] != 1 && b[1] != g.heads || b[2] != g.rows {
			return property.Because(property.ShapeReason, "bias %v of %v", b, g.n)
		}
		g.bias = [4]int(b)
	}
	return nil
}

// groupPlans are products by the rows of a block and the distance of rows of scores: a cache that grows comes by few.
type groupPlans struct {
	mu   sync.Mutex
	made map[[2]int]*groupProducts
}

func (x *groupPlans) of(g *groupQuery, rows int) (*groupProducts, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := [2]int{rows, g.width}
	if p := x.made[key]; p != nil {
		return p, nil
	}
	p, err := newGroupProducts(g.target, rows, g.size, g.width)
	if err == nil && len(x.made) < 256 {
		x.made[key] = p
	}
	return p, err
}

// scratchFloats is what a worker works in: queries, scores and sums of a block, keys in panels, and keys or values that are made floats, of
// which a row serves where caches are written.
func (g *groupQuery) scratchFloats() int {
	n := g.block*(2*g.size+g.width) + g.products[0].panels()
	if g.halved {
		n += g.size << groupKeysLog
	}
	return n
}

// element is the size of those of the caches.
func (g *groupQuery) element() int {
	if g.halved {
		return 2
	}
	return 4
}

// items are the blocks of all heads of keys.
func (g *groupQuery) items() int { return g.batch * g.own * g.blocks }

// nanos estimates the time of an item.
func (g *groupQuery) nanos() float64 {
	return 200 + float64(g.block*g.present)*(float64(2*g.size)/30+1) + float64(2*g.present*g.size)/10
}

// planGroupQuery emits the steps where shapes tell the rows of the caches that result.
func planGroupQuery(p *planner, n *graph.Node) error {
	dims := make([][]int, microsoft.GQAInputs)
	var at [microsoft.GQAInputs]place.Memory
	var reads []place.Memory
	for i := range at {
		if at[i] = place.Nowhere; n.Input(i) != nil {
			dims[i], at[i] = append([]int{}, p.Dims[n.Inputs[i].ID]...), p.In(n.Inputs[i]) // those of a scalar are not nil
			reads = append(reads, at[i])
		}
	}
	present := 0
	writes := []place.Memory{p.Out(n.Outputs[0])}
	var caches, olds [2]cachePlace
	for i := range caches {
		v := n.Outputs[1+i]
		olds[i], caches[i] = cachePlace{at[microsoft.GQAPastKey+i], -1}, cachePlace{p.Out(v), -1}
		present = p.Dims[v.ID][2]
		writes = append(writes, caches[i].at)
		if old := n.Input(microsoft.GQAPastKey + i); p.grows(old, v) {
			input, output := slices.Index(p.Sub.Inputs, old), slices.Index(p.Sub.Outputs, v)
			if x := (backend.InPlace{Output: output, Input: input}); !slices.Contains(p.Reqs.Extends, x) {
				p.Reqs.Extends = append(p.Reqs.Extends, x)
			}
			olds[i].port, caches[i].port = input, output
		}
	}
	g, err := newGroupQuery(p.e, n, dims, present)
	if err != nil {
		return err
	}
	staged, results := [2]cachePlace{}, writes[1:]
	if g.slides { // what a step still reads may be lost in the caches that it leaves
		for i := range staged {
			staged[i] = cachePlace{p.Temp(g.element() * g.batch * g.own * g.present * g.size), -1}
		}
		results = []place.Memory{staged[0].at, staged[1].at}
	}
	bind := func(st *state, r *groupRun) {
		for i, dst := range r.floats() {
			if dst != nil {
				*dst = st.F32(at[i])
			}
		}
		r.lengths, r.total, r.ids = of[int32](st, at[microsoft.GQALengths]), of[int32](st, at[microsoft.GQATotal]), of[int64](st, at[microsoft.GQAPositions])
		r.y = st.F32(writes[0])
		for i := range caches {
			if g.past > 0 {
				r.old[i] = olds[i].in(st, st.a.Inputs, g, g.past)
			}
			if r.cache[i] = caches[i].in(st, st.a.Outputs, g, present); g.slides {
				r.left[i], r.cache[i] = r.cache[i], staged[i].in(st, nil, g, g.present)
			}
		}
	}
	floats := ceilDiv(g.scratchFloats(), 16) * 16
	scratch := p.scratch(4 * floats)
	p.emit(step{chunks: g.batch * g.own, grain: grainFor(float64(g.rows * g.size)), serial: func(st *state) {
		var r groupRun
		bind(st, &r)
		st.err = g.check(&r)
	}, body: func(st *state, worker, lo, hi int) {
		var r groupRun
		bind(st, &r)
		for i := lo; i < hi; i++ {
			g.store(&r, scratch.floats(st, worker), i/g.own, i%g.own)
		}
	}}, reads, append(results[:2:2], scratch.at))
	p.emit(step{work: 1, chunks: g.items(), grain: grainFor(g.nanos()), body: func(st *state, worker, lo, hi int) {
		var r groupRun
		bind(st, &r)
		for i := lo; i < hi; i++ {
			g.attend(&r, scratch.floats(st, worker), i)
		}
	}}, append(reads, results...), []place.Memory{writes[0], scratch.at})
	if g.slides {
		p.planSlide(g, bind, append(reads, results...), writes[1:])
	}
	return nil
}

// planSlide emits the step that leaves in the caches what stays of them.
func (p *planner) planSlide(g *groupQuery, bind func(st *state, r *groupRun), reads, writes []place.Memory) {
	p.emit(step{chunks: g.batch * g.own, grain: grainFor(float64(g.room*g.size) / 10), body: func(st *state, _, lo, hi int) {
		var r groupRun
		bind(st, &r)
		for i := lo; i < hi; i++ {
			g.slide(&r, i/g.own, i%g.own)
		}
	}}, reads, writes)
}

// grows reports whether a resulting cache may lie in the place of the one that it continues.
func (p *planner) grows(old, v *graph.Value) bool {
	return old != nil && old.IsInput() && v.IsOutput() && old.NumUses() == 1 && v.NumUses() == 0 && !old.IsOutput() && old.Format == rowMaj && v.Format == rowMaj &&
		slices.Index(p.Sub.Outputs, v) >= 0 && slices.Index(p.Sub.Inputs, old) >= 0
}

// cachePlace is where a cache lies; port is the group's that may have strides of the run's, -1 for none.
type cachePlace struct {
	at   place.Memory
	port int
}

func (c *cachePlace) in(st *state, ports []*tensor.Tensor, g *groupQuery, rows int) cacheRows {
	if c.port >= 0 {
		if t := ports[c.port]; t.Strides != nil {
			return cacheRows{t.Data[t.Offset:], t.Strides[0] * g.element(), t.Strides[1] * g.element(), g.size * g.element()}
		}
	}
	return g.compact(st.Bytes(c.at), rows)
}

// compact is a cache of so many rows that lies together.
func (g *groupQuery) compact(b []byte, rows int) cacheRows {
	row := g.size * g.element()
	return cacheRows{b, g.own * rows * row, rows * row, row}
}

// chooseGroupQuery runs the operator where an operand's number tells how long the resulting caches are.
func chooseGroupQuery(c *choice) error {
	if microsoft.GQASlides(c.in.n) {
		return property.Because(property.ShapeReason, "%v with a cache of unknown shape", c.in.n)
	}
	dims := make([][]int, microsoft.GQAInputs)
	for i := range dims {
		if t := c.operand(i); t != nil {
			dims[i] = append([]int{}, t.Shape...)
		}
	}
	var r groupRun
	for i, dst := range r.floats() {
		if dst != nil && dims[i] != nil {
			*dst = place.Elements[float32](c.x[i].Bytes())
		}
	}
	if dims[microsoft.GQAPositions] != nil {
		r.ids = place.Elements[int64](c.x[microsoft.GQAPositions].Bytes())
	}
	r.lengths, r.total = place.Elements[int32](c.x[microsoft.GQALengths].Bytes()), place.Elements[int32](c.x[microsoft.GQATotal].Bytes())
	present := 0
	if len(r.total) == 1 {
		present = int(r.total[0])
	}
	if dims[microsoft.GQAPastKey] != nil {
		present = max(present, dims[microsoft.GQAPastKey][2])
	}
	g, err := newGroupQuery(c.in.e, c.in.n, dims, present)
	if err != nil {
		return err
	}
	if err := g.check(&r); err != nil {
		return err
	}
	for i := range r.cache {
		shape := []int{g.batch, g.own, g.present, g.size}
		size := g.element() * product(shape)
		b, err := c.result(1+i, c.in.n.Outputs[1+i].Type.DType, shape)
		if err != nil {
			return err
		}
		if b == nil {
			if err := c.reserve(size); err != nil {
				return err
			}
			b = make([]byte, size)
		}
		if r.cache[i] = g.compact(b, g.present); g.past > 0 {
			r.old[i] = g.compact(c.x[microsoft.GQAPastKey+i].Bytes(), g.past)
		}
	}
	y, err := c.result(0, tensor.Float32, []int{g.batch, g.rows, g.heads * g.size})
	if err != nil {
		return err
	}
	if y == nil {
		y = make([]byte, 4*g.batch*g.rows*g.heads*g.size)
	}
	r.y = place.Elements[float32](y)
	workers := max(c.in.threads, 1)
	if err := c.reserve(4 * g.scratchFloats() * workers); err != nil {
		return err
	}
	if n := g.scratchFloats() * workers; len(c.scores) < n {
		c.scores = make([]float32, n)
	}
	c.workers().For(g.batch*g.own, 1, func(arg any, worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			g.store(arg.(*groupRun), c.scores[worker*g.scratchFloats():], i/g.own, i%g.own)
		}
	}, &r)
	c.workers().For(g.items(), grainFor(g.nanos()), func(arg any, worker, lo, hi int) {
		for i := lo; i < hi && c.ctx.Err() == nil; i++ {
			g.attend(arg.(*groupRun), c.scores[worker*g.scratchFloats():], i)
		}
	}, &r)
	return c.ctx.Err()
}

func init() {
	table.Register(operators.Of(microsoft.Domain, "GroupQueryAttention"), operator{Signatures: groupQuerySignatures, Plan: planGroupQuery})
}
