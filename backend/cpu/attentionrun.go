package cpu

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// heads are queries, keys, values or results of attention in memory: elements of a row are neighbours.
type heads struct {
	at      place.Memory
	strides [3]int          // in elements, of batch, heads and rows
	output  int             // of the group, which may have strides of the run's but for rows; -1 for none
	axes    [2]int          // of it: batch and heads, or that of batch once more where there is one head
	half    reorder.Element // of elements, where halved is set
	halved  bool
}

// bytes returns the memory from some row of a head on.
func (h *heads) bytes(st *state, batch, head, row int) []byte {
	size := 4
	if h.halved {
		size = 2
	}
	if h.output >= 0 {
		if t := st.a.Outputs[h.output]; t.Strides != nil {
			return t.Data[t.Offset+size*(batch*t.Strides[h.axes[0]]+head*t.Strides[h.axes[1]]+row*h.strides[2]):]
		}
	}
	return st.Bytes(h.at)[size*(batch*h.strides[0]+head*h.strides[1]+row*h.strides[2]):]
}

// from returns the elements from some row of a head on, which are floats.
func (h *heads) from(st *state, batch, head, row int) []float32 {
	return place.Elements[float32](h.bytes(st, batch, head, row))
}

// widen writes the first rows of a head, of size elements, as floats that lie together.
func (h *heads) widen(st *state, t isa.Target, dst []float32, batch, head, rows, size int) {
	src, step := place.Elements[uint16](h.bytes(st, batch, head, 0)), h.strides[2]
	if step == size || rows <= 1 {
		rows, size = 1, rows*size
	}
	for r := range rows {
		reorder.FromHalf(t, dst[r*size:][:size], src[r*step:][:size], h.half)
	}
}

// strides returns the distances of batch, heads and rows of a value in memory, that of heads 0 where there is one.
func (h *headsView) strides(l laid) (s [3]int) {
	for i := range s {
		if a := h.axes[i]; a != noAxis {
			s[i] = l.strides[a]
		}
	}
	return s
}

// sizes returns the dims of a value of dims d as [batch, heads, rows, size].
func (h *headsView) sizes(d []int) (s [4]int) {
	for i, a := range h.axes {
		s[i] = 1
		if a != noAxis {
			s[i] = d[a]
		}
	}
	return s
}

// headsIn returns where an operand's heads lie.
func (p *planner) headsIn(n *graph.Node, view *headsView) heads {
	v := fuse.Outer(n, view.value)
	l := p.laid(v)
	h := heads{at: p.In(v), output: -1, axes: [2]int{view.axes[0], max(view.axes[1], 0)}, strides: view.strides(l)}
	if p.Slots[h.at.Slot].Kind == place.Output {
		h.output = slices.Index(p.Sub.Outputs, v)
	}
	h.half, h.halved = halves[v.Type.DType]
	return h
}

// term is a scoreTerm in memory.
type term struct {
	scoreTerm
	at      place.Memory
	strides [4]int // of what broadcasts to the scores
}

// attention is attention of known shapes.
type attention struct {
	batch, heads, share  int // share heads of queries in a row have one of keys
	rows, keys, size, to int // queries and keys of a head, their sizes, and those of values
	q, k, v, y           heads
	scale                float32 // of keys in panels of float32; others have the first of terms
	terms                []term
	zeros                bool  // rows of NaN become 0
	unseen               *term // a condition of rows, which become 0 where it is true; nil for none
	grouped              bool  // the heads of queries that share one of keys are the rows of a product
	block, blocks        int   // rows of a product, and products that rows are divided into
	width                int   // from one row of scores to the next
	whole, last          [2]*gemm.Plan
	packed               [2]place.Memory // keys and values in panels, by batch and head; Nowhere where they are read as they lie
	panels               [2]int          // floats of those of a head
	alone                bool            // a head is one product, whose worker writes the panels
	wide                 int             // floats of a head's keys or values that a worker makes of half precision
	scratch              place.Memory    // scores of a product, by worker, and panels of a head that is alone
	floats               int             // of those of a worker
	pairs                pairs.Type      // of what products are; if not float32, queries and scores are rounded behind the panels in scratch
	ldq                  int             // elements from row to row of a product's queries
	kernels              vec.Kernels
}

