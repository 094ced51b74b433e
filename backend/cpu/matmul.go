package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Formats of the constant right operand of matrix products: panels of 16 columns.
var (
	packedKN = mustFormat("Ba16b") // of B[K, N]
	packedNK = mustFormat("Ab16a") // of B[N, K], transposed
)

// packable reports whether the right operand of a product is packed once: a constant, or what a loop captures, which a conversion
// before the loop packs.
func packable(b *graph.Value) bool {
	_, static := b.Type.Shape.Static()
	return fuse.IsConst(b) || static && b.Invariant()
}

// byColumns reports whether a constant that a product takes in panels, in format f, lies by columns as it is in the model, and has so few that dot
// products along them are faster than tiles of 16 (AMD Zen 2 with AVX2: one column of 64 numbers 0.38 to 0.73 of the time for 1 to 1,000
// rows, of 1,024 a quarter to a third, two to four columns of 64 and more 0.25 to 0.92, one of 16 0.65 to 0.93).
func byColumns(f graph.Format, b *graph.Value) bool {
	d, ok := b.Type.Shape.Static()
	switch {
	case !ok || len(d) != 2:
		return false
	case f == packedKN:
		return d[1] == 1 && d[0] >= leastColumn
	}
	return f == packedNK && (d[0] == 1 && d[1] >= leastColumn || d[0] <= 4 && d[1] >= 4*leastColumn)
}

// withColumns returns signatures in which constants that lie by columns stay as they are.
func withColumns(list []graph.Signature, n *graph.Node) []graph.Signature {
	for i, s := range list {
		for k, v := range n.Inputs {
			if fuse.IsConst(v) && byColumns(s.Inputs[k].Format, v) {
				s.Name, s.Inputs = "row-major", slices.Clone(s.Inputs)
				s.Inputs[k] = graph.Fixed(rowMaj)
				list[i] = s
			}
		}
	}
	return list
}

// leastColumn is the fewest numbers of a single column for dot products.
const leastColumn = 16

func matmulSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	a, b := n.Inputs[0], n.Inputs[1]
	whole := integerProduct(n)
	if whole == nil && !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(a)
	}
	if len(a.Type.Shape) == 0 || len(b.Type.Shape) == 0 {
		return nil, property.Because(property.ShapeReason, "operands of rank %d and %d", len(a.Type.Shape), len(b.Type.Shape))
	}
	s := graph.UniformSignature("row-major", n, rowMaj)
	if whole == nil && packable(b) && len(b.Type.Shape) == 2 {
		s.Name = "packed"
		s.Inputs[1] = graph.Fixed(packedKN)
	}
	return []graph.Signature{s}, nil
}

func gemmSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if integerGemm(n) != nil {
		return operators.RowMajor(n), nil
	}
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	s := graph.UniformSignature("row-major", n, rowMaj)
	b := n.Inputs[1]
	if packable(b) {
		// Few rows could read B[N, K] as it is in the model, and compiling it would not read or copy it. But a mapped file has
		// small pages: with one row of A that costs vgg11, whose classifier has 494 MB, 7 to 9 % of its time.
		s.Name, s.Inputs[1] = "packed", graph.Fixed(packedKN)
		if n.Int("transB", 0) != 0 {
			s.Inputs[1] = graph.Fixed(packedNK)
		}
	}
	return []graph.Signature{s}, nil
}

func planMatMul(p *planner, n *graph.Node) error {
	if plan := integerProduct(n); plan != nil {
		return plan(p, n)
	}
	return p.matmul(n.Inputs, n.Outputs[0], nil, tail{})
}

func planGemm(p *planner, n *graph.Node) error {
	if plan := integerGemm(n); plan != nil {
		return plan(p, n)
	}
	return p.gemm(n, n.Inputs, n.Outputs[0], tail{})
}

