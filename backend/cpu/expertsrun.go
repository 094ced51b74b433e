package cpu

import (
	"math"
	"math/bits"

	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
)

// emit emits the steps: experts are chosen, rows gathered, layers computed expert by expert, and results mixed.
func (g *experts) emit() {
	p := g.p
	ints := func(n int) place.Memory { return p.Temp(4 * n) }
	g.chosen, g.weights, g.order, g.at = ints(g.pairs), ints(g.pairs), ints(g.pairs), ints(g.pairs)
	g.starts, g.active = ints(g.count+1), ints(g.count+1)
	g.rows, g.inner2, g.out = ints(g.pairs*g.layers[0].pitch), ints(g.pairs*g.layers[1].pitch), ints(g.pairs*g.hidden)
	near := p.scratch(4 * 2 * g.inner)
	p.emit(step{chunks: g.tokens, grain: grainFor(float64(2 * g.count * g.Chosen)), body: func(st *state, _, lo, hi int) {
		for t := lo; t < hi; t++ {
			g.route(st, t)
		}
	}}, []place.Memory{g.routing, g.mix}, []place.Memory{g.chosen, g.weights})
	p.emit(step{chunks: g.pairs, grain: grainFor(float64(g.hidden)), serial: g.sort, body: func(st *state, _, lo, hi int) {
		x, order := st.F32(g.x), of[int32](st, g.order)
		for i := lo; i < hi; i++ {
			g.put(st, g.layers[0], g.rows, x[int(order[i])/g.Chosen*g.hidden:][:g.hidden], i)
		}
	}}, []place.Memory{g.x, g.chosen}, []place.Memory{g.order, g.at, g.starts, g.active, g.rows})
	h := ints(g.pairs * g.layers[0].n)
	g.multiply(0, g.rows, h)
	beside := place.Nowhere
	if g.layers[2] != nil {
		beside = ints(g.pairs * g.layers[2].n)
		g.multiply(2, g.rows, beside)
	}
	p.emit(step{chunks: g.pairs, grain: grainFor(2 * float64(g.inner)), body: func(st *state, worker, lo, hi int) {
		a, b, scratch := st.F32(h), st.F32(beside), near.floats(st, worker)
		for i := lo; i < hi; i++ {
			var linear []float32
			if b != nil {
				linear = b[i*g.inner:][:g.inner]
			}
			row := a[i*g.layers[0].n:][:g.layers[0].n]
			g.activate(row, linear, scratch)
			g.put(st, g.layers[1], g.inner2, row[:g.inner], i)
		}
	}}, []place.Memory{h, beside, g.order, g.chosen, g.starts}, []place.Memory{h, g.inner2, near.at})
	g.multiply(1, g.inner2, g.out)
	p.emit(step{chunks: g.tokens, grain: grainFor(float64(g.Chosen * g.hidden)), body: func(st *state, _, lo, hi int) {
		y, from, weights, at := st.F32(g.y), st.F32(g.out), st.F32(g.weights), of[int32](st, g.at)
		for t := lo; t < hi; t++ {
			row := y[t*g.hidden:][:g.hidden]
			clear(row)
			for i := t * g.Chosen; i < (t+1)*g.Chosen; i++ {
				w := weights[i]
				for j, v := range from[int(at[i])*g.hidden:][:g.hidden] {
					row[j] += w * v
				}
			}
		}
	}}, []place.Memory{g.out, g.weights, g.at}, []place.Memory{g.y})
}

// route chooses the experts of a token, of equal ones the first, and what part each has.
func (g *experts) route(st *state, t int) {
	row := st.F32(g.routing)[t*g.count:][:g.count]
	chosen, weights := of[int32](st, g.chosen)[t*g.Chosen:][:g.Chosen], st.F32(g.weights)[t*g.Chosen:][:g.Chosen]
	for j := range chosen {
		best := -1
	next:
		for i, v := range row {
			if best >= 0 && !(v > row[best]) {
				continue
			}
			for _, other := range chosen[:j] {
				if int(other) == i {
					continue next
				}
			}
			best = i
		}
		chosen[j] = int32(best) // experts of a tensor in memory
	}
	sum, most := 0.0, float64(row[chosen[0]])
	if g.Mix >= 0 {
		mix := st.F32(g.mix)[t*g.count:][:g.count]
		for j, i := range chosen {
			weights[j] = mix[i]
			sum += float64(mix[i])
		}
		if !g.OfChosen {
			return
		}
	} else {
		for j, i := range chosen {
			weights[j] = float32(math.Exp(float64(row[i]) - most))
			sum += float64(weights[j])
		}
		if !g.OfChosen {
			sum = 0
			for _, v := range row {
				sum += math.Exp(float64(v) - most)
			}
		}
	}
	for j, w := range weights {
		weights[j] = float32(float64(w) / sum)
	}
}

// sort brings pairs into the order of their experts.
func (g *experts) sort(st *state) {
	chosen, starts, active := of[int32](st, g.chosen), of[int32](st, g.starts), of[int32](st, g.active)
	order, at := of[int32](st, g.order), of[int32](st, g.at)
	clear(starts)
	for _, e := range chosen {
		starts[e+1]++
	}
	active[0] = 0
	for e := range g.count {
		if starts[e+1] > 0 {
			active[0]++
			active[active[0]] = int32(e) // experts of a tensor in memory
		}
		starts[e+1] += starts[e]
	}
	for i, e := range chosen {
		at[i] = starts[e]
		order[starts[e]] = int32(i) // likewise
		starts[e]++
	}
	copy(starts[1:], starts[:g.count]) // each has become where its pairs end
	starts[0] = 0
}