// directRows is the most rows of a product that reads keys as they lie.
const directRows = 8

// blockRows are the rows of queries whose scores are made at a time.
const blockRows = 64

// scoresWidth returns from one row of scores to the next for so many keys: rows of several lines begin with one, and not all in the same few sets
// of a cache. With AVX-512 on an Intel Granite Rapids 12 heads of 197 rows take 0.91 of their time so, in
// blocks of 50 rows in place of 64.
func scoresWidth(keys int) int {
	const line, far = 16, 256 // floats
	if keys <= line {
		return keys
	}
	width := roundUp(keys, line)
	if width%far == 0 {
		width += line
	}
	return width
}

// attentionOf reads a fused node, once.
func (p *planner) attentionOf(n *graph.Node) (*attentionForm, error) {
	return keep(p.e, n, func() (*attentionForm, error) {
		f, why := fusedAttention(n)
		if why != nil {
			return nil, why
		}
		return f, nil
	})
}

func planAttention(p *planner, n *graph.Node) error {
	f, err := p.attentionOf(n)
	if err != nil {
		return err
	}
	dims := func(h *headsView) [4]int { return h.sizes(p.Dims[fuse.Outer(n, h.value).ID]) }
	dq, dk, dv := dims(&f.q), dims(&f.k), dims(&f.v)
	a := &attention{batch: dq[0], heads: dq[1], share: int(f.k.share), rows: dq[2], keys: dk[2], size: dq[3], to: dv[3], scale: f.scale, zeros: f.zeros,
		q: p.headsIn(n, &f.q), k: p.headsIn(n, &f.k), v: p.headsIn(n, &f.v), kernels: p.kernels, packed: [2]place.Memory{place.Nowhere, place.Nowhere}}
	a.y = heads{at: p.Out(n.Outputs[0]), output: -1, strides: f.out.strides(p.laid(n.Outputs[0]))}
	scores := make([]int, len(f.scores.value.Type.Shape))
	for i, axis := range f.scores.axes {
		if axis != noAxis {
			scores[axis] = [4]int{a.batch, a.heads, a.rows, a.keys}[i]
		}
	}
	reads := []place.Memory{a.q.at, a.k.at, a.v.at}
	for _, t := range f.terms {
		x, err := p.termOf(n, f, t, scores)
		if err != nil {
			return err
		}
		if a.terms = append(a.terms, x); t.by != nil {
			reads = append(reads, x.at)
		}
	}
	if f.unseen != nil {
		x, err := p.termOf(n, f, scoreTerm{by: f.unseen}, scores)
		if err != nil {
			return err
		}
		a.unseen, reads = &x, append(reads, x.at)
	}
	return p.emitAttention(a, reads)
}

// termOf returns where what a term has beside scores of some dims lies.
func (p *planner) termOf(n *graph.Node, f *attentionForm, t scoreTerm, scores []int) (term, error) {
	x := term{scoreTerm: t, at: place.Nowhere}
	if t.by == nil {
		return x, nil
	}
	v := fuse.Outer(n, t.by)
	l := p.laid(v)
	if !broadcasts(l.dims, scores) {
		return x, property.Because(property.ShapeReason, "%v: %v for scores of %v", n, l.dims, scores)
	}
	for i, step := range l.broadcast(len(scores)) {
		x.strides[slices.Index(f.scores.axes[:], i)] = step
	}
	x.at = p.In(v)
	return x, nil
}

// broadcasts reports whether a value of some dims gives others that it is broadcast to.
func broadcasts(d, to []int) bool {
	to = to[len(to)-len(d):]
	for i, n := range d {
		if n != 1 && n != to[i] {
			return false
		}
	}
	return true
}