// gemm emits a Gemm with its tail. C is the product's bias where it has one value per column, and its residual where it is
// a whole matrix; everything else takes steps of its own behind the product.
func (p *planner) gemm(n *graph.Node, in []*graph.Value, out *graph.Value, t tail) error {
	a, b := in[0], in[1]
	da, db := p.Dims[a.ID], p.Dims[b.ID]
	spec := gemm.Spec{M: da[0], K: da[1], N: db[1], B: gemm.Rows}
	if n.Int("transB", 0) != 0 {
		spec.N, spec.B = db[0], gemm.Columns
	}
	if b.Format != rowMaj {
		spec.B, spec.Pairs, spec.Half = gemm.Packed, pairsOf(b.Format), inHalf(b.Format)
	}
	ma := p.In(a)
	if n.Int("transA", 0) != 0 {
		spec.M, spec.K = da[1], da[0]
		ma = p.Temp(ma.Size)
		p.strided(copySpec{dims: []int{spec.M, spec.K}, src: []int{1, spec.M}, dst: []int{spec.K, 1}, size: 4}, p.In(a), ma)
	}
	alpha, beta := n.Float("alpha", 1), n.Float("beta", 1)
	bias, residual, c := p.gemmAddends(n, in, out, t.residual)
	x := operands{a: ma, b: p.productWeights(b, spec.K, spec.N), dimsA: []int{spec.M, spec.K}, dimsB: db}
	if c == nil && alpha == 1 {
		t.residual = residual
		return p.product(spec, x, bias, t, out)
	}
	if err := p.product(spec, x, nil, tail{}, out); err != nil {
		return err
	}
	return p.gemmTail(alpha, beta, c, t, out)
}

// gemmAddends says how a Gemm adds C: as bias, in the place of a residual that is fused behind, or, as c, in steps of its
// own.
func (p *planner) gemmAddends(n *graph.Node, in []*graph.Value, out, fused *graph.Value) (bias, residual, c *graph.Value) {
	if len(in) < 3 || in[2] == nil {
		return nil, fused, nil
	}
	c = in[2]
	if n.Float("alpha", 1) != 1 || n.Float("beta", 1) != 1 {
		return nil, fused, c
	}
	d, dy := p.Dims[c.ID], p.Dims[out.ID]
	switch cols := dy[1]; {
	case len(d) > 0 && product(d) == cols && d[len(d)-1] == cols:
		return c, fused, nil
	case sameDims(d, dy) && fused == nil:
		return nil, c, nil
	}
	return nil, fused, c
}

// gemmResidual returns what the kernel of a Gemm adds to the whole result, nil where steps behind it do.
func (p *planner) gemmResidual(n *graph.Node, in []*graph.Value, out, fused *graph.Value) *graph.Value {
	if _, residual, c := p.gemmAddends(n, in, out, fused); c == nil && n.Float("alpha", 1) == 1 {
		return residual
	}
	return nil
}

func settleGemm(p *planner, n *graph.Node) {
	if integerGemm(n) != nil {
		return
	}
	p.overAddend(n.Outputs[0], p.gemmResidual(n, n.Inputs, n.Outputs[0], nil), n.Inputs[:2])
}

// gemmTail finishes a product in out: out·alpha + C·beta, then the tail.
func (p *planner) gemmTail(alpha, beta float32, c *graph.Value, t tail, out *graph.Value) error {
	dst, result, kernels := p.In(out), p.laid(out), p.kernels
	scale := func(dst, src place.Memory, v *graph.Value, by float32) {
		elements(p, src, dst, p.stored(v), 0.1, func(d, s []float32) { kernels.BinaryScalar(vec.Mul, d, s, by) })
	}
	if alpha != 1 {
		scale(dst, dst, out, alpha)
	}
	if c != nil {
		add := p.In(c)
		if beta != 1 {
			add = p.Temp(add.Size)
			scale(add, p.In(c), c, beta)
		}
		p.binaryOver(vec.Add, newBroadcast(result, result, compact(p.Dims[c.ID])), dst, add, dst)
	}
	if t.residual != nil {
		p.binaryOver(vec.Add, newBroadcast(result, result, p.laid(t.residual)), dst, p.In(t.residual), dst)
	}
	if t.act.some {
		p.unary(t.act, dst, dst, p.stored(out), padding{})
	}
	if t.levels.Scale != 0 {
		p.unary(rounding(t.levels), dst, dst, p.stored(out), padding{})
	}
	return nil
}

// matmul emits a MatMul with its tail; bias has one value per column.
func (p *planner) matmul(in []*graph.Value, out *graph.Value, bias *graph.Value, t tail) error {
	a, b := in[0], in[1]
	da, db := matrixDims(p.Dims[a.ID], p.Dims[b.ID])
	layout := gemm.Rows
	if b.Format != rowMaj {
		layout = gemm.Packed
	}
	spec := gemm.Spec{M: da[len(da)-2], N: db[len(db)-1], K: da[len(da)-1], B: layout, Pairs: pairsOf(b.Format), Half: inHalf(b.Format)}
	return p.product(spec, operands{a: p.In(a), b: p.productWeights(b, spec.K, spec.N), dimsA: da, dimsB: db}, bias, t, out)
}