// put writes row i of a layer's operands, as its kernel reads it.
func (g *experts) put(st *state, l *expertLayer, at place.Memory, src []float32, i int) {
	dst := at.Part(4*i*l.pitch, 4*l.pitch)
	e, starts := of[int32](st, g.chosen)[of[int32](st, g.order)[i]], of[int32](st, g.starts)
	if l.reads(int(starts[e+1] - starts[e])) {
		l.blocks.put(st.Bytes(dst), src)
	} else {
		copy(st.F32(dst), src)
	}
}

// activate computes what the second layer reads: of a row of the first, and of the one beside it, into the beginning of the row.
func (g *experts) activate(row, linear, scratch []float32) {
	k := g.p.kernels
	switch g.Activation {
	case "relu":
		k.Apply(vec.Relu, row, row, vec.Params{})
	case "silu":
		k.Apply(vec.Silu, row, row, vec.Params{})
	case "gelu":
		k.Apply(vec.GeluTanh, row, row, vec.Params{})
	case "swiglu":
		gate, x := scratch[:g.inner], scratch[g.inner:][:g.inner]
		switch {
		case linear != nil:
			copy(gate, row)
			copy(x, linear)
		case g.Turns:
			for i := range gate {
				gate[i], x[i] = row[2*i], row[2*i+1]
			}
		default:
			copy(gate, row)
			copy(x, row[g.inner:])
		}
		row = row[:g.inner]
		k.Apply(vec.Clip, gate, gate, vec.Params{A: -math.MaxFloat32, B: g.Limit})
		k.Apply(vec.Clip, x, x, vec.Params{A: -g.Limit, B: g.Limit})
		k.BinaryScalar(vec.Mul, row, gate, g.Alpha)
		k.Apply(vec.Sigmoid, row, row, vec.Params{})
		k.Binary(vec.Mul, row, row, gate)
		k.BinaryScalar(vec.Add, x, x, g.Beta)
		k.Binary(vec.Mul, row, row, x)
		return
	}
	if linear != nil {
		k.Binary(vec.Mul, row, row, linear)
	}
}

// multiply emits the products of layer i: of the rows of every expert that has some with its weights.
func (g *experts) multiply(i int, src, dst place.Memory) {
	l, at, p := g.layers[i], &g.ports[i], g.p
	scratch := p.scratch(4 * gemm.PackedLen(l.k, min(l.columns, l.n)))
	most := min(g.count, g.pairs)
	rows := float64(max(g.pairs/most, 1))
	p.emit(step{work: 1, chunks: most * l.chunks(), grain: grainFor(rows * float64(l.k*l.columns) / 30), body: func(st *state, worker, lo, hi int) {
		active, starts := of[int32](st, g.active), of[int32](st, g.starts)
		for c := lo; c < hi; c++ {
			if x := c / l.chunks(); x < int(active[0]) {
				e := int(active[1+x])
				first, n := int(starts[e]), int(starts[e+1]-starts[e])
				column := c % l.chunks() * l.columns
				a := src.Part(4*first*l.pitch, 4*n*l.pitch)
				g.part(st, l, i, e, column, a, st.F32(dst)[first*l.n+column:], n, scratch.floats(st, worker))
			}
		}
	}}, []place.Memory{src, g.active, g.starts, at.weights, at.scales, at.bias}, []place.Memory{dst, scratch.at})
}

// part multiplies the rows of an expert with its columns from first on, those of a chunk.
func (g *experts) part(st *state, l *expertLayer, i, e, first int, a place.Memory, out []float32, rows int, scratch []float32) {
	n, plans := l.columns, &l.whole
	if n >= l.n-first {
		n, plans = l.n-first, &l.last
	}
	column := e*l.n + first
	var bias []float32
	if b := st.F32(g.ports[i].bias); b != nil {
		bias = b[column:][:n]
	}
	if l.reads(rows) {
		w := *l.blocks
		w.bytes, w.scales = g.ports[i].weights, g.ports[i].scales
		w.multiply(st, out, l.n, st.Bytes(a), rows, e, first, n)
		for r := 0; bias != nil && r < rows; r++ {
			for j, b := range bias {
				out[r*l.n+j] += b
			}
		}
		return
	}
	use, b := g.operand(st, l, i, e, first, n, plans, rows, scratch)
	for r, from := 0, st.F32(a); r < rows; {
		m := min(bits.Len(uint(rows-r)), len(use)) - 1 // positive
		use[m].Run(0, use[m].Chunks(), gemm.Args{A: from[r*l.pitch:], B: b, Bias: bias, C: out[r*l.n:]})
		r += 1 << m
	}
}

// operand returns n columns of an expert's weights as floats, in panels, or as they lie where they meet few rows, and the products that read
// them so.
func (g *experts) operand(st *state, l *expertLayer, i, e, first, n int, plans *expertPlans, rows int, panels []float32) (use []*gemm.Plan, b []float32) {
	if l.blocks != nil {
		w := *l.blocks
		w.bytes, w.scales = g.ports[i].weights, g.ports[i].scales
		w.unpack(st, panels, e, first, n, l.k)
		return plans.packed, panels
	}
	b = st.F32(g.ports[i].weights)[(e*l.n+first)*l.k:][:n*l.k]
	if rows <= expertFew {
		return plans.direct, b
	}
	gemm.PackBT(g.p.target, panels, b, l.k, n, l.k)
	return plans.packed, panels
}