// emitAttention emits the steps of attention that reads these places.
func (p *planner) emitAttention(a *attention, reads []place.Memory) error {
	a.grouped = a.rows == 1 && a.share > 1
	high, ldq, ldy := a.rows, a.q.strides[2], a.y.strides[2]
	if a.grouped {
		high, ldq, ldy = a.share, a.q.strides[1], a.y.strides[1]
	}
	a.ldq = ldq
	a.blocks = ceilDiv(high, blockRows)
	a.block = ceilDiv(high, max(a.blocks, 1))
	a.width = scoresWidth(a.keys)
	keys, values, ldk, ldv := gemm.Columns, gemm.Rows, a.k.strides[2], a.v.strides[2]
	if a.k.halved {
		ldk, a.wide = a.size, a.keys*a.size
	}
	if a.v.halved {
		ldv, a.wide = a.to, max(a.wide, a.keys*a.to)
	}
	if high > directRows {
		keys, ldk = gemm.Packed, 0
		a.panels[0] = gemm.PackedLen(a.size, a.keys)
		if a.pairs = p.e.pairs; a.pairs != pairs.Float32 {
			values, ldv, a.panels = gemm.Packed, 0, [2]int{gemm.PackedLen(pairs.Words(a.size), a.keys), gemm.PackedLen(pairs.Words(a.keys), a.to)}
		} else if a.v.halved || a.to > gemm.TileColumns(p.target, a.block) { // else a tile reads whole rows of values, once
			values, ldv = gemm.Packed, 0
			a.panels[1] = gemm.PackedLen(a.keys, a.to)
		}
		if a.alone = a.blocks == 1 && a.share == 1; !a.alone {
			p.packHeads(a)
			reads = append(reads, a.packed[:]...)
		}
	}
	if a.scale != 1 && (keys == gemm.Columns || a.pairs != pairs.Float32) {
		a.terms = slices.Insert(a.terms, 0, term{scoreTerm: scoreTerm{op: "Mul", number: a.scale}, at: place.Nowhere})
	}
	for _, x := range []struct {
		plans *[2]*gemm.Plan
		rows  int
	}{{&a.whole, a.block}, {&a.last, high - (a.blocks-1)*a.block}} {
		for i, s := range []gemm.Spec{
			{M: x.rows, N: a.keys, K: a.size, LDA: lead(ldq, x.rows), B: keys, LDB: ldk, LDC: lead(a.width, x.rows)},
			{M: x.rows, N: a.to, K: a.keys, LDA: lead(a.width, x.rows), B: values, LDB: ldv, LDC: lead(ldy, x.rows)},
		} {
			if a.pairs != pairs.Float32 {
				s.Pairs, s.K, s.LDA = a.pairs, pairs.Words(s.K), 0
			}
			plan, err := gemm.NewPlan(p.target, s)
			if err != nil {
				return err
			}
			x.plans[i] = plan
		}
	}
	a.floats = a.block * a.width
	if a.alone {
		a.floats += a.panels[0] + a.panels[1]
	}
	if a.alone || keys == gemm.Columns {
		a.floats += a.wide
	}
	if a.pairs != pairs.Float32 {
		a.floats += a.block * pairs.Words(max(a.size, a.keys))
	}
	a.floats = roundUp(a.floats, 16)
	a.scratch = p.Temp(4 * a.floats * p.e.threads)
	items := a.batch * a.heads * a.blocks
	if a.grouped {
		items /= a.share
	}
	nanos := float64(a.block*a.keys) * (float64(a.size+a.to)/30 + 1)
	p.emit(step{work: 1, chunks: items, grain: grainFor(nanos + 200), body: func(st *state, worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			a.item(st, worker, i)
		}
	}}, append(reads, a.scratch), []place.Memory{a.y.at, a.scratch})
	return nil
}

// lead returns the distance of rows, 0 where there is one row.
func lead(stride, rows int) int {
	if rows <= 1 {
		return 0
	}
	return stride
}