// matrixDims returns the dims of the operands of a MatMul, vectors as matrices.
func matrixDims(a, b []int) (da, db []int) {
	if len(a) == 1 {
		a = []int{1, a[0]}
	}
	if len(b) == 1 {
		b = []int{b[0], 1}
	}
	return a, b
}

func batchDims(a, b []int) []int {
	out := make([]int, max(len(a), len(b)))
	for i := range out {
		x, y := 1, 1
		if j := i - (len(out) - len(a)); j >= 0 {
			x = a[j]
		}
		if j := i - (len(out) - len(b)); j >= 0 {
			y = b[j]
		}
		out[i] = x
		if x == 1 {
			out[i] = y
		}
	}
	return out
}

// operands are the operands of a product of matrices, which may have batch dims in front.
type operands struct {
	a, b         place.Memory
	dimsA, dimsB []int
}

// matrices are the matrices of a batch in an operand or result: where they begin, and the distance of their rows, in
// elements.
type matrices struct {
	off []int
	ld  int
}

// matricesAt returns where the matrices lie of a value of dims [batch dims…, rows, columns] at m, whose rows in memory are
// whole rows of theirs.
func matricesAt(m place.Memory, batch, dims []int) (x matrices) {
	strides, ok := m.Strides(dims, 4)
	if !ok {
		return x
	}
	own, rank := len(dims)-2, len(batch)
	x.ld = strides[own]
	steps := laid{dims[:own], strides[:own]}.broadcast(rank)
	for i := range product(batch) {
		off := 0
		for k := rank - 1; k >= 0; k-- {
			off += i % batch[k] * steps[k]
			i /= batch[k]
		}
		x.off = append(x.off, off)
	}
	return x
}

// blocksAt divides a matrix of columns at m, whose rows in memory hold whole rows of it, into count blocks of as many rows.
func blocksAt(m place.Memory, columns, count, rows int) matrices {
	r, _ := m.Runs(4 * columns)
	x := matrices{ld: r.Near / 4}
	for i := range count {
		off, _ := r.At(i*rows, rows)
		x.off = append(x.off, off/4)
	}
	return x
}

// division is how a product is done: as a batch of products of so many rows each.
type division struct {
	batch, rows int
	a, b, c, r  matrices
}

// leastSplit is the fewest rows of a product that is made in pieces, one for each of the strided
// rows of an operand or result: each piece reads B.
const leastSplit = 64

// divide divides a product with results at c and, where there is one, a residual at r. Where the second operand is one
// matrix, all batches of A are rows of one product.
func (o operands) divide(spec *gemm.Spec, c, r place.Memory) division {
	da, db := o.dimsA, o.dimsB
	if !o.oneMatrix() {
		batch := batchDims(da[:len(da)-2], db[:len(db)-2])
		dc := append(slices.Clone(batch), spec.M, spec.N)
		d := division{batch: product(batch), rows: spec.M}
		for _, x := range []struct {
			to   *matrices
			at   place.Memory
			dims []int
		}{{&d.a, o.a, da}, {&d.b, o.b, db}, {&d.c, c, dc}, {&d.r, r, dc}} {
			*x.to = matricesAt(x.at, batch, x.dims)
		}
		return d
	}
	rows := spec.M * product(da[:len(da)-2])
	d := division{rows: rows}
	for _, x := range []struct {
		at  place.Memory
		row int
	}{{o.a, spec.K}, {c, spec.N}, {r, spec.N}} {
		if runs, _ := x.at.Runs(4 * x.row); runs.Group > 0 {
			d.rows = commonDivisor(d.rows, runs.Group)
		}
	}
	d.batch = rows / max(d.rows, 1)
	d.a, d.c, d.r = blocksAt(o.a, spec.K, d.batch, d.rows), blocksAt(c, spec.N, d.batch, d.rows), blocksAt(r, spec.N, d.batch, d.rows)
	d.b = matrices{off: make([]int, d.batch), ld: spec.N}
	return d
}

