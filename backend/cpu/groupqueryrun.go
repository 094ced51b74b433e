package cpu

import (
	"unsafe"

	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// cacheRows is a cache [batch, heads, rows, size] in memory; rows of a head are neighbours.
type cacheRows struct {
	x                []byte
	batch, head, row int // bytes from one to the next
}

// from returns the memory of a head from some row on.
func (c *cacheRows) from(batch, head, row int) []byte {
	return c.x[batch*c.batch+head*c.head+row*c.row:]
}

// groupRun is where operands and results are in a run.
type groupRun struct {
	q, k, v              []float32
	cos, sin, bias, sink []float32
	normQ, normK         []float32
	lengths, total       []int32
	ids                  []int64
	old, cache           [2]cacheRows // of keys and of values
	left                 [2]cacheRows // what stays of cache where it slides
	y                    []float32
}

// floats returns where operands of floats are written down, nil for those that are not, and for caches.
func (r *groupRun) floats() [microsoft.GQAInputs]*[]float32 {
	return [microsoft.GQAInputs]*[]float32{microsoft.GQAQuery: &r.q, microsoft.GQAKey: &r.k, microsoft.GQAValue: &r.v, microsoft.GQACos: &r.cos, microsoft.GQASin: &r.sin, microsoft.GQABias: &r.bias, microsoft.GQASink: &r.sink,
		microsoft.GQAQueryNorm: &r.normQ, microsoft.GQAKeyNorm: &r.normK}
}

// before returns how many rows of a batch's row are in the cache: none of a prompt, whose rows may be padded on the right.
func (g *groupQuery) before(r *groupRun, b int) int {
	n := g.seen(r, b)
	if g.slides && n >= 0 {
		return microsoft.GQAResident(n, g.room, g.window)
	}
	return n
}

// seen returns how many tokens of a batch's row came before.
func (g *groupQuery) seen(r *groupRun, b int) int {
	if g.rows == int(r.total[0]) {
		return 0
	}
	return int(r.lengths[b]) + 1 - g.rows
}

// check looks at lengths and positions, before anything goes by them.
func (g *groupQuery) check(r *groupRun) error {
	total := int(r.total[0])
	if total < 0 || !g.slides && max(total, g.past) != g.present {
		return property.Because(property.ShapeReason, "%v: a cache of %d for %d", g.n, g.present, total)
	}
	for b := range g.batch {
		before := g.before(r, b)
		if r.lengths[b] < 0 || int(r.lengths[b]) >= total || before < 0 || before > g.past || before+g.rows > g.present || g.bias[2] > 0 && g.bias[3] < total {
			return property.Because(property.ShapeReason, "%v: a row of length %d, of which %d are new, in a cache of %d for %d", g.n, int(r.lengths[b])+1, g.rows, g.past, total)
		}
		for s := range g.rows {
			if at := g.position(r, b, s); g.angles > 0 && (at < 0 || at >= g.positions) {
				return property.Because(property.ShapeReason, "%v: position %d of %d", g.n, at, g.positions)
			}
		}
	}
	return nil
}

// position returns what a new row is turned by.
func (g *groupQuery) position(r *groupRun, b, s int) int {
	if g.identity {
		return g.seen(r, b) + s
	}
	return int(r.ids[b*g.rows+s])
}

// heads returns the new rows of one of all heads, of queries, then keys, then values.
func (g *groupQuery) head(r *groupRun, b, s, head int) []float32 {
	row := b*g.rows + s
	switch {
	case g.packed:
		return r.q[(row*(g.heads+2*g.own)+head)*g.size:][:g.size]
	case head < g.heads:
		return r.q[(row*g.heads+head)*g.size:][:g.size]
	case head < g.heads+g.own:
		return r.k[(row*g.own+head-g.heads)*g.size:][:g.size]
	}
	return r.v[(row*g.own+head-g.heads-g.own)*g.size:][:g.size]
}

// prepare writes a query or a key as it is multiplied: normalised, turned.
func (g *groupQuery) prepare(r *groupRun, dst, x, norm []float32, b, s int) {
	if norm != nil {
		g.kernels.RMSNorm(dst, g.size, x, g.size, norm, nil, 1, g.size, g.epsilon)
	} else {
		copy(dst, x)
	}
	if g.angles == 0 {
		return
	}
	at := g.position(r, b, s) * g.angles
	cos, sin := r.cos[at:][:g.angles], r.sin[at:][:g.angles]
	if g.interleaved {
		for i, c := range cos {
			a, b := dst[2*i], dst[2*i+1]
			dst[2*i], dst[2*i+1] = a*c-b*sin[i], b*c+a*sin[i]
		}
		return
	}
	low, high := dst[:g.angles], dst[g.angles:]
	element.Turns{Rows: 1, Pairs: g.angles}.Rotate(g.target.Set, low, high, low, high, cos, sin)
}

// store writes a head's caches. Scratch has room for a row.
func (g *groupQuery) store(r *groupRun, scratch []float32, b, head int) {
	before, size := g.before(r, b), g.size*g.element()
	for i := range r.cache {
		dst := r.cache[i].from(b, head, 0)[:g.present*size]
		filled := 0
		if g.past > 0 {
			old := r.old[i].from(b, head, 0)[:g.past*size]
			if filled = before; g.past == g.present {
				filled = g.past // what is behind the end stays
			}
			if filled > 0 && unsafe.SliceData(old) != unsafe.SliceData(dst) {
				copy(dst, old[:filled*size])
			}
		}
		if end := max(before+g.rows, filled); end < g.present {
			clear(dst[end*size:])
		}
		for s := range g.rows {
			to := dst[(before+s)*size:][:size]
			row := scratch[:g.size]
			if !g.halved {
				row = place.Elements[float32](to)
			}
			if i == 0 {
				g.prepare(r, row, g.head(r, b, s, g.heads+head), r.normK, b, s)
			} else {
				copy(row, g.head(r, b, s, g.heads+g.own+head))
			}
			if g.halved {
				reorder.ToHalf(g.target, place.Elements[uint16](to), row, g.half)
			}
		}
	}
}

// slide writes what stays of a head's caches: the latest rows.
func (g *groupQuery) slide(r *groupRun, b, head int) {
	tokens := int(r.lengths[b]) + 1
	stay, end := microsoft.GQAResident(tokens, g.room, g.window), g.before(r, b)+min(g.rows, tokens)
	for i := range r.left {
		size := g.size * g.element()
		dst := r.left[i].from(b, head, 0)[:g.room*size]
		copy(dst, r.cache[i].from(b, head, end-stay)[:stay*size])
		clear(dst[stay*size:])
	}
}

// groupProducts are the products of so many rows with keys and values, of which there are as many as a run says: they are taken in
// parts of a power of 2.
type groupProducts struct {
	rows, size int
	packed     bool         // keys are brought into panels, some at a time
	keys       []*gemm.Plan // by the logarithm of their number
	values     []*gemm.Plan
}

// Logarithms of how many keys and values are taken at a time.
const (
	groupKeysLog   = 8
	groupValuesLog = 10
)

func newGroupProducts(t isa.Target, rows, size, width int) (*groupProducts, error) {
	p := &groupProducts{rows: rows, size: size, packed: rows > directRows}
	for k := 0; k <= groupValuesLog && 1<<k <= max(width, gemm.Panel); k++ {
		spec := gemm.Spec{M: rows, N: 1 << k, K: size, LDC: width, B: gemm.Columns}
		if p.packed {
			spec.B = gemm.Packed
		}
		if k <= groupKeysLog {
			x, err := gemm.NewPlan(t, spec)
			if err != nil {
				return nil, err
			}
			p.keys = append(p.keys, x)
		}
		x, err := gemm.NewPlan(t, gemm.Spec{M: rows, N: size, K: 1 << k, LDA: width, B: gemm.Rows, Residual: true})
		if err != nil {
			return nil, err
		}
		p.values = append(p.values, x)
	}
	return p, nil
}

// panels returns the floats of the panels.
func (p *groupProducts) panels() int {
	if !p.packed {
		return 0
	}
	return gemm.PackedLen(p.size, 1<<groupKeysLog)
}

// cached are rows of a cache of one head, which are made floats in room, for 1<<groupKeysLog rows, where they are halved.
type cached struct {
	g    *groupQuery
	rows []byte
	room []float32
}

// from returns n rows from one on.
func (c *cached) from(at, n int) []float32 {
	size := c.g.size
	if !c.g.halved {
		return place.Elements[float32](c.rows)[at*size:]
	}
	reorder.FromHalf(c.g.target, c.room[:n*size], place.Elements[uint16](c.rows)[at*size:][:n*size], c.g.half)
	return c.room
}

// scores writes the products of queries with n keys.
func (p *groupProducts) scores(dst, q []float32, keys *cached, panels []float32, n int) {
	for at, k := 0, len(p.keys)-1; at < n; {
		for k > 0 && 1<<k > n-at && (!p.packed || 1<<k > gemm.Panel) {
			k--
		}
		plan, b := p.keys[k], keys.from(at, min(1<<k, n-at))
		if p.packed { // the rest of a panel is of zeros, and so are its scores, which nobody reads
			gemm.PackBT(plan.Target(), panels, b, p.size, min(1<<k, n-at), p.size)
			b = panels
		}
		plan.Run(0, plan.Chunks(), gemm.Args{A: q, B: b, C: dst[at:]})
		at += 1 << k
	}
}

// mix writes the sums of n values with weights.
func (p *groupProducts) mix(dst, weights []float32, values *cached, n int) {
	clear(dst[:p.rows*p.size])
	k := len(p.values) - 1
	if values.g.halved {
		k = min(k, groupKeysLog)
	}
	for at := 0; at < n; at += 1 << k {
		for 1<<k > n-at {
			k--
		}
		p.values[k].Run(0, p.values[k].Chunks(), gemm.Args{A: weights[at:], B: values.from(at, 1<<k), Res: dst, C: dst})
	}
}

// span returns which keys a query sees, [begin, end).
func (g *groupQuery) span(r *groupRun, b, s int) (begin, end int) {
	at := g.before(r, b) + s
	if end = int(r.lengths[b]) + 1; g.causal {
		end = at + 1
	}
	if g.window >= 0 {
		begin = max(0, at+1-g.window)
	}
	return begin, end
}

// attend computes a block of queries: of its rows those of one token are neighbours.
func (g *groupQuery) attend(r *groupRun, scratch []float32, item int) {
	block, head := item%g.blocks, item/g.blocks
	b, head := head/g.own, head%g.own
	products := g.products[0]
	if block == g.blocks-1 {
		products = g.products[1]
	}
	q, rest := scratch[:products.rows*g.size], scratch[g.block*g.size:]
	sums, rest := rest[:products.rows*g.size], rest[g.block*g.size:]
	scores, panels := rest[:products.rows*g.width], rest[g.block*g.width:]
	room := panels[g.products[0].panels():]
	scale := g.scale
	if g.limit > 0 {
		scale /= g.limit
	}
	first, low, high := block*g.block, g.present, 0
	for i := range products.rows {
		s, h := (first+i)/g.share, head*g.share+(first+i)%g.share
		row := q[i*g.size:][:g.size]
		g.prepare(r, row, g.head(r, b, s, h), r.normQ, b, s)
		g.kernels.BinaryScalar(vec.Mul, row, row, scale)
		begin, end := g.span(r, b, s)
		low, high = min(low, begin), max(high, end)
	}
	if n := high - low; n > 0 {
		products.scores(scores, q, &cached{g, r.cache[0].from(b, head, low), room}, panels, n)
		for i := range products.rows {
			g.weigh(r, scores[i*g.width:][:n+1], b, (first+i)/g.share, head*g.share+(first+i)%g.share, low)
		}
		products.mix(sums, scores, &cached{g, r.cache[1].from(b, head, low), room}, n)
	} else {
		clear(sums)
	}
	for i := range products.rows {
		s, h := (first+i)/g.share, head*g.share+(first+i)%g.share
		copy(r.y[((b*g.rows+s)*g.heads+h)*g.size:][:g.size], sums[i*g.size:])
	}
}

// weigh makes weights of the scores of one query, for keys from low on. The last element is room for a score without a key.
func (g *groupQuery) weigh(r *groupRun, x []float32, b, s, h, low int) {
	begin, end := g.span(r, b, s)
	n := len(x) - 1
	if end <= begin {
		clear(x)
		return
	}
	begin, end = begin-low, end-low
	seen := x[begin:end]
	if g.limit > 0 {
		g.kernels.Apply(vec.Tanh, seen, seen, vec.Params{})
		g.kernels.BinaryScalar(vec.Mul, seen, seen, g.limit)
	}
	if r.bias != nil {
		at := ((min(b, g.bias[0]-1)*g.bias[1]+min(h, g.bias[1]-1))*g.bias[2] + s) * g.bias[3]
		row := r.bias[at:][:g.bias[3]]
		from := min(low+begin, len(row))
		row = row[from:min(low+end, len(row))]
		g.kernels.Binary(vec.Add, seen[:len(row)], seen[:len(row)], row)
	}
	switch {
	case r.sink != nil:
		seen = x[begin : end+1]
		seen[end-begin] = r.sink[h]
	case g.smooth:
		seen = x[begin : end+1]
		seen[end-begin] = 0
	}
	g.kernels.Softmax(seen, len(seen), seen, len(seen), nil, 0, 1, len(seen), 1)
	clear(x[:begin])
	clear(x[end : n+1])
}