// packHeads emits the step that writes keys, and values where they are wanted so, into panels for all blocks of queries.
func (p *planner) packHeads(a *attention) {
	own := a.heads / a.share
	for i, n := range a.panels {
		if n > 0 {
			a.packed[i] = p.Temp(4 * n * a.batch * own)
		}
	}
	target, wide := p.target, p.scratch(4*a.wide)
	p.emit(step{chunks: a.batch * own, grain: grainFor(float64(a.panels[0]+a.panels[1]) / 8), body: func(st *state, worker, lo, hi int) {
		keys, values := st.F32(a.packed[0]), st.F32(a.packed[1])
		for i := lo; i < hi; i++ {
			a.pack(st, target, i/own, i%own, keys[i*a.panels[0]:], values[i*a.panels[1]:], wide.floats(st, worker))
		}
	}}, []place.Memory{a.k.at, a.v.at}, append(a.packed[:], wide.at))
}

// rowsOf returns a head's keys or values and the distance of their rows; wide has room for them.
func (a *attention) rowsOf(st *state, h *heads, batch, head, size int, wide []float32) ([]float32, int) {
	if !h.halved {
		return h.from(st, batch, head, 0), h.strides[2]
	}
	h.widen(st, a.whole[0].Target(), wide, batch, head, a.keys, size)
	return wide, size
}

// pack writes a head of keys and values into panels: as they lie, its rows are as far apart as those of all heads together, on few
// sets of a cache and many pages. Keys and values that become floats first are so one after the other in wide.
func (a *attention) pack(st *state, target isa.Target, batch, head int, keys, values, wide []float32) {
	rows, ld := a.rowsOf(st, &a.k, batch, head, a.size, wide)
	if a.pairs != pairs.Float32 {
		gemm.PackPairsT(target, a.pairs, pairs.OfFloats(keys[:a.panels[0]]), rows, a.size, a.keys, ld)
		rows, ld = a.rowsOf(st, &a.v, batch, head, a.to, wide)
		gemm.PackPairs(target, a.pairs, pairs.OfFloats(values[:a.panels[1]]), rows, a.keys, a.to, ld)
		return
	}
	gemm.PackBT(target, keys[:a.panels[0]], rows, a.size, a.keys, ld)
	if a.scale != 1 {
		a.kernels.BinaryScalar(vec.Mul, keys[:a.panels[0]], keys[:a.panels[0]], a.scale)
	}
	if a.panels[1] > 0 {
		rows, ld = a.rowsOf(st, &a.v, batch, head, a.to, wide)
		gemm.PackB(target, values[:a.panels[1]], rows, a.keys, a.to, ld)
	}
}

// item computes the rows of a block of a head, or of all heads of a group.
func (a *attention) item(st *state, worker, i int) {
	block, head := i%a.blocks, i/a.blocks
	if a.grouped {
		head *= a.share
	}
	batch, head := head/a.heads, head%a.heads
	own := head / a.share
	plans, first := &a.whole, block*a.block
	if block == a.blocks-1 {
		plans = &a.last
	}
	rows := plans[0].Spec().M
	scratch := st.F32(a.scratch)[worker*a.floats:][:a.floats]
	scores := scratch[:rows*a.width]
	x := gemm.Args{C: scores}
	y := gemm.Args{A: scores}
	row := first
	if a.grouped {
		head, row = head+first, 0
	}
	x.A = a.q.from(st, batch, head, row)
	room := scratch[a.block*a.width:]
	x.B, y.B = a.operands(st, batch, own, room)
	if x.B == nil {
		x.B, _ = a.rowsOf(st, &a.k, batch, own, a.size, room)
	}
	var words []float32
	if a.pairs != pairs.Float32 {
		words = scratch[len(scratch)-a.block*pairs.Words(max(a.size, a.keys)):]
		a.pairs.Matrix(plans[0].Target(), pairs.OfFloats(words), x.A, rows, a.size, a.ldq)
		x.A = words
	}
	plans[0].Run(0, plans[0].Chunks(), x)
	for k := range a.terms {
		a.change(st, &a.terms[k], scores, batch, head, row, rows)
	}
	a.kernels.Softmax(scores, a.width, scores, a.width, nil, 0, rows, a.keys, 1)
	a.clearRows(st, scores, batch, head, row, rows)
	if a.pairs != pairs.Float32 {
		a.pairs.Matrix(plans[1].Target(), pairs.OfFloats(words), scores, rows, a.keys, a.width)
		y.A = words
	}
	if y.B == nil {
		y.B, _ = a.rowsOf(st, &a.v, batch, own, a.to, room)
	}
	y.C = a.y.from(st, batch, head, row)
	plans[1].Run(0, plans[1].Chunks(), y)
}