// productGrain returns the fewest chunks of a product that are worth a call.
func productGrain(plan *gemm.Plan) int {
	return grainFor(float64(2*plan.Cost()) / float64(max(plan.Chunks(), 1)) / 60)
}

func commonDivisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// oneMatrix reports whether the second operand is a single matrix.
func (o operands) oneMatrix() bool { return product(o.dimsB[:len(o.dimsB)-2]) == 1 }

// productStrided is the Strided of products: of the first operand, the result and residuals whose strided rows hold whole rows
// of the matrices.
func productStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	head, in, residual := n, n.Inputs, (*graph.Value)(nil)
	if n.IsCarve(graph.OpFused) {
		l, err := p.linksOf(matmulTail, n)
		if err != nil {
			return false
		}
		head, in, residual = l.Head, fuse.Outers(n, l.Head.Inputs), fuse.Outer(n, l.Residual)
	}
	if integerProduct(head) != nil || integerGemm(head) != nil {
		return false
	}
	y := n.Outputs[0]
	if v != y && (v != in[0] && v != residual || !onlyOnce(n, v) || head.Int("transA", 0) != 0 && v == in[0]) {
		return false
	}
	da, db, d := p.Dims[in[0].ID], p.Dims[in[1].ID], p.Dims[v.ID]
	if len(da) < 2 || len(db) < 2 {
		return false
	}
	if o := (operands{dimsA: da, dimsB: db}); o.oneMatrix() {
		runs, ok := m.Runs(4 * d[len(d)-1])
		return ok && (runs.Group == 0 || runs.Group >= leastSplit)
	}
	return operators.WholeDims(p, n, v, m)
}

// product emits a matrix product, or a batch of them.
func (p *planner) product(spec gemm.Spec, o operands, bias *graph.Value, t tail, out *graph.Value) error {
	none := place.Nowhere
	mbias, mres := none, none
	if t.residual != nil {
		mres = p.In(t.residual)
	}
	dst := p.Out(out)
	if bias != nil {
		mbias = p.In(bias)
	}
	d := o.divide(&spec, dst, mres)
	spec.M, spec.LDA, spec.LDC, spec.LDR = d.rows, d.a.ld, d.c.ld, d.r.ld
	if spec.B == gemm.Rows {
		spec.LDB = d.b.ld
	}
	spec.Bias, spec.Residual = bias != nil, t.residual != nil
	if t.act.clip {
		spec.Clip, spec.Lo, spec.Hi = true, t.act.lo, t.act.hi
	}
	spec.Post = t.postRows(p.kernels)
	if spec.Pairs != pairs.Float32 {
		o.a = p.roundedRows(spec.Pairs, o.a, d.a, d.rows, spec.K)
		spec.K = pairs.Words(spec.K)
		spec.LDA = spec.K
		d.a = blocksAt(o.a, spec.K, d.batch, d.rows)
	}
	if spec.B == gemm.Rows && spec.N == 1 && spec.LDB == 1 && spec.K >= leastColumn {
		spec.B, spec.LDB = gemm.Columns, 0
	}
	if (d.batch == 1 || crowded(&spec)) && packsFirst(p.target, &spec) {
		o.b, d.b.off = p.packedFirst(o.b, d.b.off, &spec)
		spec.B, spec.LDB = gemm.Packed, 0
	}
	if d.batch == 1 {
		spec.Threads = p.e.threads
	}
	plan, err := gemm.NewPlan(p.target, spec)
	if err != nil {
		return err
	}
	st := step{chunks: d.batch * plan.Chunks(), grain: productGrain(plan), work: 1}
	batch := gemm.Batch{A: d.a.off, B: d.b.off, C: d.c.off, Res: d.r.off}
	st.body = func(st *state, _, lo, hi int) {
		plan.RunBatch(lo, hi, gemm.Args{A: st.F32(o.a), B: st.F32(o.b), Bias: st.F32(mbias), Res: st.F32(mres), C: st.F32(dst)}, batch)
	}
	p.emit(st, []place.Memory{o.a, o.b, mbias, mres}, []place.Memory{dst})
	return nil
}

// leastPacked is the fewest rows of a product whose second operand, which is no constant, is packed for it: it takes as long as some twenty of them. leastTurned is
// that of an operand by columns, which dot products would multiply, of a panel or more, or of at least one column for shortSum numbers of each. leastCrowded is that
// of one whose rows lie a multiple of crowdedBytes apart, so that all lines of a panel fall on one set of a first-level cache.
const leastPacked, leastTurned, shortSum, leastCrowded, crowdedBytes = 256, 32, 8, 32, 4096