// clearRows makes rows of the softmax of scores 0, where they are NaN and attention has it so, or where its condition says so.
func (a *attention) clearRows(st *state, p []float32, batch, head, row, rows int) {
	if a.keys == 0 || a.unseen == nil && !a.zeros {
		return
	}
	var unseen []byte
	at, step := 0, 0
	if a.unseen != nil {
		unseen = st.Bytes(a.unseen.at)
		at, step = a.unseen.rowAt(batch, head, row), a.rowStep(a.unseen)
	}
	for r := range rows {
		x := p[r*a.width:][:a.keys]
		if unseen != nil && unseen[at+r*step] != 0 || a.zeros && math.IsNaN(float64(x[0])) {
			clear(x)
		}
	}
}

// rowAt returns where the elements begin that a term has for a row of a head.
func (t *term) rowAt(batch, head, row int) int {
	return batch*t.strides[0] + head*t.strides[1] + row*t.strides[2]
}

// rowStep returns how far a term's elements lie apart for rows of scores below each other, which are heads where they are grouped.
func (a *attention) rowStep(t *term) int {
	if a.grouped {
		return t.strides[1]
	}
	return t.strides[2]
}

// operands returns keys and values of a head that are in panels; room is for those of a head that is alone. Others are nil: they are read
// as they lie, when they are multiplied.
func (a *attention) operands(st *state, batch, head int, room []float32) (keys, values []float32) {
	n := batch*(a.heads/a.share) + head
	switch {
	case a.alone:
		keys, values = room[:a.panels[0]], room[a.panels[0]:][:a.panels[1]]
		a.pack(st, a.whole[0].Target(), batch, head, keys, values, room[a.panels[0]+a.panels[1]:])
	case a.packed[0].Slot >= 0:
		keys, values = st.F32(a.packed[0])[n*a.panels[0]:], st.F32(a.packed[1])
		if a.panels[1] > 0 {
			values = values[n*a.panels[1]:]
		}
	}
	if a.panels[1] == 0 {
		values = nil
	}
	return keys, values
}

// change applies a term to the scores of rows from row on, or where they are grouped of heads from head on.
func (a *attention) change(st *state, t *term, scores []float32, batch, head, row, rows int) {
	with := func(op vec.BinaryOp, form vec.Form, b []float32, step int) {
		a.kernels.BinaryRows(op, form, scores, a.width, scores, a.width, b, step, rows, a.keys)
	}
	at, step := t.rowAt(batch, head, row), a.rowStep(t)
	switch {
	case t.op == "Mul":
		with(vec.Mul, vec.VS, []float32{t.number}, 0)
	case t.op == "Div":
		with(vec.Div, vec.VS, []float32{t.number}, 0)
	case t.op == "Add" && t.strides[3] == 0:
		with(vec.Add, vec.VS, st.F32(t.at)[at:], step)
	case t.op == "Add":
		with(vec.Add, vec.VV, st.F32(t.at)[at:], step)
	default:
		for r := range rows {
			mask(scores[r*a.width:][:a.keys], st.Bytes(t.at)[at+r*step:], t.strides[3], t.where, t.number)
		}
	}
}

// mask writes number where the condition is as where says. Conditions are apart by step, 0 or 1.
func mask(x []float32, cond []byte, step int, where bool, number float32) {
	if step == 0 {
		if (cond[0] != 0) == where {
			for i := range x {
				x[i] = number
			}
		}
		return
	}
	for i, c := range cond[:len(x)] {
		if (c != 0) == where {
			x[i] = number
		}
	}
}