// packsFirst reports whether the second operand is packed before a product: where tiles read it often, and the second-level cache does not hold
// it beside the rest (AMD Zen 4: 512x512x512 0.87 of the time with AVX2, 1024x1024x1024 0.64, and 0.90 with AVX-512), and in place of dot
// products (AMD Zen 2, 256 or 1,000 columns of 8 to 1,024 numbers: 0.54 to 1.04 of the time for 32 rows, 0.30 to 0.93 for 128; Intel Granite Rapids, 3 to 12 columns
// of 8 or 20 numbers, 32 to 1,000 rows: 0.25 to 1.05). Crowded ones take 0.55 to 0.75 of
// their time so (AMD Zen 3 with AVX2, 32 to 200 rows of 64 or 256 numbers, 1024 or 4096 columns). An Intel Granite Rapids (AVX-512, 2 MiB) takes 0.92 to 0.99 of
// the time from 512 rows on where the operand takes a sixteenth of that cache, and 0.86 to 0.95 from 256 rows on where its rows do not begin on lines; with AVX2
// 0.89 to 0.95 from 512 rows on where it takes an eighth.
func packsFirst(t isa.Target, s *gemm.Spec) bool {
	if t.Set == isa.Portable {
		return false
	}
	if s.B == gemm.Columns {
		return s.M >= leastTurned && (s.N >= gemm.Panel || s.N > 1 && shortSum*s.N >= s.K)
	}
	const line, manyRows, large = 64, 512, 1 << 20
	room := t.SecondCache() / 2
	switch many := s.M >= manyRows; {
	case t.SecondCache() <= large:
	case t.Set == isa.AVX512 && (many || 4*s.LDB%line != 0):
		room /= 8
	case t.Set == isa.AVX2 && many:
		room /= 4
	}
	return crowded(s) || s.B == gemm.Rows && s.M >= leastPacked && 4*s.K*s.N > room
}

// crowded reports whether lines of the second operand displace each other.
func crowded(s *gemm.Spec) bool {
	return s.B == gemm.Rows && s.M >= leastCrowded && 4*s.LDB%crowdedBytes == 0 && s.N >= gemm.Panel
}

// packedFirst emits the step that packs the matrices that begin at some elements of src, and returns where their panels are. Rows of float64 are packed as rows of
// twice as many words.
func (p *planner) packedFirst(src place.Memory, from []int, s *gemm.Spec) (panels place.Memory, at []int) {
	k, n, ld, words, target := s.K, s.N, s.LDB, 1, p.target
	pack := gemm.PackBPanels
	if s.B == gemm.Columns {
		pack, ld = gemm.PackBTPanels, max(ld, k)
	}
	turned := s.Double && s.B == gemm.Columns
	if s.Double {
		n, ld, words = 2*n, 2*ld, 2
	}
	each, size := gemm.Panels(n), gemm.PackedLen(k, n)
	var list []int // a matrix that several products read is packed once
	numbers := make(map[int]int, len(from))
	for _, f := range from {
		i, ok := numbers[f]
		if !ok {
			i, list = len(list), append(list, words*f)
			numbers[f] = i
		}
		at = append(at, i*size/words)
	}
	dst := p.Temp(4 * size * len(list))
	p.emit(step{chunks: len(list) * each, grain: grainFor(float64(k*gemm.Panel) / 8), body: func(st *state, _, lo, hi int) {
		for lo < hi {
			i, first := lo/each, lo%each
			last := min(each, first+hi-lo)
			if turned {
				packDoublesT(target, of[uint64](st, dst)[i*size/2:], of[uint64](st, src)[list[i]/2:], k, n/2, ld/2, first, last)
			} else {
				pack(target, st.F32(dst)[i*size:], st.F32(src)[list[i]:], k, n, ld, first, last)
			}
			lo += last - first
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return dst, at
}

func init() {
	table.Register("MatMul", operator{Signatures: matmulSignatures, Plan: planMatMul, Strided: productStrided})
	table.Register("Gemm", operator{Signatures: gemmSignatures, Settle: settleGemm, Plan: planGemm, Strided: productStrided})
}
